//! Layout: in the background, what the journal made durable is written into per-partition segments.
//!
//! A round covers everything durable when it began, up to the first batch that is not committed. Its steps append one run each, a few MiB of one partition. When
//! all are done a checkpoint records them, and the journal's files are free for reuse. Whatever goes wrong in
//! between, the journal still has everything: the round is given up and a later one starts over.
//!
//! If such batches hold the journal when it is half full, the round begins by carrying them (`carrying`).
//!
//! Layout that is behind, so that memory has let go of what it is to copy, ends a round with the first journal file that it has to
//! read back, and reads each frame once for all partitions in it: reading it for each of them would put layout further behind.

mod adoption;
mod lost_frame;
mod step;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use record::{Offset, PartitionId};

pub(super) use lost_frame::does_not_match;
pub use step::{LayoutJob, StepFailed};

use super::Store;
use crate::checkpoint::Removal;
use crate::fault::Fault;
use crate::journal::{FrameBatches, Staged};
use crate::partition::PartitionLog;
use crate::segment::{AbortedRange, Chunk, Segment};
use step::{Adoption, LaidOut, PlannedBatch, Target};

/// The most that one step lays out: bounds the memory it pins and the time the owner's thread spends planning it.
const STEP_BYTES: usize = 4 << 20;
/// No further frame is read back for a step beyond this: frames come whole, however little of them is wanted.
const STEP_READ_BYTES: usize = 16 << 20;

/// So much of the journal is read back in the time that a partition's run takes, with its syncs.
const RUN_IN_JOURNAL_BYTES: u64 = 512 << 10;
/// The cost of a checkpoint beside reading as many bytes back.
const CHECKPOINT_IN_JOURNAL_TIMES: u64 = 4;

/// The state of layout: what waits for it, the round under way, and what the next one begins by.
#[derive(Default)]
pub(super) struct Layout {
    /// Partitions with batches in the journal only, in the order of their first such batch.
    unlaid: VecDeque<PartitionId>,
    round: Option<Round>,
    /// Bytes of batches appended since the last round began, for the trigger.
    bytes_since_round: u64,
    /// Where the journal was then, in bytes of frames since the start.
    journal_at_round: u64,
    /// The bytes of the last checkpoint, more or less.
    checkpoint_bytes: u64,
    /// No round ends before this frame: one that was given up may have laid out what comes before, and a checkpoint must not
    /// ask recovery to begin there.
    laid_out_before: u64,
}

impl Layout {
    /// The state after recovery: the journal has `journal_bytes` of these partitions.
    pub(super) fn recovered(unlaid: VecDeque<PartitionId>, journal_bytes: u64) -> Layout {
        Layout {
            unlaid,
            bytes_since_round: journal_bytes,
            ..Layout::default()
        }
    }

    /// Takes note of a batch in the journal. `is_first` says that its partition had none there that waits.
    pub(super) fn note_staged(&mut self, id: PartitionId, bytes: u32, is_first: bool) {
        if is_first {
            self.unlaid.push_back(id);
        }
        self.bytes_since_round += u64::from(bytes);
    }

    /// The partitions that wait for the next round.
    pub(super) fn unlaid(&self) -> impl Iterator<Item = &PartitionId> {
        self.unlaid.iter()
    }

    /// Says whether a step is out.
    pub(super) fn is_stepping(&self) -> bool {
        self.round.as_ref().is_some_and(|round| round.stepping)
    }

    /// Says whether a step is out that may be writing to a segment of this partition. One that carries writes to none.
    pub(super) fn is_writing_to(&self, id: PartitionId) -> bool {
        let stepping = self.round.as_ref().filter(|round| round.stepping);
        stepping.is_some_and(|round| round.carrying.is_empty() && round.waiting.front() == Some(&id))
    }

    /// Says whether all steps of the round under way are made, and its checkpoint is not begun.
    pub(super) fn is_to_be_checkpointed(&self) -> bool {
        let round = self.round.as_ref();
        round.is_some_and(|round| round.is_over() && !round.stepping && !round.checkpointing)
    }

    /// Begins the checkpoint that ends the round. It records what compaction came to, if that `is_owed`. Returns the frame before
    /// which everything is laid out.
    pub(super) fn begin_checkpoint(&mut self, is_owed: bool) -> u64 {
        let round = self.round.as_mut().expect("a round is to be checkpointed");
        round.checkpointing = true;
        round.compaction = is_owed;
        round.before_frame
    }

