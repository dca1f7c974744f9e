//! The configs of consumer groups that clients change while nodes run (Kafka's dynamic group configs, KIP-848). A group may have some
//! before it is there, and keeps them when it is gone.

use std::sync::Arc;
use std::time::Duration;

use super::config_values::{ConfigSort, ConfigValues};
use super::configs::{ConfigOperation, ConfigWish};
use super::topic_config::{self, ConfigChange, ConfigError, ConfigKind, KnownConfig};
use super::{ApplyError, Command, Metadata, PlanError, Plans};

/// The time between two heartbeats of a member, in ms.
pub const HEARTBEAT_INTERVAL: &str = "consumer.heartbeat.interval.ms";
/// The time without a heartbeat after which a member is gone, in ms.
pub const SESSION_TIMEOUT: &str = "consumer.session.timeout.ms";

/// All of them, sorted by name. The bounds are those of Kafka's brokers that are told no others: each session is longer than each interval.
pub static GROUP_CONFIGS: [KnownConfig; 2] = [
    topic_config::milliseconds(
        HEARTBEAT_INTERVAL,
        "5000",
        5_000,
        "How often a member of a group of the consumer protocol says that it is there: its next heartbeat tells it.",
    )
    .of_kind(ConfigKind::Int)
    .at_most(15_000),
    topic_config::milliseconds(
        SESSION_TIMEOUT,
        "45000",
        45_000,
        "How long a member of a group of the consumer protocol may be silent, from its next heartbeat on.",
    )
    .of_kind(ConfigKind::Int)
    .at_most(60_000),
];

/// The longest name of a group, in bytes; the coordinators take none that is longer.
const GROUP_BYTES_MAX: usize = 512;
/// Groups that may have configs: every core keeps them.
const GROUPS_MAX: usize = 10_000;

/// The configs of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfGroups;

impl ConfigSort for OfGroups {
    fn check(change: &ConfigChange) -> Result<&'static str, ConfigError> {
        let known = GroupConfig::find(&change.name)?;
        change.value.iter().try_for_each(|value| known.check(value))?;
        Ok(known.name)
    }
}

/// The values that are set for one group.
pub type GroupConfig = ConfigValues<OfGroups>;

impl GroupConfig {
    /// The config called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &str) -> Result<&'static KnownConfig, ConfigError> {
        let unknown = || ConfigError::UnknownOfGroup {
            name: name.to_owned(),
        };
        let mut all = GROUP_CONFIGS.iter();
        all.find(|known| known.name == name).ok_or_else(unknown)
    }

    /// The time that is set here in milliseconds, if it is.
    #[must_use]
    pub fn time(&self, name: &str) -> Option<Duration> {
        let milliseconds = self.get(name)?.parse().ok()?;
        Some(Duration::from_millis(milliseconds))
    }
}

impl Metadata {
    /// The groups with configs, by name.
    pub fn group_configs(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &GroupConfig)> + '_ {
        self.group_configs.iter()
    }

    /// The configs that are set for a group, if any are.
    #[must_use]
    pub fn group_config(&self, group: &str) -> Option<&GroupConfig> {
        self.group_configs.get(group)
    }

    /// Plans a change of a group's configs. A value that is set already is left out: a command without changes need not be committed.
    ///
    /// # Errors
    /// See [`PlanError`]: there is no such config, a value breaks its rule, or too many groups have configs.
    pub fn plan_group_configs(
        &self,
        group: &Arc<str>,
        wish: &ConfigWish,
        plans: &mut Plans,
    ) -> Result<Command, PlanError> {
        let set_now = |name: &str| self.group_config(group).and_then(|config| config.get(name));
        let mut changes = match wish {
            ConfigWish::Replace(values) => {
                let now = self.group_config(group).into_iter().flat_map(GroupConfig::iter);
                let is_kept = |name: &str| values.iter().any(|(kept, _)| **kept == *name);
                let given_up = now.filter(|(name, _)| !is_kept(name));
                let given_up = given_up.map(|(name, _)| ConfigChange::reset(name));
                given_up
                    .chain(values.iter().map(|(name, value)| set(name, value)))
                    .collect()
            }
            ConfigWish::Edit(edits) => {
                let change = |edit: &super::ConfigEdit| match edit.operation {
                    ConfigOperation::Set => Ok(set(&edit.name, &edit.value)),
                    ConfigOperation::Delete => Ok(ConfigChange::reset(&edit.name)),
                    ConfigOperation::Append | ConfigOperation::Subtract => {
                        let name = GroupConfig::find(&edit.name)?.name.to_owned();
                        Err(ConfigError::NotAList { name })
                    }
                };
                let changes: Result<Vec<_>, _> = edits.iter().map(change).collect();
                changes.map_err(ApplyError::from)?
            }
        };
        changes.retain(|change| set_now(&change.name) != change.value.as_ref());
        if self.group_config(group).is_none() && !changes.is_empty() {
            if self.group_configs.len() + plans.groups >= GROUPS_MAX {
                return Err(PlanError::GroupConfigsFull { max: GROUPS_MAX });
            }
            plans.groups += 1;
        }
        let group = Arc::clone(group);
        self.counted(Command::SetGroupConfig { group, changes }, plans)
    }

    pub(super) fn check_group_config(&self, group: &str, changes: &[ConfigChange]) -> Result<(), ApplyError> {
        match group.len() {
            1..=GROUP_BYTES_MAX => Ok(changes.iter().try_for_each(GroupConfig::check)?),
            bytes => Err(ApplyError::GroupName {
                bytes,
                max: GROUP_BYTES_MAX,
            }),
        }
    }

    pub(super) fn set_group_config(&mut self, group: &Arc<str>, changes: &[ConfigChange]) {
        let configs = &mut self.group_configs;
        let config = configs.entry(Arc::clone(group)).or_default();
        config.change(changes).expect("checked");
        if config.is_empty() {
            self.group_configs.remove(group);
        }
    }
}

/// A change to a value as it is kept.
fn set(name: &str, value: &str) -> ConfigChange {
    match GroupConfig::find(name) {
        Ok(known) => ConfigChange::set(name, &known.canonical(value)),
        Err(_) => ConfigChange::set(name, value),
    }
}

#[cfg(test)]
mod tests;
