//! Configs of topics, of nodes and of groups: what is in force, and changes while the node runs.
//!
//! Both take the way of Kafka's own requests, DescribeConfigs and IncrementalAlterConfigs: what a config is, who may change
//! it and what values it takes is not known here.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::{Extension, Json};
use kafka_wire::describe_configs::{DescribeConfigsResource, DescribeConfigsResourceResult};
use kafka_wire::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use kafka_wire::{DescribeConfigsRequest, IncrementalAlterConfigsRequest, Text};
use protocol::metadata::{ConfigSource, topic_config};
use serde::Serialize;

use crate::api::config_resource::{BROKER, GROUP, TOPIC, source_code};
use crate::api::{Envelope, alter_configs, describe_configs};
use crate::caller::Caller;
use crate::config::plain_value;

use super::App;
use super::json_body::{Members, take_json};
use super::problem::{Kind, Problem};
use super::refusal::change_problem;
use super::uri::{Query, bad_parameter};

/// Bounds of a change: in bytes, and in configs.
const BODY_BYTES_MAX: usize = 64 << 10;
const CHANGES_MAX: usize = 256;
/// Versions of Kafka's requests that say all there is to say.
const DESCRIBE_VERSION: i16 = 4;
const ALTER_VERSION: i16 = 1;

/// Where a value comes from, as it is told here.
const SOURCES: [(ConfigSource, &str); 6] = [
    (ConfigSource::Topic, "topic"),
    (ConfigSource::Group, "group"),
    (ConfigSource::Broker, "node"),
    (ConfigSource::AllBrokers, "cluster"),
    (ConfigSource::Started, "start"),
    (ConfigSource::Default, "default"),
];

/// A config with the value in force.
#[derive(Debug, Serialize)]
struct Config {
    name: String,
    value: String,
    source: &'static str,
    read_only: bool,
    documentation: String,
}

impl Config {
    fn of(described: &DescribeConfigsResourceResult) -> Config {
        let text = |text: &Option<Text>| text.as_ref().map(String::from).unwrap_or_default();
        let source = SOURCES
            .iter()
            .find(|(source, _)| source_code(*source) == described.config_source);
        Config {
            name: String::from(&described.name),
            value: text(&described.value),
            source: source.map_or("default", |(_, word)| word),
            read_only: described.read_only,
            documentation: text(&described.documentation),
        }
    }
}

/// The answer to a question.
#[derive(Debug, Serialize)]
pub(super) struct Configs {
    configs: Vec<Config>,
}

/// The answer to a change: the named configs, as they are in force now.
#[derive(Debug, Serialize)]
pub(super) struct ChangedConfigs {
    dry_run: bool,
    configs: Vec<Config>,
}

/// A resource that has configs, as Kafka's requests name it.
#[derive(Debug, Clone)]
struct Resource {
    number: i8,
    name: String,
}

impl Resource {
    /// A topic that is there.
    async fn topic(app: &App, name: &str) -> Result<Resource, Problem> {
        let known = app.cores.topic(name).await?;
        Ok(Resource {
            number: TOPIC,
            name: known.name.to_string(),
        })
    }

    /// A group, which need not be there.
    fn group(name: String) -> Resource {
        Resource { number: GROUP, name }
    }

    /// This node.
    fn node(app: &App) -> Resource {
        Resource {
            number: BROKER,
            name: app.cores.facts.node.0.to_string(),
        }
    }

    /// All nodes.
    fn cluster() -> Resource {
        Resource {
            number: BROKER,
            name: String::new(),
        }
    }

    /// That what a topic is to give up exists. Kafka's clients may give up anything; here it is a slip of the pen.
    fn check_given_up(&self, changes: &[(String, Option<String>)]) -> Result<(), Problem> {
        let mut given_up = changes.iter().filter(|(_, value)| value.is_none());
        let unknown = given_up.find_map(|(name, _)| topic_config::find(name).err());
        match unknown.filter(|_| self.number == TOPIC) {
            None => Ok(()),
            Some(error) => {
                Err(Problem::new(Kind::InvalidConfig, error.to_string()).with("topic", self.name.as_str()))
            }
        }
    }

    /// Why one of Kafka's handlers refused, if it did.
    fn check(&self, code: i16, message: Option<&Text>) -> Result<(), Problem> {
        if code == 0 {
            return Ok(());
        }
        let problem = change_problem(code, message.map(Text::as_str), Kind::InvalidConfig);
        Err(match self.number {
            TOPIC => problem.with("topic", self.name.as_str()),
            GROUP => problem.with("group", self.name.as_str()),
            _ => problem,
        })
    }
}

