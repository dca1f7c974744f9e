//! DescribeConfigs: the configs in force for a topic or a broker, and where each value comes from.

use std::collections::HashSet;
use std::rc::Rc;

use kafka_wire::describe_configs::{
    DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_wire::{DescribeConfigsRequest, DescribeConfigsResponse, ErrorCode, Text};
use protocol::metadata::topic_config::{KNOWN, KnownConfig};
use protocol::metadata::{ConfigSource, ConfigTarget, ConfigValue, KnownBrokerConfig, Metadata, TopicConfig};
use record::TopicId;

use super::broker_configs;
use super::config_resource::{source_code, target, type_code};
use super::topic_change::Refusal;
use crate::core::Core;

/// One answer takes no more than this part of the room for all of them (`limits.answer_bytes_per_core`), but for what is told
/// of one resource.
const ANSWER_SHARE: usize = 4;

/// What a request wants told beside names and values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detail {
    pub(super) synonyms: bool,
    pub(super) documentation: bool,
}

pub(crate) async fn handle(
    core: Rc<Core>,
    request: DescribeConfigsRequest,
    _version: i16,
) -> DescribeConfigsResponse {
    let detail = Detail {
        synonyms: request.include_synonyms,
        documentation: request.include_documentation,
    };
    let mut seen = HashSet::new();
    let mut room_bytes = core.facts.config.limits.answer_bytes_per_core / ANSWER_SHARE;
    let results = request.resources.into_iter().map(|resource| {
        // Naming one resource a million times must not multiply the answer.
        let described = match seen.insert((resource.resource_type, resource.resource_name.clone())) {
            true if room_bytes == 0 => Err(Refusal::new(
                ErrorCode::PolicyViolation,
                "the answer would be too large; ask for fewer resources, or for less of them",
            )),
            true => describe(&core, &resource, detail),
            false => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "the request names this resource twice",
            )),
        };
        let taken: usize = described.iter().flatten().map(taken_bytes).sum();
        room_bytes = room_bytes.saturating_sub(taken);
        told(resource, described)
    });
    DescribeConfigsResponse {
        throttle_time_ms: 0,
        results: results.collect(),
    }
}

/// What an answer takes for one config, about.
fn taken_bytes(config: &DescribeConfigsResourceResult) -> usize {
    let text = |text: &Option<Text>| text.as_ref().map_or(0, |text| text.as_bytes().len());
    let synonyms = config.synonyms.iter();
    let synonyms = synonyms.map(|synonym| size_of_val(synonym) + text(&synonym.value));
    size_of_val(config) + text(&config.value) + text(&config.documentation) + synonyms.sum::<usize>()
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
    let target = target(core, resource.resource_type, &resource.resource_name)?;
    let mut configs = match target {
        ConfigTarget::Topic(id) => core.with_metadata(|metadata| describe_topic(metadata, id, detail))?,
        ConfigTarget::AllBrokers => core.with_metadata(|metadata| broker_configs::of_all(metadata, detail)),
        ConfigTarget::Broker(_) => broker_configs::of_node(core, detail),
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
    id: TopicId,
    detail: Detail,
) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
    let topic = metadata
        .topic(id)
        .ok_or_else(|| Refusal::new(ErrorCode::UnknownTopicOrPartition, "there is no such topic"))?;
    let configs = KNOWN.iter();
    Ok(configs
        .map(|config| topic_config(metadata, &topic.config, config, detail))
        .collect())
}

fn topic_config(
    metadata: &Metadata,
    own: &TopicConfig,
    config: &'static KnownConfig,
    detail: Detail,
) -> DescribeConfigsResourceResult {
    let values = metadata.topic_config_values(own, config);
    let in_force = values.first().expect("every config has a built-in value");
    DescribeConfigsResourceResult {
        name: Text::from_static(config.name),
        value: Some(Text::from(&*in_force.value)),
        read_only: false,
        config_source: source_code(in_force.source),
        is_sensitive: false,
        synonyms: match detail.synonyms {
            true => values.iter().map(|value| synonym(config, value)).collect(),
            false => Vec::new(),
        },
        config_type: type_code(config.kind),
        documentation: detail
            .documentation
            .then(|| Text::from_static(config.documentation)),
    }
}

/// A value with the name under which it was set.
fn synonym(config: &'static KnownConfig, value: &ConfigValue) -> DescribeConfigsSynonym {
    let of_brokers = || KnownBrokerConfig::of_topic_config(config.name).map(|known| known.name);
    DescribeConfigsSynonym {
        name: match value.source {
            ConfigSource::Topic | ConfigSource::Default => Text::from_static(config.name),
            ConfigSource::Started => started_name(config.name),
            ConfigSource::Broker | ConfigSource::AllBrokers => {
                Text::from_static(of_brokers().unwrap_or(config.name))
            }
        },
        value: Some(Text::from(&*value.value)),
        source: source_code(value.source),
    }
}

/// What a topic config is called in a node's configuration.
pub(super) fn started_name(topic_config: &str) -> Text {
    Text::from(format!("topics.defaults.{topic_config}"))
}
