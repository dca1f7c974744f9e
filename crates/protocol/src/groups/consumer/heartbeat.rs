//! ConsumerGroupHeartbeat: joins, tells, learns, leaves. Plans changes; the answer comes when they are durable.
//!
//! A heartbeat that changes nothing is answered at once. A member is believed to be alive by any heartbeat that is
//! accepted, durable changes or not.

use std::collections::BTreeSet;

use super::super::Assignment;
use super::super::context::{Context, uuid};
use super::super::contract::{Answer, ConsumerHeartbeat, GroupError, Heard, MemberPresence, Name, Ticket};
use super::super::group::{Group, Kind};
use super::super::records::{Change, CurrentValue, MemberValue, Progress, What};
use super::assign::Assignor;
use super::change_over::plan_change_over;
use super::planning::{Asker, Plan, PlannedAnswer, Planning, Step, View};
use super::reconcile::reconcile;
use super::roster::Roster;
use super::saying::{check_member_epoch, check_shape, merge, says_all, wishes_differ};
use super::target::{Changed, Outlook};
use super::{AWAY_EPOCH, Consumer, removals_of};

/// The sender of a request: the member as it is to be, and as it was.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(super) name: Name,
    pub(super) said: MemberValue,
    /// Its subscription before; none for one that is new.
    pub(super) said_before: Option<MemberValue>,
    pub(super) current: CurrentValue,
    pub(super) target: Assignment,
    /// The static member whose place it takes.
    pub(super) replaces: Option<Name>,
}

impl Sender {
    /// The changes that make the member what it is to be, in the place of the one that it replaces.
    fn changes(&self, group: &Name) -> Vec<Change> {
        let mut changes: Vec<Change> = self
            .replaces
            .iter()
            .flat_map(|before| removals_of(group, before))
            .collect();
        if self.said_before.as_ref() != Some(&self.said) || self.replaces.is_some() {
            let what = What::Member(Name::clone(&self.name), Some(self.said.clone()));
            changes.push(Change::of(group, what));
        }
        if self.replaces.is_some() {
            let what = What::Target(Name::clone(&self.name), Some(self.target.clone()));
            changes.push(Change::of(group, what));
        }
        changes
    }

    /// Says whether it has all that it should at the group's target epoch, and else how many partitions it is to be reconciled
    /// with.
    pub(super) fn reconciles(&self, target_epoch: i32) -> (bool, usize) {
        let CurrentValue {
            epoch,
            progress,
            assigned,
            revoking,
            ..
        } = &self.current;
        let is_settled = *progress == Progress::Stable && *epoch == target_epoch;
        (is_settled, assigned.len() + revoking.len() + self.target.len())
    }

    /// Says that the group must be assigned anew because of what it says now.
    pub(super) fn wants_else(&self) -> bool {
        self.said_before
            .as_ref()
            .is_none_or(|before| wishes_differ(before, &self.said))
    }

    fn outlook(&self) -> Outlook<'_> {
        Outlook {
            member: Some(Changed {
                name: &self.name,
                said: &self.said,
                target: &self.target,
                has: &self.current.assigned,
            }),
            gone: self.replaces.iter().cloned().collect(),
        }
    }
}

impl Group {
    /// Handles ConsumerGroupHeartbeat.
    pub(crate) fn consumer_heartbeat(
        &mut self,
        cx: &mut Context,
        ticket: Ticket,
        request: &ConsumerHeartbeat,
    ) {
        match self.begin_heartbeat(cx, ticket, request) {
            Err(error) => cx.answer(ticket, Answer::ConsumerHeartbeat(Err(error))),
            Ok(planning) => {
                self.plan(cx, planning);
            }
        }
    }

    fn begin_heartbeat(
        &mut self,
        cx: &mut Context,
        ticket: Ticket,
        request: &ConsumerHeartbeat,
    ) -> Result<Planning, GroupError> {
        check_shape(request)?;
        if let Some(assignor) = &request.assignor {
            Assignor::named(assignor)?;
        }
        let asker = Asker::Member(ticket);
        match &mut self.kind {
            Kind::Classic(classic) => plan_change_over(classic, cx, &self.name, request, asker),
            Kind::Consumer(consumer) => {
                let step = consumer.begin_heartbeat(cx, &self.name, request)?;
                Ok(consumer.planning(cx, &self.name, step, asker))
            }
        }
    }
}

impl Consumer {
    /// Takes a heartbeat of the right shape, and says what is to be planned for it.
    pub(super) fn begin_heartbeat(
        &mut self,
        cx: &mut Context,
        group: &Name,
        request: &ConsumerHeartbeat,
    ) -> Result<Step, GroupError> {
        match request.presence {
            MemberPresence::Leaving => self.begin_leave(cx, request),
            MemberPresence::LeavingForAWhile => self.plan_away(cx, group, request),
            MemberPresence::Joining | MemberPresence::At(_) => {
                let sender = self.find_sender(cx, request)?;
                if let Some(regex) = &sender.said.regex {
                    self.learn_regex(cx, regex)?;
                }
                if let Err(error) = self.check_saying(cx, group, &sender) {
                    self.forget_unused_expressions();
                    return Err(error);
                }
                self.touch_session(cx, &sender.name);
                let tells_all = request.presence == MemberPresence::Joining || says_all(request);
                Ok(Step::Presence {
                    sender: Box::new(sender),
                    owned: request.owned.clone(),
                    tells_all,
                })
            }
        }
    }

    pub(super) fn touch_session(&mut self, cx: &mut Context, name: &Name) {
        if let Some(member) = self.roster_mut().members.get_mut(name) {
            let expires = cx.now + member.session_timeout(cx);
            member.expires = Some(expires);
            cx.wake_at(expires);
        }
    }

