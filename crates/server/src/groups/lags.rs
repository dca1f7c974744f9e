//! Lags of groups behind the records that they could read: looked up in the background, and kept for the metrics.
//!
//! Off the record's way: some offsets at a time, with a rest in between, so that no core is held up by groups that have
//! committed very many. What is told is as old as the last look and the pause after it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use protocol::groups::{GroupOffset, Name, OffsetsPlace};
use record::PartitionId;
use tokio::time::sleep;

use crate::core::Core;
use crate::log_bounds::{LogBounds, bounds_of};

/// Offsets and groups that are looked at without a rest, and the rest: 25,000 a second, which take a hundredth of a core.
const AT_ONCE: usize = 256;
const REST: Duration = Duration::from_millis(10);
/// Lags that one core tells: those furthest behind. What reads figures keeps a series for each.
const TOLD_MAX: usize = 1_000;

/// The lag of a group in a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupLag {
    /// Records between what it has committed and the tails, of all partitions of which it has committed something.
    pub(crate) records: u64,
    pub(crate) group: Name,
    pub(crate) topic: Name,
}

/// Looks after the lags of a core's groups until the node stops.
pub(crate) async fn watch_lags(core: Rc<Core>) {
    loop {
        sleep(core.facts.config.groups.lag_check_interval).await;
        let lags = find_lags(&core).await;
        core.groups.lags.replace(lags);
    }
}

/// The lags of the core's groups, those furthest behind first.
async fn find_lags(core: &Rc<Core>) -> Arc<[GroupLag]> {
    let mut furthest = Furthest::new(TOLD_MAX);
    for host in core.groups.all_hosts() {
        let mut place = OffsetsPlace::default();
        loop {
            let (some, next) = host.offsets_from(place, AT_ONCE);
            let partitions = some.iter().map(|committed| {
                Ok(PartitionId {
                    topic: committed.topic_id,
                    index: committed.partition.index,
                })
            });
            let bounds = bounds_of(core, partitions).await;
            for (committed, bounds) in some.iter().zip(bounds) {
                // Of a partition that is gone, or whose core does not tell, nothing is known.
                if let Some(bounds) = bounds {
                    furthest.add(committed, bounds);
                }
            }
            match next {
                Some(next) => place = next,
                None => break,
            }
            sleep(REST).await;
        }
    }
    furthest.into_told()
}

/// The greatest lags among those of all groups, of which each is complete before the next begins.
struct Furthest {
    told_max: usize,
    /// Of the group and topic that offsets are of now.
    current: Option<GroupLag>,
    complete: BinaryHeap<Reverse<GroupLag>>,
}

impl Furthest {
    fn new(told_max: usize) -> Furthest {
        Furthest {
            told_max,
            current: None,
            complete: BinaryHeap::new(),
        }
    }

    /// Takes an offset; those of one group and topic come one after the other.
    fn add(&mut self, committed: &GroupOffset, bounds: LogBounds) {
        let records = bounds.behind(committed.offset).unsigned_abs();
        match &mut self.current {
            Some(lag) if lag.group == committed.group && lag.topic == committed.partition.topic => {
                lag.records = lag.records.saturating_add(records);
            }
            _ => {
                self.end_current();
                self.current = Some(GroupLag {
                    records,
                    group: Name::clone(&committed.group),
                    topic: Name::clone(&committed.partition.topic),
                });
            }
        }
    }

    fn end_current(&mut self) {
        let Some(lag) = self.current.take() else { return };
        self.complete.push(Reverse(lag));
        if self.complete.len() > self.told_max {
            self.complete.pop();
        }
    }

    fn into_told(mut self) -> Arc<[GroupLag]> {
        self.end_current();
        let told = self.complete.into_sorted_vec().into_iter();
        told.map(|Reverse(lag)| lag).collect()
    }
}

#[cfg(test)]
mod tests {
    use protocol::groups::TopicPartition;
    use record::{Offset, TopicId};

    use super::*;

    fn committed(group: &str, topic: &str, index: i32, offset: i64) -> GroupOffset {
        GroupOffset {
            group: group.into(),
            partition: TopicPartition {
                topic: topic.into(),
                index,
            },
            topic_id: TopicId([1; 16]),
            offset: Offset(offset),
        }
    }

    fn told(told_max: usize, offsets: &[(GroupOffset, i64)]) -> Vec<(String, u64)> {
        let mut furthest = Furthest::new(told_max);
        for (committed, tail) in offsets {
            let bounds = LogBounds {
                log_start: Offset::ZERO,
                tail: Offset(*tail),
            };
            furthest.add(committed, bounds);
        }
        let lags = furthest.into_told();
        let lags = lags.iter();
        lags.map(|lag| (format!("{} {}", lag.group, lag.topic), lag.records))
            .collect()
    }

    #[test]
    fn a_lag_is_of_all_partitions_of_a_topic_and_never_negative() {
        let offsets = [
            (committed("a", "t", 0, 4), 9),
            (committed("a", "t", 1, 12), 9),
            (committed("a", "t", 2, 0), 1),
            (committed("a", "u", 0, 5), 5),
            (committed("b", "u", 0, 3), 5),
        ];
        let expected = [("a t", 6), ("b u", 2), ("a u", 0)].map(|(lag, records)| (lag.to_owned(), records));
        assert_eq!(told(10, &offsets), expected);
        assert_eq!(told(10, &[]), []);
    }

    #[test]
    fn only_those_furthest_behind_are_told() {
        let offsets: Vec<_> = (0..100)
            .map(|group| (committed(&format!("g{group:02}"), "t", 0, group * 37 % 100), 100))
            .collect();
        let expected = [100, 99, 98];
        let records: Vec<u64> = told(3, &offsets)
            .into_iter()
            .map(|(_, records)| records)
            .collect();
        assert_eq!(records, expected);
    }
}
