//! `ropewalk config get|set|unset`: configs of topics, groups and nodes, read and changed while the nodes run.
//!
//! Works on any broker that speaks Kafka's protocol. A command changes everything it names, or nothing.

use anyhow::Result;
use clap::{Args, Subcommand};
use client::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource};
use serde_json::{Value, json};

use crate::node_options::config_and_value;
use crate::output::{or_dash, table, tell};
use crate::remote::Remote;

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the configs of a topic, a group or a node that runs, and where their values come from
    #[command(after_help = "Examples:
  ropewalk config get --topic orders
  ropewalk config get --topic orders retention.ms --json
  ropewalk config get --node 1")]
    Get(GetArguments),
    /// Give configs of a topic, a group or a node a value, at once and without a restart
    #[command(after_help = "Examples:
  ropewalk config set --topic orders retention.ms=1h segment.bytes=16MiB
  ropewalk config set --topic orders cleanup.policy=compact --dry-run
  ropewalk config set --group billing consumer.session.timeout.ms=1m
  ropewalk config set --all-nodes log.retention.ms=1d")]
    Set(SetArguments),
    /// Give up values that were set, so that the defaults go again
    #[command(after_help = "Example:
  ropewalk config unset --topic orders retention.ms")]
    Unset(UnsetArguments),
}

#[derive(Args)]
pub(crate) struct GetArguments {
    #[command(flatten)]
    place: Place,
    /// Which configs; without a name, all of them
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

#[derive(Args)]
pub(crate) struct SetArguments {
    #[command(flatten)]
    place: Place,
    /// Configs to set, such as retention.ms=7d or segment.bytes=1GiB
    #[arg(value_name = "NAME=VALUE", required = true, value_parser = config_and_value)]
    values: Vec<(String, String)>,
    /// Say whether it could be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
pub(crate) struct UnsetArguments {
    #[command(flatten)]
    place: Place,
    /// Configs to give up
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Say whether it could be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// The resource whose configs are meant, and the node to ask.
#[derive(Args)]
struct Place {
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Of {
    /// The configs of this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// The configs of this group, whether it is there or not
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// The configs of the node of this number
    #[arg(long, value_name = "ID")]
    node: Option<i32>,
    /// The configs of every node that has none of its own
    #[arg(long)]
    all_nodes: bool,
}

impl Of {
    fn resource(&self) -> ConfigResource {
        match (&self.topic, &self.group, self.node) {
            (Some(topic), _, _) => ConfigResource::Topic(topic.clone()),
            (None, Some(group), _) => ConfigResource::Group(group.clone()),
            (None, None, Some(node)) => ConfigResource::Node(node),
            (None, None, None) => ConfigResource::AllNodes,
        }
    }

