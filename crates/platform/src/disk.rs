//! Files, as the rest of Ropewalk sees them: the directory of one node behind two small traits.
//!
//! Everything that is stored goes through `Disk` and `File`, so that a test can put a simulated disk in
//! their place: one that tears writes, loses what was not synced, fails the k-th call. All calls block;
//! the caller decides on which thread. Nothing above this crate may open a file by itself.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

mod real;
mod relative_path;
mod simulated;

pub use real::RealDisk;
pub use simulated::{
    Applied, Call, CrashPoint, CrashStates, FaultKind, Operation, OperationKind, SimulatedDisk,
};

/// The unit of alignment of durable writes, in bytes: positions and lengths are multiples of it.
pub const BLOCK_BYTES: usize = 4096;

/// One directory tree. Paths are relative to its root and never climb out of it.
pub trait Disk: Send + Sync + 'static {
    /// Opens an existing file for reading and writing. `NotFound` if there is none.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Creates a file of length zero; `AlreadyExists` if there is one. The name is durable after
    /// `sync_directory` of its parent.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>>;

    /// Reads a small file whole; `InvalidData` if it is longer than `bytes_max`.
    fn read_whole(&self, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>>;

    /// Replaces a small file so that after a crash either the old or the new content is there, whole: write aside,
    /// sync, rename, sync the directory. Durable on return.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Names in a directory, sorted; empty if the directory does not exist.
    fn list(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Creates a directory and its parents; no error if it is there.
    fn create_directory(&self, directory: &Path) -> io::Result<()>;

    /// Renames a file within the tree, replacing the target. Durable after `sync_directory`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file; no error if there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and what is in it; no error if there is none.
    fn remove_directory(&self, directory: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// Bytes that can still be allocated.
    fn free_bytes(&self) -> io::Result<u64>;

    /// The size of the disk, in use or not.
    fn total_bytes(&self) -> io::Result<u64>;

    /// Takes the tree for this process alone until the lock is dropped; `WouldBlock` if another has it.
    fn lock(&self) -> io::Result<Box<dyn Lock>>;

    /// The way by which durable writes reach the disk here, for status pages and warnings.
    fn durable_write_mode(&self) -> DurableWriteMode;

    /// Where the tree is, for messages.
    fn root(&self) -> PathBuf;
}

/// A held directory lock; released when dropped.
pub trait Lock: Send + Sync {}

/// One open file. Shared by threads; calls on disjoint ranges do not disturb each other.
pub trait File: Send + Sync {
    /// Writes `bytes` at `position`; on return they are on the disk (O_DIRECT with RWF_DSYNC, or write and
    /// fdatasync). `position`, the length and the address of `bytes` are multiples of `BLOCK_BYTES`.
    /// After an error the content of the range is unknown and the call must not be repeated.
    fn write_durable(&self, position: u64, bytes: &[u8]) -> io::Result<()>;

    /// Writes `bytes` at `position` (aligned as in `write_durable`); durable only after `sync`.
    fn write(&self, position: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes everything written so far durable, with the length of the file. After an error nothing written since
    /// the last success may be counted on, and the call must not be repeated.
    fn sync(&self) -> io::Result<()>;

    /// Reads exactly `length` bytes at `position`, of any alignment; `UnexpectedEof` if the file ends before.
    fn read(&self, position: u64, length: usize) -> io::Result<Bytes>;

    /// The same for who can wait: so little is asked of the disk at once that durable writes hardly wait for it.
    fn read_patiently(&self, position: u64, length: usize) -> io::Result<Bytes> {
        self.read(position, length)
    }

    /// Shortens a file that has no name any more, and gives what it had behind `length` back to the disk: a large file that goes
    /// at once makes durable writes wait, on a disk that is told of freed blocks. `InvalidInput` if it has a name, and might be
    /// found by it again, or is shorter already.
    fn shrink_unnamed(&self, length: u64) -> io::Result<()>;

    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Fills `[0, length)` with written zeros (not a hole, not an unwritten extent) and syncs, so that later durable
    /// writes inside it change no file-system metadata.
    fn fill_with_zeros(&self, length: u64) -> io::Result<()> {
        self.fill_with_zeros_at(length, &|_, _| ControlFlow::Continue(Duration::ZERO))
    }

    /// The same at a pace that is asked for between writes. Where it breaks off, this ends: what is left reads as zeros and
    /// has its space all the same, but the first durable write to it takes longer. A file system that has no space without
    /// written bytes is not asked: there all is written at once.
    fn fill_with_zeros_at(&self, length: u64, pace: Pace<'_>) -> io::Result<()>;
}

/// Told how many bytes are filled and how long the last write took, says how long to rest before the next, or that none is wanted.
pub type Pace<'a> = &'a dyn Fn(u64, Duration) -> ControlFlow<(), Duration>;

/// The error of `File::shrink_unnamed` for files that must stay as they are.
fn not_to_shrink(length: u64) -> io::Error {
    let message = format!("a file that has a name, or is shorter, is not shortened to {length} bytes");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// The way in which `File::write_durable` works on this file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurableWriteMode {
    /// O_DIRECT and RWF_DSYNC: one call, no page cache.
    Direct,
    /// Through the page cache, then fdatasync: the file system refuses O_DIRECT (tmpfs).
    Buffered,
    /// Simulated.
    Simulated,
}
