//! From one generation to the next: the group prepares, waits for its members, begins.

use std::time::Duration;

use bytes::Bytes;

use super::super::context::{Context, Gate, Then};
use super::super::contract::{Answer, GroupError, Name};
use super::super::records::{Change, What};
use super::{Classic, Phase};

impl Classic {
    /// Something changed: prepares a generation, or begins it if that was all that it waited for.
    pub(super) fn rebalance(&mut self, cx: &mut Context, group: &Name) {
        match self.phase {
            Phase::Empty => self.gather(cx),
            Phase::Completing { .. } | Phase::Stable => self.prepare(cx),
            Phase::Gathering { .. } | Phase::Preparing { .. } => {}
        }
        self.begin_if_all_joined(cx, group);
    }

    fn gather(&mut self, cx: &mut Context) {
        let delay = cx.settings.initial_rebalance_delay;
        let until = cx.now + delay;
        let limit = cx.now + self.rebalance_timeout().max(delay);
        let grew = false;
        self.enter(cx, Phase::Gathering { until, limit, grew });
        cx.wake_at(until);
    }

    fn prepare(&mut self, cx: &mut Context) {
        if let Phase::Completing { .. } = self.phase {
            self.take_assignments_back(cx, &GroupError::RebalanceInProgress);
        }
        self.sync_until = None;
        let until = cx.now + self.rebalance_timeout();
        self.enter(cx, Phase::Preparing { until });
        cx.wake_at(until);
    }

    /// Members that wait for an assignment are told why there is none.
    pub(super) fn take_assignments_back(&mut self, cx: &mut Context, error: &GroupError) {
        for member in self.members.values_mut() {
            // Bytes that are cleared may keep their memory.
            member.assignment = Bytes::new();
            if member.awaiting_sync.is_some() {
                member.refuse_sync(cx, error);
                member.touch(cx);
            }
        }
    }

    /// Not in the first generation of an empty group: that one waits for its time.
    pub(super) fn begin_if_all_joined(&mut self, cx: &mut Context, group: &Name) {
        let all_joined = self.members.values().all(|member| member.awaiting_join.is_some());
        if matches!(self.phase, Phase::Preparing { .. }) && all_joined && self.pending.is_empty() {
            self.begin(cx, group);
        }
    }

    /// Begins the next generation with whoever has joined. Static members stay without having joined.
    pub(super) fn begin(&mut self, cx: &mut Context, group: &Name) {
        let absent: Vec<Name> = self
            .members
            .iter()
            .filter(|(_, member)| member.awaiting_join.is_none() && member.instance.is_none())
            .map(|(member, _)| Name::clone(member))
            .collect();
        for member in absent {
            let removed = self.forget_member(cx, &member);
            assert!(removed, "just found");
        }
        if self.members.is_empty() {
            self.begin_empty(cx, group);
            return;
        }
        let Some(leader) = self.choose_leader() else {
            // Static members only, none of them back: they have until their sessions end.
            let until = cx.now + self.rebalance_timeout().max(Duration::from_secs(1));
            self.phase = Phase::Preparing { until };
            cx.wake_at(until);
            return;
        };
        self.raise_generation();
        self.leader = Some(leader);
        self.protocol = self.vote();
        assert!(
            self.protocol.is_some(),
            "a member joins only if all have a protocol in common"
        );
        self.enter(cx, Phase::Completing { handing_out: false });
        let sync_until = cx.now + self.rebalance_timeout();
        self.sync_until = Some(sync_until);
        cx.wake_at(sync_until);
        self.announce_generation(cx);
    }

    fn announce_generation(&mut self, cx: &mut Context) {
        let members: Vec<Name> = self.members.keys().cloned().collect();
        for name in members {
            let joined = self.joined(&name);
            let member = self.members.get_mut(&name).expect("just listed");
            member.is_new = false;
            member.synced = false;
            member.assignment = Bytes::new();
            if let Some(ticket) = member.awaiting_join.take() {
                cx.answer(ticket, Answer::Join(Ok(joined)));
                member.touch(cx);
            }
        }
    }

    /// The last leader if it has joined, else the member that has been here longest.
    fn choose_leader(&self) -> Option<Name> {
        let joined = || {
            self.members
                .iter()
                .filter(|(_, member)| member.awaiting_join.is_some())
        };
        joined()
            .find(|(member, _)| Some(*member) == self.leader.as_ref())
            .or_else(|| joined().min_by_key(|(_, member)| member.turn))
            .map(|(member, _)| Name::clone(member))
    }

    fn raise_generation(&mut self) {
        self.generation = self
            .generation
            .checked_add(1)
            .expect("generations do not run out");
    }

    fn begin_empty(&mut self, cx: &mut Context, group: &Name) {
        self.raise_generation();
        self.protocol = None;
        self.leader = None;
        self.sync_until = None;
        self.enter(cx, Phase::Empty);
        let stored = self.to_stored();
        // Nobody waits for this. Refused, the log keeps the last generation, whose members would expire.
        cx.persist(
            group,
            vec![Change::of(group, What::Classic(Some(stored)))],
            Gate::Open,
            Then::Answer(Vec::new()),
        );
    }

    /// Takes a member out and ends its waiting; says whether it was there. The caller rebalances.
    pub(super) fn forget_member(&mut self, cx: &mut Context, name: &Name) -> bool {
        let Some(mut member) = self.members.remove(name) else {
            return false;
        };
        member.refuse_waiting(
            cx,
            &GroupError::UnknownMember {
                member: Name::clone(name),
            },
        );
        if let Some(instance) = &member.instance {
            self.instances.remove(instance);
        }
        if self.leader.as_ref() == Some(name) {
            self.leader = None;
        }
        true
    }
}
