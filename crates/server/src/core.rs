//! One core: the shards it owns, its image of the metadata, its connections, and the mailbox through which others
//! reach it. Everything in here is touched by one thread only.

mod apply;
mod budgets;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use kafka_wire::{ApiKey, ErrorCode, ErrorSet};
use platform::clock::Clock;
use platform::counters::{Counter, Histogram};
use platform::disk::Disk;
use platform::net::Net;
use platform::random::Random;
use platform::slices::next_slice;
use platform::turns::{self, LongTurns};
use platform::work::{Lane, Pool};
use protocol::leader::NodeId;
use protocol::metadata::Metadata;
use record::{ClusterId, DirectoryId, PartitionId, TopicId};
use shard::{Shard, TopicBook};
use storage::RecoveredPartition;
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use crate::answer_budget::AnswerBudget;
use crate::budget::Budget;
use crate::change_log::ChangeLog;
use crate::config::Config;
use crate::controller::{Controller, MetadataLog};
use crate::fetch_session::{FetchSessions, SessionRoom};
use crate::groups::Groups;
use crate::idle_poll::IdlePoll;
use crate::mailbox::{Mailbox, Mailboxes};
use crate::order::Orders;
use crate::peers::{Asked, Peers, WantedLinks};
use crate::producer_ids::ProducerIds;
use crate::transactions::Transactions;

pub(crate) use protocol::metadata::METADATA_PARTITION;

/// Topics that are looked up before others have their turn.
const TOPICS_IN_ONE_TURN: usize = 5_000;
/// The longest that core 0 of a draining node waits for the others to hand over what they lead.
const HAND_OVER_OF_OTHER_CORES: Duration = Duration::from_secs(4);
/// The interval at which a draining core looks whether its connections are gone.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// Facts that all cores of a node know alike.
#[derive(Clone)]
pub(crate) struct NodeFacts {
    pub(crate) node: NodeId,
    pub(crate) cluster: ClusterId,
    pub(crate) directory: DirectoryId,
    /// Its metadata is in a group that other nodes are of, or can be.
    pub(crate) is_member: bool,
    /// The number of this start, of a member; 0 of a node that is alone, whose starts the metadata counts.
    pub(crate) incarnation: u64,
    pub(crate) net: Arc<dyn Net>,
    pub(crate) config: Arc<Config>,
    pub(crate) clock: Arc<dyn Clock>,
    /// When a node last ran over the directory before this start, by its clock; `None` if that is not known.
    pub(crate) last_ran_ms: Option<i64>,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) change_log: Arc<ChangeLog>,
    /// The number of the node's shards: fixed when its directory was made.
    pub(crate) shards: usize,
    /// Runs blocking jobs that need not wait for each other.
    pub(crate) pool: Pool,
    pub(crate) random: Random,
    /// The version of the program, as it is told to people.
    pub(crate) version: &'static str,
}

impl NodeFacts {
    /// The shard that a partition belongs to. Partitions of a topic go round the shards.
    pub(crate) fn shard_of(&self, partition: PartitionId) -> usize {
        if partition == METADATA_PARTITION {
            return 0;
        }
        // Topic ids are random, so their bits need no further mixing. The result is part of the format: partitions must be
        // found in the shard whose journal has them.
        let (low, high) = partition.topic.0.split_at(8);
        let half = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let mixed = half(low) ^ half(high);
        (mixed.wrapping_add(partition.index as u64) % self.shards as u64) as usize
    }

    /// The core that owns a shard.
    pub(crate) fn core_of(&self, shard: usize) -> usize {
        shard % self.mailboxes.cores()
    }

    /// The core that owns a partition.
    pub(crate) fn owner_of(&self, partition: PartitionId) -> usize {
        self.core_of(self.shard_of(partition))
    }
}

/// The room that fetch sessions may take of one core.
fn session_room(config: &Config) -> SessionRoom {
    SessionRoom {
        sessions: config.limits.fetch_sessions,
        bytes: config.limits.fetch_session_bytes_per_core,
    }
}

/// The numbers of Kafka's APIs are below this.
const API_CODES: usize = 128;
const _: () = assert!(ApiKey::ALL[ApiKey::ALL.len() - 1].code() < API_CODES as i16);

/// Counts the requests of each of Kafka's APIs.
pub(crate) struct ApiCounters([Counter; API_CODES]);

impl Default for ApiCounters {
    fn default() -> ApiCounters {
        ApiCounters(std::array::from_fn(|_| Counter::default()))
    }
}

impl ApiCounters {
    fn of(&self, api: ApiKey) -> &Counter {
        &self.0[api.code() as usize]
    }

    pub(crate) fn note(&self, api: ApiKey) {
        self.of(api).add(1);
    }

    /// Those that were asked for.
    pub(crate) fn figures(&self) -> Vec<(ApiKey, u64)> {
        let all = ApiKey::ALL.iter().map(|api| (*api, self.of(*api).get()));
        all.filter(|(_, requests)| *requests > 0).collect()
    }
}

