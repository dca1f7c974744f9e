//! The transactions of one partition that readers of committed records must wait for.
//!
//! ```text
//!   log_start      stable                    tail          next_offset
//!   |  decided      | a transaction is open,   |  not committed  |
//!   |               | or its marker is not committed
//! ```
//! A transaction opens with its first batch here and ends with its marker. It must hold up committed readers until the marker is below the
//! tail: one that is staged may be lost, and the transaction is open again then.

use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map};

use record::Offset;

use super::ProducerId;

/// A transaction that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// The offset of its first record here.
    pub first: Offset,
    /// The epoch of its batches. A marker that was cut off may have raised the producer's since.
    pub epoch: i16,
}

/// A transaction that has a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ended {
    id: ProducerId,
    open: Open,
    marker: Offset,
}

/// See the module. Empty, it takes no memory on the heap.
#[derive(Debug, Clone, Default)]
pub(super) struct Transactions {
    /// Each producer's open transaction.
    open: BTreeMap<ProducerId, Open>,
    /// The same, by offset.
    firsts: BTreeSet<(Offset, ProducerId)>,
    /// Those whose marker is not known to be committed, in the order of their markers.
    ended: VecDeque<Ended>,
}

/// Whoever goes on needs to know neither what is settled nor where the markers were.
impl PartialEq for Transactions {
    fn eq(&self, other: &Self) -> bool {
        self.open == other.open
    }
}

impl Eq for Transactions {}

impl Transactions {
    /// Says whether a producer's transaction is open, or may be again.
    pub(super) fn holds(&self, id: ProducerId) -> bool {
        self.open.contains_key(&id) || self.ended.iter().any(|ended| ended.id == id)
    }

    pub(super) fn of(&self, id: ProducerId) -> Option<Open> {
        self.open.get(&id).copied()
    }

    /// The open transactions, by their producers.
    pub(super) fn open(&self) -> impl Iterator<Item = (ProducerId, Open)> + '_ {
        self.open.iter().map(|(id, open)| (*id, *open))
    }

    /// Those whose first offset is at `from` or behind it, in that order.
    pub(super) fn open_from(&self, from: Offset) -> impl Iterator<Item = (Offset, ProducerId)> + '_ {
        self.firsts.range((from, ProducerId(i64::MIN))..).copied()
    }

    /// The marker of a producer's last transaction, if that is at `tail` or behind it.
    pub(super) fn ends_behind(&self, id: ProducerId, tail: Offset) -> Option<Offset> {
        let ended = self.ended.iter().rev().find(|ended| ended.id == id);
        ended.map(|ended| ended.marker).filter(|marker| *marker >= tail)
    }

    /// Opens a producer's transaction, unless it is open.
    pub(super) fn begin(&mut self, id: ProducerId, open: Open) {
        if let btree_map::Entry::Vacant(place) = self.open.entry(id) {
            place.insert(open);
            self.firsts.insert((open.first, id));
        }
    }

    /// Ends a producer's transaction, if one is open.
    pub(super) fn end(&mut self, id: ProducerId, marker: Offset) {
        if let Some(open) = self.forget(id) {
            self.ended.push_back(Ended { id, open, marker });
        }
    }

    fn forget(&mut self, id: ProducerId) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.firsts.remove(&(open.first, id));
        Some(open)
    }

    /// Has the log begin at an offset, before much of what is known: of that only transactions stay that began before.
    pub(super) fn begin_at(&mut self, first: Offset) {
        let later: Vec<_> = self.open().filter(|(_, open)| open.first >= first).collect();
        for (id, _) in later {
            self.forget(id);
        }
        self.ended.clear();
    }

    /// All below `tail` is committed, and stays.
    pub(super) fn settle(&mut self, tail: Offset) {
        while self.ended.front().is_some_and(|ended| ended.marker < tail) {
            self.ended.pop_front();
        }
        if self.ended.is_empty() && self.ended.capacity() > 0 {
            self.ended = VecDeque::new();
        }
    }

    /// The end of what is decided, `tail` at most (Kafka's last stable offset).
    pub(super) fn stable(&self, tail: Offset) -> Offset {
        let open = self.firsts.first().map(|(first, _)| *first);
        let ended = self.ended.iter().filter(|ended| ended.marker >= tail);
        let ended = ended.map(|ended| ended.open.first).min();
        open.into_iter().chain(ended).fold(tail, Offset::min)
    }

    /// Forgets what is at `next_offset` and above: a transaction whose marker goes is open again.
    pub(super) fn cut_to(&mut self, next_offset: Offset) {
        let gone: Vec<_> = self
            .open()
            .filter(|(_, open)| open.first >= next_offset)
            .collect();
        for (id, _) in gone {
            self.forget(id);
        }
        while let Some(last) = self
            .ended
            .back()
            .filter(|ended| ended.marker >= next_offset)
            .copied()
        {
            self.ended.pop_back();
            if last.open.first < next_offset {
                self.begin(last.id, last.open);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ProducerId = ProducerId(1);
    const B: ProducerId = ProducerId(2);

    fn open(first: i64) -> Open {
        Open {
            first: Offset(first),
            epoch: 0,
        }
    }

    #[test]
    fn what_is_open_holds_up_the_stable_end() {
        let mut transactions = Transactions::default();
        assert_eq!(transactions.stable(Offset(9)), Offset(9));
        transactions.begin(A, open(5));
        transactions.begin(A, open(6));
        transactions.begin(B, open(7));
        assert_eq!(transactions.stable(Offset(9)), Offset(5));
        assert_eq!(transactions.stable(Offset(4)), Offset(4));
        transactions.end(A, Offset(9));
        assert_eq!(
            transactions.stable(Offset(9)),
            Offset(5),
            "the marker may be lost"
        );
        assert_eq!(transactions.stable(Offset(10)), Offset(7));
        transactions.settle(Offset(10));
        assert_eq!(transactions.stable(Offset(10)), Offset(7));
        transactions.end(B, Offset(10));
        assert_eq!(transactions.stable(Offset(11)), Offset(11));
    }

    #[test]
    fn open_transactions_are_told_in_the_order_of_their_first_offsets() {
        let mut transactions = Transactions::default();
        transactions.begin(B, open(5));
        transactions.begin(A, open(7));
        let from = |offset| transactions.open_from(Offset(offset)).collect::<Vec<_>>();
        assert_eq!(from(0), [(Offset(5), B), (Offset(7), A)]);
        assert_eq!(from(6), [(Offset(7), A)]);
        assert_eq!(from(8), []);
    }

    #[test]
    fn a_marker_that_is_cut_off_opens_its_transaction_again() {
        let mut transactions = Transactions::default();
        transactions.begin(A, open(5));
        transactions.end(A, Offset(8));
        transactions.begin(A, open(9));
        transactions.end(A, Offset(12));
        transactions.begin(B, open(10));
        transactions.cut_to(Offset(11));
        assert_eq!(transactions.of(A), Some(open(9)));
        assert_eq!(transactions.of(B), Some(open(10)));
        transactions.cut_to(Offset(8));
        assert_eq!(transactions.of(A), Some(open(5)));
        assert!(transactions.of(B).is_none());
        transactions.cut_to(Offset(5));
        assert!(transactions.of(A).is_none());
        assert_eq!(transactions.stable(Offset(5)), Offset(5));
    }
}
