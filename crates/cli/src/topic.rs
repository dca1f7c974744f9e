//! `ropewalk topic`: creates, lists, describes, grows, trims and deletes topics, on any broker that speaks Kafka's protocol.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use client::{
    Cluster, ConfigEntry, ConfigResource, ErrorCode, NewTopic, Offset, OffsetQuery, PartitionMetadata,
    TopicMetadata,
};
use serde_json::{Value, json};

use crate::change_config::{config_json, config_table};
use crate::cut::Cut;
use crate::node_options::config_and_value;
use crate::output::{cleaned, counted, or_dash, table, tell};
use crate::progress::Progress;
use crate::remote::{Everywhere, OneNamed, create_topic, no_partition};
use crate::time::{now_ms, written_ms};
use crate::top::{change, http_address, http_of, look};

const EXAMPLES: &str = "\
Examples:
  ropewalk topic create orders --partitions 4 --config retention.ms=1d
  ropewalk topic create scratch --config ropewalk.durability=memory
  ropewalk topic create orders --if-absent        as part of a script
  ropewalk topic list
  ropewalk topic describe orders
  ropewalk config set --topic orders retention.ms=1h
  ropewalk topic grow orders --partitions 8
  ropewalk topic replicas orders 3
  ropewalk topic trim orders --partition 2 --before 1000
  ropewalk topic delete orders";
/// Between two looks at replicas that are being filled.
const LOOK: Duration = Duration::from_millis(500);
/// Looks without any change after which the command gives up: a large log takes long, and its partition does not show how far it is.
const LOOKS_MAX: u32 = 600;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TopicArguments {
    #[command(subcommand)]
    command: TopicCommand,
}

#[derive(Subcommand)]
enum TopicCommand {
    /// Create a topic
    #[command(after_help = "Examples:
  ropewalk topic create orders
  ropewalk topic create orders --partitions 4 --config retention.ms=1d
  ropewalk topic create scratch --config ropewalk.durability=memory --if-absent")]
    Create(CreateArguments),
    /// List all topics
    #[command(after_help = "Example:
  ropewalk topic list --json")]
    List(Everywhere),
    /// Show a topic's partitions, offsets and configs
    #[command(after_help = "Example:
  ropewalk topic describe orders")]
    Describe(OneNamed),
    /// Give a topic more partitions; keys may go to others of them from then on
    #[command(after_help = "Example:
  ropewalk topic grow orders --partitions 8

A topic never gets fewer partitions.")]
    Grow(GrowArguments),
    /// Set the number of replicas of each partition; nodes that join are sent the log while appends go on
    #[command(after_help = "Examples:
  ropewalk topic replicas orders 3
  ropewalk topic replicas orders 3 --wait")]
    Replicas(ReplicasArguments),
    /// Open partitions with what is left of them, when the other replicas are lost for good
    ///
    /// A partition whose leader is lost opens by itself as long as enough replicas are there that hold everything acknowledged. Where the
    /// disks of too many are lost it waits, so that nothing is given up behind your back. This gives it up: the replicas that are there become
    /// the replica set and keep what they hold, and acknowledged records that only the others held are lost. Other records will have their
    /// offsets. First see that the nodes that are away are stopped: one that still runs may go on acknowledging what is lost then; one that
    /// comes back deletes what it has of these partitions. A replica that is connected and does not answer counts as there: stop its node, and
    /// repeat. Partitions of which enough replicas are there are left as they are. The last 16 epochs opened so are told with the partition.
    #[command(after_help = "Examples:
  ropewalk topic open-uncleanly orders --lose-records
  ropewalk topic open-uncleanly orders --partition 3 --lose-records
  ropewalk cluster drain 4 --wait                           then give up the nodes that are lost,
  ropewalk topic replicas orders 3                          and get replicas again on others")]
    OpenUncleanly(UncleanArguments),
    /// Show of each partition the offset before which exactly the records below a position lie
    #[command(after_help = "Examples:
  ropewalk topic cut ledger              of all that is ordered now
  ropewalk topic cut ledger --at 17
  ropewalk group reset billing --to-cut ledger@17

For a topic with one order over its partitions (ropewalk.order=total): a
snapshot of all of them, which is the same for ever.")]
    Cut(CutArguments),
    /// Give up a partition's oldest records, for ever
    #[command(after_help = "Examples:
  ropewalk topic trim orders --partition 2 --before 1000
  ropewalk topic trim orders --partition 2 --before 7d
  ropewalk topic trim orders --partition 2 --before 2026-01-31T12:00:00Z
  ropewalk topic trim orders --partition 2 --before tail      all that is there
  ropewalk topic trim orders --partition 2 --before 7d --dry-run

A trim is durable when the command ends, and cannot be taken back.")]
    Trim(TrimArguments),
    /// Delete a topic and every record in it, for ever
    #[command(after_help = "Examples:
  ropewalk topic delete orders
  ropewalk topic delete orders --if-present")]
    Delete(DeleteArguments),
}

