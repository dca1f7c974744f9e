//! DescribeConfigs: the configs in force for a topic, and those that this node was started with.

use std::collections::HashSet;
use std::rc::Rc;

use kafka_wire::describe_configs::{
    DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_wire::{DescribeConfigsRequest, DescribeConfigsResponse, ErrorCode, Text};
use protocol::ApplyError;
use protocol::metadata::topic_config::ConfigKind;
use protocol::metadata::{ConfigEntry, ConfigSource, Metadata, Topic, check_topic_name};

use super::topic_change::Refusal;
use crate::config::{KeyDescription, KeyKind, Source};
use crate::core::Core;

/// Kafka's numbers for what can have configs.
const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// Kafka's numbers for where a value comes from.
const DYNAMIC_TOPIC_CONFIG: i8 = 1;
const STATIC_BROKER_CONFIG: i8 = 4;
const DEFAULT_CONFIG: i8 = 5;

/// Kafka's numbers for types of values.
const BOOLEAN: i8 = 1;
const STRING: i8 = 2;
const INT: i8 = 3;
const LONG: i8 = 5;
const DOUBLE: i8 = 6;
const LIST: i8 = 7;

/// A value's source as Kafka numbers it.
pub(super) fn source_code(source: ConfigSource) -> i8 {
    match source {
        ConfigSource::Topic => DYNAMIC_TOPIC_CONFIG,
        ConfigSource::Cluster => STATIC_BROKER_CONFIG,
        ConfigSource::Default => DEFAULT_CONFIG,
    }
}

/// What a request wants told beside names and values.
#[derive(Debug, Clone, Copy)]
struct Detail {
    synonyms: bool,
    documentation: bool,
}

pub(super) async fn handle(
    core: Rc<Core>,
    request: DescribeConfigsRequest,
    _version: i16,
) -> DescribeConfigsResponse {
    let detail = Detail {
        synonyms: request.include_synonyms,
        documentation: request.include_documentation,
    };
    let mut seen = HashSet::new();
    let results = request.resources.into_iter().map(|resource| {
        // Naming one resource a million times must not multiply the answer.
        let described = match seen.insert((resource.resource_type, resource.resource_name.clone())) {
            true => describe(&core, &resource, detail),
            false => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "the request names this resource twice",
            )),
        };
        told(resource, described)
    });
    DescribeConfigsResponse {
        throttle_time_ms: 0,
        results: results.collect(),
    }
}

fn told(
    resource: DescribeConfigsResource,
    described: Result<Vec<DescribeConfigsResourceResult>, Refusal>,
) -> DescribeConfigsResult {
    let (error_code, error_message, configs) = match described {
        Ok(configs) => (ErrorCode::None, None, configs),
        Err(refusal) => (refusal.code, refusal.text(), Vec::new()),
    };
    DescribeConfigsResult {
        error_code: error_code.code(),
        error_message,
        resource_type: resource.resource_type,
        resource_name: resource.resource_name,
        configs,
    }
}

fn describe(
    core: &Core,
    resource: &DescribeConfigsResource,
    detail: Detail,
) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
    let mut configs = match resource.resource_type {
        TOPIC => core.with_metadata(|metadata| describe_topic(metadata, &resource.resource_name, detail))?,
        BROKER => describe_node(core, &resource.resource_name, detail)?,
        other => {
            let message =
                format!("resource type {other} is not served; topics ({TOPIC}) and brokers ({BROKER}) are");
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
    };
    // No keys at all is how some clients say "all".
    if let Some(keys) = resource
        .configuration_keys
        .as_ref()
        .filter(|keys| !keys.is_empty())
    {
        let keys: HashSet<&Text> = keys.iter().collect();
        configs.retain(|config| keys.contains(&config.name));
    }
    Ok(configs)
}

