//! Topics whose order a scribe keeps, perhaps on another node: leaders here report what is committed, and show as much as they are told to be ordered.
//!
//! ```text
//!   commit ─► report ─► scribe ─► its page is committed ─► handle_ordered ─► producers and readers
//! ```
//! A leader of a new epoch shows nothing before the scribe has answered it: an earlier one may have shown more than this node has heard of. Reports
//! and answers may be lost; whoever carries them takes all that is not ordered yet again after a while.
//!
//! A leader that was promised a position for its next append must report nothing until that is committed (`claims`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use planted::{Bug, planted};
use protocol::Leader;
use protocol::order::{Committed, LANE, Ordered};
use record::{Epoch, PartitionId};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::{NotLed, Partition, Shard, Watcher};

/// Partitions that may have something to report.
#[derive(Default)]
pub(crate) struct Unreported {
    /// Those of which there is something new.
    fresh: RefCell<BTreeSet<PartitionId>>,
    /// Those of which something was reported that is not answered.
    unanswered: RefCell<BTreeSet<PartitionId>>,
    news: Notify,
}

/// The part of a partition in its order.
pub(crate) struct Reporter {
    id: PartitionId,
    to: Rc<Unreported>,
    /// The epoch in which the scribe has told its leader here how far it is ordered.
    told_in: Option<Epoch>,
    /// The scribe has not answered since there is another one, or since the log begins elsewhere.
    is_unknown: Cell<bool>,
    /// The last report.
    reported: Cell<Option<Committed>>,
}

impl Reporter {
    /// More may be committed, or an epoch has begun.
    pub(crate) fn note(&self) {
        self.to.fresh.borrow_mut().insert(self.id);
        self.to.news.notify_one();
    }

    /// All of it is to be reported, whatever was, until it is answered: the log begins elsewhere, or there is another scribe.
    pub(crate) fn note_anew(&self) {
        self.is_unknown.set(true);
        self.reported.set(None);
        self.note();
    }
}

impl Partition {
    /// The leader, for readers: one that knows how far the log is committed and, if its topic is ordered by a scribe, how far it is ordered.
    ///
    /// # Errors
    /// `NotLeader`, `NotOpen`.
    pub(crate) fn open_leader(&self) -> Result<&Leader, NotLed> {
        let leader = self.role.open_leader()?;
        match &self.reporter {
            Some(reporter)
                if reporter.told_in != Some(leader.epoch()) && !planted(Bug::OrderedRemembered) =>
            {
                Err(NotLed::NotOpen)
            }
            _ => Ok(leader),
        }
    }

    /// The report that is due, if it was not made, or again; `None` if the scribe has answered to all of it.
    fn report(&self, again: bool) -> Option<Option<Committed>> {
        let reporter = self.reporter.as_ref()?;
        let leader = self.role.open_leader().ok()?;
        let report = Committed {
            partition: reporter.id,
            epoch: leader.epoch(),
            log_start: leader.log_start(),
            tail: leader.tail(),
        };
        if self.is_silent(&report) {
            return Some(None);
        }
        let is_told = reporter.told_in == Some(report.epoch) && self.ordered() >= Some(report.tail);
        let before = reporter.reported.replace(Some(report));
        match is_told && !reporter.is_unknown.get() {
            true => None,
            false => Some((again || before != Some(report)).then_some(report)),
        }
    }

    fn handle_ordered(&mut self, told: &Ordered) {
        let led = self.role.open_leader().ok().map(Leader::epoch);
        let Some(reporter) = self.reporter.as_mut().filter(|_| led == Some(told.epoch)) else {
            return;
        };
        // The end of an answer is no less than what anybody was told before; what tells positions may be an old word.
        let is_answer = told.first == told.next;
        let is_first = is_answer && reporter.told_in.replace(told.epoch) != Some(told.epoch);
        if is_answer {
            reporter.is_unknown.set(false);
        }
        // Words may overtake each other, and be lost: one that tells positions waits for those before it, which are told again.
        let ordered = self.ordered().unwrap_or_default();
        let is_next = is_answer || told.first <= ordered;
        if ordered < told.next && is_next {
            self.show_at(&(told.first..told.next), told.position);
        } else if is_first {
            self.show_more();
        }
    }
}

impl Shard {
    /// The reporter of a partition whose topic has one order; `None` if the shards of this node keep that.
    pub(super) fn reporter(&self, id: PartitionId) -> Option<Reporter> {
        let reporter = self.settings.has_scribes.then(|| Reporter {
            id,
            to: self.unreported.clone(),
            told_in: None,
            is_unknown: Cell::new(false),
            reported: Cell::new(None),
        })?;
        reporter.note();
        Some(reporter)
    }

    /// Returns when something was committed that is to be reported.
    pub async fn until_reports(&self) {
        self.unreported.news.notified().await;
    }

    /// Takes what is to be reported and was not yet, or all that is not answered.
    pub fn take_order_reports(&self, all: bool) -> Vec<Committed> {
        let mut ids = std::mem::take(&mut *self.unreported.fresh.borrow_mut());
        let mut unanswered = self.unreported.unanswered.borrow_mut();
        if all {
            ids.append(&mut unanswered);
        }
        // What the lane's leader says ends promises: nothing that was promised may come back afterwards.
        let lanes = ids.iter().filter(|id| id.index == LANE).copied();
        let unsure: BTreeSet<PartitionId> = lanes
            .filter(|id| self.with_leader(*id, |_| ()).is_ok() && !self.have_accepted(*id))
            .collect();
        let partitions = self.partitions.borrow();
        let mut reports = Vec::new();
        for id in ids {
            if unsure.contains(&id) {
                unanswered.insert(id);
                continue;
            }
            let report = partitions.get(&id).and_then(|partition| partition.report(all));
            match report {
                Some(report) => {
                    reports.extend(report);
                    unanswered.insert(id);
                }
                None => drop(unanswered.remove(&id)),
            }
        }
        reports
    }

    /// Returns when the leader of a partition knows how far that is ordered, if its topic is; or at this time.
    ///
    /// # Errors
    /// The partition, or its leader, is not here.
    pub(super) async fn until_told(&self, id: PartitionId, until: Duration) -> Result<(), NotLed> {
        loop {
            let watcher = {
                let mut partitions = self.partitions.borrow_mut();
                let partition = partitions.get_mut(&id).ok_or_else(|| self.absence(id))?;
                partition.role.open_leader()?;
                if partition.open_leader().is_ok() {
                    return Ok(());
                }
                let watcher = Watcher::new(1);
                partition.watch(0, &watcher);
                watcher
            };
            let left = until.saturating_sub(self.clock.monotonic());
            if timeout(left, watcher.woken()).await.is_err() {
                // Whoever asks for the tail is refused.
                return Ok(());
            }
        }
    }

    /// Has a partition reported anew, if it is led here: its topic has another scribe.
    pub fn report_anew(&self, id: PartitionId) {
        let partitions = self.partitions.borrow();
        if let Some(reporter) = partitions
            .get(&id)
            .and_then(|partition| partition.reporter.as_ref())
        {
            reporter.note_anew();
        }
    }

    /// Says whether something was reported that is not answered.
    pub fn has_order_reports(&self) -> bool {
        !self.unreported.unanswered.borrow().is_empty()
    }

    /// Takes a scribe's word that more of a partition is ordered.
    pub fn handle_ordered(&self, told: &Ordered) {
        let mut partitions = self.partitions.borrow_mut();
        if let Some(partition) = partitions.get_mut(&told.partition) {
            partition.handle_ordered(told);
        }
    }
}
