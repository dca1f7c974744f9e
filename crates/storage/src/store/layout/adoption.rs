//! Which journal files become segments as they are: those that nearly all of is one partition's.
//!
//! Copying such a file would write every byte twice for the sake of a few. Only complete files are adopted, and those of
//! topics whose segments may be as large; what of a file is other partitions' is copied as ever.

use planted::{Bug, planted};

use crate::partition::PartitionLog;
use crate::segment::table::CHUNK_BYTES;
use crate::segment::{AdoptedFile, Chunk, RECORDS_UNKNOWN, TIME_UNKNOWN};
use crate::store::Store;

use super::step::Adoption;
use crate::journal::CompleteFile;

/// Of a file that is adopted, at least this share is the partition's: what is not is dead weight from then on.
const SHARE: (u64, u64) = (2, 3);

impl Store {
    /// Says whether frames before `end`, or files that none of these are in any more, wait for a round and its checkpoint.
    pub(super) fn has_unreleased_before(&self, end: u64) -> bool {
        self.journal.released_before() < end || self.journal.holds_file_before(end)
    }

    /// Frames before this one should be laid out: all that are durable; but of a file that is still written, or that
    /// flushes are on their way to, none yet if it looks like one to be adopted.
    pub(in crate::store) fn layout_end(&self) -> u64 {
        let durable = self.journal.durable_before();
        let Some((id, first, file_bytes)) = self.journal.dominated_file() else {
            return durable;
        };
        let log = self.partitions.get(&id);
        match log.is_some_and(|log| log.rolling.bytes >= file_bytes) {
            // A round that began before the last frame of the file before is durable would copy that file.
            true if first > durable => self
                .journal
                .first_frame_beside(durable)
                .max(self.layout.laid_out_before),
            true => first.max(self.layout.laid_out_before),
            false => durable,
        }
    }

    /// The end of the complete file that a frame stands in, in frames; none is behind it if the file is still written.
    pub(super) fn file_end(&self, frame: u64) -> u64 {
        self.journal
            .complete_file(frame, u64::MAX)
            .map_or(u64::MAX, |file| file.frames_end)
    }

    /// The file with the batch at `index` of the tail, if what the partition has in it from there on makes it worth
    /// adopting, and the index behind the last of these batches.
    pub(super) fn adoptable(
        &self,
        log: &PartitionLog,
        index: usize,
        before_frame: u64,
    ) -> Option<(CompleteFile, usize)> {
        let file = self
            .journal
            .complete_file(log.tail.get(index)?.frame, before_frame)?;
        // By the index of a file the first batch at an offset is found, and not the one that came in its place.
        let has_cuts = file.frames_begin < log.cuts_before && !planted(Bug::CutFileAdopted);
        if log.rolling.bytes < file.file_bytes || has_cuts {
            return None;
        }
        let own = log
            .tail
            .range(index..)
            .take_while(|batch| batch.frame < file.frames_end);
        let (count, bytes) = own.fold((0, 0), |(count, bytes), batch| {
            (count + 1, bytes + u64::from(batch.length))
        });
        (bytes * SHARE.1 >= file.file_bytes * SHARE.0).then_some((file, index + count))
    }

    /// Says whether a file becomes a segment as it is, as far as its batches are not laid out.
    pub(in crate::store) fn is_adoptable(&self, file: &CompleteFile) -> bool {
        let log = file.majority.and_then(|id| self.partitions.get(&id));
        log.is_some_and(|log| {
            let first = log.tail.partition_point(|batch| batch.frame < file.frames_begin);
            let start = log.tail.partition_point(|batch| batch.next <= log.laid_out);
            self.adoptable(log, first.max(start), file.frames_end).is_some()
        })
    }

    /// The adoption that lays out the batches from `start` of the tail on, if they are in a file that is worth it.
    pub(super) fn plan_adoption(
        &self,
        log: &PartitionLog,
        start: usize,
        before_frame: u64,
    ) -> Option<Adoption> {
        let (file, end) = self.adoptable(log, start, before_frame)?;
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut frame = None;
        for batch in log.tail.range(start..end) {
            if frame.replace(batch.frame) == Some(batch.frame) {
                let chunk = chunks.last_mut().expect("its frame is in one");
                chunk.next = batch.next;
                chunk.max_timestamp_ms = chunk.max_timestamp_ms.max(batch.max_timestamp_ms);
                continue;
            }
            let location = self
                .journal
                .location(batch.frame)
                .expect("a frame not laid out is kept");
            // Bytes of others between two frames count as well: a chunk is read whole.
            match chunks
                .last_mut()
                .filter(|chunk| location.position - chunk.position < CHUNK_BYTES as u64)
            {
                Some(chunk) => {
                    chunk.next = batch.next;
                    chunk.length = (location.position - chunk.position) as u32 + location.total_bytes;
                    chunk.max_timestamp_ms = chunk.max_timestamp_ms.max(batch.max_timestamp_ms);
                }
                None => chunks.push(Chunk {
                    first: batch.first,
                    next: batch.next,
                    position: location.position,
                    length: location.total_bytes,
                    max_timestamp_ms: batch.max_timestamp_ms,
                    // The batches are not looked into.
                    min_timestamp_ms: TIME_UNKNOWN,
                    records: RECORDS_UNKNOWN,
                    // Its frames have checksums of their own.
                    checksum: 0,
                }),
            }
        }
        Some(Adoption {
            file: AdoptedFile {
                number: file.number,
                sequence: file.sequence,
                salt: file.salt,
                bytes: file.file_bytes,
            },
            chunks,
        })
    }
}