    /// Says whether a checkpoint is being written.
    pub(super) fn is_checkpointing(&self) -> bool {
        self.round.as_ref().is_some_and(|round| round.checkpointing)
    }

    /// Takes note of how large the checkpoint became.
    pub(super) fn note_checkpoint(&mut self, bytes: u64) {
        self.checkpoint_bytes = bytes;
    }

    /// Takes note that the checkpoint under way has come back. If it failed, the round is still there, to be given up.
    pub(super) fn end_checkpoint(&mut self, is_durable: bool) {
        let round = self.round.as_ref().expect("a checkpoint belongs to a round");
        assert!(round.checkpointing, "a checkpoint ends once");
        if is_durable {
            self.round = None;
        }
    }
}

/// The round under way.
struct Round {
    /// Frames before this one are laid out when the round is done.
    before_frame: u64,
    /// Partitions whose suffixes are to be carried, before anything is laid out.
    carrying: VecDeque<PartitionId>,
    /// Partitions still to be looked at.
    waiting: VecDeque<PartitionId>,
    /// Frames that were read back for one partition and are mostly others', for the steps of those.
    recalled: BTreeMap<u64, Bytes>,
    /// The things that it took of the store's: given back if it comes to nothing.
    bytes: u64,
    /// The same of where the journal was when the round before it began.
    journal_before: u64,
    compaction: bool,
    /// A step is out.
    stepping: bool,
    /// The checkpoint that ends the round is out.
    checkpointing: bool,
}

impl Round {
    /// Says whether no step is left to be planned.
    fn is_over(&self) -> bool {
        self.carrying.is_empty() && self.waiting.is_empty()
    }
}

/// The transactions that batches in the journal only abort, of those before `next`.
fn aborted_before(log: &PartitionLog, next: i64) -> Vec<AbortedRange> {
    let ranges = log.aborted.iter().copied();
    ranges
        .filter(|range| (log.laid_out..next).contains(&range.marker))
        .collect()
}

impl Store {
    /// Says whether enough waits for layout that a round should begin.
    pub fn layout_is_due(&self) -> bool {
        let (occupied, most) = self.journal.occupied_bytes();
        let waits = || {
            self.layout.bytes_since_round >= self.config.layout_trigger_bytes
                || self.frames_are_sparse()
                || occupied > most / 2
        };
        // Also with nothing to lay out: trims fill the journal too, and a checkpoint that failed is still owed.
        self.layout.round.is_none()
            && (self.compaction.is_owed() || (self.has_unreleased_before(self.layout_end()) && waits()))
    }

    /// Says whether frames that hold little have become many. A flush of one small batch takes a block: memory lets go of such frames
    /// long before there is a round's worth of batches, and appends would wait behind the reads of a round that gets them
    /// back. Not while a round costs as much as that because of its many partitions, nor in ever smaller ones where memory is scarce.
    fn frames_are_sparse(&self) -> bool {
        let trigger = self.config.layout_trigger_bytes;
        let in_memory = (self.config.tail_cache_bytes as u64 / 2).clamp(trigger / 8, trigger);
        let runs = self.layout.unlaid.len() as u64 * RUN_IN_JOURNAL_BYTES;
        let checkpoint = self.layout.checkpoint_bytes * CHECKPOINT_IN_JOURNAL_TIMES;
        self.journal.placed_bytes() - self.layout.journal_at_round >= in_memory.max(runs + checkpoint)
    }

    /// Begins a round over everything that is durable now, but for a file that may be adopted when it is complete; if layout is
    /// behind, up to the end of the first file that is to be read back. Does nothing while a round is under way, or with nothing
    /// to do; whether it began.
    pub fn begin_layout(&mut self) -> bool {
        self.begin_round(self.layout_end())
    }

    /// The same, for records that must not wait until a file is complete: it is not adopted then, or only what comes later in it.
    pub fn begin_overdue_layout(&mut self) -> bool {
        self.begin_round(self.journal.durable_before())
    }

