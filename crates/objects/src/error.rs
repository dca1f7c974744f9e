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
        /// Its kind.
        is: &'static str,
        /// The kind that it was used as.
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
    /// The log did not answer as it should. An append may have been carried out all the same, or may be yet.
    #[error(transparent)]
    Log(#[from] ClientError),
    /// An entry was appended, and it is not known what it has come to: the broker does not say where it is, or others have forgotten it by now.
    #[error("the entry is in the log, and it is not known what it has come to; read to see its effect")]
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
    /// The records that were to be played next are gone.
    #[error(
        "the log begins at position {log_start}, the view ends at {next}, and no checkpoint stands for what was between"
    )]
    Trimmed {
        /// The first position that is left.
        log_start: u64,
        /// The one that was to be played next.
        next: u64,
    },
    /// There is nothing where a record has to be.
    #[error(
        "the log ends at position {tail}, and nothing is found at {next}: it was given up (retention, a trim), or cannot be read, as a node's log tells then"
    )]
    Missing {
        /// The position that was to be played next.
        next: u64,
        /// The end of the log, as far as it was to be played.
        tail: u64,
    },
    /// The log ends before what was played of it.
    #[error(
        "the log ends at position {tail}, and was played up to {next}: it was made again, or has lost records"
    )]
    Shorter {
        /// The end of the log.
        tail: u64,
        /// The position that is to be played next.
        next: u64,
    },
    /// Nothing has this position yet.
    #[error("the log ends at position {tail}: there is no state at {position} yet")]
    Ahead {
        /// The position that was asked for.
        position: u64,
        /// The end of the log.
        tail: u64,
    },
    /// A twin has records of others, and they would go, too.
    #[error(
        "{name} is the order of a whole topic, whose other records would be given up, too: trim the topic by itself"
    )]
    Twin {
        /// Its name.
        name: String,
    },
    /// It was in the log, and had no effect, for everybody.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A name of an object, or a key, is too long, or a name is empty.
    #[error("{what} has {bytes} bytes: names have 1 to {bytes_max}, keys up to {bytes_max}")]
    Name {
        /// Its beginning, and whether it is a name or a key.
        what: String,
        /// Its length.
        bytes: usize,
        /// The longest.
        bytes_max: usize,
    },
    /// A value is not of the type that it is read as, or cannot be kept.
    #[error("a value of {object:?}: {why}")]
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
