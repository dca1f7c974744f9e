//! Scribes: on the node that leads the log of a topic's order, a task that gives positions to what leaders report, and tells them when that holds.
//!
//! ```text
//!   report (`reports`) ──► scribe ──► page ──► the order's log ──► its tail moves ──► leaders are told, readers of the order find it at home
//! ```
//! One lives as long as its epoch. [`Scribe`] decides; nothing here may tell of a page before the tail of its log is behind it.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use protocol::leader::NodeId;
use protocol::order::{Claim, ClaimRefusal, Ordered, Page, Report, Scribe, order_log_of};
use protocol::peer::Message;
use record::{Epoch, Offset, PartitionId, Position, TopicId};
use shard::{NotLed, Shard, Watch, Watcher};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::home::Home;
use super::last_page;
use crate::core::{Core, NodeFacts};
use crate::peers::Purpose;

/// Before a page is tried again that the journal had no room for.
const REST: Duration = Duration::from_millis(20);
/// A page may name partitions that this node has not heard of yet.
const PARTITIONS_MAX: usize = i32::MAX as usize;
/// Before a page is read again that could not be.
const DAMAGE_REST: Duration = Duration::from_secs(1);

/// The scribe of one topic, on the core that has the log of its order.
pub(super) struct ScribeHost {
    topic: TopicId,
    log: PartitionId,
    epoch: Epoch,
    shard: Rc<Shard>,
    /// Where positions are found, once the log was read.
    home: OnceCell<Rc<Home>>,
    /// `None` until the log was read.
    scribe: RefCell<Option<Scribe>>,
    /// Something was reported, or this is over.
    news: Notify,
    is_over: Cell<bool>,
    /// The shards of nodes that have reported: what is read in order may have to come from there.
    linked: RefCell<BTreeSet<(usize, NodeId)>>,
}

impl Core {
    /// Begins to write the orders whose logs are led here now, and ends those whose epochs are over.
    pub(crate) fn open_scribes(&self) {
        if !self.facts.is_member {
            return;
        }
        self.note_scribes();
        let wanted: BTreeMap<TopicId, Epoch> = self.with_metadata(|metadata| {
            let logs = metadata.order_logs().filter_map(|log| {
                let topic = metadata.topic(order_log_of(log.id))?;
                Some(topic.id).filter(|_| topic.settings.is_ordered)
            });
            let led = logs.filter_map(|topic| Some((topic, self.epoch_of_order(topic)?)));
            led.collect()
        });
        let mut scribes = self.orders.scribes.borrow_mut();
        scribes.retain(|topic, host| {
            let stays = wanted.get(topic) == Some(&host.epoch);
            if !stays {
                tracing::debug!(%topic, epoch = %host.epoch, "this node does not give positions to the topic's records any more");
                host.end();
            }
            stays
        });
        for (topic, epoch) in wanted {
            scribes
                .entry(topic)
                .or_insert_with(|| self.begin_scribe(topic, epoch));
        }
    }

    /// Has partitions that are led here report to scribes that are new.
    fn note_scribes(&self) {
        let new: Vec<PartitionId> = self.with_metadata(|metadata| {
            let mut known = self.orders.known_scribes.borrow_mut();
            known.retain(|topic, _| metadata.topic(*topic).is_some());
            let logs = metadata.order_logs().filter_map(|log| {
                let state = metadata.partitions(log).next()?;
                let scribe = (state.leader, state.epoch);
                let topic = metadata.topic(order_log_of(log.id))?;
                (known.insert(topic.id, scribe) != Some(scribe)).then_some(topic)
            });
            logs.flat_map(|topic| self.own_partitions(topic, 0)).collect()
        });
        for id in new {
            self.shard(self.facts.shard_of(id)).report_anew(id);
        }
    }

    /// The epoch of the log of a topic's order, if it is led here and open.
    fn epoch_of_order(&self, topic: TopicId) -> Option<Epoch> {
        let log = self.facts.pages_of(topic);
        let shard = self.own_shard(self.facts.shard_of(log))?;
        shard.with_leader(log, |leader| leader.epoch()).ok()
    }

    fn begin_scribe(&self, topic: TopicId, epoch: Epoch) -> Rc<ScribeHost> {
        let log = self.facts.pages_of(topic);
        let shard = self.shard(self.facts.shard_of(log)).clone();
        let host = Rc::new(ScribeHost {
            topic,
            log,
            epoch,
            home: OnceCell::new(),
            shard,
            scribe: RefCell::default(),
            news: Notify::new(),
            is_over: Cell::new(false),
            linked: RefCell::default(),
        });
        let facts = self.facts.clone();
        platform::turns::spawn(host.clone().write(facts));
        host
    }

