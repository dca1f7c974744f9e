//! A step of a pass: what it is asked for as a job, and what comes back of it.

use record::PartitionId;

use super::{Cleaned, Pass};
use crate::fault::Fault;
use crate::segment::{Segment, SegmentName};

/// The outcome of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rewritten {
    /// The segments that were read.
    pub(crate) old: Vec<SegmentName>,
    /// The one that has what stays of them.
    pub(crate) new: Segment,
    pub(crate) records_removed: u64,
    pub(crate) tombstones_removed: u64,
}

/// The end of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CompactionStep {
    /// There is more to do.
    More,
    /// A segment was written, in the place of others.
    Rewritten(Rewritten),
    /// Everything is done: this is to be remembered.
    Done(Vec<Cleaned>),
    /// The files that others left are removed, and nothing else was asked for.
    Swept,
    /// The next run has so many bytes, and with it the disk would not keep its reserve. What was written of its segment is gone.
    NoRoom { bytes: u64 },
}

/// The work that a step did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepResult {
    pub(crate) step: CompactionStep,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
}

/// The next step of the pass under way: to be run anywhere, then given to `compacted`. Blocks.
pub struct CompactionJob {
    pub(crate) pass: Box<Pass>,
}

impl CompactionJob {
    /// The partition that is compacted.
    pub fn partition(&self) -> PartitionId {
        self.pass.partition()
    }

    /// Makes the next step.
    ///
    /// # Errors
    /// The disk's, or damage. The pass is over then; what it has put in place stays.
    pub fn run(&mut self) -> Result<StepResult, Fault> {
        self.pass.step()
    }
}
