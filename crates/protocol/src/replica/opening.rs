//! A leader before its epoch: it seals the earlier ones, finds the log that may hold everything committed, and copies it.
//!
//! The first offset of the epoch is where that log ends. The epoch must not open before every ack quorum that may have
//! committed something is met by a certain replica's promise, the leader's own among them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use planted::{Bug, planted};
use record::{Epoch, Offset};

use super::contract::{Action, Assignment, Landmark, Prompt, Standing};
use super::lease::Believer;
use super::log::{Log, Met};
use crate::history::BatchFacts;
use crate::leader::NodeId;

/// The state of a leader that has not opened its epoch.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    promised: BTreeMap<NodeId, Standing>,
    stage: Stage,
    /// Leaders of earlier epochs, and until when they may believe that they lead; `None` stands for any.
    believers: Vec<(Option<NodeId>, Duration)>,
    wakes_at: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Promises are missing.
    Sealing,
    /// The leader looks for what its log and the best one have in common.
    Locating { best: NodeId },
    /// The leader copies what it lacks.
    Copying { best: NodeId },
}

/// The outcome of sealing: promises, and the ends of the log that holds everything committed.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// The replicas' promises.
    pub(super) promised: BTreeMap<NodeId, Standing>,
    /// The end of what is known to be committed.
    pub(super) tail: Offset,
    /// The greatest start of a log.
    pub(super) log_start: Offset,
    /// Says that nothing is uncertain: everything in the log is committed, and all that promised hold the same.
    pub(super) is_clean: bool,
}

impl Opening {
    /// Asks all whose promise may be needed. The leader's own promise comes in like those of others.
    pub(super) fn begin(assignment: &Assignment, own: NodeId, actions: &mut VecDeque<Action>) -> Opening {
        let opening = Opening {
            promised: BTreeMap::new(),
            stage: Stage::Sealing,
            believers: Vec::new(),
            wakes_at: Duration::ZERO,
        };
        for node in others(assignment, own) {
            opening.ask(assignment.epoch, node, actions);
        }
        opening
    }

    /// The replicas whose promises are missing, or count nothing because they did not know yet that they are certain.
    pub(super) fn awaited(&self, assignment: &Assignment, own: NodeId) -> Vec<NodeId> {
        let mut awaited = others(assignment, own);
        awaited.retain(|node| {
            let standing = self.promised.get(node);
            standing.is_none_or(|standing| !standing.is_certain && !assignment.uncertain.contains(node))
        });
        match self.stage {
            Stage::Sealing => awaited.into_iter().collect(),
            // A replica that is copied from answers, or its link is lost.
            Stage::Locating { .. } | Stage::Copying { .. } => Vec::new(),
        }
    }

    /// Forgets the promise of a replica that nothing reaches. Another one must give what was to be copied from it.
    pub(super) fn handle_link_lost(&mut self, peer: NodeId) {
        self.promised.remove(&peer);
        if let Stage::Locating { best } | Stage::Copying { best } = self.stage
            && best == peer
        {
            self.stage = Stage::Sealing;
        }
    }

    /// Asks a replica again whose link was taken anew: its disk may be another than the one that promised. What was to be copied from it
    /// must come from the log that promises now, or from another replica.
    pub(super) fn handle_link(&mut self, epoch: Epoch, peer: NodeId, actions: &mut VecDeque<Action>) {
        if !planted(Bug::PromiseOutlivesLink) {
            self.promised.remove(&peer);
            self.stage = Stage::Sealing;
        }
        self.ask(epoch, peer, actions);
    }

    fn ask(&self, epoch: Epoch, to: NodeId, actions: &mut VecDeque<Action>) {
        let message = Prompt::Seal { epoch };
        actions.push_back(Action::Send { to, message });
    }

    /// Takes note of a promise, and of who may still believe in an earlier epoch.
    pub(super) fn handle_promised(
        &mut self,
        now: Duration,
        from: NodeId,
        standing: Standing,
        believers: &[Believer],
    ) {
        self.promised.insert(from, standing);
        // This clock may be the faster one.
        let until = |believer: &Believer| (believer.node, now + believer.left / 4 * 5);
        self.believers.extend(believers.iter().map(until));
        self.believers.retain(|(_, until)| *until > now);
    }

