//! `ropewalk group reset`: plans where a group is to go on, says so, and sets it unless it is a rehearsal.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use clap::Args;
use client::{Cluster, ErrorCode, GroupOffset, Offset, OffsetQuery, TopicMetadata};
use serde_json::{Value, json};

use crate::cut::{At, Cut, at};
use crate::failure::note;
use crate::named::{Named, named};
use crate::output::{counted, or_dash, table, tell};
use crate::remote::{OneNamed, no_partition};
use crate::time::instant_ms;
use crate::top::{http_address, http_of};

#[derive(Args)]
pub(super) struct ResetArguments {
    #[command(flatten)]
    group: OneNamed,
    /// A topic, or one partition of it as TOPIC:PARTITION; may be repeated. Without it, whatever the group has committed
    #[arg(short, long = "topic", value_name = "TOPIC[:PARTITION]", value_parser = named)]
    topics: Vec<Named>,
    #[command(flatten)]
    target: Target,
    /// With --to-cut: a node's HTTP address; without it, port 8092 of the host of --bootstrap
    #[arg(long, value_name = "HOST:PORT", env = "ROPEWALK_HTTP", value_parser = http_address)]
    http: Option<String>,
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
    /// To the first record that is not older than this: a time such as 2026-01-31T12:00:00Z, milliseconds since 1970, with or
    /// without @ before them, or an age such as 15m
    #[arg(long, value_name = "TIME", value_parser = instant_ms)]
    to_time: Option<i64>,
    /// This many records on from what is committed, or back if negative; kept within what there is
    #[arg(long, value_name = "RECORDS", allow_negative_numbers = true)]
    shift: Option<i64>,
    /// All partitions of a topic with one order to the cut at a position, as NAME@POSITION: before it lie exactly the records below the position
    #[arg(long, value_name = "NAME@POSITION", value_parser = at, conflicts_with = "topics")]
    to_cut: Option<At>,
}

/// Where a partition goes.
struct Move {
    topic: String,
    partition: i32,
    from: Option<i64>,
    to: i64,
    /// Where it was to go, if there is nothing there.
    missed: Option<i64>,
}

pub(super) fn run(arguments: &ResetArguments) -> Result<()> {
    let name = &arguments.group.name;
    let mut cluster = arguments.group.everywhere.remote.connect()?;
    let members = match cluster.group(name) {
        Ok(group) => group.members.len(),
        // A group that is not there yet may be told where to begin.
        Err(error) if error.code() == Some(ErrorCode::GroupIdNotFound) => 0,
        Err(error) => return Err(error.into()),
    };
    if members > 0 {
        let members = counted(members, "member");
        bail!("group {name} has {members}; stop its consumers first, or they would overwrite what is set");
    }
    let moves = moves(&mut cluster, arguments)?;
    if moves.is_empty() {
        bail!("group {name} has committed nothing; name what to set with --topic");
    }
    if !arguments.dry_run {
        let offset = |found: &Move| GroupOffset {
            topic: found.topic.clone(),
            partition: found.partition,
            offset: Offset(found.to),
        };
        let offsets: Vec<GroupOffset> = moves.iter().map(offset).collect();
        let set = cluster.set_group_offsets(name, &offsets);
        set.map_err(|error| arguments.group.everywhere.remote.explained(error))?;
    }
    for found in &moves {
        if let Some(missed) = found.missed {
            let (topic, partition, to) = (&found.topic, found.partition, found.to);
            note(&format!(
                "partition {partition} of topic {topic} has no offset {missed}: the nearest is {to}"
            ));
        }
    }
    let done = match arguments.dry_run {
        true => "would be set",
        false => "were set",
    };
    tell(
        arguments.group.everywhere.json,
        format!("{}\n\noffsets of group {name} {done}", as_table(&moves)),
        as_json(name, &moves, arguments.dry_run),
    )
}

