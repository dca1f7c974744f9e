//! The parts of a log that can be replicated: the committed tail, the entries that cut a suffix off, promise, and begin a log
//! elsewhere than at 0, and batches that come as another node wrote them.
//!
//! Nothing written is ever changed: a suffix goes by an entry behind it. So what may go is in the journal alone, and caches,
//! segments and compaction know nothing of it: layout stops at the committed tail.

use planted::{Bug, planted};
use record::{BatchHeader, Epoch, Offset, PartitionId};

use super::Store;
use crate::batch_bytes::BatchBytes;
use crate::journal::frame::{EntryHeader, EntryKind, NONE};
use crate::journal::{Reserve, StageError};
use crate::partition::TailBatch;
use crate::witness::Witness;

impl Store {
    /// Takes note of the partition's committed tail. Records before it are never cut off, and may be laid out; those behind it stay in
    /// the journal. It never goes back; a partition that was deleted meanwhile has none.
    ///
    /// # Panics
    /// If it lies behind the log's end: the caller's mistake.
    pub fn commit_to(&mut self, id: PartitionId, tail: Offset) {
        let Some(log) = self.partitions.get_mut(&id) else {
            return;
        };
        assert!(tail.0 <= log.next, "what is committed is in the log");
        log.committed = log.committed.max(tail.0);
    }

    /// Says whether entries with payloads of these lengths can all be staged now; entries without batches have none.
    pub fn has_room(&self, payloads: impl IntoIterator<Item = usize>, reserve: Reserve) -> bool {
        self.journal.has_room(payloads, reserve)
    }

    /// Has a round begin and end with a checkpoint, even if there is nothing to lay out: something waits for it that is in the owner's
    /// state alone.
    pub fn owe_checkpoint(&mut self) {
        self.compaction.note_owed(true);
    }

    /// Cuts off everything from `first` on. Returns the frame of the entry: it holds when that frame is durable.
    ///
    /// # Errors
    /// When the journal cannot take the entry; then nothing has changed.
    ///
    /// # Panics
    /// If records before the committed tail would go, or `first` is within a batch: the caller's mistake.
    pub fn cut(&mut self, id: PartitionId, first: Offset) -> Result<u64, StageError> {
        self.stage_cut(id, Epoch(NONE as i32), first, None)
    }

    /// The same, and says that the log is that of the leader of `epoch` from then on. `before` is the epoch of the record before
    /// `first`, if there is one.
    ///
    /// # Errors
    /// As [`Store::cut`].
    ///
    /// # Panics
    /// As [`Store::cut`].
    pub fn accept(
        &mut self,
        id: PartitionId,
        epoch: Epoch,
        first: Offset,
        before: Option<Epoch>,
    ) -> Result<u64, StageError> {
        assert!(epoch >= Epoch(0), "an epoch is accepted");
        self.stage_cut(id, epoch, first, before)
    }

    fn stage_cut(
        &mut self,
        id: PartitionId,
        epoch: Epoch,
        first: Offset,
        before: Option<Epoch>,
    ) -> Result<u64, StageError> {
        let log = self
            .partitions
            .get_mut(&id)
            .expect("a partition is opened before it is cut");
        log.assert_open();
        assert!(log.committed <= first.0, "what is committed is never cut off");
        assert!(log.laid_out <= log.committed, "what is laid out is committed");
        assert!(first.0 <= log.next, "a log is cut within its bounds");
        let entry = EntryHeader {
            next: Offset(before.map_or(NONE, |epoch| i64::from(epoch.0))),
            ..EntryHeader::bare(EntryKind::Accept, id, epoch, first)
        };
        let frame = self.journal.stage(&entry, &[], Reserve::UseHalf)?.frame;
        log.has_vows |= epoch >= Epoch(0);
        log.cut(first.0, frame)
            .expect("seen above, and whole batches are cut off");
        if !planted(Bug::CutBatchReported) {
            self.journal.note_cut(id, first.0);
        }
        Ok(frame)
    }

    /// Journals the promise to append nothing of an older epoch than `epoch`, given to the node `candidate`. The partition's owner
    /// keeps it: its state says so in the next checkpoint. Returns the frame of the entry.
    ///
    /// # Errors
    /// When the journal cannot take it; then nothing has changed.
    ///
    /// # Panics
    /// If the partition was not opened: the caller's mistake.
    pub fn promise(&mut self, id: PartitionId, epoch: Epoch, candidate: i32) -> Result<u64, StageError> {
        assert!(
            epoch >= Epoch(0) && candidate >= 0,
            "an epoch is promised to a node"
        );
        let log = self
            .partitions
            .get_mut(&id)
            .expect("a partition is opened before anything is promised for it");
        let entry = EntryHeader::bare(EntryKind::Promise, id, epoch, Offset(i64::from(candidate)));
        let frame = self.journal.stage(&entry, &[], Reserve::UseHalf)?.frame;
        log.has_vows = true;
        Ok(frame)
    }

