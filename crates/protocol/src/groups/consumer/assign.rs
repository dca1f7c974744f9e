//! What a server-side assignor is given and what it gives: members with wishes, topics with partitions.
//!
//! Pure functions of their input, the same on every node. Members are numbered here by their place in the list.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use record::{PartitionId, TopicId};

use super::super::Assignment;
use super::super::contract::{GroupError, Name};
use super::assign_range::assign_range;
use super::assign_uniform::assign_uniform;

/// A server-side assignor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Assignor {
    /// As even as possible, and moving as little as possible.
    Uniform,
    /// Neighbouring partitions together, the same for topics with the same readers.
    Range,
}

impl Assignor {
    pub(crate) fn named(name: &Name) -> Result<Assignor, GroupError> {
        match &**name {
            "uniform" => Ok(Assignor::Uniform),
            "range" => Ok(Assignor::Range),
            _ => Err(GroupError::UnsupportedAssignor {
                assignor: Name::clone(name),
            }),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    /// Gives each partition of a wanted topic to one member that wants it; one assignment for each member.
    pub(crate) fn assign(self, wishes: &Wishes) -> Vec<Assignment> {
        match self {
            Assignor::Uniform => assign_uniform(wishes),
            Assignor::Range => assign_range(wishes),
        }
    }
}

/// Who wants what.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    /// In the order of their names.
    pub(crate) members: Vec<Wish>,
    /// All wanted topics with their numbers of partitions.
    pub(crate) topics: BTreeMap<TopicId, i32>,
}

/// What one member wants.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) member: Name,
    pub(crate) instance: Option<Name>,
    pub(crate) topics: BTreeSet<TopicId>,
    /// What it was to have so far.
    pub(crate) before: Assignment,
    /// What it has.
    pub(crate) has: Assignment,
}

impl Wishes {
    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.topics
            .iter()
            .flat_map(|(topic, count)| (0..*count).map(|index| PartitionId { topic: *topic, index }))
    }

    /// Whether a member may keep a partition that it had.
    pub(super) fn may_keep(&self, member: &Wish, partition: PartitionId) -> bool {
        member.topics.contains(&partition.topic)
            && self
                .topics
                .get(&partition.topic)
                .is_some_and(|count| (0..*count).contains(&partition.index))
    }

    /// The members that want each topic, by their places in the list.
    pub(super) fn readers(&self) -> BTreeMap<TopicId, Vec<usize>> {
        let mut readers: BTreeMap<TopicId, Vec<usize>> = BTreeMap::new();
        for (place, member) in self.members.iter().enumerate() {
            for topic in &member.topics {
                readers.entry(*topic).or_default().push(place);
            }
        }
        readers
    }
}
