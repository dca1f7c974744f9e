//! What can be wrong with stored bytes. Each names the file; none is ever skipped over in silence.

use std::io;

/// A file could not be read, or what it holds is not what was written.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The disk failed.
    #[error("reading {file} failed: {error}")]
    Disk {
        /// The file.
        file: String,
        /// What the disk said.
        error: io::Error,
    },
    /// Bytes that were durable are damaged, missing, or another file's. They are not served; restore them from a
    /// replica or a backup.
    #[error("{file} is damaged at byte {position}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        position: u64,
        /// What is wrong.
        what: String,
    },
    /// The file was written by a version that this one does not know.
    #[error(
        "{file} has format version {version}, which this version of ropewalk does not know; nothing was changed"
    )]
    UnknownVersion {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
}
