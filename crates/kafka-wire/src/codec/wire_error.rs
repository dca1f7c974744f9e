//! Faults in bytes from a peer. All of them are the peer's, and none is worth a retry:
//! after one of these the connection's framing can no longer be trusted, so the node closes it.

use crate::ApiKey;

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The frame ends inside a value.
    #[error("the frame ends early: {needed} bytes needed, {remaining} left")]
    Short {
        /// Bytes that the value takes.
        needed: usize,
        /// Bytes that the frame still has.
        remaining: usize,
    },
    /// An unsigned varint that does not fit 32 bits.
    #[error("a varint does not fit 32 bits")]
    VarintTooLong,
    /// A length or count below zero that does not stand for null.
    #[error("length {length} is negative")]
    NegativeLength {
        /// The length read.
        length: i64,
    },
    /// Null where the version does not allow it.
    #[error("null in a field that cannot be null")]
    UnexpectedNull,
    /// A nullable struct announced by something else than 1 or -1.
    #[error("null marker {marker} is neither 1 nor -1")]
    NullMarker {
        /// The marker read.
        marker: i8,
    },
    /// A text longer than any that Kafka accepts.
    #[error("a text of {length} bytes is too long")]
    TextTooLong {
        /// The text's length in bytes.
        length: usize,
    },
    /// A text that is not UTF-8.
    #[error("a text is not UTF-8 after its first {valid_bytes} bytes")]
    NotUtf8 {
        /// Bytes up to the first bad one.
        valid_bytes: usize,
    },
    /// An array whose elements cannot all be in what is left of the frame.
    #[error(
        "an array of {count} elements of at least {element_bytes_min} bytes does not fit {remaining} bytes"
    )]
    CountTooLarge {
        /// Elements announced.
        count: usize,
        /// The fewest bytes that one of them takes.
        element_bytes_min: usize,
        /// Bytes that the frame still has.
        remaining: usize,
    },
    /// The frame's arrays would take more memory than one frame may.
    #[error(
        "{count} elements of {element_bytes} bytes exceed the {left_bytes} bytes of memory left to the frame"
    )]
    TooMany {
        /// Elements announced.
        count: usize,
        /// Bytes that one of them takes in memory.
        element_bytes: usize,
        /// The rest of the frame's budget.
        left_bytes: usize,
    },
    /// A tagged field that does not fill the size it announced, or exceeds it.
    #[error("tagged field {tag} announced {announced} bytes and took {taken}")]
    TagSize {
        /// The field's tag.
        tag: u32,
        /// The size in front of it.
        announced: usize,
        /// The bytes that its value took.
        taken: usize,
    },
    /// Bytes after the message's end.
    #[error("{remaining} bytes follow the message")]
    TrailingBytes {
        /// The number of bytes.
        remaining: usize,
    },
    /// An API this codec does not know.
    #[error("API key {key} is unknown")]
    UnknownApi {
        /// The key read.
        key: i16,
    },
    /// A version that the API's schema does not have.
    #[error("{api:?} has no version {version}")]
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
        /// The version asked for.
        version: i16,
    },
}
