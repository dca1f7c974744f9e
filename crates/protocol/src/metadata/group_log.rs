//! The log of a cluster's metadata group: its entries, and the image that they amount to.
//!
//! An entry is what one node proposed at a time: some commands. Before those stand the parts of the image with which the founder of the
//! cluster came. **A proposal may stand in the log several times,** for a node that hears nothing of it sends it again: the first one
//! counts, and the others change nothing, whatever came in between. So each proposal has a number, which rises from one to the
//! next, and the image knows the last one of each node. The same entries make the same image on every node.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use record::Offset;

use super::{ApplyError, Command, ImageWriter, Metadata};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::leader::NodeId;

const FORMAT: &str = "entry of the metadata group";
const SNAPSHOT_FORMAT: &str = "snapshot of the metadata group";
const VERSION: u8 = 1;
const IMAGE_PART: u8 = 1;
const PROPOSAL: u8 = 2;
/// Bytes of an image that one entry has; the last one may have fewer.
const PART_BYTES: usize = if cfg!(test) { 64 } else { 256 << 10 };
/// Commands that one proposal has at most.
pub const PROPOSAL_COMMANDS_MAX: usize = 64;

/// A process of a node: the one that runs over its directory between two starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// The node.
    pub node: NodeId,
    /// Which start of the node it is, as its directory counts them.
    pub start: u64,
    /// Drawn at random by the process. It tells two apart that run over copies of one directory.
    pub nonce: u64,
}

/// Commands that a process wants made: each or none of them, with nobody else's in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The process.
    pub by: Process,
    /// The proposal's number: greater than those before it of the same process.
    pub number: u64,
    /// The commands; [`PROPOSAL_COMMANDS_MAX`] at most.
    pub commands: Vec<Command>,
}

impl Proposal {
    /// The proposal as an entry.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::open(VERSION);
        writer.u8(PROPOSAL);
        write_process(&mut writer, &self.by);
        writer.u64(self.number);
        writer.count(self.commands.len());
        for command in &self.commands {
            writer.slice(&command.encode());
        }
        writer.close()
    }

    /// Reads a proposal back.
    ///
    /// # Errors
    /// The bytes are no proposal, or of a version or with a command that this program does not know.
    pub fn decode(entry: &[u8]) -> Result<Proposal, DecodeError> {
        match Entry::decode(entry)? {
            Entry::Proposal(proposal) => Ok(proposal),
            Entry::ImagePart { .. } => Err(DecodeError::UnknownKind {
                field: "kind of entry",
                value: IMAGE_PART,
            }),
        }
    }
}

/// The entries with which a group begins that takes over an image.
///
/// # Panics
/// The cluster has not been formatted.
#[must_use]
pub fn image_entries(image: &Metadata) -> Vec<Bytes> {
    let image = image_bytes(image);
    let parts = image.chunks(PART_BYTES);
    let last = parts.len() - 1;
    let entry = |(index, part): (usize, &[u8])| {
        let mut writer = Writer::open(VERSION);
        writer.u8(IMAGE_PART);
        writer.count(index);
        writer.u8(u8::from(index == last));
        writer.slice(part);
        writer.close()
    };
    parts.enumerate().map(entry).collect()
}

fn image_bytes(image: &Metadata) -> Bytes {
    let mut writer = ImageWriter::begin(image, Offset::ZERO);
    while writer.go_on(image, usize::MAX / 2) {}
    writer.finish()
}

enum Entry {
    ImagePart { index: u32, is_last: bool, bytes: Bytes },
    Proposal(Proposal),
}

impl Entry {
    fn decode(entry: &[u8]) -> Result<Entry, DecodeError> {
        let mut reader = Reader::open(entry, FORMAT, VERSION)?;
        let decoded = match reader.u8("kind of entry")? {
            IMAGE_PART => Entry::ImagePart {
                index: reader.u32("number of the part")?,
                is_last: read_bool(&mut reader, "last part")?,
                bytes: Bytes::copy_from_slice(reader.slice("part of the image")?),
            },
            PROPOSAL => {
                let by = read_process(&mut reader)?;
                let number = reader.u64("number of a proposal")?;
                let count = reader.count("commands", 4)?;
                if count > PROPOSAL_COMMANDS_MAX {
                    return Err(DecodeError::Impossible { field: "commands" });
                }
                let commands = (0..count).map(|_| Command::decode(reader.slice("command")?));
                Entry::Proposal(Proposal {
                    by,
                    number,
                    commands: commands.collect::<Result<_, _>>()?,
                })
            }
            value => {
                let field = "kind of entry";
                return Err(DecodeError::UnknownKind { field, value });
            }
        };
        reader.close()?;
        Ok(decoded)
    }
}

/// The effect of an entry.
#[derive(Debug)]
pub enum Effect {
    /// Nothing: it was one more part of an image, or a proposal that had come before.
    Nothing,
    /// The image is there: the one that the founder came with.
    Image,
    /// Commands were made, or refused. One outcome for each, in order.
    Commands(Proposal, Vec<Result<(), ApplyError>>),
}

