//! Durable logs in a process: open, append, read, follow, trim. No server, no runtime, no configuration file.
//!
//! The logs of a directory share one journal: an append returns when its record is flushed to the disk, and appends of several
//! threads share a flush. A thread that appends alone runs the flush itself, so it takes little longer than the flush. In the
//! background the journal is laid out into segments. All of it is the storage of a Ropewalk node, byte for byte: `ropewalk check`
//! and `ropewalk inspect` understand the directory, and a node started on it serves the logs as topics.
//!
//! # What is promised
//! - *Acknowledged means durable.* When [`Log::append`] has returned an offset, the record is there after any crash.
//! - A batch ([`Log::append_batch`]) is there whole, or not at all.
//! - Readers see durable records only. Offsets have no gaps (but in a topic that a node compacted), and a record never changes
//!   its offset.
//! - A read of trimmed records is answered as such ([`ReadError::OutOfRange`]), one of damaged bytes as damage; neither is ever
//!   passed over.
//! - A flush that failed is never tried again: the logs refuse appends from then on ([`AppendError::Dead`]), and go on being read.
//!
//! # What it does not do
//! - A log cannot be deleted, only trimmed: [`Logs::log`] makes what it does not find, [`Logs::find`] does not.
//! - Nothing is atomic over several logs.
//! - There is no append that does not wait for its flush.
//! - Records are appended without headers and uncompressed, with the time of their append; no search goes by time.
//! - There are no sizes of logs and no statistics.
//! - Two names that differ in `.` and `_` only collide, as in Kafka.
//! - It runs on Linux only, and needs Rust 1.90.
//!
//! # In async code
//! Every call may wait for the disk or for a lock, and so may dropping the last handle. Call from `spawn_blocking` or its like,
//! or from a thread that has the log to itself and takes work through a channel.
//!
//! # Example: the state of a counter that survives a crash
//! ```
//! use ropewalk::{Logs, Offset};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let directory = temporary.path().join("counter");
//! let logs = Logs::open(&directory)?;
//! let changes = logs.log("changes")?;
//!
//! // After a start: all changes acknowledged before, and perhaps one more that was under way.
//! let mut counter: i64 = 0;
//! for record in changes.read(changes.start())? {
//!     let value = record?.value.unwrap_or_default();
//!     counter += i64::from_le_bytes(value[..].try_into()?);
//! }
//! assert_eq!(counter, 0, "the directory is new");
//!
//! // A change is made when it is durable.
//! for change in [5_i64, -2] {
//!     changes.append(&change.to_le_bytes())?;
//!     counter += change;
//! }
//! // Several at once share one flush, and are there together or not at all.
//! let offsets = changes.append_batch([&7_i64.to_le_bytes(), &1_i64.to_le_bytes()])?;
//! counter += 8;
//! assert_eq!((offsets.start, offsets.end), (Offset(2), Offset(4)));
//!
//! // Other threads may follow, from any offset that is kept.
//! let follower = std::thread::spawn({
//!     let changes = changes.clone();
//!     move || -> Result<usize, ropewalk::ReadError> {
//!         let mut seen = 0;
//!         for record in changes.follow(Offset(0))? {
//!             record?;
//!             seen += 1;
//!             if seen == 4 {
//!                 break;
//!             }
//!         }
//!         Ok(seen)
//!     }
//! });
//! assert_eq!(follower.join().expect("it does not panic")?, 4);
//!
//! // Old changes are given up. Later openings begin with the snapshot.
//! let snapshot = changes.append(&counter.to_le_bytes())?;
//! changes.trim(snapshot)?;
//! assert_eq!(changes.bounds(), Offset(4)..Offset(5));
//!
//! logs.close();
//! # Ok(())
//! # }
//! ```
//!
//! `examples/key_value.rs` is a small key-value store over two logs, and `examples/append_latency.rs` measures.

mod append;
mod background;
mod cursor;
mod engine;
mod group_commit;
mod log;
mod logs;
mod names;
mod settings;

#[cfg(test)]
mod tests;

pub use append::{AppendError, NewRecord};
pub use cursor::ReadError;
pub use log::{Follower, Log, Reader, TrimError};
pub use logs::{Logs, OpenError};
pub use names::LogError;
pub use settings::{SettingError, Settings};

// Types of the signatures above, so that users need not name the crates that have them.
pub use bytes::Bytes;
pub use record::{BatchError, Offset, Record};
pub use storage::{DirectoryError, Doing, Fault};
