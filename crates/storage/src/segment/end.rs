//! Opens a segment to be gone on with, and checks that its end is whole before a run is appended behind it.
//!
//! A run points back to the end of the one before. Behind a damaged end sound records could be written and never found
//! again; whoever appends asks here first, and begins another segment if the answer is no. Blocks.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{BLOCK_BYTES, Disk};
use record::PartitionId;

use super::adopted::AdoptedFrames;
use super::table::{ENTRY_BYTES, TRAILER_BYTES, Trailer, TrailerError, decode_table};
use super::{Segment, SegmentFile, path};
use crate::checksum::JournalIdentity;
use crate::fault::{Doing, Fault};

/// Opens the file of a segment that the checkpoint or this process knows of, and with it the journal file that the
/// segment adopted, if it did.
///
/// # Errors
/// `Damaged` if it is missing, `Disk` for all else.
pub(crate) fn open_segment(
    disk: &Arc<dyn Disk>,
    journal: &JournalIdentity,
    partition: &PartitionId,
    segment: &Segment,
) -> Result<SegmentFile, Fault> {
    let relative = path(partition, segment.name());
    let name = disk.root().join(&relative).display().to_string();
    let adopted = segment
        .adopted
        .map(|file| AdoptedFrames::open(disk, journal, partition, &file).map(Arc::new));
    let adopted = adopted.transpose()?;
    match disk.open(&relative) {
        Ok(file) => Ok(SegmentFile {
            file,
            identity: segment.identity(journal.cluster, *partition),
            path: name,
            adopted,
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Fault::Damaged {
            file: name,
            position: 0,
            what: "the file is missing".into(),
        }),
        Err(error) => Err(Doing::Opening.failed(error).at(name)),
    }
}

/// Checks that the segment's last run ends where and as it should: its trailer, and the table that this points to. One
/// read of a block nearly always has both; the runs before it are not looked at.
///
/// # Errors
/// `Damaged`, `UnknownVersion`, or the disk's.
pub(crate) fn verify_end(file: &SegmentFile, segment: &Segment) -> Result<(), Fault> {
    let damaged = |position, what: &str| Fault::Damaged {
        file: file.path.clone(),
        position,
        what: what.to_string(),
    };
    let begin = segment.end.checked_sub(BLOCK_BYTES as u64);
    let begin = begin.ok_or_else(|| damaged(segment.end, "no run can end here"))?;
    let block = read(file, begin, BLOCK_BYTES)?;
    let trailer_at = segment.end - TRAILER_BYTES as u64;
    let trailer = Trailer::decode(&block[BLOCK_BYTES - TRAILER_BYTES..], &file.identity, segment.end)
        .map_err(|error| match error {
            TrailerError::Damaged => damaged(trailer_at, "the run's trailer does not match its checksum"),
            TrailerError::UnknownVersion(version) => Fault::UnknownVersion {
                file: file.path.clone(),
                version,
            },
        })?;
    let at = trailer.table_position;
    let length = trailer.chunk_count as usize * ENTRY_BYTES;
    if at.checked_add(length as u64).is_none_or(|end| end > trailer_at) {
        return Err(damaged(at, "the table does not fit before its trailer"));
    }
    let table = match at.checked_sub(begin) {
        Some(start) => block.slice(start as usize..start as usize + length),
        None => read(file, at, length)?,
    };
    if file.identity.checksum(at, &table) != trailer.table_checksum {
        return Err(damaged(at, "the table does not match its checksum"));
    }
    let next = decode_table(&table).last().map(|chunk| chunk.next);
    if next != Some(segment.next) || trailer.previous_end >= segment.end {
        return Err(damaged(trailer_at, "another run ends here than was recorded"));
    }
    Ok(())
}

fn read(file: &SegmentFile, position: u64, length: usize) -> Result<Bytes, Fault> {
    file.file
        .read(position, length)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Fault::Damaged {
                file: file.path.clone(),
                position,
                what: "the file ends too early".into(),
            },
            _ => Doing::Reading.failed(error).at(&file.path),
        })
}
