//! `top` beside nodes of a cluster: the watched node, the others, and one that is lost.

use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::support::RunningNode;

/// The time that a cluster may take to be as it should.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that others can join, and that joins another one.
fn node(of: Option<&RunningNode>) -> (TempDir, RunningNode) {
    let directory = tempdir().expect("a temporary directory");
    let peer = |line: &String| line.strip_prefix("  peer   ").map(str::to_owned);
    let join = of.map(|node| node.greeting.iter().find_map(peer).expect("it listens"));
    let join = join.map(|address| format!("cluster.join={address}"));
    let mut sets = vec!["disk.reserve_bytes=0", "peer.listen=127.0.0.1:0"];
    sets.extend(join.as_deref());
    let node = RunningNode::start_with(&directory, &sets);
    (directory, node)
}

/// Looks at the node until its cluster is as it should be.
fn cluster_when(node: &RunningNode, is_expected: impl Fn(&Value) -> bool) -> Value {
    let http = node.http_address();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let printed = node.run(&["top", "--once", "--json", "--http", &http]).printed();
        let figures: Value = serde_json::from_str(&printed).expect("JSON");
        if is_expected(&figures["cluster"]) {
            return figures["cluster"].clone();
        }
        assert!(Instant::now() < deadline, "{figures}");
    }
}

#[test]
fn a_node_of_a_cluster_is_watched_with_the_others() {
    let (_one, one) = node(None);
    let (_two, _second) = node(Some(&one));
    let (_three, third) = node(Some(&one));
    one.run(&["topic", "create", "orders", "--partitions", "6"])
        .printed();
    let whole = cluster_when(&one, |cluster| {
        let nodes = cluster["nodes"].as_array().map_or(0, Vec::len);
        let is_calm = cluster["short_partitions"] == 0.0 && cluster["opening_partitions"] == 0.0;
        nodes == 2 && cluster["nodes_away"] == 0.0 && cluster["led_partitions"] == 2.0 && is_calm
    });
    assert_eq!(
        (&whole["node_count"], &whole["leads_metadata"]),
        (&3.0.into(), &true.into())
    );
    for (node, number) in [(0, 2), (1, 3)] {
        let node = &whole["nodes"][node];
        assert_eq!((&node["node"], &node["away"]), (&number.into(), &false.into()));
        assert!(node["connections"].as_f64() > Some(0.0), "{node}");
        assert_eq!(node["replicas_behind"], 0.0, "{node}");
    }

    drop(third);
    let short = cluster_when(&one, |cluster| {
        cluster["nodes_away"] == 1.0 && cluster["nodes"][1]["replicas_behind"].as_f64() > Some(0.0)
    });
    assert_eq!(short["nodes"][1]["away"], true, "{short}");
    let text = one
        .run(&["top", "--once", "--http", &one.http_address()])
        .printed();
    for part in [
        "\ncluster   3 nodes  1 away  metadata leader yes  ",
        "\nnode      connections  sent/s",
        "\n3 (away)  0 ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