    /// Has the log of a partition begin at `first`, where no committed record of it is: what comes before was given up by other nodes.
    /// All that it has goes, also what is not committed behind `first`. What the partition's owner keeps of records before is not
    /// journaled: recovery says that the log has begun anew, until a checkpoint has a newer state. Returns the frame of the entry.
    ///
    /// # Errors
    /// When the journal cannot take it; then nothing has changed.
    ///
    /// # Panics
    /// If the partition was not opened, or has something committed at `first` or behind it: the caller's mistake.
    pub fn begin_at(&mut self, id: PartitionId, first: Offset) -> Result<u64, StageError> {
        let log = self
            .partitions
            .get_mut(&id)
            .expect("a partition is opened before its log begins");
        log.assert_open();
        assert!(
            first.0 > 0 && log.committed <= first.0,
            "what is committed is not given up for a beginning before it"
        );
        let entry = EntryHeader::bare(EntryKind::Base, id, Epoch(0), first);
        let frame = self.journal.stage(&entry, &[], Reserve::UseHalf)?.frame;
        self.journal.note_cut(id, first.0);
        let mut segments = log.begin_at(first.0, frame);
        if planted(Bug::SegmentsKeptBelowBase) {
            log.segments = std::mem::take(&mut segments);
        }
        for segment in segments {
            self.give_up_segment(id, &segment, frame);
        }
        Ok(frame)
    }

    /// Journals how far another node's journal was durable, and keeps it. Returns the frame of the entry.
    ///
    /// # Errors
    /// When the journal cannot take it; then nothing has changed.
    ///
    /// # Panics
    /// If there can be no such node or frame: the caller has checked it.
    pub fn witness(&mut self, witness: &Witness) -> Result<u64, StageError> {
        assert!(witness.is_possible(), "a witness is of a frame of a node's");
        let entry = EntryHeader::of_witness(witness);
        let frame = self.journal.stage(&entry, &[], Reserve::UseHalf)?.frame;
        self.witnesses.note(witness);
        Ok(frame)
    }

    /// Stages a batch as another node wrote it: with its offsets, its epoch and its times. Where compaction took what came before
    /// it there, the log has the same gap here. `aborts` is the first offset of the transaction that it ends by aborting it.
    ///
    /// # Errors
    /// When the journal cannot take it; then nothing has changed.
    ///
    /// # Panics
    /// If the partition was not opened, or the batch is none or lies before the log's end: the caller has checked it.
    pub fn append_copy(
        &mut self,
        id: PartitionId,
        batch: &mut BatchBytes,
        aborts: Option<Offset>,
        reserve: Reserve,
    ) -> Result<(), StageError> {
        let header = BatchHeader::read(batch).expect("the caller has checked the batch");
        let log = self
            .partitions
            .get_mut(&id)
            .expect("a partition is opened before it is appended to");
        log.assert_open();
        assert!(
            log.next <= header.base_offset.0,
            "a copy goes on behind the log's end"
        );
        assert!(
            aborts.is_none() || header.producer_id >= 0,
            "a transaction is a producer's"
        );
        let entry = EntryHeader {
            next: header.next_offset(),
            payload_bytes: u32::try_from(batch.len()).expect("a request is below 4 GiB"),
            aborts: aborts.map_or(NONE, |first| first.0),
            ..EntryHeader::bare(copied_kind(aborts), id, header.leader_epoch, Offset(log.next))
        };
        let staged = match batch {
            BatchBytes::Shared(bytes) => self.journal.stage(&entry, bytes, reserve)?,
            BatchBytes::Alone(memory) => {
                self.journal.make_room_for_frame(memory.batch().len(), reserve)?;
                self.journal.stage_frame(&entry, batch.take_memory(), None).0
            }
        };
        let tail_batch = TailBatch {
            first: entry.first.0,
            next: entry.next.0,
            max_timestamp_ms: header.max_timestamp_ms,
            frame: staged.frame,
            start: staged.start,
            length: entry.payload_bytes,
        };
        let is_first = log.push_staged(tail_batch, self.journal.resident_from());
        log.note_kind(&header, entry.aborts);
        self.layout.note_staged(id, entry.payload_bytes, is_first);
        Ok(())
    }

    /// Frames before this one hold no batch of which it is not known that it is committed, as far as the journal alone has it.
    pub(super) fn committed_before(&self) -> u64 {
        let waiting = self.layout.unlaid().filter_map(|id| self.partitions.get(id));
        let uncommitted = waiting.filter_map(|log| Some(log.uncommitted().next()?.frame));
        match planted(Bug::UncommittedLaidOut) {
            true => u64::MAX,
            false => uncommitted.min().unwrap_or(u64::MAX),
        }
    }
}

fn copied_kind(aborts: Option<Offset>) -> EntryKind {
    match aborts {
        Some(_) => EntryKind::AbortBatch,
        None => EntryKind::Batch,
    }
}
