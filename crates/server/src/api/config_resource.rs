//! Kafka's numbers around configs: what has some, where a value comes from, of what type it is.

use std::sync::Arc;

use kafka_wire::ErrorCode;
use protocol::ApplyError;
use protocol::metadata::topic_config::ConfigKind;
use protocol::metadata::{ConfigSource, ConfigTarget, check_topic_name};

use super::topic_change::Refusal;
use crate::core::Core;

/// A topic, by its name.
pub(crate) const TOPIC: i8 = 2;
/// A broker, by its number; without a name, all of them.
pub(crate) const BROKER: i8 = 4;
/// A group, by its name; it need not be there.
pub(crate) const GROUP: i8 = 32;
/// Sorts that Kafka knows and of which there are none here: loggers of brokers, subscriptions to metrics.
pub(super) const NOT_SERVED: [i8; 2] = [8, 16];

/// Types of values.
pub(super) const BOOLEAN: i8 = 1;
pub(super) const STRING: i8 = 2;
pub(super) const INT: i8 = 3;
pub(super) const SHORT: i8 = 4;
pub(super) const LONG: i8 = 5;
pub(super) const DOUBLE: i8 = 6;
pub(super) const LIST: i8 = 7;

/// A value's type as Kafka numbers it.
pub(super) fn type_code(kind: ConfigKind) -> i8 {
    match kind {
        ConfigKind::Boolean => BOOLEAN,
        ConfigKind::String => STRING,
        ConfigKind::Int => INT,
        ConfigKind::Long => LONG,
        ConfigKind::Double => DOUBLE,
        ConfigKind::List => LIST,
    }
}

/// A value's source as Kafka numbers it.
pub(crate) fn source_code(source: ConfigSource) -> i8 {
    match source {
        ConfigSource::Topic => 1,
        ConfigSource::Broker => 2,
        ConfigSource::AllBrokers => 3,
        ConfigSource::Started => 4,
        ConfigSource::Default => 5,
        ConfigSource::Group => 8,
    }
}

/// A resource that has configs.
pub(super) enum Resource {
    /// A topic or brokers, which must be there.
    Known(ConfigTarget),
    /// A group's name.
    Group(Arc<str>),
}

/// The resource that a request means.
///
/// # Errors
/// There is none of that sort or name; a sentence says what there is.
pub(super) fn resource(core: &Core, resource_type: i8, name: &str) -> Result<Resource, Refusal> {
    match resource_type {
        TOPIC => topic(core, name).map(Resource::Known),
        BROKER if name.is_empty() => Ok(Resource::Known(ConfigTarget::AllBrokers)),
        BROKER => broker(core, name).map(Resource::Known),
        GROUP if name.is_empty() => {
            let message = "Default group resources are not allowed.";
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
        GROUP => Ok(Resource::Group(name.into())),
        other => {
            let message = format!(
                "resource type {other} is not served; topics ({TOPIC}), brokers ({BROKER}) and groups ({GROUP}) are"
            );
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
    }
}

fn topic(core: &Core, name: &str) -> Result<ConfigTarget, Refusal> {
    check_topic_name(name).map_err(ApplyError::from)?;
    core.with_metadata(|metadata| {
        metadata
            .topic_named(name)
            .map(|topic| ConfigTarget::Topic(topic.id))
    })
    .ok_or_else(|| Refusal::unknown_topic(name))
}

fn broker(core: &Core, name: &str) -> Result<ConfigTarget, Refusal> {
    let own = core.facts.node;
    match name == own.0.to_string() {
        true => Ok(ConfigTarget::Broker(own)),
        false => {
            let message = format!("this is node {}; ask node {name:?} at its own address", own.0);
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
    }
}
