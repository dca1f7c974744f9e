//! A set of partitions, by topic id: what a member has, gives up or is to have.
//!
//! Stands under the consumer protocol. A topic without partitions never stands in it, so that equal sets are equal. Copies share
//! what they hold until one of them changes: a set may have very many partitions, and stands in many places.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use record::{PartitionId, TopicId};

/// A set of partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    topics: Arc<BTreeMap<TopicId, BTreeSet<i32>>>,
}

impl Assignment {
    /// Says that there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Returns the number of partitions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.topics.values().map(BTreeSet::len).sum()
    }

    /// Says whether a partition is in it.
    #[must_use]
    pub fn contains(&self, partition: PartitionId) -> bool {
        self.topics
            .get(&partition.topic)
            .is_some_and(|indexes| indexes.contains(&partition.index))
    }

    /// Adds a partition; says whether it is new.
    pub fn insert(&mut self, partition: PartitionId) -> bool {
        Arc::make_mut(&mut self.topics)
            .entry(partition.topic)
            .or_default()
            .insert(partition.index)
    }

    /// Takes a partition out; says whether it was there.
    pub fn remove(&mut self, partition: PartitionId) -> bool {
        let topics = Arc::make_mut(&mut self.topics);
        let Some(indexes) = topics.get_mut(&partition.topic) else {
            return false;
        };
        let removed = indexes.remove(&partition.index);
        if indexes.is_empty() {
            topics.remove(&partition.topic);
        }
        removed
    }

    /// All partitions, sorted.
    pub fn iter(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.topics.iter().flat_map(|(topic, indexes)| {
            indexes.iter().map(|index| PartitionId {
                topic: *topic,
                index: *index,
            })
        })
    }

    /// All topics, sorted, with the indexes of their partitions.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = (TopicId, &BTreeSet<i32>)> + '_ {
        self.topics.iter().map(|(topic, indexes)| (*topic, indexes))
    }

    /// The partitions of a topic.
    pub(super) fn of(&self, topic: TopicId) -> Option<&BTreeSet<i32>> {
        self.topics.get(&topic)
    }

    /// Returns the partitions that are in both.
    #[must_use]
    pub fn and(&self, other: &Assignment) -> Assignment {
        self.each_topic(|topic, mine| {
            let theirs = other.of(topic)?;
            Some(mine.intersection(theirs).copied().collect())
        })
    }

    /// Returns the partitions that are in this one only.
    #[must_use]
    pub fn without(&self, other: &Assignment) -> Assignment {
        self.each_topic(|topic, mine| {
            Some(match other.of(topic) {
                Some(theirs) => mine.difference(theirs).copied().collect(),
                None => mine.clone(),
            })
        })
    }

    /// The same topics with what `select` leaves of each.
    fn each_topic(&self, select: impl Fn(TopicId, &BTreeSet<i32>) -> Option<BTreeSet<i32>>) -> Assignment {
        let left = self.topics().filter_map(|(topic, mine)| {
            let left = select(topic, mine).filter(|left| !left.is_empty())?;
            Some((topic, left))
        });
        Assignment {
            topics: Arc::new(left.collect()),
        }
    }

    /// Says that nothing is in both.
    #[must_use]
    pub fn is_apart_from(&self, other: &Assignment) -> bool {
        let apart = |(topic, mine): (TopicId, &BTreeSet<i32>)| {
            other.of(topic).is_none_or(|theirs| mine.is_disjoint(theirs))
        };
        self.topics().all(apart)
    }

    /// Says that all of it is in the other.
    #[must_use]
    pub fn is_within(&self, other: &Assignment) -> bool {
        let within = |(topic, mine): (TopicId, &BTreeSet<i32>)| {
            other.of(topic).is_some_and(|theirs| mine.is_subset(theirs))
        };
        self.topics().all(within)
    }
}

impl FromIterator<PartitionId> for Assignment {
    fn from_iter<I: IntoIterator<Item = PartitionId>>(partitions: I) -> Self {
        let mut assignment = Assignment::default();
        assignment.extend(partitions);
        assignment
    }
}

impl Extend<PartitionId> for Assignment {
    fn extend<I: IntoIterator<Item = PartitionId>>(&mut self, partitions: I) {
        let mut by_topic: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
        for partition in partitions {
            by_topic.entry(partition.topic).or_default().push(partition.index);
        }
        let topics = Arc::make_mut(&mut self.topics);
        for (topic, indexes) in by_topic {
            // Sorted by the set itself, which takes less time than to find the place of each.
            let indexes: BTreeSet<i32> = indexes.into_iter().collect();
            match topics.entry(topic) {
                Entry::Vacant(new) => {
                    new.insert(indexes);
                }
                Entry::Occupied(mut known) => known.get_mut().extend(indexes),
            }
        }
    }
}
