//! The configs a topic can have: their names, rules and built-in values, and what a topic overrides.
//!
//! Values stay the strings that a client sent, but for blanks around them, so that it reads back what it wrote;
//! [`TopicSettings`] is the typed view that the cores use. A value that this program would not honour is refused. Kafka's
//! configs that change nothing here are kept and told, and their documentation says so.

mod known;
mod settings;
mod table;
#[cfg(test)]
mod tests;

use std::str::EscapeDebug;
use std::sync::Arc;

use thiserror::Error;

use super::broker_config::{FEATURES_EPOCH, TRANSACTION_VERSION, told_for_nodes, told_for_topics};
use super::{ConfigSort, ConfigValues, FeatureLevel};

pub use known::{CONFIG_VALUE_BYTES_MAX, ConfigKind, ConfigUnit, KnownConfig, REPLICAS_BYTES_MAX, find};
pub(super) use known::{bytes, check_length, milliseconds, number};
pub use settings::{CompactionSettings, Millionths, Route, TimestampType, TopicSettings};
pub use table::KNOWN;
use table::{ORDER, REPLICATION, TOTAL};

/// A refused value as it is told: whatever it holds, on one line.
fn escaped(value: &str) -> EscapeDebug<'_> {
    value.escape_debug()
}

/// Why a config was refused. Where Kafka refuses it too, its words come first, because people and scripts look for them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No config of this name is served.
    #[error("Unknown topic config name: {name}{}", told_for_topics(.name))]
    Unknown {
        /// The name.
        name: String,
    },
    /// No broker config of this name can be changed while nodes run.
    #[error("unknown broker config {name}{}", told_for_nodes(.name))]
    UnknownOfBroker {
        /// The name.
        name: String,
    },
    /// No group config of this name is served.
    #[error("Unknown group config name: {name}")]
    UnknownOfGroup {
        /// The name.
        name: String,
    },
    /// No value that anybody needs is so long.
    #[error("the value of {name} has {bytes} bytes, {bytes_max} are allowed")]
    TooLong {
        /// The config.
        name: String,
        /// The length of the value, without the blanks around it.
        bytes: usize,
        /// The most that it may be.
        bytes_max: usize,
    },
    /// Only lists can be added to and taken from.
    #[error("Can't APPEND to or SUBTRACT from key {name} because its type is not LIST; set it or delete it")]
    NotAList {
        /// The config.
        name: String,
    },
    /// Not a number, or one out of range.
    #[error("Invalid value {} for configuration {name}: it must be a whole number from {min} to {max}", escaped(.value))]
    OutOfRange {
        /// The config.
        name: &'static str,
        /// The smallest value allowed.
        min: i64,
        /// The largest value allowed.
        max: i64,
        /// The value given.
        value: String,
    },
    /// Not a list of words that are served, each once.
    #[error(
        "Invalid value {} for configuration {name}: String must be one of: {}; or some of these with commas between",
        escaped(.value),
        .allowed.join(", ")
    )]
    NotAmong {
        /// The config.
        name: &'static str,
        /// The items that may be in the list.
        allowed: &'static [&'static str],
        /// The value given.
        value: String,
    },
    /// Not a number from 0 to 1.
    #[error("Invalid value {} for configuration {name}: it must be a number from 0 to 1", escaped(.value))]
    NoShare {
        /// The config.
        name: &'static str,
        /// The value given.
        value: String,
    },
    /// Not a list of replicas.
    #[error(
        "Invalid value {} for configuration {name}: it must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        escaped(.word)
    )]
    NoReplicas {
        /// The config.
        name: &'static str,
        /// The first word that is wrong, or the beginning of a long one.
        word: String,
    },
    /// Two configs of one topic that contradict each other.
    #[error("conflict topic config setting {least} ({least_value}) > {most} ({most_value})")]
    Crossed {
        /// The config that must not be more,
        least: &'static str,
        /// and its value.
        least_value: i64,
        /// The config that must not be less,
        most: &'static str,
        /// and its value.
        most_value: i64,
    },
    /// One order over records that are not flushed when they are acknowledged: a position would change its record.
    #[error(
        "{ORDER}={TOTAL} needs ropewalk.durability=fsync: what a power cut loses of memory would give its positions to other records"
    )]
    OrderInMemory,
    /// One order, by default for all topics.
    #[error(
        "{ORDER}={TOTAL} is set for a topic by itself, not for all of them: groups and others keep no order"
    )]
    OrderOfAll,
    /// Not one of the values that are served.
    #[error("Invalid value {} for configuration {name}: String must be one of: {}", escaped(.value), .allowed.join(", "))]
    NotAllowed {
        /// The config.
        name: &'static str,
        /// The others that are there.
        allowed: &'static [&'static str],
        /// The value given.
        value: String,
    },
}

