//! One open file of a real disk: aligned writes, unaligned reads, and what a short or interrupted call is turned into.
//!
//! A call that the system cut short is continued from the last whole block; a call that failed is reported and never
//! repeated, for after a failed flush the system may drop the data and say yes the next time.

use std::fs;
use std::io::{self, IoSlice};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use rustix::fs::{FallocateFlags, fallocate, fdatasync, fsync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwritev2, retry_on_intr};

use super::pace::ReadPace;
use crate::disk::{BLOCK_BYTES, DurableWriteMode, File, Pace, not_to_shrink};
use crate::memory::AlignedBuffer;

/// Bytes that filling with zeros writes in one call: so few that a durable write beside it waits for it only briefly.
const FILL_STEP_BYTES: usize = 128 << 10;

/// Bytes that one call of a patient read asks for. On the raw disk the p99 of writes of 4 KB beside reads is what it is alone with
/// this, and twice that with twice as much.
const PATIENT_STEP_BYTES: usize = 64 << 10;

/// An open file, in Direct mode opened with O_DIRECT.
pub(super) struct RealFile {
    file: fs::File,
    mode: DurableWriteMode,
    pace: Arc<ReadPace>,
}

impl RealFile {
    pub(super) fn new(file: fs::File, mode: DurableWriteMode, pace: Arc<ReadPace>) -> RealFile {
        RealFile { file, mode, pace }
    }

    /// Writes all of `bytes` with the given flags on each call.
    fn write_all(&self, position: u64, bytes: &[u8], flags: ReadWriteFlags) -> io::Result<()> {
        continue_short_writes(position, bytes, |position, rest| {
            retry_on_intr(|| pwritev2(&self.file, &[IoSlice::new(rest)], position, flags))
                .map_err(io::Error::from)
        })
    }

