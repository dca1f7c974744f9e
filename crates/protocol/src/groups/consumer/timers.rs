//! Timers of a group of the consumer protocol: silent members go, so do those that do not let go of partitions,
//! and topics that changed are noticed.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::context::{Context, Gate, Then};
use super::super::contract::Name;
use super::super::group::{Group, Kind};
use super::super::records::Progress;
use super::planning::{Asker, PlannedAnswer, Step};
use super::{Consumer, Member};

impl Group {
    /// Does what is due, and says when there is something to do next.
    pub(crate) fn handle_consumer_time(&mut self, cx: &mut Context) -> Option<Duration> {
        let Kind::Consumer(consumer) = &mut self.kind else {
            return None;
        };
        let gone = consumer.overdue(cx.now);
        let step = match gone.is_empty() {
            false => Step::Departure {
                gone,
                answer: PlannedAnswer::Nothing,
            },
            true if consumer.needs_look(cx) => Step::Topics,
            true => return consumer.deadline(),
        };
        let planning = consumer.planning(cx, &self.name, step, Asker::Nobody);
        if self.plan(cx, planning) {
            // Woken when that is durable.
            return None;
        }
        match &self.kind {
            Kind::Consumer(consumer) => consumer.deadline(),
            Kind::Classic(_) => None,
        }
    }

    /// Durable changes are in: sets the timers of the members they touched, and lets the group be classic again if only members
    /// of that protocol are left.
    pub(crate) fn note_applied(&mut self, cx: &mut Context) {
        match &mut self.kind {
            Kind::Consumer(consumer) => {
                let members_changed = !consumer.touched.is_empty();
                consumer.note_applied(cx);
                // A static member may have come back by the classic protocol, as the last one of the other.
                if members_changed && let Some(changes) = consumer.plan_downgrade(cx, &self.name) {
                    cx.persist(&self.name, changes, Gate::Closed, Then::Answer(Vec::new()));
                }
            }
            Kind::Classic(classic) => classic.rebalance_if_changed_over(cx, &self.name),
        }
    }
}

impl Consumer {
    /// Says whether the partitions of the wanted topics may be others than when the epoch began: the topics have changed since they
    /// were last compared, or what is wanted has.
    pub(super) fn needs_look(&self, cx: &Context) -> bool {
        self.compared_version != Some(cx.topics.version())
    }

    /// Says whether the partitions of the wanted topics are others than when the epoch began, or may be: what takes long to compare
    /// is to be planned.
    fn looks_changed(&mut self, cx: &Context) -> bool {
        if !self.needs_look(cx) || self.roster.members.is_empty() {
            return false;
        }
        if self.work(cx, &Step::Topics, true) > cx.settings.planned_at_once_max {
            return true;
        }
        let changed = self.roster.topics_changed(&self.view(cx));
        if !changed {
            self.compared_version = Some(cx.topics.version());
        }
        changed
    }

    /// Expressions may match others since the topics were last looked at.
    pub(crate) fn compare_again(&mut self) {
        self.compared_version = None;
        self.looks += 1;
    }

    /// The wanted topics were found to be as they were when the epoch began. That says nothing any more if they are to be compared
    /// again since.
    pub(super) fn note_same_topics(&mut self, version: u64, look: u64) {
        if look == self.looks {
            self.compared_version = Some(version);
        }
    }

    pub(super) fn note_applied(&mut self, cx: &mut Context) {
        self.hold_expressions(cx);
        for name in std::mem::take(&mut self.touched) {
            if let Some(member) = self.roster_mut().members.get_mut(&name) {
                member.set_timers(cx);
            }
        }
        if self.looks_changed(cx) {
            // They changed while this was under way.
            cx.wake_at(cx.now);
        }
        if !self.roster.members.is_empty() {
            self.had_members = true;
            self.empty_since_ms = None;
        } else if std::mem::take(&mut self.had_members) {
            self.empty_since_ms = Some(cx.unix_ms());
        }
    }

    /// Members that have been silent for too long, hold on to what they must give up, or do not do what they were told.
    fn overdue(&self, now: Duration) -> BTreeSet<Name> {
        self.roster
            .members
            .iter()
            .filter(|(_, member)| member.next_deadline().is_some_and(|at| at <= now))
            .map(|(name, _)| Name::clone(name))
            .collect()
    }

    fn deadline(&self) -> Option<Duration> {
        self.roster
            .members
            .values()
            .filter_map(Member::next_deadline)
            .min()
    }
}

impl Member {
    fn next_deadline(&self) -> Option<Duration> {
        // One that has changed over to the consumer protocol owes neither a join nor a sync.
        let act_by = self.act_by.filter(|_| self.said.classic.is_some());
        let deadlines = self.expires.into_iter().chain(self.revoke_by).chain(act_by);
        deadlines.min()
    }

    /// A change has touched it.
    fn set_timers(&mut self, cx: &mut Context) {
        if self.expires.is_none() {
            self.expires = Some(cx.now + self.session_timeout(cx));
            if self.said.classic.is_some() {
                self.must_act(cx);
            }
        }
        self.revoke_by = match self.current.progress {
            Progress::Unrevoked => self.revoke_by.or(Some(cx.now + self.said.rebalance_timeout)),
            Progress::Stable | Progress::Unreleased => None,
        };
        if let Some(deadline) = self.next_deadline() {
            cx.wake_at(deadline);
        }
    }

    /// One that speaks the classic protocol was told to join again, or has joined and is to come for its assignment: it has
    /// its rebalance timeout for that, however often it says that it is there.
    pub(super) fn must_act(&mut self, cx: &mut Context) {
        let until = *self.act_by.get_or_insert(cx.now + self.said.rebalance_timeout);
        cx.wake_at(until);
    }

    pub(super) fn session_timeout(&self, cx: &Context) -> Duration {
        match &self.said.classic {
            Some(classic) => classic.session_timeout,
            None => cx.pace.session_timeout,
        }
    }
}