    /// Says whether leaders of earlier epochs know that theirs are over, or their leases have ended. One that has promised knows.
    fn is_alone(&mut self, now: Duration, actions: &mut VecDeque<Action>) -> bool {
        let knows = |node: &Option<NodeId>| node.is_some_and(|node| self.promised.contains_key(&node));
        let left = self.believers.iter().filter(|(node, _)| !knows(node));
        let until = left.map(|(_, until)| *until).max().unwrap_or_default();
        if until > now && until > self.wakes_at {
            self.wakes_at = until;
            actions.push_back(Action::Wake { at: until });
        }
        until <= now
    }

    /// Takes the next step, if there is one: gives what was found once the leader's log holds it.
    pub(super) fn advance(
        &mut self,
        now: Duration,
        assignment: &Assignment,
        own: NodeId,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) -> Option<Found> {
        self.commit_what_is_copied(now, log, actions);
        let standing = log.standing(true);
        let best = match self.stage {
            Stage::Sealing if self.is_sealed(assignment, own) => self.best(own, &standing),
            Stage::Copying { best } => best,
            _ => return None,
        };
        let other = match best == own {
            true => standing,
            false => self.promised[&best],
        };
        // A log that is copied is a prefix of the best one: it equals that once it is as long.
        let is_copied = self.stage != Stage::Sealing && standing.next_offset >= other.next_offset;
        if best == own || is_copied || is_same_log(&other, &standing) {
            let found = self.found(assignment, own, &standing)?;
            return self.is_alone(now, actions).then_some(found);
        }
        let epoch = assignment.epoch;
        let message = match self.stage {
            Stage::Sealing => {
                self.stage = Stage::Locating { best };
                let at = standing.tail;
                Prompt::Locate { epoch, at }
            }
            _ => Prompt::Copy {
                epoch,
                first: standing.next_offset,
            },
        };
        actions.push_back(Action::Send { to: best, message });
        None
    }

    /// The copy equals the best log: it is committed here as far as that is there. A leader that lacks more than its journal has room for
    /// could not lay out what it has copied before, and would never have all of it.
    fn commit_what_is_copied(&self, now: Duration, log: &mut Log, actions: &mut VecDeque<Action>) {
        let Stage::Copying { best } = self.stage else {
            return;
        };
        if !planted(Bug::CopiedIsUncommitted) && log.commit(now, self.promised[&best].tail) {
            let tail = log.tail();
            actions.push_back(Action::Committed { tail });
        }
    }

    /// Cuts off what the best log does not have, by a landmark of it.
    pub(super) fn handle_located(
        &mut self,
        now: Duration,
        epoch: Epoch,
        from: NodeId,
        landmark: &Landmark,
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        let best = from;
        if self.stage != (Stage::Locating { best }) {
            return;
        }
        match log.meet(now, landmark, actions) {
            Ok(Met::At(_)) => self.stage = Stage::Copying { best },
            Ok(Met::Not { ask: at }) => actions.push_back(Action::Send {
                to: best,
                message: Prompt::Locate { epoch, at },
            }),
            // Records committed here are not there: another replica must have the better log.
            Err(_) => {
                self.stage = Stage::Sealing;
                self.promised.remove(&best);
            }
        }
    }

    /// Takes batches of the best log, as long as they continue this one.
    pub(super) fn handle_copied(
        &mut self,
        epoch: Epoch,
        from: NodeId,
        writer_before: Epoch,
        batches: &[BatchFacts],
        log: &mut Log,
        actions: &mut VecDeque<Action>,
    ) {
        let mut before = writer_before;
        if self.stage != (Stage::Copying { best: from }) {
            return;
        }
        for batch in batches {
            let end = (batch.first_offset.0).checked_add(i64::from(batch.record_count));
            let is_sound = batch.record_count > 0 && end.is_some() && batch.epoch < epoch;
            let continues = is_sound
                && batch.first_offset == log.next_offset()
                && log.continues_at(batch.first_offset, before)
                && batch.epoch >= log.last_writer();
            if continues {
                log.append(*batch, actions);
            } else if !(is_sound && log.holds(batch)) {
                return;
            }
            before = batch.epoch;
        }
    }

