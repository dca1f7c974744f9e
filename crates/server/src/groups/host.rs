//! One coordinator at work: requests in, records appended, answers out, and the clock that wakes it.
//!
//! Nothing here is answered before the coordinator says so, and it says so only after `handle_persisted`. If the log cannot
//! be read, or an append's outcome cannot be known, the host closes for good: the log is read anew at the next start. One of a partition that
//! others hold, too, lives for one epoch: whoever opens the next reads the log anew.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use platform::work::Lane;
use protocol::Leader;
use protocol::groups::{
    Action, Answer, Coordinator, GroupOffset, Name, NotPersisted, OffsetsPlace, OwnPace, PersistId, Planning,
    Request, Settings, Ticket, TopicChange,
};
use record::{Epoch, PartitionId, Record, whole_ms};
use shard::{Acks, AppendAnswer, AppendRefusal, AppendRequest, Chore, Shard};
use tokio::sync::{Notify, mpsc, oneshot};

use super::admin_change::AdminChange;
use super::gathering::{Gathered, Gathering};
use super::rewriting::{Rewriting, Step};
use crate::change_log::ChangeLog;

/// A batch on its way into the log, and the changes in it; none if it is of what is written anew.
struct Appending {
    ids: Vec<PersistId>,
    outcome: AppendAnswer,
}

/// A request that waits for its answer, and the change that the log is to tell then.
struct Waiting {
    reply: oneshot::Sender<Answer>,
    admin_change: Option<AdminChange>,
}

/// See the module.
pub(super) struct GroupHost {
    partition: PartitionId,
    /// The epoch in which it serves, of a partition that others hold, too.
    epoch: Option<Epoch>,
    /// Of such a partition, which is not compacted.
    rewriting: Option<RefCell<Rewriting>>,
    shard: Rc<Shard>,
    planner: Rc<Lane>,
    coordinator: RefCell<Coordinator>,
    change_log: Arc<ChangeLog>,
    waiting: RefCell<BTreeMap<Ticket, Waiting>>,
    /// The ends of transactions that have come: what was said of one before may not hold any more.
    ends: Cell<u64>,
    next_ticket: Cell<u64>,
    gathering: RefCell<Gathering>,
    /// Batches whose outcome is not known yet.
    under_way: Cell<usize>,
    /// `None` once it is closed.
    appending: RefCell<Option<mpsc::UnboundedSender<Appending>>>,
    /// Changes that are planned beside the core, one after the other.
    planning: RefCell<Option<mpsc::UnboundedSender<Box<Planning>>>>,
    /// When the clock will wake the coordinator.
    wakes_at: Cell<Option<Duration>>,
    /// The clock is to look again.
    look_again: Notify,
    closed: Cell<bool>,
    /// Why it is closed, if the node does not stop.
    failure: RefCell<Option<String>>,
}

impl GroupHost {
    /// Opens the coordinator of a partition on the core that calls. It refuses requests until its log is read.
    pub(super) fn open(
        (partition, led): (PartitionId, Option<(Epoch, Rewriting)>),
        shard: Rc<Shard>,
        planner: Rc<Lane>,
        settings: Settings,
        change_log: Arc<ChangeLog>,
        (topics, paces): (Vec<TopicChange>, Vec<(Name, OwnPace)>),
    ) -> Rc<GroupHost> {
        let now = shard.clock.monotonic();
        let unix_ms_at_zero = shard.clock.wall_ms().saturating_sub(whole_ms(now));
        let mut coordinator = Coordinator::new(settings, unix_ms_at_zero);
        coordinator.handle_topics(now, topics);
        for (group, own) in paces {
            coordinator.handle_pace(group, own);
        }
        let (appending, appended) = mpsc::unbounded_channel();
        let (planning, to_plan) = mpsc::unbounded_channel();
        let (epoch, rewriting) = led.unzip();
        let host = Rc::new(GroupHost {
            partition,
            epoch,
            rewriting: rewriting.map(RefCell::new),
            shard,
            planner,
            coordinator: RefCell::new(coordinator),
            change_log,
            waiting: RefCell::default(),
            ends: Cell::new(0),
            next_ticket: Cell::new(0),
            gathering: RefCell::new(Gathering::new()),
            under_way: Cell::new(0),
            appending: RefCell::new(Some(appending)),
            planning: RefCell::new(Some(planning)),
            wakes_at: Cell::new(None),
            look_again: Notify::new(),
            closed: Cell::new(false),
            failure: RefCell::new(None),
        });
        platform::turns::spawn_own(host.clone().load());
        platform::turns::spawn_own(host.clone().report(appended));
        platform::turns::spawn_own(host.clone().keep_time());
        platform::turns::spawn_own(host.clone().plan(to_plan));
        host
    }

