//! Pages in turns: what a read found is unpacked and written for a few milliseconds at a time.
//!
//! All but small reads are written off the HTTP thread. Each turn goes to the end of the workers' queue: so readers of much and of
//! little take turns, and work ends with the request that it is for. Only what the page shows is kept of a batch, however much it
//! unpacks to, and no turn takes memory that the budget of answers has no room for.

use bytes::Bytes;
use platform::work::Pool;
use protocol::order::Place;
use record::{BatchError, BatchHeader, CommittedBatches, Compression, Offset, Record, RecordSteps, Step};

use crate::budget::{Budget, Room};

use super::super::super::cores::Found;
use super::{Form, Limits, Page, Unpaged, bytes_of, headers_memory, memory_of};

/// Reads up to this are written on the HTTP thread itself, unless they are compressed.
const SMALL_BYTES: usize = 64 << 10;
/// Bytes that are unpacked in one turn.
const TURN_BYTES: usize = 512 << 10;
/// A batch whose window is no larger needs no room of its own.
const WINDOW_BYTES: usize = 1 << 20;
/// A record that takes more memory is counted before it is written.
const LARGE_BYTES: usize = 64 << 10;
/// Memory that a turn may take beside text, windows and large records: for a decoder, a small window, what is unpacked in the
/// turn, and a record.
pub(in super::super::super) const WORK_BYTES: usize = 3 << 20;

/// Makes a page of what a read found, turn by turn, and lets go of that. `memory` has room for all that the page takes.
pub(in super::super::super) async fn make_page(
    pool: &Pool,
    found: Found,
    from: Offset,
    form: Form,
    limits: Limits,
    memory: Memory<'_>,
) -> Result<Page, Unpaged> {
    write_page(pool, Writing::new(found, from, form, limits), memory).await
}

/// The same for records that are told in the order of their topic: those of one place.
pub(in super::super::super) async fn make_page_of(
    pool: &Pool,
    found: Found,
    place: Place,
    form: Form,
    limits: Limits,
    memory: Memory<'_>,
) -> Result<Page, Unpaged> {
    let mut writing = Writing::new(found, place.first, form, limits);
    writing.page.place = Some(place);
    write_page(pool, writing, memory).await
}

async fn write_page(pool: &Pool, writing: Writing, mut memory: Memory<'_>) -> Result<Page, Unpaged> {
    let is_quick = is_quick(writing.batches.as_slice());
    let mut writing = Box::new(writing);
    loop {
        if !memory.suffices(&writing)? {
            writing.end();
            return Ok(writing.page);
        }
        let turn;
        (writing, turn) = match is_quick {
            true => take_turn(writing),
            false => pool.run(|| take_turn(writing)).await,
        };
        if turn? == Turn::Ends {
            return Ok(writing.page);
        }
    }
}

/// Where the memory for a page comes from.
pub(in super::super::super) struct Memory<'a> {
    pub(in super::super::super) budget: &'a Budget,
    /// The room that the page has of that: at first for its text and `WORK_BYTES`.
    pub(in super::super::super) room: &'a mut Room,
    /// Bytes of it that are text of pages before.
    pub(in super::super::super) text_before: usize,
}

impl Memory<'_> {
    /// Takes room for the next turn; if there is none, a page that has records ends there.
    fn suffices(&mut self, writing: &Writing) -> Result<bool, Unpaged> {
        let (unpacking_bytes, bytes_max) = (writing.unpacking_bytes(), self.budget.bytes_max());
        let text_bytes = self.text_before + writing.text_bytes();
        let bytes = text_bytes.saturating_add(unpacking_bytes);
        let is_too_much = unpacking_bytes > bytes_max;
        if !is_too_much && self.budget.resize(self.room, bytes.saturating_add(WORK_BYTES)) {
            return Ok(true);
        }
        match (writing.page.records, is_too_much) {
            (0, true) => Err(Unpaged::TooMuch {
                offset: writing.page.next,
                bytes: unpacking_bytes,
                bytes_max,
            }),
            (0, false) => Err(Unpaged::NoRoom),
            _ => Ok(false),
        }
    }
}

fn is_quick(batches: &[Bytes]) -> bool {
    let bytes: usize = batches.iter().map(Bytes::len).sum();
    let plain =
        |(header, _): (BatchHeader, &[u8])| matches!(header.attributes.compression(), Ok(Compression::None));
    bytes <= SMALL_BYTES
        && batches
            .iter()
            .flat_map(|batches| record::batches(batches))
            .all(|batch| batch.is_ok_and(plain))
}

fn take_turn(mut writing: Box<Writing>) -> (Box<Writing>, Result<Turn, Unpaged>) {
    let turn = writing.turn();
    (writing, turn)
}

/// The state of a page after some of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    GoesOn,
    Pauses,
    Ends,
}

/// A page that is being written.
struct Writing {
    page: Page,
    from: Offset,
    limits: Limits,
    batches: std::vec::IntoIter<Bytes>,
    /// Tells which batches count, where not all do.
    committed: Option<CommittedBatches>,
    /// Batches of which none is begun.
    rest: Bytes,
    /// The batch that is being read.
    steps: Option<RecordSteps>,
    /// The record to be written next, if it is large, and the bytes of its text.
    large: Option<(Record, usize)>,
    _found: Found,
}

impl Writing {
    fn new(mut found: Found, from: Offset, form: Form, limits: Limits) -> Writing {
        Writing {
            page: Page::new(from, form),
            from,
            limits,
            committed: found.committed.take(),
            batches: std::mem::take(&mut found.batches).into_iter(),
            rest: Bytes::new(),
            steps: None,
            large: None,
            _found: found,
        }
    }