/// Answers `GET /v1/topics/{topic}/configs`.
pub(super) async fn of_topic(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<Configs>, Problem> {
    Query::read(request.uri().query(), &[])?;
    let topic = Resource::topic(&app, &name).await?;
    let configs = describe(&app, caller, &topic, None).await?;
    Ok(Json(Configs { configs }))
}

/// Answers `GET /v1/groups/{group}/configs`.
pub(super) async fn of_group(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<Configs>, Problem> {
    Query::read(request.uri().query(), &[])?;
    let configs = describe(&app, caller, &Resource::group(name), None).await?;
    Ok(Json(Configs { configs }))
}

/// Answers `PATCH /v1/groups/{group}/configs`.
pub(super) async fn change_group(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<ChangedConfigs>, Problem> {
    let query = Query::read(request.uri().query(), &["dry_run"])?;
    let group = Resource::group(name);
    change(&app, caller, &group, &group, &query, request).await
}

/// Answers `GET /v1/configs`.
pub(super) async fn of_node(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Result<Json<Configs>, Problem> {
    Query::read(request.uri().query(), &[])?;
    let configs = describe(&app, caller, &Resource::node(&app), None).await?;
    Ok(Json(Configs { configs }))
}

/// Answers `PATCH /v1/topics/{topic}/configs`.
pub(super) async fn change_topic(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Json<ChangedConfigs>, Problem> {
    let query = Query::read(request.uri().query(), &["dry_run"])?;
    let topic = Resource::topic(&app, &name).await?;
    change(&app, caller, &topic, &topic, &query, request).await
}

/// Answers `PATCH /v1/configs`.
pub(super) async fn change_nodes(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Result<Json<ChangedConfigs>, Problem> {
    let query = Query::read(request.uri().query(), &["scope", "dry_run"])?;
    let node = Resource::node(&app);
    let changed = match query.get("scope") {
        None | Some("cluster") => Resource::cluster(),
        Some("node") => node.clone(),
        Some(other) => {
            let detail = format!("scope must be node or cluster, not {other:?}");
            return Err(bad_parameter("scope", detail));
        }
    };
    change(&app, caller, &changed, &node, &query, request).await
}

/// Changes what a body names, unless it is a dry run; answers with what is in force then for `told`.
async fn change(
    app: &App,
    caller: Arc<Caller>,
    changed: &Resource,
    told: &Resource,
    query: &Query,
    request: Request,
) -> Result<Json<ChangedConfigs>, Problem> {
    let dry_run = query.switch("dry_run")?;
    let (Members(changes), _room) =
        take_json::<Members<Option<String>, CHANGES_MAX>>(app, &caller, request, BODY_BYTES_MAX).await?;
    changed.check_given_up(&changes)?;
    let names = changes.iter().map(|(name, _)| name.clone()).collect();
    alter(app, caller.clone(), changed, changes, dry_run).await?;
    let configs = describe(app, caller, told, Some(names)).await?;
    Ok(Json(ChangedConfigs { dry_run, configs }))
}

/// The configs in force; all of them, or those that have one of these names.
async fn describe(
    app: &App,
    caller: Arc<Caller>,
    resource: &Resource,
    names: Option<Vec<String>>,
) -> Result<Vec<Config>, Problem> {
    let wanted = resource.clone();
    let mut described = app
        .cores
        .ask_metadata(move |core| async move {
            let names = names.map(|names| names.into_iter().map(Text::from).collect());
            let request = DescribeConfigsRequest {
                resources: vec![DescribeConfigsResource {
                    resource_type: wanted.number,
                    resource_name: Text::from(wanted.name),
                    configuration_keys: names,
                }],
                include_synonyms: false,
                include_documentation: true,
            };
            let (told, _) =
                describe_configs::handle(core, request, Envelope::without_room(DESCRIBE_VERSION, caller))
                    .await;
            told.results
        })
        .await?;
    let described = described
        .pop()
        .expect("one resource is asked for, one is answered");
    resource.check(described.error_code, described.error_message.as_ref())?;
    Ok(described.configs.iter().map(Config::of).collect())
}

/// Gives configs these values, and those without one up; all of them or none.
async fn alter(
    app: &App,
    caller: Arc<Caller>,
    resource: &Resource,
    changes: Vec<(String, Option<String>)>,
    validate_only: bool,
) -> Result<(), Problem> {
    let wanted = resource.clone();
    let mut altered = app
        .cores
        .ask_metadata(move |core| async move {
            let request = IncrementalAlterConfigsRequest {
                resources: vec![AlterConfigsResource {
                    resource_type: wanted.number,
                    resource_name: Text::from(wanted.name),
                    configs: changes.into_iter().map(alterable).collect(),
                }],
                validate_only,
            };
            alter_configs::edit(core, request, Envelope::without_room(ALTER_VERSION, caller))
                .await
                .responses
        })
        .await?;
    let altered = altered.pop().expect("one resource is named, one is answered");
    resource.check(altered.error_code, altered.error_message.as_ref())
}

fn alterable((name, value): (String, Option<String>)) -> AlterableConfig {
    AlterableConfig {
        config_operation: match value {
            Some(_) => alter_configs::SET,
            None => alter_configs::DELETE,
        },
        // A value that cannot be read so is refused with the others that are wrong.
        value: value.map(|value| Text::from(plain_value(&name, &value).unwrap_or(value))),
        name: Text::from(name),
    }
}