    /// Reads the log back, then takes requests.
    async fn load(self: Rc<Self>) {
        let mut take = |record: &Record| self.replay(record);
        match self.shard.replay(self.partition, &mut take).await {
            // The records may be of a later epoch then.
            Ok(()) if self.is_over() => self.close(),
            Ok(()) => {
                let now = self.tell_time();
                self.coordinator.borrow_mut().handle_loaded(now);
                if let Some(rewriting) = &self.rewriting {
                    rewriting
                        .borrow_mut()
                        .handle_loaded(self.coordinator.borrow().held_bytes());
                }
                self.write_anew();
                self.act();
            }
            // Somebody else leads by now.
            Err(_) if self.is_over() => self.close(),
            Err(error) => {
                self.shard.abandon(self.partition);
                self.fail(format!("their log cannot be read: {error}"));
            }
        }
    }

    /// Has the coordinator take a record of its log. One without a key says nothing about any group.
    fn replay(&self, record: &Record) -> Result<(), String> {
        if let Some(rewriting) = &self.rewriting {
            let bytes = [&record.key, &record.value].map(|part| part.as_ref().map_or(0, Bytes::len));
            rewriting.borrow_mut().grow(bytes.iter().sum());
        }
        let Some(key) = record.key.as_ref().filter(|_| !planted(Bug::GroupsForgotten)) else {
            return Ok(());
        };
        let replayed = self.coordinator.borrow_mut().replay(key, record.value.as_deref());
        replayed.map_err(|error| error.to_string())
    }

    /// Gives the coordinator a request, and tells where its answer comes; `None`, or nothing there, if it never will.
    pub(super) fn ask(&self, request: Request) -> Option<oneshot::Receiver<Answer>> {
        if self.closed.get() {
            return None;
        }
        if matches!(request, Request::EndTransaction(_)) {
            self.ends.set(self.ends.get() + 1);
        }
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        let (reply, answer) = oneshot::channel();
        let admin_change = AdminChange::of(&request, &self.coordinator.borrow());
        let waiting = Waiting { reply, admin_change };
        self.waiting.borrow_mut().insert(ticket, waiting);
        let now = self.tell_time();
        self.coordinator.borrow_mut().handle_request(now, ticket, request);
        self.act();
        Some(answer)
    }

    /// The number of ends of transactions that have come.
    pub(super) fn ends(&self) -> u64 {
        self.ends.get()
    }

    /// Tells the coordinator what has become of topics.
    pub(super) fn handle_topics(&self, changes: &[TopicChange]) {
        let changes = changes.iter().cloned();
        let now = self.tell_time();
        self.coordinator.borrow_mut().handle_topics(now, changes);
        self.act();
    }

    /// Tells the coordinator what a group's configs set.
    pub(super) fn handle_pace(&self, group: Name, own: OwnPace) {
        self.coordinator.borrow_mut().handle_pace(group, own);
    }

    /// The epoch in which it serves, of a partition that others hold, too.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// Says whether its epoch is over.
    fn is_over(&self) -> bool {
        let led = self.shard.with_leader(self.partition, Leader::epoch).ok();
        self.epoch.is_some() && led != self.epoch
    }

