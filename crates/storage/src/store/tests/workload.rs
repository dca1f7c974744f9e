//! A run over a simulated disk, drawn from a seed or given: several partitions, flushes with appends arriving meanwhile,
//! background jobs one at a time with everything else between their planning, running and applying.

mod compacting;
mod drawing;
mod replicating;

use platform::disk::SimulatedDisk;
use record::{Offset, PartitionId};

use super::history::{Event, History};
use super::returning::assert_accounted;
use super::rig::{batch, config, keyed_batch, open_as, partition, rolling, stage};
use crate::fault::Fault;
use crate::journal::{Flush, PrepareFile, StageError};
use crate::store::{CheckpointJob, LayoutJob, RemovalJob, Store, StoreConfig};

use compacting::Compacting;
pub(super) use compacting::{CompactionCounts, EAGER, order};
pub(super) use drawing::{
    draw, draw_compacting, draw_importing, draw_replicated, draw_returns, with_compaction,
};
pub(super) use replicating::Replicate;
use replicating::Replicating;

pub(super) const PARTITIONS: u8 = 4;

#[derive(Debug, Clone)]
pub(super) enum Op {
    Append {
        partition: u8,
        value_bytes: u16,
    },
    /// Takes the next flush, or runs and applies the one that was taken.
    Flush,
    /// Plans the next background job, or runs and applies the one that was planned.
    Background,
    Trim {
        partition: u8,
        eighths: u8,
    },
    Delete {
        partition: u8,
    },
    /// Plans the next step of compaction, runs the one that was planned, or applies the one that was run.
    Compact,
    /// Does what only a replica of a cluster does.
    Replicate {
        partition: u8,
        what: Replicate,
        eighths: u8,
    },
    /// The journal falls silent.
    Close,
    /// Ends the process when all is flushed, and starts it again.
    Restart,
}

enum Job {
    Prepare(PrepareFile),
    Layout(Box<LayoutJob>),
    Checkpoint(CheckpointJob),
    Removal(RemovalJob),
}

pub(super) struct Driver {
    pub(super) disk: SimulatedDisk,
    pub(super) store: Store,
    pub(super) history: History,
    /// A deleted partition's number goes on with another identity.
    generations: [u8; PARTITIONS as usize],
    flush: Option<Flush>,
    job: Option<Job>,
    replicating: Replicating,
    compacting: Option<Compacting>,
    pub(super) compacted: CompactionCounts,
    now_ms: i64,
    fill: u64,
    /// Errors are expected; then an append may also be refused.
    pub(super) errors_expected: bool,
    pub(super) errors: usize,
    /// Suffixes that were staged anew.
    pub(super) carries: usize,
    /// Segments of another node.
    pub(super) imports: usize,
    /// Journal files that were segments and are the journal's again.
    pub(super) returned_files: usize,
    /// After how many operations of the disk a flush failed.
    pub(super) died_at: Option<u64>,
}

impl Driver {
    pub(super) fn new(disk: &SimulatedDisk) -> Result<Driver, Fault> {
        Driver::with(disk, config())
    }

    fn with(disk: &SimulatedDisk, config: StoreConfig) -> Result<Driver, Fault> {
        let (store, _) = open_as(disk, config)?;
        Ok(Driver {
            disk: disk.clone(),
            store,
            history: History::default(),
            generations: [0; PARTITIONS as usize],
            flush: None,
            job: None,
            replicating: Replicating::default(),
            compacting: None,
            compacted: CompactionCounts::default(),
            now_ms: 1_000,
            fill: 0,
            errors_expected: false,
            errors: 0,
            carries: 0,
            imports: 0,
            returned_files: 0,
            died_at: None,
        })
    }

    /// For these steps: if some of them compact, what is appended has keys.
    pub(super) fn for_ops(disk: &SimulatedDisk, config: StoreConfig, ops: &[Op]) -> Result<Driver, Fault> {
        let mut driver = Driver::with(disk, config)?;
        driver.history.compacted = ops.iter().any(|op| matches!(op, Op::Compact));
        driver.history.replicated = ops.iter().any(|op| matches!(op, Op::Replicate { .. }));
        Ok(driver)
    }

    pub(super) fn id(&self, number: u8) -> PartitionId {
        partition(number + PARTITIONS * self.generations[usize::from(number)])
    }

