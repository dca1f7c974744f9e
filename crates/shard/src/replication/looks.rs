//! Looks at all replicas of a shard, now and then: who owes an answer, and who could lead again.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use platform::slices::Slices;
use protocol::leader::NodeId;
use protocol::replica::{Replica, RoleName};
use record::PartitionId;
use tokio::time::sleep;

use super::words::Word;
use crate::member::Report;
use crate::role::Role;
use crate::{LOOKED_AFTER_IN_ONE_TURN, Partition, Shard};

/// Between two looks at replicas that wait for an answer: what is awaited at both is asked for again.
const AWAITED_CHECK: Duration = Duration::from_millis(500);
/// Between two looks at who could lead again.
const PREFERRED_CHECK: Duration = Duration::from_secs(3);
/// Leaders that are handed over after one look.
const HAND_OVERS_MAX: usize = 500;

/// The partitions of several replicas that a shard leads, as their leaders see them now.
#[derive(Debug, Clone, Default)]
pub struct LedFigures {
    /// Partitions in an open epoch.
    pub open: usize,
    /// Partitions whose epoch waits for other replicas.
    pub opening: usize,
    /// Open ones of which some replica lacks something and is still being sent it, or is not reached.
    pub short: usize,
    /// By node of the other replicas.
    pub followers: BTreeMap<NodeId, FollowerFigures>,
}

/// The replicas on another node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FollowerFigures {
    /// Replicas that lack something and are still being sent it, or that are not reached.
    pub behind: usize,
    /// Records that they are not known to hold, those that are just on their way too.
    pub lacks: u64,
}

impl LedFigures {
    fn count(&mut self, replica: &Replica) {
        match (replica.is_open(), replica.role()) {
            (true, _) => self.open += 1,
            (false, RoleName::Opening | RoleName::Leading) => self.opening += 1,
            (false, _) => return,
        }
        let mut is_short = false;
        for follower in replica.followers() {
            let of_node = self.followers.entry(follower.node).or_default();
            of_node.behind += usize::from(!follower.is_live);
            of_node.lacks += follower.lacks;
            is_short |= !follower.is_live;
        }
        self.short += usize::from(is_short && replica.is_open());
    }
}

impl Shard {
    /// Looks at all replicas of the shard, some at a time.
    pub async fn led_figures(&self) -> LedFigures {
        let mut figures = LedFigures::default();
        let mut slices = Slices::of_own(LOOKED_AFTER_IN_ONE_TURN);
        for id in self.replica_ids() {
            if let Some(Role::Member(member)) = self.partitions.borrow().get(&id).map(|found| &found.role) {
                figures.count(&member.replica);
            }
            slices.did(1).await;
        }
        figures
    }

    /// Asks again where an answer does not come: a letter to a partition that was not there yet may have been dropped. And looks at members that
    /// producers wait for.
    pub(super) async fn ask_again(self: Rc<Self>) {
        loop {
            sleep(AWAITED_CHECK).await;
            if self.replication.linked.borrow().is_empty() {
                continue;
            }
            let (mut awaited, mut stands) = (BTreeSet::new(), BTreeMap::new());
            let mut slices = Slices::of_own(LOOKED_AFTER_IN_ONE_TURN);
            for id in self.replica_ids() {
                awaited.extend(self.awaited_of(id));
                self.look_at_chain(id, &mut stands);
                if self.waits_for_more(id) {
                    let _ = self.hear(id, Word::Look);
                }
                slices.did(1).await;
            }
            self.note_stands(stands);
            let before = self.replication.awaited.replace(awaited.clone());
            for (id, node) in before.intersection(&awaited) {
                // It may be gone, or wait for room.
                if !self.replication.deferred.borrow().has(*id) {
                    let _ = self.hear(*id, Word::Link(*node));
                }
                slices.did(1).await;
            }
        }
    }

    /// Says whether appends to a partition wait for more replicas than its ack quorum.
    fn waits_for_more(&self, id: PartitionId) -> bool {
        let partitions = self.partitions.borrow();
        let role = partitions.get(&id).map(|partition| &partition.role);
        let waits = matches!(role, Some(Role::Member(member)) if member.replica.waits_for_more());
        waits && !self.replication.deferred.borrow().has(id)
    }

    fn awaited_of(&self, id: PartitionId) -> Vec<(PartitionId, NodeId)> {
        let (partitions, linked) = (self.partitions.borrow(), self.replication.linked.borrow());
        let Some(Role::Member(member)) = partitions.get(&id).map(|partition| &partition.role) else {
            return Vec::new();
        };
        let awaited = member.replica.awaited().into_iter();
        let awaited = awaited.filter(|node| linked.contains_key(node));
        awaited.map(|node| (id, node)).collect()
    }

    /// Reports the leaders that another replica could be in the place of: the first of each partition, so that leaders are spread again after a
    /// node was away. It must have been able for a while.
    pub(super) async fn look_for_preferred(self: Rc<Self>) {
        let mut before = BTreeMap::new();
        loop {
            sleep(PREFERRED_CHECK).await;
            let mut preferred = BTreeMap::new();
            let mut slices = Slices::of_own(LOOKED_AFTER_IN_ONE_TURN);
            for id in self.replica_ids() {
                preferred.extend(self.preferred_of(id).map(|replica| (id, replica)));
                slices.did(1).await;
            }
            let able = preferred
                .iter()
                .filter(|(id, replica)| before.get(*id) == Some(*replica));
            let able = able.take(HAND_OVERS_MAX).map(|(id, replica)| {
                let replica = *replica;
                (*id, Report::Preferred { replica })
            });
            let mut reports = self.replication.reports.borrow_mut();
            let count = reports.len();
            reports.extend(able);
            if reports.len() > count {
                self.replication.news.notify_one();
            }
            drop(reports);
            before = preferred;
        }
    }

    fn preferred_of(&self, id: PartitionId) -> Option<NodeId> {
        let partitions = self.partitions.borrow();
        match &partitions.get(&id)?.role {
            Role::Member(member) => member.replica.preferred(),
            Role::Lone(_) => None,
        }
    }

    /// The partitions that are led here and that others could lead at once, each with the first live follower: before this node stops.
    pub fn successors(&self) -> Vec<(PartitionId, NodeId)> {
        let partitions = self.partitions.borrow();
        let successor = |partition: &Partition| match &partition.role {
            Role::Member(member) => member.replica.successor(),
            Role::Lone(_) => None,
        };
        let each = partitions.iter();
        each.filter_map(|(id, partition)| Some((*id, successor(partition)?)))
            .collect()
    }
}
