//! A group's configs as DescribeConfigs tells them: its own values, then what the node was started with, then what is built in.

use std::time::Duration;

use kafka_wire::Text;
use kafka_wire::describe_configs::{DescribeConfigsResourceResult, DescribeConfigsSynonym};
use protocol::metadata::group_config::SESSION_TIMEOUT;
use protocol::metadata::topic_config::KnownConfig;
use protocol::metadata::{ConfigSource, GROUP_CONFIGS};

use super::config_resource::{source_code, type_code};
use super::describe_configs::Detail;
use crate::core::Core;

/// Every config of a group, whether the group is there or not.
pub(super) fn of_group(core: &Core, group: &str, detail: Detail) -> Vec<DescribeConfigsResourceResult> {
    let configs = GROUP_CONFIGS.iter();
    configs
        .map(|known| describe(core, group, known, detail))
        .collect()
}

fn describe(
    core: &Core,
    group: &str,
    known: &'static KnownConfig,
    detail: Detail,
) -> DescribeConfigsResourceResult {
    let own = core.with_metadata(|metadata| metadata.group_config(group)?.get(known.name).cloned());
    let own = own.map(|value| value_of(ConfigSource::Group, known.name, Text::from(&*value)));
    let (key, started) = started(core, known.name);
    let started = Text::from(started.as_millis().to_string());
    let started = (started.as_str() != known.default).then(|| value_of(ConfigSource::Started, key, started));
    let built_in = value_of(ConfigSource::Default, key, Text::from_static(known.default));
    let values: Vec<_> = own.into_iter().chain(started).chain([built_in]).collect();
    let in_force = values.first().expect("every config has a built-in value");
    DescribeConfigsResourceResult {
        name: Text::from_static(known.name),
        value: in_force.value.clone(),
        read_only: false,
        config_source: in_force.source,
        is_sensitive: false,
        config_type: type_code(known.kind),
        documentation: detail
            .documentation
            .then(|| Text::from_static(known.documentation)),
        synonyms: match detail.synonyms {
            true => values,
            false => Vec::new(),
        },
    }
}

/// The key of the node's configuration that goes where a group has no value, and its value.
fn started(core: &Core, name: &str) -> (&'static str, Duration) {
    let groups = &core.facts.config.groups;
    match name {
        SESSION_TIMEOUT => ("groups.consumer_session_timeout", groups.consumer_session_timeout),
        _ => (
            "groups.consumer_heartbeat_interval",
            groups.consumer_heartbeat_interval,
        ),
    }
}

fn value_of(source: ConfigSource, name: &'static str, value: Text) -> DescribeConfigsSynonym {
    DescribeConfigsSynonym {
        name: Text::from_static(name),
        value: Some(value),
        source: source_code(source),
    }
}
