//! `ropewalk cluster`: the nodes of a cluster, as one of them sees it.

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::output::{Output, or_dash, table};
use crate::remote::Remote;
use crate::top::{http_address, http_of, look};

const EXAMPLES: &str = "\
Examples:
  ropewalk cluster status                             the nodes, who votes, who leads
  ropewalk cluster status --http log.example:8092     by way of another node
  ropewalk cluster status --json | jq '.nodes[] | select(.here | not)'";

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
    Status(StatusArguments),
}

#[derive(Args)]
struct StatusArguments {
    /// A node's HTTP address; without it, port 8092 of the host of --bootstrap
    #[arg(long, value_name = "HOST:PORT", env = "ROPEWALK_HTTP", value_parser = http_address)]
    http: Option<String>,
    #[command(flatten)]
    remote: Remote,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ClusterArguments) -> Result<()> {
    let What::Status(arguments) = &arguments.what;
    let address = http_of(arguments.http.as_deref(), &arguments.remote);
    let text = look(&address, "/v1/cluster")?;
    let cluster: Value = serde_json::from_str(&text)
        .with_context(|| format!("http://{address}/v1/cluster is not what a node of Ropewalk serves"))?;
    let mut output = Output::open();
    match arguments.json {
        true => output.json(&cluster)?,
        false => output.line(shown(&cluster))?,
    }
    output.flush()
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
    let here = cluster["node"].as_i64();
    lines.push(format!("seen by   node {}", or_dash(here)));
    lines.push(String::new());
    let heading = ["node", "is", "votes", "leads", "holds", "kafka", "peer"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let has_vote = |node: i64| {
        group["voters"]
            .as_array()
            .is_some_and(|voters| voters.contains(&node.into()))
    };
    for node in cluster["nodes"].as_array().into_iter().flatten() {
        let id = node["node"].as_i64().unwrap_or(-1);
        let is = if node["here"].as_bool() == Some(true) {
            "here"
        } else {
            "away"
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
    }
    lines.push(table(&rows));
    lines.join("\n")
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
