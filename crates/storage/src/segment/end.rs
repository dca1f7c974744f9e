//! Opens a segment to be gone on with, and checks that its end is whole before a run is appended behind it.
//!
//! A run points back to the end of the one before. Behind a damaged end sound records could be written and never found
//! again; whoever appends asks here first, and begins another segment if the answer is no. Blocks.

use std::io;
use std::sync::Arc;

use platform::disk::{BLOCK_BYTES, Disk};
use record::PartitionId;

use super::adopted::AdoptedFrames;
use super::table::TRAILER_BYTES;
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
            patient: false,
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
    let end = segment.end;
    let begin = end.checked_sub(BLOCK_BYTES as u64);
    let begin = begin.ok_or_else(|| file.damaged(end, "no run can end here".into()))?;
    let block = file.read(begin, BLOCK_BYTES)?;
    let trailer = file.trailer_in(&block[BLOCK_BYTES - TRAILER_BYTES..], end)?;
    let table = file.table(&trailer, end, |position, length| {
        match position.checked_sub(begin) {
            Some(start) => Ok(block.slice(start as usize..start as usize + length)),
            None => file.read(position, length),
        }
    })?;
    let next = table.chunks.last().map(|chunk| chunk.next);
    if next != Some(segment.next) || trailer.previous_end >= end {
        let trailer_at = end - TRAILER_BYTES as u64;
        let what = "another run ends here than was recorded";
        return Err(file.damaged(trailer_at, what.into()));
    }
    Ok(())
}
