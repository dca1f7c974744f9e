//! The events of a run, and from them the content of a store that recovers from it: exactly the frames up to some point, and that point
//! not before the last one acknowledged.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use record::PartitionId;

use super::compacted::{Checked, compare_compacted};
use super::rig::read_log;
use crate::store::{Recovered, Store};
use crate::witness::{Witness, Witnesses};

pub(super) enum Event {
    Batch {
        partition: PartitionId,
        next: i64,
        bytes: Bytes,
    },
    Trim {
        partition: PartitionId,
        log_start: i64,
    },
    Delete {
        partition: PartitionId,
    },
    Cut {
        partition: PartitionId,
        first: i64,
        /// -1 if it was only cut.
        accepted: i32,
    },
    Promise {
        partition: PartitionId,
        epoch: i32,
    },
    Base {
        partition: PartitionId,
        first: i64,
    },
    /// A segment of another node came: it is no part of a frame, but of a checkpoint.
    Import {
        partition: PartitionId,
        first: i64,
        next: i64,
        batches: Vec<(i64, Bytes)>,
        /// The content of earlier frames is durable before such a checkpoint is.
        staged_before: u64,
    },
    Witness(Witness),
    /// A frame that changes nothing.
    Close,
}

/// One partition's log as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// -1 if there is none.
    pub(super) promised: i32,
    pub(super) accepted: i32,
    pub(super) log_start: i64,
    pub(super) next: i64,
    /// The end offset and the bytes of each batch that is not wholly trimmed.
    pub(super) batches: Vec<(i64, Bytes)>,
}

impl Default for Expected {
    fn default() -> Expected {
        Expected {
            promised: -1,
            accepted: -1,
            log_start: 0,
            next: 0,
            batches: Vec::new(),
        }
    }
}

pub(super) type State = BTreeMap<PartitionId, Expected>;

#[derive(Default)]
pub(super) struct History {
    /// The store compacts: of each key at least the latest record must be there, and nothing that was not appended.
    pub(super) compacted: bool,
    /// Logs may have gaps, and begin anywhere.
    pub(super) replicated: bool,
    /// With the frame that each is part of.
    events: Vec<(u64, Event)>,
    /// After so many operations of the disk, so many frames had been acknowledged.
    acknowledged: Vec<(u64, u64)>,
    /// After so many operations of the disk, a checkpoint named what had been imported of the partition up to an offset.
    recorded: Vec<(u64, PartitionId, i64)>,
    states: std::cell::RefCell<BTreeMap<u64, Rc<State>>>,
    checked: std::cell::RefCell<Checked>,
}

impl History {
    pub(super) fn note(&mut self, frame: u64, event: Event) {
        assert!(
            self.events.last().is_none_or(|(last, _)| *last <= frame),
            "frames follow each other"
        );
        self.forget_states();
        self.events.push((frame, event));
    }

    /// Forgets what was derived from the events so far.
    fn forget_states(&mut self) {
        self.states.get_mut().clear();
        self.checked.get_mut().clear();
    }

    pub(super) fn acknowledge(&mut self, operations: u64, frames: u64) {
        self.acknowledged.push((operations, frames));
    }

    /// Frames whose acknowledgement came before the disk's operation number `operations` began.
    pub(super) fn acknowledged_at(&self, operations: u64) -> u64 {
        let before = self.acknowledged.partition_point(|(at, _)| *at <= operations);
        before.checked_sub(1).map_or(0, |last| self.acknowledged[last].1)
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged_at(u64::MAX)
    }

    /// Takes note of what a durable checkpoint names of what was imported.
    pub(super) fn note_recorded(&mut self, operations: u64, store: &Store) {
        for (_, event) in &self.events {
            let Event::Import { partition, next, .. } = event else {
                continue;
            };
            let is_known = self
                .recorded
                .iter()
                .any(|(_, id, end)| (id, end) == (partition, next));
            let log = store.partitions.get(partition);
            if !is_known && log.is_some_and(|log| log.recorded >= *next) {
                self.recorded.push((operations, *partition, *next));
            }
        }
    }

    /// Says whether what was imported is there, once a checkpoint named it before the disk's operation number `operations` began. A
    /// partition that is gone was deleted, or `check` says so.
    pub(super) fn check_imports(&self, store: &Store, operations: u64) -> Result<(), String> {
        let recorded = self.recorded.iter().filter(|(at, _, _)| *at <= operations);
        for (_, id, next) in recorded {
            if store.bounds(*id).is_some_and(|(_, found)| found.0 < *next) {
                return Err(format!("{id} was imported up to {next}, and that is gone"));
            }
        }
        Ok(())
    }

