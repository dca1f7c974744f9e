//! SyncGroup: the leader assigns, everybody else waits for that; it is handed out once it is durable.

use bytes::Bytes;

use super::super::context::{Context, Gate, Then};
use super::super::contract::{Answer, GroupError, Name, NotPersisted, SyncGroup, Synced, Ticket};
use super::super::records::{Change, What};
use super::{Classic, Phase};

impl Classic {
    /// Handles SyncGroup. The answer comes with the leader's assignment.
    pub(crate) fn sync(&mut self, cx: &mut Context, group: &Name, ticket: Ticket, request: SyncGroup) {
        if let Err(error) = self.try_sync(cx, group, ticket, request) {
            cx.answer(ticket, Answer::Sync(Err(error)));
        }
    }

    fn try_sync(
        &mut self,
        cx: &mut Context,
        group: &Name,
        ticket: Ticket,
        request: SyncGroup,
    ) -> Result<(), GroupError> {
        self.check_sync(&request)?;
        if self.phase == Phase::Stable {
            let member = self.members.get_mut(&request.member).expect("just checked");
            member.synced = true;
            member.touch(cx);
            let synced = self.synced(&request.member);
            cx.answer(ticket, Answer::Sync(Ok(synced)));
            return Ok(());
        }
        let is_leader = self.leader.as_ref() == Some(&request.member);
        let hands_out = is_leader && self.phase == Phase::Completing { handing_out: false };
        let assignments = request.assignments.iter();
        let bytes: usize = assignments.map(|(_, assignment)| assignment.len()).sum();
        if hands_out {
            self.check_handing_out(cx, bytes)?;
            cx.begin_waiting(bytes)?;
        }
        self.await_assignment(cx, ticket, &request.member);
        if hands_out {
            self.store_assignments(cx, group, request.assignments, bytes);
        }
        Ok(())
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

    fn await_assignment(&mut self, cx: &mut Context, ticket: Ticket, member: &Name) {
        let member = self.members.get_mut(member).expect("just checked");
        member.synced = true;
        if let Some(earlier) = member.awaiting_sync.replace(ticket) {
            cx.answer(earlier, Answer::Sync(Err(GroupError::RebalanceInProgress)));
        }
    }

    /// Takes what the leader assigned, of so many bytes. It is handed out when it is durable.
    fn store_assignments(
        &mut self,
        cx: &mut Context,
        group: &Name,
        assignments: Vec<(Name, Bytes)>,
        bytes: usize,
    ) {
        self.phase = Phase::Completing { handing_out: true };
        for (name, assignment) in assignments {
            // One for somebody who is not here any more is for nobody.
            if let Some(member) = self.members.get_mut(&name) {
                member.assignment = assignment;
            }
        }
        let stored = self.to_stored();
        let generation = self.generation;
        cx.persist(
            group,
            vec![Change::of(group, What::Classic(Some(stored)))],
            Gate::Open,
            Then::HandOut { generation, bytes },
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