/// The image that the entries so far amount to.
#[derive(Debug, Clone)]
pub struct GroupImage {
    image: Metadata,
    /// The last proposal of each node that counted.
    last: BTreeMap<NodeId, Last>,
    /// Parts of an image that is not whole yet, and their number.
    begun: Option<(u32, BytesMut)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Last {
    by: Process,
    number: u64,
}

impl Last {
    fn is_before(&self, by: &Process, number: u64) -> bool {
        match self.by.start == by.start {
            true => self.by.nonce != by.nonce || self.number < number,
            false => self.by.start < by.start,
        }
    }
}

impl GroupImage {
    /// Begins with the image before the first entry.
    #[must_use]
    pub fn new(image: Metadata) -> GroupImage {
        GroupImage {
            image,
            last: BTreeMap::new(),
            begun: None,
        }
    }

    /// The metadata; not formatted until the founder's image is there.
    #[must_use]
    pub fn metadata(&self) -> &Metadata {
        &self.image
    }

    /// The number of a process's last proposal that counted; 0 before the first.
    #[must_use]
    pub fn last_number(&self, process: &Process) -> u64 {
        let last = self.last.get(&process.node).filter(|last| last.by == *process);
        last.map_or(0, |last| last.number)
    }

    /// Takes the next entry.
    ///
    /// # Errors
    /// It cannot be read here, and nothing has changed: a node that goes on would come to another image than the others.
    pub fn take(&mut self, entry: &[u8]) -> Result<Effect, DecodeError> {
        match Entry::decode(entry)? {
            Entry::ImagePart {
                index,
                is_last,
                bytes,
            } => self.take_part(index, is_last, &bytes),
            Entry::Proposal(proposal) => Ok(self.take_proposal(proposal)),
        }
    }

    fn take_part(&mut self, index: u32, is_last: bool, bytes: &[u8]) -> Result<Effect, DecodeError> {
        // A founder that was interrupted begins anew; one that was not told that it was done, too.
        if self.image.cluster().is_some() {
            return Ok(Effect::Nothing);
        }
        let (count, mut begun) = match (index, self.begun.take()) {
            (0, _) => (0, BytesMut::new()),
            (_, Some(begun)) if begun.0 == index => begun,
            _ => return Ok(Effect::Nothing),
        };
        begun.extend_from_slice(bytes);
        if !is_last {
            self.begun = Some((count + 1, begun));
            return Ok(Effect::Nothing);
        }
        self.image = self.image.read_image(Offset::ZERO, &begun)?;
        Ok(Effect::Image)
    }

    fn take_proposal(&mut self, proposal: Proposal) -> Effect {
        let Proposal { by, number, .. } = proposal;
        let is_next = self
            .last
            .get(&by.node)
            .is_none_or(|last| last.is_before(&by, number));
        if !is_next {
            return Effect::Nothing;
        }
        // A copy is told that it is one; what counts stays with the process that was first.
        let is_copy = |last: &Last| last.by.start == by.start && last.by.nonce != by.nonce;
        if !self.last.get(&by.node).is_some_and(is_copy) {
            self.last.insert(by.node, Last { by, number });
        }
        let made = proposal.commands.iter().map(|command| self.image.apply(command));
        let outcomes = made.collect();
        Effect::Commands(proposal, outcomes)
    }

    /// The whole as bytes.
    #[must_use]
    pub fn snapshot(&self) -> Bytes {
        let mut writer = Writer::open(VERSION);
        writer.count(self.last.len());
        for last in self.last.values() {
            write_process(&mut writer, &last.by);
            writer.u64(last.number);
        }
        match self.image.cluster() {
            Some(_) => {
                writer.u8(1);
                writer.slice(&image_bytes(&self.image));
            }
            None => {
                let (count, bytes) = self
                    .begun
                    .as_ref()
                    .map_or((0, &[][..]), |(count, bytes)| (*count, bytes));
                writer.u8(0);
                writer.count(count as usize);
                writer.slice(bytes);
            }
        }
        writer.close()
    }

    /// Takes a snapshot in the place of everything so far.
    ///
    /// # Errors
    /// The bytes are none, or of a version that this program does not know. Nothing has changed.
    pub fn install(&mut self, snapshot: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::open(snapshot, SNAPSHOT_FORMAT, VERSION)?;
        let mut taken = GroupImage::new(self.image.before_any_command());
        for _ in 0..reader.count("nodes", 28)? {
            let by = read_process(&mut reader)?;
            let number = reader.u64("number of a proposal")?;
            taken.last.insert(by.node, Last { by, number });
        }
        if read_bool(&mut reader, "image")? {
            taken.image = self.image.read_image(Offset::ZERO, reader.slice("image")?)?;
        } else {
            let count = reader.u32("parts of an image")?;
            let bytes = reader.slice("parts of an image")?;
            taken.begun = (count > 0).then(|| (count, BytesMut::from(bytes)));
        }
        reader.close()?;
        *self = taken;
        Ok(())
    }
}

fn write_process(writer: &mut Writer, process: &Process) {
    writer.i32(process.node.0);
    writer.u64(process.start);
    writer.u64(process.nonce);
}

fn read_process(reader: &mut Reader<'_>) -> Result<Process, DecodeError> {
    Ok(Process {
        node: NodeId(reader.i32("node")?),
        start: reader.u64("start of a node")?,
        nonce: reader.u64("nonce of a process")?,
    })
}

fn read_bool(reader: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(DecodeError::UnknownKind { field, value }),
    }
}

#[cfg(test)]
mod tests;
