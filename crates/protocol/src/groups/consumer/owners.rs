//! Who has each partition of a group of the consumer protocol, or may still have it, and since which of its epochs.
//!
//! Follows what members have as that becomes durable. A partition has one owner: nobody else may be given it.

use std::collections::HashMap;

use record::PartitionId;

use super::super::contract::Name;
use super::super::records::CurrentValue;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Owners {
    by_partition: HashMap<PartitionId, Owner>,
}

#[derive(Debug)]
struct Owner {
    member: Name,
    /// The member's epoch when it got the partition; after a restart perhaps a later one, as the log need not have all that
    /// the member had.
    since_epoch: i32,
}

impl Owners {
    /// How many partitions have an owner.
    pub(super) fn len(&self) -> usize {
        self.by_partition.len()
    }

    /// Whether no member but this one has the partition.
    pub(super) fn is_free_for(&self, member: &Name, partition: PartitionId) -> bool {
        self.of(partition).is_none_or(|owner| owner == member)
    }

    pub(super) fn of(&self, partition: PartitionId) -> Option<&Name> {
        self.by_partition.get(&partition).map(|owner| &owner.member)
    }

    /// Since which of its epochs the member has the partition, if it has it.
    pub(super) fn since_epoch(&self, member: &Name, partition: PartitionId) -> Option<i32> {
        let owner = self.by_partition.get(&partition)?;
        (owner.member == *member).then_some(owner.since_epoch)
    }

    /// A member has this now. What it had before and keeps it has since then.
    pub(super) fn change(&mut self, member: &Name, before: Option<&CurrentValue>, now: &CurrentValue) {
        for partition in before.into_iter().flat_map(held) {
            if !now.assigned.contains(partition) && !now.revoking.contains(partition) {
                self.free(member, partition);
            }
        }
        // One that is away has no epoch but the one before.
        let since_epoch = now.epoch.max(now.previous_epoch);
        for partition in held(now) {
            if self.of(partition) != Some(member) {
                let member = Name::clone(member);
                let owner = Owner { member, since_epoch };
                self.by_partition.insert(partition, owner);
            }
        }
    }

    /// What the member had is free.
    pub(super) fn release(&mut self, member: &Name, before: &CurrentValue) {
        for partition in held(before) {
            self.free(member, partition);
        }
    }

    fn free(&mut self, member: &Name, partition: PartitionId) {
        if self.of(partition) == Some(member) {
            self.by_partition.remove(&partition);
        }
    }
}

/// What a member has, and what it may still have.
fn held(current: &CurrentValue) -> impl Iterator<Item = PartitionId> + '_ {
    current.assigned.iter().chain(current.revoking.iter())
}