/// Where everything goes that was named, or that the group has committed. What it committed of a topic or a partition that
/// is gone stays as it is.
fn moves(cluster: &mut Cluster, arguments: &ResetArguments) -> Result<Vec<Move>> {
    let committed = cluster.group_offsets(&arguments.group.name)?;
    let is_named = !arguments.topics.is_empty() || arguments.target.to_cut.is_some();
    let mut moves = Vec::new();
    let wanted = match &arguments.target.to_cut {
        Some(at) => BTreeMap::from([(at.topic.clone(), None)]),
        None => wanted(&arguments.topics, &committed),
    };
    for (name, wanted) in wanted {
        let topic = match cluster.topic(&name) {
            Err(error) if !is_named && error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {
                note(&format!("topic {name} is gone"));
                continue;
            }
            found => found?,
        };
        let there: BTreeSet<i32> = topic.partitions.iter().map(|partition| partition.index).collect();
        if let Some(absent) = wanted.iter().flatten().find(|index| !there.contains(index))
            && is_named
        {
            return Err(no_partition(&topic, *absent));
        }
        let reach = Reach::ask(cluster, &topic, arguments)?;
        let is_wanted = |index: &i32| wanted.as_ref().is_none_or(|wanted| wanted.contains(index));
        for partition in there.into_iter().filter(is_wanted) {
            let is_its = |found: &&GroupOffset| found.topic == name && found.partition == partition;
            let from = committed.iter().find(is_its).map(|found| found.offset.0);
            let (wanted, to) = reach.target(&arguments.target, &name, partition, from)?;
            moves.push(Move {
                to,
                missed: (wanted != to).then_some(wanted),
                topic: name.clone(),
                partition,
                from,
            });
        }
    }
    Ok(moves)
}

/// The topics, each with its partitions; `None` is all of them.
fn wanted(named: &[Named], committed: &[GroupOffset]) -> BTreeMap<String, Option<BTreeSet<i32>>> {
    let named = named.iter().map(|named| (named.topic.clone(), named.partition));
    let committed = committed
        .iter()
        .map(|found| (found.topic.clone(), Some(found.partition)));
    let all: Vec<_> = match named.len() {
        0 => committed.collect(),
        _ => named.collect(),
    };
    let mut wanted: BTreeMap<String, Option<BTreeSet<i32>>> = BTreeMap::new();
    for (topic, partition) in all {
        let of_topic = wanted.entry(topic).or_insert_with(|| Some(BTreeSet::new()));
        match (partition, of_topic) {
            (None, whole) => *whole = None,
            (Some(index), Some(partitions)) => {
                partitions.insert(index);
            }
            (Some(_), None) => {}
        }
    }
    wanted
}

/// The extents of a topic's partitions, and the place that is looked for in them.
struct Reach {
    first: BTreeMap<i32, i64>,
    tail: BTreeMap<i32, i64>,
    /// The first offset that is not older than the wanted time; none where all are.
    at_time: BTreeMap<i32, i64>,
    /// The offsets of a cut.
    at_cut: BTreeMap<i32, i64>,
}

impl Reach {
    fn ask(cluster: &mut Cluster, topic: &TopicMetadata, arguments: &ResetArguments) -> Result<Reach> {
        let target = &arguments.target;
        let at_cut = match &target.to_cut {
            Some(at) => {
                let http = http_of(arguments.http.as_deref(), &arguments.group.everywhere.remote);
                let cut = Cut::ask(&http, &at.topic, Some(at.position))?;
                let offset = |index| Ok((index, cut.offset(topic, index)?));
                topic
                    .partitions
                    .iter()
                    .map(|found| offset(found.index))
                    .collect::<Result<_>>()?
            }
            None => BTreeMap::new(),
        };
        let mut ask = |query| -> Result<BTreeMap<i32, i64>> {
            let offsets = cluster.offsets(topic, query)?;
            let known = offsets
                .into_iter()
                .filter_map(|(index, offset)| Some((index, offset?.0)));
            Ok(known.collect())
        };
        Ok(Reach {
            first: ask(OffsetQuery::Earliest)?,
            tail: ask(OffsetQuery::Latest)?,
            at_time: match target.to_time {
                Some(ms) => ask(OffsetQuery::Timestamp(ms))?,
                None => BTreeMap::new(),
            },
            at_cut,
        })
    }