    /// The same as it stands on a command line.
    fn flag(&self) -> String {
        match self.resource() {
            ConfigResource::Topic(topic) => format!("--topic {topic}"),
            ConfigResource::Group(group) => format!("--group {group}"),
            ConfigResource::Node(node) => format!("--node {node}"),
            ConfigResource::AllNodes => "--all-nodes".to_owned(),
        }
    }
}

pub(crate) fn run(command: &ConfigCommand) -> Result<()> {
    match command {
        ConfigCommand::Get(arguments) => get(arguments),
        ConfigCommand::Set(arguments) => {
            let value = |(name, value): &(String, String)| ConfigChange {
                name: name.clone(),
                value: Some(value.clone()),
            };
            let changes: Vec<_> = arguments.values.iter().map(value).collect();
            change(&arguments.place, &changes, arguments.dry_run)
        }
        ConfigCommand::Unset(arguments) => {
            let none = |name: &String| ConfigChange {
                name: name.clone(),
                value: None,
            };
            let changes: Vec<_> = arguments.names.iter().map(none).collect();
            change(&arguments.place, &changes, arguments.dry_run)
        }
    }
}

fn get(arguments: &GetArguments) -> Result<()> {
    let place = &arguments.place;
    let resource = place.of.resource();
    let mut configs = place.remote.connect()?.configs(&resource)?;
    check_names(place, &configs, arguments.names.iter())?;
    if !arguments.names.is_empty() {
        configs.retain(|config| arguments.names.contains(&config.name));
    }
    let text = match configs.is_empty() {
        true => format!(
            "nothing is set for {resource}; `ropewalk config set {} NAME=VALUE` sets something",
            place.of.flag()
        ),
        false => config_table(&configs),
    };
    let json = configs.iter().map(|config| config_json(config, &resource));
    tell(place.json, text, json.collect())
}

/// That all these names are among the configs of a place.
fn check_names<'a>(
    place: &Place,
    configs: &[ConfigEntry],
    mut names: impl Iterator<Item = &'a String>,
) -> Result<()> {
    let resource = place.of.resource();
    // Nothing is set for all nodes as a rule: that is an answer, and no slip of the pen.
    if resource == ConfigResource::AllNodes {
        return Ok(());
    }
    let Some(unknown) = names.find(|name| !configs.iter().any(|config| config.name == **name)) else {
        return Ok(());
    };
    let meant = meant(unknown, configs).map(|name| format!("; did you mean {name}?"));
    anyhow::bail!(
        "{resource} has no config {unknown}{}; `ropewalk config get {}` shows those that it has",
        meant.unwrap_or_default(),
        place.of.flag()
    );
}

/// The config among these that someone probably meant.
fn meant<'a>(unknown: &str, configs: &'a [ConfigEntry]) -> Option<&'a str> {
    let key = server::config::suggest(unknown)?;
    // A topic has the same configs without the words that stand before them in a node's configuration.
    let of_topics = key.strip_prefix("topics.defaults.");
    let mut names = configs.iter().map(|config| config.name.as_str());
    names.find(|name| *name == key || Some(*name) == of_topics)
}

fn change(place: &Place, changes: &[ConfigChange], dry_run: bool) -> Result<()> {
    let resource = place.of.resource();
    let mut cluster = place.remote.connect()?;
    // Brokers give up what there is not without a word.
    let given_up: Vec<&String> = changes
        .iter()
        .filter(|change| change.value.is_none())
        .map(|change| &change.name)
        .collect();
    if !given_up.is_empty() {
        check_names(place, &cluster.configs(&resource)?, given_up.into_iter())?;
    }
    cluster.change_configs(&resource, changes, dry_run)?;
    let line = |change: &ConfigChange| match &change.value {
        Some(value) => format!("{} = {value}", change.name),
        None => format!("{} has its default again", change.name),
    };
    let lines: Vec<String> = changes.iter().map(line).collect();
    let verb = if dry_run { "could be changed" } else { "changed" };
    let changed: serde_json::Map<String, Value> = changes
        .iter()
        .map(|change| (change.name.clone(), json!(change.value)))
        .collect();
    tell(
        place.json,
        format!("{resource} {verb}: {}", lines.join(", ")),
        json!({ "of": resource.to_string(), "changed": changed, "dry_run": dry_run }),
    )
}

/// Configs as columns.
pub(crate) fn config_table(configs: &[ConfigEntry]) -> String {
    let heading = ["config", "value", "from"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(configs.iter().map(|config| {
        let value = or_dash(config.value.as_ref().filter(|value| !value.is_empty()));
        vec![config.name.clone(), value, origin(config.source).to_owned()]
    }));
    table(&rows)
}

/// One config of `resource` as JSON.
pub(crate) fn config_json(config: &ConfigEntry, resource: &ConfigResource) -> Value {
    json!({
        "name": config.name,
        "value": config.value,
        "set": config.is_set(resource),
        "source": source_word(config.source),
        "read_only": config.read_only,
        "documentation": config.documentation,
    })
}

/// As over HTTP.
fn source_word(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::Topic => "topic",
        ConfigSource::Group => "group",
        ConfigSource::Node => "node",
        ConfigSource::AllNodes => "cluster",
        ConfigSource::Started => "start",
        ConfigSource::Default => "default",
    }
}

fn origin(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::Topic => "this topic",
        ConfigSource::Group => "this group",
        ConfigSource::Node => "this node",
        ConfigSource::AllNodes => "all nodes",
        ConfigSource::Started => "the node's configuration",
        ConfigSource::Default => "default",
    }
}
