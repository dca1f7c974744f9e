//! One coordinator of transactions at work: requests in, records appended, markers and producer ids asked for, answers out, and the
//! clock that wakes it.
//!
//! Nothing here is answered before the coordinator says so, and it says so only after `handle_persisted`. If the log cannot be read, or
//! an append's outcome cannot be known, the host closes for good: the log is read anew at the next start, or by whoever leads it next.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use planted::{Bug, planted};
use platform::turns;
use protocol::transactions::{
    Action, Answer, Coordinator, Figures, Marked, MarkerId, NoProducerId, NotPersisted, PersistId, Request,
    Settings, TakeId, Ticket, TransactionError, WriteMarker,
};
use protocol::{Leader, ProducerId};
use record::{Epoch, PartitionId, Record, whole_ms};
use shard::{Acks, AppendAnswer, AppendRequest, Chore, Shard};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

use crate::core::Core;
use crate::groups::{Gathered, Gathering, took_nothing};

/// The time for which a core's image of the metadata may be behind that of another.
const LATENESS: Duration = Duration::from_secs(5);
/// Before a partition is tried again that has refused a coordinator which is in its epoch still.
const FENCED_REST: Duration = Duration::from_secs(10);

/// Says whether another change of the id was under way.
fn is_concurrent(answer: &Answer) -> bool {
    let concurrent = TransactionError::ConcurrentTransactions;
    match answer {
        Answer::Init(Err(error)) | Answer::AddPartitions(Err(error)) => *error == concurrent,
        Answer::End(Err(error)) | Answer::Verify(Err(error)) | Answer::Abort(Err(error)) => {
            *error == concurrent
        }
        _ => false,
    }
}

/// A batch on its way into the log, and the changes in it.
struct Appending {
    ids: Vec<PersistId>,
    outcome: AppendAnswer,
}

/// Something that a coordinator wants done elsewhere; whoever does it tells the host.
pub(crate) struct Acts {
    host: Rc<TransactionHost>,
    act: Act,
}

enum Act {
    Mark(WriteMarker),
    TakeProducerId(TakeId),
}

/// Does what coordinators want done elsewhere, until the node stops.
pub(crate) async fn carry_acts(core: Rc<Core>) {
    let to_do = core.transactions.to_do.take();
    let mut to_do = to_do.expect("it is taken once");
    while let Some(Acts { host, act }) = to_do.recv().await {
        let core = core.clone();
        turns::spawn_own(async move {
            match act {
                Act::Mark(marker) => host.mark(&core, &marker).await,
                Act::TakeProducerId(id) => {
                    let taken = core.next_producer_id().await;
                    let taken = taken.map_err(|error| {
                        tracing::debug!(%error, "a producer id could not be given");
                        NoProducerId
                    });
                    host.handle_producer_id(id, taken.map(ProducerId));
                }
            }
        });
    }
}

/// See the module.
pub(crate) struct TransactionHost {
    partition: PartitionId,
    /// The epoch in which it began.
    epoch: Epoch,
    /// Other nodes hold its log, too: it serves in that epoch alone.
    is_shared: bool,
    shard: Rc<Shard>,
    coordinator: RefCell<Coordinator>,
    waiting: RefCell<BTreeMap<Ticket, oneshot::Sender<Answer>>>,
    next_ticket: Cell<u64>,
    gathering: RefCell<Gathering>,
    /// Batches whose outcome is not known yet.
    under_way: Cell<usize>,
    /// `None` once it is closed.
    appending: RefCell<Option<mpsc::UnboundedSender<Appending>>>,
    acts: mpsc::UnboundedSender<Acts>,
    /// When the clock will wake the coordinator.
    wakes_at: Cell<Option<Duration>>,
    /// The clock is to look again.
    look_again: Notify,
    /// A change of an id has become durable, or a partition has its marker.
    changed: Notify,
    closed: Cell<bool>,
    /// Why it is closed, if the node does not stop.
    failure: RefCell<Option<String>>,
}

