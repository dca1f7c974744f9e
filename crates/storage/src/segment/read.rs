//! Reads a segment's index and chunks back, and believes nothing before its checksum held. Blocks.

use std::sync::Arc;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::disk::File;

use super::Segment;
use super::adopted::AdoptedFrames;
use super::piece::{Piece, Stretch};
use super::table::{
    ABORTED_BYTES, Chunk, ENTRY_BYTES, FORMAT_VERSION, Index, TRAILER_BYTES, Trailer, TrailerError,
};
use crate::checksum::SegmentIdentity;
use crate::fault::{Doing, Fault};

/// An open segment file and what identifies its bytes.
#[derive(Clone)]
pub(crate) struct SegmentFile {
    pub(crate) file: Arc<dyn File>,
    pub(crate) identity: SegmentIdentity,
    /// For messages.
    pub(crate) path: String,
    /// Where the chunks are, if not here.
    pub(crate) adopted: Option<Arc<AdoptedFrames>>,
    /// Its reader can wait, and others are not to wait for that.
    pub(crate) patient: bool,
}

fn read(file: &dyn File, path: &str, position: u64, length: usize, patient: bool) -> Result<Bytes, Fault> {
    let bytes = match patient {
        true => file.read_patiently(position, length),
        false => file.read(position, length),
    };
    bytes.map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Fault::Damaged {
            file: path.to_string(),
            position,
            what: "the file ends too early".into(),
        },
        _ => Doing::Reading.failed(error).at(path),
    })
}

impl SegmentFile {
    pub(crate) fn read(&self, position: u64, length: usize) -> Result<Bytes, Fault> {
        read(&*self.file, &self.path, position, length, self.patient)
    }

    /// The bytes that chunks consist of.
    fn read_data(&self, position: u64, length: usize) -> Result<Bytes, Fault> {
        match &self.adopted {
            Some(adopted) => read(&*adopted.file, &adopted.path, position, length, self.patient),
            None => self.read(position, length),
        }
    }

    /// The batches of a chunk, whose bytes these are: checked, and added to `found`.
    fn take_batches(&self, chunk: &Chunk, bytes: Bytes, found: &mut Vec<Stretch>) -> Result<(), Fault> {
        if let Some(adopted) = &self.adopted {
            return adopted.take_batches(chunk, &bytes, found);
        }
        let holds = self.identity.checksum(chunk.position, &bytes) == chunk.checksum;
        if !holds && !planted(Bug::ChunkChecksumIgnored) {
            let what = format!(
                "offsets {}..{} do not match their checksum",
                chunk.first, chunk.next
            );
            return Err(self.damaged(chunk.position, what));
        }
        found.push(Stretch {
            next: chunk.next,
            content: bytes,
        });
        Ok(())
    }

    pub(crate) fn damaged(&self, position: u64, what: String) -> Fault {
        Fault::Damaged {
            file: self.path.clone(),
            position,
            what,
        }
    }

    fn trailer(&self, end: u64) -> Result<Trailer, Fault> {
        let position = end.checked_sub(TRAILER_BYTES as u64);
        let position = position.ok_or_else(|| self.damaged(end, "no run can end here".into()))?;
        self.trailer_in(&self.read(position, TRAILER_BYTES)?, end)
    }

    /// The trailer whose bytes these are: those before `end`.
    pub(super) fn trailer_in(&self, bytes: &[u8], end: u64) -> Result<Trailer, Fault> {
        Trailer::decode(bytes, &self.identity, end).map_err(|error| match error {
            TrailerError::Damaged => {
                let position = end - TRAILER_BYTES as u64;
                self.damaged(position, "the run's trailer does not match its checksum".into())
            }
            TrailerError::UnknownFields => {
                let position = end - TRAILER_BYTES as u64;
                let what =
                    "the run's trailer has fields that this version does not know: a newer one wrote it";
                self.damaged(position, what.into())
            }
            TrailerError::UnknownVersion(version) => Fault::UnknownVersion {
                file: self.path.clone(),
                version,
                known: FORMAT_VERSION,
            },
        })
    }

