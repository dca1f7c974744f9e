//! The room of a classic group for one more member, and for what it says: limits come before memory.
//!
//! The words of all members must fit into one record, beside what the leader hands out: a group whose record the log cannot
//! take would begin a new generation for ever, and nobody would ever get an assignment.

use bytes::Bytes;

use super::super::context::Context;
use super::super::contract::{GroupError, JoinGroup, Name, Protocol};
use super::{Classic, Member};

/// Bytes that a member takes beside its texts: more than the numbers in its record.
const MEMBER_BYTES: usize = 256;

impl Classic {
    /// The bytes that members take, roughly, and what is stored of them.
    pub(crate) fn held_bytes(&self) -> usize {
        let assignments = self.members.values().map(|member| member.assignment.len());
        let pending = self.pending.keys().map(|name| MEMBER_BYTES + name.len());
        self.members.said_bytes() + assignments.chain(pending).sum::<usize>() + self.stored_apart_bytes()
    }

    /// Bytes that the last stored generation holds and members hold no more, or not yet: the same bytes count once.
    fn stored_apart_bytes(&self) -> usize {
        let stored = self.stored.iter().flat_map(|stored| &stored.members);
        let apart = stored.map(|value| {
            let member = self.members.get(&value.member);
            let assignment = member.map(|member| &member.assignment);
            let protocols = member.into_iter().flat_map(|member| &member.protocols);
            let metadata = protocols.map(|protocol| &protocol.metadata);
            bytes_apart(&value.assignment, assignment) + bytes_apart(&value.metadata, metadata)
        });
        apart.sum()
    }

    /// That so many bytes of assignments may be handed out: as many as last time at least.
    pub(super) fn check_handing_out(&self, cx: &Context, bytes: usize) -> Result<(), GroupError> {
        let stored = self.stored.iter().flat_map(|stored| &stored.members);
        let stored_bytes: usize = stored.map(|value| value.assignment.len()).sum();
        cx.check_growth(bytes > stored_bytes)
    }

    /// That there may be one more member.
    pub(super) fn check_room(&self, cx: &Context) -> Result<(), GroupError> {
        let max = cx.settings.members_max;
        if self.members.len() + self.pending.len() >= max {
            return Err(GroupError::GroupFull { max });
        }
        Ok(())
    }

    /// That what a member says fits beside what the others say.
    pub(super) fn check_saying(&self, cx: &Context, request: &JoinGroup) -> Result<(), GroupError> {
        let known_as = request
            .instance
            .as_ref()
            .and_then(|instance| self.instances.get(instance))
            .unwrap_or(&request.member);
        let said_before = self
            .members
            .get(known_as)
            .map_or(0, |member| member.said_bytes(known_as));
        let all = self.members.said_bytes();
        let said = said_by(request);
        let max = cx.settings.classic_bytes_max;
        if all - said_before + said > max {
            let what = "bytes that the members of a classic group say of themselves";
            return Err(GroupError::LimitReached { what, max });
        }
        cx.check_growth(said > said_before)
    }
}

/// Returns the bytes that these take, unless they are the same memory as some of the others.
fn bytes_apart<'a>(bytes: &Bytes, others: impl IntoIterator<Item = &'a Bytes>) -> usize {
    let mut others = others.into_iter();
    if others.any(|other| other.as_ptr() == bytes.as_ptr()) {
        0
    } else {
        bytes.len()
    }
}

impl Member {
    pub(super) fn said_bytes(&self, name: &Name) -> usize {
        let instance = self.instance.as_ref().map_or(0, |instance| instance.len());
        let names = name.len() + instance + self.client_id.len() + self.client_host.len();
        MEMBER_BYTES + names + protocols_bytes(&self.protocols)
    }
}

/// Returns the bytes that a member would take that joins so. Its id may be longer than its instance's or its client's; that is in
/// `MEMBER_BYTES`.
fn said_by(request: &JoinGroup) -> usize {
    let instance = request.instance.as_ref().map_or(0, |instance| instance.len());
    let id = request.member.len().max(instance).max(request.client_id.len());
    let names = id + instance + request.client_id.len() + request.client_host.len();
    MEMBER_BYTES + names + protocols_bytes(&request.protocols)
}

fn protocols_bytes(protocols: &[Protocol]) -> usize {
    protocols
        .iter()
        .map(|protocol| protocol.name.len() + protocol.metadata.len())
        .sum()
}
