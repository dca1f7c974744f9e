//! A client of Kafka's protocol over blocking sockets: for benchmarks, tools and tests.
//!
//! `Connection` speaks to one broker, `Cluster` finds brokers and administers topics, `Producer` and `Consumer` serve one
//! partition each, `TopicProducer`, `TopicConsumer` and `TopicFollower` many of one topic. No threads and no runtime: what is
//! in flight is kept by whoever calls, on the calling thread.
//!
//! ```text
//!   Cluster ── metadata, topics, offsets ──► any broker
//!      │ connect_leader
//!      ▼
//!   Connection ◄── Producer (batches, a window of requests in flight)
//!              ◄── Consumer (fetch ahead, batches, records)
//!              ◄── TopicProducer, TopicConsumer (the same for many partitions, one connection to each leader)
//!              ◄── TopicFollower (many partitions for ever, few connections to each leader)
//! ```

mod cluster;
mod configs;
mod connection;
mod consumer;
mod disks;
mod error;
pub mod fake_broker;
mod groups;
mod inbound;
mod isolation;
mod offsets;
mod patience;
mod position;
mod producer;
mod topic_consumer;
mod topic_follower;
mod topic_producer;
mod topics;
mod truncation;

pub use cluster::{Broker, Cluster, Leader, Metadata, PartitionMetadata, TopicMetadata};
pub use configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource};
pub use connection::{Connection, ConnectionOptions};
pub use consumer::{Consumer, ConsumerOptions, Fetched, FetchedBatches, FetchedRecords, Start};
pub use disks::LogDirectory;
pub use error::{Advice, ClientError, Result};
pub use groups::{GroupDescription, GroupListing, GroupMember, GroupOffset};
pub use isolation::Isolation;
pub use offsets::OffsetQuery;
pub use producer::{Acks, BatchId, Completion, IDEMPOTENT_IN_FLIGHT_MAX, Producer, ProducerOptions};
pub use topic_consumer::{Stretch, TopicConsumer};
pub use topic_follower::{Followed, Lost, TopicFollower};
pub use topic_producer::TopicProducer;
pub use topics::{Displaced, NewTopic};

// Types of the signatures above, so that users of the client need not name the crates that have them.
/// The requests that a `Connection` sends.
pub use kafka_wire as wire;
pub use kafka_wire::{ApiKey, ErrorCode};
/// The way in which tools write bytes that are no text.
pub use record::base64;
pub use record::{BatchHeader, Compression, Limits, Offset, Record, TopicId, partition_of};
