//! Gaps that compaction has left in a log are filled with batches without records when the log is sent: a replica has no gaps.
//!
//! Each such batch is of the epoch that wrote there, and names its producer where the history remembers that. A replica that takes
//! them knows of epochs and producers as much as one that took the batches themselves. Its own compaction takes them away again. The
//! history tells which batches stood in a gap (`Replica::batches_gone`). Nothing here may take a record for gone that compaction has
//! not taken: only segments that it has written may lack batches.

use bytes::Bytes;
use planted::{Bug, planted};
use protocol::Remembered;
use protocol::history::BatchFacts;
use protocol::replica::Replica;
use record::{Logged, Offset, Place, placeholder};

/// No more batches that stand for others are sent at a time: 256 KiB of them.
const GONE_MAX: usize = 4_096;

/// Batches that follow each other without a gap.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) facts: Vec<BatchFacts>,
    /// One or more of the batches to an element.
    pub(super) bytes: Vec<Bytes>,
    /// Producers that were looked at for it.
    pub(super) producers: usize,
    gone: usize,
}

/// Offsets whose batches are missing where compaction has never been.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) first: Offset,
    pub(super) next: Offset,
}

/// The log that is sent, as far as gaps need it.
pub(super) struct Source<'a> {
    pub(super) replica: &'a Replica,
    /// Says whether batches may be missing everywhere between two offsets.
    pub(super) may_lack: &'a dyn Fn(Offset, Offset) -> bool,
}

/// Makes a piece for a replica whose log ends at `first` out of the batches that were found from there up to `until`. If none were found,
/// all of them are gone. The piece is empty if the log begins above by now.
///
/// # Errors
/// `Missing`: the log has lost something.
pub(super) fn without_gaps(
    source: &Source<'_>,
    first: Offset,
    until: Offset,
    found: Vec<Bytes>,
) -> Result<Piece, Missing> {
    let whole = |bytes: &Bytes| {
        let whole = record::batches(bytes).map_while(Result::ok);
        whole
            .map_while(|(header, batch)| Logged::of(header, batch).ok())
            .collect()
    };
    let batches: Vec<Logged> = found.iter().flat_map::<Vec<_>, _>(whole).collect();
    let is_whole = !batches.is_empty() && !has_gaps(first, &batches);
    if is_whole || planted(Bug::GapsNotFilled) {
        return Ok(Piece {
            facts: batches.iter().map(BatchFacts::of).collect(),
            bytes: found,
            ..Piece::default()
        });
    }
    // A replica whose log ends below this one is told of the base instead.
    let at = first.max(source.replica.first());
    let end = batches.last().map_or(until, |last| last.header.next_offset());
    let remembered = source.replica.remembered(at, end);
    let mut piece = Piece {
        producers: remembered.looked_at,
        ..Piece::default()
    };
    piece.fill_all(source, &remembered, at, end, &found)?;
    Ok(piece)
}

/// Says whether a batch is missing between `first` and the last of these, or has no records.
fn has_gaps(first: Offset, batches: &[Logged]) -> bool {
    let mut at = first;
    batches.iter().any(|Logged { header, .. }| {
        let is_apart = header.base_offset > at;
        at = header.next_offset();
        is_apart || header.record_count == 0
    })
}

impl Piece {
    /// Takes the batches that were found, and fills the gaps before, between and behind them, as far as one piece goes.
    fn fill_all(
        &mut self,
        source: &Source<'_>,
        remembered: &Remembered,
        mut at: Offset,
        end: Offset,
        found: &[Bytes],
    ) -> Result<(), Missing> {
        let fill = |piece: &mut Piece, at: Offset, present_from: Offset, gap_end: Offset| {
            if at < present_from && !(source.may_lack)(at, present_from) {
                return Err(Missing {
                    first: at,
                    next: present_from,
                });
            }
            Ok(at >= gap_end || piece.fill(source.replica.batches_gone(remembered, at, gap_end)))
        };
        for bytes in found {
            for (header, batch) in record::batches(bytes).map_while(Result::ok) {
                let is_sent = header.record_count > 0 || planted(Bug::EmptyBatchesSentOn);
                // An empty one may span several batches of another replica: it is made anew for this one.
                let gap_end = match is_sent {
                    true => header.base_offset,
                    false => header.next_offset(),
                };
                if !fill(self, at, header.base_offset, gap_end)? {
                    return Ok(());
                }
                at = at.max(gap_end);
                if is_sent {
                    let Ok(logged) = Logged::of(header, batch) else {
                        return Ok(());
                    };
                    self.facts.push(BatchFacts::of(&logged));
                    self.bytes.push(bytes.slice_ref(batch));
                    at = header.next_offset();
                }
            }
        }
        fill(self, at, end, end).map(drop)
    }

