//! What compaction has taken from a log is sent as batches without records, so that a replica has no gaps.
//!
//! Each of them is of the epoch that wrote there, and names the producer whose batch it was where the history remembers that: a
//! replica that takes them knows of epochs and producers what it would know of the batches themselves. Its own compaction takes
//! them away again. Which batches stood in a gap is asked of the replica's history (`Replica::batches_gone`), never guessed.

use bytes::Bytes;
use planted::{Bug, planted};
use protocol::history::BatchFacts;
use protocol::replica::Replica;
use record::{BatchHeader, Offset, Place, placeholder};

/// Batches that follow each other without a gap.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) facts: Vec<BatchFacts>,
    /// One or more of the batches to an element.
    pub(super) bytes: Vec<Bytes>,
}

/// Makes a piece for a replica whose log ends at `first` out of the batches that were found from there on. Empty where the log does
/// not have what stood between them any more: it was given up meanwhile.
pub(super) fn without_gaps(replica: &Replica, first: Offset, found: Vec<Bytes>) -> Piece {
    let whole = |bytes: &Bytes| {
        record::batches(bytes)
            .map_while(Result::ok)
            .map(|(header, _)| header)
            .collect()
    };
    let headers: Vec<BatchHeader> = found.iter().flat_map::<Vec<_>, _>(whole).collect();
    match has_gaps(first, &headers) && !planted(Bug::GapsNotFilled) {
        false => Piece {
            facts: headers.iter().map(BatchFacts::of).collect(),
            bytes: found,
        },
        true => filled(replica, first, &found).unwrap_or_default(),
    }
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

fn filled(replica: &Replica, first: Offset, found: &[Bytes]) -> Option<Piece> {
    let mut piece = Piece::default();
    // A replica whose log ends below this one is told of the base instead.
    let mut at = first.max(replica.first());
    for bytes in found {
        for (header, batch) in record::batches(bytes).map_while(Result::ok) {
            // An empty one may span what another replica has batches of: it is made anew for this one.
            let gap_end = match header.record_count {
                0 if !planted(Bug::EmptyBatchesSentOn) => header.next_offset(),
                _ => header.base_offset,
            };
            if at < gap_end {
                piece.fill(replica.batches_gone(at, gap_end)?);
                at = gap_end;
            }
            if header.record_count > 0 || planted(Bug::EmptyBatchesSentOn) {
                piece.facts.push(BatchFacts::of(&header));
                piece.bytes.push(bytes.slice_ref(batch));
                at = header.next_offset();
            }
        }
    }
    Some(piece)
}

impl Piece {
    fn fill(&mut self, gone: Vec<BatchFacts>) {
        let empty = gone.iter().flat_map(|batch| placeholder(&place_of(batch)));
        self.bytes.push(empty.collect());
        self.facts.extend(gone);
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
