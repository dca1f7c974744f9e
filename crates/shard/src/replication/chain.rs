//! The way of entries along a chain (`ropewalk.replication=chain`): the leader sends them to the first live follower, which passes them on to the next
//! before its own flush.
//!
//! Only the way differs. A follower takes what comes to it as if the leader had sent it, and answers the leader, which counts the same quorum; a message
//! that comes late, twice or not at all is found as on any link. All entries for a follower go one way as long as the live followers before it are
//! the same, so they come in order; where the way changes, a follower may have to be compared once. Nobody is told that something was lost between
//! two followers: a leader looks who stands still (`look_at_chains`), and reaches that one itself for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::leader::NodeId;
use protocol::metadata::Route;
use protocol::peer::{ONWARD_MAX, Way};
use record::{Offset, PartitionId};

use super::words::{Letter, Message, Word};
use crate::member::Member;
use crate::{Role, Shard};

/// A follower that the chain did not reach is sent everything by its leader for so long.
const REACHED_DIRECTLY: Duration = Duration::from_secs(10);

/// What leaders know of the ways to their followers.
#[derive(Default)]
pub(super) struct Chains {
    /// The nodes that others did not pass entries on to, and until when they are sent them directly.
    unreached: BTreeMap<NodeId, Duration>,
    /// The followers that lacked something at the last look, and where they stood.
    stood: BTreeMap<(PartitionId, NodeId), Offset>,
}

impl Chains {
    /// Forgets that a node was not reached: its link was taken anew, or there is none.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.unreached.remove(&node);
    }

    fn is_reached(&self, node: NodeId, now: Duration) -> bool {
        self.unreached.get(&node).is_none_or(|until| *until <= now)
    }
}

impl Shard {
    /// Says whether others may pass entries on to a node, and it to others.
    fn is_chained(&self, node: NodeId) -> bool {
        let relays = self
            .replication
            .linked
            .borrow()
            .get(&node)
            .is_some_and(|linked| linked.relays);
        relays
            && self
                .replication
                .chains
                .borrow()
                .is_reached(node, self.clock.monotonic())
    }

    /// The live followers that entries of a leader go along, in order; and those that it has to reach itself.
    fn ways(&self, member: &Member, route: Route) -> (Vec<NodeId>, Vec<NodeId>) {
        let live = member.replica.live_followers();
        match route {
            Route::Each => (Vec::new(), live.collect()),
            Route::Chain => live.partition(|node| self.is_chained(*node)),
        }
    }

    /// Sends a leader's entry to its live followers.
    pub(super) fn send_to_live(&self, id: PartitionId, member: &Member, route: Route, message: &Message) {
        let (chain, apart) = self.ways(member, route);
        for part in chain.chunks(1 + ONWARD_MAX) {
            let (first, onward) = part.split_first().expect("a part has one at least");
            self.send_along(*first, onward.to_vec(), false, Letter::new(id, message.clone()));
        }
        for to in apart {
            self.send(to, id, message.clone());
        }
    }

    /// Sends a follower what it lacks: over the live ones before it, as everything else that comes to it.
    pub(super) fn send_to_lacking(&self, to: NodeId, letter: Letter) {
        match self.way_to(letter.partition, to).split_first() {
            None => self.send_letter(to, letter),
            Some((first, between)) => {
                let onward = between.iter().copied().chain([to]).collect();
                self.send_along(*first, onward, true, letter);
            }
        }
    }

    /// The nodes over which a follower gets what it lacks.
    fn way_to(&self, id: PartitionId, to: NodeId) -> Vec<NodeId> {
        let partitions = self.partitions.borrow();
        let found = partitions
            .get(&id)
            .map(|partition| (&partition.role, partition.topic.route));
        let Some((Role::Member(member), Route::Chain)) = found.filter(|_| self.is_chained(to)) else {
            return Vec::new();
        };
        let (chain, _) = self.ways(member, Route::Chain);
        let order = member.replica.followers().map(|follower| follower.node);
        let before = order
            .take_while(|node| *node != to)
            .filter(|node| chain.contains(node));
        let before: Vec<NodeId> = before.collect();
        // A chain that is longer begins again in its middle.
        before[before.len() - before.len() % (1 + ONWARD_MAX)..].to_vec()
    }

    fn send_along(&self, first: NodeId, onward: Vec<NodeId>, for_last: bool, mut letter: Letter) {
        if !onward.is_empty() {
            let leader = self.settings.node;
            letter.way = Some(Way {
                leader,
                onward,
                for_last,
            });
        }
        self.send_letter(first, letter);
    }

    /// Passes a letter on to the next node on its way. Returns the letter, and whose it is, if it is for this node, too.
    pub(super) fn pass_on(&self, from: NodeId, mut letter: Letter) -> Option<(NodeId, Letter)> {
        let Some(Way {
            leader,
            mut onward,
            for_last,
        }) = letter.way.take()
        else {
            return Some((from, letter));
        };
        let is_for_this = !for_last || onward.is_empty();
        if !onward.is_empty() {
            let next = onward.remove(0);
            let passed = letter.clone();
            let way = Way {
                leader,
                onward,
                for_last,
            };
            self.send_letter(
                next,
                Letter {
                    way: Some(way),
                    ..passed
                },
            );
        }
        (is_for_this && leader != self.settings.node).then_some((leader, letter))
    }

    /// The followers behind a node in the chain of a leader here that lack something: it may be lost with that node.
    pub(super) fn behind_in_chain(&self, id: PartitionId, lost: NodeId) -> Vec<NodeId> {
        let partitions = self.partitions.borrow();
        let Some(partition) = partitions.get(&id) else {
            return Vec::new();
        };
        match (&partition.role, partition.topic.route) {
            (Role::Member(member), Route::Chain) => {
                let behind = member
                    .replica
                    .followers()
                    .skip_while(|follower| follower.node != lost)
                    .skip(1);
                let lacking = behind.filter(|follower| follower.is_live && follower.lacks > 0);
                lacking.map(|follower| follower.node).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Looks at the followers of a partition's leader here: has one that has lacked the same since the last look compared, and reaches it directly.
    pub(super) fn look_at_chain(
        &self,
        id: PartitionId,
        stands: &mut BTreeMap<(PartitionId, NodeId), Offset>,
    ) {
        let still: Vec<NodeId> = {
            let partitions = self.partitions.borrow();
            let Some(partition) = partitions.get(&id) else {
                return;
            };
            let (Role::Member(member), Route::Chain) = (&partition.role, partition.topic.route) else {
                return;
            };
            let end = member.replica.next_offset();
            let lacking = member
                .replica
                .followers()
                .filter(|follower| follower.is_live && follower.lacks > 0);
            let chains = self.replication.chains.borrow();
            let mut still = Vec::new();
            for follower in lacking {
                let held = Offset(end.0 - i64::try_from(follower.lacks).unwrap_or(0));
                stands.insert((id, follower.node), held);
                if chains.stood.get(&(id, follower.node)) == Some(&held) {
                    still.push(follower.node);
                }
            }
            still
        };
        for node in still {
            let until = self.clock.monotonic() + REACHED_DIRECTLY;
            self.replication.chains.borrow_mut().unreached.insert(node, until);
            tracing::info!(partition = %id, node = node.0, "a follower does not come forward by its chain: its leader sends it everything for a while");
            let _ = self.hear(id, Word::Link(node));
        }
    }

    pub(super) fn note_stands(&self, stands: BTreeMap<(PartitionId, NodeId), Offset>) {
        self.replication.chains.borrow_mut().stood = stands;
    }
}
