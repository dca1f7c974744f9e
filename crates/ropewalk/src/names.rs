//! The names of the logs: topics of one partition, kept as a node keeps its topics, in the metadata partition.
//!
//! The commands and the image are the node's own (`protocol::metadata`): so a node can be started over the directory, and
//! the logs are topics there. An opening's commands are journaled with its first append, not before: a program that only
//! reads writes nothing.

use std::fmt::Display;
use std::sync::Arc;

use platform::random::Random;
use protocol::leader::NodeId;
use protocol::metadata::{
    Address, Command, ConfigChange, METADATA_PARTITION, Metadata, NewTopic, Plans, Replay, TopicConfig,
    check_new_name, fresh_topic_id, is_internal, metadata_settings,
};
use record::{BatchBuilder, ClusterId, Compression, Offset, PartitionId, TopicId};
use storage::{RecoveredPartition, Reserve};

use crate::append::{AppendError, Built};
use crate::cursor::Cursor;
use crate::engine::{Engine, Guard, Phase, State};
use crate::settings::Settings;

/// Reasons for which a log cannot be opened or made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// It cannot be called that.
    #[error("there can be no log {name:?}: {reason}")]
    Name {
        /// The name.
        name: String,
        /// The reason.
        reason: String,
    },
    /// A node made it, with more partitions than the one that a log has.
    #[error("{name} has {partitions} partitions; only a topic with one is a log")]
    Partitions {
        /// The name.
        name: String,
        /// The number of its partitions.
        partitions: i32,
    },
    /// A node keeps something of its own in it; whoever wrote there could have it lose that.
    #[error("{name} is a node's own; it is no log")]
    NodesOwn {
        /// The name.
        name: String,
    },
    /// It is new and could not be journaled.
    #[error("log {name} cannot be created: {refusal}")]
    NotCreated {
        /// The name.
        name: String,
        /// The reason.
        #[source]
        refusal: AppendError,
    },
    /// The logs were closed.
    #[error("the logs are closed")]
    Closed,
}

/// Commands as a batch of the metadata partition.
pub(crate) fn as_batch(commands: &[Command], now_ms: i64) -> Built {
    let mut builder = BatchBuilder::new(Compression::None);
    for command in commands {
        builder.append(now_ms, None, Some(&command.encode()), &[]);
    }
    Built {
        record_count: builder.record_count(),
        bytes: builder.build(),
        now_ms,
    }
}

/// A log keeps everything until it is trimmed, also while a node has the directory, and whatever the node's topics have by
/// default.
fn log_config(settings: &Settings) -> Vec<ConfigChange> {
    [
        ("cleanup.policy", "delete".to_owned()),
        ("max.message.bytes", settings.batch_bytes_max.to_string()),
        ("retention.bytes", "-1".to_owned()),
        ("retention.ms", "-1".to_owned()),
        ("segment.bytes", settings.segment_bytes.to_string()),
    ]
    .map(|(name, value)| ConfigChange::set(name, &value))
    .into()
}

impl Engine {
    /// At opening: replays the names, begins an epoch of every partition, and opens them.
    ///
    /// # Errors
    /// The stored records contradict each other: a sentence.
    pub(crate) fn open_partitions(
        &self,
        cluster: ClusterId,
        mut recovered: Vec<RecoveredPartition>,
    ) -> Result<(), String> {
        let mut take = |id: PartitionId| {
            let place = recovered.iter().position(|found| found.id == id)?;
            Some(recovered.swap_remove(place))
        };
        let names = take(METADATA_PARTITION);
        self.state().open_partition(
            METADATA_PARTITION,
            None,
            metadata_settings(),
            names.as_ref(),
            &*self.clock,
        )?;
        let mut metadata = self.read_metadata(cluster)?;
        let mut state = self.state();
        let start = start_of(&metadata, cluster, state.node);
        for command in &start {
            metadata
                .apply(command)
                .map_err(|error| format!("the start does not fit the metadata: {error}"))?;
        }
        for topic in metadata.topics() {
            for (index, partition) in (0..).zip(metadata.partitions(topic)) {
                let id = PartitionId {
                    topic: topic.id,
                    index,
                };
                let found = take(id);
                state.open_partition(
                    id,
                    Some(partition.epoch),
                    topic.settings,
                    found.as_ref(),
                    &*self.clock,
                )?;
            }
        }
        state.metadata = metadata;
        state.start = start;
        Ok(())
    }

    fn read_metadata(&self, cluster: ClusterId) -> Result<Metadata, String> {
        let leader_bounds = {
            let state = self.state();
            let leader = &state.partition(METADATA_PARTITION).leader;
            (leader.log_start(), leader.tail())
        };
        let (from, tail) = leader_bounds;
        let mut replay = Replay::new(Metadata::new(TopicConfig::new()));
        let mut cursor = Cursor::new(METADATA_PARTITION, from);
        let damaged =
            |offset: Offset, what: String| format!("the names from offset {offset} on are damaged: {what}");
        while let Some(record) = cursor
            .take(self, tail)
            .map_err(|error| damaged(from, error.to_string()))?
        {
            replay
                .take(record.offset, &record.value.unwrap_or_default())
                .map_err(|error| damaged(record.offset, error.to_string()))?;
        }
        let replayed = replay.finish(cluster);
        let (metadata, _) = replayed.map_err(|error| damaged(from, error.to_string()))?;
        Ok(metadata)
    }

