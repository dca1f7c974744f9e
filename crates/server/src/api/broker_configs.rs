//! A broker's configs as DescribeConfigs tells them: the node's own keys, which only a restart changes; the same under Kafka's
//! names, for tools that look for these; and what clients change while it runs.

use kafka_wire::Text;
use kafka_wire::describe_configs::{DescribeConfigsResourceResult, DescribeConfigsSynonym};
use protocol::NodeId;
use protocol::metadata::{ConfigSource, ConfigValue, INTERNAL_REPLICAS, KnownBrokerConfig, Metadata};

use super::config_resource::{BOOLEAN, INT, LIST, LONG, SHORT, STRING, source_code, type_code};
use super::describe_configs::{Detail, started_name};
use crate::config::{KeyDescription, KeyKind, Source, kafka_names, key_of};
use crate::core::Core;

/// A config of Kafka's brokers that has one value here, which nothing changes: for tools that read it.
struct Given<'a> {
    name: &'static str,
    value: &'a str,
    kind: i8,
    documentation: &'static str,
}

/// The replicas of a new topic, which the nodes decide, and of that of the groups.
const DEFAULT_REPLICAS: [Given<'static>; 2] = [
    given(
        "default.replication.factor",
        "1",
        INT,
        "cluster.default_replicas, or as many as there are nodes that others reach (peer.listen).",
    ),
    given(
        "offsets.topic.replication.factor",
        "1",
        SHORT,
        "Three, or as many as there are nodes that others reach; it grows as nodes come.",
    ),
];

const GIVEN: &[Given<'static>] = &[
    given(
        "controlled.shutdown.enable",
        "true",
        BOOLEAN,
        "A node that stops answers what is under way; see shutdown.deadline.",
    ),
    given("delete.topic.enable", "true", BOOLEAN, "Topics can be deleted."),
    given(
        "log.cleaner.enable",
        "true",
        BOOLEAN,
        "Topics whose cleanup.policy says so are compacted.",
    ),
    given(
        "process.roles",
        "broker,controller",
        LIST,
        "A node may have a vote about the metadata.",
    ),
    given(
        "security.inter.broker.protocol",
        "PLAINTEXT",
        STRING,
        "There is one listener, without TLS.",
    ),
];

const fn given(
    name: &'static str,
    value: &'static str,
    kind: i8,
    documentation: &'static str,
) -> Given<'static> {
    Given {
        name,
        value,
        kind,
        documentation,
    }
}

/// The value of a config of Kafka's that nothing changes here.
pub(super) fn given_value(name: &str) -> Option<&'static str> {
    let of_replicas = DEFAULT_REPLICAS.iter().position(|given| given.name == name);
    if let Some(index) = of_replicas {
        return Some(
            [
                "cluster.default_replicas, or the number of nodes that others reach,",
                "3, or the number of nodes that others reach,",
            ][index],
        );
    }
    let found = GIVEN.iter().find(|given| given.name == name);
    found.map(|given| given.value)
}

/// The configs that are set for all brokers.
pub(super) fn of_all(metadata: &Metadata, detail: Detail) -> Vec<DescribeConfigsResourceResult> {
    let set = KnownBrokerConfig::all().filter_map(|known| {
        let values = metadata.broker_config_values(None, known);
        let in_force = values.first()?;
        // Values that this node was started with are not those of all.
        (in_force.source == ConfigSource::AllBrokers).then(|| changeable(known, &values, detail))
    });
    set.collect()
}

/// Everything that is in force on this node.
pub(super) fn of_node(core: &Core, detail: Detail) -> Vec<DescribeConfigsResourceResult> {
    let keys = core.facts.config.describe();
    let of_clients = core.with_metadata(|metadata| {
        let configs = KnownBrokerConfig::all().map(|known| {
            let values = values(metadata, core.facts.node, known, &keys);
            changeable(known, &values, detail)
        });
        configs.collect::<Vec<_>>()
    });
    let own = keys.iter().map(|key| node_config(key, detail));
    let under_kafkas_names = keys.iter().flat_map(|key| {
        let fixed = kafka_names(&key.key).filter(|name| KnownBrokerConfig::find(name).is_err());
        fixed.map(move |name| kafka_config(name, key, detail))
    });
    let replicas = [core.facts.config.cluster.default_replicas, INTERNAL_REPLICAS];
    let replicas = core
        .with_metadata(|metadata| replicas.map(|wanted| metadata.default_replicas(&[], wanted).to_string()));
    let given_by_cluster = [0, 1].map(|index| Given {
        value: &replicas[index],
        ..DEFAULT_REPLICAS[index]
    });
    let given = GIVEN.iter().chain(&given_by_cluster);
    let given = given.map(|given| given_config(given, detail));
    let all = own.chain(under_kafkas_names).chain(given);
    all.chain(of_clients).collect()
}