fn describe_topic(
    metadata: &Metadata,
    name: &str,
    detail: Detail,
) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
    check_topic_name(name).map_err(ApplyError::from)?;
    let topic = metadata
        .topic_named(name)
        .ok_or_else(|| Refusal::new(ErrorCode::UnknownTopicOrPartition, "there is no such topic"))?;
    let entries = topic.config.describe(metadata.defaults());
    Ok(entries
        .map(|entry| topic_config(metadata, topic, entry, detail))
        .collect())
}

fn topic_config(
    metadata: &Metadata,
    topic: &Topic,
    entry: ConfigEntry,
    detail: Detail,
) -> DescribeConfigsResourceResult {
    let name = Text::from_static(entry.config.name);
    DescribeConfigsResourceResult {
        value: Some(Text::from(&*entry.value)),
        read_only: false,
        config_source: source_code(entry.source),
        is_sensitive: false,
        synonyms: if detail.synonyms {
            synonyms(metadata, topic, &entry)
        } else {
            Vec::new()
        },
        config_type: match entry.config.kind {
            ConfigKind::String => STRING,
            ConfigKind::Int => INT,
            ConfigKind::Long => LONG,
            ConfigKind::Double => DOUBLE,
            ConfigKind::List => LIST,
        },
        documentation: detail
            .documentation
            .then(|| Text::from_static(entry.config.documentation)),
        name,
    }
}

/// Every value that the config has somewhere, the one in force first.
fn synonyms(metadata: &Metadata, topic: &Topic, entry: &ConfigEntry) -> Vec<DescribeConfigsSynonym> {
    let name = entry.config.name;
    let synonym = |name: Text, value: &str, source| DescribeConfigsSynonym {
        name,
        value: Some(Text::from(value)),
        source: source_code(source),
    };
    let own = topic
        .config
        .get(name)
        .map(|value| synonym(Text::from_static(name), value, ConfigSource::Topic));
    let cluster = metadata.defaults().get(name);
    let cluster = cluster.map(|value| {
        synonym(
            Text::from(format!("topics.defaults.{name}")),
            value,
            ConfigSource::Cluster,
        )
    });
    let built_in = synonym(
        Text::from_static(name),
        entry.config.default,
        ConfigSource::Default,
    );
    own.into_iter().chain(cluster).chain([built_in]).collect()
}

/// What this node was started with. Changed in its configuration, not through clients.
fn describe_node(
    core: &Core,
    id: &str,
    detail: Detail,
) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
    let own = core.facts.node.0;
    if !id.is_empty() && id != own.to_string() {
        let message = format!("this is broker {own}; ask broker {id:?} itself");
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    Ok(core
        .facts
        .config
        .describe()
        .into_iter()
        .map(|key| node_config(key, detail))
        .collect())
}

fn node_config(described: KeyDescription, detail: Detail) -> DescribeConfigsResourceResult {
    let name = Text::from(described.key);
    let source = match described.source {
        Source::Default => DEFAULT_CONFIG,
        _ => STATIC_BROKER_CONFIG,
    };
    let synonym = |value: &str, source| DescribeConfigsSynonym {
        name: name.clone(),
        value: Some(Text::from(value)),
        source,
    };
    let synonyms = match (detail.synonyms, source) {
        (false, _) => Vec::new(),
        (true, DEFAULT_CONFIG) => vec![synonym(&described.default, DEFAULT_CONFIG)],
        (true, _) => vec![
            synonym(&described.value, source),
            synonym(&described.default, DEFAULT_CONFIG),
        ],
    };
    DescribeConfigsResourceResult {
        value: Some(Text::from(described.value)),
        read_only: true,
        config_source: source,
        is_sensitive: false,
        synonyms,
        config_type: match described.kind {
            KeyKind::Switch => BOOLEAN,
            KeyKind::Number => LONG,
            // Sizes and times are written with their units.
            KeyKind::Text | KeyKind::Bytes | KeyKind::Duration => STRING,
        },
        documentation: detail
            .documentation
            .then(|| Text::from_static(described.documentation)),
        name,
    }
}