    /// The table that the trailer before `end` points to; `read` gets its bytes, given where they are and how many.
    pub(super) fn table(
        &self,
        trailer: &Trailer,
        end: u64,
        read: impl FnOnce(u64, usize) -> Result<Bytes, Fault>,
    ) -> Result<Index, Fault> {
        let position = trailer.table_position;
        let chunk_count = trailer.chunk_count as usize;
        let length = chunk_count * ENTRY_BYTES + trailer.aborted_count as usize * ABORTED_BYTES;
        let table_end = position.checked_add((length + TRAILER_BYTES) as u64);
        if table_end.is_none_or(|table_end| table_end > end) {
            return Err(self.damaged(position, "the table does not fit before its trailer".into()));
        }
        let bytes = read(position, length)?;
        if self.identity.checksum(position, &bytes) != trailer.table_checksum {
            return Err(self.damaged(position, "the table does not match its checksum".into()));
        }
        Index::decode(&bytes, chunk_count).ok_or_else(|| {
            self.damaged(
                position,
                "the table has fields that this version does not know: a newer one wrote it".into(),
            )
        })
    }
}

/// All chunks of the segment, in order and without gaps between them.
pub(crate) fn read_table(file: &SegmentFile, segment: &Segment) -> Result<Vec<Chunk>, Fault> {
    Ok(read_index(file, segment)?.chunks)
}

/// The whole index of the segment: the runs are followed back from the end.
pub(crate) fn read_index(file: &SegmentFile, segment: &Segment) -> Result<Index, Fault> {
    let mut tables = Vec::new();
    let mut end = segment.end;
    while end > 0 {
        let trailer = file.trailer(end)?;
        if trailer.previous_end >= end {
            return Err(file.damaged(end, "a run cannot begin behind its end".into()));
        }
        let read = |position, length| file.read(position, length);
        tables.push(file.table(&trailer, end, read)?);
        end = trailer.previous_end;
    }
    let mut index = Index::default();
    for table in tables.into_iter().rev() {
        index.chunks.extend(table.chunks);
        index.aborted.extend(table.aborted);
    }
    let Index { chunks, aborted } = &mut index;
    let covers = chunks.first().is_some_and(|chunk| chunk.first >= segment.first)
        && chunks.last().is_some_and(|chunk| chunk.next == segment.next)
        && chunks
            .windows(2)
            .all(|pair| pair[0].next <= pair[1].first && pair[0].position < pair[1].position);
    if !covers {
        return Err(file.damaged(
            segment.end,
            format!(
                "the tables do not cover offsets {}..{}",
                segment.first, segment.next
            ),
        ));
    }
    let agrees = aborted.len() == segment.aborted as usize
        && aborted.is_sorted_by_key(|range| range.marker)
        && aborted.iter().all(|range| {
            (0..=range.marker).contains(&range.first)
                && (segment.first..segment.next).contains(&range.marker)
                && range.producer_id >= 0
        });
    if !agrees {
        let what = format!("the tables do not list {} aborted transactions", segment.aborted);
        return Err(file.damaged(segment.end, what));
    }
    if segment.sparse && !planted(Bug::GapsLeftInIndex) {
        close_gaps(chunks, segment.first);
    }
    Ok(index)
}

/// Has each chunk begin where the one before ends: a reader at an offset that compaction took finds what comes next, and
/// pieces of a segment follow each other, whatever is missing between them.
fn close_gaps(chunks: &mut [Chunk], segment_first: i64) {
    let mut next = segment_first;
    for chunk in chunks {
        chunk.first = next;
        next = chunk.next;
    }
}

/// Neighbouring chunks, at least one. Each is checked; adjacent ones are read in one go.
pub(crate) fn read_piece(file: &SegmentFile, chunks: &[Chunk]) -> Result<Piece, Fault> {
    let (mut stretches, mut read_bytes) = (Vec::new(), 0);
    let mut rest = chunks;
    while let Some(first) = rest.first() {
        let adjacent = 1 + rest
            .windows(2)
            .take_while(|pair| pair[0].position + u64::from(pair[0].length) == pair[1].position)
            .count();
        let (together, behind) = rest.split_at(adjacent);
        let length: usize = together.iter().map(|chunk| chunk.length as usize).sum();
        let bytes = file.read_data(first.position, length)?;
        for chunk in together {
            let start = (chunk.position - first.position) as usize;
            let content = bytes.slice(start..start + chunk.length as usize);
            file.take_batches(chunk, content, &mut stretches)?;
        }
        read_bytes += length;
        rest = behind;
    }
    let first = chunks.first().expect("a piece has a chunk").first;
    Ok(Piece::new(first, stretches, read_bytes))
}
