//! Leases of the leaders in a shard: whether the tail of one is the latest.
//!
//! The beats go over the shard's links (`protocol::replica::lease`). A leader that was not listened to for long refuses those who would wait for records
//! there: they find another one. It must never tell a tail as the latest without a lease.

use std::rc::Rc;
use std::time::Duration;

use planted::{Bug, planted};
use protocol::leader::NodeId;
use protocol::replica::lease::Beat;
use record::PartitionId;
use tokio::time::timeout;

use super::Replication;
use super::words::Word;
use crate::role::Role;
use crate::{NotLed, Shard};

/// The longest that somebody waits for a lease. One lapses when this node, or another, stood still for a moment.
const PATIENCE: Duration = Duration::from_secs(1);

impl Replication {
    /// Takes the replicas that have to look again by now.
    fn take_due(&self, now: Duration) -> Vec<PartitionId> {
        let mut wakes = self.wakes.borrow_mut();
        let due: Vec<PartitionId> = wakes
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(id, _)| *id)
            .collect();
        wakes.retain(|_, at| *at > now);
        due
    }
}

impl Shard {
    /// The beat for a node. The shard's letters to it have to be sent before.
    pub fn next_beat(&self, to: NodeId) -> Beat {
        let now = self.clock.monotonic();
        self.replication.leases.borrow_mut().next_beat(now, to)
    }

    /// Takes a beat of a node.
    pub fn handle_beat(&self, from: NodeId, beat: Beat) {
        let now = self.clock.monotonic();
        self.replication.leases.borrow_mut().handle_beat(now, from, beat);
        self.replication.listened.notify_waiters();
    }

    /// Returns when the tail that is known here is the latest, in this very turn if it is so now. It stays so for the rest of the turn.
    ///
    /// # Errors
    /// The partition is not led here; or too few other replicas have said for a while that they still listen to this leader.
    pub async fn until_lease(&self, id: PartitionId) -> Result<(), NotLed> {
        let until = self.clock.monotonic() + PATIENCE;
        self.until_told(id, until).await?;
        while !self.has_lease(id)? {
            let left = until.saturating_sub(self.clock.monotonic());
            if left.is_zero() {
                return Err(NotLed::NotLeader);
            }
            // A beat may come that does not suffice.
            let _ = timeout(left, self.replication.listened.notified()).await;
        }
        Ok(())
    }

    /// Says whether nobody else can have come to lead a partition that is led here.
    ///
    /// # Errors
    /// The partition, or its leader, is not here.
    pub fn has_lease(&self, id: PartitionId) -> Result<bool, NotLed> {
        let partitions = self.partitions.borrow();
        let role = &partitions.get(&id).ok_or_else(|| self.absence(id))?.role;
        role.open_leader()?;
        Ok(self.holds_lease(id, role))
    }

    /// Says whether nobody else can have come to lead the partition of this leader without its knowledge.
    pub(crate) fn holds_lease(&self, id: PartitionId, role: &Role) -> bool {
        let Role::Member(member) = role else { return true };
        let (now, leases) = (self.clock.monotonic(), self.replication.leases.borrow());
        // That this epoch is over may be among the words that wait.
        let hears = !self.replication.deferred.borrow().has(id);
        let is_held = hears && member.replica.is_listened_to(|node| leases.is_held(now, node));
        is_held || planted(Bug::LeaseIgnored)
    }

    /// Says whether a partition is led here, and too few replicas have listened to its leader for a while.
    pub fn leads_in_vain(&self, id: PartitionId) -> bool {
        let partitions = self.partitions.borrow();
        partitions
            .get(&id)
            .is_some_and(|partition| self.is_forsaken(&partition.role))
    }

    /// Says whether nobody should wait for records at this leader: too few replicas have listened to it for a while.
    pub(crate) fn is_forsaken(&self, role: &Role) -> bool {
        let Role::Member(member) = role else { return false };
        let (now, leases) = (self.clock.monotonic(), self.replication.leases.borrow());
        let replica = &member.replica;
        replica.is_open() && !replica.is_listened_to(|node| !leases.is_silent(now, node, PATIENCE))
    }

    /// Has a replica look again at a time.
    pub(super) fn look_again_at(&self, id: PartitionId, at: Duration) {
        self.replication.wakes.borrow_mut().insert(id, at);
        self.replication.wakes_earlier.notify_one();
    }

    /// Has replicas look again when it is time.
    pub(super) async fn wake_replicas(self: Rc<Self>) {
        loop {
            let now = self.clock.monotonic();
            for id in self.replication.take_due(now) {
                // It may be gone.
                let _ = self.hear(id, Word::Look);
            }
            let next = self.replication.wakes.borrow().values().min().copied();
            let earlier = self.replication.wakes_earlier.notified();
            match next {
                Some(at) => drop(timeout(at.saturating_sub(now), earlier).await),
                None => earlier.await,
            }
        }
    }
}
