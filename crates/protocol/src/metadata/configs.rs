//! The source of a config's value, and the outcome of a client's wish to change some.
//!
//! ```text
//!   a topic's own value ► its broker's ► all brokers' ► what the node was started with ► built in
//! ```
//! The first that there is goes. Plans are made here and carried out by `apply`; both see the same image.

use std::collections::BTreeSet;
use std::sync::Arc;

use record::TopicId;

use super::broker_config::{BrokerConfig, KnownBrokerConfig};
use super::topic_config::{
    self, ConfigChange, ConfigEntry, ConfigError, ConfigKind, ConfigSource, KNOWN, KnownConfig,
};
use super::{ApplyError, Command, Metadata, PlanError, Plans, TopicConfig, TopicSettings, is_internal};
use crate::leader::NodeId;

/// A value that a config has somewhere, in force or hidden by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigValue {
    /// The source.
    pub source: ConfigSource,
    /// The value.
    pub value: Arc<str>,
}

/// A thing that has configs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConfigTarget {
    /// One topic.
    Topic(TopicId),
    /// One broker.
    Broker(NodeId),
    /// All brokers that have no value of their own.
    AllBrokers,
}

/// A change of one config (KIP-339).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigOperation {
    /// Give it this value.
    Set,
    /// Give it up; what stands behind it goes.
    Delete,
    /// Add these words to the list in force.
    Append,
    /// Take these words out of the list in force.
    Subtract,
}

/// One wish about one config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEdit {
    /// The name of the config.
    pub name: Arc<str>,
    /// The operation.
    pub operation: ConfigOperation,
    /// The value; without meaning where the config is given up.
    pub value: Arc<str>,
}

/// A client's changes of the configs of one target. No name may occur twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigWish {
    /// Names and values: these shall be set, and no others.
    Replace(Vec<(Arc<str>, Arc<str>)>),
    /// The changes; a config that is not named stays as it is.
    Edit(Vec<ConfigEdit>),
}

impl Metadata {
    /// Returns the configs that are set for one broker (`None` for all of them), if any are.
    #[must_use]
    pub fn broker_config(&self, broker: Option<NodeId>) -> Option<&BrokerConfig> {
        self.broker_configs.get(&broker)
    }

    /// The values that a topic config has for a topic with these configs of its own, the one in force first and the
    /// built-in one last.
    #[must_use]
    pub fn topic_config_values(&self, own: &TopicConfig, config: &'static KnownConfig) -> Vec<ConfigValue> {
        let own = own.get(config.name).map(|value| ConfigValue {
            source: ConfigSource::Topic,
            value: Arc::clone(value),
        });
        let of_brokers = match KnownBrokerConfig::of_topic_config(config.name) {
            Some(known) => self.broker_config_values(self.own, known),
            None => self.started_value(config.name).into_iter().collect(),
        };
        let built_in = ConfigValue {
            source: ConfigSource::Default,
            value: config.default.into(),
        };
        own.into_iter().chain(of_brokers).chain([built_in]).collect()
    }

    /// The values that were set for a broker (`None` for all of them), the one in force first. What the node was started
    /// with is among them where the config stands for a topic's; built-in values are not.
    #[must_use]
    pub fn broker_config_values(&self, broker: Option<NodeId>, known: KnownBrokerConfig) -> Vec<ConfigValue> {
        let value_of = |broker: Option<NodeId>, source| {
            let value = self.broker_configs.get(&broker)?.get(known.name)?;
            Some(ConfigValue {
                source,
                value: Arc::clone(value),
            })
        };
        let own = broker.and_then(|broker| value_of(Some(broker), ConfigSource::Broker));
        let all = value_of(None, ConfigSource::AllBrokers);
        let started = known.topic_config.and_then(|name| self.started_value(name));
        own.into_iter().chain(all).chain(started).collect()
    }

    /// The number that clients have set for the node whose image this is, if they have set one.
    #[must_use]
    pub fn own_broker_number(&self, name: &str) -> Option<u64> {
        let known = KnownBrokerConfig::find(name).ok()?;
        let values = self.broker_config_values(self.own, known);
        values.first()?.value.parse().ok()
    }

    fn started_value(&self, topic_config: &str) -> Option<ConfigValue> {
        self.started_with.get(topic_config).map(|value| ConfigValue {
            source: ConfigSource::Started,
            value: Arc::clone(value),
        })
    }

