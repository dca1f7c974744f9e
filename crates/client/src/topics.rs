//! Creating, growing, describing and deleting topics.
//!
//! One topic a call: these are tools' and tests' operations, where a clear error is worth more than a saved round trip.

use std::time::{Duration, Instant};

use kafka_wire::create_partitions::CreatePartitionsTopic;
use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::delete_topics::DeleteTopicState;
use kafka_wire::describe_configs::DescribeConfigsResource;
use kafka_wire::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use kafka_wire::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    IncrementalAlterConfigsRequest, Text,
};

use crate::cluster::{Cluster, TopicMetadata};
use crate::error::{ClientError, Result};
use crate::offsets::OffsetQuery;

/// Kafka's number for "a topic" among the things that have configs.
const TOPIC_RESOURCE: i8 = 2;
/// Kafka's number for setting one config to a value.
const SET_OPERATION: i8 = 0;
/// The pause between two questions of the same kind.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

/// A topic to be made.
#[derive(Debug, Clone)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; -1 leaves it to the broker.
    pub partitions: i32,
    /// How many replicas of each; -1 leaves it to the broker.
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

    /// The same, with one more config.
    #[must_use]
    pub fn with_config(mut self, name: impl Into<String>, value: impl Into<String>) -> NewTopic {
        self.configs.push((name.into(), value.into()));
        self
    }
}

/// One config of a topic as the broker has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` if there is none, or it is secret.
    pub value: Option<String>,
    /// Where the value comes from, by Kafka's numbers: 1 the topic itself, 4 and 5 the broker's settings and defaults.
    pub source: i8,
    /// Whether it cannot be changed.
    pub read_only: bool,
    /// What it means, if the broker tells.
    pub documentation: Option<String>,
}

impl ConfigEntry {
    /// Whether the topic sets it by itself.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.source == 1
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

    /// Asks again while the answer is an error that may pass, until `patience` is over.
    pub(crate) fn retry<T>(
        &mut self,
        patience: Duration,
        mut ask: impl FnMut(&mut Cluster) -> Result<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + patience;
        loop {
            match ask(self) {
                Err(error) if error.is_retriable() && Instant::now() < deadline => {
                    std::thread::sleep(RETRY_PAUSE);
                }
                other => return other,
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

    /// A topic's configs, all of them, in the broker's order.
    ///
    /// # Errors
    /// `Broker`.
    pub fn topic_configs(&mut self, topic: &str) -> Result<Vec<ConfigEntry>> {
        let request = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type: TOPIC_RESOURCE,
                resource_name: Text::from(topic),
                configuration_keys: None,
            }],
            include_synonyms: false,
            include_documentation: true,
        };
        let response = self.call(&request)?;
        let answer = response.results.first();
        let outcome = answer.map(|result| (result.error_code, result.error_message.as_ref()));
        succeeded(format!("describing topic {topic}"), outcome)?;
        let entries = answer.map(|result| result.configs.as_slice()).unwrap_or_default();
        Ok(entries
            .iter()
            .map(|config| ConfigEntry {
                name: String::from(&config.name),
                value: config.value.as_ref().map(String::from),
                source: config.config_source,
                read_only: config.read_only,
                documentation: config
                    .documentation
                    .as_ref()
                    .filter(|text| !text.is_empty())
                    .map(String::from),
            })
            .collect())
    }

    /// Sets one config of a topic.
    ///
    /// # Errors
    /// `Broker`, with `InvalidConfig` if there is no such config or value.
    pub fn set_topic_config(&mut self, topic: &str, name: &str, value: &str) -> Result<()> {
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: TOPIC_RESOURCE,
                resource_name: Text::from(topic),
                configs: vec![AlterableConfig {
                    name: Text::from(name),
                    config_operation: SET_OPERATION,
                    value: Some(Text::from(value)),
                }],
            }],
            validate_only: false,
        };
        let response = self.call_controller(&request)?;
        let answer = response.responses.first();
        let outcome = answer.map(|result| (result.error_code, result.error_message.as_ref()));
        succeeded(format!("setting {name} of topic {topic}"), outcome)
    }

    /// How long brokers may take for an operation: most of the time that their answer is waited for.
    pub(crate) fn timeout_ms(&self) -> i32 {
        let ms = self.options().request_timeout.as_millis() / 10 * 9;
        i32::try_from(ms).unwrap_or(i32::MAX)
    }
}

/// What a broker said about one operation, as an error unless it was "none".
fn succeeded(operation: String, outcome: Option<(i16, Option<&Text>)>) -> Result<()> {
    match outcome {
        Some((0, _)) => Ok(()),
        Some((code, message)) => Err(ClientError::broker(operation, code, message.map(Text::as_str))),
        None => Err(ClientError::NotAnswered { operation }),
    }
}
