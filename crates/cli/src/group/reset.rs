//! `ropewalk group reset`: plans where a group is to go on, says so, and sets it unless it is a rehearsal.

use anyhow::{Result, bail};
use clap::Args;
use client::{Cluster, GroupOffset, Offset, OffsetQuery, TopicMetadata};
use serde_json::{Value, json};

use super::OneGroup;
use crate::output::{or_dash, table, tell};
use crate::time::instant_ms;

#[derive(Args)]
pub(super) struct ResetArguments {
    #[command(flatten)]
    group: OneGroup,
    /// A topic, or one partition of it as TOPIC:PARTITION; may be repeated. Without it, whatever the group has committed
    #[arg(long = "topic", value_name = "TOPIC[:PARTITION]")]
    topics: Vec<String>,
    #[command(flatten)]
    target: Target,
    /// Only show what would be set
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// To the first record that is still there
    #[arg(long)]
    to_earliest: bool,
    /// Behind the last record
    #[arg(long)]
    to_latest: bool,
    /// To this offset, or the nearest that there is
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    to_offset: Option<i64>,
    /// To the first record not older than this: a time as 2026-01-31T12:00:00Z, or milliseconds since 1970
    #[arg(long, value_name = "TIME", value_parser = instant_ms)]
    to_time: Option<i64>,
    /// This many records on from what is committed, or back if negative; kept within what there is
    #[arg(long, value_name = "RECORDS", allow_negative_numbers = true)]
    shift: Option<i64>,
}

/// Where a partition goes.
struct Move {
    topic: String,
    partition: i32,
    from: Option<i64>,
    to: i64,
}

pub(super) fn run(arguments: &ResetArguments) -> Result<()> {
    let name = &arguments.group.name;
    let mut cluster = arguments.group.everywhere.remote.connect()?;
    let members = match cluster.group(name) {
        Ok(group) => group.members.len(),
        // A group that is not there yet may be told where to begin.
        Err(error) if error.code() == Some(client::ErrorCode::GroupIdNotFound) => 0,
        Err(error) => return Err(error.into()),
    };
    if members > 0 {
        bail!("group {name} has {members} members; stop them first, or they would overwrite what is set");
    }
    let committed = cluster.group_offsets(name)?;
    let partitions = partitions(&mut cluster, arguments, &committed)?;
    if partitions.is_empty() {
        bail!("group {name} has committed nothing; name what to set with --topic");
    }
    let mut moves = Vec::new();
    for (topic, partition) in partitions {
        let from = committed
            .iter()
            .find(|found| found.topic == topic && found.partition == partition)
            .map(|found| found.offset.0);
        let to = target(&mut cluster, &arguments.target, &topic, partition, from)?;
        moves.push(Move {
            topic,
            partition,
            from,
            to,
        });
    }
    if !arguments.dry_run {
        let offsets: Vec<GroupOffset> = moves
            .iter()
            .map(|found| GroupOffset {
                topic: found.topic.clone(),
                partition: found.partition,
                offset: Offset(found.to),
            })
            .collect();
        cluster.set_group_offsets(name, &offsets)?;
    }
    let done = if arguments.dry_run {
        "would be set"
    } else {
        "were set"
    };
    tell(
        arguments.group.everywhere.json,
        format!("{}\n\noffsets of group {name} {done}", as_table(&moves)),
        as_json(name, &moves, !arguments.dry_run),
    )
}

/// What is to be set: what was named, or all that the group has committed.
fn partitions(
    cluster: &mut Cluster,
    arguments: &ResetArguments,
    committed: &[GroupOffset],
) -> Result<Vec<(String, i32)>> {
    if arguments.topics.is_empty() {
        let all = committed
            .iter()
            .map(|found| (found.topic.clone(), found.partition));
        return Ok(all.collect());
    }
    let mut partitions = Vec::new();
    for named in &arguments.topics {
        // A topic's name has no colon.
        let (name, partition) = match named.split_once(':') {
            Some((name, index)) => match index.parse::<i32>() {
                Ok(index) => (name, Some(index)),
                Err(_) => bail!("{named} is not TOPIC:PARTITION"),
            },
            None => (named.as_str(), None),
        };
        let topic = cluster.topic(name)?;
        match partition {
            Some(index) if !has(&topic, index) => bail!("topic {name} has no partition {index}"),
            Some(index) => partitions.push((name.to_owned(), index)),
            None => partitions.extend(
                topic
                    .partitions
                    .iter()
                    .map(|found| (name.to_owned(), found.index)),
            ),
        }
    }
    partitions.sort();
    partitions.dedup();
    Ok(partitions)
}

fn has(topic: &TopicMetadata, index: i32) -> bool {
    topic.partitions.iter().any(|partition| partition.index == index)
}

fn target(
    cluster: &mut Cluster,
    target: &Target,
    topic: &str,
    partition: i32,
    from: Option<i64>,
) -> Result<i64> {
    let mut ask = |query| -> Result<Option<i64>> {
        Ok(cluster.offset(topic, partition, query)?.map(|offset| offset.0))
    };
    let first = ask(OffsetQuery::Earliest)?.unwrap_or(0);
    let tail = ask(OffsetQuery::Latest)?.unwrap_or(first);
    let wanted = match target {
        Target {
            to_earliest: true, ..
        } => first,
        Target { to_latest: true, .. } => tail,
        Target {
            to_offset: Some(offset),
            ..
        } => *offset,
        // Nothing is as young: what comes next is.
        Target {
            to_time: Some(ms), ..
        } => ask(OffsetQuery::Timestamp(*ms))?.unwrap_or(tail),
        Target {
            shift: Some(records), ..
        } => match from {
            Some(from) => from.saturating_add(*records),
            None => bail!(
                "the group has committed nothing in partition {partition} of {topic}: there is nothing to shift"
            ),
        },
        _ => bail!("say where to: --to-earliest, --to-latest, --to-offset, --to-time or --shift"),
    };
    Ok(wanted.clamp(first, tail))
}

fn as_table(moves: &[Move]) -> String {
    let mut rows = vec![["topic", "partition", "from", "to"].map(str::to_owned).to_vec()];
    rows.extend(moves.iter().map(|found| {
        let (partition, to) = (found.partition.to_string(), found.to.to_string());
        vec![found.topic.clone(), partition, or_dash(found.from), to]
    }));
    table(&rows)
}

fn as_json(name: &str, moves: &[Move], was_set: bool) -> Value {
    let moves = moves.iter().map(|found| {
        json!({ "topic": found.topic, "partition": found.partition, "from": found.from, "to": found.to })
    });
    json!({ "group": name, "set": was_set, "partitions": moves.collect::<Value>() })
}
