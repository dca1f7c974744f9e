//! Topics: list, create, describe, grow, delete. Changes take the way of Kafka's own requests.

use std::rc::Rc;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use kafka_wire::create_partitions::CreatePartitionsTopic;
use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::elect_leaders::TopicPartitions;
use kafka_wire::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, ElectLeadersRequest, ErrorCode, Text,
};
use platform::slices::next_slice;
use protocol::Durability;
use protocol::leader::NodeId;
use protocol::metadata::{ApplyError, Metadata, PlanError, Plans, ReplicaSet, Topic};
use record::{PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use crate::api::{Envelope, create_partitions, create_topics, delete_topics, elect_leaders};
use crate::caller::Caller;
use crate::config::plain_value;
use crate::controller::ChangeError;
use crate::core::Core;
use crate::error_codes::change_code;
use crate::groups::topic_settings;
use crate::log_bounds::{LogBounds, bounds_of};

use super::App;
use super::body::held_json;
use super::connection::Connection;
use super::cores::unknown_topic;
use super::json_body::{Members, Object, take_json};
use super::others::{self, is_handed_on};
use super::paging::Paging;
use super::problem::{Kind, Problem};
use super::refusal::change_problem;
use super::uri::Query;

/// Bounds of the description of a new topic: in bytes, and in configs.
const BODY_BYTES_MAX: usize = 64 << 10;
const CONFIGS_MAX: usize = 256;
/// Topics and partitions that are looked up before others have their turn.
const TOPICS_IN_ONE_TURN: usize = 500;
const PARTITIONS_IN_ONE_TURN: i32 = 1_000;
/// A version of Kafka's requests in which topics go by name and counts may be left out.
const CREATE_VERSION: i16 = 5;
const GROW_VERSION: i16 = 3;
const DELETE_VERSION: i16 = 5;
const ELECT_VERSION: i16 = 2;

/// A topic as the list has it.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    id: String,
    partitions: i32,
    durability: &'static str,
}

impl Listed {
    fn of(metadata: &Metadata, topic: &Topic) -> Listed {
        Listed {
            name: topic.name.to_string(),
            id: topic.id.to_string(),
            partitions: topic.partition_count(),
            // The promise for appended records is shown wherever the topic is.
            durability: match topic_settings(metadata, topic).durability {
                Durability::Flushed => "fsync",
                Durability::Memory => "memory",
            },
        }
    }
}

/// A part of the list.
#[derive(Debug, Serialize)]
struct Listing {
    topics: Vec<Listed>,
    /// With which the list goes on.
    next: Option<String>,
}

/// Answers `GET /v1/topics`: by name, so many at a time.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Result<Response, Problem> {
    let paging = Paging::read(&Query::read(request.uri().query(), Paging::PARAMETERS)?)?;
    let asked = paging.clone();
    let found = app.cores.ask_metadata(move |core| look_up(core, asked)).await?;
    let (topics, next) = paging.cut(found, |topic| &topic.name);
    held_json(&app, &connection, Listing { topics, next }).await
}

/// The topics of a page, and one more if there is one; in slices, so that one that comes or goes meanwhile may be missing.
async fn look_up(core: Rc<Core>, paging: Paging) -> Vec<Listed> {
    let mut listed: Vec<Listed> = Vec::new();
    let mut told_until = paging.after.clone();
    loop {
        let count = (paging.wanted() - listed.len()).min(TOPICS_IN_ONE_TURN);
        // The name right behind the last one.
        let from = told_until.map_or(String::new(), |name| name + "\0");
        let before = listed.len();
        core.with_metadata(|metadata| {
            let some = metadata.listed_from(&from).take(count);
            listed.extend(some.map(|topic| Listed::of(metadata, topic)));
        });
        if listed.len() - before < TOPICS_IN_ONE_TURN {
            return listed;
        }
        told_until = listed.last().map(|last| last.name.clone());
        next_slice().await;
    }
}

/// A client's description of a topic that it wants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    name: String,
    partitions: Option<i32>,
    replicas: Option<i16>,
    #[serde(default)]
    configs: Members<String, CONFIGS_MAX, 0>,
}

