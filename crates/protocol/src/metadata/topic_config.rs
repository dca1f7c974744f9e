//! The configs a topic can have: their names, rules and built-in values, and what a topic overrides.
//!
//! Values stay the strings that a client sent, so that it reads back what it wrote; [`TopicSettings`] is the typed view that
//! the cores use. A config that this program would not honour is refused, never stored and ignored.

mod known;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

pub(super) use known::number;
pub use known::{ConfigKind, KNOWN, KnownConfig, find};
pub use settings::{CompactionSettings, Millionths, TimestampType, TopicSettings};

/// Why a config was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// No config of this name is served.
    #[error("unknown topic config {name}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// No broker config of this name can be changed while nodes run.
    #[error("unknown broker config {name}")]
    UnknownOfBroker {
        /// The name.
        name: String,
    },
    /// Only lists can be added to and taken from.
    #[error("{name} is no list: it can be set or deleted, nothing can be added to it or taken from it")]
    NotAList {
        /// The config.
        name: String,
    },
    /// Not a number, or one out of range.
    #[error("{name} must be a whole number from {min} to {max}, not {value:?}")]
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
    #[error("{name} must be some of {allowed:?} with commas between, {value:?} is not supported")]
    NotAmong {
        /// The config.
        name: &'static str,
        /// What may be in the list.
        allowed: &'static [&'static str],
        /// The value given.
        value: String,
    },
    /// Not a number from 0 to 1.
    #[error("{name} must be a number from 0 to 1, not {value:?}")]
    NoShare {
        /// The config.
        name: &'static str,
        /// The value given.
        value: String,
    },
    /// Two configs of one topic that contradict each other.
    #[error("{least} is {least_value}, more than {most}, which is {most_value}")]
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
    /// Not one of the values that are served.
    #[error("{name} must be one of {allowed:?}, {value:?} is not supported")]
    NotAllowed {
        /// The config.
        name: &'static str,
        /// What is.
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
            other => other,
        }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Built in (Kafka: DEFAULT_CONFIG).
    Default,
    /// What the node was started with (Kafka: STATIC_BROKER_CONFIG).
    Started,
    /// Set for all brokers (Kafka: DYNAMIC_DEFAULT_BROKER_CONFIG).
    AllBrokers,
    /// Set for the broker (Kafka: DYNAMIC_BROKER_CONFIG).
    Broker,
    /// Set on this topic (Kafka: DYNAMIC_TOPIC_CONFIG).
    Topic,
}

/// One config of one topic, as DescribeConfigs tells it. None is sensitive or read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The config: name, kind, documentation.
    pub config: &'static KnownConfig,
    /// The value in force.
    pub value: Arc<str>,
    /// Where it comes from.
    pub source: ConfigSource,
}

impl ConfigEntry {
    /// Whether the value is not the topic's own.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.source != ConfigSource::Topic
    }
}

/// A set of configs that differ from those beneath: of a topic above the cluster's, or of the cluster above
/// the built-in ones. Every value in it is valid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicConfig {
    values: BTreeMap<&'static str, Arc<str>>,
}

/// One change of a topic's configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// The config.
    pub name: Arc<str>,
    /// The new value; `None` goes back to the default.
    pub value: Option<Arc<str>>,
}

impl ConfigChange {
    /// Sets `name` to `value`.
    #[must_use]
    pub fn set(name: &str, value: &str) -> ConfigChange {
        ConfigChange {
            name: name.into(),
            value: Some(value.into()),
        }
    }

    /// Gives `name` its default again.
    #[must_use]
    pub fn reset(name: &str) -> ConfigChange {
        ConfigChange {
            name: name.into(),
            value: None,
        }
    }

    /// Whether the change may be made.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn check(&self) -> Result<(), ConfigError> {
        let known = find(&self.name)?;
        self.value.as_ref().map_or(Ok(()), |value| known.check(value))
    }
}

impl TopicConfig {
    /// Nothing overridden.
    #[must_use]
    pub fn new() -> TopicConfig {
        TopicConfig::default()
    }

