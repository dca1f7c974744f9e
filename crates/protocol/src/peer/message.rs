//! The messages as types, and their bytes.
//!
//! A body begins with what its kind has; integers are big-endian. The batches of an append or a range are the end of its body and stay where
//! they are, when they are sent and when they are received.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use record::{Offset, PartitionId};

use super::header::{HEADER_BYTES, Header, Kind};
use super::hello::{Hello, Refused};
use super::join::{Join, Joined};
use super::order::{read_committed, read_ordered, write_committed, write_ordered};
use super::range::{RangeAnswer, RangeWish};
use super::relay::Relay;
use super::replica::{
    read_flag, read_partition, read_prompt, read_sworn, write_partition, write_prompt, write_sworn,
};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::metadata::{Address, read_address, write_address};
use crate::order::{Ordered, Report};
use crate::replica::lease::{Beat, Echo};
use crate::replica::{Landmark, Prompt, Sworn};

/// Bytes that a message has at most, header included, without its batches, its history and its text.
const FIXED_BYTES_MAX: usize = 128;

/// A message between two nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The first message of either side.
    Hello(Hello),
    /// The last message: the connection is refused.
    Refused(Refused),
    /// The sender is alive.
    Heartbeat(Heartbeat),
    /// A message to the replica of a partition.
    Replica {
        /// The partition.
        partition: PartitionId,
        /// The message.
        message: ReplicaMessage,
    },
    /// The first message of a node without a cluster.
    Join(Join),
    /// The last message: the node is let in.
    Joined(Joined),
    /// A message of the metadata group, as that has it.
    Group(Bytes),
    /// An entry that is to be in the metadata group's log ([`crate::metadata::Proposal`]).
    Proposal(Bytes),
    /// Where other nodes of the cluster listen, for a node that has no metadata yet.
    Peers(Vec<Address>),
    /// The part of the sender's own journals that is durable: of each shard's, the number of the first frame that is not.
    Durable(Vec<u64>),
    /// The same of the receiver's journals, as it has told the sender before.
    Witnessed(Vec<u64>),
    /// A sign of life between shards, by which leaders know that they are listened to.
    Beat(Beat),
    /// A wish for committed batches in the place of damaged ones.
    RangeWish(RangeWish),
    /// The answer to a wish.
    RangeAnswer(RangeAnswer),
    /// A leader's message to the replicas of a partition, one behind the other.
    Relay(Relay),
    /// Where the sender serves HTTP, so that the receiver can hand on to it what only the sender can answer.
    Http(Address),
    /// A leader's word to the node that keeps the order of its topic.
    Committed(Report),
    /// The answer to it, when more is ordered.
    Ordered(Ordered),
    /// A request of Kafka's protocol between brokers.
    Ask(Numbered),
    /// The answer to the request with that number.
    Told(Numbered),
}

/// A request or an answer of Kafka's protocol, whole, as its number names it to the node that has asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered {
    /// Chosen by the node that asks.
    pub number: u64,
    /// A request with its header, or an answer without one. It is not looked at here.
    pub content: Bytes,
}

/// A sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// The sender's image of the metadata reflects every command below this offset of the metadata log.
    pub image_offset: Offset,
}

/// A message from one replica of a partition to another. The two kinds of message are two types: the second was sent only when what
/// its sender had persisted before was durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaMessage {
    /// A message that claims nothing of its sender's disk. [`Prompt::read_facts`] makes of it what a replica takes.
    Prompt(Prompt<Bytes>),
    /// A message that is true only of what is durable.
    Sworn(Sworn),
}

/// A message as bytes, in two parts that one vectored write sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The header, and the body up to the batches.
    pub head: Bytes,
    /// The batches of an append or of a range, as they were handed in; else empty.
    pub batches: Bytes,
}

impl Encoded {
    /// Bytes of both parts.
    #[must_use]
    pub fn length_bytes(&self) -> usize {
        self.head.len() + self.batches.len()
    }
}

