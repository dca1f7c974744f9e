//! `ropewalk cluster`: the nodes of a cluster, as one of them sees it, and what becomes of them.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::output::{Output, counted, or_dash, table, tell};
use crate::progress::Progress;
use crate::remote::{OverHttp, Remote};
use crate::top::{change, look};

const EXAMPLES: &str = "\
Examples:
  ropewalk cluster status                             the nodes, who votes, who leads
  ropewalk cluster status --http log.example:8092     by way of another node
  ropewalk cluster drain 3 --wait                     node 3 gives up all that it holds
  ropewalk cluster upgrade                            use what all nodes know since the last upgrade
  ropewalk cluster replace 3 4                        node 4 gets all that node 3 holds, which is removed then
  ropewalk cluster status --json | jq '.nodes[] | select(.here | not)'";
/// Between two looks at a node that is drained.
const LOOK: Duration = Duration::from_millis(500);
/// Looks without any change after which nothing more is expected.
const LOOKS_MAX: u32 = 20;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Tell which nodes there are, which of them are reached, and who keeps the metadata
    #[command(after_help = EXAMPLES)]
    Status(OverHttp),
    /// Have a node give up all that it holds, and get nothing more
    #[command(after_help = "Examples:
  ropewalk cluster drain 3 --wait
  ropewalk cluster drain 3 --to 4      all of it goes to node 4

Others are sent what the node holds while appends go on. The node may be
running or gone. A partition that only it holds moves only while it runs.")]
    Drain(DrainArguments),
    /// Let a drained node hold something again
    #[command(after_help = "Example:
  ropewalk cluster undrain 3

Its partitions do not come back by themselves: new topics may be put
on it, and topics that get more replicas.")]
    Undrain(OneNode),
    /// Have each partition led by its first replica, and wait for that
    #[command(after_help = "Example:
  ropewalk cluster prefer

A node that is back leads its partitions again by itself, once it has had
everything for three seconds. This waits until all of them do.")]
    Prefer(Prefer),
    /// Let the cluster use what all its nodes know, after an upgrade that is to stay
    #[command(after_help = "Example:
  ropewalk cluster upgrade

A new release writes nothing that the one before cannot read until this is
said, so that each node can go back. Afterwards a node of the release
before is refused. All nodes must be there.")]
    Upgrade(OverHttp),
    /// Take a stopped node that holds nothing out of the cluster
    #[command(after_help = "Example:
  ropewalk cluster remove 3

Its directory is refused if it comes back; an empty one joins as a new node.")]
    Remove(OneNode),
    /// Have one node take the place of another one, which is drained, and removed if it is not running
    #[command(after_help = "Example:
  ropewalk cluster replace 3 4         node 3's disk is lost, and node 4 has joined in its place")]
    Replace(ReplaceArguments),
}

