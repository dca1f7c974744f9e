//! The sixteen bytes before the body of every message: its length, its kind, and the checksums.
//!
//! ```text
//!  0              4      5          8                12               16
//!  | bytes of the | kind | reserved | CRC-32C of the | CRC-32C of the | body …
//!  | body     u32 |   u8 |   000000 | body       u32 | 12 before  u32 |
//! ```
//! The header's own checksum covers that of the body, and so the whole message. It stands alone, so that a length is compared with
//! nothing but a limit before it is known to be the sender's: a damaged one must not have a node wait for what never comes.

use bytes::BytesMut;
use crc_fast::{CrcAlgorithm, Digest};

use super::decoder::MessageError;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;
const KIND_AT: usize = 4;
const RESERVED_AT: usize = 5;
const BODY_CHECKSUM_AT: usize = 8;
const CHECKSUM_AT: usize = 12;

/// The kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The first message of either side.
    Hello,
    /// The connection is refused, and ends with this.
    Refused,
    /// The sender is alive.
    Heartbeat,
    /// A message to the replica of a partition that claims nothing of its sender's disk.
    Prompt,
    /// A message to the replica of a partition that is true only of what is durable.
    Sworn,
    /// The first message of a node without a cluster.
    Join,
    /// The node is let in, and the connection ends with this.
    Joined,
    /// A message of the metadata group.
    Group,
    /// An entry that is to be in the metadata group's log.
    Proposal,
    /// Where other nodes are.
    Peers,
    /// The part of the sender's own disk that is safe.
    Durable,
    /// The part of the receiver's disk that the sender was told to be safe.
    Witnessed,
    /// A sign of life between shards.
    Beat,
    /// Committed batches are wanted in the place of damaged ones.
    RangeWish,
    /// The answer to that.
    RangeAnswer,
    /// A leader's message that is passed on.
    Relay,
    /// Where the sender serves HTTP.
    Http,
    /// A partition of a topic with one order is committed so far.
    Committed,
    /// A partition of such a topic is ordered so far.
    Ordered,
    /// A request of Kafka's protocol between brokers.
    Ask,
    /// The answer to that.
    Told,
}

impl Kind {
    /// All kinds, and their bytes.
    pub const ALL: [(Kind, u8); 21] = [
        (Kind::Hello, 1),
        (Kind::Refused, 2),
        (Kind::Heartbeat, 3),
        (Kind::Prompt, 4),
        (Kind::Sworn, 5),
        (Kind::Join, 6),
        (Kind::Joined, 7),
        (Kind::Group, 8),
        (Kind::Proposal, 9),
        (Kind::Peers, 10),
        (Kind::Durable, 11),
        (Kind::Witnessed, 12),
        (Kind::RangeWish, 13),
        (Kind::RangeAnswer, 14),
        (Kind::Beat, 15),
        (Kind::Relay, 16),
        (Kind::Http, 17),
        (Kind::Committed, 18),
        (Kind::Ordered, 19),
        (Kind::Ask, 20),
        (Kind::Told, 21),
    ];

    /// The kind's name, as errors have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Hello => "hello",
            Kind::Refused => "refusal",
            Kind::Heartbeat => "heartbeat",
            Kind::Prompt => "prompt",
            Kind::Sworn => "sworn message",
            Kind::Join => "wish to join",
            Kind::Joined => "welcome",
            Kind::Group => "message of the metadata group",
            Kind::Proposal => "proposal",
            Kind::Peers => "list of peers",
            Kind::Durable => "word of what is durable",
            Kind::Witnessed => "word of what was durable",
            Kind::Beat => "beat",
            Kind::RangeWish => "wish for a range",
            Kind::RangeAnswer => "range",
            Kind::Relay => "relay",
            Kind::Http => "address of HTTP",
            Kind::Committed => "word of what is committed",
            Kind::Ordered => "word of what is ordered",
            Kind::Ask => "request",
            Kind::Told => "answer",
        }
    }

    /// The first version of the messages that has the kind.
    #[must_use]
    pub fn since(self) -> u16 {
        match self {
            Kind::RangeWish | Kind::RangeAnswer => 2,
            Kind::Relay => 3,
            Kind::Http => 4,
            Kind::Committed | Kind::Ordered => 6,
            Kind::Ask | Kind::Told => 7,
            _ => 1,
        }
    }

    fn byte(self) -> u8 {
        let found = Kind::ALL.iter().find(|(kind, _)| *kind == self);
        found.expect("every kind has a byte").1
    }
}

/// A header whose checksum held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) body_bytes: usize,
    body_checksum: u32,
}

impl Header {
    /// Completes a message: `head` begins with room for the header, and has the body up to `rest`, which follows it.
    ///
    /// # Panics
    /// The body has 4 GiB or more.
    pub(super) fn complete(head: &mut BytesMut, rest: &[u8], kind: Kind) {
        let (header, body) = head.split_at_mut(HEADER_BYTES);
        let body_bytes = u32::try_from(body.len() + rest.len()).expect("a message is far smaller than 4 GiB");
        header.fill(0);
        header[..KIND_AT].copy_from_slice(&body_bytes.to_be_bytes());
        header[KIND_AT] = kind.byte();
        let body_checksum = checksum(&[body, rest]);
        header[BODY_CHECKSUM_AT..CHECKSUM_AT].copy_from_slice(&body_checksum.to_be_bytes());
        let header_checksum = checksum(&[&header[..CHECKSUM_AT]]);
        header[CHECKSUM_AT..].copy_from_slice(&header_checksum.to_be_bytes());
    }

    /// Reads a header. The length is not compared with any limit here.
    ///
    /// # Errors
    /// `NotAPeer`, `Reserved`, `UnknownKind`.
    pub(super) fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Header, MessageError> {
        // First: of damaged bytes nothing else is worth saying.
        if u32_at(bytes, CHECKSUM_AT) != checksum(&[&bytes[..CHECKSUM_AT]]) {
            return Err(MessageError::NotAPeer);
        }
        if bytes[RESERVED_AT..BODY_CHECKSUM_AT].iter().any(|byte| *byte != 0) {
            return Err(MessageError::Reserved);
        }
        let byte = bytes[KIND_AT];
        let known = Kind::ALL.iter().find(|(_, known)| *known == byte);
        let (kind, _) = known.ok_or(MessageError::UnknownKind { kind: byte })?;
        Ok(Header {
            kind: *kind,
            body_bytes: u32_at(bytes, 0) as usize,
            body_checksum: u32_at(bytes, BODY_CHECKSUM_AT),
        })
    }

    /// Says whether `body` is the body that this header was written for.
    pub(super) fn body_holds(&self, body: &[u8]) -> bool {
        body.len() == self.body_bytes && checksum(&[body]) == self.body_checksum
    }
}

/// CRC-32C of the parts, one behind the other.
fn checksum(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    u32::try_from(digest.finalize()).expect("a CRC-32C has 32 bits")
}

fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_be_bytes(*bytes[at..].first_chunk().expect("fields lie inside the header"))
}