    /// Says that the best log cannot serve what it was asked for: it is asked for its promise again.
    pub(super) fn handle_refused(&mut self, epoch: Epoch, from: NodeId, actions: &mut VecDeque<Action>) {
        if let Stage::Locating { best } | Stage::Copying { best } = self.stage
            && best == from
        {
            self.handle_link(epoch, from, actions);
        }
    }

    /// Says whether enough certain members of every configuration that may have committed something have promised.
    fn is_sealed(&self, assignment: &Assignment, own: NodeId) -> bool {
        let is_certain = |node: &NodeId, standing: &Standing| {
            standing.is_certain
                || planted(Bug::DoubtProvesAbsence)
                || (planted(Bug::CertaintyByLeader) && !assignment.uncertain.contains(node))
        };
        let counts = |node: &&NodeId| self.promised.get(node).is_some_and(|of| is_certain(node, of));
        let promised_of = |members: &[NodeId]| members.iter().filter(counts).count();
        let wanted = |of: &super::Configuration| match planted(Bug::PromiseTooFew) {
            true => of.seal_quorum() - 1,
            false => of.seal_quorum(),
        };
        let mut earlier = assignment.earlier.iter();
        self.promised.contains_key(&own) && earlier.all(|of| promised_of(&of.replicas) >= wanted(of))
    }

    /// The replica with the best log: the latest epoch accepted, then the longest. Uncertain ones add what they have.
    fn best(&self, own: NodeId, standing: &Standing) -> NodeId {
        let rank = |node: &NodeId, of: &Standing| match planted(Bug::BestByEnd) {
            true => (NO_RANK, of.next_offset, *node == own),
            false => (of.accepted, of.next_offset, *node == own),
        };
        let others = self.promised.iter().filter(|(node, _)| **node != own);
        let others = others.map(|(node, of)| (rank(node, of), *node));
        let (_, best) = others
            .chain([(rank(&own, standing), own)])
            .max()
            .expect("the leader's own log is one of them");
        best
    }

    fn found(&self, assignment: &Assignment, own: NodeId, standing: &Standing) -> Option<Found> {
        let others = || self.promised.iter().filter(|(node, _)| **node != own);
        let tail = others()
            .map(|(_, of)| of.tail)
            .max()
            .map_or(standing.tail, |tail| tail.max(standing.tail));
        let log_start = others()
            .map(|(_, of)| of.log_start)
            .max()
            .map_or(standing.log_start, |start| start.max(standing.log_start));
        // Somebody knows of committed records that nobody asked has: the epoch must wait for whoever does.
        if tail > standing.next_offset {
            return None;
        }
        let unchanged = !assignment.is_unsettled() || planted(Bug::ShortcutDespiteChange);
        let all_equal = others().all(|(_, of)| of.accepted == standing.accepted && is_same_log(of, standing));
        Some(Found {
            promised: self.promised.clone(),
            tail,
            log_start,
            is_clean: unchanged && all_equal && tail == standing.next_offset,
        })
    }
}

/// The members of all configurations that count, without the leader itself.
fn others(assignment: &Assignment, own: NodeId) -> BTreeSet<NodeId> {
    let members = assignment.earlier.iter().chain([&assignment.configuration]);
    let members = members.flat_map(|of| of.replicas.iter().copied());
    members.filter(|node| *node != own).collect()
}

const NO_RANK: Epoch = super::NO_EPOCH;

/// Two logs that end at one offset with batches of one epoch are equal.
pub(super) fn is_same_log(one: &Standing, other: &Standing) -> bool {
    (one.last_writer, one.next_offset) == (other.last_writer, other.next_offset)
}
