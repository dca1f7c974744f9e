//! Creating, growing, listing and deleting topics. Their configs are in `configs`.
//!
//! One topic a call: these are tools' and tests' operations, where a clear error is worth more than a saved round trip.

use std::time::{Duration, Instant};

use kafka_wire::create_partitions::CreatePartitionsTopic;
use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::delete_topics::DeleteTopicState;
use kafka_wire::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, ElectLeadersRequest, Text,
};

use crate::cluster::{Cluster, TopicMetadata};
use crate::error::{Result, succeeded};
use crate::offsets::OffsetQuery;
use crate::patience::Backoff;

/// A partition that was led by another than its first replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Displaced {
    /// The topic's name.
    pub topic: String,
    /// The partition's index.
    pub partition: i32,
    /// Why it still is; `None` if it is not.
    pub still_because: Option<String>,
}

/// A topic to be made.
#[derive(Debug, Clone)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// The number of partitions; -1 leaves it to the broker.
    pub partitions: i32,
    /// The number of replicas of each; -1 leaves it to the broker.
    pub replication_factor: i16,
    /// Config names and values.
    pub configs: Vec<(String, String)>,
}

impl NewTopic {
    /// A topic with the broker's number of replicas and default configs.
    #[must_use]
    pub fn new(name: impl Into<String>, partitions: i32) -> NewTopic {
        NewTopic {
            name: name.into(),
            partitions,
            replication_factor: -1,
            configs: Vec::new(),
        }
    }
}

impl Cluster {
    /// Creates a topic.
    ///
    /// # Errors
    /// `Broker`, with `TopicAlreadyExists` if there is one of that name.
    pub fn create_topic(&mut self, topic: &NewTopic) -> Result<()> {
        let config = |(name, value): &(String, String)| CreatableTopicConfig {
            name: Text::from(name.as_str()),
            value: Some(Text::from(value.as_str())),
        };
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: Text::from(topic.name.as_str()),
                num_partitions: topic.partitions,
                replication_factor: topic.replication_factor,
                configs: topic.configs.iter().map(config).collect(),
                ..CreatableTopic::default()
            }],
            timeout_ms: self.timeout_ms(),
            ..CreateTopicsRequest::default()
        };
        let response = self.call_controller(&request)?;
        let answer = response.topics.first();
        let outcome = answer.map(|result| (result.error_code, result.error_message.as_ref()));
        succeeded(format!("creating topic {}", topic.name), outcome)
    }

    /// Waits until a topic exists and all its partitions are served: right after its creation brokers may not know it yet,
    /// and leaders may not know that they lead.
    ///
    /// # Errors
    /// The last answer's error once `patience` is over.
    pub fn wait_topic(&mut self, name: &str, patience: Duration) -> Result<TopicMetadata> {
        self.retry(patience, |cluster| {
            let topic = cluster.topic(name)?;
            cluster.offsets(&topic, OffsetQuery::Latest)?;
            Ok(topic)
        })
    }

    /// Asks again while the answer is an error that may pass, until `patience` is over; less often the longer it takes.
    pub(crate) fn retry<T>(
        &mut self,
        patience: Duration,
        mut ask: impl FnMut(&mut Cluster) -> Result<T>,
    ) -> Result<T> {
        let began = Instant::now();
        let deadline = began + patience;
        let mut backoff = Backoff::new();
        loop {
            match ask(self) {
                Err(error) if error.is_retriable() && Instant::now() < deadline => {
                    self.waiting.goes_on(began, &error);
                    backoff.sleep_until(deadline);
                }
                other => {
                    self.waiting.is_over();
                    return other;
                }
            }
        }
    }

    /// Deletes a topic and everything in it.
    ///
    /// # Errors
    /// `Broker`, with `UnknownTopicOrPartition` if there is none of that name.
    pub fn delete_topic(&mut self, name: &str) -> Result<()> {
        let request = DeleteTopicsRequest {
            topics: vec![DeleteTopicState {
                name: Some(Text::from(name)),
                ..DeleteTopicState::default()
            }],
            topic_names: vec![Text::from(name)],
            timeout_ms: self.timeout_ms(),
        };
        let response = self.call_controller(&request)?;
        let answer = response.responses.first();
        let outcome = answer.map(|result| (result.error_code, result.error_message.as_ref()));
        succeeded(format!("deleting topic {name}"), outcome)
    }

    /// All topics by ascending name.
    ///
    /// # Errors
    /// As `metadata`.
    pub fn topics(&mut self) -> Result<Vec<TopicMetadata>> {
        let mut topics = self.metadata(None)?.topics;
        topics.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(topics)
    }

    /// Gives a topic more partitions: `count` in all.
    ///
    /// # Errors
    /// `Broker`, with `InvalidPartitions` if it has as many already.
    pub fn create_partitions(&mut self, topic: &str, count: i32) -> Result<()> {
        let request = CreatePartitionsRequest {
            topics: vec![CreatePartitionsTopic {
                name: Text::from(topic),
                count,
                assignments: None,
            }],
            timeout_ms: self.timeout_ms(),
            validate_only: false,
        };
        let response = self.call_controller(&request)?;
        let answer = response.results.first();
        let outcome = answer.map(|result| (result.error_code, result.error_message.as_ref()));
        succeeded(format!("growing topic {topic} to {count} partitions"), outcome)
    }

    /// Has each partition led by its first replica, and waits for that. Returns the partitions that were led by others, each with the reason why it
    /// still is, if it is.
    ///
    /// # Errors
    /// `Broker`, if the whole is refused.
    pub fn prefer_leaders(&mut self) -> Result<Vec<Displaced>> {
        let request = ElectLeadersRequest {
            election_type: 0,
            topic_partitions: None,
            timeout_ms: self.timeout_ms(),
        };
        let response = self.call_controller(&request)?;
        succeeded("electing leaders".to_owned(), Some((response.error_code, None)))?;
        let topics = response.replica_election_results.into_iter();
        let displaced = topics.flat_map(|topic| {
            let name = topic.topic.to_string();
            topic.partition_result.into_iter().map(move |told| Displaced {
                topic: name.clone(),
                partition: told.partition_id,
                still_because: (told.error_code != 0)
                    .then(|| told.error_message.as_ref().map_or("", Text::as_str).to_owned()),
            })
        });
        Ok(displaced.collect())
    }

    /// The time that brokers may take for an operation: most of the time that their answer is waited for.
    pub(crate) fn timeout_ms(&self) -> i32 {
        let ms = self.options().request_timeout.as_millis() / 10 * 9;
        i32::try_from(ms).unwrap_or(i32::MAX)
    }
}