    fn begin_round(&mut self, end: u64) -> bool {
        if self.layout.round.is_some() || self.journal.dead().is_some() {
            return false;
        }
        let (carrying, end) = self.to_carry(self.committed_before(), end);
        if !(self.has_unreleased_before(end) || self.compaction.is_owed()) {
            return false;
        }
        // A round for the sake of compaction alone may have nothing to lay out: it never goes back.
        let end = end.max(self.journal.released_before());
        let before_frame = self.end_of_first_to_read_back(end).unwrap_or(end);
        let journal_before = self.layout.journal_at_round;
        let bytes = match before_frame == end {
            true => {
                self.layout.journal_at_round = self.journal.placed_bytes();
                std::mem::take(&mut self.layout.bytes_since_round)
            }
            false => 0,
        };
        let carrying = VecDeque::from(carrying);
        if carrying.is_empty() {
            self.layout.laid_out_before = before_frame;
        }
        let waiting = std::mem::take(&mut self.layout.unlaid);
        self.layout.round = Some(Round {
            before_frame,
            carrying,
            waiting,
            recalled: BTreeMap::new(),
            bytes,
            journal_before,
            compaction: false,
            stepping: false,
            checkpointing: false,
        });
        true
    }

    /// Which of a partition's records the journal alone has, if it has any.
    pub fn waits_for_layout(&self, id: PartitionId) -> Option<Range<Offset>> {
        let log = self.partitions.get(&id)?;
        let waiting = Offset(log.laid_out)..Offset(log.tail.back()?.next);
        (!waiting.is_empty()).then_some(waiting)
    }

    /// Says whether a round is under way.
    pub fn is_laying_out(&self) -> bool {
        self.layout.round.is_some()
    }

    /// Says whether batches for a whole round have come while one is under way: who goes on appending makes the next one larger than
    /// rounds should be.
    pub fn layout_is_overtaken(&self) -> bool {
        self.layout.round.is_some() && self.layout.bytes_since_round >= self.config.layout_trigger_bytes
    }

    /// The end, in frames, of the oldest journal file that a round up to `end` would read back, if the round would go on behind it.
    pub(super) fn end_of_first_to_read_back(&self, end: u64) -> Option<u64> {
        let mut first = self.journal.released_before();
        loop {
            let file = self.journal.forgotten_file(first, end)?;
            // Of one that is adopted the others' frames are read back all the same, whole.
            if !self.is_adoptable(&file) || file.is_shared {
                let file_end = file.frames_end.max(self.layout.laid_out_before);
                return (file_end < end).then_some(file_end);
            }
            first = file.frames_end;
        }
    }

    /// The next step of the round under way, if none is out. When there is none left, `begin_checkpoint` ends the round.
    pub fn next_layout(&mut self, now_ms: i64) -> Option<LayoutJob> {
        loop {
            let round = self.layout.round.as_mut().filter(|round| !round.stepping)?;
            if let Some(id) = round.carrying.front().copied() {
                if let Some(job) = self.next_carry(id, now_ms) {
                    return Some(job);
                }
                continue;
            }
            let id = *round.waiting.front()?;
            let before_frame = round.before_frame;
            if let Some(log) = self.partitions.get(&id)
                && let Some(job) = self.plan_step(log, before_frame, now_ms)
            {
                self.layout.round.as_mut().expect("seen above").stepping = true;
                return Some(job);
            }
            self.layout
                .round
                .as_mut()
                .expect("seen above")
                .waiting
                .pop_front();
            if let Some(log) = self.partitions.get_mut(&id) {
                log.queued = log.needs_layout();
                if log.queued {
                    self.layout.unlaid.push_back(id);
                }
            }
        }
    }

    /// The step that carries a partition's suffix, if there is any left. The last one lets layout begin.
    fn next_carry(&mut self, id: PartitionId, now_ms: i64) -> Option<LayoutJob> {
        let log = self.partitions.get(&id);
        let job = log.and_then(|log| {
            let carry = self.plan_carry(log)?;
            Some(LayoutJob {
                carry: Some(carry),
                ..self.step(log, Segment::new(log.next, now_ms), None)
            })
        });
        let round = self.layout.round.as_mut().expect("it carries");
        round.stepping = job.is_some();
        if job.is_none() {
            round.carrying.pop_front();
            if round.carrying.is_empty() {
                self.layout.laid_out_before = round.before_frame;
            }
        }
        job
    }

