//! Ends a layout round: records what segments hold, then lets the journal reuse its files.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::Disk;
use record::{Offset, PartitionId};

use super::Store;
use crate::checkpoint::{Checkpoint, PartitionCheckpoint, Removal};
use crate::checksum::JournalIdentity;
use crate::partition::PartitionLog;

/// Writes a checkpoint; to be run anywhere once `checkpoint_may_run` says so, then given to `checkpointed`. Blocks.
pub struct CheckpointJob {
    disk: Arc<dyn Disk>,
    identity: JournalIdentity,
    checkpoint: Checkpoint,
    /// The marks of segments in it whose imports are not ended.
    markers: Vec<PathBuf>,
    /// The state in it reflects what is staged in frames before this one: they must be durable first, or a crash could
    /// leave state of records that never were.
    state_before_frame: u64,
}

impl CheckpointJob {
    /// Replaces the checkpoint; durable on return.
    ///
    /// # Errors
    /// The disk's; then the checkpoint before it still counts.
    pub fn run(&self) -> io::Result<()> {
        self.checkpoint.write(&self.disk, &self.identity)?;
        for marker in &self.markers {
            // One that stays says nothing at the next start: the checkpoint names the segment.
            if let Err(error) = self.disk.remove(marker) {
                tracing::debug!(%error, marker = %marker.display(), "the mark of an import is left until the next start");
            }
        }
        Ok(())
    }
}

impl Store {
    /// Says whether all steps of the round are done and its checkpoint should be written.
    pub fn checkpoint_is_due(&self) -> bool {
        self.layout.is_to_be_checkpointed()
    }

    /// Takes the checkpoint that ends the round. `state` gives what each partition's owner wants kept, and the offset
    /// before which it reflects every record: nothing laid out may lie behind that. `None` keeps nothing.
    ///
    /// # Panics
    /// If `checkpoint_is_due` does not hold.
    pub fn begin_checkpoint(
        &mut self,
        state: &mut dyn FnMut(PartitionId) -> Option<(Bytes, Offset)>,
    ) -> CheckpointJob {
        assert!(self.checkpoint_is_due(), "a checkpoint ends a finished round");
        let frame = self.layout.begin_checkpoint(self.compaction.take_owed());
        let replay = self.journal.replay_start(frame);
        let partition = |log: &PartitionLog| {
            let (state, state_next) = state(log.id).unwrap_or((Bytes::new(), Offset(log.next)));
            assert!(
                log.laid_out <= state_next.0,
                "records that the state does not reflect stay in the journal"
            );
            PartitionCheckpoint {
                id: log.id,
                log_start: log.log_start,
                laid_out: log.laid_out,
                cleaned: log.cleaned.clone(),
                segments: log.segments.clone(),
                state_next: state_next.0,
                state,
            }
        };
        // Empty partitions need no line, unless something was promised for them: they are known by name, and nothing is stored of them.
        let is_kept =
            |log: &&PartitionLog| log.next > 0 || (log.has_vows && !planted(Bug::EmptyPromiseForgotten));
        let all = self.partitions.values().map(Box::as_ref);
        let mut kept: Vec<&PartitionLog> = all.filter(is_kept).collect();
        kept.sort_unstable_by_key(|log| log.id);
        let partitions: Vec<PartitionCheckpoint> = kept.into_iter().map(partition).collect();
        let bytes = partitions.iter().map(PartitionCheckpoint::memory_bytes).sum();
        self.layout.note_checkpoint(bytes);
        let removals = self.removals.iter().chain(self.compaction.superseded());
        let removals = removals.copied().collect();
        let witnesses = match planted(Bug::WitnessesForgotten) {
            true => Vec::new(),
            false => self.witnesses.list(),
        };
        if planted(Bug::ReleasedBeforeCheckpoint) {
            self.journal.release_before(&replay, &self.adopted);
        }
        CheckpointJob {
            disk: self.disk.clone(),
            identity: self.config.identity,
            markers: self.imports.markers(),
            checkpoint: Checkpoint {
                replay,
                partitions,
                removals,
                witnesses,
            },
            state_before_frame: self.journal.staged_before(),
        }
    }

    /// Says whether the records that the job's state reflects are durable, so that it may run.
    pub fn checkpoint_may_run(&self, job: &CheckpointJob) -> bool {
        planted(Bug::StateAheadOfJournal) || self.journal.durable_before() >= job.state_before_frame
    }

    /// Applies the outcome: journal files that nothing needs are reused.
    ///
    /// # Errors
    /// The job's own: the round is given up. Nothing is lost; the journal keeps its files until a later one succeeds.
    pub fn checkpointed(&mut self, job: CheckpointJob, result: io::Result<()>) -> io::Result<()> {
        self.layout.end_checkpoint(result.is_ok());
        if let Err(error) = result {
            self.give_up_round();
            return Err(error);
        }
        self.is_settled = true;
        self.removals.release();
        let given_up = self.given_up_meanwhile(&job.checkpoint);
        let mut held = self.adopted.clone();
        held.extend(
            given_up
                .iter()
                .filter_map(|removal| Some(removal.adopted?.sequence)),
        );
        self.journal.release_before(&job.checkpoint.replay, &held);
        self.note_recorded(&job.checkpoint);
        self.imports.note_recorded(&job.markers);
        self.forget_laid_out();
        let staged = self.journal.staged_before().saturating_sub(1);
        for removal in given_up {
            self.removals.push(removal, staged);
        }
        self.give_back(&job.checkpoint);
        self.forget_deleted(&job.checkpoint);
        Ok(())
    }

    /// Lets go of what partitions that have fallen silent still have of their tails.
    fn forget_laid_out(&mut self) {
        let resident_from = self.journal.resident_from();
        for log in self.partitions.values_mut().filter(|log| !log.tail.is_empty()) {
            log.forget_laid_out(resident_from);
        }
    }

    /// Removals of the journal files that a durable checkpoint calls segments, though these were given up while it was
    /// written. Recovery would pass over such a file: it must not go back to the journal.
    fn given_up_meanwhile(&self, checkpoint: &Checkpoint) -> Vec<Removal> {
        let mut removals = Vec::new();
        for partition in &checkpoint.partitions {
            let is_known = self.partitions.contains_key(&partition.id);
            for segment in &partition.segments {
                let given_up = segment.adopted.filter(|file| {
                    !self.adopted.contains(&file.sequence) && self.journal.has_file(file.sequence)
                });
                removals.extend(given_up.map(|file| Removal {
                    partition: partition.id,
                    segment: is_known.then_some(segment.name()),
                    adopted: Some(file),
                }));
            }
        }
        removals
    }
}