#[derive(Args)]
struct CreateArguments {
    #[command(flatten)]
    topic: OneNamed,
    /// Number of partitions; without it, as many as the node gives by default
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Number of replicas of each partition; without it, as many as the node gives by default
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replicas: Option<i16>,
    /// A topic config, such as retention.ms=7d or segment.bytes=1GiB; may be repeated
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = config_and_value)]
    config: Vec<(String, String)>,
    /// Leave a topic of that name as it is, in place of failing
    #[arg(long)]
    if_absent: bool,
}

#[derive(Args)]
struct DeleteArguments {
    #[command(flatten)]
    topic: OneNamed,
    /// Do nothing if there is no topic of that name, in place of failing
    #[arg(long)]
    if_present: bool,
}

#[derive(Args)]
struct GrowArguments {
    #[command(flatten)]
    topic: OneNamed,
    /// Number of partitions that it is to have in all
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
}

#[derive(Args)]
struct ReplicasArguments {
    #[command(flatten)]
    topic: OneNamed,
    /// Number of replicas that each partition is to have
    #[arg(value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    replicas: i32,
    /// A node's HTTP address; without it, port 8092 of the host of --bootstrap
    #[arg(long, value_name = "HOST:PORT", env = "ROPEWALK_HTTP", value_parser = http_address)]
    http: Option<String>,
    /// Wait until all of them have the whole log
    #[arg(long)]
    wait: bool,
}

#[derive(Args)]
struct UncleanArguments {
    #[command(flatten)]
    topic: OneNamed,
    /// Only this partition
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// Say that you know what this does
    #[arg(long, required = true)]
    lose_records: bool,
    /// A node's HTTP address; without it, port 8092 of the host of --bootstrap
    #[arg(long, value_name = "HOST:PORT", env = "ROPEWALK_HTTP", value_parser = http_address)]
    http: Option<String>,
}

#[derive(Args)]
struct CutArguments {
    #[command(flatten)]
    topic: OneNamed,
    /// The position; without it, the first that is not ordered yet
    #[arg(long, value_name = "POSITION", value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    at: Option<u64>,
    /// A node's HTTP address; without it, port 8092 of the host of --bootstrap
    #[arg(long, value_name = "HOST:PORT", env = "ROPEWALK_HTTP", value_parser = http_address)]
    http: Option<String>,
}

#[derive(Args)]
struct TrimArguments {
    #[command(flatten)]
    topic: OneNamed,
    /// The partition
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partition: i32,
    /// Give up what stands before this: an offset; the first record that is not older than a time such as
    /// 2026-01-31T12:00:00Z, than @ and milliseconds since 1970, or than an age such as 7d; or tail, which is everything
    #[arg(long, value_name = "WHERE", value_parser = bound)]
    before: Bound,
    /// Only say where the partition would begin
    #[arg(long)]
    dry_run: bool,
}

