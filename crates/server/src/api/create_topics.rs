//! CreateTopics: several topics in one change of the metadata, each created or refused by itself.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use kafka_wire::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreatableTopicConfigs, CreatableTopicResult,
};
use kafka_wire::{CreateTopicsRequest, CreateTopicsResponse, ErrorCode, Text};
use platform::slices::Slices;
use protocol::ApplyError;
use protocol::metadata::{
    ConfigChange, ConfigEntry, Metadata, NewTopic, Plans, ReplicaSet, TopicConfig, check_new_name,
    fresh_topic_id,
};
use record::TopicId;

use super::Envelope;
use super::TOPICS_WITHOUT_ROOM_MAX;
use super::alter_configs::check_once;
use super::config_resource::source_code;
use super::topic_change::{
    Refusal, WISHES_IN_ONE_TURN, change, check_chosen_count, check_replicas, conclude, each_once, patience,
    rehearse, replica_set,
};
use crate::core::Core;

/// Leaves a count to the node.
const DEFAULT_COUNT: i32 = -1;
/// Topics whose configs one answer tells: they are a hundred times as long as what asks for a topic. Of the others it says that they
/// are not told (KIP-525); `DescribeConfigs` tells them.
const CONFIGS_TOLD_MAX: usize = 1_000;
/// The work of telling a topic's configs, among the wishes of one turn.
const WORK_OF_CONFIGS: usize = 10;

pub(crate) async fn handle(
    core: Rc<Core>,
    request: CreateTopicsRequest,
    Envelope { caller, room, .. }: Envelope,
) -> CreateTopicsResponse {
    if request.topics.len() > TOPICS_WITHOUT_ROOM_MAX {
        core.answers.room().await;
    }
    let (names, mut wishes) = wishes(&core, request.topics).await;
    let wanted = wishes.iter_mut().flatten().map(|wish| {
        // Nobody asks for them again, and they may be many.
        let chosen = wish.chosen.take();
        NewTopic {
            chosen,
            ..wish.clone()
        }
    });
    let wanted: Vec<NewTopic> = wanted.collect();
    let plan = |metadata: &Metadata, topic: NewTopic, plans: &mut Plans| metadata.plan_topic(&topic, plans);
    let made = match request.validate_only {
        true => rehearse(&core, &caller, wanted, plan).await,
        false => change(&core, &caller, room, patience(request.timeout_ms), wanted, plan).await,
    };
    conclude(&mut wishes, made);
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let mut topics = Vec::with_capacity(names.len());
    for (place, (name, wish)) in names.into_iter().zip(wishes).enumerate() {
        topics.push(match wish {
            Ok(topic) => {
                let has_configs = place < CONFIGS_TOLD_MAX;
                let configs = has_configs.then(|| core.with_metadata(|metadata| configs(metadata, &topic)));
                created(name, &topic, request.validate_only, configs)
            }
            Err(refusal) => refused(name, &refusal),
        });
        slices
            .did(if place < CONFIGS_TOLD_MAX {
                WORK_OF_CONFIGS
            } else {
                1
            })
            .await;
    }
    CreateTopicsResponse {
        throttle_time_ms: 0,
        topics,
    }
}

/// The topic that is wanted under each name, in the order of the names' first appearances.
async fn wishes(core: &Core, topics: Vec<CreatableTopic>) -> (Vec<Text>, Vec<Result<NewTopic, Refusal>>) {
    let defaults = Defaults {
        partitions: core.facts.config.topics.default_partitions,
        partitions_max: core.facts.config.plan_limits().topic_partitions_max,
        replicas: core.facts.config.cluster.default_replicas,
    };
    let mut slices = Slices::of(WISHES_IN_ONE_TURN);
    let (mut names, mut wishes) = (Vec::with_capacity(topics.len()), Vec::with_capacity(topics.len()));
    for (topic, is_only) in each_once(topics, |topic| topic.name.clone()).await {
        wishes.push(match is_only {
            true => core.with_metadata(|metadata| {
                wish(
                    metadata,
                    &topic,
                    fresh_topic_id(core.facts.random.bytes()),
                    &defaults,
                )
            }),
            false => Err(Refusal::named_twice()),
        });
        names.push(topic.name);
        slices.did(1 + topic.assignments.len()).await;
    }
    (names, wishes)
}

/// The node's own word on the partitions of topics.
struct Defaults {
    partitions: i32,
    partitions_max: i32,
    replicas: i32,
}