/// Counts the answers that told each error, for each API. Bounded by the errors that there are.
#[derive(Default)]
pub(crate) struct ErrorCounters(RefCell<BTreeMap<(ApiKey, i16), u64>>);

impl ErrorCounters {
    /// Takes note of one answer.
    pub(crate) fn note(&self, api: ApiKey, told: ErrorSet) {
        if told.is_empty() {
            return;
        }
        let mut answers = self.0.borrow_mut();
        for error in told.iter() {
            *answers.entry((api, error.code())).or_default() += 1;
        }
    }

    /// Those that were told.
    pub(crate) fn figures(&self) -> Vec<(ApiKey, ErrorCode, u64)> {
        let answers = self.0.borrow();
        let figures = answers.iter().filter_map(|((api, code), answers)| {
            let error = ErrorCode::from_code(*code)?;
            Some((*api, error, *answers))
        });
        figures.collect()
    }
}

/// Counters of one core, for metrics.
#[derive(Default)]
pub(crate) struct CoreCounters {
    pub(crate) connections: Cell<u64>,
    pub(crate) connections_opened: Counter,
    pub(crate) connections_refused: Counter,
    /// Sent on to the core that owns what they want.
    pub(crate) connections_moved: Counter,
    pub(crate) requests: Counter,
    pub(crate) requests_by_api: ApiCounters,
    pub(crate) errors: ErrorCounters,
    pub(crate) malformed_requests: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) sent_bytes: Counter,
    /// Closed because their answers were not taken in time.
    pub(crate) connections_cut_off: Counter,
    pub(crate) produce_latency: Histogram,
    /// Of fetches that did not wait for records.
    pub(crate) fetch_latency: Histogram,
}

pub(crate) struct Core {
    pub(crate) index: usize,
    pub(crate) facts: NodeFacts,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) long_turns: Arc<LongTurns>,
    /// On core 0: the disk's free space when it was last looked at; `None` if it is not known.
    pub(crate) disk_free_bytes: Cell<Option<u64>>,
    /// The clock has jumped: nothing is deleted for its age yet.
    pub(crate) clock_is_held: Cell<bool>,
    pub(crate) topic_book: Rc<TopicBook>,
    /// Only seen through `with_metadata`, so that no borrow of it ever lives across an await.
    metadata: RefCell<Metadata>,
    pub(crate) sessions: RefCell<FetchSessions>,
    pub(crate) producer_ids: ProducerIds,
    pub(crate) groups: Groups,
    pub(crate) transactions: Transactions,
    /// On core 0: what other nodes were asked.
    pub(crate) asked: Asked,
    pub(crate) orders: Orders,
    pub(crate) counters: CoreCounters,
    pub(crate) idle_poll: Arc<IdlePoll>,
    /// On core 0: the only place where metadata changes.
    pub(crate) controller: Option<Controller>,
    /// On core 0 of a node that others can join, or that has joined others: its part in the metadata group.
    pub(crate) metadata_log: Option<MetadataLog>,
    /// The core cannot go on, and is to end.
    pub(crate) lost: Notify,
    /// The connections to other nodes.
    pub(crate) peers: Rc<Peers>,
    /// The connections that this core's shards are to have.
    pub(crate) wanted_links: WantedLinks,
    /// Closed when the node begins to stop.
    draining: Semaphore,
    /// The node stops, and this core leads nothing any more that others can lead.
    has_handed_over: watch::Sender<bool>,
    /// Memory that large requests under way on this core may take.
    pub(crate) requests: Budget,
    /// Memory that answers of this core's connections may take until they are written.
    pub(crate) answers: Rc<AnswerBudget>,
    /// Takes wide requests apart, and puts their answers together.
    pub(crate) codec: Lane,
    /// Plans those changes of consumer groups that take longer than a turn may.
    pub(crate) planner: Rc<Lane>,
    shards: BTreeMap<usize, Rc<Shard>>,
    recovered: RefCell<BTreeMap<PartitionId, RecoveredPartition>>,
}

impl Core {
    pub(crate) fn new(
        index: usize,
        facts: NodeFacts,
        disk: Arc<dyn Disk>,
        long_turns: Arc<LongTurns>,
        topic_book: Rc<TopicBook>,
        (shards, recovered): (Vec<Rc<Shard>>, Vec<RecoveredPartition>),
        (codec, planner): (Lane, Lane),
    ) -> Rc<Core> {
        let metadata = Metadata::new(facts.config.topics.defaults.clone()).of_node(facts.node);
        Rc::new(Core {
            index,
            metadata: RefCell::new(metadata),
            sessions: RefCell::new(FetchSessions::new(index, session_room(&facts.config))),
            producer_ids: ProducerIds::default(),
            groups: Groups::default(),
            transactions: Transactions::default(),
            asked: Asked::default(),
            orders: Orders::default(),
            counters: CoreCounters::default(),
            idle_poll: IdlePoll::new(facts.clock.clone(), facts.config.idle_poll),
            controller: (index == 0).then(Controller::default),
            metadata_log: (index == 0 && facts.is_member).then(|| MetadataLog::new(&facts)),
            peers: Rc::default(),
            wanted_links: WantedLinks::default(),
            lost: Notify::new(),
            draining: Semaphore::new(0),
            has_handed_over: watch::Sender::new(false),
            requests: Budget::new(facts.config.limits.in_flight_bytes_per_core),
            answers: AnswerBudget::new(facts.config.limits.answer_bytes_per_core),
            shards: shards.into_iter().map(|shard| (shard.index, shard)).collect(),
            recovered: RefCell::new(recovered.into_iter().map(|found| (found.id, found)).collect()),
            facts,
            disk,
            long_turns,
            disk_free_bytes: Cell::new(None),
            clock_is_held: Cell::new(false),
            topic_book,
            codec,
            planner: Rc::new(planner),
        })
    }