    /// Answers nobody any more.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.waiting.take();
        // Its tasks end, and it with them.
        self.appending.take();
        self.planning.take();
        self.look_again.notify_one();
    }

    /// Closes for a reason that operators are told: until the next start the groups are not served.
    fn fail(&self, why: String) {
        // Whatever fails while the node stops is no failure of its own.
        if self.closed.get() {
            return;
        }
        tracing::error!(partition = %self.partition, %why, "the groups of this partition are not served");
        *self.failure.borrow_mut() = Some(why);
        self.close();
    }

    /// Why it has closed, if the node does not stop.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    pub(super) fn group_count(&self) -> usize {
        self.coordinator.borrow().group_count()
    }

    /// See `Coordinator::offsets_from`.
    pub(super) fn offsets_from(
        &self,
        place: OffsetsPlace,
        work_max: usize,
    ) -> (Vec<GroupOffset>, Option<OffsetsPlace>) {
        self.coordinator.borrow().offsets_from(place, work_max)
    }

    /// Tells the coordinator what the clock on the wall shows, and gives the moment to tell it next. Not while it is borrowed.
    fn tell_time(&self) -> Duration {
        let now = self.shard.clock.monotonic();
        let unix_ms = self.shard.clock.wall_ms();
        self.coordinator.borrow_mut().handle_wall_clock(now, unix_ms);
        now
    }

    /// Does all that the coordinator wants done now.
    fn act(&self) {
        if self.closed.get() {
            return;
        }
        loop {
            let action = self.coordinator.borrow_mut().next_action();
            match action {
                None => break,
                Some(Action::Plan(planning)) => {
                    if let Some(to_plan) = &*self.planning.borrow() {
                        // The other end lives as long as this host does.
                        let _ = to_plan.send(planning);
                    }
                }
                Some(Action::Answer { ticket, answer }) => {
                    let waiting = self.waiting.borrow_mut().remove(&ticket);
                    if let Some(waiting) = waiting {
                        self.answer(waiting, answer);
                    }
                }
                Some(Action::Persist { id, records }) => {
                    let now_ms = self.shard.clock.wall_ms();
                    let full = self.gathering.borrow_mut().add(now_ms, id, &records);
                    full.into_iter().for_each(|gathered| self.append(gathered));
                }
            }
        }
        if self.under_way.get() == 0 {
            let gathered = self.gathering.borrow_mut().take();
            gathered.into_iter().for_each(|gathered| self.append(gathered));
        }
        let deadline = self.coordinator.borrow().deadline();
        if deadline.is_some_and(|at| self.wakes_at.get().is_none_or(|wakes_at| at < wakes_at)) {
            self.look_again.notify_one();
        }
    }

    fn answer(&self, waiting: Waiting, answer: Answer) {
        if let Some(change) = &waiting.admin_change {
            change.tell(&self.change_log, self.shard.clock.monotonic(), &answer);
        }
        // A client that has gone does not wait any more.
        let _ = waiting.reply.send(answer);
    }

    /// Sends a batch to the log; `report` hears what became of it.
    fn append(&self, gathered: Gathered) {
        let Gathered { ids, batch } = gathered;
        let acks = if planted(Bug::GroupsAnsweredEarly) {
            Acks::None
        } else {
            Acks::Quorum
        };
        if let Some(rewriting) = &self.rewriting {
            rewriting.borrow_mut().grow(batch.len());
        }
        let (request, outcome) = AppendRequest::new(self.partition, batch, acks);
        let request = request.in_epoch(self.epoch);
        self.under_way.set(self.under_way.get() + 1);
        self.shard.append(request);
        if let Some(appending) = &*self.appending.borrow() {
            // The other end lives as long as this host does.
            let _ = appending.send(Appending { ids, outcome });
        }
    }

    /// Has changes planned beside the core.
    async fn plan(self: Rc<Self>, mut to_plan: mpsc::UnboundedReceiver<Box<Planning>>) {
        while let Some(planning) = to_plan.recv().await {
            let planned = self.planner.run(move || planning.run()).await;
            if self.closed.get() {
                return;
            }
            let now = self.tell_time();
            self.coordinator.borrow_mut().handle_planned(now, planned);
            self.act();
        }
    }

    /// Tells the coordinator what became of its changes, in their order.
    async fn report(self: Rc<Self>, mut appended: mpsc::UnboundedReceiver<Appending>) {
        while let Some(Appending { ids, outcome }) = appended.recv().await {
            let result = match outcome.await {
                Ok(Ok(appended)) => {
                    self.shard.note_success(Chore::GroupChanges);
                    if let Some(rewriting) = self.rewriting.as_ref().filter(|_| ids.is_empty()) {
                        let step = rewriting.borrow_mut().handle_committed(appended.first_offset);
                        self.take_step(step);
                    }
                    Ok(())
                }
                Ok(Err(refusal)) if took_nothing(&refusal) => {
                    self.shard.note_failure(Chore::GroupChanges, &refusal);
                    if let Some(rewriting) = self.rewriting.as_ref().filter(|_| ids.is_empty()) {
                        rewriting.borrow_mut().handle_refused();
                    }
                    Err(NotPersisted)
                }
                // The coordinator of the next epoch finds out.
                Ok(Err(_)) if self.is_over() => return self.close(),
                Ok(Err(refusal)) => {
                    return self.fail(format!(
                        "it is not known whether a change is in their log: {refusal}"
                    ));
                }
                // The node stops.
                Err(_) => return self.close(),
            };
            for id in ids {
                let now = self.tell_time();
                self.coordinator.borrow_mut().handle_persisted(now, id, result);
            }
            self.under_way.set(self.under_way.get() - 1);
            self.write_anew();
            self.act();
        }
    }

    /// Writes a part of the log anew, if it has grown and nothing is on its way into it.
    fn write_anew(&self) {
        let Some(rewriting) = self.rewriting.as_ref() else {
            return;
        };
        if self.under_way.get() > 0 || self.closed.get() || self.is_over() {
            return;
        }
        let now_ms = self.shard.clock.wall_ms();
        let image = |from: &Name, bytes| self.coordinator.borrow().image_from(from, bytes);
        let step = rewriting.borrow_mut().next_step(image, now_ms);
        self.take_step(step);
    }

    fn take_step(&self, step: Option<Step>) {
        match step {
            None => {}
            Some(Step::Append(batches)) => {
                for batch in batches {
                    let ids = Vec::new();
                    self.append(Gathered { ids, batch });
                }
            }
            Some(Step::Trim(first_kept)) => {
                let (shard, partition) = (self.shard.clone(), self.partition);
                let epoch = self
                    .epoch
                    .expect("only a log that others have, too, is written anew");
                platform::turns::spawn_own(async move {
                    match shard.trim_own(partition, first_kept, epoch).await {
                        Ok(_) => tracing::debug!(%partition, %first_kept, "a log of groups was written anew"),
                        Err(refusal) => {
                            tracing::debug!(%partition, %refusal, "a log of groups was not trimmed; it is tried again later");
                        }
                    }
                });
            }
        }
    }

    /// Wakes the coordinator when it wants to be woken.
    async fn keep_time(self: Rc<Self>) {
        while !self.closed.get() {
            let deadline = self.coordinator.borrow().deadline();
            self.wakes_at.set(deadline);
            let left = deadline.map(|at| at.saturating_sub(self.shard.clock.monotonic()));
            let wait = async {
                match left {
                    // There is work left: one piece at a time, so that the core serves others in between.
                    Some(left) if left.is_zero() => tokio::task::yield_now().await,
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = wait => {
                    let now = self.tell_time();
                    self.coordinator.borrow_mut().handle_time(now);
                    self.act();
                }
                () = self.look_again.notified() => {}
            }
        }
    }
}

/// Says whether a refused batch is certain not to be in the log. After a flush that failed nobody knows, nor of what the leader
/// gave up while it was under way.
pub(crate) fn took_nothing(refusal: &AppendRefusal) -> bool {
    !matches!(
        refusal,
        AppendRefusal::FlushFailed(_)
            | AppendRefusal::JournalDead(_)
            | AppendRefusal::NotLeader
            | AppendRefusal::Abandoned
            | AppendRefusal::UnknownPartition
            | AppendRefusal::Stopping
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use shard::DiskShortage;

    #[test]
    fn what_was_staged_may_be_in_the_log() {
        let staged = [
            AppendRefusal::FlushFailed("a disk error".into()),
            AppendRefusal::JournalDead("a flush failed".into()),
            AppendRefusal::NotLeader,
            AppendRefusal::Abandoned,
            AppendRefusal::UnknownPartition,
            AppendRefusal::Stopping,
        ];
        assert!(!staged.iter().any(took_nothing));
        let refused = [
            AppendRefusal::DiskFull(DiskShortage {
                free_bytes: 0,
                reserve_bytes: 1,
            }),
            AppendRefusal::JournalFull { why: "".into() },
        ];
        assert!(refused.iter().all(took_nothing));
    }
}
