//! One partition as the store has it in memory: where its batches are, from the oldest segment to the staged end.
//!
//! ```text
//!   log_start            laid_out      committed      next
//!      |---- segments ------|------ journal only -------|
//!                    |------- tail: batches with a frame -------|     (some may already be in segments)
//! ```
//! Batches that are not committed may be cut off; so they are never in a segment.
//!
//! Offsets here are plain `i64`: this is below the boundary where `Offset` gives them their type.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use planted::{Bug, planted};
use record::{BatchHeader, PartitionId};

use crate::compaction::Cleaned;
use crate::journal::frame::NONE;
use crate::segment::{AbortedRange, Segment, SegmentName};

/// A tail has room for so many batches at least once it had any.
const TAIL_FEW: usize = 16;

/// A batch in the journal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailBatch {
    pub(crate) first: i64,
    pub(crate) next: i64,
    pub(crate) max_timestamp_ms: i64,
    pub(crate) frame: u64,
    /// The batch's first byte, counted from the frame's.
    pub(crate) start: u32,
    pub(crate) length: u32,
}

/// When a partition's segment is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRolling {
    /// Sealed by the run that fills it to this size. Kafka's `segment.bytes`.
    pub bytes: u64,
    /// Sealed by the first run after this age. Kafka's `segment.ms`.
    pub age_ms: i64,
}

impl Default for SegmentRolling {
    /// Kafka's defaults: 1 GiB, seven days.
    fn default() -> SegmentRolling {
        SegmentRolling {
            bytes: 1 << 30,
            age_ms: 7 * 24 * 3_600_000,
        }
    }
}

pub(crate) struct PartitionLog {
    pub(crate) id: PartitionId,
    pub(crate) log_start: i64,
    /// The offset after the last staged record.
    pub(crate) next: i64,
    /// Records before this are never cut off: the store was told that they are committed.
    pub(crate) committed: i64,
    /// Segments hold what lies before this and has not been trimmed.
    pub(crate) laid_out: i64,
    pub(crate) segments: Vec<Segment>,
    /// Segments that end at or before this are in the checkpoint on the disk.
    pub(crate) recorded: i64,
    /// The passes of compaction that count, oldest first; the last one says up to where there was one.
    pub(crate) cleaned: Vec<Cleaned>,
    /// A pass of compaction may have left a file that it did not end, and none has looked since.
    pub(crate) unswept: bool,
    /// The last segment's end was written, or found whole, since the store was opened.
    pub(crate) end_is_known: bool,
    pub(crate) tail: VecDeque<TailBatch>,
    /// The transactions that batches in the journal only abort, in the order of their markers.
    pub(crate) aborted: VecDeque<AbortedRange>,
    /// Offsets before this may be missing in the tail: the last batch that came with a gap before it ends here.
    pub(crate) gaps_before: i64,
    /// Frames before this one may hold batches of the partition that were cut off or given up, or entries that say so.
    pub(crate) cuts_before: u64,
    /// The last segment that came from another node ends here.
    pub(crate) imported: i64,
    /// Held by the import under way, if there is one.
    importing: Weak<()>,
    /// The journal holds a promise for it, or that a leader's log was accepted: it has a line in the checkpoint even if it is empty.
    pub(crate) has_vows: bool,
    pub(crate) rolling: SegmentRolling,
    /// It stands in the queue for layout, exactly once.
    pub(crate) queued: bool,
}

impl PartitionLog {
    pub(crate) fn new(id: PartitionId, rolling: SegmentRolling) -> PartitionLog {
        PartitionLog {
            id,
            log_start: 0,
            next: 0,
            committed: 0,
            laid_out: 0,
            segments: Vec::new(),
            recorded: 0,
            cleaned: Vec::new(),
            unswept: false,
            end_is_known: false,
            tail: VecDeque::new(),
            aborted: VecDeque::new(),
            gaps_before: 0,
            cuts_before: 0,
            imported: 0,
            importing: Weak::new(),
            has_vows: false,
            rolling,
            queued: false,
        }
    }

    /// Adds a staged batch at the end.
    pub(crate) fn push(&mut self, batch: TailBatch) {
        assert!(
            batch.first == self.next,
            "a partition's batches follow each other without gaps"
        );
        assert!(batch.next > batch.first, "a batch holds at least one record");
        self.next = batch.next;
        self.tail.push_back(batch);
    }

