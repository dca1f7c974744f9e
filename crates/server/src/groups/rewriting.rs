//! The log of groups that several nodes hold: written anew as a whole when it has grown, and trimmed away before that.
//!
//! **What is written anew is what is durable, group by group, and never behind a change that it lacks.** A part is taken when no change is on its way into the log:
//! then the coordinator has all that the log has. It is appended at once, so that later changes stand behind it. Only when all parts are committed goes what was before
//! the first. A crash in between leaves a log that replays as it did before.

use bytes::Bytes;
use protocol::groups::{Coordinator, Name, StoredRecord};
use record::{BatchBuilder, Compression, Offset, RECORD_OVERHEAD_BYTES_MAX};

/// Bytes of records in a part, but for those of its last group.
const PART_BYTES: usize = 256 << 10;
/// A batch has so many bytes at most, but for a single record that is longer.
const BATCH_BYTES: usize = 512 << 10;

/// The growth of a log, and how far it is written anew.
#[derive(Debug)]
pub(super) struct Rewriting {
    /// From so many bytes on, and twice what counts, the log is written anew.
    grown_bytes_min: usize,
    grown_bytes: usize,
    image_bytes: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Idle,
    Going(Going),
}

#[derive(Debug, Default)]
struct Going {
    /// The group that the next part begins with; `None` once all parts are on their way.
    next: Option<Name>,
    /// Batches whose outcome is not known.
    under_way: usize,
    /// The offset of the first that was committed.
    first: Option<Offset>,
    bytes: usize,
}

impl Rewriting {
    pub(super) fn new(grown_bytes_min: usize) -> Rewriting {
        Rewriting {
            grown_bytes_min,
            grown_bytes: 0,
            image_bytes: 0,
            state: State::Idle,
        }
    }

    /// Takes note of bytes that the log has, or gets.
    pub(super) fn grow(&mut self, bytes: usize) {
        self.grown_bytes += bytes;
    }

    /// The log was read: what counts in it is about so much. Only what it has beyond that is to go.
    pub(super) fn handle_loaded(&mut self, held_bytes: usize) {
        self.image_bytes = held_bytes;
        self.grown_bytes = self.grown_bytes.saturating_sub(held_bytes);
    }

    /// The batches of the next part, if one is to be written: to be appended at once, in order. Nothing else may be on its way into the log.
    pub(super) fn next_part(&mut self, coordinator: &Coordinator, now_ms: i64) -> Vec<Bytes> {
        if matches!(self.state, State::Idle) {
            if self.grown_bytes < self.grown_bytes_min.max(2 * self.image_bytes) {
                return Vec::new();
            }
            self.state = State::Going(Going {
                next: Some(Name::default()),
                ..Going::default()
            });
        }
        let State::Going(going) = &mut self.state else {
            unreachable!("it has begun");
        };
        let Some(from) = going.next.take() else {
            return Vec::new();
        };
        let (records, after) = coordinator.image_from(&from, PART_BYTES);
        if records.is_empty() && going.first.is_none() {
            // Nothing counts: there is no place from which the log could go on.
            self.give_up();
            return Vec::new();
        }
        let batches = batches_of(&records, now_ms);
        going.next = after;
        going.under_way += batches.len();
        going.bytes += batches.iter().map(Bytes::len).sum::<usize>();
        batches
    }

    /// A batch of it is committed. Returns the offset before which the log may go, if it was the last.
    pub(super) fn handle_committed(&mut self, at: Offset) -> Option<Offset> {
        let State::Going(going) = &mut self.state else {
            return None;
        };
        let first = *going.first.get_or_insert(at);
        going.under_way -= 1;
        if going.next.is_some() || going.under_way > 0 {
            return None;
        }
        self.image_bytes = going.bytes;
        self.grown_bytes = 0;
        self.state = State::Idle;
        Some(first)
    }

    /// It is begun anew when the log has grown as much again.
    pub(super) fn give_up(&mut self) {
        self.grown_bytes = 0;
        self.state = State::Idle;
    }
}

fn batches_of(records: &[StoredRecord], now_ms: i64) -> Vec<Bytes> {
    let mut batches = Vec::new();
    let mut batch = BatchBuilder::new(Compression::None);
    let mut records = records.iter().peekable();
    while let Some(record) = records.next() {
        batch.append(now_ms, Some(&record.key), record.value.as_deref(), &[]);
        let with_next = |next: &&StoredRecord| batch.length_bytes() + bytes_of(next) > BATCH_BYTES;
        // A long record is alone in its batch, as it was when it was a change.
        if records.peek().is_none_or(with_next) {
            batches.push(batch.build());
        }
    }
    batches
}

fn bytes_of(record: &StoredRecord) -> usize {
    RECORD_OVERHEAD_BYTES_MAX + record.key.len() + record.value.as_ref().map_or(0, Bytes::len)
}
