//! Metadata: brokers, topics, partitions and their leaders. The first thing a client asks, and where topics come into
//! being that were only named.
//!
//! Answered from this core's image: whoever was told of a change sees it on every connection.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kafka_wire::metadata::{
    MetadataRequestTopic, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_wire::{ErrorCode, MetadataRequest, MetadataResponse, Text};
use platform::slices::Slices;
use protocol::metadata::{
    Metadata, NewTopic, Plans, Topic, check_new_name, check_topic_name, fresh_topic_id, is_internal,
    is_order_log,
};
use protocol::order::{keeper_of, order_log_of};
use record::TopicId;

use super::Envelope;
use super::authorized::{ON_CLUSTER, ON_TOPIC, if_asked};
use super::topic_change::{Refusal, change, conclude};
use crate::answer_budget::Held;
use crate::budget::SharedRoom;
use crate::caller::Caller;
use crate::core::Core;
use crate::long::Long;
use crate::order::{EPOCH, twin_name, twin_named, twin_with_id};

/// From here on an empty list of topics means none, not all.
const FIRST_WITH_NULL_FOR_ALL: i16 = 1;
/// From here on topics can be named by their ids.
const FIRST_WITH_TOPIC_IDS: i16 = 12;
/// The time that a topic may take to come into being; after that the client asks again.
const CREATION_PATIENCE: Duration = Duration::from_secs(10);
/// Topics that one request can bring into being. The others come when the client asks again, as it is told to: nobody
/// shall keep all cores busy with a single list of names.
const CREATED_AT_ONCE_MAX: usize = 1_000;

/// Names and partitions that are dealt with before others have their turn.
const ENTRIES_IN_ONE_TURN: usize = 2_000;
/// Memory that a topic and a partition take in an answer and in its frame, in bytes.
const TOPIC_BYTES: usize = 256;
const PARTITION_BYTES: usize = 192;

/// A topic as the request names it.
enum Named {
    Name(Text),
    Id(TopicId),
}

/// The manner in which topics are told of, and the client that they are told to.
struct Manner {
    caller: Arc<Caller>,
    operations: i32,
    /// Names that are not there may come into being.
    creates: bool,
    /// Those that could not, and why.
    refused: BTreeMap<Text, ErrorCode>,
}

/// Also says what the answer takes with its frame, in bytes.
pub(super) async fn handle(
    core: Rc<Core>,
    request: MetadataRequest,
    Envelope {
        version,
        caller,
        room,
    }: Envelope,
) -> (MetadataResponse, usize) {
    let manner = Manner {
        caller,
        operations: if_asked(request.include_topic_authorized_operations, ON_TOPIC),
        creates: request.allow_auto_topic_creation && core.facts.config.topics.auto_create,
        refused: BTreeMap::new(),
    };
    let (topics, held) = tell(&core, request.topics, version, room, manner).await;
    let response = MetadataResponse {
        brokers: core.with_metadata(brokers),
        cluster_id: Some(Text::from(core.facts.cluster.to_string())),
        controller_id: core.facts.node.0,
        topics,
        cluster_authorized_operations: if_asked(request.include_cluster_authorized_operations, ON_CLUSTER),
        ..MetadataResponse::default()
    };
    (response, held.bytes())
}

/// The topics that are asked for, and the room that they take until the response is there; whoever writes that holds what its frame
/// takes from then on.
async fn tell(
    core: &Rc<Core>,
    wanted: Option<Vec<MetadataRequestTopic>>,
    version: i16,
    room: SharedRoom,
    mut manner: Manner,
) -> (Vec<MetadataResponseTopic>, Held) {
    let wanted = wanted.filter(|topics| version >= FIRST_WITH_NULL_FOR_ALL || !topics.is_empty());
    let Some(topics) = wanted else {
        let (mut told, held) = look_up_all(core, &all(core).await, &manner).await;
        // A topic that was deleted meanwhile is not there.
        told.retain(|topic| topic.name.is_some());
        return (told, held);
    };
    let topics = Long::of(core, topics, &room);
    if !are_well_named(&topics, version).await {
        return tell_ill_named(core, &topics, &manner).await;
    }
    let count = topics.len();
    let (topics, named) = topics.look(count, distinct).await;
    drop(topics);
    let named = Long::of(core, named, &None);
    if manner.creates {
        manner.refused = create(core, &named, room, &manner.caller).await;
    }
    look_up_all(core, &named, &manner).await
}