#[derive(Args)]
struct Prefer {
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct OneNode {
    /// The node
    #[arg(value_parser = clap::value_parser!(i32).range(0..))]
    node: i32,
    #[command(flatten)]
    asked: OverHttp,
}

#[derive(Args)]
struct DrainArguments {
    #[command(flatten)]
    of: OneNode,
    /// The node that gets it; without it, those that hold the least
    #[arg(long, value_name = "NODE", value_parser = clap::value_parser!(i32).range(0..))]
    to: Option<i32>,
    /// Wait until it holds nothing any more
    #[arg(long)]
    wait: bool,
}

#[derive(Args)]
struct ReplaceArguments {
    /// The node that goes
    #[arg(value_parser = clap::value_parser!(i32).range(0..))]
    old: i32,
    /// The node that takes its place
    #[arg(value_parser = clap::value_parser!(i32).range(0..))]
    new: i32,
    #[command(flatten)]
    asked: OverHttp,
}

pub(crate) fn run(arguments: &ClusterArguments) -> Result<()> {
    match &arguments.what {
        What::Status(asked) => status(asked),
        What::Drain(arguments) => drain(arguments),
        What::Undrain(OneNode { node, asked }) => {
            let path = format!("/v1/cluster/nodes/{node}/drain");
            change(&asked.address(), "DELETE", &path, &Value::Null)?;
            let text = format!("node {node} may hold something again");
            tell(asked.json, text, json!({ "undrained": node }))
        }
        What::Remove(OneNode { node, asked }) => {
            remove(&asked.address(), *node)?;
            let text = format!("node {node} is removed");
            tell(asked.json, text, json!({ "removed": node }))
        }
        What::Prefer(arguments) => prefer(arguments),
        What::Upgrade(asked) => upgrade(asked),
        What::Replace(arguments) => replace(arguments),
    }
}

fn prefer(arguments: &Prefer) -> Result<()> {
    let displaced = arguments.remote.connect()?.prefer_leaders()?;
    let left = || {
        let reasons = displaced
            .iter()
            .filter_map(|one| Some((one, one.still_because.as_ref()?)));
        reasons.map(|(one, why)| (&one.topic, one.partition, why))
    };
    let done = displaced.len() - left().count();
    let mut lines = vec![match displaced.len() {
        0 => "each partition is led by its first replica".to_owned(),
        count => format!(
            "{done} of {} led by others are led by their first replicas again",
            counted(count, "partition")
        ),
    }];
    lines.extend(left().map(|(topic, partition, why)| format!("{topic}-{partition}: {why}")));
    let still =
        left().map(|(topic, partition, why)| json!({ "topic": topic, "partition": partition, "why": why }));
    let still: Value = still.collect();
    tell(
        arguments.json,
        lines.join("\n"),
        json!({ "preferred": done, "still_led_by_others": still }),
    )
}

fn upgrade(asked: &OverHttp) -> Result<()> {
    let address = asked.address();
    let before = cluster_at(&address)?["feature_level"].clone();
    change(&address, "POST", "/v1/cluster/upgrade", &Value::Null)?;
    let cluster = cluster_at(&address)?;
    let now = cluster["feature_level"].clone();
    let older = behind(&cluster);
    if !older.is_empty() {
        bail!(
            "the cluster keeps feature level {now}: node(s) {} run an older release; upgrade them first",
            older.join(", ")
        );
    }
    let text = match before == now {
        true => format!("the cluster has feature level {now}, which is all that its nodes know in common"),
        false => format!("the cluster has feature level {now} now, and had {before}"),
    };
    tell(
        asked.json,
        text,
        json!({ "feature_level": now, "before": before }),
    )
}

fn status(asked: &OverHttp) -> Result<()> {
    let cluster = cluster_at(&asked.address())?;
    let mut output = Output::open();
    match asked.json {
        true => output.json(&cluster)?,
        false => output.line(shown(&cluster))?,
    }
    output.flush()
}

fn cluster_at(address: &str) -> Result<Value> {
    let text = look(address, "/v1/cluster")?;
    serde_json::from_str(&text)
        .with_context(|| format!("http://{address}/v1/cluster is not what a node of Ropewalk serves"))
}

fn drain(arguments: &DrainArguments) -> Result<()> {
    let OneNode { node, asked } = &arguments.of;
    let address = asked.address();
    begin_drain(&address, *node, arguments.to)?;
    if arguments.wait {
        until_drained(&address, *node)?;
    }
    let held = held_by(&cluster_at(&address)?, *node)?;
    let text = match held {
        0 => format!("node {node} is drained: it holds nothing"),
        held => format!(
            "node {node} is being drained: it holds {held}; `ropewalk cluster status` tells how far it is"
        ),
    };
    tell(asked.json, text, json!({ "drained": node, "holds": held }))
}

fn begin_drain(address: &str, node: i32, to: Option<i32>) -> Result<()> {
    let path = format!("/v1/cluster/nodes/{node}/drain");
    change(address, "PUT", &path, &json!({ "to": to })).map(drop)
}

fn remove(address: &str, node: i32) -> Result<()> {
    let path = format!("/v1/cluster/nodes/{node}");
    change(address, "DELETE", &path, &Value::Null).map(drop)
}

fn replace(arguments: &ReplaceArguments) -> Result<()> {
    let ReplaceArguments { old, new, asked } = arguments;
    let address = asked.address();
    begin_drain(&address, *old, Some(*new))?;
    until_drained(&address, *old)?;
    let is_here = of_node(&cluster_at(&address)?, *old).is_some_and(|node| node["here"] == true);
    if !is_here {
        remove(&address, *old)?;
    }
    let text = match is_here {
        true => format!(
            "node {new} holds all that node {old} held; stop node {old}, and remove it: ropewalk cluster remove {old}"
        ),
        false => format!("node {new} holds all that node {old} held, and node {old} is removed"),
    };
    tell(
        asked.json,
        text,
        json!({ "replaced": old, "by": new, "removed": !is_here }),
    )
}

fn of_node(cluster: &Value, node: i32) -> Option<&Value> {
    let mut nodes = cluster["nodes"].as_array()?.iter();
    nodes.find(|found| found["node"] == node)
}

/// The partitions that a node holds something of.
fn held_by(cluster: &Value, node: i32) -> Result<u64> {
    let held = of_node(cluster, node).and_then(|found| found["replicas"].as_u64());
    held.with_context(|| format!("the cluster has no node {node}"))
}

/// Waits until a node holds nothing any more, as long as that goes on.
fn until_drained(address: &str, node: i32) -> Result<()> {
    let mut progress = Progress::new(format!("draining node {node}"));
    let mut looks = 0;
    let mut least = u64::MAX;
    loop {
        let cluster = cluster_at(address)?;
        let held = held_by(&cluster, node)?;
        if held == 0 {
            return Ok(());
        }
        let changing = cluster["changing_replicas"].as_u64().unwrap_or(0);
        looks = if held < least || changing > 0 {
            0
        } else {
            looks + 1
        };
        least = least.min(held);
        if looks > LOOKS_MAX {
            bail!(
                "node {node} still holds {held} partition(s), and nothing goes on: no node is left that could take them, their leaders are \
                 away, or their topics are compacted (these have one replica in this release)"
            );
        }
        progress.say(&format!(
            "it holds {held}, and {changing} partition(s) are on their way"
        ));
        sleep(LOOK);
    }
}

fn shown(cluster: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut lines = vec![format!("cluster   {}", text(&cluster["cluster"]))];
    let group = &cluster["metadata"];
    lines.push(match group {
        Value::Null => {
            "metadata  kept by this node alone: no other can join, as it was started without --peer"
                .to_owned()
        }
        group => {
            let leader = group["leader"].as_i64();
            let led = leader.map_or_else(
                || "nobody leads: nothing can be changed until a majority is reached".to_owned(),
                |leader| format!("node {leader} leads"),
            );
            format!("metadata  {led}; votes: {}", numbers(&group["voters"]))
        }
    });
    lines.extend(level_shown(cluster));
    let here = cluster["node"].as_i64();
    lines.push(format!("seen by   node {}", or_dash(here)));
    lines.push(String::new());
    let nodes = cluster["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let has_racks = nodes.iter().any(|node| node["rack"].is_string());
    let heading = ["node", "is", "votes", "leads", "holds", "kafka", "peer"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    if has_racks {
        rows[0].push("rack".to_owned());
    }
    let has_vote = |node: i64| {
        group["voters"]
            .as_array()
            .is_some_and(|voters| voters.contains(&node.into()))
    };
    for node in cluster["nodes"].as_array().into_iter().flatten() {
        let id = node["node"].as_i64().unwrap_or(-1);
        let is = match (node["here"] == true, node["is_drained"] == true) {
            (true, false) => "here",
            (false, false) => "away",
            (true, true) => "here, drained",
            (false, true) => "away, drained",
        };
        let votes = if has_vote(id) || group.is_null() {
            "yes"
        } else {
            "no"
        };
        rows.push(vec![
            id.to_string(),
            is.to_owned(),
            votes.to_owned(),
            node["leads"].to_string(),
            node["replicas"].to_string(),
            text(&node["kafka"]),
            text(&node["peer"]),
        ]);
        if has_racks {
            rows.last_mut().expect("it was pushed").push(text(&node["rack"]));
        }
    }
    lines.push(table(&rows));
    if let Some(changing @ 1..) = cluster["changing_replicas"].as_u64() {
        lines.push(format!(
            "\nreplicas change of {}",
            counted(changing as usize, "partition")
        ));
    }
    if let Some(unclean @ 1..) = cluster["unclean_partitions"].as_u64() {
        lines.push(format!(
            "\n{} opened uncleanly: records that were acknowledged before may be lost (GET /v1/topics/{{topic}} has the epochs)",
            counted(unclean as usize, "partition")
        ));
    }
    lines.join("\n")
}

/// The nodes that know no more than the cluster's level, where others do.
fn behind(cluster: &Value) -> Vec<String> {
    let level = cluster["feature_level"].as_u64();
    let nodes = cluster["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let knows = |node: &&Value| node["knows_feature_level"].as_u64();
    if nodes.iter().all(|node| knows(&node) <= level) {
        return Vec::new();
    }
    let older = nodes.iter().filter(|node| knows(node) == level);
    older.map(|node| node["node"].to_string()).collect()
}

/// The feature level, where nodes know another one than the cluster has.
fn level_shown(cluster: &Value) -> Option<String> {
    let level = cluster["feature_level"].as_u64()?;
    let nodes = cluster["nodes"].as_array()?;
    let known = nodes.iter().map(|node| node["knows_feature_level"].as_u64());
    if known.clone().flatten().all(|known| known == level) {
        return None;
    }
    Some(match known.collect::<Option<Vec<u64>>>() {
        Some(known) if known.iter().all(|known| *known > level) => {
            format!(
                "level     {level}: all nodes know a newer one (`ropewalk cluster upgrade` if this release is to stay)"
            )
        }
        _ => format!("level     {level}: some nodes are upgraded, others are not or are away"),
    })
}

fn numbers(list: &Value) -> String {
    let numbers = list.as_array().into_iter().flatten().map(Value::to_string);
    numbers.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::shown;

    fn node(node: i32, here: bool) -> serde_json::Value {
        json!({ "node": node, "here": here, "leads": 2, "replicas": 6, "kafka": format!("h{node}:9092"), "peer": format!("h{node}:9192") })
    }

    #[test]
    fn three_nodes_of_which_one_is_away() {
        let cluster = json!({
            "cluster": "abc", "node": 2,
            "metadata": { "leader": 2, "term": 5, "voters": [1, 2, 3], "learners": [], "offset": 70 },
            "nodes": [node(1, false), node(2, true), node(3, true)],
        });
        let expected = "\
cluster   abc
metadata  node 2 leads; votes: 1, 2, 3
seen by   node 2

node  is    votes  leads  holds  kafka    peer
1     away  yes    2      6      h1:9092  h1:9192
2     here  yes    2      6      h2:9092  h2:9192
3     here  yes    2      6      h3:9092  h3:9192";
        assert_eq!(shown(&cluster), expected);
    }

    #[test]
    fn racks_and_losses_are_shown_where_there_are_some() {
        let mut lost = node(1, true);
        lost["rack"] = "east".into();
        let mut cluster = json!({
            "cluster": "abc", "node": 1, "metadata": null, "nodes": [lost, node(2, true)], "unclean_partitions": 1,
        });
        let told = shown(&cluster);
        assert!(
            told.contains("peer     rack\n") && told.contains("h1:9192  east\n"),
            "{told}"
        );
        assert!(told.contains("1 partition opened uncleanly"), "{told}");
        cluster["nodes"] = json!([node(2, true)]);
        assert!(!shown(&cluster).contains("rack"));
    }

    #[test]
    fn a_feature_level_is_shown_where_nodes_know_another_one() {
        let with = |known: [Option<u64>; 2]| {
            let mut nodes = [node(1, true), node(2, true)];
            for (node, known) in nodes.iter_mut().zip(known) {
                node["knows_feature_level"] = json!(known);
            }
            shown(
                &json!({ "cluster": "abc", "node": 1, "metadata": null, "feature_level": 2, "nodes": nodes }),
            )
        };
        assert!(!with([Some(2), Some(2)]).contains("level"));
        assert!(!with([Some(2), None]).contains("level"));
        assert!(with([Some(3), Some(2)]).contains("level     2: some nodes are upgraded"));
        assert!(with([Some(3), None]).contains("level     2: some nodes are upgraded"));
        assert!(with([Some(3), Some(3)]).contains("ropewalk cluster upgrade"));
    }

    #[test]
    fn a_cluster_without_a_leader_and_a_node_alone_say_so() {
        let mut cluster = json!({
            "cluster": "abc", "node": 1,
            "metadata": { "leader": null, "term": 5, "voters": [1, 2, 3], "learners": [], "offset": 70 },
            "nodes": [node(1, true)],
        });
        assert!(shown(&cluster).contains("nobody leads"));
        cluster["metadata"] = serde_json::Value::Null;
        assert!(shown(&cluster).contains("without --peer"));
    }
}