    /// Adds a staged batch at the end. Returns whether the partition is to be queued for layout: it did not wait for it yet.
    pub(crate) fn push_staged(&mut self, batch: TailBatch, resident_from: u64) -> bool {
        self.forget_laid_out(resident_from);
        self.push(batch);
        !std::mem::replace(&mut self.queued, true)
    }

    /// Notes what else is known of the batch that was pushed last: the transaction that it aborts, and whether offsets are missing
    /// before it.
    pub(crate) fn note_kind(&mut self, header: &BatchHeader, aborts: i64) {
        let batch = self.tail.back().expect("one was pushed");
        if header.base_offset.0 > batch.first {
            self.gaps_before = batch.next;
        }
        if aborts != NONE {
            self.note_aborted(header.producer_id, aborts);
        }
    }

    /// Notes that the batch that was pushed last aborts a transaction.
    pub(crate) fn note_aborted(&mut self, producer_id: i64, first: i64) {
        let marker = self.tail.back().expect("one was pushed");
        self.aborted.push_back(AbortedRange {
            producer_id,
            first,
            marker: marker.next - 1,
        });
    }

    /// The batches that are not committed: those that begin at the committed tail or behind it.
    pub(crate) fn uncommitted(&self) -> impl Iterator<Item = &TailBatch> {
        let first = self.tail.partition_point(|batch| batch.first < self.committed);
        self.tail.range(first..)
    }

    /// Cuts off what lies at `first` and above, by an entry in that frame.
    ///
    /// # Errors
    /// The obstacle: nothing has changed then.
    pub(crate) fn cut(&mut self, first: i64, frame: u64) -> Result<(), String> {
        let kept = self.tail.partition_point(|batch| batch.first < first);
        let reaches = self
            .tail
            .get(kept.wrapping_sub(1))
            .map_or(first, |last| last.next);
        if first > self.next || first < self.laid_out || reaches > first {
            return Err(format!(
                "{} is cut off at offset {first}, and spans {}..{} with offset {} laid out and a batch that ends at {reaches}",
                self.id, self.log_start, self.next, self.laid_out
            ));
        }
        self.cuts_before = frame + 1;
        self.tail.truncate(kept);
        self.next = first;
        self.gaps_before = self.gaps_before.min(first);
        let aborted = self.aborted.partition_point(|range| range.marker < first);
        self.aborted.truncate(aborted);
        Ok(())
    }

    /// Has the log begin at `first`, by an entry in that frame: what comes before is on other nodes, or nowhere. All that it has
    /// is given up; returns the segments that held it.
    pub(crate) fn begin_at(&mut self, first: i64, frame: u64) -> Vec<Segment> {
        assert!(
            self.committed <= first,
            "a log begins anew behind what is committed"
        );
        self.cuts_before = frame + 1;
        self.tail.clear();
        self.aborted.clear();
        self.cleaned.clear();
        self.gaps_before = 0;
        (self.log_start, self.next, self.laid_out) = (first, first, first);
        (self.committed, self.recorded) = (first, first);
        std::mem::take(&mut self.segments)
    }

    /// Closes the log to all but an import, for as long as what is returned is held.
    pub(crate) fn begin_import(&mut self) -> Arc<()> {
        let held = Arc::new(());
        self.importing = Arc::downgrade(&held);
        held
    }

    /// Says whether a segment of another node is on its way.
    pub(crate) fn is_importing(&self) -> bool {
        self.importing.strong_count() > 0
    }

    /// Goes on with a segment of another node, of which nothing is in the journal. An empty log begins with it.
    pub(crate) fn import(&mut self, segment: Segment) {
        assert!(
            self.laid_out == self.next,
            "what an import goes on behind is laid out"
        );
        assert!(
            self.next == segment.first || self.next == 0,
            "an import goes on where the log ends"
        );
        if self.next == 0 {
            self.log_start = segment.first;
        }
        self.forget_tail_before(self.laid_out);
        self.aborted.clear();
        if let Some(last) = self.segments.last_mut() {
            last.sealed = true;
        }
        self.segments.push(segment);
        (self.next, self.laid_out, self.committed) = (segment.next, segment.next, segment.next);
        self.imported = segment.next;
    }