/// Tells of each topic that is named, when there is room for that.
async fn look_up_all(
    core: &Rc<Core>,
    named: &[Named],
    manner: &Manner,
) -> (Vec<MetadataResponseTopic>, Held) {
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut bytes = 0;
    for named in named {
        bytes +=
            TOPIC_BYTES + PARTITION_BYTES * core.with_metadata(|metadata| partition_count(metadata, named));
        slices.did(1).await;
    }
    let held = core.answers.reserve(manner.caller.address(), bytes).await;
    let mut told = Long::with_capacity(core, named.len());
    for named in named {
        let topic = core.with_metadata(|metadata| look_up(metadata, named, manner));
        let entries = 1 + topic.partitions.len();
        told.push(topic);
        slices.did(entries).await;
    }
    (told.take(), held)
}

fn partition_count(metadata: &Metadata, named: &Named) -> usize {
    find(metadata, named).map_or(1, |topic| metadata.partitions(topic).len())
}

/// The topic whose twin is named.
fn find_twin<'a>(metadata: &'a Metadata, named: &Named) -> Option<&'a Topic> {
    match named {
        Named::Name(name) => twin_named(metadata, name),
        Named::Id(id) => twin_with_id(metadata, *id),
    }
}

fn find<'a>(metadata: &'a Metadata, named: &Named) -> Option<&'a Topic> {
    match named {
        Named::Name(name) => metadata.topic_named(name),
        Named::Id(id) => metadata.topic(*id),
    }
}

/// Versions 10 and 11 have fields for ids and null names that must not be used yet.
async fn are_well_named(topics: &[MetadataRequestTopic], version: i16) -> bool {
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    for topic in topics {
        let is_well_named = match topic.name {
            Some(_) => version >= FIRST_WITH_TOPIC_IDS || topic.topic_id == TopicId::default(),
            None => version >= FIRST_WITH_TOPIC_IDS && topic.topic_id != TopicId::default(),
        };
        if !is_well_named {
            return false;
        }
        slices.did(1).await;
    }
    true
}

async fn tell_ill_named(
    core: &Rc<Core>,
    topics: &[MetadataRequestTopic],
    manner: &Manner,
) -> (Vec<MetadataResponseTopic>, Held) {
    let held = core
        .answers
        .reserve(manner.caller.address(), topics.len() * TOPIC_BYTES)
        .await;
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut told = Long::with_capacity(core, topics.len());
    for topic in topics {
        told.push(MetadataResponseTopic {
            error_code: ErrorCode::InvalidRequest.code(),
            name: Some(topic.name.clone().unwrap_or_default()),
            topic_id: topic.topic_id,
            topic_authorized_operations: manner.operations,
            ..MetadataResponseTopic::default()
        });
        slices.did(1).await;
    }
    (told.take(), held)
}

async fn all(core: &Rc<Core>) -> Long<Named> {
    let topics = core.all_topics().await;
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut all = Long::with_capacity(core, topics.len());
    for (_, id) in topics.into_iter().filter(|(name, _)| !is_order_log(name)) {
        all.push(Named::Id(id));
        slices.did(1).await;
    }
    all
}

/// Each topic once: naming one a million times must not multiply the answer.
fn distinct(topics: &[MetadataRequestTopic]) -> Vec<Named> {
    let mut seen = BTreeSet::new();
    let keys = topics.iter().map(|topic| {
        let name = topic.name.as_ref();
        (
            name.filter(|_| topic.topic_id == TopicId::default()),
            topic.topic_id,
        )
    });
    let distinct = keys.filter(|key| seen.insert(*key));
    let named = distinct.map(|(name, id)| match name {
        Some(name) => Named::Name(name.clone()),
        None => Named::Id(id),
    });
    named.collect()
}

/// Names that could be topics' but are not: as many as one request can bring into being.
async fn missing(core: &Core, named: &[Named]) -> Vec<Text> {
    let mut slices = Slices::of(ENTRIES_IN_ONE_TURN);
    let mut missing = Vec::new();
    for named in named {
        let is_there = core.with_metadata(|metadata| find(metadata, named).is_some());
        if let Named::Name(name) = named
            && !is_there
            && check_new_name(name).is_ok()
        {
            missing.push(name.clone());
            if missing.len() == CREATED_AT_ONCE_MAX {
                break;
            }
        }
        slices.did(1).await;
    }
    missing
}

