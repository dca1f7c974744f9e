//! Checks that the batches of a chunk are whole and in order. The chunk's checksum says only that somebody wrote them so, and not that
//! this was right. Pure.

use record::{BatchHeader, batches, checksum_holds};

use super::Chunk;

/// Reads a batch's header, if the batch matches its own checksum.
pub(crate) fn check_batch(bytes: &[u8]) -> Result<BatchHeader, String> {
    let header = BatchHeader::read(bytes).map_err(|error| error.to_string())?;
    match checksum_holds(bytes) {
        true => Ok(header),
        false => Err(format!(
            "the batch at offset {} does not match its own checksum",
            header.base_offset
        )),
    }
}

/// The number of batches of a chunk, which must be as the table says and begin at offset `next`; where compaction left
/// gaps, the batches may begin behind that. `look_at` is shown each of them, and may find more that is wrong.
pub(crate) fn check_chunk(
    chunk: &Chunk,
    mut next: i64,
    gaps: bool,
    content: &[u8],
    mut look_at: impl FnMut(&BatchHeader) -> Result<(), String>,
) -> Result<u64, String> {
    let follows = |first: i64, next: i64| first == next || (gaps && first > next);
    if chunk.first != next {
        return Err(format!(
            "a chunk begins at offset {} where {next} is expected",
            chunk.first
        ));
    }
    let (mut count, mut newest) = (0, i64::MIN);
    for batch in batches(content) {
        let (_, bytes) = batch.map_err(|error| error.to_string())?;
        let header = check_batch(bytes)?;
        if !follows(header.base_offset.0, next) {
            return Err(format!(
                "a batch begins at offset {} where {next} is expected",
                header.base_offset
            ));
        }
        look_at(&header)?;
        next = header.next_offset().0;
        newest = newest.max(header.max_timestamp_ms);
        count += 1;
    }
    if next != chunk.next || newest != chunk.max_timestamp_ms {
        let (end, limit) = (chunk.next, chunk.max_timestamp_ms);
        return Err(format!(
            "a chunk up to offset {end} and time {limit} ends at {next} and {newest}"
        ));
    }
    Ok(count)
}