    /// Every topic config with the value in force for a topic with these configs of its own, in the order of [`KNOWN`].
    pub fn describe_topic_config<'a>(
        &'a self,
        own: &'a TopicConfig,
    ) -> impl Iterator<Item = ConfigEntry> + 'a {
        KNOWN.iter().map(move |config| {
            let values = self.topic_config_values(own, config);
            let in_force = values
                .into_iter()
                .next()
                .expect("every config has a built-in value");
            ConfigEntry {
                config,
                value: in_force.value,
                source: in_force.source,
            }
        })
    }

    /// Plans a change of configs, with values as they are kept. A value that is set already is left out: a command without changes
    /// need not be committed.
    ///
    /// # Errors
    /// See [`PlanError`]: there is no such target or config, or a value breaks its rule.
    pub fn plan_configs(
        &self,
        target: ConfigTarget,
        wish: &ConfigWish,
        plans: &mut Plans,
    ) -> Result<Command, PlanError> {
        let changes = match wish {
            ConfigWish::Replace(values) => self.replaced(target, values)?,
            ConfigWish::Edit(edits) => {
                let edits = edits.iter().filter(|edit| !self.is_done(target, edit));
                let edited = edits.map(|edit| self.edited(target, edit));
                edited.collect::<Result<Vec<_>, _>>()?
            }
        };
        let mut changes: Vec<ConfigChange> = changes
            .into_iter()
            .map(|change| canonical(target, change))
            .collect();
        changes.retain(|change| !self.is_so(target, change));
        if let ConfigTarget::Topic(id) = target {
            self.check_compaction(id, &changes)?;
            if let Some(topic) = self.topics.get(&id) {
                self.check_order(&topic.name, &topic.config, &changes)?;
            }
        }
        let command = match target {
            ConfigTarget::Topic(id) => Command::SetTopicConfig {
                id,
                changes,
                client: plans.client,
            },
            ConfigTarget::Broker(node) => Command::SetBrokerConfig {
                broker: Some(node),
                changes,
            },
            ConfigTarget::AllBrokers => Command::SetBrokerConfig {
                broker: None,
                changes,
            },
        };
        self.counted(command, plans)
    }

    /// A log that several nodes hold is compacted once the feature level lets it be.
    fn check_compaction(&self, id: TopicId, changes: &[ConfigChange]) -> Result<(), PlanError> {
        let Some(topic) = self.topics.get(&id) else {
            return Ok(());
        };
        let shared = topic.partitions.iter().filter(|partition| partition.is_shared);
        let replicas = shared.map(|partition| partition.wanted().len()).max();
        if replicas.is_none()
            || self.replicates_compacted()
            || is_internal(&topic.name)
            || !changes.iter().any(|change| &*change.name == "cleanup.policy")
        {
            return Ok(());
        }
        let mut config = topic.config.clone();
        let is_sound = config.change(changes).is_ok();
        match is_sound
            && TopicSettings::resolve(&config, &self.defaults)
                .compaction
                .is_some()
        {
            true => Err(PlanError::CompactedReplicas {
                got: i32::try_from(replicas.unwrap_or(1)).unwrap_or(i32::MAX),
                level: self.level(),
            }),
            false => Ok(()),
        }
    }

    /// Says whether a config has already what a change gives it. An unknown config never has: it is to be refused.
    fn is_so(&self, target: ConfigTarget, change: &ConfigChange) -> bool {
        let Some(known) = known_to(target, &change.name) else {
            return false;
        };
        let now = match target {
            ConfigTarget::Topic(id) => self.topics.get(&id).map(|topic| topic.config.get(known)),
            ConfigTarget::Broker(node) => self.nodes.get(&node).map(|_| self.set_for(Some(node), known)),
            ConfigTarget::AllBrokers => Some(self.set_for(None, known)),
        };
        now == Some(change.value.as_ref())
    }

    fn set_for(&self, broker: Option<NodeId>, name: &str) -> Option<&Arc<str>> {
        self.broker_configs.get(&broker)?.get(name)
    }

    /// The changes after which exactly `values` are set.
    fn replaced(
        &self,
        target: ConfigTarget,
        values: &[(Arc<str>, Arc<str>)],
    ) -> Result<Vec<ConfigChange>, PlanError> {
        let of_broker = |broker| -> Vec<&'static str> {
            let config = self.broker_configs.get(&broker);
            config.map_or_else(Vec::new, |config| config.iter().map(|(name, _)| name).collect())
        };
        let set_now = match target {
            ConfigTarget::Topic(id) => self
                .check_topic(id)?
                .config
                .iter()
                .map(|(name, _)| name)
                .collect(),
            ConfigTarget::Broker(node) => of_broker(Some(node)),
            ConfigTarget::AllBrokers => of_broker(None),
        };
        let is_kept = |name: &&str| values.iter().any(|(kept, _)| **kept == **name);
        let given_up = set_now.into_iter().filter(|name| !is_kept(name));
        let set = values.iter().map(|(name, value)| ConfigChange::set(name, value));
        Ok(given_up.map(ConfigChange::reset).chain(set).collect())
    }

    /// Says whether a config of a topic is to be given up that the topic does not have: whatever it is, that is so already.
    fn is_done(&self, target: ConfigTarget, edit: &ConfigEdit) -> bool {
        match (target, edit.operation) {
            (ConfigTarget::Topic(id), ConfigOperation::Delete) => self
                .topics
                .get(&id)
                .is_some_and(|topic| topic.config.get(&edit.name).is_none()),
            _ => false,
        }
    }

    fn edited(&self, target: ConfigTarget, edit: &ConfigEdit) -> Result<ConfigChange, PlanError> {
        Ok(match edit.operation {
            ConfigOperation::Set => ConfigChange::set(&edit.name, &edit.value),
            ConfigOperation::Delete => ConfigChange::reset(&edit.name),
            ConfigOperation::Append => {
                let mut words = self.words_in_force(target, edit)?;
                let mut named: BTreeSet<String> = words.iter().cloned().collect();
                let added = words_of(&edit.value).filter(|word| named.insert(word.clone()));
                words.extend(added);
                ConfigChange::set(&edit.name, &words.join(","))
            }
            ConfigOperation::Subtract => {
                let gone: BTreeSet<String> = words_of(&edit.value).collect();
                let mut words = self.words_in_force(target, edit)?;
                words.retain(|word| !gone.contains(word));
                ConfigChange::set(&edit.name, &words.join(","))
            }
        })
    }

    fn words_in_force(&self, target: ConfigTarget, edit: &ConfigEdit) -> Result<Vec<String>, PlanError> {
        let name = &*edit.name;
        let (known, values) = match target {
            ConfigTarget::Topic(id) => {
                let known = topic_config::find(name).map_err(ApplyError::from)?;
                (
                    known,
                    self.topic_config_values(&self.check_topic(id)?.config, known),
                )
            }
            ConfigTarget::Broker(node) => self.broker_words(Some(node), name)?,
            ConfigTarget::AllBrokers => self.broker_words(None, name)?,
        };
        if known.kind != ConfigKind::List {
            let name = name.to_owned();
            return Err(ApplyError::Config(ConfigError::NotAList { name }).into());
        }
        // Each of its words is looked for among those that there are.
        topic_config::check_length(name, edit.value.trim(), known.value_bytes_max())
            .map_err(ApplyError::from)?;
        let in_force = values.first().map_or(known.default, |value| &value.value);
        Ok(words_of(in_force).collect())
    }

    fn broker_words(
        &self,
        broker: Option<NodeId>,
        name: &str,
    ) -> Result<(&'static KnownConfig, Vec<ConfigValue>), PlanError> {
        let known = KnownBrokerConfig::find(name).map_err(ApplyError::from)?;
        Ok((known.rules, self.broker_config_values(broker, known)))
    }

    pub(super) fn set_broker_config(&mut self, broker: Option<NodeId>, changes: &[ConfigChange]) {
        let config = self.broker_configs.entry(broker).or_default();
        config.change(changes).expect("checked");
        if config.is_empty() {
            self.broker_configs.remove(&broker);
        }
        self.resolve_settings();
    }

    /// Puts what topics have by default together anew, and with it every topic's settings.
    pub(super) fn resolve_settings(&mut self) {
        let own = self.own.and_then(|node| self.broker_configs.get(&Some(node)));
        let layers = [self.broker_configs.get(&None), own];
        let changes: Vec<ConfigChange> = layers
            .into_iter()
            .flatten()
            .flat_map(BrokerConfig::for_topics)
            .collect();
        self.defaults.clone_from(&self.started_with);
        self.defaults
            .change(&changes)
            .expect("checked when they were set");
        let of_most = TopicSettings::resolve(&TopicConfig::new(), &self.defaults);
        for topic in self.topics.values_mut() {
            topic.settings = match topic.config == TopicConfig::new() {
                true => of_most,
                false => TopicSettings::resolve(&topic.config, &self.defaults),
            };
        }
    }
}

/// The name of a config of such a target, if it is one.
fn known_to(target: ConfigTarget, name: &str) -> Option<&'static str> {
    match target {
        ConfigTarget::Topic(_) => topic_config::find(name).ok().map(|known| known.name),
        ConfigTarget::Broker(_) | ConfigTarget::AllBrokers => {
            KnownBrokerConfig::find(name).ok().map(|known| known.name)
        }
    }
}

/// A change with its value as it is kept.
fn canonical(target: ConfigTarget, change: ConfigChange) -> ConfigChange {
    match target {
        ConfigTarget::Topic(_) => change.canonical(),
        ConfigTarget::Broker(_) | ConfigTarget::AllBrokers => {
            match (&change.value, KnownBrokerConfig::find(&change.name)) {
                (Some(value), Ok(known)) => ConfigChange::set(&change.name, &known.rules.canonical(value)),
                _ => change,
            }
        }
    }
}

fn words_of(list: &str) -> impl Iterator<Item = String> + '_ {
    list.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests;
