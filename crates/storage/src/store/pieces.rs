//! Pieces of segments: what jobs loaded is kept in the caches, and batches are cut out of it.
//!
//! An answer shares a piece's memory. Of a piece that it takes little of it takes a copy: else a reader who is slow to take
//! a few bytes would keep far more in memory than is counted for it.

use bytes::Bytes;
use record::BatchHeader;

use super::Store;
use super::caches::{PieceKey, SegmentKey};
use super::read::Wanted;
use crate::segment::{Chunk, PIECE_BYTES, Piece, Segment, SegmentFile, Table};

/// Of a piece, or of memory with frames in it, at least this part is shared; less is copied.
pub(super) const SHARED_PART: usize = 2;

/// The piece of a segment that holds `offset`, if its index says that one does.
pub(super) fn piece_key((partition, segment): SegmentKey, table: &[Chunk], offset: i64) -> Option<PieceKey> {
    let chunk = table.get(table.partition_point(|chunk| chunk.next <= offset))?;
    Some((partition, segment, chunk.position / PIECE_BYTES))
}

/// The neighbouring chunks that a read wants: the one with its first offset, and as many more as it may take. Or whole
/// pieces, from there to the end of the one that fills its measure.
pub(super) fn choose_chunks<'a>(table: &'a [Chunk], wanted: &Wanted, whole_pieces: bool) -> &'a [Chunk] {
    if wanted.bytes_max == 0 {
        return &[];
    }
    let first = table.partition_point(|chunk| chunk.next <= wanted.from);
    let (mut bytes, mut number) = (0, None);
    let chosen = table[first..].iter().enumerate().take_while(|(index, chunk)| {
        let bytes_before = bytes;
        bytes += chunk.length as usize;
        let number_before = number.replace(chunk.position / PIECE_BYTES);
        match whole_pieces {
            true => bytes_before < wanted.bytes_max || number == number_before,
            false => *index == 0 || (bytes <= wanted.bytes_max && chunk.first < wanted.until),
        }
    });
    let count = chosen.count();
    &table[first..first + count]
}

/// Says whether a cached index reaches the segment's end: it may have been loaded before the last run was appended.
pub(super) fn covers(table: &Table, segment: &Segment) -> bool {
    table.last().is_some_and(|chunk| chunk.next == segment.next)
}

impl Store {
    /// Caches what a job loaded of a segment.
    pub(super) fn keep_loaded(
        &mut self,
        segment: SegmentKey,
        file: SegmentFile,
        table: Table,
        pieces: Vec<Piece>,
    ) {
        // An open file that was removed would take its space for as long as the handle is cached.
        if !self.has_segment(segment) {
            return;
        }
        for piece in pieces {
            let Some(key) = piece_key(segment, &table, piece.next() - 1) else {
                continue;
            };
            // A part of it may be here already, from a read that needed no more.
            let joined = self
                .caches
                .pieces
                .peek(&key)
                .and_then(|before| before.join(&piece));
            self.caches.pieces.insert(key, joined.unwrap_or(piece));
        }
        self.caches.files.insert(segment, file);
        self.caches.tables.insert(segment, table);
    }

    /// Says whether the segment is still its partition's.
    pub(super) fn has_segment(&self, (partition, name): SegmentKey) -> bool {
        let log = self.partitions.get(&partition);
        log.is_some_and(|log| log.has_segment(name))
    }
}

/// The batches of a read, cut out of one piece after the other. Pieces hold whole batches, whose headers were checked.
pub(super) struct Cut<'a> {
    wanted: &'a Wanted,
    next: i64,
    bytes: usize,
    batches: Vec<Bytes>,
    /// The reader has enough.
    is_full: bool,
}

impl<'a> Cut<'a> {
    /// Nothing yet.
    pub(super) fn new(wanted: &'a Wanted) -> Cut<'a> {
        Cut {
            wanted,
            next: wanted.from,
            bytes: 0,
            batches: Vec::new(),
            is_full: false,
        }
    }

    /// The offset behind what was found.
    pub(super) fn next(&self) -> i64 {
        self.next
    }

    /// Says whether more is wanted than was found.
    pub(super) fn stopped_short(&self) -> bool {
        !self.is_full
    }

    pub(super) fn into_batches(self) -> Vec<Bytes> {
        self.batches
    }

    /// Cuts what is wanted out of a piece that holds `next`; false if no more is wanted than was found.
    pub(super) fn take(&mut self, piece: &Piece) -> bool {
        let (shared_before, bytes_before) = (self.batches.len(), self.bytes);
        for stretch in piece.stretches_from(self.next) {
            self.take_stretch(&stretch.content);
            if self.is_full {
                break;
            }
        }
        let taken = self.bytes - bytes_before;
        if taken > 0 && taken < piece.held_bytes() / SHARED_PART {
            let copied = self.batches.drain(shared_before..).collect::<Vec<_>>().concat();
            self.batches.push(copied.into());
        }
        !self.is_full
    }

    fn take_stretch(&mut self, content: &Bytes) {
        let (mut start, mut at) = (None, 0);
        while let Ok(header) = BatchHeader::read(&content[at..]) {
            let next = header.next_offset().0;
            if next > self.wanted.from {
                let fits = self.bytes == 0 || self.bytes + header.length_bytes <= self.wanted.bytes_max;
                if next > self.wanted.until || !fits {
                    self.is_full = true;
                    break;
                }
                self.bytes += header.length_bytes;
                self.next = next;
                start.get_or_insert(at);
            }
            at += header.length_bytes;
        }
        if let Some(start) = start {
            self.batches.push(content.slice(start..at));
        }
        self.is_full |= self.next >= self.wanted.until;
    }
}
