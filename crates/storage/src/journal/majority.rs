//! Which partition most bytes of a journal file belong to, as far as one counter can tell.
//!
//! Boyer and Moore's majority vote with weights: whoever has more than half of the votes is the candidate at the end,
//! and has at least as many as are left to it. A count for every partition would cost memory on every append.

use record::PartitionId;

/// The candidate so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Majority {
    candidate: Option<PartitionId>,
    /// The candidate has at least so many bytes.
    bytes: u64,
    /// Whose bytes were counted first, and whether others' were, too.
    first: Option<PartitionId>,
    is_shared: bool,
}

impl Majority {
    /// Counts `bytes` for a partition.
    pub(super) fn count(&mut self, partition: PartitionId, bytes: u64) {
        self.note(partition);
        if self.candidate == Some(partition) {
            self.bytes += bytes;
        } else if bytes > self.bytes {
            self.candidate = Some(partition);
            self.bytes = bytes - self.bytes;
        } else {
            self.bytes -= bytes;
        }
    }

    /// Takes another vote's outcome over.
    pub(super) fn merge(&mut self, other: Majority) {
        if let Some(partition) = other.candidate {
            self.count(partition, other.bytes);
        }
        other.first.into_iter().for_each(|partition| self.note(partition));
        self.is_shared |= other.is_shared;
    }

    fn note(&mut self, partition: PartitionId) {
        self.is_shared |= *self.first.get_or_insert(partition) != partition;
    }

    /// Says whether bytes of several partitions were counted.
    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// The partition that has at least half of `total` bytes for certain, if one has.
    pub(super) fn of(&self, total: u64) -> Option<PartitionId> {
        self.candidate.filter(|_| total > 0 && self.bytes * 2 >= total)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use record::TopicId;

    use super::*;

    fn partition(index: i32) -> PartitionId {
        PartitionId {
            topic: TopicId([7; 16]),
            index,
        }
    }

    #[test]
    fn nobody_has_most_of_nothing() {
        assert_eq!(Majority::default().of(0), None);
        assert_eq!(Majority::default().of(1), None);
    }

    proptest! {
        #[test]
        fn what_is_certain_is_true(votes in prop::collection::vec((0..3i32, 1..50u64), 1..60), cut in 0..60usize) {
            let alone = votes.iter().all(|(index, _)| *index == votes[0].0);
            let (early, late) = votes.split_at(cut.min(votes.len()));
            let count = |votes: &[(i32, u64)]| {
                let mut majority = Majority::default();
                votes.iter().for_each(|(index, bytes)| majority.count(partition(*index), *bytes));
                majority
            };
            let mut majority = count(early);
            majority.merge(count(late));
            let total: u64 = votes.iter().map(|vote| vote.1).sum();
            let of = |index| votes.iter().filter(|vote| vote.0 == index).map(|vote| vote.1).sum::<u64>();
            let most = (0..3).map(of).max().unwrap_or(0);
            prop_assert_eq!(majority.is_shared(), !alone);
            if let Some(found) = majority.of(total) {
                prop_assert_eq!(of(found.index), most);
                prop_assert!(most * 2 >= total);
            }
        }

        #[test]
        fn three_quarters_are_found(few in prop::collection::vec(1..10u64, 0..20), places in any::<u64>()) {
            let others: u64 = few.iter().sum();
            let mut majority = Majority::default();
            let mut rest = others * 3 + 1;
            for (index, bytes) in few.iter().enumerate() {
                let share = if places >> index & 1 == 1 { rest / 2 } else { 0 };
                rest -= share;
                majority.count(partition(0), share);
                majority.count(partition(1 + index as i32), *bytes);
            }
            majority.count(partition(0), rest);
            prop_assert_eq!(majority.of(others * 4 + 1), Some(partition(0)));
        }
    }
}