    /// Says whether a segment was imported that no durable checkpoint names: recovery would not know what an entry behind it is behind.
    pub(crate) fn awaits_checkpoint(&self) -> bool {
        self.imported > self.recorded && !planted(Bug::ImportGoneOnWith)
    }

    /// Says whether entries of it may be staged.
    pub(crate) fn is_open(&self) -> bool {
        !self.is_importing() && !self.awaits_checkpoint()
    }

    /// Panics if nothing may be appended, cut off or trimmed now: the caller's mistake.
    pub(crate) fn assert_open(&self) {
        assert!(
            !self.is_importing(),
            "a log is left alone while a segment is imported"
        );
        assert!(
            !self.awaits_checkpoint(),
            "a log goes on behind an import when a checkpoint names it"
        );
    }

    /// The index in `tail` of the batch that holds `offset`, if any does.
    pub(crate) fn tail_index(&self, offset: i64) -> Option<usize> {
        let front = self.tail.front()?;
        if offset < front.first || offset >= self.next {
            return None;
        }
        Some(self.tail.partition_point(|batch| batch.next <= offset))
    }

    /// The index in `segments` of the first one that ends behind `offset`.
    pub(crate) fn segment_index(&self, offset: i64) -> Option<usize> {
        let index = self.segments.partition_point(|segment| segment.next <= offset);
        (index < self.segments.len()).then_some(index)
    }

    /// Says whether this is one of its segments still.
    pub(crate) fn has_segment(&self, name: SegmentName) -> bool {
        let index = self
            .segments
            .partition_point(|segment| segment.first < name.first);
        self.segments
            .get(index)
            .is_some_and(|segment| segment.name() == name)
    }

    /// Says whether a file of this name is one of its segments, or may come to be one by layout.
    pub(crate) fn may_hold(&self, name: SegmentName) -> bool {
        self.has_segment(name) || name.first >= self.laid_out
    }

    /// Says whether some batches are in the journal only.
    pub(crate) fn needs_layout(&self) -> bool {
        self.laid_out < self.next
    }

    /// Moves the start up. Returns the segments that hold nothing any more; not the one being written, if `spare_open`.
    pub(crate) fn trim(&mut self, log_start: i64, spare_open: bool) -> Vec<Segment> {
        assert!(log_start <= self.next, "a log cannot start behind its end");
        self.log_start = self.log_start.max(log_start);
        let start = self.log_start;
        let is_gone = |segment: &&Segment| segment.next <= start && (segment.sealed || !spare_open);
        let gone = self.segments.iter().take_while(is_gone).count();
        self.segments.drain(..gone).collect()
    }

    /// Sees to it that nothing is written any more to the segment that begins at `first`, if it is still the last one.
    pub(crate) fn end_segment(&mut self, first: Option<i64>) {
        if let Some(last) = self.segments.last_mut()
            && Some(last.first) == first
        {
            last.sealed = true;
        }
    }

    /// Forgets batches that segments hold and memory does not: they will be read from the segment.
    pub(crate) fn forget_laid_out(&mut self, resident_from: u64) {
        while let Some(batch) = self.tail.front()
            && batch.next <= self.laid_out
            && batch.frame < resident_from
        {
            self.tail.pop_front();
        }
        while self
            .aborted
            .front()
            .is_some_and(|range| range.marker < self.laid_out)
        {
            self.aborted.pop_front();
        }
        self.give_memory_back();
    }

    /// Forgets batches before `next` that compaction has gone over: from memory they would still be read as they were, also
    /// after a tombstone behind them is gone.
    pub(crate) fn forget_tail_before(&mut self, next: i64) {
        assert!(
            next <= self.laid_out,
            "what is in the journal alone is not forgotten"
        );
        while self.tail.front().is_some_and(|batch| batch.next <= next) {
            self.tail.pop_front();
        }
        self.give_memory_back();
    }

    /// After a burst the tail has room for far more than it will need.
    fn give_memory_back(&mut self) {
        let few = self.tail.len().max(TAIL_FEW);
        if self.tail.capacity() > 4 * few {
            self.tail.shrink_to(2 * few);
        }
    }

    /// Bytes of all segments that count.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segments.iter().map(Segment::stored_bytes).sum()
    }
}
