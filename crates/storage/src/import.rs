//! A segment's file on its way here from another node: written as it comes, then checked whole before it may count.
//!
//! Checksums of a segment do not name the node, so the bytes stay as they are. They are a peer's all the same: everything that the
//! store relies on is looked at here, and what is refused leaves nothing behind. A file in `imports/NNN` says that an import was
//! begun, until a checkpoint names the segment: the next start removes what was not ended. Blocks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use planted::{Bug, planted};
use platform::disk::{BLOCK_BYTES, Disk};
use record::{BatchHeader, Epoch, Offset, PartitionId};

use crate::checkpoint::OFFSET_MAX;
use crate::checksum::JournalIdentity;
use crate::fault::{Doing, Fault};
use crate::segment::{
    Chunk, PARTITIONS, RECORDS_UNKNOWN, Segment, SegmentFile, SegmentName, check_chunk, directory, path,
    read_piece, read_table,
};
use crate::slab::Slab;

/// The directory with a directory for each journal's imports.
const IMPORTS: &str = "imports";
/// Far more than any segment has.
const SEGMENT_BYTES_MAX: u64 = 1 << 40;

/// A complete segment as one node offers it to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentOffer {
    /// The first offset.
    pub first: Offset,
    /// The offset after the last one.
    pub next: Offset,
    /// The file's bytes that count: whole blocks.
    pub bytes: u64,
    /// The number of its compactions.
    pub generation: u32,
    /// Offsets may be missing in it.
    pub sparse: bool,
    /// The number of transactions that its index lists as aborted.
    pub aborted: u32,
    /// The greatest timestamp in it.
    pub max_timestamp_ms: i64,
    /// Wall time when it was begun.
    pub created_ms: i64,
}

impl SegmentOffer {
    pub(crate) fn of(segment: &Segment) -> SegmentOffer {
        SegmentOffer {
            first: Offset(segment.first),
            next: Offset(segment.next),
            bytes: segment.end,
            generation: segment.generation,
            sparse: segment.sparse,
            aborted: segment.aborted,
            max_timestamp_ms: segment.max_timestamp_ms,
            created_ms: segment.created_ms,
        }
    }

    /// The segment that it says there is, or why there can be none like that.
    pub(crate) fn segment(&self) -> Result<Segment, &'static str> {
        let (first, next, bytes) = (self.first.0, self.next.0, self.bytes);
        if first < 0 || next <= first || next > OFFSET_MAX {
            return Err("it has no offsets that can be");
        }
        if bytes == 0 || bytes > SEGMENT_BYTES_MAX || !bytes.is_multiple_of(BLOCK_BYTES as u64) {
            return Err("no file of a segment has this size");
        }
        Ok(Segment {
            first,
            next,
            end: bytes,
            generation: self.generation,
            sparse: self.sparse,
            aborted: self.aborted,
            max_timestamp_ms: self.max_timestamp_ms,
            created_ms: self.created_ms,
            sealed: true,
            adopted: None,
        })
    }
}