/// Answers `POST /v1/topics`.
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let (Object(wanted), _room) = take_json::<Object<Wanted>>(&app, &caller, request, BODY_BYTES_MAX).await?;
    let name = wanted.name.clone();
    let timeout_ms = app.limits.change_wait.as_millis() as i32;
    let result = app
        .cores
        .ask_metadata(move |core| async move {
            let request = CreateTopicsRequest {
                topics: vec![creatable(&wanted)],
                timeout_ms,
                ..CreateTopicsRequest::default()
            };
            create_topics::handle(core, request, Envelope::without_room(CREATE_VERSION, caller))
                .await
                .topics
        })
        .await?;
    let result = result.first().expect("one topic is asked for, one is answered");
    check_changed(&name, result.error_code, result.error_message.as_ref())?;
    // It is created: the answer must not be refused for want of room.
    let described = describe_topic(&app, &name).await?;
    let mut response = (StatusCode::CREATED, Json(described)).into_response();
    // A name that was accepted needs no encoding.
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/topics/{name}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

fn creatable(wanted: &Wanted) -> CreatableTopic {
    let Members(configs) = &wanted.configs;
    let config = |(name, value): &(String, String)| CreatableTopicConfig {
        name: Text::from(name.as_str()),
        // A value that cannot be read so is refused with the others that are wrong.
        value: Some(Text::from(
            plain_value(name, value).unwrap_or_else(|_| value.clone()),
        )),
    };
    CreatableTopic {
        name: Text::from(wanted.name.as_str()),
        // Zero is a count that is refused; only what is left out is the node's to choose.
        num_partitions: wanted.partitions.map_or(-1, |count| count.max(0)),
        replication_factor: wanted.replicas.map_or(-1, |count| count.max(0)),
        configs: configs.iter().map(config).collect(),
        ..CreatableTopic::default()
    }
}

/// Answers `GET /v1/topics/{topic}`.
pub(super) async fn describe(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Result<Response, Problem> {
    Query::read(request.uri().query(), &[])?;
    let described = match is_handed_on(request.headers()) {
        true => describe_here(&app, &name).await?,
        false => describe_topic(&app, &name).await?,
    };
    held_json(&app, &connection, described).await
}

/// A topic with its partitions.
#[derive(Debug, Serialize)]
pub(super) struct Described {
    name: String,
    id: String,
    durability: &'static str,
    partitions: Vec<DescribedPartition>,
}

/// A partition as its topic's description has it.
#[derive(Debug, Serialize)]
struct DescribedPartition {
    partition: i32,
    leader: i32,
    epoch: i32,
    /// Missing if its core, or the node that leads it, does not tell.
    first_offset: Option<i64>,
    tail: Option<i64>,
    replicas: Vec<i32>,
    /// Nodes that are sent the log, and are to become replicas.
    joining: Vec<i32>,
    /// Epochs that were opened uncleanly: before each, acknowledged records may be lost.
    unclean_epochs: Vec<i32>,
}

/// A topic, with what the leaders of its partitions tell.
async fn describe_topic(app: &App, name: &str) -> Result<Described, Problem> {
    let mut described = describe_here(app, name).await?;
    let untold = described.partitions.iter_mut();
    let mut untold: Vec<_> = untold.filter(|partition| partition.tail.is_none()).collect();
    let leaders = untold
        .iter()
        .map(|partition| (name.to_owned(), NodeId(partition.leader)));
    let told = others::bounds_of(&app.cores, leaders.collect()).await?;
    for partition in &mut untold {
        let place = (name.to_owned(), NodeId(partition.leader), partition.partition);
        partition.set_bounds(told.get(&place).copied());
    }
    Ok(described)
}

/// A topic as far as this node knows it.
async fn describe_here(app: &App, name: &str) -> Result<Described, Problem> {
    let wanted = name.to_owned();
    let described = app.cores.ask_metadata(move |core| async move {
        let listed = core.with_metadata(|metadata| {
            let topic = metadata.topic_named(&wanted)?;
            Some((topic.id, Listed::of(metadata, topic)))
        });
        let (id, listed) = listed?;
        let mut partitions = Vec::with_capacity(listed.partitions as usize);
        for first in (0..listed.partitions).step_by(PARTITIONS_IN_ONE_TURN as usize) {
            let next = listed.partitions.min(first + PARTITIONS_IN_ONE_TURN);
            // One that was deleted meanwhile is not there.
            let some = core.with_metadata(|metadata| {
                let some = (first..next)
                    .map(|index| DescribedPartition::of(metadata, PartitionId { topic: id, index }));
                some.collect::<Option<Vec<_>>>()
            });
            partitions.extend(some?);
            next_slice().await;
        }
        let ids = (0..listed.partitions).map(|index| Ok(PartitionId { topic: id, index }));
        let bounds = bounds_of(&core, ids).await;
        for (partition, bounds) in partitions.iter_mut().zip(bounds) {
            partition.set_bounds(bounds);
        }
        Some((listed, partitions))
    });
    let (listed, partitions) = described.await?.ok_or_else(|| unknown_topic(name))?;
    Ok(Described {
        name: listed.name,
        id: listed.id,
        durability: listed.durability,
        partitions,
    })
}

impl DescribedPartition {
    fn of(metadata: &Metadata, id: PartitionId) -> Option<DescribedPartition> {
        let state = metadata.partition(id)?;
        Some(DescribedPartition {
            partition: id.index,
            leader: state.leader.0,
            epoch: state.epoch.0,
            first_offset: None,
            tail: None,
            replicas: state.replicas.iter().map(|node| node.0).collect(),
            joining: state.joining().map(|node| node.0).collect(),
            unclean_epochs: state.unclean.iter().map(|epoch| epoch.0).collect(),
        })
    }

    fn set_bounds(&mut self, bounds: Option<LogBounds>) {
        self.first_offset = bounds.map(|bounds| bounds.log_start.0);
        self.tail = bounds.map(|bounds| bounds.tail.0);
    }
}

/// The changes of a topic that a client wants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedPartitions {
    partitions: i32,
}

