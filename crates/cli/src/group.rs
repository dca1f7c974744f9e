//! `ropewalk group`: lists, describes, moves and deletes consumer groups, on any broker that speaks Kafka's protocol.

mod reset;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use clap::{Args, Subcommand};
use client::{Cluster, ErrorCode, GroupDescription, GroupOffset, OffsetQuery};
use serde_json::{Value, json};

use crate::output::{or_dash, table, tell};
use crate::remote::Remote;

const EXAMPLES: &str = "\
Examples:
  ropewalk group list
  ropewalk group describe billing                          members, offsets and lag
  ropewalk group reset billing --to-earliest --dry-run     what would be set
  ropewalk group reset billing --topic orders --to-time 2026-01-31T12:00:00Z
  ropewalk group reset billing --topic orders:3 --shift -100
  ropewalk group delete billing

A group is reset and deleted only while it has no members: stop its consumers first.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GroupArguments {
    #[command(subcommand)]
    command: GroupCommand,
}

#[derive(Subcommand)]
enum GroupCommand {
    /// List all groups
    List(Everywhere),
    /// Show a group's members, and how far it is in each partition
    Describe(OneGroup),
    /// Put a group elsewhere: to an offset, a time, the first or the last record
    Reset(reset::ResetArguments),
    /// Delete a group and the offsets it has committed
    Delete(OneGroup),
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
struct OneGroup {
    /// The group's name
    name: String,
    #[command(flatten)]
    everywhere: Everywhere,
}

pub(crate) fn run(arguments: GroupArguments) -> Result<()> {
    match arguments.command {
        GroupCommand::List(arguments) => list(&arguments),
        GroupCommand::Describe(arguments) => describe(&arguments),
        GroupCommand::Reset(arguments) => reset::run(&arguments),
        GroupCommand::Delete(arguments) => delete(&arguments),
    }
}

fn list(arguments: &Everywhere) -> Result<()> {
    let groups = arguments.remote.connect()?.groups()?;
    if arguments.json {
        let groups = groups
            .iter()
            .map(|group| json!({ "name": group.name, "state": group.state, "kind": group.kind }));
        return tell(true, String::new(), groups.collect());
    }
    if groups.is_empty() {
        let text = "there are no groups; a consumer with a group.id makes one".to_owned();
        return tell(false, text, Value::Null);
    }
    let mut rows = vec![["group", "state", "kind"].map(str::to_owned).to_vec()];
    rows.extend(
        groups
            .into_iter()
            .map(|group| vec![group.name, group.state, group.kind]),
    );
    tell(false, table(&rows), Value::Null)
}

fn delete(arguments: &OneGroup) -> Result<()> {
    let name = &arguments.name;
    arguments.everywhere.remote.connect()?.delete_group(name)?;
    tell(
        arguments.everywhere.json,
        format!("deleted group {name}"),
        json!({ "deleted": name }),
    )
}

fn describe(arguments: &OneGroup) -> Result<()> {
    let mut cluster = arguments.everywhere.remote.connect()?;
    let group = cluster.group(&arguments.name)?;
    let offsets = cluster.group_offsets(&arguments.name)?;
    let progress = progress(&mut cluster, &group, offsets)?;
    tell(
        arguments.everywhere.json,
        as_text(&group, &progress),
        as_json(&group, &progress),
    )
}

/// How far the group is in one partition, and who reads it.
struct Progress {
    committed: Option<i64>,
    tail: Option<i64>,
    member: Option<String>,
}

impl Progress {
    fn lag(&self) -> Option<i64> {
        Some(self.tail?.saturating_sub(self.committed?).max(0))
    }
}

/// Every partition that the group has committed or that a member reads.
fn progress(
    cluster: &mut Cluster,
    group: &GroupDescription,
    offsets: Vec<GroupOffset>,
) -> Result<BTreeMap<(String, i32), Progress>> {
    let mut progress: BTreeMap<(String, i32), Progress> = BTreeMap::new();
    let nothing = || Progress {
        committed: None,
        tail: None,
        member: None,
    };
    for found in offsets {
        let entry = progress
            .entry((found.topic, found.partition))
            .or_insert_with(nothing);
        entry.committed = Some(found.offset.0);
    }
    for member in &group.members {
        for partition in &member.partitions {
            let entry = progress.entry(partition.clone()).or_insert_with(nothing);
            entry.member = Some(member.id.clone());
        }
    }
    let topics: Vec<String> = progress.keys().map(|(topic, _)| topic.clone()).collect();
    for name in topics.into_iter().collect::<BTreeSet<_>>() {
        let topic = match cluster.topic(&name) {
            Ok(topic) => topic,
            // A topic that was deleted has no tail any more.
            Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => continue,
            Err(error) => return Err(error.into()),
        };
        for (index, tail) in cluster.offsets(&topic, OffsetQuery::Latest)? {
            if let Some(entry) = progress.get_mut(&(name.clone(), index)) {
                entry.tail = tail.map(|offset| offset.0);
            }
        }
    }
    Ok(progress)
}

fn as_json(group: &GroupDescription, progress: &BTreeMap<(String, i32), Progress>) -> Value {
    let members = group.members.iter().map(|member| {
        json!({
            "id": member.id,
            "instance": member.instance,
            "client": member.client_id,
            "host": member.host,
            "partitions": member.partitions.iter().map(|(topic, index)| json!({ "topic": topic, "partition": index })).collect::<Value>(),
        })
    });
    let partitions = progress.iter().map(|((topic, index), progress)| {
        json!({
            "topic": topic,
            "partition": index,
            "committed": progress.committed,
            "tail": progress.tail,
            "lag": progress.lag(),
            "member": progress.member,
        })
    });
    json!({
        "name": group.name,
        "state": group.state,
        "kind": group.kind,
        "assignor": group.assignor,
        "lag": progress.values().filter_map(Progress::lag).sum::<i64>(),
        "members": members.collect::<Value>(),
        "partitions": partitions.collect::<Value>(),
    })
}

fn as_text(group: &GroupDescription, progress: &BTreeMap<(String, i32), Progress>) -> String {
    let lag: i64 = progress.values().filter_map(Progress::lag).sum();
    let assignor = match group.assignor.is_empty() {
        true => String::new(),
        false => format!(", assigned by {}", group.assignor),
    };
    let mut text = format!(
        "group {} is {} ({}{assignor}), {lag} records behind",
        group.name, group.state, group.kind
    );
    if !group.members.is_empty() {
        let mut rows = vec![
            ["member", "client", "host", "partitions"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(group.members.iter().map(|member| {
            let partitions = member.partitions.len().to_string();
            vec![
                member.id.clone(),
                member.client_id.clone(),
                member.host.clone(),
                partitions,
            ]
        }));
        text = format!("{text}\n\n{}", table(&rows));
    }
    if !progress.is_empty() {
        let heading = ["topic", "partition", "committed", "tail", "lag", "member"];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(progress.iter().map(|((topic, index), progress)| {
            vec![
                topic.clone(),
                index.to_string(),
                or_dash(progress.committed),
                or_dash(progress.tail),
                or_dash(progress.lag()),
                or_dash(progress.member.as_ref()),
            ]
        }));
        text = format!("{text}\n\n{}", table(&rows));
    }
    text
}
