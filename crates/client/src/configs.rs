//! Reading and changing the configs of topics and nodes.

use kafka_wire::describe_configs::{DescribeConfigsResource, DescribeConfigsResourceResult};
use kafka_wire::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use kafka_wire::{DescribeConfigsRequest, IncrementalAlterConfigsRequest, Request, Text};

use crate::cluster::Cluster;
use crate::error::{Result, succeeded};

/// Kafka's numbers for what has configs.
const TOPIC_RESOURCE: i8 = 2;
const BROKER_RESOURCE: i8 = 4;
const GROUP_RESOURCE: i8 = 32;
/// Kafka's numbers for what is done to one config.
const SET_OPERATION: i8 = 0;
const DELETE_OPERATION: i8 = 1;

/// A resource that has configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigResource {
    /// The topic of this name.
    Topic(String),
    /// The group of this name, which need not be there.
    Group(String),
    /// The node of this number.
    Node(i32),
    /// Every node that has no value of its own.
    AllNodes,
}

impl ConfigResource {
    /// Its sort and its name in requests.
    fn named(&self) -> (i8, Text) {
        match self {
            ConfigResource::Topic(name) => (TOPIC_RESOURCE, Text::from(name.as_str())),
            ConfigResource::Group(name) => (GROUP_RESOURCE, Text::from(name.as_str())),
            ConfigResource::Node(id) => (BROKER_RESOURCE, Text::from(id.to_string())),
            ConfigResource::AllNodes => (BROKER_RESOURCE, Text::EMPTY),
        }
    }
}

impl std::fmt::Display for ConfigResource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConfigResource::Topic(name) => write!(out, "topic {name}"),
            ConfigResource::Group(name) => write!(out, "group {name}"),
            ConfigResource::Node(id) => write!(out, "node {id}"),
            ConfigResource::AllNodes => out.write_str("all nodes"),
        }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set on the topic.
    Topic,
    /// Set on the group.
    Group,
    /// Set for one node while it runs.
    Node,
    /// Set for all nodes while they run.
    AllNodes,
    /// In the configuration that the node was started with.
    Started,
    /// Built in, or a source that this client does not know.
    Default,
}

impl ConfigSource {
    fn of(code: i8) -> ConfigSource {
        match code {
            1 => ConfigSource::Topic,
            2 => ConfigSource::Node,
            3 => ConfigSource::AllNodes,
            4 => ConfigSource::Started,
            8 => ConfigSource::Group,
            _ => ConfigSource::Default,
        }
    }
}

/// One config as the broker has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` if there is none, or it is secret.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Says if it cannot be changed while the node runs.
    pub read_only: bool,
    /// Its meaning, if the broker tells.
    pub documentation: Option<String>,
}

impl ConfigEntry {
    /// Says if `resource`, whose config this is, sets it by itself.
    #[must_use]
    pub fn is_set(&self, resource: &ConfigResource) -> bool {
        let own = match resource {
            ConfigResource::Topic(_) => ConfigSource::Topic,
            ConfigResource::Group(_) => ConfigSource::Group,
            ConfigResource::Node(_) => ConfigSource::Node,
            ConfigResource::AllNodes => ConfigSource::AllNodes,
        };
        self.source == own
    }
}

impl From<&DescribeConfigsResourceResult> for ConfigEntry {
    fn from(config: &DescribeConfigsResourceResult) -> ConfigEntry {
        let documentation = config.documentation.as_ref();
        ConfigEntry {
            name: String::from(&config.name),
            value: config.value.as_ref().map(String::from),
            source: ConfigSource::of(config.config_source),
            read_only: config.read_only,
            documentation: documentation.filter(|text| !text.is_empty()).map(String::from),
        }
    }
}

/// A change of one config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// Its name.
    pub name: String,
    /// Its new value; `None` gives up the one it has.
    pub value: Option<String>,
}

impl Cluster {
    /// All configs of a topic or a node, in the broker's order; of all nodes, those that are set.
    ///
    /// # Errors
    /// `Broker`.
    pub fn configs(&mut self, resource: &ConfigResource) -> Result<Vec<ConfigEntry>> {
        let (resource_type, resource_name) = resource.named();
        let request = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type,
                resource_name,
                configuration_keys: None,
            }],
            include_synonyms: false,
            include_documentation: true,
        };
        let response = match resource {
            ConfigResource::Node(id) => self.call_node(*id, &request)?,
            _ => self.call(&request)?,
        };
        let answer = response.results.first();
        let outcome = answer.map(|result| (result.error_code, result.error_message.as_ref()));
        succeeded(format!("describing {resource}"), outcome)?;
        let entries = answer.map(|result| result.configs.as_slice()).unwrap_or_default();
        Ok(entries.iter().map(ConfigEntry::from).collect())
    }

    /// Makes all changes or none. With `validate_only` it only says whether they could be made.
    ///
    /// # Errors
    /// `Broker`, with `InvalidConfig` if there is no such config or value, and `InvalidRequest` if it cannot change while the
    /// node runs.
    pub fn change_configs(
        &mut self,
        resource: &ConfigResource,
        changes: &[ConfigChange],
        validate_only: bool,
    ) -> Result<()> {
        let (resource_type, resource_name) = resource.named();
        let change = |change: &ConfigChange| AlterableConfig {
            name: Text::from(change.name.as_str()),
            config_operation: match change.value {
                Some(_) => SET_OPERATION,
                None => DELETE_OPERATION,
            },
            value: change.value.as_deref().map(Text::from),
        };
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type,
                resource_name,
                configs: changes.iter().map(change).collect(),
            }],
            validate_only,
        };
        let response = match resource {
            ConfigResource::Node(id) => self.call_node(*id, &request)?,
            _ => self.call_controller(&request)?,
        };
        let answer = response.responses.first();
        let outcome = answer.map(|result| (result.error_code, result.error_message.as_ref()));
        let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
        succeeded(format!("changing {} of {resource}", names.join(", ")), outcome)
    }

    /// A node answers for its own configs only.
    fn call_node<R: Request>(&mut self, node_id: i32, request: &R) -> Result<R::Response> {
        self.metadata(Some(&[]))?;
        self.call_broker(node_id, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_is_set_where_its_value_comes_from() {
        let resources = [
            (ConfigResource::Topic("orders".to_owned()), ConfigSource::Topic),
            (ConfigResource::Group("readers".to_owned()), ConfigSource::Group),
            (ConfigResource::Node(1), ConfigSource::Node),
            (ConfigResource::AllNodes, ConfigSource::AllNodes),
        ];
        let sources = [1, 2, 3, 4, 5, 8].map(ConfigSource::of);
        for (resource, own) in &resources {
            for source in sources {
                let config = ConfigEntry {
                    name: "retention.ms".to_owned(),
                    value: Some("1".to_owned()),
                    source,
                    read_only: false,
                    documentation: None,
                };
                assert_eq!(config.is_set(resource), source == *own, "{resource}: {source:?}");
            }
        }
    }
}