/// Answers `PATCH /v1/topics/{topic}`: gives it more partitions.
pub(super) async fn grow(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<Described>, Problem> {
    Query::read(request.uri().query(), &[])?;
    let (Object(grown), _room) =
        take_json::<Object<WantedPartitions>>(&app, &caller, request, BODY_BYTES_MAX).await?;
    let wanted = CreatePartitionsTopic {
        name: Text::from(name.as_str()),
        count: grown.partitions,
        // Where they go is the node's to choose.
        assignments: None,
    };
    let timeout_ms = app.limits.change_wait.as_millis() as i32;
    let result = app
        .cores
        .ask_metadata(move |core| async move {
            let request = CreatePartitionsRequest {
                topics: vec![wanted],
                timeout_ms,
                ..CreatePartitionsRequest::default()
            };
            create_partitions::handle(core, request, Envelope::without_room(GROW_VERSION, caller))
                .await
                .results
        })
        .await?;
    let result = result.first().expect("one topic is named, one is answered");
    check_changed(&name, result.error_code, result.error_message.as_ref())?;
    Ok(Json(describe_topic(&app, &name).await?))
}

/// The replicas that a client wants of each partition.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedReplicas {
    replicas: i32,
}

/// Answers `PUT /v1/topics/{topic}/replicas`.
pub(super) async fn set_replicas(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<Described>, Problem> {
    Query::read(request.uri().query(), &[])?;
    let (Object(wanted), _room) =
        take_json::<Object<WantedReplicas>>(&app, &caller, request, BODY_BYTES_MAX).await?;
    let id = app.cores.topic(&name).await?.id;
    let change = move |core: Rc<Core>| async move { set_counts(&core, id, wanted.replicas).await };
    let changed = app.cores.ask_metadata(change).await?;
    changed.map_err(|error| {
        let (code, told) = (change_code(&error), error.to_string());
        change_problem(code.code(), Some(&told), Kind::InvalidTopic).with("topic", &*name)
    })?;
    Ok(Json(describe_topic(&app, &name).await?))
}

/// Has each partition of a topic get so many replicas.
async fn set_counts(core: &Core, topic: TopicId, replicas: i32) -> Result<(), ChangeError> {
    let sets = core.with_metadata(|metadata| metadata.replica_sets_of(topic, replicas))?;
    let plan = |metadata: &Metadata, (id, replicas): (PartitionId, ReplicaSet), _: &mut Plans| {
        metadata.plan_replicas(id, &replicas)
    };
    let made = core.change_all(None, None, sets, plan).await?;
    // Somebody else has wanted the same.
    let is_done = |made: &Result<(), ChangeError>| {
        let unchanged = |error: &ChangeError| {
            matches!(
                error,
                ChangeError::Plan(PlanError::Refused(ApplyError::ReplicasUnchanged { .. }))
            )
        };
        !made.as_ref().is_err_and(unchanged)
    };
    made.into_iter().filter(is_done).collect()
}

/// The partitions that a client wants opened with what is left; all if it names none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedOpen {
    partitions: Option<Vec<i32>>,
}