    /// Where a partition that has got to `from` is to go, and the same kept within what there is.
    fn target(&self, target: &Target, topic: &str, partition: i32, from: Option<i64>) -> Result<(i64, i64)> {
        let first = self.first.get(&partition).copied().unwrap_or(0);
        // Whatever a broker says, there is no room before the first.
        let tail = self.tail.get(&partition).copied().unwrap_or(first).max(first);
        let at_cut = self.at_cut.get(&partition).copied();
        let wanted = match (target.to_offset.or(at_cut), target.to_time, target.shift) {
            (Some(offset), ..) => offset,
            // Nothing is as young: what comes next is.
            (_, Some(_), _) => self.at_time.get(&partition).copied().unwrap_or(tail),
            (.., Some(records)) => match from {
                Some(from) => from.saturating_add(records),
                None => bail!(
                    "the group has committed nothing in partition {partition} of {topic}: there is nothing to shift"
                ),
            },
            _ if target.to_latest => tail,
            _ => first,
        };
        // A cut may be told a moment before its partitions show all that lies below it.
        let most = if at_cut.is_some() { wanted.max(tail) } else { tail };
        Ok((wanted, wanted.clamp(first, most)))
    }
}

fn as_table(moves: &[Move]) -> String {
    let mut rows = vec![
        ["topic", "partition", "before", "offset"]
            .map(str::to_owned)
            .to_vec(),
    ];
    rows.extend(moves.iter().map(|found| {
        let (partition, to) = (found.partition.to_string(), found.to.to_string());
        vec![found.topic.clone(), partition, or_dash(found.from), to]
    }));
    table(&rows)
}

fn as_json(name: &str, moves: &[Move], dry_run: bool) -> Value {
    let moves = moves.iter().map(|found| {
        json!({ "topic": found.topic, "partition": found.partition, "before": found.from, "offset": found.to })
    });
    json!({ "group": name, "dry_run": dry_run, "offsets": moves.collect::<Value>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_named_whole_is_whole_whatever_else_is_named() {
        let name = |text| named(text).expect("a name");
        let all = wanted(&[name("a:1"), name("a"), name("b:2"), name("b:0")], &[]);
        assert_eq!(all["a"], None);
        assert_eq!(all["b"], Some(BTreeSet::from([0, 2])));
        let committed = [GroupOffset {
            topic: "c".to_owned(),
            partition: 4,
            offset: Offset(9),
        }];
        assert_eq!(wanted(&[], &committed)["c"], Some(BTreeSet::from([4])));
        assert!(!wanted(&[name("a")], &committed).contains_key("c"));
    }

    #[test]
    fn a_target_stays_within_what_there_is() {
        let reach = Reach {
            first: BTreeMap::from([(0, 5)]),
            tail: BTreeMap::from([(0, 10)]),
            at_time: BTreeMap::new(),
            at_cut: BTreeMap::from([(1, 8)]),
        };
        let none = || Target {
            to_earliest: false,
            to_latest: false,
            to_offset: None,
            to_time: None,
            shift: None,
            to_cut: None,
        };
        let at_cut = |partition| reach.target(&none(), "t", partition, None).ok();
        assert_eq!(at_cut(1), Some((8, 8)), "it is not shown so far yet");
        let to = |target: Target, from| reach.target(&target, "t", 0, from).ok().map(|(_, to)| to);
        let offset = |offset| Target {
            to_offset: Some(offset),
            ..none()
        };
        let shift = |records| Target {
            shift: Some(records),
            ..none()
        };
        assert_eq!(to(offset(1), None), Some(5));
        assert_eq!(to(offset(i64::MAX), None), Some(10));
        assert_eq!(to(shift(i64::MIN), Some(7)), Some(5));
        assert_eq!(to(shift(2), Some(7)), Some(9));
        assert_eq!(to(shift(2), None), None);
        let time = Target {
            to_time: Some(1),
            ..none()
        };
        assert_eq!(to(time, None), Some(10), "nothing is as young");
    }
}
