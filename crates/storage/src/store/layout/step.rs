//! One step of layout: a run of one partition, gathered from memory or the journal and written to a segment's end.
//!
//! Runs anywhere, beside the store. Before it goes on with a segment it looks whether that can be read at all: behind a
//! damaged end nothing is written, the run begins the next segment instead.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::{Disk, File};
use record::PartitionId;

use crate::checksum::JournalIdentity;
use crate::fault::{Doing, Failed, Fault};
use crate::journal::{FrameBatches, RereadError};
use crate::segment::{
    AbortedRange, AdoptedFile, Batch, Chunk, Index, PARTITIONS, Run, Segment, SegmentFile, directory,
    open_segment, path, read_index, verify_end, write_run,
};
use crate::store::carrying::{Carried, CarryPlan};

/// One step: to be run anywhere, then given to `laid_out`. Blocks.
pub struct LayoutJob {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) journal: JournalIdentity,
    pub(super) partition: PartitionId,
    /// Where the run goes: behind the open segment as it was, if there is one.
    pub(super) open: Option<Target>,
    /// The open segment's end was written, or found whole, by this process.
    pub(super) end_is_known: bool,
    /// Where the run goes if there is no open segment, or none to be gone on with.
    pub(super) fresh: Target,
    /// The partition has no segment yet, and perhaps no directory.
    pub(super) is_first: bool,
    pub(super) batches: Vec<PlannedBatch>,
    pub(super) frames: Vec<FrameBatches>,
    /// The transactions that these batches abort, or those of the journal file.
    pub(super) aborted: Vec<AbortedRange>,
    /// Offsets may be missing before some of these batches.
    pub(super) sparse: bool,
    /// Instead of all these: batches to be gathered and staged anew.
    pub(in crate::store) carry: Option<CarryPlan>,
    /// Or a journal file that becomes the segment.
    pub(super) adoption: Option<Adoption>,
}

/// A journal file that is nearly all one partition's, and the index of that partition's batches in it.
pub(super) struct Adoption {
    pub(super) file: AdoptedFile,
    pub(super) chunks: Vec<Chunk>,
}

/// A segment that a run goes to the end of, and whether the run seals it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) segment: Segment,
    pub(super) seal: bool,
}

/// A batch of the step; its bytes are at hand, or the next range of `frames`.
pub(super) struct PlannedBatch {
    pub(super) first: i64,
    pub(super) next: i64,
    pub(super) max_timestamp_ms: i64,
    pub(super) resident: Option<Bytes>,
}

/// The work that a step did.
pub struct LaidOut {
    pub(super) segment: Segment,
    pub(super) chunks: Vec<Chunk>,
    /// Frames that it read back and that are mostly other partitions', by their sequences.
    pub(in crate::store) recalled: Vec<(u64, Bytes)>,
    /// The batches that were gathered to be staged anew.
    pub(in crate::store) carried: Vec<Carried>,
    /// Why the open segment was not gone on with, if it was not.
    pub(super) left_open: Option<Fault>,
}

/// Why a step was not done.
#[derive(Debug)]
pub struct StepFailed(pub(super) Failure);

/// The journal's files have names that only the store knows.
#[derive(Debug)]
pub(super) enum Failure {
    Fault(Fault),
    Reread(RereadError),
}

impl From<Fault> for StepFailed {
    fn from(fault: Fault) -> StepFailed {
        StepFailed(Failure::Fault(fault))
    }
}

impl From<RereadError> for StepFailed {
    fn from(error: RereadError) -> StepFailed {
        StepFailed(Failure::Reread(error))
    }
}