    fn plan_step(&self, log: &PartitionLog, before_frame: u64, now_ms: i64) -> Option<LayoutJob> {
        let start = log.tail.partition_point(|batch| batch.next <= log.laid_out);
        if let Some(adoption) = self.plan_adoption(log, start, before_frame) {
            let (first, last) = (
                adoption.chunks[0].first,
                adoption.chunks[adoption.chunks.len() - 1],
            );
            return Some(LayoutJob {
                aborted: aborted_before(log, last.next),
                sparse: first < log.gaps_before,
                ..self.step(log, Segment::new(first, now_ms), Some(adoption))
            });
        }
        let (mut batches, mut frames) = (Vec::new(), Vec::<FrameBatches>::new());
        let (mut bytes, mut read_bytes) = (0, 0);
        let mut file_end = log.tail.get(start).map_or(0, |batch| self.file_end(batch.frame));
        for (index, batch) in log.tail.iter().enumerate().skip(start) {
            let length = batch.length as usize;
            let is_full = bytes + length > STEP_BYTES || read_bytes > STEP_READ_BYTES;
            if batch.frame >= before_frame || (is_full && !batches.is_empty()) {
                break;
            }
            if batch.frame >= file_end {
                if self.adoptable(log, index, before_frame).is_some() {
                    break;
                }
                file_end = self.file_end(batch.frame);
            }
            assert!(
                batch.first < log.committed || planted(Bug::UncommittedLaidOut),
                "a round ends before what is not committed"
            );
            bytes += length;
            let staged = Staged {
                frame: batch.frame,
                start: batch.start,
            };
            let resident = self.journal.resident(staged, length);
            let resident = resident.or_else(|| self.recalled(staged, length));
            if resident.is_none() {
                let range = (batch.start, batch.length);
                match frames.last_mut() {
                    Some(last) if last.location.frame_sequence == batch.frame => last.ranges.push(range),
                    _ => {
                        let location = self
                            .journal
                            .location(batch.frame)
                            .expect("a frame not laid out is kept");
                        read_bytes += location.total_bytes as usize;
                        frames.push(FrameBatches {
                            location,
                            ranges: vec![range],
                        });
                    }
                }
            }
            let (first, next, max_timestamp_ms) = (batch.first, batch.next, batch.max_timestamp_ms);
            batches.push(PlannedBatch {
                first,
                next,
                max_timestamp_ms,
                resident,
            });
        }
        let (first, next) = (batches.first()?.first, batches.last()?.next);
        let fresh = Segment::new(first, now_ms);
        let target = |segment: Segment| Target {
            segment,
            seal: segment.end + bytes as u64 >= log.rolling.bytes
                || now_ms.saturating_sub(segment.created_ms) >= log.rolling.age_ms,
        };
        let open = log.segments.last().filter(|segment| !segment.sealed);
        Some(LayoutJob {
            open: open.copied().map(target),
            fresh: target(fresh),
            aborted: aborted_before(log, next),
            sparse: first < log.gaps_before,
            batches,
            frames,
            ..self.step(log, fresh, None)
        })
    }

    /// A range of a frame that was read back in this round.
    fn recalled(&self, staged: Staged, length: usize) -> Option<Bytes> {
        let frame = self.layout.round.as_ref()?.recalled.get(&staged.frame)?;
        let start = staged.start as usize;
        Some(frame.slice(start..start + length))
    }

    /// A step that has nothing to copy yet.
    fn step(&self, log: &PartitionLog, fresh: Segment, adoption: Option<Adoption>) -> LayoutJob {
        LayoutJob {
            disk: self.disk.clone(),
            journal: self.config.identity,
            partition: log.id,
            open: None,
            end_is_known: log.end_is_known,
            fresh: Target {
                segment: fresh,
                seal: true,
            },
            is_first: log.segments.is_empty(),
            batches: Vec::new(),
            frames: Vec::new(),
            aborted: Vec::new(),
            sparse: false,
            carry: None,
            adoption,
        }
    }