/// What became of the partitions. Those that need no unclean opening are in neither list.
#[derive(Debug, Serialize)]
pub(super) struct Opened {
    opened: Vec<i32>,
    refused: Vec<Refused>,
}

/// A partition that was not opened, and why.
#[derive(Debug, Serialize)]
struct Refused {
    partition: i32,
    detail: String,
}

/// Answers `POST /v1/topics/{topic}/unclean-opening`. Partitions that need none are left as they are.
pub(super) async fn open_uncleanly(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<Opened>, Problem> {
    Query::read(request.uri().query(), &[])?;
    let (Object(wanted), _room) =
        take_json::<Object<WantedOpen>>(&app, &caller, request, BODY_BYTES_MAX).await?;
    let named = wanted.partitions.map(|partitions| TopicPartitions {
        topic: Text::from(name.as_str()),
        partitions,
    });
    let topic = app.cores.topic(&name).await?;
    let all = || TopicPartitions {
        topic: Text::from(name.as_str()),
        partitions: (0..topic.partition_count).collect(),
    };
    let request = ElectLeadersRequest {
        election_type: elect_leaders::UNCLEAN,
        topic_partitions: Some(vec![named.unwrap_or_else(all)]),
        timeout_ms: app.limits.change_wait.as_millis() as i32,
    };
    let elect = move |core| async move {
        elect_leaders::handle(core, request, Envelope::without_room(ELECT_VERSION, caller)).await
    };
    let answer = app.cores.ask_metadata(elect).await?;
    check_changed(&name, answer.error_code, None)?;
    let results = answer.replica_election_results.into_iter();
    let (mut opened, mut refused, mut problem) = (Vec::new(), Vec::new(), Ok(()));
    for result in results.flat_map(|topic| topic.partition_result) {
        let partition = result.partition_id;
        match result.error_code {
            0 => opened.push(partition),
            code if code == ErrorCode::ElectionNotNeeded.code() => {}
            code => {
                let message = result.error_message.as_ref();
                problem = problem.and(check_changed(&name, code, message));
                let detail = message.map_or_else(String::new, ToString::to_string);
                refused.push(Refused { partition, detail });
            }
        }
    }
    if opened.is_empty() {
        problem?;
    }
    Ok(Json(Opened { opened, refused }))
}

/// Answers `DELETE /v1/topics/{topic}`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<StatusCode, Problem> {
    Query::read(request.uri().query(), &[])?;
    let doomed = name.clone();
    let timeout_ms = app.limits.change_wait.as_millis() as i32;
    let result = app
        .cores
        .ask_metadata(move |core| async move {
            let request = DeleteTopicsRequest {
                topic_names: vec![Text::from(doomed.as_str())],
                timeout_ms,
                ..DeleteTopicsRequest::default()
            };
            delete_topics::handle(core, request, Envelope::without_room(DELETE_VERSION, caller))
                .await
                .responses
        })
        .await?;
    let result = result.first().expect("one topic is named, one is answered");
    check_changed(&name, result.error_code, result.error_message.as_ref())?;
    Ok(StatusCode::NO_CONTENT)
}

/// Kafka's answer to a change of a topic, as a problem if it was refused.
fn check_changed(topic: &str, error_code: i16, message: Option<&Text>) -> Result<(), Problem> {
    if error_code == 0 {
        return Ok(());
    }
    let problem = change_problem(error_code, message.map(Text::as_str), Kind::InvalidTopic);
    Err(problem.with("topic", topic))
}
