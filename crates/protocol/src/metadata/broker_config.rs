//! The configs of brokers that clients change while nodes run (Kafka's dynamic broker configs, KIP-226).
//!
//! They bear Kafka's names and are set for one broker or for all of them. Most stand for a topic config: they come after a
//! topic's own value and before what the node was started with. What is set here takes effect without a restart, or has none and
//! its documentation says so.

use super::config_values::{ConfigSort, ConfigValues};
use super::topic_config::{self, ConfigChange, ConfigError, ConfigKind, KnownConfig};

/// Kafka's names for the cluster's values of topic configs: the topic's name and the broker's, sorted by the topic's. Those
/// whose topic config is not served are not served either.
const TOPIC_DEFAULTS: &[(&str, &str)] = &[
    ("cleanup.policy", "log.cleanup.policy"),
    ("compression.gzip.level", "compression.gzip.level"),
    ("compression.lz4.level", "compression.lz4.level"),
    ("compression.type", "compression.type"),
    ("compression.zstd.level", "compression.zstd.level"),
    ("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    ("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    ("flush.messages", "log.flush.interval.messages"),
    ("flush.ms", "log.flush.interval.ms"),
    ("index.interval.bytes", "log.index.interval.bytes"),
    ("local.retention.bytes", "log.local.retention.bytes"),
    ("local.retention.ms", "log.local.retention.ms"),
    ("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("max.message.bytes", "message.max.bytes"),
    (
        "message.downconversion.enable",
        "log.message.downconversion.enable",
    ),
    (
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
    ),
    (
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
    ),
    ("message.timestamp.type", "log.message.timestamp.type"),
    ("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
    ("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    ("min.insync.replicas", "min.insync.replicas"),
    ("preallocate", "log.preallocate"),
    ("retention.bytes", "log.retention.bytes"),
    ("retention.ms", "log.retention.ms"),
    ("segment.bytes", "log.segment.bytes"),
    ("segment.index.bytes", "log.index.size.max.bytes"),
    ("segment.jitter.ms", "log.roll.jitter.ms"),
    ("segment.ms", "log.roll.ms"),
    ("unclean.leader.election.enable", "unclean.leader.election.enable"),
];

/// The pause between two looks of a core at which partitions need compaction, in ms.
pub const CLEANER_BACKOFF: &str = "log.cleaner.backoff.ms";
/// Memory that each core has for the keys of a compaction, in bytes.
pub const CLEANER_BUFFER: &str = "log.cleaner.dedupe.buffer.size";
/// Bytes that the compaction of one core reads and writes in a second at most.
pub const CLEANER_RATE: &str = "log.cleaner.io.max.bytes.per.second";
/// The most connections that a node takes altogether.
pub const MAX_CONNECTIONS: &str = "max.connections";
/// The most connections that a node takes from one address.
pub const MAX_CONNECTIONS_PER_IP: &str = "max.connections.per.ip";

/// The version of transactions that clients are told of (Kafka's feature `transaction.version`).
pub const TRANSACTION_VERSION: &str = "ropewalk.transaction.version";
/// Counts the changes of that, so that clients take the latest for the latest.
pub const FEATURES_EPOCH: &str = "ropewalk.features.epoch";

/// Configs that are no topic's business.
static OF_NODES: &[KnownConfig] = &[
    topic_config::milliseconds(
        CLEANER_BACKOFF,
        "15000",
        10,
        "How often each core looks for partitions that need compaction.",
    )
    .at_most(24 * 60 * 60 * 1_000),
    topic_config::bytes(
        CLEANER_BUFFER,
        ConfigKind::Long,
        "33554432",
        64 << 10,
        "Memory of each core for the keys of a compaction, 24 bytes each; with more keys than fit it takes several passes.",
    )
    .at_most(64 << 30),
    topic_config::bytes(
        CLEANER_RATE,
        ConfigKind::Long,
        "67108864",
        64 << 10,
        "How many bytes a second the compaction of one core reads and writes at most.",
    )
    .at_most(1 << 40),
    topic_config::number(
        MAX_CONNECTIONS,
        ConfigKind::Int,
        "10000",
        1,
        "How many connections may be open.",
    )
    .at_most(1_000_000),
    topic_config::number(
        MAX_CONNECTIONS_PER_IP,
        ConfigKind::Int,
        "5000",
        1,
        "How many connections may be open from one address.",
    )
    .at_most(1_000_000),
    topic_config::number(
        "background.threads",
        ConfigKind::Int,
        "10",
        1,
        "No effect: a node has one thread for each of its cores; see cores.",
    ),
    topic_config::bytes(
        "follower.replication.throttled.rate",
        ConfigKind::Long,
        "9223372036854775807",
        0,
        "No effect: replicas are sent what they lack at a pace of their own.",
    ),
    topic_config::bytes(
        "leader.replication.throttled.rate",
        ConfigKind::Long,
        "9223372036854775807",
        0,
        "No effect: replicas are sent what they lack at a pace of their own.",
    ),
    topic_config::bytes(
        "log.cleaner.io.buffer.size",
        ConfigKind::Int,
        "524288",
        0,
        "No effect: compaction has log.cleaner.dedupe.buffer.size and log.cleaner.io.max.bytes.per.second.",
    ),
    topic_config::number(
        "log.cleaner.threads",
        ConfigKind::Int,
        "1",
        0,
        "No effect: each core compacts.",
    ),
    topic_config::number(
        "num.io.threads",
        ConfigKind::Int,
        "8",
        1,
        "No effect: a node has one thread for each of its cores; see cores.",
    ),
    topic_config::number(
        "num.network.threads",
        ConfigKind::Int,
        "3",
        1,
        "No effect: a node has one thread for each of its cores; see cores.",
    ),
    topic_config::number(
        "num.recovery.threads.per.data.dir",
        ConfigKind::Int,
        "2",
        1,
        "No effect: a node has one thread for each of its cores; see cores.",
    ),
    topic_config::number(
        "num.replica.fetchers",
        ConfigKind::Int,
        "1",
        1,
        "No effect: replicas are sent what they lack at a pace of their own.",
    ),
    topic_config::number(
        FEATURES_EPOCH,
        ConfigKind::Int,
        "0",
        0,
        "Counts the changes of features: whoever changes one raises this, too, as kafka-features does.",
    ),
    topic_config::number(
        TRANSACTION_VERSION,
        ConfigKind::Int,
        "2",
        1,
        "The version of transactions that clients are told of: 2, or 1 for producers that add partitions by themselves and keep their epoch.",
    )
    .at_most(2),
    topic_config::bytes(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        ConfigKind::Long,
        "9223372036854775807",
        0,
        "No effect: a node has one data directory.",
    ),
];

/// Kafka's names for configs in another unit, each with the name in milliseconds that it stands for. Kafka reads the former
/// from its configuration files only.
const OTHER_UNITS: &[(&str, &str)] = &[
    ("log.retention.hours", "log.retention.ms"),
    ("log.retention.minutes", "log.retention.ms"),
    ("log.roll.hours", "log.roll.ms"),
    ("log.roll.jitter.hours", "log.roll.jitter.ms"),
];

/// The name in milliseconds for a name of Kafka's in another unit.
#[must_use]
pub fn name_in_ms(name: &str) -> Option<&'static str> {
    let found = OTHER_UNITS.iter().find(|(other, _)| *other == name);
    found.map(|(_, ms)| *ms)
}

/// A broker config that can be changed while nodes run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownBrokerConfig {
    /// Its name.
    pub name: &'static str,
    /// The topic config that it stands for, if it stands for one.
    pub topic_config: Option<&'static str>,
    /// Type, rule, built-in value and documentation. The name in here is that of the topic config.
    pub rules: &'static KnownConfig,
}

impl KnownBrokerConfig {
    /// Every one that is served, those of topics first.
    pub fn all() -> impl Iterator<Item = KnownBrokerConfig> {
        let of_topics = TOPIC_DEFAULTS.iter().filter_map(KnownBrokerConfig::of_entry);
        let of_nodes = OF_NODES.iter().map(|rules| KnownBrokerConfig {
            name: rules.name,
            topic_config: None,
            rules,
        });
        of_topics.chain(of_nodes)
    }

    /// The one called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &str) -> Result<KnownBrokerConfig, ConfigError> {
        let unknown = || ConfigError::UnknownOfBroker {
            name: name.to_owned(),
        };
        KnownBrokerConfig::all()
            .find(|known| known.name == name)
            .ok_or_else(unknown)
    }

    /// The one that stands for a topic config.
    #[must_use]
    pub fn of_topic_config(name: &str) -> Option<KnownBrokerConfig> {
        let index = TOPIC_DEFAULTS.binary_search_by(|(topic, _)| (*topic).cmp(name));
        KnownBrokerConfig::of_entry(&TOPIC_DEFAULTS[index.ok()?])
    }

    fn of_entry((topic, broker): &(&'static str, &'static str)) -> Option<KnownBrokerConfig> {
        Some(KnownBrokerConfig {
            name: broker,
            topic_config: Some(topic),
            rules: topic_config::find(topic).ok()?,
        })
    }

    /// Checks that `value` may be set.
    ///
    /// # Errors
    /// The value breaks the config's rule.
    pub fn check(&self, value: &str) -> Result<(), ConfigError> {
        self.rules.check(value).map_err(|error| error.about(self.name))
    }
}

/// Tells the name that a topic config has on nodes, where its default is set: for an error about the name.
pub(super) fn told_for_nodes(name: &str) -> String {
    if let Some(ms) = name_in_ms(name) {
        return format!("; use {ms}, in milliseconds");
    }
    let known = KnownBrokerConfig::of_topic_config(name);
    known.map_or_else(String::new, |known| format!("; for nodes it is {}", known.name))
}

/// Tells the name that a config of nodes has on topics: for an error about the name.
pub(super) fn told_for_topics(name: &str) -> String {
    let known = KnownBrokerConfig::find(name).ok();
    let of_topics = known.and_then(|known| known.topic_config);
    of_topics.map_or_else(String::new, |name| format!("; for topics it is {name}"))
}

/// The configs of brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfBrokers;

impl ConfigSort for OfBrokers {
    fn check(change: &ConfigChange) -> Result<&'static str, ConfigError> {
        let known = KnownBrokerConfig::find(&change.name)?;
        change.value.iter().try_for_each(|value| known.check(value))?;
        Ok(known.name)
    }
}