    /// Applies a step's outcome. A segment whose write failed, or whose end was found damaged, is not written again: the
    /// damage is for those to hear of who read it, what comes later lies in a segment of its own.
    ///
    /// # Errors
    /// The step's own: the round is given up, nothing is lost. Begin another one after a while.
    pub fn laid_out(&mut self, job: LayoutJob, result: Result<LaidOut, StepFailed>) -> Result<(), Fault> {
        let round = self.layout.round.as_mut().expect("a step belongs to a round");
        assert!(round.stepping, "a step ends once");
        round.stepping = false;
        if job.carry.is_some() {
            return self.carried(job, result);
        }
        let others_wait = round.waiting.len() > 1;
        let Some(log) = self.partitions.get_mut(&job.partition) else {
            return Ok(());
        };
        if job.fresh.segment.first < log.laid_out {
            self.give_up_step(&job, result);
            return Ok(());
        }
        let mut done = match result {
            Ok(done) => done,
            Err(StepFailed(failure)) => {
                log.end_segment(job.open.map(|open| open.segment.first));
                self.give_up_round();
                return Err(self.fault_of(failure));
            }
        };
        if let Some(fault) = &done.left_open {
            tracing::warn!(%fault, "an open segment is left as it is; layout goes on in a new one");
            log.end_segment(job.open.map(|open| open.segment.first));
        }
        if others_wait {
            let round = self.layout.round.as_mut().expect("seen above");
            round.recalled.extend(done.recalled.drain(..));
        }
        assert!(done.segment.next > log.laid_out, "a step makes progress");
        log.laid_out = done.segment.next;
        log.end_is_known = true;
        match log.segments.last_mut() {
            Some(last) if last.first == done.segment.first => *last = done.segment,
            Some(last) => {
                // A journal file was adopted behind it.
                last.sealed = true;
                log.segments.push(done.segment);
            }
            None => log.segments.push(done.segment),
        }
        self.adopted
            .extend(done.segment.adopted.map(|file| file.sequence));
        log.forget_laid_out(self.journal.resident_from());
        let log_start = log.log_start;
        self.extend_table(&job, &done);
        self.give_up_below(
            job.partition,
            log_start,
            self.journal.staged_before().saturating_sub(1),
        );
        Ok(())
    }

    /// The log was made to begin behind what the step wrote. That goes with the entry that says so, unless it was given up with it.
    fn give_up_step(&mut self, job: &LayoutJob, result: Result<LaidOut, StepFailed>) {
        let written = result.map_or(job.fresh.segment, |done| done.segment);
        if job.open.is_some_and(|open| open.segment.name() == written.name()) {
            return;
        }
        let removal = Removal {
            partition: job.partition,
            segment: Some(written.name()),
            adopted: None,
        };
        let staged = self.journal.staged_before().saturating_sub(1);
        self.removals.push(removal, staged);
    }

    fn carried(&mut self, job: LayoutJob, result: Result<LaidOut, StepFailed>) -> Result<(), Fault> {
        let done = match result {
            Ok(done) => done,
            Err(StepFailed(failure)) => {
                self.give_up_round();
                return Err(self.fault_of(failure));
            }
        };
        match self.carry(&job, done.carried) {
            // Appends from now on are behind the round's end.
            Ok(()) => {
                let round = self.layout.round.as_mut().expect("its step ended");
                round.carrying.pop_front();
                if round.carrying.is_empty() {
                    self.layout.laid_out_before = round.before_frame;
                }
            }
            // Another round tries again, when there is room.
            Err(_) => self.give_up_round(),
        }
        Ok(())
    }

    /// Adds the run to the segment's index, if that is in memory and ends where the run begins.
    fn extend_table(&mut self, job: &LayoutJob, done: &LaidOut) {
        let key = (job.partition, done.segment.name());
        let run_first = job.batches.first().map(|batch| batch.first);
        let table = self
            .caches
            .tables
            .peek(&key)
            .filter(|table| table.last().map(|last| last.next) == run_first);
        if let Some(table) = table {
            let extended: Vec<Chunk> = table.iter().chain(&done.chunks).copied().collect();
            self.caches.tables.insert(key, Arc::new(extended));
        }
    }

    pub(super) fn give_up_round(&mut self) {
        if let Some(round) = self.layout.round.take() {
            self.layout.unlaid.extend(round.waiting);
            self.layout.bytes_since_round += round.bytes;
            self.layout.journal_at_round = round.journal_before;
            self.compaction.note_owed(round.compaction);
        }
    }
}
