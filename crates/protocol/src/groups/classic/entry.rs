//! The classic protocol's requests at the door of a group, whichever protocol the group speaks.

use super::super::context::Context;
use super::super::contract::{Answer, Heartbeat, JoinGroup, LeaveGroup, Request, SyncGroup, Ticket};
use super::super::group::{Group, Kind};
use super::Classic;

impl Group {
    /// Handles JoinGroup. A group of the consumer protocol that has no members becomes a classic one.
    pub(crate) fn join(&mut self, cx: &mut Context, ticket: Ticket, request: JoinGroup) {
        match &mut self.kind {
            // One that is refused costs no look at all the others.
            Kind::Classic(classic) => {
                self.members_changed |= classic.join(cx, &self.name, ticket, request);
            }
            Kind::Consumer(consumer) if consumer.members().is_empty() => {
                // One that a classic group refuses leaves this one as it is.
                if let Err(error) = Classic::default().check_join(cx, &request) {
                    cx.answer(ticket, Answer::Join(Err(error)));
                    return;
                }
                let removals = consumer.removals(&self.name);
                if removals.is_empty() {
                    self.kind = Kind::Classic(Box::default());
                    self.members_changed = true;
                    self.join(cx, ticket, request);
                } else {
                    self.persist_before(cx, removals, ticket, Request::Join(request));
                }
            }
            Kind::Consumer(_) => {
                self.members_changed = true;
                self.join_consumers(cx, ticket, request);
            }
        }
    }

    /// Handles SyncGroup.
    pub(crate) fn sync(&mut self, cx: &mut Context, ticket: Ticket, request: SyncGroup) {
        match &mut self.kind {
            Kind::Classic(classic) => classic.sync(cx, &self.name, ticket, request),
            Kind::Consumer(consumer) => {
                let synced = consumer.sync(cx, &request);
                cx.answer(ticket, Answer::Sync(synced));
            }
        }
    }

    /// Handles Heartbeat.
    pub(crate) fn heartbeat(&mut self, cx: &mut Context, ticket: Ticket, request: &Heartbeat) {
        let heard = match &mut self.kind {
            Kind::Classic(classic) => classic.heartbeat(cx, request),
            Kind::Consumer(consumer) => consumer.heartbeat(cx, request),
        };
        cx.answer(ticket, Answer::Heartbeat(heard));
    }

    /// Handles LeaveGroup.
    pub(crate) fn leave(&mut self, cx: &mut Context, ticket: Ticket, request: LeaveGroup) {
        match &mut self.kind {
            Kind::Classic(classic) => {
                let left = classic.leave(cx, &self.name, request);
                cx.answer(ticket, Answer::Leave(Ok(left)));
            }
            Kind::Consumer(_) => self.leave_consumers(cx, ticket, request),
        }
    }
}
