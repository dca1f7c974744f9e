//! Configs over the wire: told, changed one by one, or replaced as a whole.

use kafka_wire::describe_configs::{DescribeConfigsResource, DescribeConfigsResourceResult};
use kafka_wire::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use kafka_wire::{
    AlterConfigsRequest, DescribeConfigsRequest, ErrorCode, IncrementalAlterConfigsRequest, alter_configs,
};

use super::code;
use crate::support::Wire;

// Resources that have configs.
pub(crate) const TOPIC: i8 = 2;
pub(crate) const BROKER: i8 = 4;
pub(crate) const GROUP: i8 = 32;
// Operations on a config.
pub(crate) const SET: i8 = 0;
pub(crate) const DELETE: i8 = 1;
pub(crate) const APPEND: i8 = 2;
pub(crate) const SUBTRACT: i8 = 3;

/// A question for all configs of a resource.
pub(crate) fn all_of(resource_type: i8, name: &str) -> DescribeConfigsResource {
    DescribeConfigsResource {
        resource_type,
        resource_name: name.into(),
        configuration_keys: None,
    }
}

pub(crate) fn described(
    wire: &mut Wire,
    resource_type: i8,
    name: &str,
) -> Vec<DescribeConfigsResourceResult> {
    let request = DescribeConfigsRequest {
        resources: vec![all_of(resource_type, name)],
        include_synonyms: true,
        include_documentation: false,
    };
    wire.call(4, &request).results.remove(0).configs
}

/// Value and source of a config, and the names and sources of its synonyms.
pub(crate) fn told(
    wire: &mut Wire,
    resource_type: i8,
    name: &str,
    config: &str,
) -> (String, i8, Vec<(String, i8)>) {
    let configs = described(wire, resource_type, name);
    let found = configs
        .iter()
        .find(|found| found.name == config)
        .expect("it is told");
    let synonyms = found.synonyms.iter();
    (
        found.value.as_deref().unwrap_or_default().to_owned(),
        found.config_source,
        synonyms
            .map(|synonym| (synonym.name.to_string(), synonym.source))
            .collect(),
    )
}

pub(crate) fn edit(name: &str, config_operation: i8, value: Option<&str>) -> AlterableConfig {
    AlterableConfig {
        name: name.into(),
        config_operation,
        value: value.map(Into::into),
    }
}

pub(crate) fn edits(resource_type: i8, name: &str, configs: Vec<AlterableConfig>) -> AlterConfigsResource {
    AlterConfigsResource {
        resource_type,
        resource_name: name.into(),
        configs,
    }
}

/// Codes and messages, by resource.
pub(crate) fn alter(wire: &mut Wire, resources: Vec<AlterConfigsResource>) -> Vec<(ErrorCode, String)> {
    let request = IncrementalAlterConfigsRequest {
        resources,
        validate_only: false,
    };
    let told = wire.call(1, &request).responses.into_iter();
    told.map(|told| {
        let message = told.error_message.as_deref().map(str::to_owned);
        (code(told.error_code), message.unwrap_or_default())
    })
    .collect()
}

/// The answer to a change of one config.
pub(crate) fn change(wire: &mut Wire, resource_type: i8, name: &str, change: AlterableConfig) -> ErrorCode {
    alter(wire, vec![edits(resource_type, name, vec![change])])[0].0
}

/// Sets one config, which has to work.
pub(crate) fn set(wire: &mut Wire, resource_type: i8, name: &str, config: &str, value: &str) {
    let change = edits(resource_type, name, vec![edit(config, SET, Some(value))]);
    let told = alter(wire, vec![change]);
    assert_eq!(told[0].0, ErrorCode::None, "{}", told[0].1);
}

/// These configs and no others from now on.
pub(crate) fn replacement(
    resource_type: i8,
    name: &str,
    configs: &[(&str, Option<&str>)],
) -> AlterConfigsRequest {
    let config = |(name, value): &(&str, Option<&str>)| alter_configs::AlterableConfig {
        name: (*name).into(),
        value: value.map(Into::into),
    };
    AlterConfigsRequest {
        resources: vec![alter_configs::AlterConfigsResource {
            resource_type,
            resource_name: name.into(),
            configs: configs.iter().map(config).collect(),
        }],
        validate_only: false,
    }
}
