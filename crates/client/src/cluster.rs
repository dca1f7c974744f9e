//! The brokers of one cluster: finding them, and finding who leads a partition.
//!
//! Holds one connection for questions that any broker answers, and makes it anew when it ends; and those to brokers that
//! were asked by themselves. Topics are administered in `topics`, offsets asked for in `offsets`.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use kafka_wire::metadata::MetadataRequestTopic;
use kafka_wire::{ErrorCode, MetadataRequest, MetadataResponse, Request, Text};
use record::TopicId;

use crate::connection::{Connection, ConnectionOptions};
use crate::error::{ClientError, Result};
use crate::patience::Waiting;

/// One broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its number in the cluster.
    pub node_id: i32,
    /// Where it listens, as `host:port`.
    pub address: String,
}

/// The cluster as a broker knows it.
#[derive(Debug, Clone, Default)]
pub struct Metadata {
    /// The cluster's identity, if it has one.
    pub cluster_id: Option<String>,
    /// The broker that administers topics, or -1.
    pub controller_id: i32,
    /// The brokers that are up.
    pub brokers: Vec<Broker>,
    /// The topics that were asked for.
    pub topics: Vec<TopicMetadata>,
}

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Its name.
    pub name: String,
    /// Its identity; zero from brokers that do not tell.
    pub id: TopicId,
    /// Says if the broker keeps its own data there.
    pub is_internal: bool,
    /// Its partitions by ascending index.
    pub partitions: Vec<PartitionMetadata>,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Its index in the topic.
    pub index: i32,
    /// The broker that leads it, if there is one.
    pub leader: Option<i32>,
    /// Its leader's epoch, or -1.
    pub leader_epoch: i32,
    /// The brokers that hold it.
    pub replicas: Vec<i32>,
    /// Those of them that are in sync.
    pub in_sync: Vec<i32>,
}

/// The leader of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// The broker.
    pub broker: Broker,
    /// The topic's identity, which newer requests carry in place of its name.
    pub topic_id: TopicId,
    /// The leader's epoch, or -1.
    pub epoch: i32,
}

/// Access to a cluster through any of its brokers.
#[derive(Debug)]
pub struct Cluster {
    bootstrap: Vec<String>,
    options: ConnectionOptions,
    connection: Option<Connection>,
    /// Connections to single brokers, by address.
    kept: HashMap<String, Connection>,
    brokers: HashMap<i32, Broker>,
    pub(crate) waiting: Waiting,
}

impl Cluster {
    /// Connects to the first of `bootstrap` (`host:port`, separated by commas) that answers.
    ///
    /// # Errors
    /// `Options` if there is no address; else what the last address met.
    pub fn connect(bootstrap: &str, options: ConnectionOptions) -> Result<Cluster> {
        let addresses: Vec<String> = bootstrap
            .split(',')
            .map(str::trim)
            .filter(|address| !address.is_empty())
            .map(str::to_owned)
            .collect();
        let mut cluster = Cluster {
            bootstrap: addresses,
            options,
            connection: None,
            kept: HashMap::new(),
            brokers: HashMap::new(),
            waiting: Waiting::default(),
        };
        cluster.connection()?;
        Ok(cluster)
    }

    /// The options that connections are made with.
    #[must_use]
    pub fn options(&self) -> &ConnectionOptions {
        &self.options
    }

    /// Has `tell` hear, once, of each wait that takes longer than `after`: something that this cluster or one of its producers
    /// tries again, with the error that it meets.
    pub fn tell_of_waiting(&mut self, after: Duration, tell: impl FnMut(&ClientError) + Send + 'static) {
        self.waiting.tell_after(after, Box::new(tell));
    }

    /// The connection for questions to any broker, made if there is none.
    ///
    /// # Errors
    /// As `connect`.
    pub fn connection(&mut self) -> Result<&mut Connection> {
        if self.connection.as_ref().is_none_or(Connection::is_ended) {
            self.connection = None;
            self.connection = Some(self.connect_any()?);
        }
        Ok(self.connection.as_mut().expect("made just now"))
    }

