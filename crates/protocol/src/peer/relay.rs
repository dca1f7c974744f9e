//! A leader's message that a follower passes on to others, so that the leader sends its bytes once.
//!
//! Whoever takes one takes it as if the leader had sent it, and answers the leader. The way is the leader's: a receiver adds nobody to it.

use bytes::Bytes;
use record::PartitionId;

use super::message::possible;
use super::replica::{read_partition, read_prompt, write_partition, write_prompt};
use crate::encoding::{DecodeError, Reader, Writer};
use crate::leader::NodeId;
use crate::replica::Prompt;

/// Nodes behind the receiver, at most.
pub const ONWARD_MAX: usize = 16;

/// The way of a message that is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The leader that has sent it, and gets the answers.
    pub leader: NodeId,
    /// The nodes to which it goes behind the receiver, in order; at most [`ONWARD_MAX`].
    pub onward: Vec<NodeId>,
}

/// An append or a trim on its way along a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// Its way.
    pub way: Way,
    /// The partition.
    pub partition: PartitionId,
    /// The message.
    pub prompt: Prompt<Bytes>,
}

impl Relay {
    /// Writes everything but the batches of an append, which follow.
    pub(super) fn write(&self, writer: &mut Writer) {
        let Way { leader, onward } = &self.way;
        writer.i32(leader.0);
        writer.u8(u8::try_from(onward.len()).expect("a way is short"));
        onward.iter().for_each(|node| writer.i32(node.0));
        write_partition(writer, &self.partition);
        write_prompt(writer, &self.prompt);
    }

    pub(super) fn read(reader: &mut Reader<'_>, body: &Bytes) -> Result<Relay, DecodeError> {
        let leader = read_node(reader, "leader of a relay")?;
        let count = usize::from(reader.u8("nodes of a way")?);
        possible(count <= ONWARD_MAX, "nodes of a way")?;
        let onward = (0..count).map(|_| read_node(reader, "node of a way"));
        let onward: Vec<NodeId> = onward.collect::<Result<_, _>>()?;
        let is_new = |(index, node): (usize, &NodeId)| *node != leader && !onward[..index].contains(node);
        possible(onward.iter().enumerate().all(is_new), "node of a way")?;
        let partition = read_partition(reader)?;
        let prompt = read_prompt(reader, body)?;
        let is_passed_on = matches!(prompt, Prompt::Append { .. } | Prompt::Trim { .. });
        possible(is_passed_on, "message of a relay")?;
        Ok(Relay {
            way: Way { leader, onward },
            partition,
            prompt,
        })
    }
}

fn read_node(reader: &mut Reader<'_>, field: &'static str) -> Result<NodeId, DecodeError> {
    let node = reader.i32(field)?;
    possible(node >= 0, field)?;
    Ok(NodeId(node))
}
