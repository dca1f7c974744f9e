//! Opening a store: the checkpoint, then the journal since then. What it reads does not grow with what is stored.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;
use planted::{Bug, planted};
use platform::disk::Disk;
use platform::random::Random;
use record::{Epoch, Logged, Offset, PartitionId};

use super::caches::Caches;
use super::compacting::Compaction;
use super::forgetting::Deleted;
use super::importing::Imports;
use super::layout::Layout;
use super::removal::Removals;
use super::returning::Returning;
use super::{Store, StoreConfig};
use crate::checkpoint::{self, Checkpoint, PartitionCheckpoint, Removal};
use crate::checksum::JournalIdentity;
use crate::fault::{Doing, Fault};
use crate::import::remove_unfinished;
use crate::journal::frame::{Entry, EntryHeader, EntryKind, NONE};
use crate::journal::{FrameLocation, Journal, Scanned, directory, scan};
use crate::partition::{PartitionLog, SegmentRolling, TailBatch};
use crate::witness::{Witness, Witnesses};

/// The findings of recovery, for the owner to build its own state from.
#[derive(Debug, Default)]
pub struct Recovered {
    /// All partitions with anything stored.
    pub partitions: Vec<RecoveredPartition>,
    /// Frames replayed.
    pub frames: u64,
    /// Bytes of journal replayed.
    pub journal_bytes: u64,
    /// Bytes of a torn, never acknowledged frame that were cut off.
    pub cut_bytes: u64,
    /// The last frame had a turned bit, which was put right.
    pub mended: bool,
    /// Witnesses of other nodes' journals, one for each of these.
    pub witnesses: Vec<Witness>,
}

/// One partition as recovered.
#[derive(Debug)]
pub struct RecoveredPartition {
    /// Which.
    pub id: PartitionId,
    /// The first offset kept.
    pub log_start: Offset,
    /// The offset after the last record.
    pub next: Offset,
    /// The state that the owner gave to the last checkpoint; empty if there was none.
    pub state: Bytes,
    /// The log was made to begin at `log_start` since: what `state` says of records holds no more, but what was promised and
    /// accepted does.
    pub begun_anew: bool,
    /// All batches that `state` does not reflect, in order.
    pub replay: Vec<Logged>,
    /// The greatest epoch that the journal promises to wait for, which `state` may reflect already.
    pub promised: Option<Epoch>,
    /// The greatest epoch whose log an entry of the journal accepts, which `state` may reflect already.
    pub accepted: Option<Epoch>,
    /// The greatest epoch that wrote a batch in the journal, even if it was cut off since: the log here has been that epoch's, too.
    pub written: Option<Epoch>,
}

impl RecoveredPartition {
    fn new(id: PartitionId) -> RecoveredPartition {
        RecoveredPartition {
            id,
            log_start: Offset::ZERO,
            next: Offset::ZERO,
            state: Bytes::new(),
            begun_anew: false,
            replay: Vec::new(),
            promised: None,
            accepted: None,
            written: None,
        }
    }
}

/// The sum of the checkpoint and the journal.
pub(crate) struct Replay {
    pub(crate) logs: IndexMap<PartitionId, Box<PartitionLog>>,
    recovered: BTreeMap<PartitionId, RecoveredPartition>,
    state_next: BTreeMap<PartitionId, i64>,
    pub(crate) removals: VecDeque<(Box<Removal>, u64)>,
    /// Partitions of which entries go on behind where their log ends here, and at which offset. What is between was laid out, and they were
    /// deleted since, or it was carried: a later entry must say so.
    detached: BTreeMap<PartitionId, i64>,
    /// Partitions of which entries lie below where the checkpoint says that segments end, and at which offset. They are of before the
    /// log was made to begin there: a later entry must say so.
    outdated: BTreeMap<PartitionId, i64>,
    pub(crate) witnesses: Witnesses,
}

/// Called with each batch of the journal and its entry; an error message stops the recovery as damage.
pub(crate) type LookAt<'a> = dyn FnMut(&EntryHeader, &[u8]) -> Result<(), String> + 'a;

