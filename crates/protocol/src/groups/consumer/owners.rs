//! The owner of each partition of a group of the consumer protocol, also one that may still have it, and since which of its epochs.
//!
//! Follows what members have as that becomes durable. A partition has one owner: nobody else may be given it.

use std::collections::BTreeMap;

use record::{PartitionId, TopicId};

use super::super::Assignment;
use super::super::contract::Name;
use super::super::records::CurrentValue;

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Owners {
    by_topic: BTreeMap<TopicId, BTreeMap<i32, Owner>>,
    count: usize,
}

#[derive(Debug, Clone)]
struct Owner {
    member: Name,
    /// The member's epoch when it got the partition; after a restart perhaps a later one, as the log need not have all that
    /// the member had.
    since_epoch: i32,
}

impl Owners {
    /// Returns the number of partitions that have an owner.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Says whether no member but this one has the partition.
    pub(super) fn is_free_for(&self, member: &Name, partition: PartitionId) -> bool {
        self.of(partition).is_none_or(|owner| owner == member)
    }

    pub(super) fn of(&self, partition: PartitionId) -> Option<&Name> {
        self.owner(partition).map(|owner| &owner.member)
    }

    /// Since which of its epochs the member has the partition, if it has it.
    pub(super) fn since_epoch(&self, member: &Name, partition: PartitionId) -> Option<i32> {
        let owner = self.owner(partition)?;
        (owner.member == *member).then_some(owner.since_epoch)
    }

    fn owner(&self, partition: PartitionId) -> Option<&Owner> {
        self.by_topic.get(&partition.topic)?.get(&partition.index)
    }

    /// A member has this now. What it had before and keeps it has since then.
    pub(super) fn change(&mut self, member: &Name, before: Option<&CurrentValue>, now: &CurrentValue) {
        for had in before.into_iter().flat_map(held) {
            self.free(member, &had.without(&now.assigned).without(&now.revoking));
        }
        // One that is away has no epoch but the one before.
        let since_epoch = now.epoch.max(now.previous_epoch);
        for (topic, indexes) in held(now).into_iter().flat_map(Assignment::topics) {
            let owners = self.by_topic.entry(topic).or_default();
            let before = owners.len();
            for index in indexes {
                let new = || Owner {
                    member: Name::clone(member),
                    since_epoch,
                };
                let owner = owners.entry(*index).or_insert_with(new);
                if owner.member != *member {
                    *owner = new();
                }
            }
            self.count += owners.len() - before;
        }
    }

    /// Frees the partitions that the member had.
    pub(super) fn release(&mut self, member: &Name, before: &CurrentValue) {
        for had in held(before) {
            self.free(member, had);
        }
    }

    fn free(&mut self, member: &Name, partitions: &Assignment) {
        for (topic, indexes) in partitions.topics() {
            let Some(owners) = self.by_topic.get_mut(&topic) else {
                continue;
            };
            let before = owners.len();
            for index in indexes {
                if owners.get(index).is_some_and(|owner| owner.member == *member) {
                    owners.remove(index);
                }
            }
            self.count -= before - owners.len();
            if owners.is_empty() {
                self.by_topic.remove(&topic);
            }
        }
    }
}

/// Returns the partitions that a member has, and those that it may still have.
fn held(current: &CurrentValue) -> [&Assignment; 2] {
    [&current.assigned, &current.revoking]
}
