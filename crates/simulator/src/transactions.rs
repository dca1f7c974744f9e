//! Clients with transactions: producers of both versions that commit, abort, die, fence each other and go silent, whose requests may come late, and
//! readers of committed records. They have a topic to themselves, on a node by itself or in a cluster.
//!
//! `ledger` is the model that their view is held against.

mod ledger;
mod producer;
mod reader;
mod straggler;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::metadata::MetadataRequestTopic;
use kafka_wire::{ApiKey, CreateTopicsRequest, ErrorCode, MetadataRequest, Request, Text};
use platform::net::Net;
use platform::random::SeededRandom;
use tokio::time::{sleep, timeout};

use crate::client::Client;
use crate::engine::Engine;
use crate::trace::Trace;

use ledger::Ledger;

/// The topic of all transactions.
const TOPIC: &str = "transfers";
const PARTITIONS: i32 = 3;
/// The ids of the producers: some have one together, and fence each other.
const IDS: [&str; 6] = ["one", "two", "three", "four", "shared", "shared"];
/// How long a client rests after an error.
const REST: Duration = Duration::from_millis(50);
/// The time after which an answer is waited for no longer.
const PATIENCE: Duration = Duration::from_secs(6);
/// The versions of Metadata and CreateTopics that are sent.
const METADATA: i16 = 9;
const CREATE_TOPICS: i16 = 7;

/// State that all clients with transactions share. Clones are the same.
#[derive(Clone)]
pub(crate) struct Bank {
    net: Arc<dyn Net>,
    nodes: Rc<Vec<SocketAddr>>,
    ledger: Ledger,
    trace: Trace,
    /// Nothing new is begun any more.
    ends: Rc<Cell<bool>>,
    unfinished: Rc<Cell<usize>>,
    /// The topic is compacted: records of aborted transactions have keys of committed ones.
    is_table: bool,
    /// The last thing that was tried in vain.
    awaited: Rc<RefCell<String>>,
}

impl Bank {
    /// A bank at these nodes, which tells each contradiction.
    pub(crate) fn new(
        net: Arc<dyn Net>,
        nodes: Vec<SocketAddr>,
        ends: Rc<Cell<bool>>,
        is_table: bool,
        trace: Trace,
        violate: impl Fn(String) + 'static,
    ) -> Bank {
        Bank {
            net,
            nodes: Rc::new(nodes),
            ledger: Ledger::new(violate),
            trace,
            ends,
            unfinished: Rc::default(),
            is_table,
            awaited: Rc::default(),
        }
    }

    /// Adds the clients. Whichever comes first makes the topic.
    pub(crate) fn begin(&self, engine: &mut Engine, random: &mut SeededRandom) {
        self.unfinished.set(IDS.len() + PARTITIONS as usize);
        for id in IDS {
            engine.add(producer::produce(self.clone(), id, random.split()));
        }
        for partition in 0..PARTITIONS {
            engine.add(reader::read_on(self.clone(), partition, random.split()));
        }
    }

    /// The number of clients that have not finished what they had begun.
    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished.get()
    }

    /// The last thing that was tried in vain.
    pub(crate) fn awaited(&self) -> String {
        self.awaited.borrow().clone()
    }

    /// Once nothing fails any more: has ids whose producers are gone begun anew where a wall clock that jumps may hold their timeouts back,
    /// waits until all is stable, and holds what every replica shows against what is known.
    pub(crate) async fn check(&self, away: Option<usize>, clocks_jump: bool, random: SeededRandom) {
        if clocks_jump {
            producer::begin_all_anew(self, random).await;
        }
        reader::read_everything(self, away).await;
        self.ledger.check_complete();
        if away.is_none() {
            for (what, count) in self.ledger.tally() {
                (0..count).for_each(|_| self.trace.count(what.clone()));
            }
        }
    }

    /// Has transactions committed that are in all partitions, with a node away.
    pub(crate) async fn go_on(&self, away: usize, random: SeededRandom) {
        producer::commit_everywhere(self, away, random).await;
    }

    fn place_of(&self, node: i32) -> io::Result<usize> {
        match (self.nodes.len(), usize::try_from(node - 1)) {
            (1, _) => Ok(0),
            (_, Ok(place)) => Ok(place),
            (_, Err(_)) => Err(io::Error::other("nobody leads")),
        }
    }

    fn finish(&self) {
        self.unfinished.set(self.unfinished.get() - 1);
    }

    fn await_still(&self, what: String) {
        *self.awaited.borrow_mut() = what;
    }

    /// Counts an outcome for the table of what was reached; `None` is success.
    fn reached(&self, api: ApiKey, code: i16) -> Option<ErrorCode> {
        let error = ErrorCode::from_code(code);
        match error {
            Some(error) => self.trace.count(format!("transactions: {api:?}: {error:?}")),
            None => self
                .ledger
                .violate(format!("{api:?} answered the unknown error {code}")),
        }
        error.filter(|error| *error != ErrorCode::None)
    }
}

