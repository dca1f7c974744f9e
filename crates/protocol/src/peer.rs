//! The messages that nodes send each other over a connection, as bytes and back (docs/protocols/peers.md).
//!
//! Stands between the connections of a node and its replicas. A connection begins with a [`Hello`] of either side, which [`admit`]
//! takes or refuses; then a [`Decoder`] gives what arrives, one [`Message`] after the other, and [`Message::encode`] makes the bytes of
//! what is sent. Nothing here may believe a length, a count or an offset of a peer before it was compared with a limit or with the
//! bytes that are there, hand out a message whose checksums do not hold, or copy the batches of an append.

mod admission;
mod batches;
mod decoder;
mod header;
mod hello;
mod join;
mod message;
mod order;
mod range;
mod relay;
mod replica;
#[cfg(test)]
mod tests;

pub use admission::{Admitted, KnownNode, Own, admit};
pub use batches::{BatchesError, facts_of};
pub use decoder::{Decoder, GREETING_BYTES_MAX, MessageError, Phase};
pub use header::{HEADER_BYTES, Kind};
pub use hello::{Hello, REFUSED_TEXT_BYTES_MAX, Reason, Refused, ShardPair, Versions, WIRE_VERSIONS};
pub use join::{Join, Joined, in_one_line};
pub use message::{Encoded, Heartbeat, Message, Numbered, ReplicaMessage};
pub use range::{RangeAnswer, RangeWish};
pub use relay::{ONWARD_MAX, Relay, Way};