fn wish(
    metadata: &Metadata,
    topic: &CreatableTopic,
    id: TopicId,
    defaults: &Defaults,
) -> Result<NewTopic, Refusal> {
    // First: "exists already" is what a client that creates its topic on every start expects, also of one that only the node
    // itself can create.
    let name: Arc<str> = topic.name.as_str().into();
    if metadata.topic_named(&name).is_some() {
        return Err(ApplyError::TopicExists { name }.into());
    }
    check_new_name(&name).map_err(ApplyError::from)?;
    check_once(topic.configs.iter().map(|config| &config.name))?;
    let config = topic
        .configs
        .iter()
        .map(config_change)
        .collect::<Result<Vec<_>, Refusal>>()?;
    if let [first, ..] = topic.assignments.as_slice() {
        let chosen = assigned(metadata, topic, defaults.partitions_max)?;
        return Ok(NewTopic {
            id,
            name,
            partition_count: chosen.len() as i32,
            replica_count: first.broker_ids.len() as i32,
            chosen: Some(chosen),
            config,
        });
    }
    let or_default = |count: i32, default: i32| if count == DEFAULT_COUNT { default } else { count };
    Ok(NewTopic {
        id,
        name,
        partition_count: or_default(topic.num_partitions, defaults.partitions),
        replica_count: or_default(
            topic.replication_factor.into(),
            metadata.default_replicas(&config, defaults.replicas),
        ),
        chosen: None,
        config,
    })
}

fn config_change(config: &CreatableTopicConfig) -> Result<ConfigChange, Refusal> {
    match &config.value {
        Some(value) => Ok(ConfigChange::set(&config.name, value)),
        None => {
            let message = format!(
                "Null value not supported for topic configs: {}; leave it out for the default",
                config.name
            );
            Err(Refusal::new(ErrorCode::InvalidConfig, message))
        }
    }
}

/// The replicas that a client has chosen, by partition.
fn assigned(
    metadata: &Metadata,
    topic: &CreatableTopic,
    partitions_max: i32,
) -> Result<Vec<ReplicaSet>, Refusal> {
    let assignments = &topic.assignments;
    if topic.num_partitions != DEFAULT_COUNT || i32::from(topic.replication_factor) != DEFAULT_COUNT {
        let what = match i32::from(topic.replication_factor) {
            DEFAULT_COUNT => "numPartitions",
            _ => "replication factor",
        };
        let message = format!("A manual partition assignment was specified, but {what} was not set to -1.");
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    check_chosen_count(1, assignments.len(), partitions_max)?;
    let mut sets = BTreeMap::new();
    let replica_count = assignments[0].broker_ids.len();
    for assignment in assignments {
        let index = assignment.partition_index;
        check_replicas(metadata, &assignment.broker_ids, Some(replica_count))?;
        if sets.insert(index, replica_set(&assignment.broker_ids)).is_some() {
            let message = format!("Found multiple manual partition assignments for partition {index}");
            return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
        }
    }
    let last = assignments.len() as i32 - 1;
    // They are as many as from the first to the last, and each is there once.
    if sets.keys().next() != Some(&0) || sets.keys().next_back() != Some(&last) {
        let message = "partitions should be a consecutive 0-based integer sequence";
        return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    Ok(sets.into_values().collect())
}

fn created(
    name: Text,
    topic: &NewTopic,
    validate_only: bool,
    configs: Option<Vec<CreatableTopicConfigs>>,
) -> CreatableTopicResult {
    let config_error = match configs {
        Some(_) => ErrorCode::None,
        None => ErrorCode::ThrottlingQuotaExceeded,
    };
    CreatableTopicResult {
        name,
        // A topic that was not created has no identity.
        topic_id: if validate_only {
            TopicId::default()
        } else {
            topic.id
        },
        error_code: 0,
        error_message: None,
        topic_config_error_code: config_error.code(),
        num_partitions: topic.partition_count,
        replication_factor: topic.replica_count as i16,
        configs,
    }
}

fn configs(metadata: &Metadata, topic: &NewTopic) -> Vec<CreatableTopicConfigs> {
    let mut config = TopicConfig::new();
    config
        .change(&topic.config)
        .expect("the plan has checked the configs");
    metadata.describe_topic_config(&config).map(told_config).collect()
}

fn told_config(entry: ConfigEntry) -> CreatableTopicConfigs {
    CreatableTopicConfigs {
        name: Text::from_static(entry.config.name),
        value: Some(Text::from(&*entry.value)),
        read_only: false,
        config_source: source_code(entry.source),
        is_sensitive: false,
    }
}

fn refused(name: Text, refusal: &Refusal) -> CreatableTopicResult {
    CreatableTopicResult {
        name,
        error_code: refusal.code.code(),
        error_message: refusal.text(),
        ..CreatableTopicResult::default()
    }
}
