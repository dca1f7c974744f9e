//! The messages by which a node joins a cluster, follows its metadata and has it changed.
//!
//! Commands and entries of the metadata log are bytes here: who applies them reads them, and refuses what it does not know.

use bytes::Bytes;
use record::{ClusterId, Offset};

use super::hello::Versions;
use super::message::{possible, read_offset};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::leader::NodeId;
use crate::metadata::{Home, read_home, write_home};

const MAGIC: [u8; 8] = *b"RWJOINS\0";
/// No id is wished for.
const ANY_NODE: i32 = -1;
/// Bytes that the text of an outcome has at most.
pub const OUTCOME_TEXT_BYTES_MAX: usize = 512;

/// The first message of a node without a cluster: it wants to be one of the receiver's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Join {
    /// The versions of the messages that it speaks.
    pub versions: Versions,
    /// The id that it wishes for; `None` for a free one.
    pub wanted: Option<NodeId>,
    /// What other nodes must know of it.
    pub home: Home,
}

/// The answer: the node is let in. The sender closes the connection behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joined {
    /// The cluster.
    pub cluster: ClusterId,
    /// The id that the node has from now on.
    pub node: NodeId,
}

/// Entries of the metadata log, in order and without gaps, for a node that follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// The offset of the first.
    pub first: Offset,
    /// Their bytes: commands, and parts of images.
    pub values: Vec<Bytes>,
    /// Says whether the log ends with them for now.
    pub are_last: bool,
}

/// Commands that the sender wants made, each or none of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// A number of the sender's, for the answer.
    pub number: u64,
    /// The commands' bytes.
    pub commands: Vec<Bytes>,
}

/// The answer to a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The proposal's number.
    pub number: u64,
    /// One for each command, in their order.
    pub outcomes: Vec<Outcome>,
    /// An image that reflects every command below this offset has all that were made.
    pub image_offset: Offset,
}

/// What became of one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was made.
    Made,
    /// It does not fit the image as it is now, and nothing has changed.
    Outdated,
    /// It could not be made, for this reason; perhaps it will be found to have been made.
    Failed(String),
}

impl Join {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.put_slice(&MAGIC);
        writer.u16(self.versions.lowest);
        writer.u16(self.versions.highest);
        writer.i32(self.wanted.map_or(ANY_NODE, |wanted| wanted.0));
        write_home(writer, Some(&self.home));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Join, DecodeError> {
        let magic = reader.take_slice("magic", MAGIC.len())?;
        possible(magic == MAGIC, "magic")?;
        let versions = Versions::read(reader)?;
        let wanted = reader.i32("node id")?;
        possible(wanted >= ANY_NODE, "node id")?;
        let home = read_home(reader)?.ok_or(DecodeError::Impossible { field: "home" })?;
        Ok(Join {
            versions,
            wanted: (wanted != ANY_NODE).then_some(NodeId(wanted)),
            home,
        })
    }
}

impl Joined {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.bytes_16(self.cluster.0);
        writer.i32(self.node.0);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Joined, DecodeError> {
        let cluster = ClusterId(reader.bytes_16("cluster id")?);
        let node = NodeId(reader.i32("node id")?);
        possible(node.0 >= 0, "node id")?;
        Ok(Joined { cluster, node })
    }
}

impl Entries {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.i64(self.first.0);
        writer.u8(u8::from(self.are_last));
        write_all(writer, &self.values);
    }

    /// The values are slices of the body.
    pub(super) fn read(reader: &mut Reader<'_>, body: &Bytes) -> Result<Entries, DecodeError> {
        let first = read_offset(reader, "metadata offset")?;
        let are_last = match reader.u8("end of the log")? {
            0 => false,
            1 => true,
            value => {
                let field = "end of the log";
                return Err(DecodeError::UnknownKind { field, value });
            }
        };
        let values = read_all(reader, body, "entries")?;
        let is_within = i64::try_from(values.len()).is_ok_and(|count| first.0.checked_add(count).is_some());
        possible(is_within, "number of entries")?;
        Ok(Entries {
            first,
            values,
            are_last,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.values)
    }
}

impl Proposal {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.u64(self.number);
        write_all(writer, &self.commands);
    }

    pub(super) fn read(reader: &mut Reader<'_>, body: &Bytes) -> Result<Proposal, DecodeError> {
        Ok(Proposal {
            number: reader.u64("number of a proposal")?,
            commands: read_all(reader, body, "commands")?,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        bytes_of(&self.commands)
    }
}

impl Decision {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.u64(self.number);
        writer.i64(self.image_offset.0);
        writer.count(self.outcomes.len());
        for outcome in &self.outcomes {
            match outcome {
                Outcome::Made => writer.u8(1),
                Outcome::Outdated => writer.u8(2),
                Outcome::Failed(text) => {
                    writer.u8(3);
                    writer.text(text);
                }
            }
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Decision, DecodeError> {
        let number = reader.u64("number of a proposal")?;
        let image_offset = read_offset(reader, "metadata offset")?;
        let count = reader.count("outcomes", 1)?;
        let outcomes = (0..count).map(|_| Outcome::read(reader));
        Ok(Decision {
            number,
            outcomes: outcomes.collect::<Result<_, _>>()?,
            image_offset,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let text_bytes = |outcome: &Outcome| match outcome {
            Outcome::Failed(text) => text.len(),
            Outcome::Made | Outcome::Outdated => 0,
        };
        self.outcomes.iter().map(|outcome| 5 + text_bytes(outcome)).sum()
    }
}

/// A reason without control characters, cut off at so many bytes: what peers are told.
#[must_use]
pub fn in_one_line(why: &str, bytes_max: usize) -> String {
    let no_control = |char: char| if char.is_control() { ' ' } else { char };
    let mut line: String = why.chars().map(no_control).collect();
    while line.len() > bytes_max {
        line.pop();
    }
    line
}

impl Outcome {
    /// It failed, for a reason that is told in one line and not more than [`OUTCOME_TEXT_BYTES_MAX`].
    #[must_use]
    pub fn failed(why: &str) -> Outcome {
        Outcome::Failed(in_one_line(why, OUTCOME_TEXT_BYTES_MAX))
    }

    fn read(reader: &mut Reader<'_>) -> Result<Outcome, DecodeError> {
        match reader.u8("outcome")? {
            1 => Ok(Outcome::Made),
            2 => Ok(Outcome::Outdated),
            3 => {
                let text = reader.text("text of an outcome")?;
                let is_plain = text.len() <= OUTCOME_TEXT_BYTES_MAX && !text.chars().any(char::is_control);
                possible(is_plain, "text of an outcome")?;
                Ok(Outcome::Failed(text.to_owned()))
            }
            value => {
                let field = "outcome";
                Err(DecodeError::UnknownKind { field, value })
            }
        }
    }
}

fn write_all(writer: &mut Writer, all: &[Bytes]) {
    writer.count(all.len());
    all.iter().for_each(|bytes| writer.slice(bytes));
}

fn read_all(reader: &mut Reader<'_>, body: &Bytes, field: &'static str) -> Result<Vec<Bytes>, DecodeError> {
    let count = reader.count(field, 4)?;
    (0..count)
        .map(|_| Ok(body.slice_ref(reader.slice(field)?)))
        .collect()
}

fn bytes_of(all: &[Bytes]) -> usize {
    all.iter().map(|bytes| 4 + bytes.len()).sum()
}
