//! The errors of spaces.

use client::ClientError;

/// The outcome of what may fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an entry has no effect, whoever plays it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The object with this name is another one.
    #[error("{object:?} is a {is}, and is used as a {wanted}")]
    Kind {
        /// Its name.
        object: String,
        /// What it is.
        is: &'static str,
        /// What it was used as.
        wanted: &'static str,
    },
    /// A counter would pass its bounds.
    #[error("the counter {object:?} would pass the bounds of a signed number of 64 bits")]
    Overflow {
        /// Its name.
        object: String,
    },
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log did not answer as it should. An append may have been carried out all the same: its effect shows in the next read.
    #[error(transparent)]
    Log(#[from] ClientError),
    /// The broker has appended an entry and does not say where.
    #[error("the entry is in the log, and the broker does not say where; read to see its effect")]
    Unplaced,
    /// The topic's records are in several orders.
    #[error(
        "topic {topic} has {partitions} partitions, each with an order of its own; a topic with ropewalk.order=total has one order as {topic}@total"
    )]
    Partitions {
        /// Its name.
        topic: String,
        /// Their number.
        partitions: usize,
    },
    /// An entry cannot be read.
    #[error(
        "the entry at position {position} cannot be read: {why}; a later version of this library may have written it"
    )]
    Unreadable {
        /// Its position.
        position: u64,
        /// The reason.
        why: String,
    },
    /// What a view was to begin with is gone.
    #[error(
        "the log begins at position {log_start}, and there is no checkpoint of what was before; the view ends at {next}"
    )]
    Trimmed {
        /// The first position that is left.
        log_start: u64,
        /// The one that was to be played next.
        next: u64,
    },
    /// It was in the log, and had no effect, for everybody.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A name of an object, or a key, is empty or too long.
    #[error("a name or key has {bytes} bytes: it has 1 to {bytes_max}")]
    Name {
        /// Its length.
        bytes: usize,
        /// The longest.
        bytes_max: usize,
    },
    /// A value is not of the type that it is read as.
    #[error("a value of {object:?} is not what it is read as: {why}")]
    Value {
        /// The object.
        object: String,
        /// The reason.
        why: String,
    },
    /// A checkpoint cannot be read.
    #[error("the checkpoint at position {position} cannot be read: {why}")]
    Checkpoint {
        /// The position that it stands for.
        position: u64,
        /// The reason.
        why: String,
    },
    /// A transaction was given up by the function that it runs.
    #[error("the transaction was given up")]
    GivenUp,
}
