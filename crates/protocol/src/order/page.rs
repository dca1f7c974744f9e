//! The pages of an order: the cuts that count, of all shards, one behind the other. A page tells of each of its positions which offset of which
//! partition it is.
//!
//! ```text
//!   version 1 · generation u32 · first u64 · partitions: count u32, each the offset that is next there i64 · runs: count u32, each partition and offsets
//! ```
//! The numbers of a run are of seven bits a byte, lowest first: a run mostly takes two or three bytes. Pages follow each other without a gap, and never
//! change.

use bytes::Bytes;
use planted::{Bug, planted};
use record::{Offset, Position};

use super::entry::{Generation, Open, POSITION_MAX, Run, possible, read_generation, write_generation};
use crate::encoding::{DecodeError, Reader, Writer};

const FORMAT: &str = "page of an order";
const VERSION: u8 = 1;
const OFFSET_BYTES: usize = 8;
/// The most bytes of a number in a run.
const NUMBER_BYTES_MAX: usize = 5;
/// The fewest bytes of a run.
const RUN_BYTES_MIN: usize = 2;

/// Some of an order: from its first position on, which runs have the next ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The generation of its cuts.
    pub generation: Generation,
    /// Its first position.
    pub first: Position,
    /// Of each partition the first offset that has no position below that. Partitions beyond began later, at offset 0.
    pub vector: Vec<Offset>,
    /// In the order of their positions. Each goes on where the partition's last one ended.
    pub runs: Vec<Run>,
}

/// Offsets of a partition that have positions one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The position of the first of them.
    pub position: Position,
    /// The partition's index.
    pub partition: i32,
    /// The first of them.
    pub first: Offset,
    /// The first that is not among them.
    pub next: Offset,
}

impl Place {
    /// The number of its positions.
    #[must_use]
    pub fn count(&self) -> u64 {
        (self.next.0 - self.first.0) as u64
    }

    /// The position of one of its offsets.
    #[must_use]
    pub fn position_of(&self, offset: Offset) -> Position {
        Position(self.position.0 + (offset.0 - self.first.0) as u64)
    }

    /// The position behind its last one.
    #[must_use]
    pub fn end(&self) -> Position {
        Position(self.position.0 + self.count())
    }
}

impl Page {
    /// A page with nothing on it yet, behind all that an opening says.
    #[must_use]
    pub fn behind(open: &Open) -> Page {
        Page {
            generation: open.generation,
            first: open.first,
            vector: open.vector.clone(),
            runs: Vec::new(),
        }
    }

    /// The number of its positions.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.offsets)).sum()
    }

    /// The order behind it.
    #[must_use]
    pub fn end(&self) -> Open {
        let mut vector = self.vector.clone();
        for run in &self.runs {
            let next = next_of(&mut vector, run.partition);
            *next = next.advance(i64::from(run.offsets));
        }
        Open {
            generation: self.generation,
            first: Position(self.first.0 + self.count()),
            vector,
        }
    }

    /// The offsets that have the positions from one on, to the end of the page. None if it is not on the page.
    pub fn places(&self, from: Position) -> impl Iterator<Item = Place> + '_ {
        let mut vector = self.vector.clone();
        let mut position = self.first;
        let places = self.runs.iter().map(move |run| {
            let next = next_of(&mut vector, run.partition);
            let place = Place {
                position,
                partition: run.partition,
                first: *next,
                next: next.advance(i64::from(run.offsets)),
            };
            *next = place.next;
            position = place.end();
            place
        });
        let places = places.skip_while(move |place| place.end() <= from);
        let is_here = self.first <= from;
        places.take_while(move |_| is_here).map(move |mut place| {
            let before = from.0.saturating_sub(place.position.0);
            place.position = Position(place.position.0 + before);
            place.first = place.first.advance(before as i64);
            place
        })
    }

    /// Of each partition the first offset that has no position below this one, which is on the page or right behind it.
    #[must_use]
    pub fn vector_at(&self, position: Position) -> Vec<Offset> {
        let mut vector = self.vector.clone();
        let mut left = position.0.saturating_sub(self.first.0);
        for run in &self.runs {
            let taken = left.min(u64::from(run.offsets));
            let next = next_of(&mut vector, run.partition);
            *next = next.advance(taken as i64);
            left -= taken;
            if left == 0 {
                break;
            }
        }
        if planted(Bug::VectorOffByOne)
            && let Some(next) = vector.first_mut()
        {
            *next = next.advance(1);
        }
        vector
    }

    /// The page as bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::open(VERSION);
        write_generation(&mut writer, self.generation);
        writer.u64(self.first.0);
        writer.count(self.vector.len());
        self.vector.iter().for_each(|next| writer.i64(next.0));
        writer.count(self.runs.len());
        for run in &self.runs {
            write_number(&mut writer, run.partition.unsigned_abs());
            write_number(&mut writer, run.offsets);
        }
        writer.close()
    }

    /// Reads a page of a topic that has so many partitions.
    ///
    /// # Errors
    /// The bytes are no page, or of an unknown version; or positions, offsets or partitions cannot be.
    pub fn decode(bytes: &[u8], partitions: usize) -> Result<Page, DecodeError> {
        let mut reader = Reader::open_only(bytes, FORMAT, VERSION)?;
        let generation = read_generation(&mut reader)?;
        let first = reader.u64("first position")?;
        let count = reader.count("partitions", OFFSET_BYTES)?;
        possible(count <= partitions, "partitions")?;
        let mut vector = Vec::with_capacity(count);
        let mut below = 0_i128;
        for _ in 0..count {
            let next = reader.i64("next offset")?;
            possible(next >= 0, "next offset")?;
            below += i128::from(next);
            vector.push(Offset(next));
        }
        possible(below == i128::from(first), "first position")?;
        let count = reader.count("runs", RUN_BYTES_MIN)?;
        let mut runs = Vec::with_capacity(count);
        let mut next = first;
        for _ in 0..count {
            let partition = read_number(&mut reader, "partition of a run")?;
            let offsets = read_number(&mut reader, "offsets of a run")?;
            next = next.saturating_add(u64::from(offsets));
            let is_there = (partition as usize) < partitions && partition <= i32::MAX as u32;
            possible(is_there && offsets > 0 && next <= POSITION_MAX, "run")?;
            runs.push(Run {
                partition: partition as i32,
                offsets,
            });
        }
        possible(!runs.is_empty(), "page")?;
        reader.close()?;
        Ok(Page {
            generation,
            first: Position(first),
            vector,
            runs,
        })
    }
}

/// The next offset of a partition, which may be one that began later.
fn next_of(vector: &mut Vec<Offset>, partition: i32) -> &mut Offset {
    let place = usize::try_from(partition).expect("no index is below 0");
    if vector.len() <= place {
        vector.resize(place + 1, Offset::ZERO);
    }
    &mut vector[place]
}

fn write_number(writer: &mut Writer, mut number: u32) {
    while number >= 0x80 {
        writer.u8(number as u8 | 0x80);
        number >>= 7;
    }
    writer.u8(number as u8);
}

fn read_number(reader: &mut Reader<'_>, field: &'static str) -> Result<u32, DecodeError> {
    let mut number = 0_u64;
    for place in 0..NUMBER_BYTES_MAX {
        let byte = reader.u8(field)?;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            let is_shortest = byte > 0 || place == 0;
            let read = u32::try_from(number).ok().filter(|_| is_shortest);
            return read.ok_or(DecodeError::Impossible { field });
        }
    }
    Err(DecodeError::Impossible { field })
}
