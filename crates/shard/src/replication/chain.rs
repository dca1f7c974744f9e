//! The way of entries along a chain (`ropewalk.replication=chain`): the leader sends them to the first live follower, which passes them on to the next
//! before its own flush.
//!
//! Only the way differs. A follower takes what comes to it as if the leader had sent it, and answers the leader, which counts the same quorum; a message
//! that comes late, twice or not at all is found as on any link. Everything else (what a follower lacks, questions, tails) the leader sends itself.
//! Nobody is told that something was lost between two followers: a leader looks who stands still (`look_at_chain`), sends that one again what it lacks,
//! and reaches it itself for a while. A follower that is slow must never count for less by that.

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
/// While so many bytes of batches wait for room in the journal, what others pass on is dropped: its leader sends it again.
const DEFERRED_BYTES_MAX: usize = 8 << 20;

/// The ways to followers, as far as leaders know of them.
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
        let linked = self.replication.linked.borrow();
        let relays = linked.get(&node).is_some_and(|linked| linked.relays);
        let now = self.clock.monotonic();
        relays && self.replication.chains.borrow().is_reached(node, now)
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
            let mut letter = Letter::new(id, message.clone());
            if !onward.is_empty() {
                letter.way = Some(Way {
                    leader: self.settings.node,
                    onward: onward.to_vec(),
                });
            }
            self.send_letter(*first, letter);
        }
        for to in apart {
            self.send(to, id, message.clone());
        }
    }

    /// Passes a letter on to the next node on its way. Returns the letter, and whose it is; `None` if it cannot be taken here.
    pub(super) fn pass_on(&self, from: NodeId, mut letter: Letter) -> Option<(NodeId, Letter)> {
        let Some(Way { leader, mut onward }) = letter.way.take() else {
            return Some((from, letter));
        };
        if !onward.is_empty() {
            let next = onward.remove(0);
            let passed = letter.clone();
            let way = Some(Way { leader, onward });
            self.send_letter(next, Letter { way, ..passed });
        }
        let has_room = self.deferred_bytes() <= DEFERRED_BYTES_MAX;
        (has_room && leader != self.settings.node).then_some((leader, letter))
    }

    /// The live followers of a leader here that entries come to over others, those behind `lost` if one is given.
    fn chained_behind(&self, id: PartitionId, lost: Option<NodeId>) -> Vec<NodeId> {
        let partitions = self.partitions.borrow();
        let found = partitions.get(&id);
        let found = found.map(|partition| (&partition.role, partition.topic.route));
        let Some((Role::Member(member), Route::Chain)) = found else {
            return Vec::new();
        };
        // The link of the one that is lost may be gone already.
        let is_chained = |node: &NodeId| lost == Some(*node) || self.is_chained(*node);
        let chain = member.replica.live_followers().filter(is_chained);
        let behind = chain.skip_while(|node| lost.is_some_and(|lost| lost != *node));
        behind.skip(1).collect()
    }

    /// The followers to which a node passed on what they may lack now.
    pub(super) fn behind_in_chain(&self, id: PartitionId, lost: NodeId) -> Vec<NodeId> {
        self.chained_behind(id, Some(lost))
    }

    /// Looks at the followers of a partition's leader here that others pass entries on to: has one that has lacked the same since the last look sent it
    /// again, and reaches it directly.
    pub(super) fn look_at_chain(
        &self,
        id: PartitionId,
        stands: &mut BTreeMap<(PartitionId, NodeId), Offset>,
    ) {
        for node in self.chained_behind(id, None) {
            let Some(held) = self.held_by_lacking(id, node) else {
                continue;
            };
            stands.insert((id, node), held);
            let stood = self.replication.chains.borrow().stood.get(&(id, node)).copied();
            if stood == Some(held) {
                let until = self.clock.monotonic() + REACHED_DIRECTLY;
                self.replication.chains.borrow_mut().unreached.insert(node, until);
                tracing::debug!(partition = %id, node = node.0, "a follower does not come forward by its chain: its leader sends it everything for a while");
                let _ = self.hear(id, Word::Unreached(node));
            }
        }
    }

    /// The end of what a live follower is known to hold, if it lacks something.
    fn held_by_lacking(&self, id: PartitionId, node: NodeId) -> Option<Offset> {
        let partitions = self.partitions.borrow();
        let Role::Member(member) = &partitions.get(&id)?.role else {
            return None;
        };
        let mut followers = member.replica.followers();
        let follower = followers.find(|follower| follower.node == node && follower.lacks > 0)?;
        let lacks = i64::try_from(follower.lacks).ok()?;
        Some(Offset(member.replica.next_offset().0 - lacks))
    }

    pub(super) fn note_stands(&self, stands: BTreeMap<(PartitionId, NodeId), Offset>) {
        self.replication.chains.borrow_mut().stood = stands;
    }
}