    /// Makes the file as long, with space that is its own though not written. False if the file system has no such thing.
    fn take_space(&self, length: u64) -> io::Result<bool> {
        match retry_on_intr(|| fallocate(&self.file, FallocateFlags::empty(), 0, length)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks for `step_bytes` of what is left at a time: whole blocks, if it is not all.
    fn read_in_steps(
        &self,
        position: u64,
        length: usize,
        step_bytes: impl Fn(usize) -> usize,
    ) -> io::Result<Bytes> {
        let end = read_end(position, length)?;
        // A length from a damaged index must not become an allocation.
        if end > self.length()? {
            return Err(unexpected_end(position, length));
        }
        if length == 0 {
            return Ok(Bytes::new());
        }
        let block = BLOCK_BYTES as u64;
        let first = position / block * block;
        let span = usize::try_from(end.next_multiple_of(block) - first)
            .expect("little longer than a usize that fitted");
        let mut buffer = AlignedBuffer::with_capacity(span);
        let read = continue_short_reads(first, span, |position| {
            loop {
                let step = step_bytes(span - (position - first) as usize);
                match buffer.read_into_rest(|rest| pread(&self.file, &mut rest[..step], position)) {
                    Err(Errno::INTR) => {}
                    other => return Ok(other?),
                }
            }
        })?;
        let skip = (position - first) as usize;
        if read < skip + length {
            return Err(unexpected_end(position, length));
        }
        Ok(buffer.into_bytes().slice(skip..skip + length))
    }
}

/// Calls `write_some(position, rest)` until all of `bytes` is written. A call that stops inside a block is continued from
/// that block's start, which keeps address, position and length aligned; rewriting the part is harmless, as it is the
/// same bytes. A call that completes no block at all ends in `WriteZero`.
pub(super) fn continue_short_writes(
    position: u64,
    bytes: &[u8],
    mut write_some: impl FnMut(u64, &[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let written = write_some(position + done as u64, &bytes[done..])?;
        let whole = if done + written == bytes.len() {
            written
        } else {
            written / BLOCK_BYTES * BLOCK_BYTES
        };
        if whole == 0 {
            return Err(io::Error::new(
                io::ErrorKind::WriteZero,
                "the disk took no whole block",
            ));
        }
        done += whole;
    }
    Ok(())
}

/// Reads `length` bytes from `position` on by calling `read_some(position)`, which says how much it got, until all
/// is there or the file ends; returns how much was read. A direct read that stops inside a block has met the end of the
/// file.
pub(super) fn continue_short_reads(
    position: u64,
    length: usize,
    mut read_some: impl FnMut(u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < length {
        let read = read_some(position + done as u64)?;
        done += read;
        if read == 0 || !done.is_multiple_of(BLOCK_BYTES) {
            break;
        }
    }
    Ok(done)
}

/// Refuses what O_DIRECT would refuse, in both modes, so that a mistake shows on every file system.
fn check_aligned(position: u64, bytes: &[u8]) -> io::Result<()> {
    let block = BLOCK_BYTES as u64;
    let aligned = position.is_multiple_of(block)
        && bytes.len().is_multiple_of(BLOCK_BYTES)
        && (bytes.is_empty() || (bytes.as_ptr() as usize).is_multiple_of(BLOCK_BYTES));
    let fits = position
        .checked_add(bytes.len() as u64)
        .is_some_and(|end| i64::try_from(end).is_ok());
    if aligned && fits {
        return Ok(());
    }
    let message = format!(
        "write of {} bytes at {position} is not aligned to {BLOCK_BYTES}",
        bytes.len()
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// The end of `length` bytes at `position`, if a file can reach it.
fn read_end(position: u64, length: usize) -> io::Result<u64> {
    position
        .checked_add(length as u64)
        .filter(|end| i64::try_from(*end).is_ok())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the range to read ends beyond any file",
            )
        })
}

fn unexpected_end(position: u64, length: usize) -> io::Error {
    let message = format!("the file ends before {length} bytes at {position}");
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

impl File for RealFile {
    fn write_durable(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        check_aligned(position, bytes)?;
        self.pace.note_durable_write();
        match self.mode {
            DurableWriteMode::Direct => self.write_all(position, bytes, ReadWriteFlags::DSYNC),
            _ => {
                self.write_all(position, bytes, ReadWriteFlags::empty())?;
                self.sync()
            }
        }
    }

    fn write(&self, position: u64, bytes: &[u8]) -> io::Result<()> {
        check_aligned(position, bytes)?;
        self.write_all(position, bytes, ReadWriteFlags::empty())
    }

    fn sync(&self) -> io::Result<()> {
        // Not repeated on EINTR: a sync that reports an error has consumed it, and the next would say yes.
        Ok(fdatasync(&self.file)?)
    }

    fn read(&self, position: u64, length: usize) -> io::Result<Bytes> {
        self.read_in_steps(position, length, |left| self.pace.step_bytes(left))
    }

    fn read_patiently(&self, position: u64, length: usize) -> io::Result<Bytes> {
        self.read_in_steps(position, length, |left| left.min(PATIENT_STEP_BYTES))
    }

    fn shrink_unnamed(&self, length: u64) -> io::Result<()> {
        let file = self.file.metadata()?;
        if file.nlink() > 0 || file.len() < length {
            return Err(not_to_shrink(length));
        }
        self.file.set_len(length)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn fill_with_zeros_at(&self, length: u64, pace: Pace<'_>) -> io::Result<()> {
        let zeros = AlignedBuffer::zeroed(FILL_STEP_BYTES);
        check_aligned(length, &zeros)?;
        // Asking for all of it first gives few, long extents; writing turns them into written ones.
        let has_space = length > 0 && self.take_space(length)?;
        let mut position = 0;
        while position < length {
            let step = (length - position).min(FILL_STEP_BYTES as u64) as usize;
            let began = Instant::now();
            self.write_all(position, &zeros[..step], ReadWriteFlags::empty())?;
            position += step as u64;
            if has_space && position < length {
                match pace(position, began.elapsed()) {
                    ControlFlow::Continue(rest) if rest.is_zero() => {}
                    ControlFlow::Continue(rest) => thread::sleep(rest),
                    ControlFlow::Break(()) => break,
                }
            }
        }
        Ok(fsync(&self.file)?)
    }
}
