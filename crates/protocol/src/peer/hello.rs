//! The first message of either side of a connection, and its refusal.
//!
//! These two are how versions find out about each other. So their fields keep their places in every version to come: a later one adds
//! fields behind those of a hello, which this version passes over, and refuses an older peer for a reason that this one knows.

use record::{ClusterId, DirectoryId, Offset};

use super::message::{possible, read_offset};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::leader::NodeId;
use crate::metadata::FeatureLevel;

const MAGIC: [u8; 8] = *b"RWPEERS\0";
/// Bytes that the text of a refusal has at most.
pub const REFUSED_TEXT_BYTES_MAX: usize = 512;

/// A range of versions of the messages, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// The oldest; at least 1.
    pub lowest: u16,
    /// The newest; not below the oldest.
    pub highest: u16,
}

/// The versions that this program speaks.
pub const WIRE_VERSIONS: Versions = Versions {
    lowest: 1,
    highest: 7,
};

impl Versions {
    /// The newest version of both, if there is one.
    #[must_use]
    pub fn newest_common(self, other: Versions) -> Option<u16> {
        let newest = self.highest.min(other.highest);
        (newest >= self.lowest.max(other.lowest)).then_some(newest)
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Versions, DecodeError> {
        let versions = Versions {
            lowest: reader.u16("lowest wire version")?,
            highest: reader.u16("highest wire version")?,
        };
        let is_range = 1 <= versions.lowest && versions.lowest <= versions.highest;
        possible(is_range, "range of wire versions")?;
        Ok(versions)
    }
}

/// The two ends of a connection: a shard of the node that speaks, and one of the node that it speaks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPair {
    /// The sender's, counted from zero.
    pub from: u16,
    /// The receiver's, counted from zero.
    pub to: u16,
}

impl ShardPair {
    /// Stands for the connection of the metadata, which is no shard's.
    pub const METADATA: ShardPair = ShardPair {
        from: u16::MAX,
        to: u16::MAX,
    };
}

/// The first message of either side: the sender, and the connection that it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The versions that it speaks.
    pub versions: Versions,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// The directory that it runs over.
    pub directory: DirectoryId,
    /// The number of its start, as the metadata counts them.
    pub incarnation: u64,
    /// The number of its shards; at least one.
    pub shards: u16,
    /// The shards that the connection is of.
    pub pair: ShardPair,
    /// The newest feature level that it knows.
    pub feature_level: FeatureLevel,
    /// Its image of the metadata reflects every command below this offset of the metadata log.
    pub image_offset: Offset,
}

impl Hello {
    pub(super) fn write(&self, writer: &mut Writer) {
        writer.put_slice(&MAGIC);
        writer.u16(self.versions.lowest);
        writer.u16(self.versions.highest);
        writer.bytes_16(self.cluster.0);
        writer.i32(self.node.0);
        writer.bytes_16(self.directory.0);
        writer.u64(self.incarnation);
        writer.u16(self.shards);
        writer.u16(self.pair.from);
        writer.u16(self.pair.to);
        writer.u16(self.feature_level.0);
        writer.i64(self.image_offset.0);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Hello, DecodeError> {
        let magic = reader.take_slice("magic", MAGIC.len())?;
        possible(magic == MAGIC, "magic")?;
        let versions = Versions::read(reader)?;
        let cluster = ClusterId(reader.bytes_16("cluster id")?);
        let node = NodeId(reader.i32("node id")?);
        possible(node.0 >= 0, "node id")?;
        let directory = DirectoryId(reader.bytes_16("directory id")?);
        let incarnation = reader.u64("incarnation")?;
        let shards = reader.u16("number of shards")?;
        possible(shards > 0, "number of shards")?;
        let hello = Hello {
            versions,
            cluster,
            node,
            directory,
            incarnation,
            shards,
            pair: ShardPair {
                from: reader.u16("sender's shard")?,
                to: reader.u16("receiver's shard")?,
            },
            feature_level: FeatureLevel(reader.u16("feature level")?),
            image_offset: read_offset(reader, "metadata offset")?,
        };
        if versions.highest > WIRE_VERSIONS.highest {
            // Fields of a later version: its sender does without an answer to them.
            reader.take_rest();
        }
        Ok(hello)
    }
}

/// The reasons for which a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The two have no version of the messages in common.
    Versions,
    /// They are of two clusters.
    Cluster,
    /// The sender is the very node that it speaks to.
    Itself,
    /// The metadata does not know the sender.
    UnknownNode,
    /// The sender's node id belongs to another directory.
    Directory,
    /// A later incarnation of the sender has started.
    Incarnation,
    /// One of the nodes does not have the shard that the connection is of.
    Shards,
    /// The node cannot be let in, or not by the receiver.
    Joining,
}

impl Reason {
    /// All reasons, and their bytes.
    pub const ALL: [(Reason, u8); 8] = [
        (Reason::Versions, 1),
        (Reason::Cluster, 2),
        (Reason::Itself, 3),
        (Reason::UnknownNode, 4),
        (Reason::Directory, 5),
        (Reason::Incarnation, 6),
        (Reason::Shards, 7),
        (Reason::Joining, 8),
    ];

    fn byte(self) -> u8 {
        let found = Reason::ALL.iter().find(|(reason, _)| *reason == self);
        found.expect("every reason has a byte").1
    }
}

/// The refusal of a connection. Whoever sends it closes the connection behind it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refused {
    reason: Reason,
    text: String,
}

impl Refused {
    /// A refusal with a sentence for the people who run the other node: it names the thing and the remedy.
    ///
    /// # Panics
    /// The text is longer than [`REFUSED_TEXT_BYTES_MAX`], or has control characters.
    #[must_use]
    pub fn new(reason: Reason, text: String) -> Refused {
        assert!(text.len() <= REFUSED_TEXT_BYTES_MAX, "a refusal is a sentence");
        assert!(is_plain(&text), "a refusal is one line");
        Refused { reason, text }
    }

    /// The reason.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The sentence, fit for a log: it has no control characters.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        writer.u8(self.reason.byte());
        writer.text(&self.text);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Refused, DecodeError> {
        let (field, value) = ("reason of a refusal", reader.u8("reason of a refusal")?);
        let known = Reason::ALL.iter().find(|(_, byte)| *byte == value);
        let (reason, _) = known.ok_or(DecodeError::UnknownKind { field, value })?;
        let text = reader.text("text of a refusal")?;
        let is_possible = text.len() <= REFUSED_TEXT_BYTES_MAX && is_plain(text);
        possible(is_possible, "text of a refusal")?;
        Ok(Refused {
            reason: *reason,
            text: text.to_owned(),
        })
    }
}

/// Says whether a text stays on its line where it is shown: a peer could forge lines of a log with it.
fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}
