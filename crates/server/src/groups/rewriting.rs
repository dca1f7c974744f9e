//! The log of groups that several nodes hold: written anew as a whole when it has grown, and trimmed away before that.
//!
//! **Each group is written anew as it is durable, and never behind a change that the writing lacks.** A part is taken when no change is on its way into the log:
//! then the coordinator has all that the log has. It is appended at once, so that later changes stand behind it. Only when all parts are committed goes what was before
//! the first. A crash in between leaves a log that replays as it did before.

use bytes::Bytes;
use protocol::groups::{Name, StoredRecord};
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
    going: Option<Going>,
}

/// A writing that has begun.
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

/// The next step of a writing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// These batches are appended at once, in order. Nothing else may be on its way into the log.
    Append(Vec<Bytes>),
    /// All is committed: the log may begin here.
    Trim(Offset),
}

impl Rewriting {
    pub(super) fn new(grown_bytes_min: usize) -> Rewriting {
        Rewriting {
            grown_bytes_min,
            grown_bytes: 0,
            image_bytes: 0,
            going: None,
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

    /// The step to be taken while nothing is on its way into the log. `image` gives records of groups from a name on, and the next name.
    pub(super) fn next_step(
        &mut self,
        image: impl FnOnce(&Name, usize) -> (Vec<StoredRecord>, Option<Name>),
        now_ms: i64,
    ) -> Option<Step> {
        let is_due = self.grown_bytes >= self.grown_bytes_min.max(2 * self.image_bytes);
        if self.going.is_none() && is_due {
            self.going = Some(Going {
                next: Some(Name::default()),
                ..Going::default()
            });
        }
        let going = self.going.as_mut()?;
        let (records, after) = image(&going.next.take()?, PART_BYTES);
        if records.is_empty() {
            // The groups that were left are gone. If there were none at all, there is no place from which the log could go on.
            let first = going.first;
            self.end();
            return first.map(Step::Trim);
        }
        let batches = batches_of(&records, now_ms);
        going.next = after;
        going.under_way += batches.len();
        going.bytes += batches.iter().map(Bytes::len).sum::<usize>();
        Some(Step::Append(batches))
    }

    /// A batch of it is committed at this offset.
    pub(super) fn handle_committed(&mut self, at: Offset) -> Option<Step> {
        let going = self.going.as_mut()?;
        let first = *going.first.get_or_insert(at);
        going.under_way -= 1;
        if going.next.is_some() || going.under_way > 0 {
            return None;
        }
        self.end();
        Some(Step::Trim(first))
    }

    /// A batch of it was refused: it is begun anew when the log has grown as much again.
    pub(super) fn handle_refused(&mut self) {
        self.going = None;
        self.grown_bytes = 0;
    }

    fn end(&mut self) {
        self.image_bytes = self.going.take().map_or(0, |going| going.bytes);
        self.grown_bytes = 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    type Part = (Vec<StoredRecord>, Option<Name>);

    fn record(value_bytes: usize) -> StoredRecord {
        StoredRecord {
            key: Bytes::from_static(b"key"),
            value: Some(vec![7; value_bytes].into()),
        }
    }

    fn part(records: usize, next: Option<&str>) -> Part {
        (vec![record(10); records], next.map(Name::from))
    }

    fn appended(step: Option<Step>) -> usize {
        match step {
            Some(Step::Append(batches)) => batches.len(),
            other => panic!("{other:?}"),
        }
    }

    /// A log that has grown enough.
    fn grown() -> Rewriting {
        let mut rewriting = Rewriting::new(100);
        rewriting.grow(100);
        rewriting
    }

    #[test]
    fn the_log_may_begin_at_the_first_part_once_the_last_is_committed() {
        let mut rewriting = Rewriting::new(100);
        rewriting.grow(99);
        assert_eq!(
            rewriting.next_step(|_, _| unreachable!("it is too early"), 0),
            None
        );
        rewriting.grow(1);
        assert_eq!(
            appended(rewriting.next_step(
                |from, _| {
                    assert_eq!(&**from, "");
                    part(2, Some("m"))
                },
                0
            )),
            1
        );
        assert_eq!(rewriting.handle_committed(Offset(70)), None);
        assert_eq!(
            appended(rewriting.next_step(
                |from, _| {
                    assert_eq!(&**from, "m");
                    part(2, None)
                },
                0
            )),
            1
        );
        assert_eq!(
            rewriting.next_step(|_, _| unreachable!("all is on its way"), 0),
            None
        );
        assert_eq!(
            rewriting.handle_committed(Offset(90)),
            Some(Step::Trim(Offset(70)))
        );
        rewriting.grow(100);
        assert_eq!(
            rewriting.next_step(|_, _| unreachable!("what counts has twice as much"), 0),
            None
        );
    }

    #[test]
    fn groups_that_go_meanwhile_end_the_writing_and_it_can_begin_again() {
        let mut rewriting = grown();
        assert_eq!(appended(rewriting.next_step(|_, _| part(1, Some("m")), 0)), 1);
        assert_eq!(rewriting.handle_committed(Offset(70)), None);
        assert_eq!(
            rewriting.next_step(|_, _| part(0, None), 0),
            Some(Step::Trim(Offset(70)))
        );
        rewriting.grow(10_000);
        assert_eq!(appended(rewriting.next_step(|_, _| part(1, None), 0)), 1);
    }

    #[test]
    fn without_groups_nothing_is_written() {
        let mut rewriting = grown();
        assert_eq!(rewriting.next_step(|_, _| part(0, None), 0), None);
        assert_eq!(
            rewriting.next_step(|_, _| unreachable!("nothing has come since"), 0),
            None
        );
    }

    #[test]
    fn a_refusal_ends_the_writing_whatever_else_is_heard_of_it() {
        let mut rewriting = grown();
        let long = vec![record(BATCH_BYTES); 2];
        assert_eq!(
            appended(rewriting.next_step(|_, _| (long, None), 0)),
            2,
            "each rides alone"
        );
        rewriting.handle_refused();
        assert_eq!(rewriting.handle_committed(Offset(70)), None);
    }

    #[test]
    fn of_a_log_that_was_read_only_the_rest_counts() {
        let mut rewriting = Rewriting::new(100);
        rewriting.grow(500);
        rewriting.handle_loaded(400);
        assert_eq!(
            rewriting.next_step(|_, _| unreachable!("most of it counts"), 0),
            None
        );
        rewriting.grow(700);
        assert_eq!(appended(rewriting.next_step(|_, _| part(1, None), 0)), 1);
    }
}