impl TransactionHost {
    /// Opens the coordinator of a partition on the core that calls. It refuses requests until its log is read.
    pub(super) fn open(
        (partition, epoch, is_shared): (PartitionId, Epoch, bool),
        shard: Rc<Shard>,
        settings: Settings,
        acts: mpsc::UnboundedSender<Acts>,
    ) -> Rc<TransactionHost> {
        let now = shard.clock.monotonic();
        let unix_ms_at_zero = shard.clock.wall_ms().saturating_sub(whole_ms(now));
        let (appending, appended) = mpsc::unbounded_channel();
        let host = Rc::new(TransactionHost {
            partition,
            epoch,
            is_shared,
            shard,
            coordinator: RefCell::new(Coordinator::new(settings, epoch.0, unix_ms_at_zero)),
            waiting: RefCell::default(),
            next_ticket: Cell::new(0),
            gathering: RefCell::new(Gathering::new()),
            under_way: Cell::new(0),
            appending: RefCell::new(Some(appending)),
            acts,
            wakes_at: Cell::new(None),
            look_again: Notify::new(),
            changed: Notify::new(),
            closed: Cell::new(false),
            failure: RefCell::new(None),
        });
        turns::spawn_own(host.clone().load());
        turns::spawn_own(host.clone().report(appended));
        turns::spawn_own(host.clone().keep_time());
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

    /// Has the coordinator take a record of its log. One without a key says nothing about any transaction.
    fn replay(&self, record: &Record) -> Result<(), String> {
        let Some(key) = &record.key else { return Ok(()) };
        let replayed = self.coordinator.borrow_mut().replay(key, record.value.as_deref());
        replayed.map_err(|error| error.to_string())
    }

    /// Gives the coordinator a request, and tells where its answer comes; `None`, or nothing there, if it never will.
    pub(super) fn ask(self: &Rc<Self>, request: Request) -> Option<oneshot::Receiver<Answer>> {
        // Whoever leads in the next epoch has another coordinator.
        if self.closed.get() || self.is_over() {
            return None;
        }
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        let (reply, answer) = oneshot::channel();
        self.waiting.borrow_mut().insert(ticket, reply);
        let now = self.tell_time();
        self.coordinator.borrow_mut().handle_request(now, ticket, request);
        self.act();
        Some(answer)
    }

    /// Has a marker written, and tells the coordinator of it.
    async fn mark(self: &Rc<Self>, core: &Rc<Core>, marker: &WriteMarker) {
        let mut marked = core.write_marker(marker).await;
        if marked == Marked::PartitionGone {
            // This core may know late of topics.
            sleep(LATENESS).await;
            marked = core.write_marker(marker).await;
        }
        if marked == Marked::Fenced && !self.is_over() && !self.closed.get() {
            let place = &marker.partition;
            tracing::warn!(
                topic = %place.topic,
                index = place.index,
                producer = marker.producer.0,
                "a partition knows a later end of a producer's transaction than its coordinator; it is tried again"
            );
            sleep(FENCED_REST).await;
            marked = Marked::Retry;
        }
        self.handle_marked(marker.id, marked);
    }

    fn handle_marked(self: &Rc<Self>, id: MarkerId, marked: Marked) {
        let now = self.tell_time();
        self.coordinator.borrow_mut().handle_marked(now, id, marked);
        self.act();
        self.changed.notify_waiters();
    }

    /// The same, and asks again for so long while the id's last transaction is being completed.
    pub(super) async fn ask_for(self: &Rc<Self>, patience: Duration, request: Request) -> Option<Answer> {
        let until = Instant::now() + patience;
        loop {
            // Listened for from here on: what is completed after the answer is heard.
            let changed = self.changed.notified();
            let answer = self.ask(request.clone())?.await.ok()?;
            if !is_concurrent(&answer) || timeout_at(until, changed).await.is_err() {
                return Some(answer);
            }
        }
    }

    fn handle_producer_id(self: &Rc<Self>, id: TakeId, taken: Result<ProducerId, NoProducerId>) {
        let now = self.tell_time();
        self.coordinator.borrow_mut().handle_producer_id(now, id, taken);
        self.act();
    }

    /// The epoch in which it began.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Says whether its epoch is over.
    fn is_over(&self) -> bool {
        let led = self.shard.with_leader(self.partition, Leader::epoch).ok();
        self.is_shared && led != Some(self.epoch)
    }

    /// Answers nobody any more.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.waiting.take();
        // Its tasks end, and it with them.
        self.appending.take();
        self.look_again.notify_one();
    }

