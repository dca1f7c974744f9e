//! The messages of a connection, out of the bytes that have arrived.
//!
//! Stands behind the socket of one connection, from its first byte to its last. It must never wait for the end of a message whose
//! length is beyond the limit, nor let a stranger, who has not been admitted yet, fill more than [`GREETING_BYTES_MAX`].

use bytes::BytesMut;
use thiserror::Error;

use super::header::{HEADER_BYTES, Header, Kind};
use super::hello::WIRE_VERSIONS;
use super::message::Message;
use crate::encoding::DecodeError;

/// Bytes that the body of a message has at most before its sender is admitted.
pub const GREETING_BYTES_MAX: usize = 1024;

/// The fault of bytes that are no message. The connection is to be closed: where the next message begins is not known any more.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MessageError {
    /// The checksum of a header does not hold.
    #[error(
        "these bytes are not the header of a message: they were damaged, or something else than a node of Ropewalk is speaking"
    )]
    NotAPeer,
    /// The reserved bytes of a header are not zero.
    #[error("reserved bytes are in use: a newer version wrote this message, upgrade this node")]
    Reserved,
    /// There is no such kind of message.
    #[error("there is no kind {kind} of messages: a newer version wrote this one, upgrade this node")]
    UnknownKind {
        /// The kind's byte.
        kind: u8,
    },
    /// The message is longer than what is taken.
    #[error("a {} of {body_bytes} bytes was announced, and at most {body_bytes_max} are taken", .kind.name())]
    TooLong {
        /// The kind of the message.
        kind: Kind,
        /// The announced length of its body.
        body_bytes: usize,
        /// The longest body that is taken of this sender.
        body_bytes_max: usize,
    },
    /// The message may not come now.
    #[error("a {} may not come {}", .kind.name(), .phase.name())]
    OutOfPlace {
        /// The kind of the message.
        kind: Kind,
        /// The progress of the connection.
        phase: Phase,
    },
    /// The message is of a later version than both sides have agreed on.
    #[error("a {} may not come on a connection of version {version}: it is of version {}", .kind.name(), .kind.since())]
    Newer {
        /// The kind of the message.
        kind: Kind,
        /// The version of the connection.
        version: u16,
    },
    /// The checksum of a body does not hold.
    #[error("the body of a {} does not match its checksum: it was damaged on its way", .kind.name())]
    Damaged {
        /// The kind of the message.
        kind: Kind,
    },
    /// The message is whole, and says what cannot be.
    #[error("a {} cannot be read: {error}", .kind.name())]
    Content {
        /// The kind of the message.
        kind: Kind,
        /// The part that cannot be read.
        error: DecodeError,
    },
}

/// The progress of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has come yet.
    AwaitsHello,
    /// The first message has come and was not taken yet.
    AwaitsAdmission,
    /// The peer was admitted.
    Admitted,
}

impl Phase {
    /// The phase, as errors have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::AwaitsHello => "before a hello",
            Phase::AwaitsAdmission => "before its sender is admitted",
            Phase::Admitted => "once its sender is admitted",
        }
    }

    fn takes(self, kind: Kind) -> bool {
        match kind {
            Kind::Hello | Kind::Join | Kind::Joined => self == Phase::AwaitsHello,
            // The other side may refuse a connection that was taken here.
            Kind::Refused => true,
            Kind::Heartbeat
            | Kind::Prompt
            | Kind::Sworn
            | Kind::Group
            | Kind::Proposal
            | Kind::Peers
            | Kind::Durable
            | Kind::Witnessed
            | Kind::Beat
            | Kind::RangeWish
            | Kind::RangeAnswer
            | Kind::Relay
            | Kind::Http
            | Kind::Committed
            | Kind::Ordered
            | Kind::Ask
            | Kind::Told => self == Phase::Admitted,
        }
    }
}

/// Takes the bytes of one connection apart.
#[derive(Debug, Clone)]
pub struct Decoder {
    phase: Phase,
    version: u16,
    body_bytes_max: usize,
    wanted_bytes: usize,
    broken: Option<MessageError>,
}

impl Decoder {
    /// The decoder of a new connection. Messages of an admitted peer have at most `body_bytes_max` bytes behind their header: more than
    /// any batch of a topic, and any history of a partition, that this node may be sent.
    #[must_use]
    pub fn new(body_bytes_max: usize) -> Decoder {
        Decoder {
            phase: Phase::AwaitsHello,
            version: WIRE_VERSIONS.lowest,
            body_bytes_max,
            wanted_bytes: HEADER_BYTES,
            broken: None,
        }
    }

    /// Takes from now on what an admitted peer may send in this version of the messages.
    ///
    /// # Panics
    /// No hello has come.
    pub fn handle_admitted(&mut self, version: u16) {
        assert_eq!(
            self.phase,
            Phase::AwaitsAdmission,
            "a peer is admitted by its hello, once"
        );
        self.phase = Phase::Admitted;
        self.version = version;
    }

    /// Takes the first message out of what has arrived; `None` while it is not whole. Pass what is left again, with what came behind
    /// it. The message shares the memory of `received`: batches are not copied.
    ///
    /// # Errors
    /// The bytes are no message that may come now. Every later call gives the same error.
    pub fn next_message(&mut self, received: &mut BytesMut) -> Result<Option<Message>, MessageError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.take_message(received)
            .inspect_err(|error| self.broken = Some(error.clone()))
    }

    /// Bytes that the first message takes with its header, as far as it was known at the last call of
    /// [`Decoder::next_message`]: so many are to be in `received` before another call gives more. Within the limit.
    #[must_use]
    pub fn wanted_bytes(&self) -> usize {
        self.wanted_bytes
    }

    fn take_message(&mut self, received: &mut BytesMut) -> Result<Option<Message>, MessageError> {
        self.wanted_bytes = HEADER_BYTES;
        let Some(bytes) = received.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = Header::read(bytes)?;
        self.check(&header)?;
        let message_bytes = HEADER_BYTES + header.body_bytes;
        if received.len() < message_bytes {
            self.wanted_bytes = message_bytes;
            return Ok(None);
        }
        let kind = header.kind;
        let body = received.split_to(message_bytes).freeze().slice(HEADER_BYTES..);
        if !header.body_holds(&body) {
            return Err(MessageError::Damaged { kind });
        }
        let message = Message::read(kind, &body).map_err(|error| MessageError::Content { kind, error })?;
        if matches!(kind, Kind::Hello | Kind::Join | Kind::Joined) {
            self.phase = Phase::AwaitsAdmission;
        }
        Ok(Some(message))
    }

    /// Says no to what is not worth waiting for.
    fn check(&self, header: &Header) -> Result<(), MessageError> {
        let Header { kind, body_bytes, .. } = *header;
        let phase = self.phase;
        if !phase.takes(kind) {
            return Err(MessageError::OutOfPlace { kind, phase });
        }
        let version = self.version;
        if kind.since() > version {
            return Err(MessageError::Newer { kind, version });
        }
        let body_bytes_max = match (phase, kind) {
            (Phase::Admitted, Kind::Heartbeat | Kind::Refused | Kind::RangeWish) => GREETING_BYTES_MAX,
            (Phase::Admitted, _) => self.body_bytes_max,
            _ => GREETING_BYTES_MAX,
        };
        if body_bytes > body_bytes_max {
            return Err(MessageError::TooLong {
                kind,
                body_bytes,
                body_bytes_max,
            });
        }
        Ok(())
    }
}