    /// Finds the member that a heartbeat is from, or makes it up if it joins.
    fn find_sender(&self, cx: &Context, request: &ConsumerHeartbeat) -> Result<Sender, GroupError> {
        let joins = request.presence == MemberPresence::Joining;
        let name = if request.member.is_empty() {
            Name::from(uuid(request.random))
        } else {
            Name::clone(&request.member)
        };
        if !joins {
            let member = self.check_member(&name, request.instance.as_ref())?;
            check_member_epoch(&member.current, request)?;
            return Ok(self.sender_as(request, &name, name.clone(), None));
        }
        if let Some(instance) = &request.instance
            && let Some(holder) = self.instances.get(instance)
            && *holder != name
        {
            let held = self
                .roster
                .members
                .get(holder)
                .expect("every instance is a member's");
            // A member of the classic protocol cannot say that it will be back.
            if held.current.epoch != AWAY_EPOCH && held.said.classic.is_none() {
                return Err(GroupError::UnreleasedInstance {
                    instance: Name::clone(instance),
                });
            }
            return Ok(self.sender_as(request, holder, name, Some(Name::clone(holder))));
        }
        let max = cx.settings.members_max;
        if !self.roster.members.contains_key(&name) && self.roster.members.len() >= max {
            return Err(GroupError::GroupFull { max });
        }
        Ok(self.sender_as(request, &name, name.clone(), None))
    }

    /// The sender under its name, as what was known so far under another perhaps.
    fn sender_as(
        &self,
        request: &ConsumerHeartbeat,
        known_as: &Name,
        name: Name,
        replaces: Option<Name>,
    ) -> Sender {
        let known = self.roster.members.get(known_as);
        let blank = super::Member::default();
        let base = known.unwrap_or(&blank);
        let mut current = base.current.clone();
        if current.epoch == AWAY_EPOCH {
            // It is back: it begins again at 0 with what was kept for it.
            current.epoch = 0;
            current.previous_epoch = 0;
        }
        Sender {
            name,
            said: merge(&base.said, request),
            said_before: known.map(|known| known.said.clone()),
            current,
            target: base.target.clone(),
            replaces,
        }
    }

    fn begin_leave(&self, cx: &Context, request: &ConsumerHeartbeat) -> Result<Step, GroupError> {
        // A static member may leave for good after its place has been taken by its instance id.
        self.check_member(&request.member, request.instance.as_ref())?;
        Ok(Step::Departure {
            gone: BTreeSet::from([Name::clone(&request.member)]),
            answer: PlannedAnswer::Heard(left(cx, request)),
        })
    }

    /// A static member leaves and will be back: what it has is kept for it until its session ends.
    fn plan_away(&self, cx: &Context, group: &Name, request: &ConsumerHeartbeat) -> Result<Step, GroupError> {
        let member = self.check_member(&request.member, request.instance.as_ref())?;
        let current = CurrentValue {
            epoch: AWAY_EPOCH,
            previous_epoch: member.current.epoch,
            progress: Progress::Stable,
            assigned: member.current.assigned.clone(),
            revoking: Assignment::default(),
        };
        let what = What::Current(Name::clone(&request.member), Some(current));
        Ok(Step::Done(Plan {
            changes: vec![Change::of(group, what)],
            answer: PlannedAnswer::Heard(left(cx, request)),
        }))
    }
}

impl Roster {
    /// A member that joins or is there: what it says, what it is to have, what it gets now. `owned` is what it says that
    /// it has; one that `tells_all` is told all.
    pub(super) fn plan_presence(
        &self,
        view: &View,
        group: &Name,
        owned: Option<&Assignment>,
        tells_all: bool,
        topics_changed: bool,
        sender: Sender,
    ) -> Plan {
        let mut changes = sender.changes(group);
        let mut target_epoch = self.target_epoch;
        let mut new_target = None;
        if topics_changed || sender.wants_else() {
            let new = self.plan_epoch(view, group, &sender.outlook());
            changes.extend(new.changes);
            target_epoch = new.epoch;
            new_target = new.member_target;
        }
        let target = new_target.as_ref().unwrap_or(&sender.target);
        let next = reconcile(&sender.current, target, target_epoch, owned, |partition| {
            let owner = self.owners.of(partition);
            owner.is_none_or(|owner| *owner == sender.name || sender.replaces.as_ref() == Some(owner))
        });
        let takes_a_place = sender.replaces.is_some();
        if next != sender.current || takes_a_place || sender.said_before.is_none() {
            let what = What::Current(Name::clone(&sender.name), Some(next.clone()));
            changes.push(Change::of(group, what));
        }
        let is_told = tells_all || takes_a_place || next.assigned != sender.current.assigned;
        let assignment = is_told.then(|| next.assigned.clone());
        Plan {
            changes,
            answer: PlannedAnswer::Heard(Heard {
                member: sender.name,
                epoch: next.epoch,
                heartbeat_interval: view.heartbeat_interval,
                assignment,
            }),
        }
    }

    /// Members go: they are taken out, and the others get what was theirs to have.
    pub(super) fn plan_departure(&self, view: &View, group: &Name, gone: BTreeSet<Name>) -> Vec<Change> {
        if let Some(changes) = self.plan_downgrade(view, group, &gone) {
            return changes;
        }
        let mut changes: Vec<Change> = gone.iter().flat_map(|name| removals_of(group, name)).collect();
        let outlook = Outlook { member: None, gone };
        changes.extend(self.plan_epoch(view, group, &outlook).changes);
        changes
    }
}

fn left(cx: &Context, request: &ConsumerHeartbeat) -> Heard {
    Heard {
        member: Name::clone(&request.member),
        epoch: request.presence.epoch(),
        heartbeat_interval: cx.pace.heartbeat_interval,
        assignment: None,
    }
}
