//! `ropewalk group forget`: takes away what a group has committed of topics, as OffsetDelete does.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use client::GroupOffset;
use serde_json::{Value, json};

use crate::named::{Named, named};
use crate::output::{table, tell};
use crate::remote::OneNamed;

#[derive(Args)]
pub(super) struct ForgetArguments {
    #[command(flatten)]
    group: OneNamed,
    /// A topic, or one partition of it as TOPIC:PARTITION; may be repeated
    #[arg(short, long = "topic", value_name = "TOPIC[:PARTITION]", required = true, value_parser = named)]
    topics: Vec<Named>,
    /// Only show what would be forgotten
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: &ForgetArguments) -> Result<()> {
    let name = &arguments.group.name;
    let mut cluster = arguments.group.everywhere.remote.connect()?;
    let mut offsets = cluster.group_offsets(name)?;
    offsets.retain(|found| {
        let mut topics = arguments.topics.iter();
        topics.any(|named| named.is(&found.topic, found.partition))
    });
    if offsets.is_empty() {
        bail!("group {name} has committed nothing there; `ropewalk group describe` shows what it has");
    }
    if !arguments.dry_run {
        let mut partitions: BTreeMap<String, Vec<i32>> = BTreeMap::new();
        for found in &offsets {
            let of_topic = partitions.entry(found.topic.clone()).or_default();
            of_topic.push(found.partition);
        }
        let forgotten = cluster.forget_group_offsets(name, &partitions);
        forgotten.map_err(|error| arguments.group.everywhere.remote.explained(error))?;
    }
    let done = match arguments.dry_run {
        true => "would be forgotten",
        false => "were forgotten",
    };
    tell(
        arguments.group.everywhere.json,
        format!("{}\n\noffsets of group {name} {done}", as_table(&offsets)),
        as_json(name, &offsets, arguments.dry_run),
    )
}

fn as_table(offsets: &[GroupOffset]) -> String {
    let mut rows = vec![["topic", "partition", "offset"].map(str::to_owned).to_vec()];
    rows.extend(offsets.iter().map(|found| {
        vec![
            found.topic.clone(),
            found.partition.to_string(),
            found.offset.to_string(),
        ]
    }));
    table(&rows)
}

fn as_json(name: &str, offsets: &[GroupOffset], dry_run: bool) -> Value {
    let forgotten = offsets
        .iter()
        .map(|found| json!({ "topic": found.topic, "partition": found.partition, "offset": found.offset.0 }));
    json!({ "group": name, "dry_run": dry_run, "forgotten": forgotten.collect::<Value>() })
}