    pub(super) fn run(&mut self, ops: &[Op]) {
        for op in ops {
            self.step(op);
        }
    }

    pub(super) fn step(&mut self, op: &Op) {
        self.now_ms += 100;
        if self.died_at.is_some() {
            return;
        }
        match *op {
            Op::Append {
                partition,
                value_bytes,
            } => self.append(partition, usize::from(value_bytes)),
            Op::Flush => self.flush(),
            Op::Background => self.background(),
            Op::Trim { partition, eighths } => self.trim(partition, i64::from(eighths)),
            Op::Delete { partition } => self.delete(partition),
            Op::Compact => self.compact(),
            Op::Replicate {
                partition,
                what,
                eighths,
            } => self.replicate(partition, what, i64::from(eighths)),
            Op::Close => self.close(),
            Op::Restart => self.restart(),
        }
    }

    pub(super) fn append(&mut self, number: u8, value_bytes: usize) {
        let id = self.id(number);
        if self.store.awaits_checkpoint(id) {
            return;
        }
        self.fill += 1;
        let records = 1 + i64::from(number % 3);
        let bytes = match self.history.compacted {
            false => batch(records, value_bytes, self.now_ms, self.fill),
            true => keyed_batch(records, value_bytes, self.now_ms, self.fill),
        };
        let staged = self.with_room(|store| stage(store, id, &bytes));
        if let Some(bytes) = staged {
            let next = self.store.bounds(id).expect("appended to").1.0;
            self.note(Event::Batch {
                partition: id,
                next,
                bytes,
            });
        }
    }

    fn note(&mut self, event: Event) {
        self.history
            .note(self.store.staged_before().saturating_sub(1), event);
    }

    fn trim(&mut self, number: u8, eighths: i64) {
        let id = self.id(number);
        let Some((log_start, next)) = self.store.bounds(id) else {
            return;
        };
        if self.store.awaits_checkpoint(id) {
            return;
        }
        let log_start = log_start.0 + (next.0 - log_start.0) * eighths / 8;
        if self
            .with_room(|store| store.trim(id, Offset(log_start)))
            .is_some()
        {
            self.note(Event::Trim {
                partition: id,
                log_start,
            });
        }
    }

    fn delete(&mut self, number: u8) {
        let id = self.id(number);
        if self.store.bounds(id).is_none() || self.generations[usize::from(number)] > 50 {
            return;
        }
        if self.with_room(|store| store.delete_partition(id)).is_some() {
            self.note(Event::Delete { partition: id });
            self.generations[usize::from(number)] += 1;
        }
    }

    pub(super) fn close(&mut self) {
        if self.store.stage_closing_frame() {
            self.note(Event::Close);
        }
    }

