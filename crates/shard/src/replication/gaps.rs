//! What compaction has taken from a log is sent as batches without records, so that a replica has no gaps.
//!
//! Each of them is of the epoch that wrote there, and names the producer whose batch it was where the history remembers that: a
//! replica that takes them knows of epochs and producers what it would know of the batches themselves. Its own compaction takes
//! them away again. Which batches stood in a gap is asked of the replica's history (`Replica::batches_gone`), never guessed.

use bytes::Bytes;
use planted::{Bug, planted};
use protocol::Remembered;
use protocol::history::BatchFacts;
use protocol::replica::Replica;
use record::{BatchHeader, Offset, Place, placeholder};

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

/// Makes a piece for a replica whose log ends at `first` out of what was found from there up to `until`: where that is nothing, all of it
/// is gone. Empty where the log does not have that part any more: it was given up meanwhile.
pub(super) fn without_gaps(replica: &Replica, first: Offset, until: Offset, found: Vec<Bytes>) -> Piece {
    let whole = |bytes: &Bytes| {
        let whole = record::batches(bytes).map_while(Result::ok);
        whole.map(|(header, _)| header).collect()
    };
    let headers: Vec<BatchHeader> = found.iter().flat_map::<Vec<_>, _>(whole).collect();
    let is_whole = !headers.is_empty() && !has_gaps(first, &headers);
    if is_whole || planted(Bug::GapsNotFilled) {
        return Piece {
            facts: headers.iter().map(BatchFacts::of).collect(),
            bytes: found,
            ..Piece::default()
        };
    }
    // A replica whose log ends below this one is told of the base instead.
    let at = first.max(replica.first());
    let end = headers.last().map_or(until, BatchHeader::next_offset);
    let remembered = replica.remembered(at, end);
    let mut piece = Piece {
        producers: remembered.looked_at,
        ..Piece::default()
    };
    piece.fill_all(replica, &remembered, at, end, &found);
    piece
}

/// Says whether a batch is missing between `first` and the last of these, or has no records.
fn has_gaps(first: Offset, headers: &[BatchHeader]) -> bool {
    let mut at = first;
    headers.iter().any(|header| {
        let is_apart = header.base_offset > at;
        at = header.next_offset();
        is_apart || header.record_count == 0
    })
}

impl Piece {
    /// Takes the batches that were found, and what is gone before, between and behind them, as far as that goes into one piece.
    fn fill_all(
        &mut self,
        replica: &Replica,
        remembered: &Remembered,
        mut at: Offset,
        end: Offset,
        found: &[Bytes],
    ) {
        for bytes in found {
            for (header, batch) in record::batches(bytes).map_while(Result::ok) {
                // An empty one may span what another replica has batches of: it is made anew for this one.
                let gap_end = match header.record_count {
                    0 if !planted(Bug::EmptyBatchesSentOn) => header.next_offset(),
                    _ => header.base_offset,
                };
                if at < gap_end {
                    if !self.fill(replica.batches_gone(remembered, at, gap_end)) {
                        return;
                    }
                    at = gap_end;
                }
                if header.record_count > 0 || planted(Bug::EmptyBatchesSentOn) {
                    self.facts.push(BatchFacts::of(&header));
                    self.bytes.push(bytes.slice_ref(batch));
                    at = header.next_offset();
                }
            }
        }
        if at < end {
            self.fill(replica.batches_gone(remembered, at, end));
        }
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