/// Why a segment is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Open the partition first; or it was deleted.
    #[error("{0} is not known here")]
    UnknownPartition(PartitionId),
    /// Another one goes on where the log ends, or none.
    #[error("the segment begins at offset {first}, and {id} ends at {next}")]
    Elsewhere {
        /// The partition.
        id: PartitionId,
        /// Where the segment begins.
        first: Offset,
        /// Where the log ends.
        next: Offset,
    },
    /// Try again after a round of layout and its checkpoint.
    #[error("the journal still has entries of {0} that no checkpoint covers")]
    InJournal(PartitionId),
    /// Wait until it has ended.
    #[error("another segment of {0} is being imported")]
    UnderWay(PartitionId),
    /// The peer's offer contradicts itself.
    #[error("the offer is of no segment: {0}")]
    NoSegment(&'static str),
    /// The peer sent other bytes than it offered.
    #[error("{bytes} bytes at byte {position} are no part of a segment of {end} bytes")]
    NoPiece {
        /// Where they would stand.
        position: u64,
        /// Their number.
        bytes: usize,
        /// The size that was offered.
        end: u64,
    },
    /// The file is damaged, another one, or of another version; or the disk failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A segment that is being received. If it is dropped before its end, what was written stays until the next start; `abandon`
/// removes it.
pub struct Import {
    disk: Arc<dyn Disk>,
    journal: JournalIdentity,
    partition: PartitionId,
    segment: Segment,
    writer_before: Option<Epoch>,
    /// None until something has come.
    file: Option<SegmentFile>,
    received: u64,
    /// Closes the log to others.
    _held: Arc<()>,
}

/// A segment's file that is whole, sound and durable, for [`crate::Store::imported`].
pub struct ImportedFile {
    import: Import,
    last_writer: Epoch,
}

impl ImportedFile {
    /// The epoch of its last record.
    pub fn last_writer(&self) -> Epoch {
        self.last_writer
    }

    pub(crate) fn partition(&self) -> PartitionId {
        self.import.partition
    }

    pub(crate) fn segment(&self) -> Segment {
        self.import.segment
    }
}

impl Import {
    pub(crate) fn new(
        (disk, journal, partition): (Arc<dyn Disk>, JournalIdentity, PartitionId),
        segment: Segment,
        writer_before: Option<Epoch>,
        held: Arc<()>,
    ) -> Import {
        Import {
            disk,
            journal,
            partition,
            segment,
            writer_before,
            file: None,
            received: 0,
            _held: held,
        }
    }

    /// Bytes received so far: the next piece begins there.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Writes the next piece of the file: whole blocks. Blocks.
    ///
    /// # Errors
    /// `NoPiece`, or the disk's; then only `abandon` is left to be done.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), ImportError> {
        let end = self.received.saturating_add(piece.len() as u64);
        if piece.is_empty() || !piece.len().is_multiple_of(BLOCK_BYTES) || end > self.segment.end {
            return Err(ImportError::NoPiece {
                position: self.received,
                bytes: piece.len(),
                end: self.segment.end,
            });
        }
        if self.file.is_none() {
            self.file = Some(self.create()?);
        }
        let file = self.file.as_ref().expect("just created");
        let mut aligned = Slab::new(piece.len());
        aligned.append(piece);
        let written = file.file.write(self.received, &aligned.cut_frame());
        written.map_err(|error| Doing::Writing.failed(error).at(&file.path))?;
        self.received = end;
        Ok(())
    }

    /// Checks everything that was received, and makes it durable. Blocks.
    ///
    /// # Errors
    /// Its fault, or the disk's; it is removed then.
    pub fn finish(self) -> Result<ImportedFile, ImportError> {
        match self.settle() {
            Ok(last_writer) => Ok(ImportedFile {
                import: self,
                last_writer,
            }),
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    fn settle(&self) -> Result<Epoch, ImportError> {
        let Some(file) = self.file.as_ref().filter(|_| self.received == self.segment.end) else {
            return Err(ImportError::NoPiece {
                position: self.received,
                bytes: 0,
                end: self.segment.end,
            });
        };
        let last_writer = self.check(file)?;
        if !planted(Bug::ImportNotSynced) {
            let synced = file.file.sync();
            synced.map_err(|error| Doing::Syncing.failed(error).at(&file.path))?;
        }
        if !planted(Bug::NamesNotSynced) {
            let synced = self.disk.sync_directory(&directory(&self.partition));
            synced.map_err(|error| Doing::Syncing.failed(error).at(&file.path))?;
        }
        Ok(last_writer)
    }

    /// Looks through every chunk and batch. Returns the last writer.
    fn check(&self, file: &SegmentFile) -> Result<Epoch, Fault> {
        let segment = &self.segment;
        let (mut next, mut newest, mut writer) = (segment.first, i64::MIN, self.writer_before);
        for chunk in read_table(file, segment)? {
            let content = read_piece(file, &[chunk])?.to_vec();
            check_batches(&chunk, next, segment.sparse, &content, &mut writer)
                .map_err(|what| file.damaged(chunk.position, what))?;
            next = chunk.next;
            newest = newest.max(chunk.max_timestamp_ms);
        }
        if newest != segment.max_timestamp_ms {
            let what = format!(
                "its greatest time is {newest}, not {} as was offered",
                segment.max_timestamp_ms
            );
            return Err(file.damaged(segment.end, what));
        }
        writer.ok_or_else(|| file.damaged(segment.end, "it has no batch".into()))
    }

    /// Removes what was written. What cannot be removed now goes at the next start.
    pub fn abandon(self) {
        let removed = remove(
            &self.disk,
            &path(&self.partition, self.segment.name()),
            &self.marker(),
        );
        if let Err(error) = removed {
            tracing::warn!(%error, partition = %self.partition, "a segment that was not imported is left until the next start");
        }
    }

    fn marker(&self) -> PathBuf {
        marker(&self.journal, &self.partition, self.segment.name())
    }

    /// Creates the file, behind the marker that has the next start remove it.
    fn create(&self) -> Result<SegmentFile, Fault> {
        let relative = path(&self.partition, self.segment.name());
        let name = self.disk.root().join(&relative).display().to_string();
        let created = self.mark().and_then(|()| self.create_at(&relative));
        let file = created.map_err(|error| Doing::Creating.failed(error).at(&name))?;
        Ok(SegmentFile {
            file,
            identity: self.segment.identity(self.journal.cluster, self.partition),
            path: name,
            adopted: None,
            patient: true,
        })
    }

    fn mark(&self) -> io::Result<()> {
        let directory = markers(&self.journal);
        self.disk.create_directory(&directory)?;
        for parent in ["", IMPORTS] {
            self.disk.sync_directory(Path::new(parent))?;
        }
        match self.disk.create(&self.marker()) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.disk.sync_directory(&directory)
    }

    fn create_at(&self, relative: &Path) -> io::Result<Arc<dyn platform::disk::File>> {
        self.disk.create_directory(&directory(&self.partition))?;
        if !planted(Bug::NamesNotSynced) {
            self.disk.sync_directory(Path::new(PARTITIONS))?;
        }
        // Nothing refers to a file that stands where the log is to go on.
        self.disk.remove(relative)?;
        self.disk.create(relative)
    }
}

/// Checks the batches of a chunk; `writer` is the epoch of the record before them, and then of their last.
fn check_batches(
    chunk: &Chunk,
    next: i64,
    gaps: bool,
    content: &[u8],
    writer: &mut Option<Epoch>,
) -> Result<(), String> {
    let mut records = 0u32;
    check_chunk(chunk, next, gaps, content, |header: &BatchHeader| {
        let epoch = header.leader_epoch;
        if epoch < Epoch(0) || writer.is_some_and(|before| epoch < before) {
            return Err(format!(
                "the batch at offset {} has epoch {}, and the one before it {}",
                header.base_offset,
                epoch.0,
                writer.map_or(-1, |before| before.0)
            ));
        }
        *writer = Some(epoch);
        records = records.saturating_add(u32::try_from(header.record_count).unwrap_or(RECORDS_UNKNOWN));
        Ok(())
    })?;
    match chunk.records == RECORDS_UNKNOWN || chunk.records == records {
        true => Ok(()),
        false => Err(format!(
            "a chunk of {} records is said to have {}",
            records, chunk.records
        )),
    }
}

/// The directory of a journal's markers.
fn markers(journal: &JournalIdentity) -> PathBuf {
    PathBuf::from(format!("{IMPORTS}/{:03}", journal.journal))
}

/// The file that says that this segment's import was begun.
pub(crate) fn marker(journal: &JournalIdentity, partition: &PartitionId, name: SegmentName) -> PathBuf {
    markers(journal).join(format!("{partition}.{name}"))
}

/// Removes the segments whose imports were not ended, at a start: those that are marked and that the checkpoint does not name. What
/// cannot be removed is left to the next one.
pub(crate) fn remove_unfinished<'a>(
    disk: &Arc<dyn Disk>,
    journal: &JournalIdentity,
    segments: impl Iterator<Item = (&'a PartitionId, SegmentName)>,
) {
    let directory = markers(journal);
    let marked = match disk.list(&directory) {
        Ok(marked) if marked.is_empty() => return,
        Ok(marked) => marked,
        Err(error) => {
            let directory = disk.root().join(&directory);
            tracing::warn!(%error, directory = %directory.display(), "imports that were not ended are left until the next start");
            return;
        }
    };
    let known: Vec<PathBuf> = segments.map(|(id, name)| marker(journal, id, name)).collect();
    for name in marked {
        let marker = directory.join(&name);
        let removed = match name.split_once('.') {
            Some((partition, segment)) if !known.contains(&marker) => remove(
                disk,
                &Path::new(PARTITIONS).join(partition).join(segment),
                &marker,
            ),
            _ => disk.remove(&marker),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, import = name, "an import that was not ended is left until the next start");
        }
    }
}

/// Removes a segment's file for good, then its marker.
fn remove(disk: &Arc<dyn Disk>, segment: &Path, marker: &Path) -> io::Result<()> {
    disk.remove(segment)?;
    let directory = segment.parent().expect("a segment is in a directory");
    match disk.sync_directory(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    disk.remove(marker)
}
