//! The entries of a topic's order, as bytes. One tells of one cut, or opens a generation.
//!
//! ```text
//!   version 1 · kind u8 · generation u32 · base u64 · ordered u64 · runs: count u32, each partition i32 · offsets u32      a cut
//!   version 1 · kind u8 · generation u32 · first u64 · vector: count u32, each the next offset of a partition i64          an opening
//! ```

use bytes::Bytes;
use record::{Offset, Position};

use crate::encoding::{DecodeError, Reader, Writer};

const FORMAT: &str = "entry of an order";
const VERSION: u8 = 1;
const CUT: u8 = 1;
const OPEN: u8 = 2;
const RUN_BYTES: usize = 8;
const OFFSET_BYTES: usize = 8;
/// Positions are offsets to clients that read in their order.
pub(super) const POSITION_MAX: u64 = i64::MAX as u64;

/// The tenure of an order: what a cut of an earlier one says counts no more. It rises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u32);

/// Neighbouring batches of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    /// The partition's index.
    pub partition: i32,
    /// The number of its offsets; at least one.
    pub offsets: u32,
}

/// The positions of what a shard had staged, in the order of its runs. Each run goes on where the partition's last one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Its generation.
    pub generation: Generation,
    /// The position of its first record.
    pub base: Position,
    /// The first position that was not known to be ordered when it was made.
    pub ordered: Position,
    /// At least one.
    pub runs: Vec<Run>,
}

impl Cut {
    /// The number of its positions.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.offsets)).sum()
    }

    /// The first position after it.
    #[must_use]
    pub fn next(&self) -> Position {
        Position(self.base.0 + self.count())
    }
}

/// The beginning of a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The generation.
    pub generation: Generation,
    /// Its first position: those below are what they are.
    pub first: Position,
    /// Of each partition the first offset that has no position below that.
    pub vector: Vec<Offset>,
}

/// An entry of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A cut.
    Cut(Cut),
    /// A generation begins.
    Open(Open),
}

impl Entry {
    /// The entry as bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::open(VERSION);
        match self {
            Entry::Cut(cut) => {
                writer.u8(CUT);
                write_generation(&mut writer, cut.generation);
                writer.u64(cut.base.0);
                writer.u64(cut.ordered.0);
                writer.count(cut.runs.len());
                for run in &cut.runs {
                    writer.i32(run.partition);
                    writer.put_slice(&run.offsets.to_be_bytes());
                }
            }
            Entry::Open(open) => {
                writer.u8(OPEN);
                write_generation(&mut writer, open.generation);
                writer.u64(open.first.0);
                writer.count(open.vector.len());
                open.vector.iter().for_each(|next| writer.i64(next.0));
            }
        }
        writer.close()
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// The bytes are no entry, or of an unknown version; or positions or offsets cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Entry, DecodeError> {
        let mut reader = Reader::open_only(bytes, FORMAT, VERSION)?;
        let entry = match reader.u8("kind of an entry of an order")? {
            CUT => Entry::Cut(read_cut(&mut reader)?),
            OPEN => Entry::Open(read_open(&mut reader)?),
            value => {
                return Err(DecodeError::UnknownKind {
                    field: "kind of an entry of an order",
                    value,
                });
            }
        };
        reader.close()?;
        Ok(entry)
    }
}

pub(super) fn write_generation(writer: &mut Writer, generation: Generation) {
    writer.put_slice(&generation.0.to_be_bytes());
}

pub(super) fn read_generation(reader: &mut Reader<'_>) -> Result<Generation, DecodeError> {
    Ok(Generation(reader.u32("generation")?))
}

fn read_position(reader: &mut Reader<'_>, field: &'static str) -> Result<Position, DecodeError> {
    let position = reader.u64(field)?;
    possible(position <= POSITION_MAX, field)?;
    Ok(Position(position))
}

fn read_cut(reader: &mut Reader<'_>) -> Result<Cut, DecodeError> {
    let generation = read_generation(reader)?;
    let base = read_position(reader, "base of a cut")?;
    let ordered = read_position(reader, "ordered position")?;
    let count = reader.count("runs", RUN_BYTES)?;
    let mut runs = Vec::with_capacity(count);
    let mut next = base.0;
    for _ in 0..count {
        let run = Run {
            partition: reader.i32("partition of a run")?,
            offsets: reader.u32("offsets of a run")?,
        };
        next += u64::from(run.offsets);
        let is_possible = run.partition >= 0 && run.offsets > 0 && next <= POSITION_MAX;
        possible(is_possible, "run")?;
        runs.push(run);
    }
    possible(!runs.is_empty() && ordered <= base, "cut")?;
    Ok(Cut {
        generation,
        base,
        ordered,
        runs,
    })
}

fn read_open(reader: &mut Reader<'_>) -> Result<Open, DecodeError> {
    let generation = read_generation(reader)?;
    let first = read_position(reader, "first position")?;
    let count = reader.count("partitions", OFFSET_BYTES)?;
    let mut vector = Vec::with_capacity(count);
    for _ in 0..count {
        let next = reader.i64("next offset")?;
        possible(next >= 0, "next offset")?;
        vector.push(Offset(next));
    }
    Ok(Open {
        generation,
        first,
        vector,
    })
}

pub(super) fn possible(is_possible: bool, field: &'static str) -> Result<(), DecodeError> {
    match is_possible {
        true => Ok(()),
        false => Err(DecodeError::Impossible { field }),
    }
}
