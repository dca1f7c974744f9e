//! DescribeConfigs: the configs in force for a topic, a broker or a group, and where each value comes from.
//!
//! A short request may have a long answer. One resource is always told. More take room for what is told of them, and wait
//! for some before they begin; what finds none beside the others is refused with an error at which clients ask again.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kafka_wire::describe_configs::{
    DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_wire::{DescribeConfigsRequest, DescribeConfigsResponse, ErrorCode, Text};
use platform::slices::Slices;
use protocol::metadata::topic_config::{KNOWN, KnownConfig};
use protocol::metadata::{ConfigSource, ConfigTarget, ConfigValue, KnownBrokerConfig, Metadata, TopicConfig};
use record::TopicId;

use super::Envelope;
use super::broker_configs;
use super::config_resource::{Resource, resource, source_code, type_code};
use super::group_configs;
use super::topic_change::Refusal;
use crate::core::Core;
use crate::groups::own_config;
use crate::long::Long;

/// Bytes that a result, a config and a synonym take in the frame beside their texts, at most.
const FRAMED_BYTES: usize = 32;

/// Work that is done before others have their turn: to look up a key is one, to tell of a resource is more.
const WORK_IN_ONE_TURN: usize = 5_000;
const WORK_OF_A_RESOURCE: usize = 50;

/// The details that a request wants beside names and values.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detail {
    pub(super) synonyms: bool,
    pub(super) documentation: bool,
}

pub(crate) async fn handle(
    core: Rc<Core>,
    request: DescribeConfigsRequest,
    Envelope { room, .. }: Envelope,
) -> (DescribeConfigsResponse, usize) {
    let resources = Long::of(&core, request.resources, &room);
    let detail = Detail {
        synonyms: request.include_synonyms,
        documentation: request.include_documentation,
    };
    // One answer about many grows at a time, and only while there is room.
    let mut turn = None;
    while resources.len() > 1 && turn.is_none() {
        core.answers.room().await;
        turn = Some(core.answers.turn().await).filter(|_| !core.answers.is_used_up());
    }
    // Until the response is there; whoever writes it holds what its frame takes from then on.
    let mut held = core.answers.hold(0);
    let mut slices = Slices::of(WORK_IN_ONE_TURN);
    let mut results = Long::with_capacity(&core, resources.len());
    let count = resources.len();
    let (resources, firsts) = resources.look(count, firsts).await;
    for (resource, is_first) in resources.iter().zip(firsts) {
        let described = match is_first {
            true if held.bytes() > 0 && core.answers.is_used_up() => Err(Refusal::new(
                ErrorCode::ThrottlingQuotaExceeded,
                "this answer has no room for more now; ask again for the rest, or for less of each",
            )),
            true => describe(&core, resource, detail, &mut slices).await,
            false => Err(Refusal::new(
                ErrorCode::InvalidRequest,
                "Each resource must appear at most once.",
            )),
        };
        let result = told(resource, described);
        held.grow(taken_bytes(&result));
        results.push(result);
        slices.did(WORK_OF_A_RESOURCE).await;
    }
    let response = DescribeConfigsResponse {
        throttle_time_ms: 0,
        results: results.take(),
    };
    (response, held.bytes())
}

/// Says of each resource whether it is named for the first time: naming one a million times must not multiply the answer.
fn firsts(resources: &[DescribeConfigsResource]) -> Vec<bool> {
    let mut seen = BTreeSet::new();
    let keys = resources
        .iter()
        .map(|resource| (resource.resource_type, &resource.resource_name));
    keys.map(|key| seen.insert(key)).collect()
}

/// Bytes that a resource takes: as it is told, and in the frame.
fn taken_bytes(result: &DescribeConfigsResult) -> usize {
    let optional = |text: &Option<Text>| text.as_ref().map_or(0, |text| 2 * text.as_bytes().len());
    let of_synonym = |synonym: &DescribeConfigsSynonym| {
        size_of_val(synonym) + FRAMED_BYTES + 2 * synonym.name.as_bytes().len() + optional(&synonym.value)
    };
    let of_config = |config: &DescribeConfigsResourceResult| {
        size_of_val(config)
            + FRAMED_BYTES
            + 2 * config.name.as_bytes().len()
            + optional(&config.value)
            + optional(&config.documentation)
            + config.synonyms.iter().map(of_synonym).sum::<usize>()
    };
    size_of_val(result)
        + FRAMED_BYTES
        + 2 * result.resource_name.as_bytes().len()
        + optional(&result.error_message)
        + result.configs.iter().map(of_config).sum::<usize>()
}

fn told(
    resource: &DescribeConfigsResource,
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
        resource_name: resource.resource_name.clone(),
        configs,
    }
}

async fn describe(
    core: &Core,
    wanted: &DescribeConfigsResource,
    detail: Detail,
    slices: &mut Slices,
) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
    let mut configs = match resource(core, wanted.resource_type, &wanted.resource_name)? {
        Resource::Known(ConfigTarget::Topic(id)) => {
            core.with_metadata(|metadata| describe_topic(metadata, id, detail))?
        }
        Resource::Known(ConfigTarget::AllBrokers) => {
            core.with_metadata(|metadata| broker_configs::of_all(metadata, detail))
        }
        Resource::Known(ConfigTarget::Broker(_)) => broker_configs::of_node(core, detail),
        Resource::Group(group) => group_configs::of_group(core, &group, detail),
    };
    // No keys at all is how some clients say "all".
    if let Some(keys) = wanted.configuration_keys.as_ref().filter(|keys| !keys.is_empty()) {
        let names = configs.iter().map(|config| (config.name.clone(), false));
        let mut is_named: BTreeMap<Text, bool> = names.collect();
        for key in keys {
            is_named.get_mut(key).into_iter().for_each(|named| *named = true);
            slices.did(1).await;
        }
        configs.retain(|config| is_named[&config.name]);
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
        .ok_or_else(|| Refusal::unknown_topic(&id.to_string()))?;
    let own = own_config(topic);
    let configs = KNOWN.iter();
    Ok(configs
        .map(|config| topic_config(metadata, &own, config, detail))
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
    let of_brokers = || {
        let known = KnownBrokerConfig::of_topic_config(config.name);
        Text::from_static(known.map_or(config.name, |known| known.name))
    };
    DescribeConfigsSynonym {
        name: match value.source {
            ConfigSource::Topic => Text::from_static(config.name),
            ConfigSource::Started => started_name(config.name),
            ConfigSource::Broker | ConfigSource::AllBrokers | ConfigSource::Default | ConfigSource::Group => {
                of_brokers()
            }
        },
        value: Some(Text::from(&*value.value)),
        source: source_code(value.source),
    }
}

/// The name of a topic config in a node's configuration.
pub(super) fn started_name(topic_config: &str) -> Text {
    Text::from(format!("topics.defaults.{topic_config}"))
}
