//! Layout: in the background, what the journal made durable is written into per-partition segments.
//!
//! A round covers everything durable when it began. Its steps append one run each, a few MiB of one partition. When
//! all are done a checkpoint records them, and the journal's files are free for reuse. Whatever goes wrong in
//! between, the journal still has everything: the round is given up and a later one starts over.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{Disk, File};
use record::{ClusterId, PartitionId};

use super::Store;
use crate::checksum::JournalIdentity;
use crate::fault::Fault;
use crate::journal::{FrameBatches, RereadError, Staged};
use crate::partition::PartitionLog;
use crate::planted::{Bug, planted};
use crate::segment::{
    Batch, Chunk, PARTITIONS, Run, Segment, SegmentFile, directory, path, read_table, write_run,
};

/// The most that one step lays out: bounds the memory it pins and the time the owner's thread spends planning it.
const STEP_BYTES: usize = 4 << 20;

/// The round under way.
pub(super) struct Round {
    /// Frames before this one are laid out when the round is done.
    pub(super) before_frame: u64,
    /// Partitions still to be looked at.
    pub(super) waiting: VecDeque<PartitionId>,
    /// A step is out.
    pub(super) stepping: bool,
    /// The checkpoint that ends the round is out.
    pub(super) checkpointing: bool,
}

/// One step: to be run anywhere, then given to `laid_out`. Blocks.
pub struct LayoutJob {
    disk: Arc<dyn Disk>,
    cluster: ClusterId,
    journal: JournalIdentity,
    partition: PartitionId,
    /// The segment as it was; the run goes to its end.
    segment: Segment,
    seal: bool,
    /// The partition has no segment yet, and perhaps no directory.
    is_first: bool,
    batches: Vec<PlannedBatch>,
    frames: Vec<FrameBatches>,
}

/// A batch of the step; its bytes are at hand, or the next range of `frames`.
struct PlannedBatch {
    first: i64,
    next: i64,
    max_timestamp_ms: i64,
    resident: Option<Bytes>,
}

/// What a step did.
pub struct LaidOut {
    segment: Segment,
    chunks: Vec<Chunk>,
}

impl LayoutJob {
    /// The partition it lays out.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Writes and syncs the run.
    ///
    /// # Errors
    /// The disk's (a full one among them), or damage found in the journal. Nothing of the run counts then.
    pub fn run(&self) -> Result<LaidOut, Fault> {
        let batches = self.gather()?;
        let name = self
            .disk
            .root()
            .join(path(&self.partition, self.segment.first))
            .display()
            .to_string();
        let failed = |error| Fault::Disk {
            file: name.clone(),
            error,
        };
        let file = self.open_file().map_err(failed)?;
        let identity = self.segment.identity(self.cluster, self.partition);
        let earlier = match self.seal && self.segment.end > 0 {
            true => read_table(
                &SegmentFile {
                    file: file.clone(),
                    identity,
                    path: name.clone(),
                },
                &self.segment,
            )?,
            false => Vec::new(),
        };
        let run = Run {
            identity,
            start: self.segment.end,
            seal: self.seal.then_some(&*earlier),
        };
        let (chunks, end) = write_run(&*file, &run, &batches).map_err(failed)?;
        if self.segment.end == 0 && !planted(Bug::NamesNotSynced) {
            self.disk
                .sync_directory(&directory(&self.partition))
                .map_err(failed)?;
        }
        let last = batches.last().expect("a step lays out at least one batch");
        let newest = batches
            .iter()
            .map(|batch| batch.max_timestamp_ms)
            .max()
            .unwrap_or(i64::MIN);
        let segment = Segment {
            next: last.next,
            end,
            max_timestamp_ms: self.segment.max_timestamp_ms.max(newest),
            sealed: self.seal,
            ..self.segment
        };
        Ok(LaidOut { segment, chunks })
    }