impl Message {
    /// The kind of the message.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Message::Hello(_) => Kind::Hello,
            Message::Refused(_) => Kind::Refused,
            Message::Heartbeat(_) => Kind::Heartbeat,
            Message::Replica { message, .. } => match message {
                ReplicaMessage::Prompt(_) => Kind::Prompt,
                ReplicaMessage::Sworn(_) => Kind::Sworn,
            },
            Message::Join(_) => Kind::Join,
            Message::Joined(_) => Kind::Joined,
            Message::Group(_) => Kind::Group,
            Message::Proposal(_) => Kind::Proposal,
            Message::Peers(_) => Kind::Peers,
            Message::Durable(_) => Kind::Durable,
            Message::Witnessed(_) => Kind::Witnessed,
            Message::Beat(_) => Kind::Beat,
            Message::RangeWish(_) => Kind::RangeWish,
            Message::RangeAnswer(_) => Kind::RangeAnswer,
            Message::Relay(_) => Kind::Relay,
            Message::Http(_) => Kind::Http,
            Message::Committed(_) => Kind::Committed,
            Message::Ordered(_) => Kind::Ordered,
            Message::Ask(_) => Kind::Ask,
            Message::Told(_) => Kind::Told,
        }
    }

    /// The message as bytes. A receiver takes it only if its body is within the limit that the receiver's [`super::Decoder`] has: cut
    /// batches into several appends before that.
    ///
    /// # Panics
    /// The body has 4 GiB or more.
    #[must_use]
    pub fn encode(&self) -> Encoded {
        let capacity = FIXED_BYTES_MAX + self.variable_bytes();
        let mut writer = Writer::with_capacity(capacity);
        writer.put_slice(&[0; HEADER_BYTES]);
        self.write(&mut writer);
        let mut head: BytesMut = writer.into_bytes();
        assert!(head.len() <= capacity, "the head was made in one piece");
        let batches = match self {
            Message::Replica {
                message: ReplicaMessage::Prompt(Prompt::Append { batches, .. }),
                ..
            }
            | Message::Relay(Relay {
                prompt: Prompt::Append { batches, .. },
                ..
            }) => batches.clone(),
            Message::RangeAnswer(answer) => answer.batches.clone(),
            _ => Bytes::new(),
        };
        Header::complete(&mut head, &batches, self.kind());
        Encoded {
            head: head.freeze(),
            batches,
        }
    }

    /// Bytes of what has no bound of its own in the head.
    fn variable_bytes(&self) -> usize {
        match self {
            Message::Refused(refused) => refused.text().len(),
            Message::Replica { message, .. } => match message {
                ReplicaMessage::Prompt(Prompt::Compare { landmark, .. })
                | ReplicaMessage::Sworn(Sworn::Located { landmark, .. }) => match landmark {
                    Landmark::Base(base) => base.history.len(),
                    Landmark::Run(_) | Landmark::End(_) => 0,
                },
                ReplicaMessage::Sworn(Sworn::Promised { believers, .. }) => 12 * believers.len(),
                _ => 0,
            },
            Message::Join(join) => join.home.peer.as_ref().map_or(0, |peer| peer.host.len()),
            Message::Group(bytes) | Message::Proposal(bytes) => bytes.len(),
            Message::Peers(peers) => peers.iter().map(|peer| 6 + peer.host.len()).sum(),
            Message::Http(address) => address.host.len(),
            Message::Ask(numbered) | Message::Told(numbered) => numbered.content.len(),
            Message::Durable(frames) | Message::Witnessed(frames) => 8 * frames.len(),
            Message::Hello(_)
            | Message::Heartbeat(_)
            | Message::Joined(_)
            | Message::Beat(_)
            | Message::RangeWish(_)
            | Message::RangeAnswer(_)
            | Message::Relay(_)
            | Message::Committed(_)
            | Message::Ordered(_) => 0,
        }
    }

    fn write(&self, writer: &mut Writer) {
        match self {
            Message::Hello(hello) => hello.write(writer),
            Message::Refused(refused) => refused.write(writer),
            Message::Heartbeat(heartbeat) => writer.i64(heartbeat.image_offset.0),
            Message::Replica { partition, message } => {
                write_partition(writer, partition);
                match message {
                    ReplicaMessage::Prompt(prompt) => write_prompt(writer, prompt),
                    ReplicaMessage::Sworn(sworn) => write_sworn(writer, sworn),
                }
            }
            Message::Join(join) => join.write(writer),
            Message::Joined(joined) => joined.write(writer),
            Message::Group(bytes) | Message::Proposal(bytes) => writer.put_slice(bytes),
            Message::Peers(peers) => {
                writer.count(peers.len());
                peers.iter().for_each(|peer| write_address(writer, peer));
            }
            Message::Durable(frames) | Message::Witnessed(frames) => {
                writer.count(frames.len());
                frames.iter().for_each(|frame| writer.u64(*frame));
            }
            Message::Beat(beat) => {
                write_time(writer, beat.sent);
                writer.u8(beat.echo.is_some().into());
                if let Some(echo) = beat.echo {
                    write_time(writer, echo.sent);
                    write_time(writer, echo.held);
                }
            }
            Message::RangeWish(wish) => wish.write(writer),
            Message::RangeAnswer(answer) => answer.write(writer),
            Message::Relay(relay) => relay.write(writer),
            Message::Http(address) => write_address(writer, address),
            Message::Committed(committed) => write_committed(writer, committed),
            Message::Ordered(ordered) => write_ordered(writer, ordered),
            Message::Ask(numbered) | Message::Told(numbered) => {
                writer.u64(numbered.number);
                writer.put_slice(&numbered.content);
            }
        }
    }

    /// Reads the body of a message of this kind, all of it. Batches and histories are slices of it.
    pub(super) fn read(kind: Kind, body: &Bytes) -> Result<Message, DecodeError> {
        let mut reader = Reader::new(body);
        let message = match kind {
            Kind::Hello => Message::Hello(Hello::read(&mut reader)?),
            Kind::Refused => Message::Refused(Refused::read(&mut reader)?),
            Kind::Heartbeat => Message::Heartbeat(Heartbeat {
                image_offset: read_offset(&mut reader, "metadata offset")?,
            }),
            Kind::Prompt => Message::Replica {
                partition: read_partition(&mut reader)?,
                message: ReplicaMessage::Prompt(read_prompt(&mut reader, body)?),
            },
            Kind::Sworn => Message::Replica {
                partition: read_partition(&mut reader)?,
                message: ReplicaMessage::Sworn(read_sworn(&mut reader, body)?),
            },
            Kind::Join => Message::Join(Join::read(&mut reader)?),
            Kind::Joined => Message::Joined(Joined::read(&mut reader)?),
            Kind::Group => Message::Group(body.slice_ref(reader.take_rest())),
            Kind::Proposal => Message::Proposal(body.slice_ref(reader.take_rest())),
            Kind::Peers => {
                let count = reader.count("peers", 6)?;
                let peers = (0..count).map(|_| read_address(&mut reader));
                Message::Peers(peers.collect::<Result<_, _>>()?)
            }
            Kind::Durable => Message::Durable(read_frames(&mut reader)?),
            Kind::Witnessed => Message::Witnessed(read_frames(&mut reader)?),
            Kind::Beat => Message::Beat(read_beat(&mut reader)?),
            Kind::RangeWish => Message::RangeWish(RangeWish::read(&mut reader)?),
            Kind::RangeAnswer => Message::RangeAnswer(RangeAnswer::read(&mut reader, body)?),
            Kind::Relay => Message::Relay(Relay::read(&mut reader, body)?),
            Kind::Http => Message::Http(read_address(&mut reader)?),
            Kind::Committed => Message::Committed(read_committed(&mut reader)?),
            Kind::Ordered => Message::Ordered(read_ordered(&mut reader)?),
            Kind::Ask => Message::Ask(read_numbered(&mut reader, body)?),
            Kind::Told => Message::Told(read_numbered(&mut reader, body)?),
        };
        reader.close()?;
        Ok(message)
    }
}