impl ConfigError {
    /// The same, told by another name that stands for the config.
    pub(super) fn about(self, name: &'static str) -> ConfigError {
        match self {
            ConfigError::OutOfRange { min, max, value, .. } => ConfigError::OutOfRange {
                name,
                min,
                max,
                value,
            },
            ConfigError::NotAllowed { allowed, value, .. } => {
                ConfigError::NotAllowed { name, allowed, value }
            }
            ConfigError::NotAmong { allowed, value, .. } => ConfigError::NotAmong { name, allowed, value },
            ConfigError::NoShare { value, .. } => ConfigError::NoShare { name, value },
            ConfigError::NoReplicas { word, .. } => ConfigError::NoReplicas { name, word },
            ConfigError::TooLong { bytes, bytes_max, .. } => ConfigError::TooLong {
                name: name.to_owned(),
                bytes,
                bytes_max,
            },
            other => other,
        }
    }
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Built in (Kafka: DEFAULT_CONFIG).
    Default,
    /// The node was started with it (Kafka: STATIC_BROKER_CONFIG).
    Started,
    /// Set for all brokers (Kafka: DYNAMIC_DEFAULT_BROKER_CONFIG).
    AllBrokers,
    /// Set for the broker (Kafka: DYNAMIC_BROKER_CONFIG).
    Broker,
    /// Set on this topic (Kafka: DYNAMIC_TOPIC_CONFIG).
    Topic,
    /// Set on this group (Kafka: DYNAMIC_GROUP_CONFIG).
    Group,
}

/// One config of one topic, as DescribeConfigs tells it. None is sensitive or read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The config: name, kind, documentation.
    pub config: &'static KnownConfig,
    /// The value in force.
    pub value: Arc<str>,
    /// Its source.
    pub source: ConfigSource,
}

impl ConfigEntry {
    /// Says that the value is not the topic's own.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.source != ConfigSource::Topic
    }
}

/// The configs of topics, or of the cluster for all topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfTopics;

impl ConfigSort for OfTopics {
    fn check(change: &ConfigChange) -> Result<&'static str, ConfigError> {
        change.check()?;
        Ok(find(&change.name)?.name)
    }
}

/// A set of configs that differ from those beneath: of a topic above the cluster's, or of the cluster above the built-in ones.
pub type TopicConfig = ConfigValues<OfTopics>;

/// One change of a topic's configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// The config.
    pub name: Arc<str>,
    /// The new value, without blanks around it; `None` goes back to the default.
    pub value: Option<Arc<str>>,
}

impl ConfigChange {
    /// Sets `name` to `value`; blanks around it are left out.
    #[must_use]
    pub fn set(name: &str, value: &str) -> ConfigChange {
        ConfigChange {
            name: name.into(),
            value: Some(value.trim().into()),
        }
    }

    /// The same change of a topic's config, with the value as it is kept.
    #[must_use]
    pub(super) fn canonical(self) -> ConfigChange {
        match (&self.value, find(&self.name)) {
            (Some(value), Ok(known)) => ConfigChange::set(&self.name, &known.canonical(value)),
            _ => self,
        }
    }

    /// Says whether it is about the order over a topic's records.
    #[must_use]
    pub fn is_of_order(&self) -> bool {
        *self.name == *ORDER
    }

    /// Gives `name` its default again.
    #[must_use]
    pub fn reset(name: &str) -> ConfigChange {
        ConfigChange {
            name: name.into(),
            value: None,
        }
    }

    /// The feature level since which programs know the config, and this value of it.
    #[must_use]
    pub(super) fn level(&self) -> FeatureLevel {
        match &*self.name {
            REPLICATION => FeatureLevel(2),
            TRANSACTION_VERSION | FEATURES_EPOCH => FeatureLevel::TRANSACTIONS,
            _ => FeatureLevel::FIRST,
        }
    }

    /// Checks that the change may be made.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let known = find(&self.name)?;
        self.value.as_ref().map_or(Ok(()), |value| known.check(value))
    }
}

impl TopicConfig {
    /// Checks that the values that are set here go together. Only a topic's own are asked: of what is set for the topic and for
    /// all, nobody may have seen both.
    ///
    /// # Errors
    /// `Crossed`: records that may not be compacted yet and must be already are not for anybody to promise. `OrderInMemory`.
    pub(super) fn check_together(&self) -> Result<(), ConfigError> {
        const LEAST: &str = "min.compaction.lag.ms";
        const MOST: &str = "max.compaction.lag.ms";
        let is_set = |name, value: &str| self.get(name).is_some_and(|set| **set == *value);
        if self.is_ordered() && is_set("ropewalk.durability", "memory") {
            return Err(ConfigError::OrderInMemory);
        }
        let number = |name| self.get(name).and_then(|value| value.parse::<i64>().ok());
        match (number(LEAST), number(MOST)) {
            (Some(least_value), Some(most_value)) if least_value > most_value => Err(ConfigError::Crossed {
                least: LEAST,
                least_value,
                most: MOST,
                most_value,
            }),
            _ => Ok(()),
        }
    }

    /// Checks that all topics may have these configs by default.
    ///
    /// # Errors
    /// `OrderOfAll`.
    pub fn check_as_default(&self) -> Result<(), ConfigError> {
        match self.is_ordered() {
            true => Err(ConfigError::OrderOfAll),
            false => Ok(()),
        }
    }

    /// Says whether it asks for one order over all of a topic's records.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.get(ORDER).is_some_and(|value| **value == *TOTAL)
    }
}