    /// Brings the word of a partition's leader on another node to the core of the log of its order.
    pub(crate) fn hand_report(&self, from: NodeId, report: Report) {
        let log = self.facts.pages_of(report.committed.partition.topic);
        match self.facts.owner_of(log) {
            here if here == self.index => self.handle_report(from, &report),
            core => self
                .facts
                .mailboxes
                .send(core, move |core| core.handle_report(from, &report)),
        }
    }

    /// On the core of the log of an order: takes the word of a partition's leader.
    pub(crate) fn handle_report(&self, from: NodeId, report: &Report) {
        let partition = report.committed.partition;
        let topic = partition.topic;
        // A leader whose epoch is over has not been told so yet: what it says might end the promise to the next one.
        let is_over = |epoch: Epoch| epoch > report.committed.epoch;
        let is_there = self.with_metadata(|metadata| {
            metadata
                .partition(partition)
                .is_some_and(|state| !is_over(state.epoch))
        });
        let host = self.orders.scribes.borrow().get(&topic).cloned();
        let Some(host) = host.filter(|_| is_there) else {
            return;
        };
        let shard = self.facts.shard_of(partition);
        if from != self.facts.node && host.linked.borrow_mut().insert((shard, from)) {
            self.facts.mailboxes.send(self.facts.core_of(shard), move |core| {
                core.wanted_links.want(shard, [from].into_iter());
            });
        }
        for answer in host.take(from, report) {
            self.tell_ordered(from, answer);
        }
    }

    /// On the core of the log of an order: asks its scribe for a position.
    ///
    /// # Errors
    /// See [`ClaimRefusal`].
    pub(super) fn handle_claim(&self, topic: TopicId, claim: &Claim) -> Result<(), ClaimRefusal> {
        let host = self.orders.scribes.borrow().get(&topic).cloned();
        host.ok_or(ClaimRefusal::Unsettled)?.claim(self.facts.node, claim)
    }

    /// On the core of the log of an order: tells the leader of a partition how far that is ordered.
    fn tell_ordered(&self, to: NodeId, ordered: Ordered) {
        if to == self.facts.node {
            return self.hand_ordered(ordered);
        }
        let log = self.facts.pages_of(ordered.partition.topic);
        self.send_of_order(self.facts.shard_of(log), to, Message::Ordered(ordered));
    }

    /// Brings a scribe's word to the core of the partition.
    pub(crate) fn hand_ordered(&self, ordered: Ordered) {
        let shard = self.facts.shard_of(ordered.partition);
        match self.own_shard(shard) {
            Some(shard) => shard.handle_ordered(&ordered),
            None => self.facts.mailboxes.send(self.facts.core_of(shard), move |core| {
                core.shard(shard).handle_ordered(&ordered);
            }),
        }
    }

    /// Sends a message of an order over the link of the shard that has its log, or over the metadata's, which there always is.
    pub(super) fn send_of_order(&self, shard: usize, to: NodeId, message: Message) {
        let purpose = Purpose::Shard(u16::try_from(shard).expect("a node has fewer shards"));
        if self.peers.send(purpose, to, &message) {
            return;
        }
        // Whoever is not told asks again.
        self.facts.mailboxes.send(0, move |core| {
            core.peers.send(Purpose::Metadata, to, &message);
        });
    }
}

impl ScribeHost {
    pub(super) fn home(&self) -> Option<&Rc<Home>> {
        self.home.get()
    }

    fn end(&self) {
        self.is_over.set(true);
        self.news.notify_one();
        // Readers are told to look elsewhere.
        self.home().into_iter().for_each(|home| home.give_up());
    }

    /// Takes a report. Returns the answer, if it is known and true.
    fn take(&self, from: NodeId, report: &Report) -> Vec<Ordered> {
        let Some(scribe) = &mut *self.scribe.borrow_mut() else {
            return Vec::new();
        };
        let answer = scribe.handle_report(from, report);
        self.news.notify_one();
        if let Some(home) = self.home() {
            let Report { committed, .. } = report;
            home.note_log_start(committed.partition.index, committed.log_start);
        }
        // Another scribe may have told of more.
        let is_alone = self.shard.has_lease(self.log).is_ok_and(|is_held| is_held);
        if is_alone { answer } else { Vec::new() }
    }