/// A partition as the metadata tells of it.
struct Known {
    leader: usize,
    replicas: Vec<usize>,
}

/// Connections of one client, one to each node.
struct Caller {
    bank: Bank,
    random: SeededRandom,
    open: BTreeMap<usize, Client>,
    /// Is not asked: it is gone for good.
    away: Option<usize>,
}

impl Caller {
    fn new(bank: &Bank, random: SeededRandom) -> Caller {
        Caller {
            bank: bank.clone(),
            random,
            open: BTreeMap::new(),
            away: None,
        }
    }

    /// Any node.
    fn any(&mut self) -> usize {
        loop {
            let node = self.random.below(self.bank.nodes.len() as u64) as usize;
            if Some(node) != self.away {
                return node;
            }
        }
    }

    /// Sends a request to a node and returns its answer. After an error the next one goes over another connection.
    async fn call<R: Request>(&mut self, node: usize, version: i16, request: &R) -> io::Result<R::Response> {
        let known = self.open.remove(&node);
        let answered = timeout(PATIENCE, async {
            let mut client = match known {
                Some(client) => client,
                None => Client::connect(&self.bank.net, self.bank.nodes[node]).await?,
            };
            let answer = client.call_as(version, request).await?;
            Ok((client, answer))
        });
        let answered = answered.await;
        let answered = answered.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let counted = answered.inspect_err(|error: &io::Error| {
            let kind = error.kind();
            let told = format!("transactions: {:?}: connection {kind:?}", R::API_KEY);
            self.bank.trace.count(told);
        });
        let (client, answer) = counted?;
        self.open.insert(node, client);
        Ok(answer)
    }

    /// The partitions of the topic, as some node knows them; the topic is made if it is not there.
    async fn partitions(&mut self) -> io::Result<Vec<Known>> {
        let node = self.any();
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(Text::from(TOPIC)),
                ..MetadataRequestTopic::default()
            }]),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let mut answer = self.call(node, METADATA, &request).await?;
        let mut topic = answer.topics.remove(0);
        if topic.error_code != 0 {
            self.create_topic(node).await?;
            return Err(io::Error::other("the topic is being made"));
        }
        topic
            .partitions
            .sort_by_key(|partition| partition.partition_index);
        let known = topic.partitions.iter().map(|partition| {
            let replicas = partition.replica_nodes.iter();
            Ok(Known {
                leader: self.bank.place_of(partition.leader_id)?,
                replicas: replicas
                    .map(|node| self.bank.place_of(*node))
                    .collect::<io::Result<_>>()?,
            })
        });
        known.collect()
    }

    async fn create_topic(&mut self, node: usize) -> io::Result<()> {
        let config = |(name, value): &(&str, &str)| CreatableTopicConfig {
            name: Text::from(*name),
            value: Some(Text::from(*value)),
        };
        let kinds: &[_] = match self.random.chance(1, 2) {
            true => &[("ropewalk.replication", "chain")],
            false => &[],
        };
        let compacted: &[_] = if self.bank.is_table { &COMPACTED } else { &[] };
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: Text::from(TOPIC),
                num_partitions: PARTITIONS,
                replication_factor: self.bank.nodes.len().min(3) as i16,
                configs: kinds.iter().chain(compacted).map(config).collect(),
                ..CreatableTopic::default()
            }],
            timeout_ms: 3_000,
            ..CreateTopicsRequest::default()
        };
        let answer = self.call(node, CREATE_TOPICS, &request).await?;
        self.bank
            .reached(ApiKey::CreateTopics, answer.topics[0].error_code);
        Ok(())
    }

    async fn rest(&self) {
        sleep(REST).await;
    }
}

/// The configs of a compacted topic: of a few records there are segments to compact, soon.
const COMPACTED: [(&str, &str); 3] = [
    ("cleanup.policy", "compact,delete"),
    ("max.compaction.lag.ms", "400"),
    ("min.cleanable.dirty.ratio", "0"),
];
