//! The part of a read that waits for the disk: a job that owns all it needs, runs anywhere, and brings back what it checked.

use std::sync::Arc;

use bytes::Bytes;
use platform::disk::Disk;

use super::pieces::choose_chunks;
use super::read::Wanted;
use super::returning::Lease;
use crate::checksum::JournalIdentity;
use crate::fault::Fault;
use crate::journal::{FrameBatches, RereadError};
use crate::segment::{
    Piece, Segment, SegmentFile, SegmentName, Table, open_segment, pieces_of, read_piece, read_table,
};

/// A read that needs the disk.
pub struct ReadJob {
    pub(super) wanted: Wanted,
    source: Source,
}

pub(super) enum Source {
    Journal {
        frames: Vec<FrameBatches>,
        identity: JournalIdentity,
        /// More of what is wanted is behind these frames.
        stopped_short: bool,
    },
    Segment(Box<SegmentSource>),
}

pub(super) struct SegmentSource {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) segment: Segment,
    pub(super) journal: JournalIdentity,
    pub(super) file: Option<SegmentFile>,
    pub(super) table: Option<Table>,
    /// Read pieces to their ends.
    pub(super) whole_pieces: bool,
    /// Until the job has read, or is dropped.
    pub(super) _lease: Lease,
}

/// The result of a job, for `finish_read` or `finish_read_ahead`.
pub struct ReadOutcome {
    pub(super) wanted: Wanted,
    /// The pieces that it read, if not the journal.
    pub(super) segment: Option<SegmentName>,
    pub(super) result: Result<Loaded, Failed>,
}

pub(super) enum Loaded {
    Journal {
        batches: Vec<Bytes>,
        stopped_short: bool,
    },
    Segment {
        segment: SegmentName,
        file: SegmentFile,
        table: Table,
        pieces: Vec<Piece>,
    },
}

pub(super) enum Failed {
    Fault(Fault),
    /// A journal file was reused while the job ran, and what it held is in a segment now; or it is damaged, or the disk failed.
    Reread(RereadError),
}

impl ReadJob {
    pub(super) fn new(wanted: Wanted, source: Source) -> ReadJob {
        ReadJob { wanted, source }
    }

    /// The same, but to the end of a piece.
    pub(super) fn of_whole_pieces(mut self) -> ReadJob {
        if let Source::Segment(source) = &mut self.source {
            source.whole_pieces = true;
        }
        self
    }

    /// About how much it brings, in bytes.
    pub fn bytes(&self) -> usize {
        self.wanted.bytes_max
    }

    /// Does the reading; blocks.
    pub fn run(self) -> ReadOutcome {
        let (segment, result) = match &self.source {
            Source::Journal {
                frames,
                identity,
                stopped_short,
            } => (None, read_frames(frames, identity, *stopped_short)),
            Source::Segment(source) => {
                let loaded = source.load(&self.wanted).map_err(Failed::Fault);
                (Some(source.segment.name()), loaded)
            }
        };
        ReadOutcome {
            wanted: self.wanted,
            segment,
            result,
        }
    }
}

fn read_frames(
    frames: &[FrameBatches],
    identity: &JournalIdentity,
    stopped_short: bool,
) -> Result<Loaded, Failed> {
    let batches = FrameBatches::read_all(frames, identity).map_err(Failed::Reread)?;
    Ok(Loaded::Journal {
        batches,
        stopped_short,
    })
}

impl SegmentSource {
    fn load(&self, wanted: &Wanted) -> Result<Loaded, Fault> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => open_segment(&self.disk, &self.journal, &wanted.partition, &self.segment)?,
        };
        let table = match &self.table {
            Some(table) => table.clone(),
            None => Arc::new(read_table(&file, &self.segment)?),
        };
        let chosen = choose_chunks(&table, wanted, self.whole_pieces);
        let pieces = pieces_of(chosen)
            .map(|chunks| read_piece(&file, chunks))
            .collect::<Result<_, _>>()?;
        Ok(Loaded::Segment {
            segment: self.segment.name(),
            file,
            table,
            pieces,
        })
    }
}