    fn claim(&self, from: NodeId, claim: &Claim) -> Result<(), ClaimRefusal> {
        let mut scribe = self.scribe.borrow_mut();
        let scribe = scribe.as_mut().ok_or(ClaimRefusal::Unsettled)?;
        // Another scribe may have told of more: what is refused here might be the next position there.
        let is_alone = self.shard.has_lease(self.log).is_ok_and(|is_held| is_held);
        // And a page that an earlier one has left behind may come back, while the epoch is not accepted.
        if !(is_alone && self.shard.have_accepted(self.log)) {
            return Err(ClaimRefusal::Unsettled);
        }
        scribe.claim(from, claim)
    }

    async fn write(self: Rc<Self>, facts: NodeFacts) {
        let topic = self.topic;
        let Some(last) = self.read_end().await else {
            return;
        };
        let scribe = Scribe::behind(self.epoch, last.as_ref());
        let home = Home::of_log(topic, (self.shard.clone(), self.log), scribe.committed());
        self.home.get_or_init(|| Rc::new(home));
        self.scribe.replace(Some(scribe));
        tracing::info!(%topic, epoch = %self.epoch, "this node gives positions to the topic's records");
        self.write_on(&facts).await;
    }

    /// Returns the last page, if there is one, once all of the log is committed; `None` if its epoch is over before.
    async fn read_end(&self) -> Option<Option<Page>> {
        while !self.is_over.get() {
            let tail = self.tail().ok()?;
            if self.shard.next_offset(self.log) != Ok(tail) {
                self.until_moved(tail).await;
                continue;
            }
            match last_page(&self.shard, self.log, PARTITIONS_MAX).await {
                Ok(last) => return Some(last),
                Err(error) => {
                    // Another replica may lend what is damaged, as soon as it is there.
                    tracing::error!(topic = %self.topic, error, "the end of the topic's order cannot be read yet: nothing more of the topic is shown");
                    sleep(DAMAGE_REST).await;
                }
            }
        }
        None
    }

    /// Returns when the tail of the log is behind this, or there is other news.
    async fn until_moved(&self, seen: Offset) {
        let watcher = Watcher::new(1);
        self.shard.watch(&[Watch::lone(self.log, seen)], &watcher);
        tokio::select! {
            biased;
            () = watcher.woken() => {}
            () = self.news.notified() => {}
        }
    }

    async fn write_on(&self, facts: &NodeFacts) {
        // One that was taken, and that the journal had no room for.
        let mut unstaged: Option<Page> = None;
        while !self.is_over.get() {
            let Ok(tail) = self.tail() else { return };
            self.tell(facts, Position(tail.0 as u64));
            let next = |unstaged: &mut Option<Page>| {
                let mut scribe = self.scribe.borrow_mut();
                unstaged.take().or_else(|| scribe.as_mut()?.take_page())
            };
            while let Some(page) = next(&mut unstaged) {
                if let Err(refusal) = self.shard.stage_page(self.log, &page) {
                    tracing::debug!(topic = %self.topic, %refusal, "a page of the topic's order waits");
                    unstaged = Some(page);
                    break;
                }
            }
            match unstaged {
                Some(_) => sleep(REST).await,
                None => self.until_moved(tail).await,
            }
        }
    }

    fn tail(&self) -> Result<Offset, NotLed> {
        let led = self
            .shard
            .with_leader(self.log, |leader| (leader.epoch(), leader.tail()));
        match led? {
            (epoch, tail) if epoch == self.epoch => Ok(tail),
            _ => Err(NotLed::NotLeader),
        }
    }

    /// Tells leaders, and those who read in order, of what is committed now.
    fn tell(&self, facts: &NodeFacts, below: Position) {
        let mut all = Vec::new();
        while let Some((page, told)) = self.take_committed(below) {
            self.home().into_iter().for_each(|home| home.take_page(&page));
            all.extend(told);
        }
        if all.is_empty() {
            return;
        }
        facts.mailboxes.send(facts.owner_of(self.log), move |core| {
            all.into_iter()
                .for_each(|(to, ordered)| core.tell_ordered(to, ordered));
        });
        self.home().into_iter().for_each(|home| home.wake());
    }

    fn take_committed(&self, below: Position) -> Option<(Page, Vec<(NodeId, Ordered)>)> {
        self.scribe.borrow_mut().as_mut()?.take_committed(below)
    }
}