    /// The log of this name, if there is one.
    pub(crate) fn find_log(&self, name: &str) -> Result<Option<PartitionId>, LogError> {
        log_in(&self.state(), name)
    }

    /// The log of this name, made if there is none.
    pub(crate) fn log(&self, name: &str) -> Result<PartitionId, LogError> {
        if let Some(found) = self.find_log(name)? {
            return Ok(found);
        }
        let _turn = self
            .naming
            .lock()
            .expect("no thread panicked while it changed the names");
        let state = self.state();
        if let Some(found) = log_in(&state, name)? {
            return Ok(found);
        }
        check_new_name(name).map_err(|error| cannot_be_called(name, error))?;
        self.create_topic(state, name, log_config(&self.settings))
    }

    /// Journals the new name, then opens the log. Nobody else changes names meanwhile.
    pub(crate) fn create_topic(
        &self,
        state: Guard<'_>,
        name: &str,
        config: Vec<ConfigChange>,
    ) -> Result<PartitionId, LogError> {
        let (topic, command) = plan_topic(&state.metadata, name, config)?;
        let journaled = self.journal(state, &command);
        let mut state = journaled.map_err(|refusal| LogError::NotCreated {
            name: name.to_owned(),
            refusal,
        })?;
        state
            .metadata
            .apply(&command)
            .expect("it was planned on this image, and only its planner changes it");
        let id = PartitionId { topic, index: 0 };
        let epoch = state.metadata.partition(id).map(|partition| partition.epoch);
        let created = state.metadata.topic(topic).expect("it was just created");
        let settings = created.settings;
        state
            .open_partition(id, epoch, settings, None, &*self.clock)
            .expect("a new partition contradicts nothing");
        Ok(id)
    }

    /// Has a command of the metadata made durable.
    fn journal<'a>(&'a self, state: Guard<'a>, command: &Command) -> Result<Guard<'a>, AppendError> {
        let batch = as_batch(std::slice::from_ref(command), self.clock.wall_ms());
        let stage = &mut |state: &mut State| state.stage(METADATA_PARTITION, &batch, Reserve::Keep);
        let (state, staged) = self.stage_with_room(state, Reserve::Keep, stage)?;
        self.until_durable(state, staged.frame).map_err(AppendError::dead)
    }
}

#[cfg(test)]
impl Engine {
    /// Changes the metadata, as a node does.
    pub(crate) fn change(&self, command: &Command) {
        let journaled = self.journal(self.state(), command);
        let mut state = journaled.expect("there is room");
        state.metadata.apply(command).expect("it fits");
    }
}

/// The log of this name, if there is one.
fn log_in(state: &State, name: &str) -> Result<Option<PartitionId>, LogError> {
    if is_internal(name) {
        let name = name.to_owned();
        return Err(LogError::NodesOwn { name });
    }
    if state.phase != Phase::Open {
        return Err(LogError::Closed);
    }
    match state.metadata.topic_named(name) {
        None => Ok(None),
        Some(topic) if topic.partition_count() == 1 => Ok(Some(PartitionId {
            topic: topic.id,
            index: 0,
        })),
        Some(topic) => Err(LogError::Partitions {
            name: name.to_owned(),
            partitions: topic.partition_count(),
        }),
    }
}

fn cannot_be_called(name: &str, reason: impl Display) -> LogError {
    LogError::Name {
        name: name.to_owned(),
        reason: reason.to_string(),
    }
}

/// Plans a new topic of one partition: its id, and the command that makes it.
fn plan_topic(
    metadata: &Metadata,
    name: &str,
    config: Vec<ConfigChange>,
) -> Result<(TopicId, Command), LogError> {
    let wanted = NewTopic {
        id: fresh_topic_id(Random::SYSTEM.bytes()),
        name: Arc::from(name),
        partition_count: 1,
        replica_count: 1,
        config,
        chosen: None,
    };
    let planned = metadata.plan_topic(&wanted, &mut Plans::default());
    let command = planned.map_err(|error| cannot_be_called(name, error))?;
    Ok((wanted.id, command))
}

/// The commands of an opening: it is a start of the node whose directory this is.
fn start_of(metadata: &Metadata, cluster: ClusterId, node: NodeId) -> Vec<Command> {
    let founding = metadata.cluster().is_none().then(|| Metadata::founding(cluster));
    // Nobody is to connect here. A node that takes the directory over says where it is by its own start.
    let address = Address {
        host: "localhost".into(),
        port: 0,
    };
    let start = Command::StartNode {
        node,
        address,
        home: None,
        rack: None,
    };
    founding.into_iter().flatten().chain([start]).collect()
}
