//! A group changes over to the other protocol while its members stay (KIP-848, both ways).
//!
//! A stable classic group becomes one of the consumer protocol when the first such member joins; it becomes classic again
//! when the last such member goes. Partitions keep their owners, generations and epochs only grow.

use std::collections::BTreeSet;

use super::super::Assignment;
use super::super::classic::{Classic, MemberSnapshot};
use super::super::consumer_protocol::{self, CONSUMER_TYPE, Subscription};
use super::super::context::Context;
use super::super::contract::{ConsumerHeartbeat, GroupError, MemberPresence, Name};
use super::super::records::{
    Change, ClassicFace, ClassicMemberValue, ClassicValue, ConsumerValue, CurrentValue, MemberValue,
    Progress, What,
};
use super::planning::{Asker, Planning, View};
use super::room::member_bytes;
use super::roster::Roster;
use super::{Consumer, Member};

/// The first member of the consumer protocol joins a classic group: the group changes over and takes it in by one change,
/// so that a request which is refused leaves the group as it is.
pub(super) fn plan_change_over(
    classic: &Classic,
    cx: &mut Context,
    group: &Name,
    request: &ConsumerHeartbeat,
    asker: Asker,
) -> Result<Planning, GroupError> {
    if request.presence != MemberPresence::Joining {
        return Err(GroupError::UnknownMember {
            member: Name::clone(&request.member),
        });
    }
    let upgrade = if classic.member_count() > 0 {
        plan_upgrade(classic, cx, group)?
    } else {
        Vec::new()
    };
    let mut consumer = Consumer::default();
    for change in &upgrade {
        consumer.apply(change.what.clone());
    }
    let step = consumer.begin_heartbeat(cx, group, request)?;
    let mut changes = Vec::new();
    if classic.stored.is_some() {
        changes.push(Change::of(group, What::Classic(None)));
    }
    changes.extend(upgrade);
    Ok(consumer.planning(cx, group, step, asker).behind(changes))
}

/// The members of a stable classic group of consumers as those of a group of the consumer protocol.
fn plan_upgrade(classic: &Classic, cx: &Context, group: &Name) -> Result<Vec<Change>, GroupError> {
    let not_consumers = || GroupError::GroupNotFound {
        group: Name::clone(group),
    };
    if !classic.is_of_consumers() {
        return Err(not_consumers());
    }
    let (generation, members) = classic.stable_members().ok_or(GroupError::ChangingOver)?;
    let mut changes = Vec::new();
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

/// The bytes that one change may make the log take: it takes the record of any classic group.
pub(super) fn log_bytes_max(cx: &Context) -> usize {
    cx.settings.classic_bytes_max + cx.settings.assignment_bytes_max
}

fn fit_the_log(bytes_max: usize, changes: &[Change]) -> bool {
    let bytes = changes.iter().map(|change| change.encode().bytes());
    bytes.sum::<usize>() <= bytes_max
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
    /// The changes that make this a classic group again, if only members of that protocol are there.
    pub(super) fn plan_downgrade(&self, cx: &Context, group: &Name) -> Option<Vec<Change>> {
        self.roster
            .plan_downgrade(&self.view(cx), group, &BTreeSet::new())
    }
}

impl Roster {
    /// The changes that make this a classic group again, if only members of that protocol stay and such a group has room
    /// for them. It has no leader in the log, which tells whoever replays it that the members must join again.
    pub(super) fn plan_downgrade(
        &self,
        view: &View,
        group: &Name,
        gone: &BTreeSet<Name>,
    ) -> Option<Vec<Change>> {
        let stay: Vec<(&Name, &Member, &ClassicFace)> = self
            .members
            .iter()
            .filter(|(name, _)| !gone.contains(*name))
            .map(|(name, member)| member.said.classic.as_ref().map(|face| (name, member, face)))
            .collect::<Option<_>>()?;
        let said_bytes: usize = stay
            .iter()
            .map(|(name, member, _)| member_bytes(name, &member.said))
            .sum();
        if said_bytes > view.classic_bytes_max {
            return None;
        }
        let (_, _, first) = stay.first()?;
        let protocol = first.protocols.iter().find(|protocol| {
            stay.iter()
                .all(|(_, _, face)| face.protocols.iter().any(|known| known.name == protocol.name))
        })?;
        let members = stay
            .iter()
            .map(|(name, member, face)| downgraded(view, name, member, face, &protocol.name))
            .collect();
        let value = ClassicValue {
            protocol_type: Name::from(CONSUMER_TYPE),
            generation: self.epoch,
            protocol: Some(Name::clone(&protocol.name)),
            leader: None,
            state_since_ms: view.unix_ms,
            members,
        };
        let mut changes = vec![Change::of(group, What::Classic(Some(value)))];
        changes.extend(self.removals(group));
        fit_the_log(view.log_bytes_max, &changes).then_some(changes)
    }
}

fn downgraded(
    view: &View,
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
        assignment: consumer_protocol::write_assignment(&view.topics, &member.current.assigned),
    }
}
