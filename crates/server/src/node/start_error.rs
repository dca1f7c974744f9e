//! Why a node did not start, told to the operator: what is wrong, and what to do about it.

use std::io;

use record::ClusterId;
use storage::DirectoryError;

use crate::config::ConfigError;
use crate::peers::JoinError;

/// Why a node did not start. Each is one sentence for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration has a value that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Where the data directory should be is something else.
    #[error("{0} is not a directory; choose one with --data")]
    NoDirectory(String),
    /// Another process has the data directory.
    #[error(
        "{0} is in use by another ropewalk process; stop that one, or choose another directory with --data"
    )]
    InUse(String),
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({key}): {error}; {} names another address", flag_of(.key))]
    Listen {
        /// The address.
        address: String,
        /// The configuration key that chose it.
        key: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// The directory's node has been alone, and is to join a cluster.
    #[error(
        "the node of {directory} has a cluster of its own, {cluster}, and cannot join another: take cluster.join (--join) away, or \
         choose an empty directory"
    )]
    OwnCluster {
        /// The directory.
        directory: String,
        /// Its cluster.
        cluster: ClusterId,
    },
    /// The directory's node had its part of the metadata group, and has it no more.
    #[error(
        "{0}/metadata/log is missing: the others rely on what this node has promised there. Put it back, or have an empty directory join as \
         another node"
    )]
    PartLost(String),
    /// A node is to be of a cluster that it has not joined.
    #[error("{0} is empty: its node has to join the cluster before it starts")]
    NotJoined(String),
    /// The node could not join a cluster.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Stored data cannot be opened.
    #[error("{0}")]
    Storage(String),
    /// The system refused a thread.
    #[error("a thread could not be started: {0}")]
    Thread(io::Error),
}

/// The flag of `ropewalk serve` for an address.
fn flag_of(key: &str) -> &'static str {
    match key {
        "kafka.listen" => "--kafka",
        "peer.listen" => "--peer",
        _ => "--http",
    }
}

/// The start error for a data directory's.
pub(super) fn of_directory(directory: String, error: io::Error) -> StartError {
    match error.kind() {
        // A file stands there, or on the way there.
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => StartError::NoDirectory(directory),
        _ => DirectoryError::Disk { directory, error }.into(),
    }
}
