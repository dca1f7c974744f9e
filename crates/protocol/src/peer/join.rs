//! The messages by which a node joins a cluster.

use record::ClusterId;

use super::hello::{Versions, WIRE_VERSIONS};
use super::message::possible;
use crate::encoding::{DecodeError, Reader, Writer};
use crate::leader::NodeId;
use crate::metadata::{Home, read_home, write_home};

const MAGIC: [u8; 8] = *b"RWJOINS\0";
/// No id is wished for.
const ANY_NODE: i32 = -1;

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
        if versions.highest > WIRE_VERSIONS.highest {
            // Fields of a later version: its sender does without an answer to them.
            reader.take_rest();
        }
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
