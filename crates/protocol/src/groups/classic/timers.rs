//! Timers of a classic group: silence ends sessions, waiting for members and assignments ends.

use std::time::Duration;

use super::super::context::Context;
use super::super::contract::Name;
use super::{Classic, Phase};

/// The time that the leader's word is given to reach the log, before it is looked at again.
const HANDING_OUT_PAUSE: Duration = Duration::from_secs(1);

impl Classic {
    /// Does what is due.
    pub(crate) fn handle_time(&mut self, cx: &mut Context, group: &Name) {
        self.forget_pending(cx, group);
        self.expire_members(cx, group);
        self.expire_unsynced(cx, group);
        match self.phase {
            Phase::Gathering { until, limit, grew } if until <= cx.now => {
                if grew && until < limit {
                    let until = (cx.now + cx.settings.initial_rebalance_delay).min(limit);
                    let grew = false;
                    self.phase = Phase::Gathering { until, limit, grew };
                } else {
                    self.begin(cx, group);
                }
            }
            Phase::Preparing { until } if until <= cx.now => self.begin(cx, group),
            _ => {}
        }
    }

    /// The next moment at which there is something to do.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let phase = match self.phase {
            Phase::Gathering { until, .. } | Phase::Preparing { until } => Some(until),
            Phase::Empty | Phase::Completing { .. } | Phase::Stable => None,
        };
        let members = self.members.values().filter_map(|member| member.expires_at());
        let pending = self.pending.values().copied();
        members
            .chain(pending)
            .chain(phase)
            .chain(self.sync_until)
            .filter(|at| *at < Duration::MAX)
            .min()
    }

    fn forget_pending(&mut self, cx: &mut Context, group: &Name) {
        let before = self.pending.len();
        self.pending.retain(|_, until| *until > cx.now);
        if self.pending.len() < before {
            self.begin_if_all_joined(cx, group);
        }
    }

    fn expire_members(&mut self, cx: &mut Context, group: &Name) {
        let now = cx.now;
        let silent: Vec<Name> = self
            .members
            .iter()
            .filter(|(_, member)| member.expires_at().is_some_and(|at| at <= now))
            .map(|(member, _)| Name::clone(member))
            .collect();
        self.put_out(cx, group, &silent);
    }

    /// Members that joined and never took their assignment hold up everybody's partitions.
    fn expire_unsynced(&mut self, cx: &mut Context, group: &Name) {
        if self.sync_until.is_none_or(|until| until > cx.now) {
            return;
        }
        if self.phase == (Phase::Completing { handing_out: true }) {
            // They are looked at once the leader's word is in the log.
            self.sync_until = Some(cx.now + HANDING_OUT_PAUSE);
            return;
        }
        self.sync_until = None;
        if !matches!(
            self.phase,
            Phase::Completing { handing_out: false } | Phase::Stable
        ) {
            return;
        }
        let unsynced: Vec<Name> = self
            .members
            .iter()
            .filter(|(_, member)| !member.synced && member.awaiting_join.is_none())
            .map(|(member, _)| Name::clone(member))
            .collect();
        self.put_out(cx, group, &unsynced);
    }

    fn put_out(&mut self, cx: &mut Context, group: &Name, members: &[Name]) {
        for member in members {
            let removed = self.forget_member(cx, member);
            assert!(removed, "just found");
        }
        if !members.is_empty() {
            self.rebalance(cx, group);
        }
    }
}