    /// Adds batches that stand for others. Returns false if not all were added: they are not known any more, or too many for one piece.
    fn fill(&mut self, gone: Option<Vec<BatchFacts>>) -> bool {
        let Some(mut gone) = gone else { return false };
        let room = GONE_MAX - self.gone;
        let has_room = gone.len() <= room;
        gone.truncate(room);
        self.gone += gone.len();
        let empty = gone.iter().flat_map(|batch| placeholder(&place_of(batch)));
        self.bytes.push(empty.collect());
        self.facts.extend(gone);
        has_room
    }
}

fn place_of(batch: &BatchFacts) -> Place {
    Place {
        first_offset: batch.first_offset,
        offset_count: batch.record_count,
        epoch: batch.epoch,
        producer: batch
            .producer
            .map(|stamp| (stamp.id.0, stamp.epoch, stamp.first_sequence)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::leader::NodeId;
    use protocol::replica::Stored;
    use protocol::{History, Part, ProducerLimits};
    use record::{BatchBuilder, Compression, Epoch, set_base_offset};

    use super::*;

    /// A replica of a log of so many records, ten of each epoch, all of them committed.
    fn replica(records: i64) -> Replica {
        let mut history = History::new(ProducerLimits::default());
        for first in (0..records).step_by(10) {
            let batch = BatchFacts {
                epoch: Epoch(i32::try_from(first / 10).expect("few")),
                first_offset: Offset(first),
                record_count: 10,
                max_timestamp_ms: 0,
                producer: None,
                part: Part::Outside,
            };
            history.replay(Duration::ZERO, &batch).expect("epochs rise");
        }
        let end = Offset(records);
        let stored = Stored {
            next_offset: end,
            covered: end,
            history: history.snapshot(Duration::ZERO, end),
            ..Stored::default()
        };
        Replica::recover(Duration::ZERO, NodeId(1), ProducerLimits::default(), stored).expect("it is sound")
    }

    /// A batch of one record.
    fn batch(first: i64) -> Bytes {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(0, Some(b"key"), None, &[]);
        let mut bytes = builder.build().to_vec();
        set_base_offset(&mut bytes, Offset(first));
        bytes.into()
    }

    /// The first offsets of a piece's batches, and its end.
    fn made(found: Vec<Bytes>, first: i64, until: i64, may_lack: bool) -> Result<(Vec<i64>, i64), Missing> {
        let replica = replica(60_000);
        let source = Source {
            replica: &replica,
            may_lack: &|_, _| may_lack,
        };
        let piece = without_gaps(&source, Offset(first), Offset(until), found)?;
        let headers = piece.bytes.iter().flat_map(|bytes| record::batches(bytes));
        let headers: Vec<_> = headers
            .map(|batch| {
                let (header, bytes) = batch.expect("sound");
                BatchFacts::of(&Logged::of(header, bytes).expect("no marker"))
            })
            .collect();
        assert_eq!(headers, piece.facts);
        let firsts = piece.facts.iter().map(|batch| batch.first_offset.0).collect();
        Ok((
            firsts,
            piece.facts.last().map_or(first, |last| last.next_offset().0),
        ))
    }

    #[test]
    fn gaps_are_filled_before_between_and_behind_by_epochs() {
        let between = made(vec![batch(25), batch(38)], 12, 60, true);
        assert_eq!(between, Ok((vec![12, 20, 25, 26, 30, 38], 39)));
        let empty = Bytes::from(record::emptied(&batch(44)).expect("sound"));
        assert_eq!(
            made(vec![batch(43), empty], 43, 60, false),
            Ok((vec![43, 44], 45))
        );
        let beginning_below = made(vec![batch(10), batch(11)], 11, 60, false);
        assert_eq!(beginning_below, Ok((vec![10, 11], 12)));
    }

    #[test]
    fn what_is_gone_whole_is_filled_to_its_end() {
        assert_eq!(made(Vec::new(), 15, 32, true), Ok((vec![15, 20, 30], 32)));
        assert_eq!(made(Vec::new(), 32, 32, false), Ok((Vec::new(), 32)));
    }

    #[test]
    fn a_piece_has_no_more_than_its_share_of_batches_that_stand_for_others() {
        let (firsts, end) = made(vec![batch(59_990)], 0, 60_000, true).expect("all may be gone");
        assert_eq!((firsts.len(), end), (GONE_MAX, 10 * GONE_MAX as i64));
        let (firsts, end) = made(vec![batch(59_990)], end, 60_000, true).expect("all may be gone");
        assert_eq!((firsts.len(), end), (5_999 - GONE_MAX + 1, 59_991));
    }

    /// The replica would count them as held.
    #[test]
    fn batches_that_compaction_has_not_taken_are_not_taken_for_gone() {
        let missing = |first, next| {
            Err(Missing {
                first: Offset(first),
                next: Offset(next),
            })
        };
        assert_eq!(made(vec![batch(12), batch(14)], 12, 60, false), missing(13, 14));
        assert_eq!(made(Vec::new(), 15, 32, false), missing(15, 32));
    }
}