/// The values that are set for one broker, or for all of them.
pub type BrokerConfig = ConfigValues<OfBrokers>;

impl BrokerConfig {
    /// The values that are set here for topics, as changes of topic configs.
    pub(super) fn for_topics(&self) -> impl Iterator<Item = ConfigChange> + '_ {
        self.iter().filter_map(|(name, value)| {
            let topic_config = KnownBrokerConfig::find(name).ok()?.topic_config?;
            Some(ConfigChange::set(topic_config, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_to_served_configs() {
        let mut names: Vec<&str> = KnownBrokerConfig::all().map(|known| known.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for known in KnownBrokerConfig::all() {
            known
                .check(known.rules.default)
                .expect("a built-in value is valid");
            assert_eq!(KnownBrokerConfig::find(known.name), Ok(known));
            if let Some(topic_config) = known.topic_config {
                assert_eq!(known.rules.name, topic_config);
            }
        }
        // Weaker durability is each topic's own choice. The others have no such name in Kafka.
        let of_topics = topic_config::KNOWN.iter();
        let is_of_topics_alone =
            |name: &str| name.starts_with("remote.") || name.ends_with("throttled.replicas");
        for known in of_topics.filter(|known| !known.is_ropewalk() && !is_of_topics_alone(known.name)) {
            assert!(
                KnownBrokerConfig::of_topic_config(known.name).is_some(),
                "{}",
                known.name
            );
        }
        assert_eq!(KnownBrokerConfig::of_topic_config("ropewalk.durability"), None);
    }

    #[test]
    fn a_refused_value_is_told_by_the_brokers_name() {
        let mut config = BrokerConfig::new();
        let wrong = config.change(&[
            ConfigChange::set("log.roll.ms", "5"),
            ConfigChange::set("log.retention.ms", "a week"),
        ]);
        let told = wrong.expect_err("no number").to_string();
        assert!(
            told.starts_with("Invalid value a week for configuration log.retention.ms: "),
            "{told}"
        );
        assert!(config.is_empty(), "a refused change changes nothing");
        let unknown = config.change(&[ConfigChange::set("retention.ms", "5")]);
        assert_eq!(
            unknown.expect_err("a topic's").to_string(),
            "unknown broker config retention.ms; for nodes it is log.retention.ms"
        );
        let unknown = config.change(&[ConfigChange::set("log.retention.hours", "5")]);
        assert_eq!(
            unknown.expect_err("another unit").to_string(),
            "unknown broker config log.retention.hours; use log.retention.ms, in milliseconds"
        );
        let unknown = topic_config::find("log.roll.ms").expect_err("a node's");
        assert_eq!(
            unknown.to_string(),
            "Unknown topic config name: log.roll.ms; for topics it is segment.ms"
        );
        let unknown = topic_config::find("nonsense").expect_err("nobody's");
        assert_eq!(unknown.to_string(), "Unknown topic config name: nonsense");
    }
}