    /// Bootstrap addresses first; brokers heard of since then also serve, should those be gone.
    fn connect_any(&self) -> Result<Connection> {
        let known = self.brokers.values().map(|broker| broker.address.as_str());
        let mut last = ClientError::Options("no bootstrap address was given".to_owned());
        for address in self.bootstrap.iter().map(String::as_str).chain(known) {
            match Connection::connect(address, &self.options) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Asks any broker. A connection that turns out to have ended while idle is replaced once.
    pub(crate) fn call<R: Request>(&mut self, request: &R) -> Result<R::Response> {
        let was_fresh = self.connection.is_none();
        match self.connection()?.call(request) {
            Err(ClientError::Disconnected { .. }) if !was_fresh => self.connection()?.call(request),
            other => other,
        }
    }

    /// Has `ask` ask the broker at `address`, over a connection that is kept for the next time. One that turns out to have
    /// ended while idle is replaced once.
    pub(crate) fn ask_at<T>(
        &mut self,
        address: &str,
        mut ask: impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        if let Some(kept) = self.kept.remove(address) {
            match self.ask_over(kept, &mut ask) {
                Err(ClientError::Disconnected { .. }) => {}
                other => return other,
            }
        }
        let fresh = Connection::connect(address, &self.options)?;
        self.ask_over(fresh, &mut ask)
    }

    fn ask_over<T>(
        &mut self,
        mut connection: Connection,
        ask: &mut impl FnMut(&mut Connection) -> Result<T>,
    ) -> Result<T> {
        let answer = ask(&mut connection);
        if !connection.is_ended() {
            self.kept.insert(connection.address().to_owned(), connection);
        }
        answer
    }

    /// Asks the controller, which alone administers topics in some clusters.
    pub(crate) fn call_controller<R: Request>(&mut self, request: &R) -> Result<R::Response> {
        let metadata = self.metadata(Some(&[]))?;
        self.call_broker(metadata.controller_id, request)
    }

    /// Asks the broker of this number if it is known; else any, which says that it is another.
    pub(crate) fn call_broker<R: Request>(&mut self, node_id: i32, request: &R) -> Result<R::Response> {
        match self.brokers.get(&node_id) {
            Some(broker) if !self.is_connected_to(&broker.address) && self.brokers.len() > 1 => {
                Connection::connect(&broker.address, &self.options)?.call(request)
            }
            _ => self.call(request),
        }
    }

    fn is_connected_to(&self, address: &str) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|connection| connection.address() == address)
    }

    /// The cluster's answer about `topics`, or about all. Never creates a topic. A topic that does not exist is left out.
    ///
    /// # Errors
    /// What the connection meets, and what the broker says of a topic other than that it is not there.
    pub fn metadata(&mut self, topics: Option<&[&str]>) -> Result<Metadata> {
        let request = MetadataRequest {
            topics: topics.map(|names| {
                let named = |name: &&str| MetadataRequestTopic {
                    name: Some(Text::from(*name)),
                    ..MetadataRequestTopic::default()
                };
                names.iter().map(named).collect()
            }),
            allow_auto_topic_creation: false,
            ..MetadataRequest::default()
        };
        let metadata = read_metadata(&self.call(&request)?)?;
        if !metadata.brokers.is_empty() {
            self.brokers = metadata
                .brokers
                .iter()
                .map(|broker| (broker.node_id, broker.clone()))
                .collect();
        }
        Ok(metadata)
    }

    /// One topic.
    ///
    /// # Errors
    /// `Broker` with `UnknownTopicOrPartition` if there is none of that name; as `metadata`.
    pub fn topic(&mut self, name: &str) -> Result<TopicMetadata> {
        let metadata = self.metadata(Some(&[name]))?;
        let found = metadata.topics.into_iter().find(|topic| topic.name == name);
        found.ok_or_else(|| {
            let code = ErrorCode::UnknownTopicOrPartition.code();
            ClientError::broker(format!("looking up topic {name}"), code, None)
        })
    }

    /// The leader of a partition, asked anew.
    ///
    /// # Errors
    /// `NoLeader`, or `Broker` if there is no such topic or partition.
    pub fn leader(&mut self, topic: &str, partition: i32) -> Result<Leader> {
        let found = self.topic(topic)?;
        let Some(metadata) = found.partitions.iter().find(|known| known.index == partition) else {
            let code = ErrorCode::UnknownTopicOrPartition.code();
            let operation = format!("looking up partition {partition} of topic {topic}");
            return Err(ClientError::broker(operation, code, None));
        };
        match self.broker_of(metadata) {
            Some(broker) => Ok(Leader {
                broker: broker.clone(),
                topic_id: found.id,
                epoch: metadata.leader_epoch,
            }),
            None => Err(ClientError::NoLeader {
                topic: topic.to_owned(),
                partition,
            }),
        }
    }

