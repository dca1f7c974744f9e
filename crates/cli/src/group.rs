//! `ropewalk group`: lists, describes, moves and deletes consumer groups, on any broker that speaks Kafka's protocol.

mod forget;
mod reset;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use clap::{Args, Subcommand};
use client::{Cluster, ErrorCode, GroupDescription, GroupOffset, OffsetQuery};
use serde_json::{Value, json};

use crate::output::{cleaned, counted, or_dash, table, tell};
use crate::remote::{Everywhere, OneNamed};

const EXAMPLES: &str = "\
Examples:
  ropewalk group list
  ropewalk group describe billing                          members, offsets and lag
  ropewalk group reset billing --to-earliest --dry-run     what would be set
  ropewalk group reset billing --topic orders --to-time 2026-01-31T12:00:00Z
  ropewalk group reset billing --topic orders:3 --shift -100
  ropewalk group reset billing --to-cut ledger@17           all partitions, at one moment of their order
  ropewalk group forget billing --topic orders             of which it shall know nothing
  ropewalk group delete billing

A group is reset and deleted only while it has no members: stop its consumers
first.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GroupArguments {
    #[command(subcommand)]
    command: GroupCommand,
}

#[derive(Subcommand)]
enum GroupCommand {
    /// List all groups
    #[command(after_help = "Example:
  ropewalk group list --json")]
    List(Everywhere),
    /// Show a group's members, and how far it is in each partition
    #[command(after_help = "Example:
  ropewalk group describe billing")]
    Describe(OneNamed),
    /// Put a group elsewhere: to an offset, a time, the first or the last record
    #[command(after_help = "Examples:
  ropewalk group reset billing --to-earliest --dry-run     what would be set
  ropewalk group reset billing --topic orders --to-time 2026-01-31T12:00:00Z
  ropewalk group reset billing --topic orders --to-time 15m
  ropewalk group reset billing --topic orders:3 --shift -100
  ropewalk group reset billing --to-cut ledger@17

The group must have no members: stop its consumers first.")]
    Reset(reset::ResetArguments),
    /// Forget what a group has committed of a topic that it does not read any more
    #[command(after_help = "Examples:
  ropewalk group forget billing --topic orders --dry-run
  ropewalk group forget billing --topic orders:3 --topic returns

No member of the group may read the topic.")]
    Forget(forget::ForgetArguments),
    /// Delete a group and the offsets it has committed
    #[command(after_help = "Example:
  ropewalk group delete billing

The group must have no members: stop its consumers first.")]
    Delete(OneNamed),
}

pub(crate) fn run(arguments: GroupArguments) -> Result<()> {
    match arguments.command {
        GroupCommand::List(arguments) => list(&arguments),
        GroupCommand::Describe(arguments) => describe(&arguments),
        GroupCommand::Reset(arguments) => reset::run(&arguments),
        GroupCommand::Forget(arguments) => forget::run(&arguments),
        GroupCommand::Delete(arguments) => delete(&arguments),
    }
}

fn list(arguments: &Everywhere) -> Result<()> {
    let groups = arguments.remote.connect()?.groups()?;
    if arguments.json {
        let groups = groups
            .iter()
            .map(|group| json!({ "name": group.name, "state": group.state, "type": group.kind }));
        return tell(true, String::new(), groups.collect());
    }
    if groups.is_empty() {
        let text = "there are no groups; a consumer with a group.id makes one".to_owned();
        return tell(false, text, Value::Null);
    }
    let mut rows = vec![["group", "state", "type"].map(str::to_owned).to_vec()];
    rows.extend(
        groups
            .into_iter()
            .map(|group| vec![group.name, group.state, group.kind]),
    );
    tell(false, table(&rows), Value::Null)
}

fn delete(arguments: &OneNamed) -> Result<()> {
    let name = &arguments.name;
    let remote = &arguments.everywhere.remote;
    let deleted = remote.connect()?.delete_group(name);
    deleted.map_err(|error| remote.explained(error))?;
    tell(
        arguments.everywhere.json,
        format!("deleted group {name}"),
        json!({ "deleted": name }),
    )
}

fn describe(arguments: &OneNamed) -> Result<()> {
    let mut cluster = arguments.everywhere.remote.connect()?;
    let group = cluster.group(&arguments.name)?;
    let offsets = cluster.group_offsets(&arguments.name)?;
    let standings = standings(&mut cluster, &group, offsets)?;
    tell(
        arguments.everywhere.json,
        as_text(&group, &standings),
        as_json(&group, &standings),
    )
}

/// The group's progress in one partition, and the member that reads it.
struct Standing {
    committed: Option<i64>,
    tail: Option<i64>,
    member: Option<String>,
}