    fn open_file(&self) -> io::Result<Arc<dyn File>> {
        let path = path(&self.partition, self.segment.first);
        if self.segment.end > 0 {
            return self.disk.open(&path);
        }
        let directory = directory(&self.partition);
        if self.is_first {
            self.create_directory(&directory)?;
        }
        // Runs that were never recorded may have left files behind, this one or, of a round with other steps, later ones.
        for name in self.disk.list(&directory)? {
            if directory.join(&name) >= path {
                self.disk.remove(&directory.join(&name))?;
            }
        }
        self.disk.create(&path)
    }

    /// The partition's directory, with its name durable. If that fails the directory goes again, as long as nothing is in
    /// it: a sync that failed says nothing when it is repeated, but a new name is synced anew.
    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        self.disk.create_directory(directory)?;
        if planted(Bug::NamesNotSynced) {
            return Ok(());
        }
        self.disk.sync_directory(Path::new(PARTITIONS)).inspect_err(|_| {
            if self.disk.list(directory).is_ok_and(|names| names.is_empty()) {
                let _ = self.disk.remove_directory(directory);
            }
        })
    }

    fn gather(&self) -> Result<Vec<Batch>, Fault> {
        let mut reread = Vec::new();
        for frame in &self.frames {
            reread.extend(
                frame
                    .read(&self.journal)
                    .map_err(|error| self.reread_fault(error, frame))?,
            );
        }
        let mut reread = reread.into_iter();
        let batch = |planned: &PlannedBatch| Batch {
            first: planned.first,
            next: planned.next,
            max_timestamp_ms: planned.max_timestamp_ms,
            bytes: planned
                .resident
                .clone()
                .or_else(|| reread.next())
                .expect("one range per batch not in memory"),
        };
        Ok(self.batches.iter().map(batch).collect())
    }

    fn reread_fault(&self, error: RereadError, frame: &FrameBatches) -> Fault {
        let file = format!(
            "journal {} file sequence {}",
            self.journal.journal, frame.location.file_sequence
        );
        match error {
            RereadError::Disk(error) => Fault::Disk { file, error },
            RereadError::NotThere => Fault::Damaged {
                file,
                position: frame.location.position,
                what: format!(
                    "frame {} does not match its checksum",
                    frame.location.frame_sequence
                ),
            },
        }
    }
}

impl Store {
    /// Whether enough waits for layout that a round should begin.
    pub fn layout_is_due(&self) -> bool {
        let (occupied, most) = self.journal.occupied_bytes();
        // Also with nothing to lay out: trims fill the journal too, and a checkpoint that failed is still owed.
        self.round.is_none()
            && self.journal.has_unreleased()
            && (self.bytes_since_round >= self.config.layout_trigger_bytes || occupied > most / 2)
    }

    /// Begins a round over everything that is durable now. Does nothing while one is under way, or with nothing to do.
    pub fn begin_layout(&mut self) {
        if self.round.is_some() || self.journal.dead().is_some() {
            return;
        }
        let before_frame = self.journal.durable_before();
        let waiting = std::mem::take(&mut self.unlaid);
        self.bytes_since_round = 0;
        self.round = Some(Round {
            before_frame,
            waiting,
            stepping: false,
            checkpointing: false,
        });
    }

    /// The next step of the round under way, if none is out. When there is none left, `begin_checkpoint` ends the round.
    pub fn next_layout(&mut self, now_ms: i64) -> Option<LayoutJob> {
        loop {
            let round = self.round.as_mut().filter(|round| !round.stepping)?;
            let id = *round.waiting.front()?;
            let before_frame = round.before_frame;
            if let Some(log) = self.partitions.get(&id)
                && let Some(job) = self.plan_step(log, before_frame, now_ms)
            {
                self.round.as_mut().expect("seen above").stepping = true;
                return Some(job);
            }
            self.round.as_mut().expect("seen above").waiting.pop_front();
            if let Some(log) = self.partitions.get_mut(&id) {
                log.queued = log.needs_layout();
                if log.queued {
                    self.unlaid.push_back(id);
                }
            }
        }
    }