    /// Tries until the background has made room.
    fn with_room<T>(&mut self, mut stage: impl FnMut(&mut Store) -> Result<T, StageError>) -> Option<T> {
        for round in 0..6 {
            match stage(&mut self.store) {
                Ok(staged) => return Some(staged),
                Err(StageError::Full) => {
                    if round == 2 {
                        self.release_all();
                    }
                    self.settle();
                }
                Err(StageError::Dead(_)) if self.died_at.is_some() => return None,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(
            self.errors_expected,
            "nothing keeps the background from making room, but the journal stays full"
        );
        None
    }

    /// Flushes everything and lets the background work until it has nothing to do.
    pub(super) fn settle(&mut self) {
        self.flush_all();
        let errors = self.errors;
        for _ in 0..200 {
            if self.job.is_none() {
                self.store.begin_layout();
            }
            let checkpoint_ends = matches!(self.job, Some(Job::Checkpoint(_)));
            self.background();
            if checkpoint_ends || self.errors > errors {
                break;
            }
        }
        for _ in 0..20 {
            self.background();
        }
    }

    /// Ends the job that is out and sees to it that a journal file is ready.
    pub(super) fn prepare(&mut self) {
        while let Some(job) = self
            .job
            .take()
            .or_else(|| self.store.next_preparation().map(Job::Prepare))
        {
            self.finish(job);
        }
    }

    pub(super) fn flush_all(&mut self) {
        while self.died_at.is_none() && (self.flush.is_some() || self.store.status().unflushed_bytes > 0) {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Some(flush) = self.flush.take() else {
            self.flush = self.store.next_flush();
            assert!(
                self.flush.is_none() || self.store.next_flush().is_none(),
                "one flush at a time"
            );
            return;
        };
        let result = flush.run();
        match self.store.flushed(flush, result) {
            Ok(durable) => {
                self.commit(durable);
                self.history
                    .acknowledge(self.disk.operation_count(), self.store.journal.durable_before());
            }
            Err(error) => {
                assert!(self.errors_expected, "{error}");
                assert!(
                    self.store.next_flush().is_none(),
                    "a flush that failed is never tried again"
                );
                self.died_at = Some(self.disk.operation_count());
            }
        }
    }

    fn background(&mut self) {
        if self.died_at.is_some() {
            return;
        }
        match self.job.take() {
            Some(job) => {
                // A file may be prepared by another thread meanwhile.
                if let Some(preparation) = self.store.next_preparation() {
                    self.finish(Job::Prepare(preparation));
                }
                self.finish(job);
                if self.job.is_none() && self.errors == 0 {
                    assert_accounted(&self.store, &self.disk);
                }
            }
            None => self.job = self.plan(),
        }
    }

    fn plan(&mut self) -> Option<Job> {
        if let Some(job) = self.store.next_preparation() {
            return Some(Job::Prepare(job));
        }
        // Now and then some records must not wait until a file can be adopted.
        if self.now_ms % 4_700 == 0 {
            self.store.begin_overdue_layout();
        }
        if self.store.layout_is_due() {
            self.store.begin_layout();
        }
        if let Some(job) = self.store.next_layout(self.now_ms) {
            return Some(Job::Layout(Box::new(job)));
        }
        if self.store.checkpoint_is_due() {
            return Some(Job::Checkpoint(self.begin_checkpoint()));
        }
        self.store.next_removal().map(Job::Removal)
    }

    fn finish(&mut self, job: Job) {
        let outcome = match job {
            Job::Prepare(job) => {
                let result = job.run();
                self.store
                    .prepared(job, result)
                    .map_err(|error| error.to_string())
            }
            Job::Layout(job) => {
                let result = job.run();
                let staged_before = self.store.staged_before();
                let laid_out = self.store.laid_out(*job, result);
                if self.store.staged_before() > staged_before {
                    // A suffix was carried: the frame changes nothing.
                    self.note(Event::Close);
                    self.carries += 1;
                }
                laid_out.map_err(|error| error.to_string())
            }
            Job::Checkpoint(job) if !self.store.checkpoint_may_run(&job) => {
                self.job = Some(Job::Checkpoint(job));
                self.flush();
                Ok(())
            }
            Job::Checkpoint(job) => {
                let result = job.run();
                let returning = self.store.returning.file_names().count();
                let outcome = self.store.checkpointed(job, result);
                self.returned_files += returning - self.store.returning.file_names().count();
                if outcome.is_ok() {
                    self.history
                        .note_recorded(self.disk.operation_count(), &self.store);
                }
                outcome.map_err(|error| error.to_string())
            }
            Job::Removal(job) => {
                let result = job.run();
                self.store.removed(job, result).map_err(|error| error.to_string())
            }
        };
        if let Err(error) = outcome {
            assert!(self.errors_expected, "{error}");
            self.errors += 1;
        }
    }

    fn restart(&mut self) {
        self.flush_all();
        if self.died_at.is_some() {
            return;
        }
        if let Err(why) = self.start_again() {
            assert!(self.errors_expected, "{why}");
            self.died_at = Some(self.disk.operation_count());
        }
    }

    /// Starts another process on the disk as it is, whatever became of the one before.
    pub(super) fn start_again(&mut self) -> Result<u64, String> {
        (self.flush, self.job, self.compacting) = (None, None, None);
        let (mut store, recovered) =
            open_as(&self.disk, self.store.config).map_err(|fault| fault.to_string())?;
        let (frames, _) = self
            .history
            .check(&mut store, &recovered, self.history.acknowledged())?;
        self.history
            .recovered(self.disk.operation_count(), frames, &store);
        self.replicating.start_again(&self.history);
        self.store = store;
        self.died_at = None;
        // Opened but empty ones are not remembered.
        for number in 0..PARTITIONS {
            let id = self.id(number);
            self.store.open_partition(id, rolling(id));
        }
        Ok(frames)
    }
}
