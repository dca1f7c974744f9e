//! A classic group as a record and back. What is not in the record (who waits, who votes for what) begins anew.

use std::time::Duration;

use bytes::Bytes;

use super::super::context::Context;
use super::super::contract::{Name, Protocol};
use super::super::records::{ClassicMemberValue, ClassicValue};
use super::{Classic, Member, Phase};

impl Classic {
    pub(super) fn to_stored(&self) -> ClassicValue {
        let mut members: Vec<(&Name, &Member)> = self.members.iter().collect();
        members.sort_by_key(|(_, member)| member.turn);
        ClassicValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_since_ms: self.state_since_ms,
            members: members
                .into_iter()
                .map(|(name, member)| ClassicMemberValue {
                    member: Name::clone(name),
                    instance: member.instance.clone(),
                    client_id: Name::clone(&member.client_id),
                    client_host: Name::clone(&member.client_host),
                    rebalance_timeout: member.rebalance_timeout,
                    session_timeout: member.session_timeout,
                    metadata: member.metadata_for(self.protocol.as_ref()),
                    assignment: member.assignment.clone(),
                })
                .collect(),
        }
    }

    pub(crate) fn from_stored(stored: ClassicValue) -> Classic {
        let mut classic = Classic {
            phase: if stored.members.is_empty() {
                Phase::Empty
            } else {
                Phase::Stable
            },
            protocol_type: Some(Name::clone(&stored.protocol_type)).filter(|name| !name.is_empty()),
            generation: stored.generation,
            protocol: stored.protocol.clone(),
            leader: stored.leader.clone(),
            state_since_ms: stored.state_since_ms,
            ..Classic::default()
        };
        for value in &stored.members {
            let member = member_of(value, stored.protocol.as_ref(), classic.next_turn);
            classic.next_turn += 1;
            if let Some(instance) = &member.instance {
                classic
                    .instances
                    .insert(Name::clone(instance), Name::clone(&value.member));
            }
            classic.members.insert(Name::clone(&value.member), member);
        }
        classic.stored = Some(stored);
        classic
    }

    /// Members have a full session to be heard of after a start.
    pub(crate) fn handle_loaded(&mut self, cx: &mut Context, group: &Name) {
        for member in self.members.values_mut() {
            member.touch(cx);
        }
        self.rebalance_if_changed_over(cx, group);
    }

    /// A group that was of the consumer protocol just now has no leader: its members are to join again.
    pub(crate) fn rebalance_if_changed_over(&mut self, cx: &mut Context, group: &Name) {
        if self.phase == Phase::Stable && self.leader.is_none() {
            for member in self.members.values_mut() {
                member.touch(cx);
            }
            self.rebalance(cx, group);
        }
    }

    /// The generation and its members, if the group is stable.
    pub(crate) fn stable_members(&self) -> Option<(i32, Vec<MemberSnapshot>)> {
        if self.phase != Phase::Stable {
            return None;
        }
        let members = self.members.iter().map(|(name, member)| MemberSnapshot {
            name: Name::clone(name),
            instance: member.instance.clone(),
            client_id: Name::clone(&member.client_id),
            client_host: Name::clone(&member.client_host),
            rebalance_timeout: member.rebalance_timeout,
            session_timeout: member.session_timeout,
            protocols: member.protocols.clone(),
            assignment: member.assignment.clone(),
        });
        Some((self.generation, members.collect()))
    }
}

/// A member as it is handed to the other protocol.
pub(crate) struct MemberSnapshot {
    pub(crate) name: Name,
    pub(crate) instance: Option<Name>,
    pub(crate) client_id: Name,
    pub(crate) client_host: Name,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) session_timeout: Duration,
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Bytes,
}

fn member_of(value: &ClassicMemberValue, protocol: Option<&Name>, turn: u64) -> Member {
    let metadata = value.metadata.clone();
    Member {
        instance: value.instance.clone(),
        client_id: Name::clone(&value.client_id),
        client_host: Name::clone(&value.client_host),
        rebalance_timeout: value.rebalance_timeout,
        session_timeout: value.session_timeout,
        protocols: protocol
            .map(|name| Protocol {
                name: Name::clone(name),
                metadata,
            })
            .into_iter()
            .collect(),
        assignment: value.assignment.clone(),
        turn,
        is_new: false,
        synced: true,
        awaiting_join: None,
        awaiting_sync: None,
        expires: Duration::MAX,
    }
}