    /// The imports that the store knows nothing of, with so many frames.
    fn missing_imports(&self, store: &Store, frames: u64) -> Vec<(PartitionId, i64)> {
        let is_there = |id: PartitionId, next: i64, staged_before: u64| {
            frames >= staged_before && store.bounds(id).is_some_and(|(_, found)| found.0 >= next)
        };
        let missing = self.events.iter().filter_map(|(_, event)| match *event {
            Event::Import {
                partition,
                next,
                staged_before,
                ..
            } => (!is_there(partition, next, staged_before)).then_some((partition, next)),
            _ => None,
        });
        missing.collect()
    }

    /// A recovery found so many frames: they count as acknowledged now, and what was staged in later ones is forgotten.
    pub(super) fn recovered(&mut self, operations: u64, frames: u64, store: &Store) {
        self.forget_states();
        let mut missing = self.missing_imports(store, frames);
        // Of a partition that was deleted later.
        missing.retain(|(id, next)| {
            !self
                .recorded
                .iter()
                .any(|(_, known, end)| (known, end) == (id, next))
        });
        self.events.retain(|(frame, event)| match event {
            Event::Import { partition, next, .. } => !missing.contains(&(*partition, *next)),
            _ => *frame < frames,
        });
        self.acknowledge(operations, frames);
    }

    pub(super) fn frames(&self) -> u64 {
        self.events.last().map_or(0, |(frame, _)| frame + 1)
    }

    /// The partitions after `frames` frames.
    pub(super) fn state_after(&self, frames: u64) -> Rc<State> {
        let replay = || Rc::new(self.replay(frames, &[]));
        self.states
            .borrow_mut()
            .entry(frames)
            .or_insert_with(replay)
            .clone()
    }

    fn replay(&self, frames: u64, missing: &[(PartitionId, i64)]) -> State {
        replay(self.events.iter().filter(|(frame, event)| match event {
            Event::Import { partition, next, .. } => !missing.contains(&(*partition, *next)),
            _ => *frame < frames,
        }))
    }

    /// Compares a freshly recovered store with this history; gives back how many frames it has and how many acknowledged
    /// batches were compared.
    pub(super) fn check(
        &self,
        store: &mut Store,
        recovered: &Recovered,
        acknowledged: u64,
    ) -> Result<(u64, usize), String> {
        let frames = store.journal.pending_frame();
        if frames < acknowledged || frames > self.frames() {
            let staged = self.frames();
            return Err(format!(
                "{frames} frames recovered of {staged} written and {acknowledged} acknowledged"
            ));
        }
        // A checkpoint says what was imported: all of a segment or nothing.
        let missing = self.missing_imports(store, frames);
        let state = match missing.is_empty() {
            true => self.state_after(frames),
            false => Rc::new(self.replay(frames, &missing)),
        };
        self.check_recovered(recovered, &state)?;
        self.check_witnesses(recovered, frames)?;
        let compared = match self.compacted {
            false => compare_with(store, &state, self.replicated)?,
            true => compare_compacted(store, &state, &mut self.checked.borrow_mut())?,
        };
        Ok((frames, compared))
    }

    /// Compares what recovery tells of other nodes' journals with what was journaled in so many frames.
    pub(super) fn check_witnesses(&self, recovered: &Recovered, frames: u64) -> Result<(), String> {
        let mut expected = Witnesses::default();
        for (_, event) in self.events.iter().filter(|(frame, _)| *frame < frames) {
            if let Event::Witness(witness) = event {
                expected.note(witness);
            }
        }
        let (found, expected) = (&recovered.witnesses, expected.list());
        match *found == expected {
            true => Ok(()),
            false => Err(format!("witnesses {found:?} recovered instead of {expected:?}")),
        }
    }

    /// Compares what recovery tells of partitions with a state.
    pub(super) fn check_recovered(&self, recovered: &Recovered, state: &State) -> Result<(), String> {
        // One that was cut off wholly may be told of or not.
        let found = || {
            let partitions = recovered.partitions.iter();
            partitions.filter(|found| found.next.0 > 0 || state.contains_key(&found.id))
        };
        let ids: Vec<_> = found().map(|partition| partition.id).collect();
        if !ids.iter().eq(state.keys()) {
            return Err(format!(
                "partitions {ids:?} recovered instead of {:?}",
                state.keys()
            ));
        }
        for (partition, expected) in found().zip(state.values()) {
            check_replay(partition, expected, self.replicated)?;
        }
        Ok(())
    }
}

