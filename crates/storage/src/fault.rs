//! Faults of stored bytes. Each names the file; none is ever skipped over in silence.

use std::{fmt, io};

/// The disk failed, or what a file holds is not what was written.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The disk failed.
    #[error("{doing} {file} failed: {error}")]
    Disk {
        /// The call that failed.
        doing: Doing,
        /// The file.
        file: String,
        /// The disk's error.
        #[source]
        error: io::Error,
    },
    /// Bytes that were durable are damaged, missing, or another file's. They are not served; restore them from a backup.
    #[error("{file} is damaged at byte {position}: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// Where in it.
        position: u64,
        /// The fault.
        what: String,
    },
    /// The file was written by a version of ropewalk that this one cannot read.
    #[error("{file} has format version {version}{}; nothing was changed", remedy(*version, *known))]
    UnknownVersion {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
        /// The version that is read here.
        known: u32,
    },
}

/// The remedy for a file or a directory of another version than the `known` one.
pub(crate) fn remedy(version: u32, known: u32) -> String {
    match version < known {
        true => format!(
            ", from before the first release, and this version of ropewalk reads version {known} only: keep the directory for the \
             version that wrote it, and start this one with an empty directory"
        ),
        false => format!(
            ", and this version of ropewalk reads version {known} only: use the version that wrote it, or a newer one"
        ),
    }
}

impl Fault {
    /// Says whether the file could not be looked at, which says nothing about its bytes. A file that is missing, or that ends early,
    /// is damage.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
        match self {
            Fault::Disk { error, .. } => !matches!(error.kind(), NotFound | UnexpectedEof | InvalidData),
            Fault::Damaged { .. } | Fault::UnknownVersion { .. } => false,
        }
    }

    /// Says whether this user may not look at the file.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(self, Fault::Disk { error, .. } if error.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// A call on the disk that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Opening a file that should be there.
    Opening,
    /// Making a file or a directory.
    Creating,
    /// Reading a file or a directory.
    Reading,
    /// Writing.
    Writing,
    /// Making what was written durable.
    Syncing,
    /// Removing a file.
    Removing,
}

impl fmt::Display for Doing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Doing::Opening => "opening",
            Doing::Creating => "creating",
            Doing::Reading => "reading",
            Doing::Writing => "writing",
            Doing::Syncing => "syncing",
            Doing::Removing => "removing",
        })
    }
}

impl Doing {
    /// The failure of this call with the disk's error.
    pub(crate) fn failed(self, error: io::Error) -> Failed {
        Failed { doing: self, error }
    }
}

/// A call on the disk that failed, wherever the file's name is not at hand.
#[derive(Debug)]
pub(crate) struct Failed {
    doing: Doing,
    error: io::Error,
}

impl Failed {
    /// The fault of the file that it befell.
    pub(crate) fn at(self, file: impl Into<String>) -> Fault {
        Fault::Disk {
            doing: self.doing,
            file: file.into(),
            error: self.error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_fault_says_what_failed_and_keeps_its_kind() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let fault = Doing::Writing.failed(full).at("some.segment");
        assert_eq!(fault.to_string(), "writing some.segment failed: no storage space");
        assert!(matches!(fault, Fault::Disk { error, .. } if error.kind() == io::ErrorKind::StorageFull));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_damaged_and_one_that_is_missing_is() {
        let failed = |error: io::Error| Doing::Opening.failed(error).at("some.segment");
        let denied = failed(io::ErrorKind::PermissionDenied.into());
        assert!(denied.is_unreadable() && denied.is_denied());
        let broken = failed(io::Error::from_raw_os_error(5));
        assert!(broken.is_unreadable() && !broken.is_denied());
        assert!(!failed(io::ErrorKind::NotFound.into()).is_unreadable());
        let damaged = Fault::Damaged {
            file: "some.segment".to_owned(),
            position: 0,
            what: "a bit is turned".to_owned(),
        };
        assert!(!damaged.is_unreadable());
    }
}
