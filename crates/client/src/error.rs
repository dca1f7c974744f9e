//! Errors between this client and a broker, with advice to the caller.
//!
//! A connection that reports anything but `Broker` is not used again: its framing can no longer be trusted.

use std::io;
use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode, Text, VersionRange, WireError};
use record::{BatchError, Offset};

/// Why a request has no good answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Not `host:port`, or a name that nobody knows.
    #[error("cannot find {address}: {reason}")]
    Address {
        /// The address as it was given.
        address: String,
        /// The resolver's words.
        reason: String,
    },
    /// Nobody listens, or nobody answers.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The broker's address.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The connection ended. What was in flight may or may not have been done.
    #[error("the connection to {address} ended: {reason}")]
    Disconnected {
        /// The broker's address.
        address: String,
        /// The reason.
        reason: String,
    },
    /// No whole answer in time. What was asked for may still be done.
    #[error("{address} did not answer {api:?} within {after:?}")]
    Timeout {
        /// The broker's address.
        address: String,
        /// The request.
        api: ApiKey,
        /// The time that was waited.
        after: Duration,
    },
    /// The answer's bytes do not make sense.
    #[error("{address} answered {api:?} with bytes that cannot be read: {source}")]
    Wire {
        /// The broker's address.
        address: String,
        /// The request.
        api: ApiKey,
        /// The fault in them.
        source: WireError,
    },
    /// An answer longer than this client takes, or too short for any.
    #[error("{address} announces an answer of {length_bytes} bytes; 4 to {limit_bytes} are taken")]
    FrameLength {
        /// The broker's address.
        address: String,
        /// The length in the bytes.
        length_bytes: i64,
        /// The most that is taken.
        limit_bytes: usize,
    },
    /// The answer to another request than the one that is due.
    #[error("{address} answered request {received} where the answer to {expected} is due")]
    Correlation {
        /// The broker's address.
        address: String,
        /// The number of the oldest request in flight.
        expected: i32,
        /// The number in the answer.
        received: i32,
    },
    /// The broker lacks an API, or every version of it that this client speaks.
    #[error("{address} does not offer {api:?} in a version that this client speaks (it has {})", shown(*.offered))]
    Versions {
        /// The broker's address.
        address: String,
        /// The API.
        api: ApiKey,
        /// The versions that the broker offers.
        offered: Option<VersionRange>,
    },
    /// The broker understood and said no.
    #[error("{operation}: {code}{}", message.as_deref().map(|text| format!(" ({text})")).unwrap_or_default())]
    Broker {
        /// The request, with names.
        operation: String,
        /// Its error code.
        code: ErrorCode,
        /// Its own words if it gave any, or the rule where the answer has no place for words.
        message: Option<String>,
    },
    /// The answer lacks what was asked for.
    #[error("{operation}: the answer says nothing about it")]
    NotAnswered {
        /// The request, with names.
        operation: String,
    },
    /// The partition has no leader now, or the leader is not among the brokers.
    #[error("partition {partition} of topic {topic} has no leader now")]
    NoLeader {
        /// The topic's name.
        topic: String,
        /// The partition's index.
        partition: i32,
    },
    /// The topic that was read is gone. What has its name now, if anything, is another one: its offsets mean other records.
    #[error("topic {topic} was deleted{}", if *made_again { ", and made again: that is another one" } else { "" })]
    TopicDeleted {
        /// Its name.
        topic: String,
        /// Says if there is another one of that name.
        made_again: bool,
    },
    /// A leader came back without what was read of it: records that were acknowledged before they were flushed, or by a leader
    /// that had not all. At the same offsets there may be others.
    #[error(
        "partition {partition} of topic {topic} was read to offset {read_to}, of which its leader has lost what lies behind {kept_to}"
    )]
    RecordsLost {
        /// The topic's name.
        topic: String,
        /// The partition's index.
        partition: i32,
        /// Where reading would go on.
        read_to: Offset,
        /// Up to here both are the same.
        kept_to: Offset,
    },
    /// A batch whose bytes are not what a broker may serve.
    #[error("batch behind offset {near_offset}: {source}")]
    Batch {
        /// The offset that was fetched.
        near_offset: Offset,
        /// The fault in it.
        source: BatchError,
    },
    /// The partition's next batch is larger than what a fetch may return.
    #[error("the batch at offset {offset} does not fit a fetch of {fetch_bytes} bytes: allow more")]
    FetchTooSmall {
        /// The offset that was fetched.
        offset: Offset,
        /// Bytes that the fetch allowed.
        fetch_bytes: i32,
    },
    /// Options that contradict each other.
    #[error("{0}")]
    Options(String),
}