    fn plan_step(&self, log: &PartitionLog, before_frame: u64, now_ms: i64) -> Option<LayoutJob> {
        let start = log.tail.partition_point(|batch| batch.next <= log.laid_out);
        let (mut batches, mut frames, mut bytes) = (Vec::new(), Vec::<FrameBatches>::new(), 0);
        for batch in log.tail.range(start..) {
            let length = batch.length as usize;
            if batch.frame >= before_frame || (bytes + length > STEP_BYTES && !batches.is_empty()) {
                break;
            }
            bytes += length;
            let staged = Staged {
                frame: batch.frame,
                start: batch.start,
            };
            let resident = self.journal.resident(staged, batch.length as usize);
            if resident.is_none() {
                let range = (batch.start, batch.length);
                match frames.last_mut() {
                    Some(last) if last.location.frame_sequence == batch.frame => last.ranges.push(range),
                    _ => {
                        let location = self
                            .journal
                            .location(batch.frame)
                            .expect("a frame not laid out is kept");
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
        let first = batches.first()?.first;
        let segment = log
            .segments
            .last()
            .copied()
            .filter(|segment| !segment.sealed)
            .unwrap_or(Segment {
                first,
                next: first,
                end: 0,
                max_timestamp_ms: i64::MIN,
                created_ms: now_ms,
                sealed: false,
            });
        let seal = segment.end + bytes as u64 >= log.rolling.bytes
            || now_ms.saturating_sub(segment.created_ms) >= log.rolling.age_ms;
        Some(LayoutJob {
            disk: self.disk.clone(),
            cluster: self.config.identity.cluster,
            journal: self.config.identity,
            partition: log.id,
            segment,
            seal,
            is_first: log.segments.is_empty(),
            batches,
            frames,
        })
    }

    /// Applies a step's outcome.
    ///
    /// # Errors
    /// The step's own: the round is given up, nothing is lost. Begin another one after a while. A segment whose
    /// write failed is not written again: the next run begins a new one.
    pub fn laid_out(&mut self, job: LayoutJob, result: Result<LaidOut, Fault>) -> Result<(), Fault> {
        let round = self.round.as_mut().expect("a step belongs to a round");
        assert!(round.stepping, "a step ends once");
        round.stepping = false;
        let Some(log) = self.partitions.get_mut(&job.partition) else {
            return Ok(());
        };
        let done = match result {
            Ok(done) => done,
            Err(fault) => {
                if let Some(last) = log
                    .segments
                    .last_mut()
                    .filter(|last| last.first == job.segment.first)
                {
                    last.sealed = true;
                }
                self.give_up_round();
                return Err(fault);
            }
        };
        assert!(done.segment.next > log.laid_out, "a step makes progress");
        log.laid_out = done.segment.next;
        match log
            .segments
            .last_mut()
            .filter(|last| last.first == done.segment.first)
        {
            Some(last) => *last = done.segment,
            None => log.segments.push(done.segment),
        }
        log.forget_laid_out(self.journal.resident_from());
        let log_start = log.log_start;
        let key = (job.partition, done.segment.first);
        if let Some(table) = self
            .tables
            .peek(&key)
            .filter(|table| table.last().is_some_and(|last| last.next == job.segment.next))
        {
            let extended: Vec<Chunk> = table.iter().chain(&done.chunks).copied().collect();
            self.tables.insert(key, Arc::new(extended));
        }
        self.give_up_below(
            job.partition,
            log_start,
            self.journal.staged_before().saturating_sub(1),
        );
        Ok(())
    }

    pub(super) fn give_up_round(&mut self) {
        if let Some(round) = self.round.take() {
            self.unlaid.extend(round.waiting);
        }
    }
}