    /// The broker that leads a partition, if it is among those that are up.
    pub(crate) fn broker_of(&self, partition: &PartitionMetadata) -> Option<&Broker> {
        partition.leader.and_then(|node_id| self.brokers.get(&node_id))
    }

    /// The partitions of `topic` as each of their leaders has them.
    ///
    /// # Errors
    /// `NoLeader` if one of them has none.
    pub(crate) fn by_leader(&self, topic: &TopicMetadata) -> Result<Vec<(Broker, Vec<i32>)>> {
        let mut by_leader: BTreeMap<i32, (Broker, Vec<i32>)> = BTreeMap::new();
        for partition in &topic.partitions {
            let Some(broker) = self.broker_of(partition) else {
                return Err(ClientError::NoLeader {
                    topic: topic.name.clone(),
                    partition: partition.index,
                });
            };
            let of_leader = by_leader.entry(broker.node_id);
            let (_, partitions) = of_leader.or_insert_with(|| (broker.clone(), Vec::new()));
            partitions.push(partition.index);
        }
        Ok(by_leader.into_values().collect())
    }

    /// A connection of its own to a partition's leader. Of several brokers, another one may be about to take the place of a leader that is gone:
    /// it is waited for.
    ///
    /// # Errors
    /// As `leader` and `Connection::connect`.
    pub fn connect_leader(&mut self, topic: &str, partition: i32) -> Result<(Connection, Leader)> {
        let until = Instant::now() + FAIL_OVER;
        loop {
            let leader = self.leader(topic, partition)?;
            match Connection::connect(&leader.broker.address, &self.options) {
                Ok(connection) => return Ok((connection, leader)),
                Err(error) if self.brokers.len() == 1 || Instant::now() >= until => return Err(error),
                Err(_) => std::thread::sleep(FAIL_OVER_REST),
            }
        }
    }
}

/// The longest that another leader is waited for in the place of one that cannot be reached.
const FAIL_OVER: Duration = Duration::from_secs(3);
/// Between two looks for one.
const FAIL_OVER_REST: Duration = Duration::from_millis(100);

/// Which names topics can have.
const TOPIC_NAMES: &str = "a topic name has up to 249 ASCII letters, digits, '.', '_' and '-', is not reserved, and differs \
                           from others in more than '.' and '_'";

fn read_metadata(response: &MetadataResponse) -> Result<Metadata> {
    let mut topics = Vec::with_capacity(response.topics.len());
    for topic in &response.topics {
        let name = topic.name.as_ref().map(String::from).unwrap_or_default();
        match ErrorCode::from_code(topic.error_code) {
            // Partitions without a leader say so themselves.
            Some(ErrorCode::None | ErrorCode::LeaderNotAvailable) => {}
            Some(ErrorCode::UnknownTopicOrPartition) => continue,
            _ => {
                let operation = format!("looking up topic {name}");
                // The answer has no place for a sentence.
                let is_name = topic.error_code == ErrorCode::InvalidTopicException.code();
                let rule = is_name.then_some(TOPIC_NAMES);
                return Err(ClientError::broker(operation, topic.error_code, rule));
            }
        }
        let mut partitions: Vec<PartitionMetadata> = topic
            .partitions
            .iter()
            .map(|partition| PartitionMetadata {
                index: partition.partition_index,
                leader: (partition.leader_id >= 0).then_some(partition.leader_id),
                leader_epoch: partition.leader_epoch,
                replicas: partition.replica_nodes.clone(),
                in_sync: partition.isr_nodes.clone(),
            })
            .collect();
        partitions.sort_by_key(|partition| partition.index);
        topics.push(TopicMetadata {
            name,
            id: topic.topic_id,
            is_internal: topic.is_internal,
            partitions,
        });
    }
    Ok(Metadata {
        cluster_id: response.cluster_id.as_ref().map(String::from),
        controller_id: response.controller_id,
        brokers: response
            .brokers
            .iter()
            .map(|broker| Broker {
                node_id: broker.node_id,
                address: format!("{}:{}", broker.host, broker.port),
            })
            .collect(),
        topics,
    })
}
