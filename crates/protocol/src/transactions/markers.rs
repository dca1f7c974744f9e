//! The markers that are to be written: one for each partition of each transaction whose outcome is decided.
//!
//! Each is sent again and again, with a pause, until its partition has it or is gone. A marker's id belongs to one transaction: a late
//! word about an old one must never count for a newer transaction of the same producer (KAFKA-16352).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use planted::{Bug, planted};

use super::contract::{MarkerId, Name, TopicPartition, WriteMarker};
use super::state::IdState;
use crate::ProducerId;

/// The pause before a marker is sent again.
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// Markers that are sent again in one call.
const RETRIES_AT_ONCE: usize = 1_000;

/// The markers of one coordinator.
#[derive(Debug)]
pub(super) struct Markers {
    coordinator_epoch: i32,
    jobs: BTreeMap<MarkerId, Job>,
    /// Those that wait to be sent again.
    retries: BTreeSet<(Duration, MarkerId)>,
    next: u64,
    /// Times that one was to be sent again.
    retried: u64,
}

/// A marker that is under way, or waits to be sent again.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) transactional_id: Name,
    partition: TopicPartition,
    producer: ProducerId,
    epoch: i16,
    commit: bool,
    version: u8,
}

impl Job {
    /// Says whether it belongs to the transaction that an id has now.
    pub(super) fn is_of(&self, state: &IdState) -> bool {
        planted(Bug::OldMarkerCounts) || (self.producer == state.producer && self.epoch == state.epoch)
    }
}

impl Markers {
    pub(super) fn new(coordinator_epoch: i32) -> Markers {
        Markers {
            coordinator_epoch,
            jobs: BTreeMap::new(),
            retries: BTreeSet::new(),
            next: 0,
            retried: 0,
        }
    }

    /// Makes a marker for each partition of a decided transaction; gives their ids.
    pub(super) fn begin(&mut self, transactional_id: &Name, state: &IdState) -> Range<u64> {
        let first = self.next;
        for partition in state.partitions.iter() {
            let job = Job {
                transactional_id: Name::clone(transactional_id),
                partition: partition.clone(),
                producer: state.producer,
                epoch: state.epoch,
                commit: state.phase.is_commit(),
                version: state.version,
            };
            self.jobs.insert(MarkerId(self.next), job);
            self.next += 1;
        }
        first..self.next
    }

    /// The marker as it is sent.
    pub(super) fn message(&self, id: MarkerId) -> Option<WriteMarker> {
        let job = self.jobs.get(&id)?;
        Some(WriteMarker {
            id,
            partition: job.partition.clone(),
            producer: job.producer,
            producer_epoch: job.epoch,
            coordinator_epoch: self.coordinator_epoch,
            commit: job.commit,
            version: job.version,
        })
    }

    /// Takes off a marker whose partition has it, or is gone; `None` if that was known.
    pub(super) fn finish(&mut self, id: MarkerId) -> Option<Job> {
        if planted(Bug::OldMarkerCounts) {
            return self.jobs.get(&id).cloned();
        }
        self.jobs.remove(&id)
    }

    /// Has a marker sent again later.
    pub(super) fn retry(&mut self, id: MarkerId, now: Duration) {
        if self.jobs.contains_key(&id) {
            self.retries.insert((now + RETRY_AFTER, id));
            self.retried += 1;
        }
    }

    /// Markers that their partitions have not taken yet.
    pub(super) fn waiting(&self) -> usize {
        self.jobs.len()
    }

    /// Times that a marker was to be sent again.
    pub(super) fn retried(&self) -> u64 {
        self.retried
    }

    /// Finds the transactional id that a marker belongs to.
    pub(super) fn owner(&self, id: MarkerId) -> Option<Name> {
        self.jobs.get(&id).map(|job| Name::clone(&job.transactional_id))
    }

    /// Forgets these markers: another coordinator has taken over.
    pub(super) fn forget(&mut self, ids: Range<u64>) {
        for id in ids {
            self.jobs.remove(&MarkerId(id));
        }
    }

    /// Returns the time when [`Markers::due`] has something to send.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.retries.first().map(|(at, _)| *at)
    }

    /// The markers to send again now, as many as may be at once.
    pub(super) fn due(&mut self, now: Duration) -> Vec<WriteMarker> {
        let mut due = Vec::new();
        while let Some(first) = self.retries.first().copied()
            && first.0 <= now
            && due.len() < RETRIES_AT_ONCE
        {
            self.retries.remove(&first);
            due.extend(self.message(first.1));
        }
        due
    }
}