    /// Makes all changes or, if one is refused, none.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn change(&mut self, changes: &[ConfigChange]) -> Result<(), ConfigError> {
        changes.iter().try_for_each(ConfigChange::check)?;
        for change in changes {
            let name = find(&change.name)?.name;
            match &change.value {
                Some(value) => self.values.insert(name, Arc::clone(value)),
                None => self.values.remove(name),
            };
        }
        Ok(())
    }

    /// Whether the values that are set here go together. Only a topic's own are asked: of what is set for the topic and for
    /// all, nobody may have seen both.
    ///
    /// # Errors
    /// `Crossed`: records that may not be compacted yet and must be already are not for anybody to promise.
    pub(super) fn check_together(&self) -> Result<(), ConfigError> {
        const LEAST: &str = "min.compaction.lag.ms";
        const MOST: &str = "max.compaction.lag.ms";
        let number = |name| self.get(name).and_then(|value| value.trim().parse::<i64>().ok());
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

    /// The value set here, if one is.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<str>> {
        self.values.get(name)
    }

    /// What is set here, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Arc<str>)> + '_ {
        self.values.iter().map(|(name, value)| (*name, value))
    }

    /// Every known config with the value in force for a topic with these overrides, in the order of [`KNOWN`].
    pub fn describe<'a>(&'a self, cluster: &'a TopicConfig) -> impl Iterator<Item = ConfigEntry> + 'a {
        KNOWN.iter().map(move |config| self.describe_one(cluster, config))
    }

    /// One config with the value in force.
    #[must_use]
    pub fn describe_one(&self, cluster: &TopicConfig, config: &'static KnownConfig) -> ConfigEntry {
        if let Some(value) = self.get(config.name) {
            return ConfigEntry {
                config,
                value: Arc::clone(value),
                source: ConfigSource::Topic,
            };
        }
        if let Some(value) = cluster.get(config.name) {
            return ConfigEntry {
                config,
                value: Arc::clone(value),
                source: ConfigSource::Started,
            };
        }
        ConfigEntry {
            config,
            value: config.default.into(),
            source: ConfigSource::Default,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::leader::Durability;

    fn config(changes: &[(&str, &str)]) -> Result<TopicConfig, ConfigError> {
        let changes: Vec<_> = changes
            .iter()
            .map(|(name, value)| ConfigChange::set(name, value))
            .collect();
        let mut config = TopicConfig::new();
        config.change(&changes).map(|()| config)
    }

    #[test]
    fn built_in_values_obey_their_own_rules() {
        for known in KNOWN {
            known.check(known.default).expect("a built-in value is valid");
        }
        let settings = TopicSettings::resolve(&TopicConfig::new(), &TopicConfig::new());
        assert_eq!(settings.retention, Some(Duration::from_secs(7 * 24 * 60 * 60)));
        assert_eq!(settings.retention_bytes, None);
        assert_eq!(settings.durability, Durability::Flushed);
        assert_eq!(settings.batch_bytes_max, 1_048_588);
    }

    #[test]
    fn what_is_not_served_is_refused() {
        let wrong = [
            ("cleanup.policy", "archive"),
            ("cleanup.policy", "compact,archive"),
            ("cleanup.policy", "compact,compact"),
            ("cleanup.policy", ""),
            ("min.cleanable.dirty.ratio", "1.5"),
            ("min.cleanable.dirty.ratio", "NaN"),
            ("min.cleanable.dirty.ratio", "half"),
            ("max.compaction.lag.ms", "0"),
            ("compression.type", "zstd"),
            ("retention.ms", "-2"),
            ("retention.ms", "7d"),
            ("segment.bytes", "99999999999"),
            ("min.insync.replicas", "0"),
            ("ropewalk.durability", "none"),
            ("file.delete.delay.ms", "1"),
        ];
        for (name, value) in wrong {
            assert!(config(&[(name, value)]).is_err(), "{name}={value}");
        }
        let refused = config(&[("cleanup.policy", "archive")]).expect_err("not served");
        assert_eq!(
            refused.to_string(),
            r#"cleanup.policy must be some of ["compact", "delete"] with commas between, "archive" is not supported"#
        );
        let crossed = [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "9")];
        let crossed = config(&crossed).expect("each is valid");
        assert_eq!(
            crossed
                .check_together()
                .expect_err("no record could be kept to it")
                .to_string(),
            "min.compaction.lag.ms is 10, more than max.compaction.lag.ms, which is 9"
        );
    }

    #[test]
    fn what_a_policy_means() {
        let settings = |policy: &str| {
            let topic = config(&[
                ("cleanup.policy", policy),
                ("retention.ms", "5"),
                ("retention.bytes", "6"),
                ("min.cleanable.dirty.ratio", " 0.25 "),
                ("delete.retention.ms", "7"),
            ]);
            TopicSettings::resolve(&topic.expect("valid"), &TopicConfig::new())
        };
        let compaction = Some(CompactionSettings {
            lag_min: Duration::ZERO,
            lag_max: Duration::from_millis(i64::MAX as u64),
            dirty_share_min: Millionths(250_000),
            tombstone_retention: Duration::from_millis(7),
        });
        let (age, bytes) = (Some(Duration::from_millis(5)), Some(6));
        for (policy, retention, retention_bytes, compaction) in [
            ("delete", age, bytes, None),
            ("compact", None, None, compaction),
            ("compact,delete", age, bytes, compaction),
            (" delete , compact ", age, bytes, compaction),
        ] {
            let settings = settings(policy);
            assert_eq!(settings.retention, retention, "{policy}");
            assert_eq!(settings.retention_bytes, retention_bytes, "{policy}");
            assert_eq!(settings.compaction, compaction, "{policy}");
        }
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let mut topic = config(&[("retention.ms", "5")]).expect("valid");
        let before = topic.clone();
        let changes = [
            ConfigChange::set("retention.ms", "6"),
            ConfigChange::set("nonsense", "1"),
        ];
        assert_eq!(
            topic.change(&changes),
            Err(ConfigError::Unknown {
                name: "nonsense".into()
            })
        );
        assert_eq!(topic, before);
    }

    #[test]
    fn the_topic_goes_before_the_cluster() {
        let cluster = config(&[("retention.ms", "5"), ("segment.ms", "9")]).expect("valid");
        let mut topic = config(&[("retention.ms", "-1"), ("ropewalk.durability", "memory")]).expect("valid");
        let settings = TopicSettings::resolve(&topic, &cluster);
        assert_eq!(settings.retention, None);
        assert_eq!(settings.segment_age_max, Duration::from_millis(9));
        assert_eq!(settings.durability, Durability::Memory);
        let source =
            |topic: &TopicConfig, name| topic.describe_one(&cluster, find(name).expect("known")).source;
        assert_eq!(source(&topic, "retention.ms"), ConfigSource::Topic);
        assert_eq!(source(&topic, "segment.ms"), ConfigSource::Started);
        assert_eq!(source(&topic, "segment.bytes"), ConfigSource::Default);
        topic
            .change(&[ConfigChange::reset("retention.ms")])
            .expect("known");
        assert_eq!(
            TopicSettings::resolve(&topic, &cluster).retention,
            Some(Duration::from_millis(5))
        );
    }
}