/// The offset at which the rest begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Offset(i64),
    /// Milliseconds since 1970.
    Time(i64),
    Tail,
}

fn bound(text: &str) -> Result<Bound, String> {
    let offset = text.parse::<i64>().ok();
    match (text, offset) {
        ("tail", _) => Ok(Bound::Tail),
        (_, Some(offset)) if offset >= 0 => Ok(Bound::Offset(offset)),
        _ => written_ms(text, now_ms()).map(Bound::Time).ok_or_else(|| {
            "expected an offset, a time such as 2026-01-31T12:00:00Z, @ and milliseconds since 1970, an age such as 7d, or tail"
                .to_owned()
        }),
    }
}

pub(crate) fn run(arguments: TopicArguments) -> Result<()> {
    match arguments.command {
        TopicCommand::Create(arguments) => create(arguments),
        TopicCommand::List(arguments) => list(&arguments),
        TopicCommand::Describe(arguments) => describe(&arguments),
        TopicCommand::Grow(arguments) => grow(&arguments),
        TopicCommand::Replicas(arguments) => set_replicas(&arguments),
        TopicCommand::OpenUncleanly(arguments) => open_uncleanly(&arguments),
        TopicCommand::Cut(arguments) => cut(&arguments),
        TopicCommand::Trim(arguments) => trim(&arguments),
        TopicCommand::Delete(arguments) => delete(&arguments),
    }
}

fn create(arguments: CreateArguments) -> Result<()> {
    let OneNamed { name, everywhere } = arguments.topic;
    let topic = NewTopic {
        name,
        partitions: arguments.partitions.unwrap_or(-1),
        replication_factor: arguments.replicas.unwrap_or(-1),
        configs: arguments.config,
    };
    let mut cluster = everywhere.remote.connect()?;
    let (made, is_new) = match create_topic(&mut cluster, &topic) {
        Err(error) if arguments.if_absent && error.code() == Some(ErrorCode::TopicAlreadyExists) => {
            (cluster.topic(&topic.name)?, false)
        }
        made => (made?, true),
    };
    let partitions = made.partitions.len();
    let counted = counted(partitions, "partition");
    let text = match is_new {
        true => format!("created topic {} with {counted}", made.name),
        false => format!("topic {} exists, with {counted}", made.name),
    };
    let json = match is_new {
        true => json!({ "created": made.name, "partitions": partitions }),
        false => json!({ "exists": made.name, "partitions": partitions }),
    };
    tell(everywhere.json, text, json)
}

fn delete(arguments: &DeleteArguments) -> Result<()> {
    let OneNamed { name, everywhere } = &arguments.topic;
    match everywhere.remote.connect()?.delete_topic(name) {
        Err(error) if arguments.if_present && error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {
            let text = format!("there is no topic {name}");
            tell(everywhere.json, text, json!({ "absent": name }))
        }
        deleted => {
            deleted?;
            tell(
                everywhere.json,
                format!("deleted topic {name}"),
                json!({ "deleted": name }),
            )
        }
    }
}

fn grow(arguments: &GrowArguments) -> Result<()> {
    let OneNamed { name, everywhere } = &arguments.topic;
    let mut cluster = everywhere.remote.connect()?;
    let before = cluster.topic(name)?.partitions.len();
    let wanted = arguments.partitions;
    if i64::from(wanted) <= before as i64 {
        bail!("topic {name} has {before} partitions already; a topic only grows");
    }
    cluster.create_partitions(name, wanted)?;
    tell(
        everywhere.json,
        format!("topic {name} has {wanted} partitions, {before} before"),
        json!({ "grown": name, "partitions": wanted, "partitions_before": before }),
    )
}

