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

    /// Number, host, port and rack of each leader that was named.
    pub(crate) fn endpoints(self) -> impl Iterator<Item = (i32, Text, i32, Option<Text>)> {
        let LeaderHints { metadata, named, .. } = self;
        named.into_iter().filter_map(|node| {
            let known = metadata.node(node)?;
            let (address, rack) = (&known.address, known.rack.as_deref());
            Some((
                node.0,
                Text::from(&*address.host),
                address.port.into(),
                rack.map(Text::from),
            ))
        })
    }
}
