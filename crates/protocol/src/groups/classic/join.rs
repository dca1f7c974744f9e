//! JoinGroup: who may join, and whether that makes the group rebalance.

use super::super::context::{Context, uuid};
use super::super::contract::{Answer, GroupError, JoinGroup, Joined, JoinedMember, Name, Ticket};
use super::{Classic, Member, Phase};

impl Classic {
    /// Handles JoinGroup. The answer comes when the generation has begun, or at once if nothing is to change. Says whether
    /// members, or ids that are kept for some, have come or changed.
    pub(crate) fn join(
        &mut self,
        cx: &mut Context,
        group: &Name,
        ticket: Ticket,
        request: JoinGroup,
    ) -> bool {
        let Err(error) = self.try_join(cx, group, ticket, request) else {
            return true;
        };
        let keeps_an_id = matches!(error, GroupError::MemberIdRequired { .. });
        cx.answer(ticket, Answer::Join(Err(error)));
        keeps_an_id
    }

    fn try_join(
        &mut self,
        cx: &mut Context,
        group: &Name,
        ticket: Ticket,
        request: JoinGroup,
    ) -> Result<(), GroupError> {
        self.check_join(cx, &request)?;
        if !request.member.is_empty() {
            self.join_known(cx, group, ticket, request);
            return Ok(());
        }
        if let Some(instance) = request.instance.clone() {
            if self.instances.contains_key(&instance) {
                self.join_static_again(cx, group, ticket, &instance, request);
                return Ok(());
            }
            let member = Name::from(format!("{instance}-{}", uuid(request.random)));
            self.add_member(cx, group, ticket, member, request);
            return Ok(());
        }
        let member = Name::from(format!("{}-{}", request.client_id, uuid(request.random)));
        if request.requires_known_member {
            let until = cx.now + request.session_timeout;
            self.pending.insert(Name::clone(&member), until);
            cx.wake_at(until);
            return Err(GroupError::MemberIdRequired { member });
        }
        self.add_member(cx, group, ticket, member, request);
        Ok(())
    }

    /// That the group takes one who joins so: as a member, or for a place that is kept until it comes back with its id.
    pub(crate) fn check_join(&self, cx: &Context, request: &JoinGroup) -> Result<(), GroupError> {
        if !self.fits(request) {
            return Err(GroupError::InconsistentProtocol);
        }
        self.check_saying(cx, request)?;
        if self.is_awaited(request) {
            return Ok(());
        }
        if !request.member.is_empty() {
            return self.check_member(&request.member, request.instance.as_ref());
        }
        let instance = request.instance.as_ref();
        if instance.is_some_and(|instance| self.instances.contains_key(instance)) {
            return Ok(());
        }
        self.check_room(cx)
    }

    /// Says that it brings the id that it was given.
    fn is_awaited(&self, request: &JoinGroup) -> bool {
        request.instance.is_none() && self.pending.contains_key(&request.member)
    }

    /// Says whether the member's protocols leave the group one that all know. Everybody may ask, members or not, as often as they
    /// like: so it must not cost more in a group with more members.
    fn fits(&self, request: &JoinGroup) -> bool {
        if request.protocols.is_empty() || request.protocol_type.is_empty() {
            return false;
        }
        if self.members.is_empty() {
            return true;
        }
        self.protocol_type.as_ref() == Some(&request.protocol_type)
            && self
                .members
                .others_know_one_of(&request.protocols, &request.member)
    }

    /// A member that brings an id: one that was told to, or one that joins again.
    fn join_known(&mut self, cx: &mut Context, group: &Name, ticket: Ticket, request: JoinGroup) {
        let member = Name::clone(&request.member);
        if self.is_awaited(&request) {
            self.pending.remove(&member);
            self.add_member(cx, group, ticket, member, request);
            return;
        }
        let known = self.members.get(&member).expect("just checked");
        let same_protocols = known.protocols == request.protocols;
        let is_leader = self.leader.as_ref() == Some(&member);
        let nothing_changes = match self.phase {
            Phase::Empty => unreachable!("an empty group has no members"),
            Phase::Gathering { .. } | Phase::Preparing { .. } => false,
            // It may not have got the answer.
            Phase::Completing { .. } => same_protocols,
            // A leader that joins again wants to assign anew.
            Phase::Stable => same_protocols && !is_leader,
        };
        if nothing_changes {
            let joined = self.joined(&member);
            self.members.get_mut(&member).expect("just checked").touch(cx);
            cx.answer(ticket, Answer::Join(Ok(joined)));
            return;
        }
        self.members.update(&member, request);
        self.await_join(cx, &member, ticket);
        self.rebalance(cx, group);
    }

    fn add_member(
        &mut self,
        cx: &mut Context,
        group: &Name,
        ticket: Ticket,
        member: Name,
        request: JoinGroup,
    ) {
        if self.members.is_empty() {
            self.protocol_type = Some(Name::clone(&request.protocol_type));
        }
        if let Some(instance) = &request.instance {
            self.instances.insert(Name::clone(instance), Name::clone(&member));
        }
        let mut new = Member::of(request, self.next_turn);
        self.next_turn += 1;
        new.expires = cx.now + cx.settings.first_join_timeout;
        cx.wake_at(new.expires);
        let known = self.members.insert(Name::clone(&member), new);
        assert!(known.is_none(), "ids of members are made of fresh random bits");
        if let Phase::Gathering { grew, .. } = &mut self.phase {
            *grew = true;
        }
        self.await_join(cx, &member, ticket);
        self.rebalance(cx, group);
    }

    /// The member waits for the next generation. Whoever asked for it before has given up.
    pub(super) fn await_join(&mut self, cx: &mut Context, member: &Name, ticket: Ticket) {
        let known = self.members.get_mut(member).expect("only members wait");
        if let Some(earlier) = known.awaiting_join.replace(ticket) {
            cx.answer(earlier, Answer::Join(Err(GroupError::RebalanceInProgress)));
        }
    }

    /// Returns the answer that tells a member of the present generation.
    pub(super) fn joined(&self, member: &Name) -> Joined {
        let leader = self.leader.clone().unwrap_or_default();
        let members = if leader == *member && self.phase != Phase::Stable {
            self.members_for_leader()
        } else {
            Vec::new()
        };
        Joined {
            member: Name::clone(member),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader,
            skip_assignment: false,
            members,
        }
    }

    pub(super) fn members_for_leader(&self) -> Vec<JoinedMember> {
        self.members
            .iter()
            .map(|(member, known)| JoinedMember {
                member: Name::clone(member),
                instance: known.instance.clone(),
                metadata: known.metadata_for(self.protocol.as_ref()),
            })
            .collect()
    }
}