impl LaidOut {
    /// A step of which nothing is to be told but the segment.
    fn of(segment: Segment) -> LaidOut {
        LaidOut {
            segment,
            chunks: Vec::new(),
            recalled: Vec::new(),
            carried: Vec::new(),
            left_open: None,
        }
    }
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
    pub fn run(&self) -> Result<LaidOut, StepFailed> {
        if let Some(adoption) = &self.adoption {
            return Ok(self.adopt(adoption)?);
        }
        if let Some(plan) = &self.carry {
            let frames = FrameBatches::read_frames(&plan.frames, &self.journal)?;
            return Ok(LaidOut {
                carried: plan.gather(&frames),
                ..LaidOut::of(self.fresh.segment)
            });
        }
        let frames = FrameBatches::read_frames(&self.frames, &self.journal)?;
        let laid_out = self.copy(&self.gather(&frames))?;
        let recalled = self.frames.iter().zip(frames);
        let recalled = recalled.filter(|(wanted, _)| wanted.are_the_lesser_part());
        Ok(LaidOut {
            recalled: recalled
                .map(|(wanted, frame)| (wanted.location.frame_sequence, frame))
                .collect(),
            ..laid_out
        })
    }

    /// Writes the batches behind the open segment, or into a new one.
    fn copy(&self, batches: &[Batch]) -> Result<LaidOut, Fault> {
        let left_open = match &self.open {
            None => None,
            Some(open) => {
                if !self.end_is_known {
                    self.look_for_leftovers()?;
                }
                match self.go_on(open) {
                    Ok((file, earlier)) => return self.write(open, &file, &earlier, batches),
                    Err(fault) => Some(fault),
                }
            }
        };
        let file = self.create_file(left_open.is_some())?;
        let laid_out = self.write(&self.fresh, &file, &Index::default(), batches)?;
        Ok(LaidOut {
            left_open,
            ..laid_out
        })
    }

    /// Writes the index of a journal file. The checkpoint that records it makes the file the segment's.
    fn adopt(&self, adoption: &Adoption) -> Result<LaidOut, Fault> {
        let file = self.create_file(false)?;
        let index = Index {
            chunks: adoption.chunks.clone(),
            aborted: Vec::new(),
        };
        let run = Run {
            identity: file.identity,
            start: 0,
            seal: Some(&index),
            aborted: &self.aborted,
        };
        let (_, end) = write_run(&*file.file, &run, &[]).map_err(|failed| failed.at(&file.path))?;
        self.sync_name(&file)?;
        let chunks = adoption.chunks.iter();
        let last = adoption.chunks.last().expect("a file is adopted for its batches");
        let segment = Segment {
            next: last.next,
            end,
            max_timestamp_ms: chunks
                .map(|chunk| chunk.max_timestamp_ms)
                .max()
                .unwrap_or(i64::MIN),
            sealed: true,
            sparse: self.sparse,
            aborted: self.aborted.len() as u32,
            adopted: Some(adoption.file),
            ..self.fresh.segment
        };
        Ok(LaidOut::of(segment))
    }

    /// Makes the name of a new file durable.
    fn sync_name(&self, file: &SegmentFile) -> Result<(), Fault> {
        if planted(Bug::NamesNotSynced) {
            return Ok(());
        }
        self.disk
            .sync_directory(&directory(&self.partition))
            .map_err(|error| Doing::Syncing.failed(error).at(&file.path))
    }

    /// The open segment and, if the run is to seal it, its index. It is found whole, or this fails.
    ///
    /// A whole look follows the runs back one by one. That is done once in a segment's life, when its last table needs it
    /// anyway. The cheaper look at its last block is for ends that another process left: an end that this process wrote
    /// was synced without an error, and to doubt it before every run would add a read to each.
    fn go_on(&self, open: &Target) -> Result<(SegmentFile, Index), Fault> {
        let file = open_segment(&self.disk, &self.journal, &self.partition, &open.segment)?;
        if open.seal {
            let earlier = read_index(&file, &open.segment)?;
            return Ok((file, earlier));
        }
        if !self.end_is_known && !planted(Bug::AppendedBehindDamage) {
            verify_end(&file, &open.segment)?;
        }
        Ok((file, Index::default()))
    }

