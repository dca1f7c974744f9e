//! A static member that comes back under its instance id (KIP-345): it takes the place of the one it was.
//!
//! In a stable group that costs no rebalance, but the new id must be durable before the member learns it: after a
//! restart its heartbeats would be fenced otherwise.

use super::super::context::uuid;
use super::super::context::{Context, Gate, Then};
use super::super::contract::{Answer, GroupError, JoinGroup, Joined, Name, Ticket};
use super::super::records::{Change, What};
use super::{Classic, Phase};

impl Classic {
    pub(super) fn join_static_again(
        &mut self,
        cx: &mut Context,
        group: &Name,
        ticket: Ticket,
        instance: &Name,
        request: JoinGroup,
    ) {
        let member = Name::from(format!("{instance}-{}", uuid(request.random)));
        let can_skip = request.can_skip_assignment;
        let leader_before = self.leader.clone();
        self.take_the_place(cx, instance, &member, request);
        match self.phase {
            Phase::Stable if self.vote() == self.protocol => {
                let answer = Answer::Join(Ok(self.back_in_place(&member, leader_before, can_skip)));
                let stored = self.to_stored();
                let then = Then::Replace {
                    instance: Name::clone(instance),
                    member,
                    generation: self.generation,
                    ticket,
                    answer,
                };
                cx.persist(
                    group,
                    vec![Change::of(group, What::Classic(Some(stored)))],
                    Gate::Open,
                    then,
                );
            }
            Phase::Empty => unreachable!("an empty group has no static members"),
            Phase::Stable | Phase::Gathering { .. } | Phase::Preparing { .. } | Phase::Completing { .. } => {
                self.await_join(cx, &member, ticket);
                self.rebalance(cx, group);
            }
        }
    }

    /// The one that had the instance id is fenced; all that was its own is the new member's.
    fn take_the_place(&mut self, cx: &mut Context, instance: &Name, member: &Name, request: JoinGroup) {
        let before = self
            .instances
            .insert(Name::clone(instance), Name::clone(member))
            .expect("called for instances that are there");
        let mut known = self
            .members
            .remove(&before)
            .expect("every instance is a member's");
        known.refuse_waiting(
            cx,
            &GroupError::FencedInstance {
                instance: Name::clone(instance),
            },
        );
        known.update(request);
        known.touch(cx);
        let other = self.members.insert(Name::clone(member), known);
        assert!(other.is_none(), "ids of members are made of fresh random bits");
        if self.leader.as_ref() == Some(&before) {
            self.leader = Some(Name::clone(member));
        }
    }

    /// A leader that cannot be told to skip the assignment is kept from assigning: it is shown its old id as leader.
    fn back_in_place(&self, member: &Name, leader_before: Option<Name>, can_skip: bool) -> Joined {
        let is_leader = self.leader.as_ref() == Some(member);
        let mut joined = self.joined(member);
        if is_leader && can_skip {
            joined.skip_assignment = true;
            joined.members = self.members_for_leader();
        } else {
            joined.leader = leader_before.unwrap_or_default();
        }
        joined
    }

    /// Says whether a member that came back is still in its place.
    pub(crate) fn still_holds(&self, instance: &Name, member: &Name, generation: i32) -> bool {
        self.generation == generation
            && self.phase == Phase::Stable
            && self.instances.get(instance) == Some(member)
    }
}
