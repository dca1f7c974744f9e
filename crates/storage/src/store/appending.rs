//! Batches that a leader has numbered become entries of the journal.

use bytes::Bytes;
use indexmap::IndexMap;
use record::{BatchHeader, Epoch, Offset, PartitionId, batch};

use super::Store;
use crate::batch_bytes::BatchBytes;
use crate::journal::frame::{ENTRY_HEADER_BYTES, EntryHeader, EntryKind, NONE};
use crate::journal::{Reserve, StageError, Staged};
use crate::partition::{PartitionLog, TailBatch};

/// The append of a batch that the caller has validated and numbered.
#[derive(Debug, Clone, Copy)]
pub struct Append {
    /// The leader's epoch, written into the batch.
    pub epoch: Epoch,
    /// The first offset, written into the batch.
    pub first: Offset,
    /// The offset after the last record.
    pub next: Offset,
    /// The greatest timestamp of its records; put right in the batch if its header says otherwise.
    pub max_timestamp_ms: i64,
    /// Set to give the batch this append time instead of its creation time (`message.timestamp.type`).
    pub append_time_ms: Option<i64>,
    /// Set to name another producer than the batch does.
    pub producer_id: Option<i64>,
    /// The first offset of the transaction that it ends by aborting it, if it is the marker of one.
    pub aborts: Option<Offset>,
    /// The part of the journal's reserve that it may use.
    pub reserve: Reserve,
}

impl Append {
    /// Writes into the batch what the broker sets.
    fn write_into(&self, bytes: &mut [u8]) {
        batch::set_base_offset(bytes, self.first);
        batch::set_leader_epoch(bytes, self.epoch);
        if let Some(producer_id) = self.producer_id {
            batch::set_producer_id(bytes, producer_id);
        }
        match self.append_time_ms {
            Some(now_ms) => batch::set_log_append_time(bytes, now_ms),
            None => batch::set_max_timestamp(bytes, self.max_timestamp_ms),
        }
    }
}

impl Store {
    /// Stages one whole record batch. It is durable when a later `flushed` names the partition with an offset of at least
    /// `append.next`. A batch in memory of its own stays where it is and becomes a frame; of any other the bytes are copied.
    ///
    /// # Errors
    /// When the journal cannot take it; then nothing has changed.
    ///
    /// # Panics
    /// If the partition was not opened or `append.first` does not continue it: the caller's mistake.
    pub fn append(
        &mut self,
        id: PartitionId,
        append: &Append,
        batch: &mut BatchBytes,
    ) -> Result<(), StageError> {
        let (log, journal) = (log_of(&mut self.partitions, id), &mut self.journal);
        let header = entry_of(log, id, append, batch.len());
        let aborting = append.aborts.map(|first| (producer_of(batch), first.0));
        let staged = match batch {
            BatchBytes::Shared(bytes) => {
                let staged = journal.stage(&header, bytes, append.reserve)?;
                append.write_into(journal.staged_mut(staged, bytes.len()));
                staged
            }
            BatchBytes::Alone(memory) => {
                let batch_bytes = memory.batch().len();
                journal.make_room_for_frame(batch_bytes, append.reserve)?;
                append.write_into(memory.batch_mut());
                journal.stage_frame(&header, batch.take_memory(), None).0
            }
        };
        let is_first = log.push_staged(tail_batch(&header, append, staged), journal.resident_from());
        if let Some((producer_id, first)) = aborting {
            log.note_aborted(producer_id, first);
        }
        self.layout.note_staged(id, header.payload_bytes, is_first);
        Ok(())
    }

    /// Sees to it that a batch and a small one of at most `behind` bytes can be staged as parts of one frame.
    ///
    /// # Errors
    /// When the journal cannot take them now, or ever; then nothing was staged.
    pub fn make_room_for_two(
        &mut self,
        batch: &mut BatchBytes,
        behind: usize,
        reserve: Reserve,
    ) -> Result<(), StageError> {
        if let BatchBytes::Alone(memory) = batch
            && !memory.has_room_behind(ENTRY_HEADER_BYTES + behind)
        {
            *batch = BatchBytes::Shared(Bytes::copy_from_slice(memory.batch()));
        }
        let payload_bytes = batch.len() + ENTRY_HEADER_BYTES + behind;
        match batch {
            BatchBytes::Shared(_) => self.journal.make_room_in_frame(payload_bytes, reserve),
            BatchBytes::Alone(_) => self.journal.make_room_for_frame(payload_bytes, reserve),
        }
    }