    /// The most that the text comes to by the next turn.
    fn text_bytes(&self) -> usize {
        let large = self.large.as_ref().map_or(0, |(_, text_bytes)| *text_bytes);
        self.limits.bytes_max.max(self.page.text.len() + large)
    }

    /// Memory that the batch has the next turn take besides: for its window, and a large record.
    fn unpacking_bytes(&self) -> usize {
        let Some(steps) = &self.steps else { return 0 };
        let large = match &self.large {
            // Its bytes are those that were found.
            Some((record, _)) if steps.is_plain() => headers_memory(record),
            Some((record, _)) => memory_of(record),
            None => 0,
        };
        steps.memory_bytes(TURN_BYTES).saturating_add(large)
    }

    /// Goes on for a turn.
    fn turn(&mut self) -> Result<Turn, Unpaged> {
        if let Some((record, text_bytes)) = self.large.take() {
            self.page.text.reserve_exact(text_bytes);
            self.page.add(&record, self.limits.bytes_max);
        }
        let mut work_bytes = TURN_BYTES;
        loop {
            let wanted_bytes = self.wanted_bytes();
            let turn = match &mut self.steps {
                Some(steps) => {
                    let step = steps.step(self.page.next, wanted_bytes, &mut work_bytes);
                    let step = step.map_err(|error| self.damaged(&error))?;
                    self.take(step, wanted_bytes)?
                }
                None => self.begin_batch()?,
            };
            if turn != Turn::GoesOn {
                return Ok(turn);
            }
        }
    }

    /// The most bytes that the next record may have. A longer one is not even unpacked, for its text would be longer still.
    fn wanted_bytes(&self) -> usize {
        match self.page.records {
            0 => self.limits.record_bytes_max,
            count if count == self.limits.records_max => 0,
            _ => {
                let text_left = self.limits.bytes_max.saturating_sub(self.page.text.len());
                self.limits.record_bytes_max.min(text_left)
            }
        }
    }

    fn begin_batch(&mut self) -> Result<Turn, Unpaged> {
        while self.rest.is_empty() {
            match self.batches.next() {
                Some(batches) => self.rest = batches,
                None => {
                    self.page.has_all = true;
                    return Ok(Turn::Ends);
                }
            }
        }
        let header = BatchHeader::read(&self.rest).map_err(|error| self.damaged(&error))?;
        let batch = self.rest.split_to(header.length_bytes);
        if let Some(end) = self.page.end()
            && header.base_offset >= end
        {
            self.page.next = end;
            return Ok(Turn::Ends);
        }
        if header.next_offset() <= self.page.next {
            return Ok(Turn::GoesOn);
        }
        let counts = match &mut self.committed {
            Some(committed) => committed.take(&header, &batch),
            None => Ok(true),
        };
        let counts = counts.map_err(|error| self.damaged(&error))?;
        // Marks of brokers are not for readers, whatever these want.
        if header.attributes.is_control() || !counts {
            self.page.next = self.within_place(header.next_offset());
            return Ok(Turn::GoesOn);
        }
        let steps = RecordSteps::new(&batch, &self.limits.decompression);
        let steps = steps.map_err(|error| self.damaged(&error))?;
        let needs_room = steps.memory_bytes(TURN_BYTES) > WINDOW_BYTES;
        self.steps = Some(steps);
        Ok(if needs_room { Turn::Pauses } else { Turn::GoesOn })
    }

    fn take(&mut self, step: Step, wanted_bytes: usize) -> Result<Turn, Unpaged> {
        match step {
            Step::Pause => Ok(Turn::Pauses),
            Step::End => {
                let ended = self.steps.take().expect("a step is of a batch");
                self.page.next = self.within_place(ended.header().next_offset());
                Ok(Turn::GoesOn)
            }
            Step::Record(record) if self.page.end().is_some_and(|end| record.offset >= end) => {
                self.page.next = self.within_place(record.offset);
                Ok(Turn::Ends)
            }
            Step::TooLong { offset, bytes } => self.leave(offset, bytes as usize),
            Step::Record(record) => {
                let bytes = bytes_of(&record);
                match bytes > wanted_bytes || self.page.records == self.limits.records_max {
                    true => self.leave(record.offset, bytes),
                    false => Ok(self.take_record(record)),
                }
            }
        }
    }

    /// The end of the page, which is that of its place at the latest.
    fn within_place(&self, next: Offset) -> Offset {
        self.page.end().map_or(next, |end| next.min(end))
    }

    /// Has a record on the page if there is room for its text; a large one with the next turn.
    fn take_record(&mut self, record: Record) -> Turn {
        let bytes_max = self.limits.bytes_max;
        if memory_of(&record) <= LARGE_BYTES {
            return match self.page.add(&record, bytes_max) {
                true => Turn::GoesOn,
                false => self.end(),
            };
        }
        let text_bytes = self.page.text_bytes_of(&record);
        if self.page.records > 0 && self.page.text.len() + text_bytes > bytes_max {
            return self.end();
        }
        self.large = Some((record, text_bytes));
        Turn::Pauses
    }

    /// Ends the page before a record. If it would be the first, no page can have it.
    fn leave(&mut self, offset: Offset, bytes: usize) -> Result<Turn, Unpaged> {
        let bytes_max = self.limits.record_bytes_max;
        match self.page.records {
            0 => Err(Unpaged::TooLarge {
                offset,
                bytes,
                bytes_max,
            }),
            _ => Ok(self.end()),
        }
    }

    /// Ends the page before it has all that was found.
    fn end(&mut self) -> Turn {
        let steps = self.steps.as_ref();
        self.page.inside_batch = steps.is_some_and(|steps| steps.header().base_offset <= self.from);
        Turn::Ends
    }

    fn damaged(&self, error: &BatchError) -> Unpaged {
        Unpaged::Damaged {
            from: self.from,
            why: error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
