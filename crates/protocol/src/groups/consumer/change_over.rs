//! A group changes over to the other protocol while its members stay (KIP-848, both ways).
//!
//! A stable classic group becomes one of the consumer protocol when the first such member joins; it becomes classic again
//! when the last such member goes. Partitions keep their owners, generations and epochs only grow.

use std::collections::BTreeSet;

use super::super::Assignment;
use super::super::classic::{Classic, MemberSnapshot};
use super::super::consumer_protocol::{self, Subscription};
use super::super::context::{Context, Gate, Then};
use super::super::contract::{Answer, ConsumerHeartbeat, GroupError, Name, Request, Ticket};
use super::super::group::{Group, Kind};
use super::super::records::{
    Change, ClassicFace, ClassicMemberValue, ClassicValue, ConsumerValue, CurrentValue, MemberValue,
    Progress, What,
};
use super::{Consumer, Member};

impl Group {
    /// Turns a stable classic group of consumers over; the request comes again when that is durable. Else answers it.
    pub(super) fn upgrade(&mut self, cx: &mut Context, ticket: Ticket, request: &ConsumerHeartbeat) {
        let Kind::Classic(classic) = &self.kind else {
            unreachable!("called for classic groups");
        };
        match plan_upgrade(classic, cx, &self.name) {
            Ok(changes) => {
                let then = Then::again(ticket, Request::ConsumerHeartbeat(request.clone()));
                cx.persist(&self.name, changes, Gate::Closed, then);
            }
            Err(error) => cx.answer(ticket, Answer::ConsumerHeartbeat(Err(error))),
        }
    }
}

fn plan_upgrade(classic: &Classic, cx: &Context, group: &Name) -> Result<Vec<Change>, GroupError> {
    let not_consumers = || GroupError::GroupNotFound {
        group: Name::clone(group),
    };
    if !classic.is_of_consumers() {
        return Err(not_consumers());
    }
    let (generation, members) = classic.stable_members().ok_or(GroupError::ChangingOver)?;
    let mut changes = vec![Change::of(group, What::Classic(None))];
    let mut taken = Assignment::default();
    for member in members {
        changes.extend(upgraded(cx, group, generation, member, &mut taken).ok_or_else(not_consumers)?);
    }
    // No hash of topics yet: the first look at the topics raises the epoch.
    let value = ConsumerValue {
        epoch: generation,
        topics_hash: 0,
    };
    changes.push(Change::of(group, What::Consumer(Some(value))));
    changes.push(Change::of(group, What::TargetEpoch(Some(generation))));
    Ok(changes)
}

/// A member as it is in the consumer protocol. A leader that gave a partition to two is not followed.
fn upgraded(
    cx: &Context,
    group: &Name,
    generation: i32,
    member: MemberSnapshot,
    taken: &mut Assignment,
) -> Option<[Change; 3]> {
    let subscription = Subscription::parse(&member.protocols.first()?.metadata)?;
    let assigned = consumer_protocol::read_assignment(&cx.topics, &member.assignment)?;
    if !assigned.is_apart_from(taken) {
        return None;
    }
    taken.extend(assigned.iter());
    let topics: BTreeSet<Name> = subscription.topics.into_iter().collect();
    let said = MemberValue {
        instance: member.instance,
        rack: subscription.rack,
        client_id: member.client_id,
        client_host: member.client_host,
        topics: topics.into_iter().collect(),
        regex: None,
        rebalance_timeout: member.rebalance_timeout,
        assignor: None,
        classic: Some(ClassicFace {
            session_timeout: member.session_timeout,
            protocols: member.protocols,
        }),
    };
    let current = CurrentValue {
        epoch: generation,
        previous_epoch: generation,
        progress: Progress::Stable,
        assigned: assigned.clone(),
        revoking: Assignment::default(),
    };
    let name = member.name;
    Some([
        Change::of(group, What::Member(Name::clone(&name), Some(said))),
        Change::of(group, What::Target(Name::clone(&name), Some(assigned))),
        Change::of(group, What::Current(name, Some(current))),
    ])
}

impl Consumer {
    /// The changes that make this a classic group again, if only members of that protocol stay. It has no leader in the
    /// log, which tells whoever replays it that the members must join again.
    pub(super) fn plan_downgrade(
        &self,
        cx: &Context,
        group: &Name,
        gone: &BTreeSet<Name>,
    ) -> Option<Vec<Change>> {
        let stay: Vec<(&Name, &Member, &ClassicFace)> = self
            .members
            .iter()
            .filter(|(name, _)| !gone.contains(*name))
            .map(|(name, member)| member.said.classic.as_ref().map(|face| (name, member, face)))
            .collect::<Option<_>>()?;
        let (_, _, first) = stay.first()?;
        let protocol = first.protocols.iter().find(|protocol| {
            stay.iter()
                .all(|(_, _, face)| face.protocols.iter().any(|known| known.name == protocol.name))
        })?;
        let members = stay
            .iter()
            .map(|(name, member, face)| downgraded(cx, name, member, face, &protocol.name))
            .collect();
        let value = ClassicValue {
            protocol_type: Name::from(super::super::classic::CONSUMER_TYPE),
            generation: self.epoch,
            protocol: Some(Name::clone(&protocol.name)),
            leader: None,
            state_since_ms: cx.unix_ms(),
            members,
        };
        let mut changes = vec![Change::of(group, What::Classic(Some(value)))];
        changes.extend(self.removals(group));
        Some(changes)
    }
}

fn downgraded(
    cx: &Context,
    name: &Name,
    member: &Member,
    face: &ClassicFace,
    protocol: &Name,
) -> ClassicMemberValue {
    let metadata = face.protocols.iter().find(|known| known.name == *protocol);
    ClassicMemberValue {
        member: Name::clone(name),
        instance: member.said.instance.clone(),
        client_id: Name::clone(&member.said.client_id),
        client_host: Name::clone(&member.said.client_host),
        rebalance_timeout: member.said.rebalance_timeout,
        session_timeout: face.session_timeout,
        metadata: metadata.map(|known| known.metadata.clone()).unwrap_or_default(),
        assignment: consumer_protocol::write_assignment(&cx.topics, &member.current.assigned),
    }
}
