//! `ropewalk topic`: creates, lists, describes and deletes topics, on any broker that speaks Kafka's protocol.

use anyhow::Result;
use clap::{Args, Subcommand};
use client::{Cluster, ConfigEntry, ConfigResource, NewTopic, OffsetQuery, TopicMetadata};
use serde_json::{Value, json};

use crate::change_config::{config_json, config_table};
use crate::node_options::key_and_value;
use crate::output::{counted, or_dash, table, tell};
use crate::remote::{Remote, create_topic};

const EXAMPLES: &str = "\
Examples:
  ropewalk topic create orders --partitions 4 --config retention.ms=86400000
  ropewalk topic create scratch --config ropewalk.durability=memory
  ropewalk topic list
  ropewalk topic describe orders
  ropewalk config set --topic orders retention.ms=3600000
  ropewalk topic delete orders";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopicArguments {
    #[command(subcommand)]
    command: TopicCommand,
}

#[derive(Subcommand)]
enum TopicCommand {
    /// Create a topic
    Create(CreateArguments),
    /// List all topics
    List(Everywhere),
    /// Show a topic's partitions, offsets and configs
    Describe(OneTopic),
    /// Delete a topic and every record in it
    Delete(OneTopic),
}

#[derive(Args)]
struct Everywhere {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct OneTopic {
    /// The topic's name
    name: String,
    #[command(flatten)]
    everywhere: Everywhere,
}

#[derive(Args)]
struct CreateArguments {
    #[command(flatten)]
    topic: OneTopic,
    /// How many partitions; without it, as many as the node gives by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// How many replicas of each partition; without it, as many as the node gives by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replicas: Option<i16>,
    /// A topic config, such as retention.ms=60000; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_and_value)]
    config: Vec<(String, String)>,
}

pub(crate) fn run(arguments: TopicArguments) -> Result<()> {
    match arguments.command {
        TopicCommand::Create(arguments) => create(arguments),
        TopicCommand::List(arguments) => list(&arguments),
        TopicCommand::Describe(arguments) => describe(&arguments),
        TopicCommand::Delete(arguments) => delete(&arguments),
    }
}

fn create(arguments: CreateArguments) -> Result<()> {
    let OneTopic { name, everywhere } = arguments.topic;
    let topic = NewTopic {
        name,
        partitions: arguments.partitions.unwrap_or(-1),
        replication_factor: arguments.replicas.unwrap_or(-1),
        configs: arguments.config,
    };
    let mut cluster = everywhere.remote.connect()?;
    let made = create_topic(&mut cluster, &topic)?;
    let partitions = made.partitions.len();
    let text = format!(
        "created topic {} with {}",
        made.name,
        counted(partitions, "partition")
    );
    tell(
        everywhere.json,
        text,
        json!({ "created": made.name, "partitions": partitions }),
    )
}

fn delete(arguments: &OneTopic) -> Result<()> {
    let name = &arguments.name;
    arguments.everywhere.remote.connect()?.delete_topic(name)?;
    tell(
        arguments.everywhere.json,
        format!("deleted topic {name}"),
        json!({ "deleted": name }),
    )
}

fn list(arguments: &Everywhere) -> Result<()> {
    let topics = arguments.remote.connect()?.topics()?;
    if arguments.json {
        let topics = topics.iter().map(|topic| {
            json!({ "name": topic.name, "partitions": topic.partitions.len(), "internal": topic.is_internal })
        });
        return tell(true, String::new(), topics.collect());
    }
    if topics.is_empty() {
        return tell(
            false,
            "there are no topics; `ropewalk topic create NAME` makes one".to_owned(),
            Value::Null,
        );
    }
    let mut rows = vec![vec!["topic".to_owned(), "partitions".to_owned()]];
    rows.extend(
        topics
            .iter()
            .map(|topic| vec![topic.name.clone(), topic.partitions.len().to_string()]),
    );
    tell(false, table(&rows), Value::Null)
}

fn describe(arguments: &OneTopic) -> Result<()> {
    let mut cluster = arguments.everywhere.remote.connect()?;
    let topic = cluster.topic(&arguments.name)?;
    let configs = cluster.configs(&ConfigResource::Topic(arguments.name.clone()))?;
    let extents = topic
        .partitions
        .iter()
        .map(|partition| extent(&mut cluster, &topic.name, partition.index));
    let extents: Vec<_> = extents.collect::<Result<_>>()?;
    let json = as_json(&topic, &extents, &configs);
    tell(
        arguments.everywhere.json,
        as_text(&topic, &extents, &configs),
        json,
    )
}

/// What a partition holds: its first offset and its tail.
struct Extent {
    first: Option<i64>,
    tail: Option<i64>,
}

fn extent(cluster: &mut Cluster, topic: &str, partition: i32) -> Result<Extent> {
    let mut ask = |query| {
        cluster
            .offset(topic, partition, query)
            .map(|offset| offset.map(|offset| offset.0))
    };
    Ok(Extent {
        first: ask(OffsetQuery::Earliest)?,
        tail: ask(OffsetQuery::Latest)?,
    })
}

fn as_json(topic: &TopicMetadata, extents: &[Extent], configs: &[ConfigEntry]) -> Value {
    let partitions = topic.partitions.iter().zip(extents).map(|(partition, extent)| {
        json!({
            "partition": partition.index,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": partition.replicas,
            "in_sync": partition.in_sync,
            "first_offset": extent.first,
            "tail": extent.tail,
        })
    });
    json!({
        "name": topic.name,
        "id": topic.id.to_string(),
        "partitions": partitions.collect::<Value>(),
        "configs": configs.iter().map(config_json).collect::<Value>(),
    })
}

fn as_text(topic: &TopicMetadata, extents: &[Extent], configs: &[ConfigEntry]) -> String {
    let heading = ["partition", "leader", "first", "tail", "replicas"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(topic.partitions.iter().zip(extents).map(|(partition, extent)| {
        vec![
            partition.index.to_string(),
            or_dash(partition.leader),
            or_dash(extent.first),
            or_dash(extent.tail),
            format!("{:?}", partition.replicas),
        ]
    }));
    format!(
        "topic {} (id {})\n\n{}\n\n{}",
        topic.name,
        topic.id,
        table(&rows),
        config_table(configs)
    )
}