/// The values that a changeable config has for this node, the one in force first and the built-in one last.
fn values(
    metadata: &Metadata,
    node: NodeId,
    known: KnownBrokerConfig,
    keys: &[KeyDescription],
) -> Vec<ConfigValue> {
    let mut values = metadata.broker_config_values(Some(node), known);
    if known.topic_config.is_none() {
        let key = key_of(known.name).and_then(|key| keys.iter().find(|found| found.key == key));
        let started = key.filter(|key| key.source != Source::Default);
        values.extend(started.map(|key| ConfigValue {
            source: ConfigSource::Started,
            value: key.value.as_str().into(),
        }));
    }
    values.push(ConfigValue {
        source: ConfigSource::Default,
        value: known.rules.default.into(),
    });
    values
}

fn changeable(
    known: KnownBrokerConfig,
    values: &[ConfigValue],
    detail: Detail,
) -> DescribeConfigsResourceResult {
    let in_force = values.first().expect("the caller brings one");
    let synonym = |value: &ConfigValue| DescribeConfigsSynonym {
        name: match (value.source, known.topic_config) {
            (ConfigSource::Started, Some(topic_config)) => started_name(topic_config),
            (ConfigSource::Started, None) => Text::from(key_of(known.name).unwrap_or_default()),
            _ => Text::from_static(known.name),
        },
        value: Some(Text::from(&*value.value)),
        source: source_code(value.source),
    };
    DescribeConfigsResourceResult {
        name: Text::from_static(known.name),
        value: Some(Text::from(&*in_force.value)),
        read_only: false,
        config_source: source_code(in_force.source),
        is_sensitive: false,
        synonyms: match detail.synonyms {
            true => values.iter().map(synonym).collect(),
            false => Vec::new(),
        },
        config_type: type_code(known.rules.kind),
        documentation: detail
            .documentation
            .then(|| Text::from_static(known.rules.documentation)),
    }
}

/// A config that this node was started with. Changed in its configuration, not through clients.
fn node_config(described: &KeyDescription, detail: Detail) -> DescribeConfigsResourceResult {
    let name = Text::from(described.key.as_str());
    let source = match described.source {
        Source::Default => ConfigSource::Default,
        _ => ConfigSource::Started,
    };
    let synonym = |value: &str, source| DescribeConfigsSynonym {
        name: name.clone(),
        value: Some(Text::from(value)),
        source: source_code(source),
    };
    let started = (source == ConfigSource::Started).then(|| synonym(&described.value, source));
    let built_in = synonym(&described.default, ConfigSource::Default);
    let synonyms = started.into_iter().chain([built_in]);
    DescribeConfigsResourceResult {
        value: Some(Text::from(described.value.as_str())),
        read_only: true,
        config_source: source_code(source),
        is_sensitive: false,
        synonyms: synonyms.filter(|_| detail.synonyms).collect(),
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

fn given_config(given: &Given, detail: Detail) -> DescribeConfigsResourceResult {
    let built_in = DescribeConfigsSynonym {
        name: Text::from_static(given.name),
        value: Some(Text::from(given.value)),
        source: source_code(ConfigSource::Default),
    };
    DescribeConfigsResourceResult {
        name: Text::from_static(given.name),
        value: Some(Text::from(given.value)),
        read_only: true,
        config_source: source_code(ConfigSource::Default),
        is_sensitive: false,
        synonyms: Some(built_in).filter(|_| detail.synonyms).into_iter().collect(),
        config_type: given.kind,
        documentation: detail
            .documentation
            .then(|| Text::from_static(given.documentation)),
    }
}

/// The same under Kafka's name for it and in Kafka's unit. What it was started with keeps the key's own name among the
/// synonyms: that is what to change.
fn kafka_config(
    name: &'static str,
    described: &KeyDescription,
    detail: Detail,
) -> DescribeConfigsResourceResult {
    let mut config = node_config(described, detail);
    config.name = Text::from_static(name);
    config.value = described.kafka_value(name, &described.value).map(Text::from);
    if let Some(built_in) = config.synonyms.last_mut() {
        built_in.name = Text::from_static(name);
        built_in.value = described.kafka_value(name, &described.default).map(Text::from);
    }
    if matches!(described.kind, KeyKind::Bytes | KeyKind::Duration) {
        config.config_type = LONG;
    }
    config
}
