//! LeaveGroup: members go, by their id or, if they are static, by their instance id.

use super::super::context::Context;
use super::super::contract::{GroupError, LeaveGroup, LeavingMember, LeftMember, Name};
use super::Classic;

impl Classic {
    /// Handles LeaveGroup: says of each member whether it has left.
    pub(crate) fn leave(&mut self, cx: &mut Context, group: &Name, request: LeaveGroup) -> Vec<LeftMember> {
        let mut members_left = false;
        let mut left = Vec::with_capacity(request.members.len());
        for leaving in request.members {
            let outcome = self.leave_one(cx, &leaving, &mut members_left);
            left.push(LeftMember {
                member: leaving.member,
                instance: leaving.instance,
                outcome,
            });
        }
        if members_left {
            self.rebalance(cx, group);
        } else {
            // One that never came back after it got its id may have been all that the group waited for.
            self.begin_if_all_joined(cx, group);
        }
        left
    }

    fn leave_one(
        &mut self,
        cx: &mut Context,
        leaving: &LeavingMember,
        members_left: &mut bool,
    ) -> Result<(), GroupError> {
        let unknown = || GroupError::UnknownMember {
            member: Name::clone(&leaving.member),
        };
        let member = match &leaving.instance {
            Some(instance) if leaving.member.is_empty() => {
                self.instances.get(instance).cloned().ok_or_else(unknown)?
            }
            instance => {
                if instance.is_none() && self.pending.remove(&leaving.member).is_some() {
                    return Ok(());
                }
                self.check_member(&leaving.member, instance.as_ref())?;
                Name::clone(&leaving.member)
            }
        };
        *members_left |= self.forget_member(cx, &member);
        Ok(())
    }
}
