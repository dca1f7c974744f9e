//! Appends one run to a segment: chunks, table, trailer, in one go and synced at its end.
//!
//! Blocks; runs on a background thread. Either the whole run is recorded by a later checkpoint or none of it counts.

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::{BLOCK_BYTES, File};
use record::{BatchHeader, TimestampType};

use super::table::{
    ABORTED_BYTES, AbortedRange, CHUNK_BYTES, Chunk, ENTRY_BYTES, Index, RECORDS_UNKNOWN, TIME_UNKNOWN,
    TRAILER_BYTES, Trailer,
};
use crate::checksum::SegmentIdentity;
use crate::fault::{Doing, Failed};
use crate::slab::{Slab, round_up_to_block};

/// Written at a time, so that the journal's small writes never queue behind a long one.
const STEP_BYTES: usize = 256 << 10;
/// The most offsets that a chunk spans: what the table can say.
const CHUNK_SPAN_MAX: i64 = u32::MAX as i64;

/// A batch to lay out.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) first: i64,
    pub(crate) next: i64,
    pub(crate) max_timestamp_ms: i64,
    pub(crate) bytes: Bytes,
}

impl Batch {
    /// The number of its records, and the least of their times, as far as its header tells.
    fn summary(&self) -> (u32, i64) {
        let Ok(header) = BatchHeader::read(&self.bytes) else {
            return (RECORDS_UNKNOWN, TIME_UNKNOWN);
        };
        let least = match header.attributes.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp_ms,
            // The first record's is not the least one.
            TimestampType::CreateTime if header.record_count == 1 => header.base_timestamp_ms,
            TimestampType::CreateTime => TIME_UNKNOWN,
        };
        (
            u32::try_from(header.record_count).unwrap_or(RECORDS_UNKNOWN),
            least,
        )
    }
}

/// Where a run goes and what it must point to.
pub(crate) struct Run<'a> {
    pub(crate) identity: SegmentIdentity,
    /// The end of the segment so far, where the run begins.
    pub(crate) start: u64,
    /// For the run that seals the segment: what the runs before it hold.
    pub(crate) seal: Option<&'a Index>,
    /// The transactions that batches of the run abort, in the order of their markers.
    pub(crate) aborted: &'a [AbortedRange],
}

/// Writes the run of `batches` and syncs the file. Returns the run's chunks and the segment's new end.
pub(crate) fn write_run(
    file: &dyn File,
    run: &Run<'_>,
    batches: &[Batch],
) -> Result<(Vec<Chunk>, u64), Failed> {
    let (run_bytes, chunks, end) = assemble(run, batches);
    for (step, bytes) in run_bytes.chunks(STEP_BYTES).enumerate() {
        file.write(run.start + (step * STEP_BYTES) as u64, bytes)
            .map_err(|error| Doing::Writing.failed(error))?;
    }
    if !planted(Bug::RunNotSynced) {
        file.sync().map_err(|error| Doing::Syncing.failed(error))?;
    }
    Ok((chunks, end))
}

fn assemble(run: &Run<'_>, batches: &[Batch]) -> (Bytes, Vec<Chunk>, u64) {
    let data_bytes: usize = batches.iter().map(|batch| batch.bytes.len()).sum();
    let mut index = run.seal.cloned().unwrap_or_default();
    let chunks_max = index.chunks.len() + chunks_max(batches, data_bytes);
    index.aborted.extend_from_slice(run.aborted);
    let table_bytes_max = chunks_max * ENTRY_BYTES + index.aborted.len() * ABORTED_BYTES;
    let mut slab = Slab::new(round_up_to_block(data_bytes + table_bytes_max + TRAILER_BYTES));
    let chunks = append_chunks(&mut slab, run, batches);
    index.chunks.extend_from_slice(&chunks);
    let table_position = run.start + slab.filled() as u64;
    let table = index.encode();
    slab.append(&table);
    let total = round_up_to_block(slab.filled() + TRAILER_BYTES);
    slab.append(&[0; BLOCK_BYTES][..total - TRAILER_BYTES - slab.filled()]);
    let end = run.start + total as u64;
    let trailer = Trailer {
        table_position,
        chunk_count: index.chunks.len() as u32,
        aborted_count: index.aborted.len() as u32,
        table_checksum: run.identity.checksum(table_position, &table),
        previous_end: if run.seal.is_some() { 0 } else { run.start },
        next: index.chunks.last().map_or(0, |chunk| chunk.next),
    };
    slab.append(&trailer.encode(&run.identity, end));
    (slab.cut_frame(), chunks, end)
}

/// The most chunks that batches of so many bytes make.
fn chunks_max(batches: &[Batch], data_bytes: usize) -> usize {
    let ends = batches.first().zip(batches.last());
    let is_sparse = ends.is_some_and(|(first, last)| last.next - first.first > CHUNK_SPAN_MAX);
    match is_sparse {
        // Chunks end by their span, too.
        true => batches.len(),
        false => batches.len().min(data_bytes / CHUNK_BYTES + 1),
    }
}

fn append_chunks(slab: &mut Slab, run: &Run<'_>, batches: &[Batch]) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut rest = batches;
    while let Some(first) = rest.first() {
        let start = slab.filled();
        let (mut min_timestamp_ms, mut max_timestamp_ms) = (i64::MAX, i64::MIN);
        let mut next = first.first;
        let mut records = 0;
        while let Some((batch, behind)) = rest.split_first()
            && slab.filled() - start < CHUNK_BYTES
            && batch.next - first.first <= CHUNK_SPAN_MAX
        {
            assert!(
                batch.first >= next,
                "batches are laid out in the order of their offsets"
            );
            slab.append(&batch.bytes);
            next = batch.next;
            max_timestamp_ms = max_timestamp_ms.max(batch.max_timestamp_ms);
            let (batch_records, least) = batch.summary();
            // Whatever is unknown of a batch is unknown of the chunk.
            records = batch_records.saturating_add(records);
            min_timestamp_ms = min_timestamp_ms.min(least);
            rest = behind;
        }
        let position = run.start + start as u64;
        chunks.push(Chunk {
            first: first.first,
            next,
            position,
            length: (slab.filled() - start) as u32,
            max_timestamp_ms,
            min_timestamp_ms,
            records,
            checksum: run.identity.checksum(position, &slab.frame()[start..]),
        });
    }
    chunks
}
