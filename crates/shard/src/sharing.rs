//! Partitions whose replicas change: one that was held here alone comes to be held by other nodes too, and one that this node has given up
//! comes back.
//!
//! A partition that was held alone goes on with its log, and its producers go on waiting: the epoch that begins next commits their batches. One that
//! comes back must be another partition to the store than the one that was given up: it waits until nothing on the disk tells of that.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use platform::turns;
use protocol::history::BatchFacts;
use protocol::leader::{Leader, NodeId};
use protocol::metadata::TopicSettings;
use protocol::replica::{Assignment, NO_EPOCH, Replica, Stored};
use record::{BatchHeader, Logged, PartitionId};
use storage::Read;
use tokio::time::sleep;

use crate::member::Member;
use crate::role::{NotLed, Role};
use crate::{Partition, Shard};

/// Between two looks at what waits.
const LOOK: Duration = Duration::from_millis(100);

/// Partitions that wait until they may begin anew here.
#[derive(Default)]
pub(super) struct Returning {
    waiting: RefCell<BTreeMap<PartitionId, Return>>,
    is_looked_at: Cell<bool>,
}

struct Return {
    topic: TopicSettings,
    /// The latest, if it was told of one.
    assignment: Option<Assignment>,
}

impl Returning {
    pub(super) fn has(&self, id: PartitionId) -> bool {
        self.waiting.borrow().contains_key(&id)
    }

    /// Forgets one that is given up again.
    pub(super) fn forget(&self, id: PartitionId) {
        self.waiting.borrow_mut().remove(&id);
    }

    pub(super) fn configure(&self, id: PartitionId, topic: TopicSettings) {
        if let Some(returns) = self.waiting.borrow_mut().get_mut(&id) {
            returns.topic = topic;
        }
    }

    /// Keeps for later that a member is in doubt, or is not any more. Says whether the partition waits.
    pub(super) fn note_doubt(&self, id: PartitionId, node: NodeId, is_in_doubt: bool) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let Some(returns) = waiting.get_mut(&id) else {
            return false;
        };
        if let Some(assignment) = &mut returns.assignment {
            assignment.uncertain.retain(|known| *known != node);
            assignment.uncertain.extend(is_in_doubt.then_some(node));
        }
        true
    }

    /// Keeps an assignment for later. Gives it back if the partition does not wait.
    pub(super) fn assign(&self, id: PartitionId, assignment: Assignment) -> Option<Assignment> {
        match self.waiting.borrow_mut().get_mut(&id) {
            Some(returns) => {
                returns.assignment = Some(assignment);
                None
            }
            None => Some(assignment),
        }
    }
}

impl Shard {
    /// Has a partition that was held here alone be one that other nodes hold too. It follows, and is in doubt, until it is assigned. Nothing
    /// changes of one that is so already.
    ///
    /// # Errors
    /// It is not here.
    pub fn share(&self, id: PartitionId) -> Result<(), NotLed> {
        let mut partitions = self.partitions.borrow_mut();
        let Some(partition) = partitions.get_mut(&id) else {
            return match self.returning.has(id) {
                true => Ok(()),
                false => Err(NotLed::UnknownPartition),
            };
        };
        let Partition { role, topic, .. } = &mut **partition;
        let Role::Lone(leader) = &*role else {
            return Ok(());
        };
        let now = self.clock.monotonic();
        let stored = self.stored_of(id, leader);
        self.producer_room.note_gone(leader.producers());
        let limits = self.settings.producer_limits;
        let replica = Replica::recover(now, self.settings.node, limits, stored);
        let mut replica = replica.expect("a log that is led contradicts nothing");
        replica.handle_durability(topic.durability);
        replica.handle_insync_min(now, topic.insync_replicas_min);
        assert_eq!(
            self.store.borrow().bounds(id),
            Some((replica.log_start(), replica.next_offset())),
            "the replica goes on with the log that was led"
        );
        // Nobody else has led it.
        let mut member = Member::new(replica, Duration::ZERO);
        if self.store.borrow().dead().is_some() {
            member.give_up();
        }
        *role = Role::Member(Box::new(member));
        partition.wake_readers();
        Ok(())
    }

    /// The log of a leader, as storage would find it.
    fn stored_of(&self, id: PartitionId, leader: &Leader) -> Stored {
        let (covered, history) = leader.snapshot_history(self.clock.monotonic());
        let next_offset = leader.next_offset();
        let bytes = match covered < next_offset {
            false => Vec::new(),
            // Batches that are not committed are not flushed, and in memory.
            true => match self.store.borrow_mut().read(id, covered, next_offset, usize::MAX) {
                Ok(Read::Ready(bytes)) => bytes,
                _ => panic!("batches stay in memory until they are flushed"),
            },
        };
        let batches = bytes
            .iter()
            .flat_map(|bytes| record::batches(bytes).map_while(Result::ok));
        let facts = |(header, bytes): (BatchHeader, &[u8])| {
            let batch = Logged::of(header, bytes).expect("a marker was made here");
            BatchFacts::of(&batch)
        };
        let written = leader.epochs().latest().unwrap_or(NO_EPOCH);
        Stored {
            promised: written,
            accepted: written,
            log_start: leader.log_start(),
            next_offset,
            covered,
            history,
            batches: batches.map(facts).collect(),
        }
    }

    /// Opens an empty replica once it may be, and lets it know then of what it was assigned to meanwhile.
    pub(super) fn open_when_forgotten(self: &Rc<Self>, id: PartitionId, topic: TopicSettings) {
        let returns = Return {
            topic,
            assignment: None,
        };
        self.returning.waiting.borrow_mut().insert(id, returns);
        if !self.returning.is_looked_at.replace(true) {
            turns::spawn(self.clone().look_at_returning());
        }
    }

    async fn look_at_returning(self: Rc<Self>) {
        loop {
            let waiting: Vec<PartitionId> = self.returning.waiting.borrow().keys().copied().collect();
            if waiting.is_empty() {
                break;
            }
            for id in waiting {
                self.open_if_forgotten(id);
            }
            sleep(LOOK).await;
        }
        self.returning.is_looked_at.set(false);
    }

    fn open_if_forgotten(self: &Rc<Self>, id: PartitionId) {
        if !self.store.borrow().may_begin(id) {
            if self.store.borrow_mut().hasten_forgetting(id) {
                // All that stands before the deletion is laid out, so that no start reads it back.
                self.layout.want_all();
            }
            return self.background.notify_one();
        }
        let returns = self.returning.waiting.borrow_mut().remove(&id);
        let Some(Return { topic, assignment }) = returns else {
            return;
        };
        self.open_replica(id, topic, None)
            .expect("an empty log contradicts nothing");
        if let Some(assignment) = assignment {
            self.assign(id, assignment).expect("it was just opened");
        }
    }
}