/// Creates what is named but missing, with the node's defaults. Answers what it could not create, and why.
async fn create(
    core: &Rc<Core>,
    named: &[Named],
    room: SharedRoom,
    caller: &Caller,
) -> BTreeMap<Text, ErrorCode> {
    let names = missing(core, named).await;
    let mut refused = BTreeMap::new();
    if names.is_empty() {
        return refused;
    }
    let partition_count = core.facts.config.topics.default_partitions;
    let replicas = core.facts.config.cluster.default_replicas;
    let replica_count = core.with_metadata(|metadata| metadata.default_replicas(&[], replicas));
    let wanted: Vec<NewTopic> = names
        .iter()
        .map(|name| NewTopic {
            id: fresh_topic_id(core.facts.random.bytes()),
            name: name.as_str().into(),
            partition_count,
            replica_count,
            chosen: None,
            config: Vec::new(),
        })
        .collect();
    let plan = |metadata: &Metadata, topic: NewTopic, plans: &mut Plans| metadata.plan_topic(&topic, plans);
    let mut created: Vec<Result<(), Refusal>> = names.iter().map(|_| Ok(())).collect();
    conclude(
        &mut created,
        change(core, caller, room, CREATION_PATIENCE, wanted, plan).await,
    );
    for (name, created) in names.into_iter().zip(created) {
        let Err(Refusal { code, .. }) = created else {
            continue;
        };
        let code = match code {
            // It may still come, here or at whoever leads next. Nobody asks for metadata from a controller.
            ErrorCode::RequestTimedOut | ErrorCode::NotController => ErrorCode::LeaderNotAvailable,
            code => code,
        };
        refused.insert(name, code);
    }
    refused
}

fn look_up(metadata: &Metadata, named: &Named, manner: &Manner) -> MetadataResponseTopic {
    // Another client that was quicker to create the topic is no error.
    if let Some(topic) = find(metadata, named) {
        return MetadataResponseTopic {
            topic_authorized_operations: manner.operations,
            ..told(metadata, topic)
        };
    }
    if let Some(topic) = find_twin(metadata, named) {
        return MetadataResponseTopic {
            topic_authorized_operations: manner.operations,
            ..told_twin(metadata, topic)
        };
    }
    match named {
        Named::Name(name) => {
            let error = match manner.refused.get(name) {
                Some(code) => *code,
                None if check_topic_name(name).is_err() => ErrorCode::InvalidTopicException,
                // It comes when the client asks again.
                None if manner.creates && check_new_name(name).is_ok() => ErrorCode::LeaderNotAvailable,
                None => ErrorCode::UnknownTopicOrPartition,
            };
            MetadataResponseTopic {
                error_code: error.code(),
                is_internal: is_internal(name),
                name: Some(name.clone()),
                topic_authorized_operations: manner.operations,
                ..MetadataResponseTopic::default()
            }
        }
        // It stands for nothing.
        Named::Id(topic_id) => MetadataResponseTopic {
            error_code: ErrorCode::UnknownTopicId.code(),
            name: None,
            topic_id: *topic_id,
            ..MetadataResponseTopic::default()
        },
    }
}

fn told(metadata: &Metadata, topic: &Topic) -> MetadataResponseTopic {
    let partitions = metadata.partitions(topic).enumerate().map(|(index, state)| {
        MetadataResponsePartition {
            partition_index: index as i32,
            leader_id: state.leader.0,
            leader_epoch: state.epoch.0,
            replica_nodes: state.holding().map(|node| node.0).collect(),
            // Only its leader knows who is behind, and tells nobody yet.
            isr_nodes: state.certain().map(|node| node.0).collect(),
            ..MetadataResponsePartition::default()
        }
    });
    MetadataResponseTopic {
        name: Some(Text::from(&*topic.name)),
        topic_id: topic.id,
        is_internal: is_internal(&topic.name),
        partitions: partitions.collect(),
        ..MetadataResponseTopic::default()
    }
}

/// One partition, on the node that keeps the order.
fn told_twin(metadata: &Metadata, topic: &Topic) -> MetadataResponseTopic {
    let kept_in = metadata.topic(order_log_of(topic.id)).unwrap_or(topic);
    let nodes = || metadata.partitions(kept_in).take(1).map(|state| state.leader.0);
    MetadataResponseTopic {
        name: Some(Text::from(twin_name(topic))),
        topic_id: keeper_of(topic.id),
        partitions: vec![MetadataResponsePartition {
            partition_index: 0,
            leader_id: nodes().next().unwrap_or(-1),
            leader_epoch: EPOCH.0,
            replica_nodes: nodes().collect(),
            isr_nodes: nodes().collect(),
            ..MetadataResponsePartition::default()
        }],
        ..MetadataResponseTopic::default()
    }
}

fn brokers(metadata: &Metadata) -> Vec<MetadataResponseBroker> {
    let brokers = metadata.nodes().map(|(id, node)| MetadataResponseBroker {
        node_id: id.0,
        host: Text::from(&*node.address.host),
        port: node.address.port.into(),
        rack: node.rack.as_deref().map(Text::from),
    });
    brokers.collect()
}