fn read_numbered(reader: &mut Reader<'_>, body: &Bytes) -> Result<Numbered, DecodeError> {
    Ok(Numbered {
        number: reader.u64("number of a request")?,
        content: body.slice_ref(reader.take_rest()),
    })
}

fn read_frames(reader: &mut Reader<'_>) -> Result<Vec<u64>, DecodeError> {
    let count = reader.count("journals", 8)?;
    (0..count).map(|_| reader.u64("frame")).collect()
}

fn read_beat(reader: &mut Reader<'_>) -> Result<Beat, DecodeError> {
    let sent = read_time(reader, "time of a beat")?;
    let echo = match read_flag(reader, "echo")? {
        false => None,
        true => Some(Echo {
            sent: read_time(reader, "time of an echo")?,
            held: read_time(reader, "age of an echo")?,
        }),
    };
    Ok(Beat { sent, echo })
}

/// Writes a time in whole microseconds.
pub(super) fn write_time(writer: &mut Writer, time: Duration) {
    writer.u64(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
}

pub(super) fn read_time(reader: &mut Reader<'_>, field: &'static str) -> Result<Duration, DecodeError> {
    Ok(Duration::from_micros(reader.u64(field)?))
}

/// Reads an offset, which is never negative.
pub(super) fn read_offset(reader: &mut Reader<'_>, field: &'static str) -> Result<Offset, DecodeError> {
    let offset = reader.i64(field)?;
    possible(offset >= 0, field)?;
    Ok(Offset(offset))
}

pub(super) fn possible(is_possible: bool, field: &'static str) -> Result<(), DecodeError> {
    match is_possible {
        true => Ok(()),
        false => Err(DecodeError::Impossible { field }),
    }
}
