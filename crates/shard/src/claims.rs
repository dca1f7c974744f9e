//! Appends that depend on the tail, where a scribe keeps the order: examined, they wait here until their position is promised.
//!
//! ```text
//!   append ─► examined ─► here ─► claim ─► the scribe promises ─► staged in that turn ─► committed ─► reported, which ends the promise
//! ```
//! Whoever carries claims (`next_claim` on) asks the scribe, one claim of a partition at a time. From the claim on the partition's leader keeps silent, until what it
//! has staged is committed, or nothing was. That must hold whatever becomes of the order meanwhile: so it is noted with the partition. Decision 0044.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use planted::{Bug, planted};
use protocol::leader::Checked;
use protocol::order::{Committed, LANE};
use record::{Epoch, Offset, PartitionId, Position};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::append::append_of;
use super::member::AtHand;
use super::waiting_room::{Attempt, WaitingRoom};
use super::{AppendRefusal, AppendRequest, Partition, Role, Shard, Watch, Watcher};

/// Appends that wait for the positions of one topic.
const WAITING_MAX: usize = 1_024;

/// See the module.
#[derive(Default)]
pub(super) struct Claims {
    waiting: RefCell<BTreeMap<PartitionId, WaitingRoom<Attempt>>>,
    came: Notify,
}

/// An append whose position is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// The epoch of the partition's leader.
    pub epoch: Epoch,
    /// The offset that it will have.
    pub first: Offset,
}

impl Claims {
    /// Takes all that wait.
    pub(super) fn take_all(&self) -> impl Iterator<Item = AppendRequest> + use<> {
        let waiting = self.waiting.take();
        waiting.into_values().flat_map(|mut room| room.take_all())
    }
}

impl Partition {
    /// Says whether nothing may be reported, for a promise depends on it.
    pub(super) fn is_silent(&self, report: &Committed) -> bool {
        let Some(claimed) = self.claimed.get() else {
            return false;
        };
        let is_under_way = claimed.epoch == report.epoch && report.tail <= claimed.first;
        if !is_under_way {
            self.claimed.set(None);
        }
        is_under_way && !planted(Bug::ClaimReported)
    }
}

impl Shard {
    /// Says whether nothing that earlier leaders of a partition have left behind can come back: then its leader knows what is promised to it, and what is not. Sees to it,
    /// if that is not so yet.
    pub fn have_accepted(&self, id: PartitionId) -> bool {
        let mut partitions = self.partitions.borrow_mut();
        let Some(partition) = partitions.get_mut(&id) else {
            return false;
        };
        let Role::Member(member) = &mut partition.role else {
            return partition.role.leader().is_ok();
        };
        let is_accepted = member.replica.is_accepted() || planted(Bug::LeftoversForgotten);
        if !is_accepted {
            member.replica.have_accepted();
            self.carry_out(id, partition, AtHand::Staged);
        }
        is_accepted
    }

    /// Says whether an append is to wait for its position. One that is refused in any case does not; one that was there before is answered.
    pub(super) fn waits_for_position(&self, attempt: &Attempt) -> bool {
        let (request, examined) = (&attempt.request, &attempt.approved.examined);
        if request.conditions.tail.is_none() || request.partition.index != LANE {
            return false;
        }
        let partitions = self.partitions.borrow();
        let ordered = partitions.get(&request.partition);
        let ordered = ordered.filter(|partition| partition.reporter.is_some());
        let Some(partition) = ordered else { return false };
        let Ok(append) = append_of(request, examined) else {
            return false;
        };
        let admission = self.producer_room.admission(self.clock.monotonic(), request.from);
        let checked = partition.role.check_append(&append, &admission);
        matches!(checked, Ok(Checked::New(_)))
    }

    pub(super) fn wait_for_position(&self, attempt: Attempt) {
        let mut waiting = self.claims.waiting.borrow_mut();
        let room = waiting.entry(attempt.request.partition).or_default();
        if room.len() >= WAITING_MAX {
            let why = format!("{WAITING_MAX} appends to the topic wait for their positions");
            drop(waiting);
            return self.refuse(attempt.request, AppendRefusal::JournalFull { why: why.into() });
        }
        room.push(attempt);
        self.claims.came.notify_one();
    }