/// Compares everything that can be read with a state.
pub(super) fn compare(store: &mut Store, state: &State) -> Result<usize, String> {
    compare_with(store, state, false)
}

fn compare_with(store: &mut Store, state: &State, gaps: bool) -> Result<usize, String> {
    let mut compared = 0;
    for (id, expected) in state {
        let bounds = store.bounds(*id).map(|(log_start, next)| (log_start.0, next.0));
        if bounds != Some((expected.log_start, expected.next)) {
            return Err(format!(
                "{id} spans {bounds:?} instead of {}..{}",
                expected.log_start, expected.next
            ));
        }
        let read = read_log(store, *id, 4_000, gaps).map_err(|error| format!("reading {id}: {error}"))?;
        if read != expected.bytes() {
            return Err(format!("{id} holds other bytes than were appended"));
        }
        compared += expected.batches.len();
    }
    Ok(compared)
}

impl Expected {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut all = Vec::new();
        self.batches
            .iter()
            .for_each(|(_, bytes)| all.extend_from_slice(bytes));
        all
    }
}

/// The owner's state must reflect only records that are there, and the batches after it must be handed out without a gap.
fn check_replay(
    partition: &crate::store::RecoveredPartition,
    expected: &Expected,
    gaps: bool,
) -> Result<(), String> {
    let id = partition.id;
    let state = &partition.state;
    let mut reached = match state.first_chunk::<8>() {
        Some(next) if !partition.begun_anew => i64::from_le_bytes(*next),
        _ if gaps => partition
            .replay
            .first()
            .map_or(partition.next.0, |batch| batch.header.base_offset.0),
        _ => 0,
    };
    let vow = |at: usize, found: Option<record::Epoch>| {
        let stated = state.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        let stated = stated.map_or(-1, i32::from_le_bytes);
        stated.max(found.map_or(-1, |epoch| epoch.0))
    };
    let vows = (vow(8, partition.promised), vow(12, partition.accepted));
    if vows != (expected.promised, expected.accepted) {
        return Err(format!(
            "{id} has promised and accepted {vows:?}, but is {expected:?}"
        ));
    }
    if reached > expected.next {
        return Err(format!(
            "{id} has a state of records up to {reached}, but ends at {}",
            expected.next
        ));
    }
    for batch in &partition.replay {
        let header = &batch.header;
        if header.base_offset.0 < reached || (header.base_offset.0 > reached && !gaps) {
            return Err(format!(
                "{id} replays from {} where {reached} is expected",
                header.base_offset
            ));
        }
        reached = header.next_offset().0;
    }
    let (log_start, next) = (partition.log_start.0, partition.next.0);
    if reached != expected.next || next != expected.next || log_start != expected.log_start {
        return Err(format!(
            "{id} replays up to {reached}, says {log_start}..{next}, but is {expected:?}"
        ));
    }
    Ok(())
}

fn replay<'a>(events: impl Iterator<Item = &'a (u64, Event)>) -> State {
    let mut state = State::new();
    for (_, event) in events {
        match event {
            Event::Batch {
                partition,
                next,
                bytes,
            } => {
                let log = state.entry(*partition).or_default();
                log.next = *next;
                log.batches.push((*next, bytes.clone()));
            }
            Event::Trim { partition, log_start } => {
                if let Some(log) = state.get_mut(partition) {
                    log.log_start = log.log_start.max(*log_start);
                    let log_start = log.log_start;
                    log.batches.retain(|(next, _)| *next > log_start);
                }
            }
            Event::Cut {
                partition,
                first,
                accepted,
            } => {
                let log = state.entry(*partition).or_default();
                log.next = *first;
                log.batches.retain(|(next, _)| next <= first);
                log.accepted = log.accepted.max(*accepted);
            }
            Event::Promise { partition, epoch } => {
                let log = state.entry(*partition).or_default();
                log.promised = log.promised.max(*epoch);
            }
            Event::Base { partition, first } => {
                let log = state.entry(*partition).or_default();
                (log.log_start, log.next) = (*first, *first);
                log.batches.clear();
            }
            Event::Import {
                partition,
                first,
                next,
                batches,
                ..
            } => {
                let log = state.entry(*partition).or_default();
                if log.next == 0 {
                    log.log_start = *first;
                }
                log.next = *next;
                log.batches.extend(batches.iter().cloned());
            }
            Event::Witness(_) | Event::Close => {}
            Event::Delete { partition } => {
                state.remove(partition);
            }
        }
    }
    state.retain(|_, log| log.next > 0 || (log.promised, log.accepted) != (-1, -1));
    state
}
