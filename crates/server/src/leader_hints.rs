//! Tells clients that ask the wrong node, or believe in an epoch that is over, who leads now and where (KIP-951): they need not ask for the metadata.

use std::collections::BTreeSet;

use kafka_wire::{ErrorCode, Text};
use protocol::leader::NodeId;
use protocol::metadata::Metadata;
use record::{Epoch, PartitionId};

/// The leaders that an answer names.
pub(crate) struct LeaderHints<'a> {
    metadata: &'a Metadata,
    own: NodeId,
    named: BTreeSet<NodeId>,
}

impl<'a> LeaderHints<'a> {
    pub(crate) fn new(metadata: &'a Metadata, own: NodeId) -> LeaderHints<'a> {
        LeaderHints {
            metadata,
            own,
            named: BTreeSet::new(),
        }
    }

    /// The leader of a partition, and its epoch, for a client that is told this error; none for other errors, and none while this node still
    /// takes itself for the leader that it is not any more, or not yet.
    pub(crate) fn hint(&mut self, partition: PartitionId, error_code: i16) -> Option<(NodeId, Epoch)> {
        let is_elsewhere = error_code == ErrorCode::NotLeaderOrFollower.code();
        if !is_elsewhere && error_code != ErrorCode::FencedLeaderEpoch.code() {
            return None;
        }
        let state = self.metadata.partition(partition)?;
        if is_elsewhere && state.leader == self.own {
            return None;
        }
        self.named.insert(state.leader);
        Some((state.leader, state.epoch))
    }

    /// The leaders that were named, each made of its number, host, port and rack.
    pub(crate) fn endpoints<E>(self, make: fn(i32, Text, i32, Option<Text>) -> E) -> Vec<E> {
        let endpoint = |node: NodeId| {
            let known = self.metadata.node(node)?;
            let (host, rack) = (Text::from(&*known.address.host), known.rack.as_deref());
            Some(make(
                node.0,
                host,
                known.address.port.into(),
                rack.map(Text::from),
            ))
        };
        self.named.iter().copied().filter_map(endpoint).collect()
    }
}
