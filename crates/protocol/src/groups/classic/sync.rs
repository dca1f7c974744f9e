//! SyncGroup: the leader assigns, everybody else waits for that; it is handed out once it is durable.

use super::super::context::{Context, Gate, Then};
use super::super::contract::{Answer, GroupError, Name, NotPersisted, SyncGroup, Synced, Ticket};
use super::super::records::{Change, What};
use super::{Classic, Phase};

impl Classic {
    /// Handles SyncGroup. The answer comes with the leader's assignment.
    pub(crate) fn sync(&mut self, cx: &mut Context, group: &Name, ticket: Ticket, request: SyncGroup) {
        match self.check_sync(&request) {
            Err(error) => cx.answer(ticket, Answer::Sync(Err(error))),
            Ok(()) if self.phase == Phase::Stable => {
                let member = self.members.get_mut(&request.member).expect("just checked");
                member.synced = true;
                member.touch(cx);
                let synced = self.synced(&request.member);
                cx.answer(ticket, Answer::Sync(Ok(synced)));
            }
            Ok(()) => self.await_assignment(cx, group, ticket, request),
        }
    }

    fn check_sync(&self, request: &SyncGroup) -> Result<(), GroupError> {
        self.check_member(&request.member, request.instance.as_ref())?;
        self.check_generation(request.generation)?;
        let differs = |claimed: &Option<Name>, held: &Option<Name>| claimed.is_some() && claimed != held;
        if differs(&request.protocol_type, &self.protocol_type) || differs(&request.protocol, &self.protocol)
        {
            return Err(GroupError::InconsistentProtocol);
        }
        match self.phase {
            Phase::Empty => Err(GroupError::UnknownMember {
                member: Name::clone(&request.member),
            }),
            Phase::Gathering { .. } | Phase::Preparing { .. } => Err(GroupError::RebalanceInProgress),
            Phase::Completing { .. } | Phase::Stable => Ok(()),
        }
    }

    fn await_assignment(&mut self, cx: &mut Context, group: &Name, ticket: Ticket, request: SyncGroup) {
        let member = self.members.get_mut(&request.member).expect("just checked");
        member.synced = true;
        if let Some(earlier) = member.awaiting_sync.replace(ticket) {
            cx.answer(earlier, Answer::Sync(Err(GroupError::RebalanceInProgress)));
        }
        let Phase::Completing { handing_out } = &mut self.phase else {
            unreachable!("only a generation that began is waited for");
        };
        if self.leader.as_ref() != Some(&request.member) || *handing_out {
            return;
        }
        *handing_out = true;
        for (name, assignment) in request.assignments {
            // One for somebody who is not here any more is for nobody.
            if let Some(member) = self.members.get_mut(&name) {
                member.assignment = assignment;
            }
        }
        let stored = self.to_stored();
        let then = Then::HandOut {
            generation: self.generation,
        };
        cx.persist(
            group,
            vec![Change::of(group, What::Classic(Some(stored)))],
            Gate::Open,
            then,
        );
    }

    /// The assignment of a generation is durable, or was refused.
    pub(crate) fn hand_out(
        &mut self,
        cx: &mut Context,
        group: &Name,
        generation: i32,
        result: Result<(), NotPersisted>,
    ) {
        // The group has moved on; whoever waited was told so.
        if self.generation != generation || !matches!(self.phase, Phase::Completing { .. }) {
            return;
        }
        if result.is_err() {
            self.take_assignments_back(cx, &GroupError::NotPersisted);
            self.rebalance(cx, group);
            return;
        }
        self.enter_stable();
        let names: Vec<Name> = self.members.keys().cloned().collect();
        for name in names {
            let synced = self.synced(&name);
            let member = self.members.get_mut(&name).expect("just listed");
            if let Some(ticket) = member.awaiting_sync.take() {
                cx.answer(ticket, Answer::Sync(Ok(synced)));
                member.touch(cx);
            }
        }
    }

    /// The moment of the state is the one that was stored.
    fn enter_stable(&mut self) {
        self.phase = Phase::Stable;
        if let Some(stored) = &self.stored {
            self.state_since_ms = stored.state_since_ms;
        }
    }

    fn synced(&self, member: &Name) -> Synced {
        Synced {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self
                .members
                .get(member)
                .map(|known| known.assignment.clone())
                .unwrap_or_default(),
        }
    }
}