    /// Closes for a reason that operators are told: until the next start its transactions are not coordinated.
    fn fail(&self, why: String) {
        // Whatever fails while the node stops is no failure of its own.
        if self.closed.get() {
            return;
        }
        tracing::error!(partition = %self.partition, %why, "the transactions of this partition are not coordinated");
        *self.failure.borrow_mut() = Some(why);
        self.close();
    }

    /// The figures of its transactions; of one that is closed the counts alone.
    pub(super) fn figures(&self) -> Figures {
        let figures = self.coordinator.borrow().figures();
        match self.closed.get() {
            true => figures.of_the_past(),
            false => figures,
        }
    }

    /// Why it has closed, if the node does not stop.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    /// Tells the coordinator what the clock on the wall shows, and gives the moment to tell it next. Not while it is borrowed.
    fn tell_time(&self) -> Duration {
        let now = self.shard.clock.monotonic();
        let unix_ms = self.shard.clock.wall_ms();
        self.coordinator.borrow_mut().handle_wall_clock(now, unix_ms);
        now
    }

    /// Does all that the coordinator wants done now.
    fn act(self: &Rc<Self>) {
        if self.closed.get() {
            return;
        }
        loop {
            let action = self.coordinator.borrow_mut().next_action();
            let act = match action {
                None => break,
                Some(Action::Answer { ticket, answer }) => {
                    let waiting = self.waiting.borrow_mut().remove(&ticket);
                    // A client that has gone does not wait any more.
                    let _ = waiting.map(|reply| reply.send(answer));
                    continue;
                }
                Some(Action::Persist { id, records }) => {
                    let now_ms = self.shard.clock.wall_ms();
                    let full = self.gathering.borrow_mut().add(now_ms, id, &records);
                    full.into_iter().for_each(|gathered| self.append(gathered));
                    continue;
                }
                Some(Action::WriteMarker(marker)) => Act::Mark(marker),
                Some(Action::TakeProducerId { id }) => Act::TakeProducerId(id),
            };
            let host = self.clone();
            // The other end lives as long as the core does.
            let _ = self.acts.send(Acts { host, act });
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

    /// Sends a batch to the log; `report` hears what became of it.
    fn append(&self, gathered: Gathered) {
        let Gathered { ids, batch } = gathered;
        let acks = match planted(Bug::GroupsAnsweredEarly) {
            true => Acks::None,
            false => Acks::Quorum,
        };
        let (request, outcome) = AppendRequest::new(self.partition, batch, acks);
        let request = request.in_epoch(self.is_shared.then_some(self.epoch));
        self.under_way.set(self.under_way.get() + 1);
        self.shard.append(request);
        if let Some(appending) = &*self.appending.borrow() {
            // The other end lives as long as this host does.
            let _ = appending.send(Appending { ids, outcome });
        }
    }

    /// Tells the coordinator what became of its changes, in their order.
    async fn report(self: Rc<Self>, mut appended: mpsc::UnboundedReceiver<Appending>) {
        while let Some(Appending { ids, outcome }) = appended.recv().await {
            let result = match outcome.await {
                Ok(Ok(_)) => {
                    self.shard.note_success(Chore::TransactionChanges);
                    Ok(())
                }
                Ok(Err(refusal)) if took_nothing(&refusal) => {
                    self.shard.note_failure(Chore::TransactionChanges, &refusal);
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
            self.act();
            self.changed.notify_waiters();
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
