//! The room of a group of the consumer protocol for what a member says: limits come before memory.

use record::RECORD_OVERHEAD_BYTES_MAX;

use super::super::context::Context;
use super::super::contract::{GroupError, Name};
use super::super::records::MemberValue;
use super::change_over::log_bytes_max;
use super::heartbeat::Sender;
use super::saying::wishes_differ;
use super::subscription::wanted_partitions;
use super::{Consumer, Member};

/// Bytes that a member takes beside its texts.
const MEMBER_BYTES: usize = 512;
/// Bytes that a name in a list takes beside its text.
const LISTED_BYTES: usize = 32;
/// Bytes that a key takes beside the names in it, at most: a type and two lengths.
const KEY_BYTES: usize = 16;
/// Bytes that a record of a member takes in a batch beside the names in its key, and the number of a member's records.
const RECORD_BYTES: usize = RECORD_OVERHEAD_BYTES_MAX + KEY_BYTES;
const MEMBER_RECORDS: usize = 3;
/// Bytes that a partition takes wherever it stands: in an assignment, or with its owner's name.
const PARTITION_BYTES: usize = 64;

impl Consumer {
    /// The bytes that members and their partitions take, roughly.
    pub(crate) fn held_bytes(&self) -> usize {
        self.members_bytes() + (self.held_partitions + self.roster.owners.len()) * PARTITION_BYTES
    }

    fn members_bytes(&self) -> usize {
        self.said_bytes + self.roster.members.len() * MEMBER_BYTES
    }

    /// That what the sender says fits beside what the others say.
    pub(super) fn check_saying(&self, cx: &Context, group: &Name, sender: &Sender) -> Result<(), GroupError> {
        if sender.said_before.is_none() {
            self.check_names(cx, group, &sender.name)?;
        }
        let before = sender.said_before.as_ref().map_or(0, said_bytes);
        let now = said_bytes(&sender.said);
        let max = cx.settings.consumer_bytes_max;
        if self.members_bytes() - before + now > max {
            let what = "bytes that the members of a consumer group say of themselves";
            return Err(GroupError::LimitReached { what, max });
        }
        cx.check_growth(sender.asks_for_more(cx))
    }

    /// That all members may go at once, or get something else: one batch of the log must have room for their records then.
    fn check_names(&self, cx: &Context, group: &Name, new: &Name) -> Result<(), GroupError> {
        let names = self.roster.members.keys().chain([new]);
        let of_each = names.map(|name| MEMBER_RECORDS * (RECORD_BYTES + group.len() + name.len()));
        let max = log_bytes_max(cx);
        if of_each.sum::<usize>() > max {
            let what = "bytes of records that name the members of a consumer group";
            return Err(GroupError::LimitReached { what, max });
        }
        Ok(())
    }
}

impl Sender {
    /// Says whether the group takes more memory with what it says now. Its expression is known.
    fn asks_for_more(&self, cx: &Context) -> bool {
        let Some(before) = &self.said_before else {
            return true;
        };
        if said_bytes(&self.said) > said_bytes(before) {
            return true;
        }
        wishes_differ(before, &self.said) && wanted_partitions(cx, &self.said) > wanted_partitions(cx, before)
    }
}

impl Member {
    /// Each one counted as often as it is held.
    pub(super) fn partition_count(&self) -> usize {
        self.target.len() + self.current.assigned.len() + self.current.revoking.len()
    }
}

/// Returns the bytes that a member takes, without its partitions.
pub(super) fn member_bytes(name: &Name, said: &MemberValue) -> usize {
    MEMBER_BYTES + name.len() + said_bytes(said)
}

/// The texts that a member says.
pub(super) fn said_bytes(said: &MemberValue) -> usize {
    let optional = [&said.instance, &said.rack, &said.regex, &said.assignor];
    let plain = [&said.client_id, &said.client_host];
    let protocols = said.classic.iter().flat_map(|face| &face.protocols);
    optional
        .into_iter()
        .flatten()
        .chain(plain)
        .map(|name| name.len())
        .chain(said.topics.iter().map(listed))
        .chain(protocols.map(|protocol| listed(&protocol.name) + protocol.metadata.len()))
        .sum()
}

fn listed(name: &Name) -> usize {
    LISTED_BYTES + name.len()
}
