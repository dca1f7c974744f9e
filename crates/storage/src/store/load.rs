//! The part of a read that waits for the disk: a job that owns all it needs, runs anywhere, and brings back what it checked.

use std::sync::Arc;

use bytes::Bytes;
use platform::disk::Disk;

use super::pieces::choose_chunks;
use super::read::Wanted;
use super::returning::Lease;
use crate::checksum::JournalIdentity;
use crate::damage::{Damage, Lost};
use crate::fault::Fault;
use crate::journal::{FrameBatches, RereadError};
use crate::segment::{
    Chunk, Piece, Segment, SegmentFile, SegmentName, Table, open_segment, pieces_of, read_piece, read_table,
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
    /// A part of a segment is damaged.
    Damaged(Box<Damage>),
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
                let loaded = source.load(&self.wanted);
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
    /// Reads what is wanted, up to the first damage that lies behind some of it.
    fn load(&self, wanted: &Wanted) -> Result<Loaded, Failed> {
        let (file, table) = self
            .open(wanted)
            .map_err(|fault| self.failed(wanted, None, fault))?;
        let chosen = choose_chunks(&table, wanted, self.whole_pieces);
        let mut pieces = Vec::new();
        for chunks in pieces_of(chosen) {
            let failed = match read_piece(&file, chunks) {
                Ok(piece) => {
                    pieces.push(piece);
                    continue;
                }
                Err(fault) => fault,
            };
            let (sound, damaged) = self.load_up_to_damage(&file, chunks);
            let is_sound = sound.is_some();
            pieces.extend(sound);
            match damaged {
                Some((chunk, fault)) if pieces.is_empty() => {
                    return Err(self.failed(wanted, Some(chunk), fault));
                }
                Some(_) => break,
                // The second time it could be read.
                None if is_sound => {}
                None => return Err(Failed::Fault(failed)),
            }
        }
        Ok(Loaded::Segment {
            segment: self.segment.name(),
            file,
            table,
            pieces,
        })
    }

    fn open(&self, wanted: &Wanted) -> Result<(SegmentFile, Table), Fault> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => open_segment(&self.disk, &self.journal, &wanted.partition, &self.segment)?,
        };
        let table = match &self.table {
            Some(table) => table.clone(),
            None => Arc::new(read_table(&file, &self.segment)?),
        };
        Ok((file, table))
    }

    /// The chunks of a piece before the first damaged one, if there are any; and that one.
    fn load_up_to_damage(
        &self,
        file: &SegmentFile,
        chunks: &[Chunk],
    ) -> (Option<Piece>, Option<(Chunk, Fault)>) {
        let failed = |(at, chunk): (usize, &Chunk)| {
            let fault = read_piece(file, std::slice::from_ref(chunk)).err()?;
            Some((at, *chunk, fault))
        };
        let damaged = chunks.iter().enumerate().find_map(failed);
        let sound = &chunks[..damaged.as_ref().map_or(chunks.len(), |(at, ..)| *at)];
        let piece = (!sound.is_empty()).then(|| read_piece(file, sound).ok());
        (piece.flatten(), damaged.map(|(_, chunk, fault)| (chunk, fault)))
    }

    fn failed(&self, wanted: &Wanted, chunk: Option<Chunk>, fault: Fault) -> Failed {
        let lost = Lost {
            partition: wanted.partition,
            segment: self.segment,
            identity: self.segment.identity(self.journal.cluster, wanted.partition),
            chunk,
        };
        match Damage::of(lost, fault) {
            Ok(damage) => Failed::Damaged(Box::new(damage)),
            Err(fault) => Failed::Fault(fault),
        }
    }
}
