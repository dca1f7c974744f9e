//! Heartbeat: a member is there, and learns whether it must join again.

use super::super::context::Context;
use super::super::contract::{GroupError, Heartbeat};
use super::{Classic, Phase};

impl Classic {
    /// Handles Heartbeat.
    ///
    /// # Errors
    /// The member is not in the present generation, or must join the next one.
    pub(crate) fn heartbeat(&mut self, cx: &mut Context, request: &Heartbeat) -> Result<(), GroupError> {
        self.check_member(&request.member, request.instance.as_ref())?;
        self.check_generation(request.generation)?;
        let member = self.members.get_mut(&request.member).expect("just checked");
        if !member.is_new {
            member.touch(cx);
        }
        match self.phase {
            Phase::Empty => unreachable!("an empty group has no members"),
            Phase::Completing { .. } | Phase::Stable => Ok(()),
            Phase::Gathering { .. } | Phase::Preparing { .. } => Err(GroupError::RebalanceInProgress),
        }
    }
}
