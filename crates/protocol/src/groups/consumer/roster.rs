//! The members of a group of the consumer protocol as they are durable: what each says, has and is to have, at which epochs.
//!
//! Shared with what plans the group's next change, perhaps on another thread. It changes by durable changes only, and none is
//! under way while the next is planned.

use std::collections::BTreeMap;

use super::super::Assignment;
use super::super::contract::{DescribedConsumer, DescribedConsumerMember, GroupState, Name, NamedPartitions};
use super::super::records::{Change, Progress, What};
use super::super::topics::Topics;
use super::owners::Owners;
use super::target::Outlook;
use super::{Member, removals_of};

/// See the module.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    pub(super) epoch: i32,
    pub(super) topics_hash: i64,
    pub(super) target_epoch: i32,
    pub(super) members: BTreeMap<Name, Member>,
    pub(super) owners: Owners,
}

impl Roster {
    /// Says whether there is nothing to remember.
    pub(super) fn is_hollow(&self) -> bool {
        self.epoch == 0 && self.members.is_empty()
    }

    pub(super) fn state(&self) -> GroupState {
        if self.members.is_empty() {
            GroupState::Empty
        } else if self.epoch > self.target_epoch {
            GroupState::Assigning
        } else if self.members.values().all(|member| self.is_reconciled(member)) {
            GroupState::Stable
        } else {
            GroupState::Reconciling
        }
    }

    fn is_reconciled(&self, member: &Member) -> bool {
        member.current.progress == Progress::Stable && member.current.epoch == self.target_epoch
    }

    /// The group as operators see it. Topics that are gone are left out.
    pub(super) fn describe(&self, topics: &Topics) -> DescribedConsumer {
        let members = self.members.iter().map(|(name, member)| DescribedConsumerMember {
            member: Name::clone(name),
            instance: member.said.instance.clone(),
            rack: member.said.rack.clone(),
            client_id: Name::clone(&member.said.client_id),
            client_host: Name::clone(&member.said.client_host),
            epoch: member.current.epoch,
            rebalance_timeout: member.said.rebalance_timeout,
            topics: member.said.topics.clone(),
            regex: member.said.regex.clone(),
            assignment: named_partitions(topics, &member.current.assigned),
            target: named_partitions(topics, &member.target),
            is_classic: member.said.classic.is_some(),
        });
        DescribedConsumer {
            state: self.state(),
            epoch: self.epoch,
            target_epoch: self.target_epoch,
            assignor: Name::from(self.assignor(&Outlook::default()).name()),
            members: members.collect(),
        }
    }

    /// The changes that take the group out of the log, members first.
    pub(super) fn removals(&self, group: &Name) -> Vec<Change> {
        let mut changes = Vec::new();
        for name in self.members.keys() {
            changes.extend(removals_of(group, name));
        }
        if !self.is_hollow() {
            changes.push(Change::of(group, What::TargetEpoch(None)));
            changes.push(Change::of(group, What::Consumer(None)));
        }
        changes
    }
}

fn named_partitions(topics: &Topics, assignment: &Assignment) -> Vec<NamedPartitions> {
    assignment
        .topics()
        .filter_map(|(id, indexes)| {
            let (topic, _) = topics.with_id(id)?;
            Some(NamedPartitions {
                topic: Name::clone(topic),
                id,
                partitions: indexes.iter().copied().collect(),
            })
        })
        .collect()
}