    /// Returns when an append waits for its position that did not before.
    pub async fn until_claims(&self) {
        self.claims.came.notified().await;
    }

    /// The partitions with such appends.
    pub fn claiming(&self) -> Vec<PartitionId> {
        self.claims.waiting.borrow().keys().copied().collect()
    }

    /// The position that the first append of a partition waits for, if somebody waits for that.
    pub fn next_claim(&self, id: PartitionId) -> Option<Position> {
        let mut waiting = self.claims.waiting.borrow_mut();
        let room = waiting.get_mut(&id)?;
        let Some(first) = room.pop_wanted() else {
            waiting.remove(&id);
            return None;
        };
        let position = first.request.conditions.tail;
        room.put_back(first);
        position
    }

    /// Has the leader of a partition keep silent, because a position is asked for; `None` where what was appended for an earlier one is not committed.
    ///
    /// # Errors
    /// `NoOrder`, `OrderNotOpen`, or it is not led here.
    pub fn begin_claim(&self, id: PartitionId) -> Result<Option<Claimed>, AppendRefusal> {
        let partitions = self.partitions.borrow();
        let partition = partitions.get(&id).ok_or_else(|| self.absence(id))?;
        let leader = partition.role.leader()?;
        if partition.reporter.is_none() {
            return Err(AppendRefusal::NoOrder);
        }
        if partition.open_leader().is_err() {
            return Err(AppendRefusal::OrderNotOpen);
        }
        let (epoch, tail, first) = (leader.epoch(), leader.tail(), leader.next_offset());
        let before = partition.claimed.get();
        if before.is_some_and(|before| before.epoch == epoch && tail <= before.first) {
            return Ok(None);
        }
        let claimed = Claimed { epoch, first };
        partition.claimed.set(Some(claimed));
        Ok(Some(claimed))
    }

    /// Takes back a claim. The leader reports again, unless something was staged there: then as soon as that is committed.
    pub fn end_claim(&self, id: PartitionId) {
        let partitions = self.partitions.borrow();
        let Some(partition) = partitions.get(&id) else {
            return;
        };
        let led = partition.role.leader().ok().map(|leader| Claimed {
            epoch: leader.epoch(),
            first: leader.next_offset(),
        });
        if partition.claimed.get() == led {
            partition.claimed.set(None);
        }
        if let Some(reporter) = &partition.reporter {
            reporter.note_anew();
        }
    }

    /// Stages the first append that waits, now that its position is promised, and ends the claim if nothing is staged.
    pub fn append_claimed(&self, id: PartitionId, position: Position) {
        if let Some(attempt) = self.take_claiming(id, position) {
            // All of the order waits for it: it does not wait for room.
            let attempt = Attempt {
                request: attempt.request.at_once(),
                ..attempt
            };
            self.append_in_turn(attempt);
        }
        self.end_claim(id);
    }

    /// Refuses the first append that waits.
    pub fn refuse_claim(&self, id: PartitionId, position: Position, refusal: AppendRefusal) {
        if let Some(attempt) = self.take_claiming(id, position) {
            self.refuse(attempt.request, refusal);
        }
    }

    /// Refuses all that wait for positions of a topic.
    pub fn refuse_claims(&self, id: PartitionId, refusal: &AppendRefusal) {
        let waiting = self.claims.waiting.borrow_mut().remove(&id);
        for request in waiting.into_iter().flat_map(|mut room| room.take_all()) {
            self.refuse(request, refusal.clone());
        }
    }

    /// Takes the first append that waits, if it is for this position still.
    fn take_claiming(&self, id: PartitionId, position: Position) -> Option<Attempt> {
        let mut waiting = self.claims.waiting.borrow_mut();
        let room = waiting.get_mut(&id)?;
        let first = room.pop_wanted()?;
        if first.request.conditions.tail != Some(position) {
            room.put_back(first);
            return None;
        }
        Some(first)
    }

    /// Returns when readers are shown more than this of a partition, or after a while.
    pub async fn until_shown(&self, id: PartitionId, seen: Offset, most: Duration) {
        let watcher = Watcher::new(1);
        self.watch(&[Watch::lone(id, seen)], &watcher);
        // Whoever waits looks again then.
        let _ = timeout(most, watcher.woken()).await;
    }
}
