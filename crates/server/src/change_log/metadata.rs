//! Lines of the metadata's changes.

use std::sync::Arc;
use std::time::Duration;

use protocol::metadata::{Command, ConfigChange, Metadata};

use super::{Change, ChangeLog, first_parts};

/// A value is told up to so many characters.
const VALUE_CHARACTERS_MAX: usize = 100;

/// The topic that a command is about, as it is before the command: afterwards it may be gone.
pub(crate) struct TopicBefore {
    name: Arc<str>,
    partitions: i32,
}

impl TopicBefore {
    /// Finds it; `None` for a command about no topic that is there.
    pub(crate) fn find(metadata: &Metadata, command: &Command) -> Option<TopicBefore> {
        let (Command::DeleteTopic { id }
        | Command::CreatePartitions { id, .. }
        | Command::SetTopicConfig { id, .. }) = command
        else {
            return None;
        };
        metadata.topic(*id).map(|topic| TopicBefore {
            name: topic.name.clone(),
            partitions: topic.partition_count(),
        })
    }
}

impl ChangeLog {
    /// Tells of a command that was carried out. Changes that the node makes for itself have no line.
    pub(crate) fn tell_command(&self, now: Duration, command: &Command, before: Option<&TopicBefore>) {
        let change = match command {
            _ if command.changes_nothing() => return,
            Command::CreateTopic { .. } => Change::TopicCreated,
            Command::DeleteTopic { .. } => Change::TopicDeleted,
            Command::CreatePartitions { .. } => Change::PartitionsAdded,
            Command::SetTopicConfig { .. } => Change::TopicConfigsChanged,
            Command::SetBrokerConfig { .. } => Change::NodeConfigsChanged,
            Command::SetGroupConfig { .. } => Change::GroupConfigsChanged,
            Command::SetReplicas { .. } | Command::OpenUncleanly { .. } => Change::ReplicasChanged,
            Command::DrainNode { .. }
            | Command::RemoveNode { .. }
            | Command::DoubtNode { .. }
            | Command::SetFeatureLevel { .. } => Change::NodesChanged,
            Command::CaughtUp { .. }
            | Command::Settled { .. }
            | Command::FormatCluster { .. }
            | Command::StartNode { .. }
            | Command::JoinNode { .. }
            | Command::AllocateProducerIds { .. }
            | Command::OpenEpoch { .. } => return,
        };
        if self.has_line(now, change) {
            tell(command, before);
        }
    }
}

fn tell(command: &Command, before: Option<&TopicBefore>) {
    let topic = before.map(|before| &*before.name);
    let had = before.map_or(0, |before| before.partitions);
    match command {
        Command::CreateTopic {
            name,
            partitions,
            config,
            ..
        } => {
            let (partitions, configs) = (partitions.len(), (!config.is_empty()).then(|| in_words(config)));
            tracing::info!(topic = &**name, partitions, configs, "a topic was created");
        }
        Command::DeleteTopic { .. } => tracing::info!(topic, partitions = had, "a topic was deleted"),
        Command::CreatePartitions { partitions, .. } => {
            let partitions = had as usize + partitions.len();
            tracing::info!(topic, partitions, "a topic was given more partitions");
        }
        Command::SetTopicConfig { changes, .. } => {
            tracing::info!(
                topic,
                configs = in_words(changes),
                "configs of a topic were changed"
            );
        }
        Command::SetBrokerConfig { broker, changes } => {
            let node = broker.map_or_else(|| "all".to_owned(), |node| node.0.to_string());
            tracing::info!(node, configs = in_words(changes), "configs of nodes were changed");
        }
        Command::SetGroupConfig { group, changes } => {
            tracing::info!(
                group = &**group,
                configs = in_words(changes),
                "configs of a group were changed"
            );
        }
        Command::SetReplicas {
            partition, replicas, ..
        } => {
            let replicas: Vec<i32> = replicas.iter().map(|node| node.0).collect();
            tracing::info!(%partition, ?replicas, "a partition is to have other replicas");
        }
        Command::OpenUncleanly {
            partition, replicas, ..
        } => {
            let replicas: Vec<i32> = replicas.iter().map(|node| node.0).collect();
            tracing::warn!(%partition, ?replicas, "a partition is opened uncleanly: what only its other replicas hold is lost");
        }
        Command::DrainNode { node, drain } => {
            let to = drain.as_ref().and_then(|drain| drain.to).map(|to| to.0);
            match drain {
                Some(_) => tracing::info!(node = node.0, to, "a node is to give up what it holds"),
                None => tracing::info!(node = node.0, "a node may hold something again"),
            }
        }
        Command::RemoveNode { node } => tracing::info!(node = node.0, "a node was removed"),
        Command::SetFeatureLevel { level } => tracing::info!(%level, "the cluster has another feature level"),
        Command::DoubtNode { node, .. } => tracing::warn!(
            node = node.0,
            "a node's disk is in doubt: it counts for nothing until it holds everything again"
        ),
        Command::CaughtUp { .. }
        | Command::Settled { .. }
        | Command::FormatCluster { .. }
        | Command::StartNode { .. }
        | Command::JoinNode { .. }
        | Command::AllocateProducerIds { .. }
        | Command::OpenEpoch { .. } => {}
    }
}

fn in_words(changes: &[ConfigChange]) -> String {
    first_parts(changes.iter().map(|change| match &change.value {
        None => format!("{} back to its default", change.name),
        Some(value) => match value.char_indices().nth(VALUE_CHARACTERS_MAX) {
            None => format!("{}={value}", change.name),
            Some((end, _)) => format!("{}={}...", change.name, &value[..end]),
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configs_are_told_with_their_values_up_to_a_length() {
        let long = "ä".repeat(VALUE_CHARACTERS_MAX + 1);
        let changes = [
            ConfigChange::set("retention.ms", "1000"),
            ConfigChange {
                name: "retention.bytes".into(),
                value: None,
            },
            ConfigChange::set("other", &long),
        ];
        let cut = "ä".repeat(VALUE_CHARACTERS_MAX);
        let expected = format!("retention.ms=1000, retention.bytes back to its default, other={cut}...");
        assert_eq!(in_words(&changes), expected);
    }
}