impl Standing {
    fn lag(&self) -> Option<i64> {
        Some(self.tail?.saturating_sub(self.committed?).max(0))
    }
}

/// By topic and partition.
type Standings = BTreeMap<(String, i32), Standing>;

/// Of every partition that the group has committed or that a member reads.
fn standings(
    cluster: &mut Cluster,
    group: &GroupDescription,
    offsets: Vec<GroupOffset>,
) -> Result<Standings> {
    let mut standings = Standings::new();
    let nothing = || Standing {
        committed: None,
        tail: None,
        member: None,
    };
    for found in offsets {
        let entry = standings
            .entry((found.topic, found.partition))
            .or_insert_with(nothing);
        entry.committed = Some(found.offset.0);
    }
    for member in &group.members {
        for partition in &member.partitions {
            let entry = standings.entry(partition.clone()).or_insert_with(nothing);
            entry.member = Some(member.id.clone());
        }
    }
    let topics: Vec<String> = standings.keys().map(|(topic, _)| topic.clone()).collect();
    for name in topics.into_iter().collect::<BTreeSet<_>>() {
        let topic = match cluster.topic(&name) {
            Ok(topic) => topic,
            // A topic that was deleted has no tail any more.
            Err(error) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => continue,
            Err(error) => return Err(error.into()),
        };
        for (index, tail) in cluster.offsets_of_led(&topic, OffsetQuery::Latest)? {
            if let Some(entry) = standings.get_mut(&(name.clone(), index)) {
                entry.tail = tail.map(|offset| offset.0);
            }
        }
    }
    Ok(standings)
}

fn as_json(group: &GroupDescription, standings: &Standings) -> Value {
    let members = group.members.iter().map(|member| {
        let mut assignment: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, index) in &member.partitions {
            assignment.entry(topic).or_default().push(*index);
        }
        json!({
            "id": member.id,
            "instance": member.instance,
            "client_id": member.client_id,
            "host": member.host,
            "assignment": assignment,
        })
    });
    let offsets = standings.iter().map(|((topic, index), standing)| {
        json!({
            "topic": topic,
            "partition": index,
            "offset": standing.committed,
            "tail": standing.tail,
            "lag": standing.lag(),
            "member": standing.member,
        })
    });
    json!({
        "name": group.name,
        "state": group.state,
        "type": group.kind,
        "protocol": group.assignor,
        "lag": standings.values().filter_map(Standing::lag).sum::<i64>(),
        "members": members.collect::<Value>(),
        "offsets": offsets.collect::<Value>(),
    })
}

fn as_text(group: &GroupDescription, standings: &Standings) -> String {
    let lag: i64 = standings.values().filter_map(Standing::lag).sum();
    let assignor = match group.assignor.is_empty() {
        true => String::new(),
        false => format!(", assigned by {}", group.assignor),
    };
    let mut text = cleaned(&format!(
        "group {} is {} ({}{assignor}), {lag} records behind",
        group.name, group.state, group.kind
    ));
    let without = standings
        .values()
        .filter(|standing| standing.committed.is_none())
        .count();
    if without > 0 {
        text = format!(
            "{text}, and has committed nothing in {}",
            counted(without, "partition")
        );
    }
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
    if !standings.is_empty() {
        let heading = ["topic", "partition", "committed", "tail", "lag", "member"];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        rows.extend(standings.iter().map(|((topic, index), standing)| {
            vec![
                topic.clone(),
                index.to_string(),
                or_dash(standing.committed),
                or_dash(standing.tail),
                or_dash(standing.lag()),
                or_dash(standing.member.as_ref()),
            ]
        }));
        text = format!("{text}\n\n{}", table(&rows));
    }
    text
}

#[cfg(test)]
mod tests {
    use client::GroupMember;

    use super::*;

    #[test]
    fn what_clients_chose_is_no_command_to_the_terminal_and_no_row() {
        let group = GroupDescription {
            name: "billing".to_owned(),
            state: "Stable".to_owned(),
            kind: "classic",
            assignor: "range\x1b[2J".to_owned(),
            members: vec![GroupMember {
                id: "one\ntwo".to_owned(),
                instance: None,
                client_id: "\u{9b}31m".to_owned(),
                host: "/127.0.0.1".to_owned(),
                partitions: Vec::new(),
            }],
        };
        let standing = Standing {
            committed: Some(1),
            tail: Some(3),
            member: Some("one\ntwo".to_owned()),
        };
        let text = as_text(&group, &Standings::from([(("orders".to_owned(), 0), standing)]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 7, "{text:?}");
        assert_eq!(
            lines[0],
            "group billing is Stable (classic, assigned by range?[2J), 2 records behind"
        );
        assert!(
            !text.contains(|letter: char| letter.is_control() && letter != '\n'),
            "{text:?}"
        );
    }
}
