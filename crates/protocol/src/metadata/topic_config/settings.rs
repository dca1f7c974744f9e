//! A topic's configs as the cores use them: numbers and durations, computed once per change.

use std::time::Duration;

use record::{Compression, Packing};

use super::known::words;
use super::table::REPLICATION;
use super::{ConfigKind, TopicConfig, find};
use crate::leader::Durability;

/// The clock whose timestamps records carry (`message.timestamp.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The moment of the append.
    LogAppendTime,
}

/// The way in which batches reach the replicas (`ropewalk.replication`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The leader sends each batch to all of them.
    Each,
    /// The leader sends it to the next one, which passes it on.
    Chain,
}

/// A share of one, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millionths(pub u32);

impl Millionths {
    /// The share as a number from 0 to 1.
    #[must_use]
    pub fn as_share(self) -> f64 {
        f64::from(self.0) / 1e6
    }
}

/// The way in which a topic is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionSettings {
    /// `min.compaction.lag.ms`.
    pub lag_min: Duration,
    /// `max.compaction.lag.ms`.
    pub lag_max: Duration,
    /// `min.cleanable.dirty.ratio`.
    pub dirty_share_min: Millionths,
    /// `delete.retention.ms`.
    pub tombstone_retention: Duration,
}

/// The settings in force for one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicSettings {
    /// `retention.ms`; `None` keeps segments for ever, as topics do that are only compacted.
    pub retention: Option<Duration>,
    /// `retention.bytes` of each partition; `None` keeps all, likewise.
    pub retention_bytes: Option<u64>,
    /// Says whether `cleanup.policy` says `delete`.
    pub deletes: bool,
    /// Set if `cleanup.policy` says `compact`: then each record must have a key.
    pub compaction: Option<CompactionSettings>,
    /// `segment.bytes`.
    pub segment_bytes_max: u64,
    /// `segment.ms`.
    pub segment_age_max: Duration,
    /// `max.message.bytes`: the largest batch, header included.
    pub batch_bytes_max: u32,
    /// `compression.type`, with its level; `None` leaves batches as they were sent.
    pub packing: Option<Packing>,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max: Duration,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max: Duration,
    /// `min.insync.replicas`.
    pub insync_replicas_min: u32,
    /// `ropewalk.durability`.
    pub durability: Durability,
    /// `ropewalk.replication`.
    pub route: Route,
    /// `ropewalk.order` is `total`: all its partitions' records have one order.
    pub is_ordered: bool,
}

impl TopicSettings {
    /// The settings of a topic with these overrides in a cluster with those defaults.
    #[must_use]
    pub fn resolve(topic: &TopicConfig, cluster: &TopicConfig) -> TopicSettings {
        let values = Values { topic, cluster };
        let policy = |wanted| words(values.text("cleanup.policy")).any(|word| word == wanted);
        let deletes = policy("delete");
        let retention = || values.unless_negative("retention.ms").map(Duration::from_millis);
        let retention_bytes = || values.unless_negative("retention.bytes");
        TopicSettings {
            retention: deletes.then(retention).flatten(),
            retention_bytes: deletes.then(retention_bytes).flatten(),
            deletes,
            compaction: policy("compact").then(|| values.compaction()),
            segment_bytes_max: values.natural("segment.bytes"),
            segment_age_max: Duration::from_millis(values.natural("segment.ms")),
            batch_bytes_max: values.small("max.message.bytes"),
            packing: values.packing(),
            timestamp_type: match values.text("message.timestamp.type") {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max: Duration::from_millis(values.natural("message.timestamp.before.max.ms")),
            timestamp_after_max: Duration::from_millis(values.natural("message.timestamp.after.max.ms")),
            insync_replicas_min: values.small("min.insync.replicas"),
            durability: match values.text("ropewalk.durability") {
                // What all topics have by default must not let a position change its record.
                "memory" if !topic.is_ordered() => Durability::Memory,
                _ => Durability::Flushed,
            },
            route: match values.text(REPLICATION) {
                "chain" => Route::Chain,
                _ => Route::Each,
            },
            is_ordered: topic.is_ordered(),
        }
    }

    /// Says whether a record goes only when a later one of its key has come: then nobody gives up the beginning of a partition.
    #[must_use]
    pub fn is_only_compacted(&self) -> bool {
        self.compaction.is_some() && !self.deletes
    }

    /// The age at which a segment is complete. As in Kafka, one that is to be compacted in time is complete in
    /// time.
    #[must_use]
    pub fn segment_age(&self) -> Duration {
        let lag_max = self
            .compaction
            .map_or(Duration::MAX, |compaction| compaction.lag_max);
        self.segment_age_max.min(lag_max)
    }
}

/// Looks values up where they are set first: topic, cluster, built in. All have been checked when they were set.
struct Values<'a> {
    topic: &'a TopicConfig,
    cluster: &'a TopicConfig,
}

impl Values<'_> {
    fn text(&self, name: &str) -> &str {
        let known = find(name).expect("only known configs are asked for");
        self.topic
            .get(name)
            .or_else(|| self.cluster.get(name))
            .map_or(known.default, |value| &**value)
    }

    fn number(&self, name: &str) -> i64 {
        debug_assert!(find(name).is_ok_and(|known| matches!(known.kind, ConfigKind::Int | ConfigKind::Long)));
        self.text(name).parse().expect("only valid numbers are set")
    }

    fn compaction(&self) -> CompactionSettings {
        let time = |name| Duration::from_millis(self.natural(name));
        let share: f64 = self
            .text("min.cleanable.dirty.ratio")
            .parse()
            .expect("only valid shares are set");
        CompactionSettings {
            lag_min: time("min.compaction.lag.ms"),
            lag_max: time("max.compaction.lag.ms"),
            dirty_share_min: Millionths((share * 1e6).round() as u32),
            tombstone_retention: time("delete.retention.ms"),
        }
    }

    fn packing(&self) -> Option<Packing> {
        let level = |name| i32::try_from(self.number(name)).ok();
        let (compression, level) = match self.text("compression.type") {
            "gzip" => (Compression::Gzip, level("compression.gzip.level")),
            "lz4" => (Compression::Lz4, None),
            "snappy" => (Compression::Snappy, None),
            "uncompressed" => (Compression::None, None),
            "zstd" => (Compression::Zstd, level("compression.zstd.level")),
            _ => return None,
        };
        Some(Packing { compression, level })
    }

    fn unless_negative(&self, name: &str) -> Option<u64> {
        u64::try_from(self.number(name)).ok()
    }

    fn natural(&self, name: &str) -> u64 {
        self.unless_negative(name)
            .expect("the rule of this config begins at zero")
    }

    fn small(&self, name: &str) -> u32 {
        u32::try_from(self.number(name)).expect("the rule of this config is that of a 32-bit number")
    }
}
