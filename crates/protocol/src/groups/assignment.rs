//! A set of partitions, by topic id: what a member has, gives up or is to have.
//!
//! Stands under the consumer protocol. A topic without partitions never stands in it, so that equal sets are equal.

use std::collections::{BTreeMap, BTreeSet};

use record::{PartitionId, TopicId};

/// A set of partitions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assignment {
    topics: BTreeMap<TopicId, BTreeSet<i32>>,
}

impl Assignment {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// How many partitions there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.topics.values().map(BTreeSet::len).sum()
    }

    /// Whether a partition is in it.
    #[must_use]
    pub fn contains(&self, partition: PartitionId) -> bool {
        self.topics
            .get(&partition.topic)
            .is_some_and(|indexes| indexes.contains(&partition.index))
    }

    /// Adds a partition; says whether it is new.
    pub fn insert(&mut self, partition: PartitionId) -> bool {
        self.topics
            .entry(partition.topic)
            .or_default()
            .insert(partition.index)
    }

    /// Takes a partition out; says whether it was there.
    pub fn remove(&mut self, partition: PartitionId) -> bool {
        let Some(indexes) = self.topics.get_mut(&partition.topic) else {
            return false;
        };
        let removed = indexes.remove(&partition.index);
        if indexes.is_empty() {
            self.topics.remove(&partition.topic);
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

    /// What is in both.
    #[must_use]
    pub fn and(&self, other: &Assignment) -> Assignment {
        self.iter()
            .filter(|partition| other.contains(*partition))
            .collect()
    }

    /// What is in this one only.
    #[must_use]
    pub fn without(&self, other: &Assignment) -> Assignment {
        self.iter()
            .filter(|partition| !other.contains(*partition))
            .collect()
    }

    /// Whether nothing is in both.
    #[must_use]
    pub fn is_apart_from(&self, other: &Assignment) -> bool {
        !self.iter().any(|partition| other.contains(partition))
    }

    /// Whether all of it is in the other.
    #[must_use]
    pub fn is_within(&self, other: &Assignment) -> bool {
        self.iter().all(|partition| other.contains(partition))
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
        for partition in partitions {
            self.insert(partition);
        }
    }
}