/// Advice about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Ask again on the same connection after a pause.
    Retry,
    /// Connect anew, then ask again. Whether the first attempt took effect is not known.
    Reconnect,
    /// Refresh the metadata, then ask the partition's leader.
    Redirect,
    /// Change the request: the same one fails again.
    Fix,
    /// Bytes are damaged, or the other side does not speak Kafka's protocol. Stop and look.
    Corrupt,
}

impl ClientError {
    /// A broker's refusal by the number on the wire; codes that are not known keep their number in the message.
    #[must_use]
    pub fn broker(operation: impl Into<String>, code: i16, message: Option<&str>) -> ClientError {
        let operation = operation.into();
        let message = message.filter(|text| !text.is_empty()).map(str::to_owned);
        match ErrorCode::from_code(code) {
            Some(code) => ClientError::Broker {
                operation,
                code,
                message,
            },
            None => ClientError::Broker {
                operation,
                code: ErrorCode::UnknownServerError,
                message: Some(format!("code {code}, which this client does not know")),
            },
        }
    }

    /// The broker's error code, if the broker said no.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            ClientError::Broker { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The advice to the caller.
    #[must_use]
    pub fn advice(&self) -> Advice {
        match self {
            ClientError::Connect { .. } | ClientError::Disconnected { .. } | ClientError::Timeout { .. } => {
                Advice::Reconnect
            }
            ClientError::NoLeader { .. } => Advice::Redirect,
            ClientError::Wire { .. }
            | ClientError::FrameLength { .. }
            | ClientError::Correlation { .. }
            | ClientError::NotAnswered { .. }
            | ClientError::Batch { .. } => Advice::Corrupt,
            ClientError::Address { .. }
            | ClientError::Versions { .. }
            | ClientError::FetchTooSmall { .. }
            | ClientError::TopicDeleted { .. }
            | ClientError::RecordsLost { .. }
            | ClientError::Options(_) => Advice::Fix,
            ClientError::Broker { code, .. } => broker_advice(*code),
        }
    }

    /// Says if asking again, after following `advice`, can succeed.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(
            self.advice(),
            Advice::Retry | Advice::Reconnect | Advice::Redirect
        )
    }
}

fn broker_advice(code: ErrorCode) -> Advice {
    match code {
        ErrorCode::NotLeaderOrFollower
        | ErrorCode::LeaderNotAvailable
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::InconsistentTopicId
        | ErrorCode::FencedLeaderEpoch
        | ErrorCode::UnknownLeaderEpoch
        | ErrorCode::ReplicaNotAvailable
        | ErrorCode::KafkaStorageError => Advice::Redirect,
        ErrorCode::CorruptMessage => Advice::Corrupt,
        code if code.is_retriable() => Advice::Retry,
        _ => Advice::Fix,
    }
}

/// A broker's answer about one operation, as an error unless it was "none".
pub(crate) fn succeeded(operation: impl Into<String>, outcome: Option<(i16, Option<&Text>)>) -> Result<()> {
    match outcome {
        Some((0, _)) => Ok(()),
        Some((code, message)) => Err(ClientError::broker(operation, code, message.map(Text::as_str))),
        None => Err(ClientError::NotAnswered {
            operation: operation.into(),
        }),
    }
}

fn shown(range: Option<VersionRange>) -> String {
    match range {
        Some(VersionRange { first, last }) => format!("versions {first} to {last}"),
        None => "none".to_owned(),
    }
}

/// The result of most functions here.
pub type Result<T, E = ClientError> = std::result::Result<T, E>;