    fn write(
        &self,
        target: &Target,
        file: &SegmentFile,
        earlier: &Index,
        batches: &[Batch],
    ) -> Result<LaidOut, Fault> {
        let run = Run {
            identity: file.identity,
            start: target.segment.end,
            seal: target.seal.then_some(earlier),
            aborted: &self.aborted,
        };
        let (chunks, end) = write_run(&*file.file, &run, batches).map_err(|failed| failed.at(&file.path))?;
        if target.segment.end == 0 {
            self.sync_name(file)?;
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
            max_timestamp_ms: target.segment.max_timestamp_ms.max(newest),
            sealed: target.seal,
            sparse: target.segment.sparse || self.sparse,
            aborted: target.segment.aborted + self.aborted.len() as u32,
            ..target.segment
        };
        Ok(LaidOut {
            chunks,
            ..LaidOut::of(segment)
        })
    }

    fn create_file(&self, directory_may_be_lost: bool) -> Result<SegmentFile, Fault> {
        let segment = &self.fresh.segment;
        let relative = path(&self.partition, segment.name());
        let name = self.disk.root().join(&relative).display().to_string();
        let file = self
            .create_at(&relative, self.is_first || directory_may_be_lost)
            .map_err(|failed| failed.at(&name))?;
        Ok(SegmentFile {
            file,
            identity: segment.identity(self.journal.cluster, self.partition),
            path: name,
            adopted: None,
            patient: false,
        })
    }

    fn create_at(&self, path: &Path, with_directory: bool) -> Result<Arc<dyn File>, Failed> {
        let directory = directory(&self.partition);
        let names = self
            .disk
            .list(&directory)
            .map_err(|error| Doing::Reading.failed(error))?;
        if with_directory || names.is_empty() {
            self.create_directory(&directory)?;
        }
        self.remove_leftovers(names, path)?;
        self.disk
            .create(path)
            .map_err(|error| Doing::Creating.failed(error))
    }

    /// At the first run since the start that goes on with a segment: the next file that is created may begin behind them.
    fn look_for_leftovers(&self) -> Result<(), Fault> {
        let first = path(&self.partition, self.fresh.segment.name());
        let names = self.disk.list(&directory(&self.partition));
        names
            .map_err(|error| Doing::Reading.failed(error))
            .and_then(|names| self.remove_leftovers(names, &first))
            .map_err(|failed| failed.at(self.disk.root().join(&first).display().to_string()))
    }

    /// Removes what runs that were never recorded have left behind: the file that begins where this run does or, of a round with
    /// other steps, later ones.
    fn remove_leftovers(&self, names: Vec<String>, first: &Path) -> Result<(), Failed> {
        let paths = names.iter().map(|name| directory(&self.partition).join(name));
        for path in paths.filter(|path| path.as_path() >= first) {
            self.disk
                .remove(&path)
                .map_err(|error| Doing::Removing.failed(error))?;
        }
        Ok(())
    }

    /// The partition's directory, with its name durable. If that fails the directory goes again, as long as nothing is in
    /// it: a sync that failed says nothing when it is repeated, but a new name is synced anew.
    fn create_directory(&self, directory: &Path) -> Result<(), Failed> {
        self.disk
            .create_directory(directory)
            .map_err(|error| Doing::Creating.failed(error))?;
        if planted(Bug::NamesNotSynced) {
            return Ok(());
        }
        self.disk.sync_directory(Path::new(PARTITIONS)).map_err(|error| {
            if self.disk.list(directory).is_ok_and(|names| names.is_empty()) {
                let _ = self.disk.remove_directory(directory);
            }
            Doing::Syncing.failed(error)
        })
    }

    /// The batches, from memory or from the frames that were read back.
    fn gather(&self, frames: &[Bytes]) -> Vec<Batch> {
        let reread = self.frames.iter().zip(frames);
        let mut reread = reread.flat_map(|(wanted, frame)| wanted.slices(frame));
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
        self.batches.iter().map(batch).collect()
    }
}