fn set_replicas(arguments: &ReplicasArguments) -> Result<()> {
    let OneNamed { name, everywhere } = &arguments.topic;
    let address = http_of(arguments.http.as_deref(), &everywhere.remote);
    let path = format!("/v1/topics/{name}");
    let wanted = arguments.replicas;
    let mut topic = change(
        &address,
        "PUT",
        &format!("{path}/replicas"),
        &json!({ "replicas": wanted }),
    )?;
    let mut progress = Progress::new(format!("replicas of {name}"));
    let mut looks = 0;
    let left = loop {
        let left = partitions_without(&topic, wanted);
        if left == 0 || !arguments.wait {
            break left;
        }
        progress.say(&format!("{} to go", counted(left, "partition")));
        sleep(LOOK);
        let before = topic;
        topic = serde_json::from_str(&look(&address, &path)?)?;
        looks = if before == topic { looks + 1 } else { 0 };
        if looks > LOOKS_MAX {
            bail!(
                "{} of topic {name} to go, and nothing goes on: is the leader or a node that joins away? `ropewalk cluster status` tells. It goes on \
                 when they are back",
                counted(left, "partition")
            );
        }
    };
    drop(progress);
    let text = match left {
        0 => format!("each partition of topic {name} has {}", counted_replicas(wanted)),
        left => format!(
            "each partition of topic {name} is to have {}: {} to go, while appends go on",
            counted_replicas(wanted),
            counted(left, "partition")
        ),
    };
    tell(
        everywhere.json,
        text,
        json!({ "topic": name, "replicas": wanted, "partitions_to_go": left }),
    )
}

fn open_uncleanly(arguments: &UncleanArguments) -> Result<()> {
    let OneNamed { name, everywhere } = &arguments.topic;
    let address = http_of(arguments.http.as_deref(), &everywhere.remote);
    let path = format!("/v1/topics/{name}/unclean-opening");
    let wanted = match arguments.partition {
        Some(partition) => json!({ "partitions": [partition] }),
        None => json!({}),
    };
    let answer = change(&address, "POST", &path, &wanted)?;
    let opened = answer["opened"].as_array().map_or(&[][..], Vec::as_slice);
    let refused = answer["refused"].as_array().map_or(&[][..], Vec::as_slice);
    let text = match opened {
        [] => format!("nothing was opened: enough replicas of topic {name} are connected"),
        _ => {
            let indexes: Vec<String> = opened.iter().map(Value::to_string).collect();
            format!(
                "opened {} of topic {name} with what is left: {}",
                counted(opened.len(), "partition"),
                indexes.join(", ")
            )
        }
    };
    let json = json!({ "topic": name, "opened": opened, "refused": refused });
    tell(everywhere.json, text, json)?;
    match refused.first() {
        None => Ok(()),
        Some(first) => bail!(
            "{} of topic {name} could not be opened; partition {}: {}",
            counted(refused.len(), "partition"),
            first["partition"],
            first["detail"].as_str().unwrap_or("-")
        ),
    }
}

fn counted_replicas(count: i32) -> String {
    counted(usize::try_from(count).unwrap_or(0), "replica")
}

/// The partitions of a topic, as a node describes it over HTTP, that do not have so many replicas.
fn partitions_without(topic: &Value, replicas: i32) -> usize {
    let has = |partition: &&Value| {
        partition["replicas"]
            .as_array()
            .is_some_and(|found| found.len() as i64 == i64::from(replicas))
    };
    let partitions = topic["partitions"].as_array();
    partitions.map_or(0, |all| all.iter().filter(|partition| !has(partition)).count())
}

fn cut(arguments: &CutArguments) -> Result<()> {
    let OneNamed { name, everywhere } = &arguments.topic;
    let http = http_of(arguments.http.as_deref(), &everywhere.remote);
    let cut = Cut::ask(&http, name, arguments.at)?;
    let mut rows = vec![["partition", "offset"].map(str::to_owned).to_vec()];
    let places = (0..).zip(&cut.offsets);
    rows.extend(places.map(|(partition, offset): (i32, _)| vec![partition.to_string(), offset.to_string()]));
    tell(
        everywhere.json,
        format!("position {}\n\n{}", cut.position, table(&rows)),
        json!({ "topic": name, "position": cut.position, "offsets": cut.offsets }),
    )
}