/// Reads the checkpoint and the journal since then. Changes nothing.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    identity: &JournalIdentity,
    look_at: &mut LookAt<'_>,
) -> Result<(Replay, Scanned), Fault> {
    let checkpoint = Checkpoint::read(disk, identity)?;
    let start = checkpoint.as_ref().map(|checkpoint| checkpoint.replay);
    let held = checkpoint
        .as_ref()
        .map_or_else(BTreeSet::new, Checkpoint::held_files);
    let mut replay = Replay::new(checkpoint);
    let mut visit = |location: &FrameLocation, frame: &bytes::Bytes, entries: &[Entry]| {
        entries.iter().try_for_each(|entry| {
            look_at(
                &entry.header,
                &frame[entry.payload_start..][..entry.header.payload_bytes as usize],
            )?;
            replay.apply(location, frame, entry)
        })
    };
    let scanned = scan(disk, identity, start, &held, &mut visit)?;
    replay.finish(disk, identity)?;
    Ok((replay, scanned))
}

impl Store {
    /// Opens the store of `config.identity`, creating it if nothing is there. Blocks.
    ///
    /// # Errors
    /// Damage, unknown versions and disk errors, with the file's name. Nothing was changed then, except that after a disk
    /// error directories and journal files may have been made ready.
    pub fn open(
        disk: Arc<dyn Disk>,
        random: Random,
        config: StoreConfig,
    ) -> Result<(Store, Recovered), Fault> {
        let (mut replay, mut scanned) = recover(&disk, &config.identity, &mut |_, _| Ok(()))?;
        let is_settled = settle(&disk, &config.identity)?;
        let deleted = Deleted::recovered(&replay.removals);
        let mut removals = Removals::listed(std::mem::take(&mut replay.removals));
        if !is_settled {
            scanned.files.hold_back();
            removals.hold_back();
        }
        let logs = replay.logs.values();
        let segments = logs.flat_map(|log| log.segments.iter().map(|segment| (&log.id, segment.name())));
        remove_unfinished(&disk, &config.identity, segments);
        let mut recovered = Recovered {
            frames: scanned.frames.len() as u64,
            journal_bytes: scanned
                .frames
                .iter()
                .map(|frame| u64::from(frame.total_bytes))
                .sum(),
            cut_bytes: scanned.cut_bytes,
            mended: scanned.mended.is_some(),
            witnesses: replay.witnesses.list(),
            partitions: Vec::new(),
        };
        let journal = Journal::open(
            disk.clone(),
            random.clone(),
            config.identity,
            config.journal,
            scanned,
        )
        .map_err(|error| {
            Doing::Opening
                .failed(error)
                .at(disk.root().join("journals").display().to_string())
        })?;
        recovered.partitions = replay.recovered.into_values().collect();
        // All that was ever written of it was cut off.
        let is_nothing = |id: &PartitionId| {
            let log = &replay.logs[id];
            log.next == 0 && !log.has_vows
        };
        recovered
            .partitions
            .retain(|partition| !is_nothing(&partition.id));
        recovered.partitions.sort_by_key(|partition| partition.id);
        let unlaid = queue_for_layout(&mut replay.logs);
        let segments = replay.logs.values().flat_map(|log| &log.segments);
        let adopted = segments
            .filter_map(|segment| Some(segment.adopted?.sequence))
            .collect();
        let caches = Caches::new(config.chunk_cache_bytes);
        let store = Store {
            disk,
            random,
            config,
            journal,
            partitions: replay.logs,
            layout: Layout::recovered(unlaid, recovered.journal_bytes),
            adopted,
            deleted,
            removals,
            returning: Returning::default(),
            imports: Imports::default(),
            compaction: Compaction::default(),
            repairing: None,
            witnesses: replay.witnesses,
            is_settled,
            short_of_space: false,
            caches,
        };
        Ok((store, recovered))
    }
}

