//! Pieces of a segment in memory: what one read of the disk brought, checked, and what the chunk cache holds.
//!
//! A piece consists of neighbouring chunks of one stretch of the file, and never of more than a read asked for. It is cached
//! and let go as a whole: what is cut from it is shared, not copied, so a part that stayed would keep all of it in memory.

use bytes::Bytes;

use super::table::{CHUNK_BYTES, Chunk};

/// Chunks whose first bytes are in the same so many bytes of the file belong to one piece.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;
/// Batches that are smaller than this on average are put together: each by itself would cost more than its copy.
const STRETCH_BYTES_MIN: usize = 4 << 10;

/// Neighbouring chunks, piece by piece.
pub(crate) fn pieces_of(chunks: &[Chunk]) -> impl Iterator<Item = &[Chunk]> {
    chunks.chunk_by(|one, next| one.position / PIECE_BYTES == next.position / PIECE_BYTES)
}

/// Whole batches, one behind the other in memory, and the offset after the last of them.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub(crate) next: i64,
    pub(crate) content: Bytes,
}

/// See the module. Batches of offsets `[first, next)`.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    first: i64,
    stretches: Vec<Stretch>,
    held_bytes: usize,
}

impl Piece {
    /// The batches from `first` on, cut out of reads of `read_bytes` bytes.
    pub(super) fn new(first: i64, stretches: Vec<Stretch>, read_bytes: usize) -> Piece {
        let useful_bytes: usize = stretches.iter().map(|stretch| stretch.content.len()).sum();
        let small = useful_bytes < stretches.len() * STRETCH_BYTES_MIN;
        match small || useful_bytes * 2 < read_bytes {
            true => Piece {
                first,
                stretches: put_together(&stretches, useful_bytes),
                held_bytes: useful_bytes,
            },
            false => Piece {
                first,
                stretches,
                held_bytes: read_bytes,
            },
        }
    }

    /// The offset after the last one.
    pub(crate) fn next(&self) -> i64 {
        self.stretches.last().map_or(self.first, |last| last.next)
    }

    /// Says whether the batch with `offset` is here.
    pub(crate) fn holds(&self, offset: i64) -> bool {
        (self.first..self.next()).contains(&offset)
    }

    /// The batches from the one that holds `offset` on, perhaps with some before it.
    pub(crate) fn stretches_from(&self, offset: i64) -> &[Stretch] {
        let first = self.stretches.partition_point(|stretch| stretch.next <= offset);
        &self.stretches[first..]
    }

    /// Memory that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Both as one, if `other` goes on where this ends.
    pub(crate) fn join(&self, other: &Piece) -> Option<Piece> {
        (self.next() == other.first).then(|| Piece {
            first: self.first,
            stretches: [&*self.stretches, &*other.stretches].concat(),
            held_bytes: self.held_bytes + other.held_bytes,
        })
    }

    /// All batches, copied.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let contents: Vec<&[u8]> = self.stretches.iter().map(|stretch| &*stretch.content).collect();
        contents.concat()
    }
}

/// Copies the stretches into one memory of just their size, and makes few of them.
fn put_together(stretches: &[Stretch], useful_bytes: usize) -> Vec<Stretch> {
    let mut memory = Vec::with_capacity(useful_bytes);
    let mut ends: Vec<(i64, usize)> = Vec::new();
    let mut start = 0;
    for stretch in stretches {
        memory.extend_from_slice(&stretch.content);
        match ends.last_mut() {
            Some(last) if memory.len() - start <= CHUNK_BYTES => *last = (stretch.next, memory.len()),
            last => {
                start = last.map_or(0, |last| last.1);
                ends.push((stretch.next, memory.len()));
            }
        }
    }
    let memory = Bytes::from(memory);
    let mut start = 0;
    let cut = |(next, end)| {
        let content = memory.slice(start..end);
        start = end;
        Stretch { next, content }
    };
    ends.into_iter().map(cut).collect()
}