fn trim(arguments: &TrimArguments) -> Result<()> {
    let OneNamed { name, everywhere } = &arguments.topic;
    let partition = arguments.partition;
    let mut cluster = everywhere.remote.connect()?;
    let topic = cluster.topic(name)?;
    if !topic.partitions.iter().any(|known| known.index == partition) {
        return Err(no_partition(&topic, partition));
    }
    let mut ask = |query| cluster.offset(name, partition, query);
    let first = ask(OffsetQuery::Earliest)?.unwrap_or(Offset::ZERO);
    let tail = ask(OffsetQuery::Latest)?.unwrap_or(Offset::ZERO);
    let before = match arguments.before {
        Bound::Tail => tail,
        Bound::Offset(offset) => Offset(offset),
        // Everything is older.
        Bound::Time(ms) => ask(OffsetQuery::Timestamp(ms))?.unwrap_or(tail),
    };
    if before > tail {
        bail!("offset {before} does not exist yet: partition {partition} of topic {name} goes on at {tail}");
    }
    let (first, verb) = match arguments.dry_run {
        // Trimmed records do not come back.
        true => (before.max(first), "would begin"),
        false => (cluster.delete_records(name, partition, before)?, "begins"),
    };
    tell(
        everywhere.json,
        format!("partition {partition} of topic {name} {verb} at offset {first}"),
        json!({
            "trimmed": name,
            "partition": partition,
            "first_offset": first.0,
            "dry_run": arguments.dry_run,
        }),
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

fn describe(arguments: &OneNamed) -> Result<()> {
    let mut cluster = arguments.everywhere.remote.connect()?;
    let topic = cluster.topic(&arguments.name)?;
    let configs = cluster.configs(&ConfigResource::Topic(arguments.name.clone()))?;
    let extents = extents(&mut cluster, &topic)?;
    let json = as_json(&topic, &extents, &configs);
    tell(
        arguments.everywhere.json,
        as_text(&topic, &extents, &configs),
        json,
    )
}

/// The extent of a partition: its first offset and its tail.
struct Extent {
    first: Option<i64>,
    tail: Option<i64>,
}

/// Of each partition, by ascending index: two questions to each leader. Of those without one nothing is known.
fn extents(cluster: &mut Cluster, topic: &TopicMetadata) -> Result<Vec<Extent>> {
    let mut ask = |query| -> Result<BTreeMap<i32, Option<Offset>>> {
        Ok(cluster.offsets_of_led(topic, query)?.into_iter().collect())
    };
    let (firsts, tails) = (ask(OffsetQuery::Earliest)?, ask(OffsetQuery::Latest)?);
    let known = |found: &BTreeMap<i32, Option<Offset>>, index| Some(found.get(&index)?.as_ref()?.0);
    let extent = |partition: &PartitionMetadata| Extent {
        first: known(&firsts, partition.index),
        tail: known(&tails, partition.index),
    };
    Ok(topic.partitions.iter().map(extent).collect())
}

fn as_json(topic: &TopicMetadata, extents: &[Extent], configs: &[ConfigEntry]) -> Value {
    let resource = ConfigResource::Topic(topic.name.clone());
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
        "configs": configs.iter().map(|config| config_json(config, &resource)).collect::<Value>(),
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
        cleaned(&topic.name),
        topic.id,
        table(&rows),
        config_table(configs)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_an_offset_a_time_or_the_tail() {
        assert_eq!(bound("5"), Ok(Bound::Offset(5)));
        assert_eq!(bound("tail"), Ok(Bound::Tail));
        assert_eq!(bound("@5"), Ok(Bound::Time(5)));
        assert!(matches!(bound("7d"), Ok(Bound::Time(_))));
        assert!(bound("-5").is_err() && bound("head").is_err());
    }
}
