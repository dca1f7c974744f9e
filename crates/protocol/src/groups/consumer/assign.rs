//! The input and the output of a server-side assignor: members with wishes, topics with partitions.
//!
//! Pure functions of their input, the same on every node. Members are numbered here by their place in the list. Thousands of
//! them may have one expression that matches thousands of topics: what these want is held once, and so is the list of them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

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
    pub(crate) fn assign(self, group_spec: &GroupSpec) -> Vec<Assignment> {
        match self {
            Assignor::Uniform => assign_uniform(group_spec),
            Assignor::Range => assign_range(group_spec),
        }
    }
}

/// Members and topics, as an assignor is given them (Kafka: GroupSpec).
#[derive(Debug, Default)]
pub(crate) struct GroupSpec {
    /// In the order of their names.
    pub(crate) members: Vec<MemberSpec>,
    /// All wanted topics with their numbers of partitions.
    pub(crate) topics: BTreeMap<TopicId, i32>,
}

/// One member, its topics and its partitions (Kafka: MemberSubscriptionSpec).
#[derive(Debug)]
pub(crate) struct MemberSpec {
    pub(crate) member: Name,
    pub(crate) instance: Option<Name>,
    /// The topics that it names, without those that its expression matches.
    pub(crate) named: BTreeSet<TopicId>,
    /// The topics that its expression matches, shared by all who have that.
    pub(crate) matched: Rc<BTreeSet<TopicId>>,
    /// The partitions that it was to have so far.
    pub(crate) before: Assignment,
    /// The partitions that it has.
    pub(crate) has: Assignment,
}

impl MemberSpec {
    pub(super) fn wants(&self, topic: TopicId) -> bool {
        self.named.contains(&topic) || self.matched.contains(&topic)
    }
}

impl GroupSpec {
    /// Says that all members want the same, which is everything that anybody wants.
    pub(super) fn are_alike(&self) -> bool {
        let mut members = self.members.iter();
        members.all(|member| member.named.len() + member.matched.len() == self.topics.len())
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.topics
            .iter()
            .flat_map(|(topic, count)| (0..*count).map(|index| PartitionId { topic: *topic, index }))
    }

    /// Says whether a member may keep a partition that it had.
    pub(super) fn may_keep(&self, member: &MemberSpec, partition: PartitionId) -> bool {
        member.wants(partition.topic)
            && self
                .topics
                .get(&partition.topic)
                .is_some_and(|count| (0..*count).contains(&partition.index))
    }
}

/// The members that want a topic, by their places in some order.
#[derive(Debug, Default)]
pub(super) struct Readers {
    by_name: Vec<usize>,
    /// One list for each expression that matches the topic. It is the same one for all topics that the expression matches.
    by_expression: Vec<Rc<Vec<usize>>>,
}

impl Readers {
    fn lists(&self) -> impl Iterator<Item = &[usize]> {
        let by_expression = self.by_expression.iter().map(|places| places.as_slice());
        by_expression.chain([self.by_name.as_slice()])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &usize> {
        self.lists().flatten()
    }

    pub(super) fn count(&self) -> usize {
        self.lists().map(<[usize]>::len).sum()
    }

    /// So many of them in their order, and perhaps some more.
    pub(super) fn first(&self, count: usize) -> Vec<usize> {
        let firsts = self.lists().flat_map(|places| places.iter().take(count));
        let mut first: Vec<usize> = firsts.copied().collect();
        first.sort_unstable();
        first
    }
}

/// The members that want each topic, by their places in this order.
pub(super) fn readers<'a>(members: impl IntoIterator<Item = &'a MemberSpec>) -> BTreeMap<TopicId, Readers> {
    let mut readers: BTreeMap<TopicId, Readers> = BTreeMap::new();
    let mut by_expression: Vec<(&Rc<BTreeSet<TopicId>>, Vec<usize>)> = Vec::new();
    for (place, member) in members.into_iter().enumerate() {
        for topic in &member.named {
            readers.entry(*topic).or_default().by_name.push(place);
        }
        let known = by_expression
            .iter_mut()
            .find(|(matched, _)| Rc::ptr_eq(matched, &member.matched));
        match known {
            Some((_, places)) => places.push(place),
            None => by_expression.push((&member.matched, vec![place])),
        }
    }
    for (matched, places) in by_expression {
        let places = Rc::new(places);
        for topic in &**matched {
            let readers = readers.entry(*topic).or_default();
            readers.by_expression.push(Rc::clone(&places));
        }
    }
    readers
}