    /// Stages a batch, and a small one of another partition behind it, in one frame: after a crash both are there, or neither. The caller has called
    /// `make_room_for_two`, and staged nothing since.
    ///
    /// # Panics
    /// If there is no room, or as in [`Store::append`].
    pub fn append_two(
        &mut self,
        (id, append, batch): (PartitionId, &Append, &mut BatchBytes),
        (behind, append_behind, bytes): (PartitionId, &Append, Bytes),
    ) {
        assert!(append.aborts.is_none(), "no marker is cut at once");
        let entry_bytes = ENTRY_HEADER_BYTES + bytes.len();
        if matches!(batch, BatchBytes::Shared(_)) {
            let first = self.append(id, append, batch);
            let frame = self.journal.pending_frame();
            let second = self.append(behind, append_behind, &mut BatchBytes::Shared(bytes));
            first.and(second).expect("there was room for both");
            return assert!(self.journal.pending_frame() == frame, "both are in one frame");
        }
        let header = entry_of(log_of(&mut self.partitions, id), id, append, batch.len());
        let log_behind = log_of(&mut self.partitions, behind);
        let header_behind = entry_of(log_behind, behind, append_behind, bytes.len());
        let mut memory = batch.take_memory();
        self.journal
            .make_room_for_frame(memory.batch().len() + entry_bytes, append.reserve)
            .expect("there was room for both");
        append.write_into(memory.batch_mut());
        let mut bytes = Vec::from(bytes);
        append_behind.write_into(&mut bytes);
        let (staged, staged_behind) =
            self.journal
                .stage_frame(&header, memory, Some((&header_behind, &bytes)));
        let staged_behind = staged_behind.expect("there was one behind it");
        let resident_from = self.journal.resident_from();
        for (header, append, staged) in [
            (&header, append, staged),
            (&header_behind, append_behind, staged_behind),
        ] {
            let log = log_of(&mut self.partitions, header.partition);
            let is_first = log.push_staged(tail_batch(header, append, staged), resident_from);
            self.layout
                .note_staged(header.partition, header.payload_bytes, is_first);
        }
    }
}

fn log_of(partitions: &mut IndexMap<PartitionId, Box<PartitionLog>>, id: PartitionId) -> &mut PartitionLog {
    let log = partitions.get_mut(&id);
    log.expect("a partition is opened before it is appended to")
}

fn entry_of(log: &PartitionLog, id: PartitionId, append: &Append, batch_bytes: usize) -> EntryHeader {
    log.assert_open();
    assert!(append.first.0 == log.next, "the leader numbers without gaps");
    EntryHeader {
        kind: match append.aborts {
            Some(_) => EntryKind::AbortBatch,
            None => EntryKind::Batch,
        },
        partition: id,
        epoch: append.epoch,
        first: append.first,
        next: append.next,
        payload_bytes: u32::try_from(batch_bytes).expect("a request is below 4 GiB"),
        aborts: append.aborts.map_or(NONE, |first| first.0),
    }
}

/// The producer whose transaction a marker ends.
fn producer_of(marker: &BatchBytes) -> i64 {
    let header = BatchHeader::read(marker).expect("the caller has made it");
    assert!(header.producer_id >= 0, "a transaction is a producer's");
    header.producer_id
}

fn tail_batch(header: &EntryHeader, append: &Append, staged: Staged) -> TailBatch {
    TailBatch {
        first: header.first.0,
        next: header.next.0,
        max_timestamp_ms: append.append_time_ms.unwrap_or(append.max_timestamp_ms),
        frame: staged.frame,
        start: staged.start,
        length: header.payload_bytes,
    }
}
