//! The dashboard and the alerts name metrics that there are, and the dashboard is one.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::client::Http;
use crate::support::{TestNode, eventually};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana");

fn file(name: &str) -> String {
    std::fs::read_to_string(format!("{FOLDER}/{name}")).expect("it is in the source tree")
}

/// All metrics of ours that a text names.
fn named(text: &str) -> BTreeSet<&str> {
    let in_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    text.split(|character| !in_name(character))
        .filter(|word| word.starts_with("ropewalk_"))
        .collect()
}

#[test]
fn every_metric_that_is_named_is_there() {
    let peers = ("peer.listen", "127.0.0.1:0");
    let node = TestNode::start_with(&[("groups.lag_check_interval", "10ms"), peers]);
    // Of Kafka's APIs only those are told of that somebody has asked for, of topics only those that are used, of errors only
    // those that were told, and of groups only those that have committed.
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    assert_ne!(wire.produce("orders", 0, "no batch").error_code, 0);
    let offset = r#"[{"topic":"orders","partition":0,"offset":0}]"#;
    assert_eq!(
        Http::of(&node).patch("/v1/groups/readers/offsets", offset).status,
        200
    );
    // Of other nodes only those are told of that hold something together with this one.
    let address = node.peer_address().to_string();
    let _other = TestNode::start_with(&[("cluster.join", &address), peers]);
    wire.create_topic("shared", 2, &[]);
    // Among the figures are some that are known a moment after the start.
    let mut metrics = String::new();
    const LATE: [&str; 3] = ["disk_free_bytes ", "group_lag_records{", "replicas_behind{"];
    eventually(
        "the free space, the group's lag and the other node's replicas are known",
        || {
            metrics = node.get("/metrics");
            LATE.iter()
                .all(|name| metrics.contains(&format!("\nropewalk_{name}")))
        },
    );
    let there: BTreeSet<&str> = metrics
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    for name in ["ropewalk.json", "alerts.yml"] {
        let text = file(name);
        let named = named(&text);
        assert!(named.len() > 5, "{name} names metrics");
        let missing: Vec<&&str> = named.iter().filter(|metric| !there.contains(*metric)).collect();
        assert!(missing.is_empty(), "{name} names what there is not: {missing:?}");
    }
}

#[test]
fn the_dashboard_can_be_imported() {
    let dashboard: Value = serde_json::from_str(&file("ropewalk.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(
            ids.insert(panel["id"].as_i64().expect("an id")),
            "each panel has its own id"
        );
        assert!(
            panel["gridPos"]["w"].is_u64() && panel["title"].is_string(),
            "{panel}"
        );
        if panel["type"] != "row" {
            let targets = panel["targets"].as_array().expect("targets");
            assert!(
                !targets.is_empty() && targets.iter().all(|target| target["expr"].is_string()),
                "{panel}"
            );
        }
    }
}