/// Makes the checkpoint durable that was read; `false` if the disk is too full for that.
fn settle(disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> Result<bool, Fault> {
    match Checkpoint::settle(disk, identity) {
        Ok(()) => Ok(true),
        // All that is stored can be read all the same, and room be made.
        Err(error) if is_full(&error) => {
            tracing::warn!(
                %error,
                "the checkpoint cannot be written once more: files that an earlier one needs are neither used again nor removed until it is"
            );
            Ok(false)
        }
        Err(error) => {
            let path = disk.root().join("checkpoints").display().to_string();
            Err(Doing::Opening.failed(error).at(path))
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl Store {
    /// Tries once more to make the checkpoint durable that this store was opened with, if that has failed. To be called about once a second; it blocks for a
    /// small write then.
    pub(super) fn settle(&mut self) {
        if self.is_settled || self.layout.is_checkpointing() {
            return;
        }
        // The start has told of it.
        if Checkpoint::settle(&self.disk, &self.config.identity).is_ok() {
            self.is_settled = true;
            self.removals.release();
            self.journal.release_held_back();
        }
    }
}

/// All partitions with batches in the journal only, in the order of their first such batch.
fn queue_for_layout(logs: &mut IndexMap<PartitionId, Box<PartitionLog>>) -> VecDeque<PartitionId> {
    let mut waiting: Vec<_> = logs
        .values_mut()
        .filter(|log| log.needs_layout())
        .map(|log| {
            log.queued = true;
            let first = log.tail.iter().find(|batch| batch.next > log.laid_out);
            (first.map(|batch| (batch.frame, batch.start)), log.id)
        })
        .collect();
    waiting.sort_unstable();
    waiting.into_iter().map(|(_, id)| id).collect()
}

impl Replay {
    pub(crate) fn new(checkpoint: Option<Checkpoint>) -> Replay {
        let mut replay = Replay {
            logs: IndexMap::new(),
            recovered: BTreeMap::new(),
            state_next: BTreeMap::new(),
            removals: VecDeque::new(),
            detached: BTreeMap::new(),
            outdated: BTreeMap::new(),
            witnesses: Witnesses::default(),
        };
        let Some(checkpoint) = checkpoint else {
            return replay;
        };
        let removals = checkpoint.removals.iter();
        replay.removals = removals.map(|removal| (Box::new(*removal), 0)).collect();
        for partition in checkpoint.partitions {
            replay.add(partition);
        }
        for witness in &checkpoint.witnesses {
            replay.witnesses.note(witness);
        }
        replay
    }

    fn add(&mut self, partition: PartitionCheckpoint) {
        let id = partition.id;
        let mut log = Box::new(PartitionLog::new(id, SegmentRolling::default()));
        log.log_start = partition.log_start;
        log.laid_out = partition.laid_out;
        log.next = partition.laid_out;
        log.committed = partition.laid_out;
        log.has_vows = partition.state_next == 0;
        log.segments = partition.segments;
        log.recorded = partition.laid_out;
        log.cleaned = partition.cleaned;
        // The files of a partition are not listed at a start. A first pass that was killed left no other trace than its file, so
        // any that has what passes work on is looked at later.
        log.unswept = !log.cleaned.is_empty() || log.segments.iter().any(|segment| segment.sealed);
        self.state_next.insert(id, partition.state_next);
        let recovered = RecoveredPartition {
            id,
            log_start: Offset(log.log_start),
            next: Offset(log.next),
            state: partition.state,
            ..RecoveredPartition::new(id)
        };
        self.recovered.insert(id, recovered);
        self.logs.insert(id, log);
    }

    fn apply(&mut self, location: &FrameLocation, frame: &[u8], entry: &Entry) -> Result<(), String> {
        let (header, at) = (&entry.header, location.frame_sequence);
        match header.kind {
            EntryKind::Batch | EntryKind::AbortBatch => return self.apply_batch(location, frame, entry),
            EntryKind::Trim => return self.apply_trim(header.partition, header.first.0, at),
            EntryKind::Delete => self.apply_delete(header.partition, at),
            EntryKind::Accept => return self.apply_accept(header, at),
            EntryKind::Promise => {
                let (log, recovered) = self.log_of(header.partition);
                log.has_vows = true;
                recovered.promised = recovered.promised.max(Some(header.epoch));
            }
            EntryKind::Base => return self.apply_base(header.partition, header.first.0, at),
            EntryKind::Witness => self.witnesses.note(&header.witness()),
        }
        Ok(())
    }

    /// A partition's log, made if there is none, and what is to be told of it.
    fn log_of(&mut self, id: PartitionId) -> (&mut PartitionLog, &mut RecoveredPartition) {
        let log = self.logs.entry(id);
        let recovered = self.recovered.entry(id);
        (
            log.or_insert_with(|| Box::new(PartitionLog::new(id, SegmentRolling::default()))),
            recovered.or_insert_with(|| RecoveredPartition::new(id)),
        )
    }

    /// Says whether an entry at `offset` is behind the log's end here. That is noted.
    fn is_detached(&mut self, id: PartitionId, offset: i64) -> bool {
        let is_detached = offset > self.logs.get(&id).map_or(0, |log| log.next);
        if is_detached {
            self.detached.entry(id).or_insert(offset);
        }
        is_detached
    }

    /// Says whether an entry at `offset` is below what the checkpoint says is laid out, and so of before the log began anew. That is
    /// noted.
    fn is_outdated(&mut self, id: PartitionId, offset: i64) -> bool {
        let log = self.logs.get(&id);
        let is_outdated = log.is_some_and(|log| log.tail.is_empty() && offset < log.laid_out);
        if is_outdated {
            self.outdated.entry(id).or_insert(offset);
        }
        is_outdated
    }

    fn apply_accept(&mut self, header: &EntryHeader, frame: u64) -> Result<(), String> {
        let (id, first) = (header.partition, header.first.0);
        let (log, recovered) = self.log_of(id);
        if header.epoch >= Epoch(0) {
            log.has_vows = true;
            recovered.accepted = recovered.accepted.max(Some(header.epoch));
        }
        if self.is_detached(id, first) || self.is_outdated(id, first) {
            return Ok(());
        }
        self.detached.remove(&id);
        let (log, recovered) = self.log_of(id);
        log.cut(first, frame)?;
        recovered.next = header.first;
        if !planted(Bug::CutBatchReplayed) {
            recovered
                .replay
                .retain(|batch| batch.header.base_offset < header.first);
        }
        Ok(())
    }

    /// Gives up all that the log has, unless the checkpoint is of a still later beginning.
    fn apply_base(&mut self, id: PartitionId, first: i64, frame: u64) -> Result<(), String> {
        if self.is_outdated(id, first) {
            return Ok(());
        }
        if let Some(log) = self.logs.get(&id).filter(|log| first < log.laid_out) {
            return Err(format!(
                "{id} begins at offset {first}, and offset {} is laid out",
                log.laid_out
            ));
        }
        self.detached.remove(&id);
        self.outdated.remove(&id);
        let state_next = self.state_next.get(&id).copied().unwrap_or(0);
        let (log, recovered) = self.log_of(id);
        let segments = log.begin_at(first, frame);
        recovered.log_start = Offset(first);
        recovered.next = Offset(first);
        recovered.replay.clear();
        recovered.begun_anew = state_next < first;
        for segment in segments {
            let removal = Removal {
                partition: id,
                segment: Some(segment.name()),
                adopted: segment.adopted,
            };
            self.removals.push_back((Box::new(removal), frame));
        }
        Ok(())
    }

    fn apply_batch(&mut self, location: &FrameLocation, frame: &[u8], entry: &Entry) -> Result<(), String> {
        let (id, first, next) = (entry.header.partition, entry.header.first.0, entry.header.next.0);
        let payload = &frame[entry.payload_start..entry.payload_start + entry.header.payload_bytes as usize];
        let batch = Logged::read(payload).map_err(|error| format!("a batch of {id} is not one: {error}"))?;
        let header = batch.header;
        // Compaction may have taken what came before its own first offset.
        if header.base_offset.0 < first
            || header.next_offset().0 != next
            || header.length_bytes != payload.len()
        {
            return Err(format!(
                "a batch of {id} at offset {first} does not say so itself"
            ));
        }
        if self.is_detached(id, first) || self.is_outdated(id, first) {
            return Ok(());
        }
        if entry.header.aborts != NONE && header.producer_id < 0 {
            return Err(format!(
                "a batch of {id} at offset {first} aborts a transaction of nobody's"
            ));
        }
        let state_next = self.state_next.get(&id).copied().unwrap_or(0);
        let (log, recovered) = self.log_of(id);
        recovered.written = recovered.written.max(Some(header.leader_epoch));
        if first != log.next {
            return Err(format!(
                "{id} goes on at offset {first} where {} is expected",
                log.next
            ));
        }
        log.push(TailBatch {
            first,
            next,
            max_timestamp_ms: header.max_timestamp_ms,
            frame: location.frame_sequence,
            start: entry.payload_start as u32,
            length: entry.header.payload_bytes,
        });
        log.note_kind(&header, entry.header.aborts);
        recovered.next = Offset(next);
        if first >= state_next {
            recovered.replay.push(batch);
        }
        Ok(())
    }

    fn apply_trim(&mut self, id: PartitionId, log_start: i64, frame: u64) -> Result<(), String> {
        let is_unknown = self.logs.get(&id).is_none_or(|log| log.next == 0);
        if is_unknown && self.is_detached(id, log_start) {
            return Ok(());
        }
        let Some(log) = self.logs.get_mut(&id) else {
            return Ok(());
        };
        if log_start > log.next {
            return Err(format!(
                "{id} is trimmed to offset {log_start}, behind its end {}",
                log.next
            ));
        }
        for segment in log.trim(log_start, false) {
            let removal = Removal {
                partition: id,
                segment: Some(segment.name()),
                adopted: segment.adopted,
            };
            self.removals.push_back((Box::new(removal), frame));
        }
        if let Some(recovered) = self.recovered.get_mut(&id) {
            recovered.log_start = Offset(log.log_start);
        }
        Ok(())
    }

    fn apply_delete(&mut self, id: PartitionId, frame: u64) {
        let log = self.logs.swap_remove(&id);
        self.recovered.remove(&id);
        self.detached.remove(&id);
        self.outdated.remove(&id);
        let segments = log.iter().flat_map(|log| &log.segments);
        let files = segments.filter_map(|segment| segment.adopted.map(Some));
        for adopted in files.chain([None]) {
            let removal = Removal {
                partition: id,
                segment: None,
                adopted,
            };
            self.removals.push_back((Box::new(removal), frame));
        }
    }

    /// Checks that the journal as a whole adds up.
    fn finish(&self, disk: &Arc<dyn Disk>, identity: &JournalIdentity) -> Result<(), Fault> {
        let damaged = |what: String| {
            let file = disk.root().join(directory(identity)).display().to_string();
            Fault::Damaged {
                file,
                position: 0,
                what,
            }
        };
        if let Some((id, first)) = self.detached.iter().chain(&self.outdated).min() {
            let next = self.logs.get(id).map_or(0, |log| log.next);
            return Err(damaged(match next {
                0 => format!("{id} begins at offset {first}, and what came before is gone"),
                next => format!("{id} goes on at offset {first} where {next} is expected"),
            }));
        }
        let lost = self.state_next.iter().filter_map(|(id, state_next)| {
            let next = self.logs.get(id).map_or(*state_next, |log| log.next);
            (next < *state_next).then_some((id, next, state_next))
        });
        if let Some((id, next, state_next)) = lost.min() {
            return Err(damaged(format!(
                "{id} ends at offset {next}, but the checkpoint knows of records up to {state_next}"
            )));
        }
        self.verify_logs().map_err(|what| Fault::Damaged {
            file: checkpoint::file_name(disk, identity),
            position: 0,
            what,
        })
    }

    /// Checks what only a checkpoint that contradicts the journal can break: entries of the journal are compared as they come.
    fn verify_logs(&self) -> Result<(), String> {
        if let Some(log) = self
            .logs
            .values()
            .filter(|log| log.log_start > log.next)
            .min_by_key(|log| log.id)
        {
            return Err(format!(
                "{} starts at offset {}, behind its end {}",
                log.id, log.log_start, log.next
            ));
        }
        // Or files would go that hold what is kept, or that layout is about to begin.
        for (removal, _) in &self.removals {
            let log = self.logs.get(&removal.partition);
            if log.is_some_and(|log| removal.segment.is_none_or(|name| log.may_hold(name))) {
                return Err(format!(
                    "of {} it gives up what is kept: {}",
                    removal.partition,
                    removal
                        .segment
                        .map_or_else(|| "all".into(), |name| format!("the segment {name}"))
                ));
            }
        }
        Ok(())
    }
}