    /// Carries out letters until the node stops.
    pub(crate) async fn read_mailbox(self: Rc<Self>, mut mailbox: Mailbox) {
        while let Some(letter) = mailbox.recv().await {
            letter(&self);
            if turns::is_spent() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Begins to drain: from now on the core's figures say so. In the future, waits until the connections are gone, and makes what
    /// was staged durable; tells whether all of them took their answers.
    pub(crate) fn drain(self: Rc<Self>) -> impl Future<Output = bool> {
        // Requests that wait for records or for a rebalance would keep their connections, and the node, waiting.
        self.draining.close();
        self.groups.close();
        self.transactions.close();
        async move { self.drain_to_the_end().await }
    }

    /// Says if the node has begun to stop.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_closed()
    }

    /// Returns when the node begins to stop.
    pub(crate) async fn until_draining(&self) {
        // Nothing can be had of it, ever.
        let _ = self.draining.acquire().await;
    }

    async fn drain_to_the_end(&self) -> bool {
        self.hand_over_all().await;
        self.has_handed_over.send_replace(true);
        if self.metadata_log.is_some() {
            self.until_all_have_handed_over().await;
            self.leave_group().await;
        }
        let cut_off = self.counters.connections_cut_off.get();
        while self.counters.connections.get() > 0 {
            tokio::time::sleep(DRAIN_POLL).await;
        }
        for shard in self.shards.values() {
            shard.drain().await;
        }
        self.facts.change_log.tell_sum();
        self.counters.connections_cut_off.get() == cut_off
    }

    /// Waits until no core has anything to hand over any more: the metadata is changed for that.
    async fn until_all_have_handed_over(&self) {
        let mailboxes = &self.facts.mailboxes;
        let each = (1..mailboxes.cores()).map(|core| {
            mailboxes.call(core, |core| async move {
                // A core that dies has nothing to hand over.
                let _ = core.has_handed_over.subscribe().wait_for(|done| *done).await;
            })
        });
        let _ = timeout(HAND_OVER_OF_OTHER_CORES, join_all(each)).await;
    }

    /// Looks at this core's image of the metadata. Nothing can be waited for meanwhile: a change that came in between would
    /// find it borrowed.
    pub(crate) fn with_metadata<T>(&self, look: impl FnOnce(&Metadata) -> T) -> T {
        look(&self.metadata.borrow())
    }

    /// All topics by name, in slices: one that comes or goes meanwhile may be missing.
    pub(crate) async fn all_topics(&self) -> Vec<(Arc<str>, TopicId)> {
        let mut topics: Vec<(Arc<str>, TopicId)> = Vec::new();
        loop {
            // The name right behind the last one.
            let from = topics
                .last()
                .map(|(name, _)| format!("{name}\0"))
                .unwrap_or_default();
            let before = topics.len();
            self.with_metadata(|metadata| {
                let some = metadata.topics_from(&from).take(TOPICS_IN_ONE_TURN);
                topics.extend(some.map(|topic| (Arc::clone(&topic.name), topic.id)));
            });
            if topics.len() - before < TOPICS_IN_ONE_TURN {
                return topics;
            }
            next_slice().await;
        }
    }

    /// The number that clients have set for this node, or that it was started with.
    pub(crate) fn number_in_force(&self, name: &str, started: u64) -> u64 {
        self.with_metadata(|metadata| metadata.own_broker_number(name))
            .unwrap_or(started)
    }

    /// A shard of this core.
    ///
    /// # Panics
    /// If another core owns it: the caller's mistake.
    pub(crate) fn shard(&self, index: usize) -> &Rc<Shard> {
        self.shards
            .get(&index)
            .expect("letters about a shard go to the core that owns it")
    }

    /// This core's shards.
    pub(crate) fn shards(&self) -> impl Iterator<Item = &Rc<Shard>> {
        self.shards.values()
    }

    /// One of this core's shards, if it is one.
    pub(crate) fn own_shard(&self, index: usize) -> Option<&Rc<Shard>> {
        self.shards.get(&index)
    }

    /// Takes what recovery found of a partition.
    pub(crate) fn take_recovered(&self, id: PartitionId) -> Option<RecoveredPartition> {
        self.recovered.borrow_mut().remove(&id)
    }
}
