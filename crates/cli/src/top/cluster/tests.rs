//! Figures of a cluster that was not there.

use super::super::exposition::Exposition;
use super::*;

/// The metrics of node 1 of three, of which node 3 was lost and node 2 is sent what it lacks.
const BEFORE: &str = "\
ropewalk_nodes 3
ropewalk_nodes_away 0
ropewalk_peer_connections{core=\"0\",node=\"2\"} 2
ropewalk_peer_connections_lost_total{core=\"0\",node=\"2\"} 1
ropewalk_peer_connections_lost_total{core=\"0\",node=\"3\"} 4
ropewalk_peer_connections_lost_total{core=\"1\",node=\"3\"} 2
ropewalk_peer_sent_bytes_total{core=\"0\",node=\"2\"} 1000
ropewalk_peer_sent_bytes_total{core=\"0\",node=\"3\"} 500
ropewalk_epochs_opened_total{core=\"0\",journal=\"0\"} 10
ropewalk_epochs_opened_total{core=\"1\",journal=\"1\"} 20
ropewalk_epochs_ended_total{core=\"0\",journal=\"0\"} 3
ropewalk_shipped_bytes_total{core=\"0\",journal=\"0\"} 0
";
const NOW: &str = "\
ropewalk_nodes 3
ropewalk_nodes_away 1
ropewalk_metadata_leader 1
ropewalk_leaderless_partitions 2
ropewalk_peer_connections{core=\"0\",node=\"2\"} 2
ropewalk_peer_connections{core=\"1\",node=\"2\"} 1
ropewalk_peer_connections{core=\"0\",node=\"3\"} 0
ropewalk_peer_connections{core=\"1\",node=\"3\"} 0
ropewalk_peer_connections_lost_total{core=\"0\",node=\"2\"} 1
ropewalk_peer_connections_lost_total{core=\"0\",node=\"3\"} 6
ropewalk_peer_connections_lost_total{core=\"1\",node=\"3\"} 3
ropewalk_peer_queued_bytes{core=\"0\",node=\"2\"} 2048
ropewalk_peer_queued_bytes{core=\"0\",node=\"3\"} 0
ropewalk_peer_sent_bytes_total{core=\"0\",node=\"2\"} 9192
ropewalk_peer_sent_bytes_total{core=\"0\",node=\"3\"} 500
ropewalk_led_partitions{core=\"0\",journal=\"0\"} 7
ropewalk_led_partitions{core=\"1\",journal=\"1\"} 5
ropewalk_opening_partitions{core=\"0\",journal=\"0\"} 1
ropewalk_short_partitions{core=\"0\",journal=\"0\"} 4
ropewalk_epochs_opened_total{core=\"0\",journal=\"0\"} 12
ropewalk_epochs_opened_total{core=\"1\",journal=\"1\"} 21
ropewalk_epochs_ended_total{core=\"0\",journal=\"0\"} 4
ropewalk_shipped_bytes_total{core=\"0\",journal=\"0\"} 4194304
ropewalk_deferred_bytes{core=\"0\",journal=\"0\"} 1536
ropewalk_repairs_total{core=\"0\",journal=\"0\"} 1
ropewalk_replicas_behind{core=\"0\",journal=\"0\",node=\"2\"} 1
ropewalk_replicas_behind{core=\"0\",journal=\"0\",node=\"3\"} 3
ropewalk_replicas_behind{core=\"1\",journal=\"1\",node=\"3\"} 1
ropewalk_replica_lag_records{core=\"0\",journal=\"0\",node=\"2\"} 40
ropewalk_replica_lag_records{core=\"0\",journal=\"0\",node=\"3\"} 12000
";

/// The cluster two seconds after `before`.
fn seen(before: &str, now: &str) -> Option<ClusterView> {
    let [before, now] = [before, now].map(|text| Exposition::parse(text).expect("metrics"));
    ClusterView::of(&Growth {
        before: &before,
        now: &now,
        seconds: 2.0,
    })
}

/// Three nodes, of which one is away.
pub(in super::super) fn a_cluster() -> ClusterView {
    seen(BEFORE, NOW).expect("there are others")
}

/// The lines and the rows, as they are shown.
fn text(view: &ClusterView) -> String {
    let lines = view
        .lines()
        .map(|(word, figures)| format!("{word:9} {figures}\n"));
    let heading = NODE_HEADING.map(str::to_owned).to_vec();
    lines.concat() + &crate::output::table(&[vec![heading], view.node_rows()].concat())
}

#[test]
fn a_cluster_has_two_lines_and_a_row_for_each_other_node() {
    let text = text(&a_cluster());
    assert_eq!(
        text,
        "\
cluster   3 nodes  1 away  metadata leader yes  leaderless 2  epochs +3 -1
led       12  opening 1  short 4  repairs 1  shipped 2 MiB/s  deferred 1.50 KiB
node      connections  sent/s  queued  lost  replicas behind  lag
2         3            4 KiB   2 KiB   0     1                40
3 (away)  0            0 B     0 B     3     4                12 k"
    );
    assert!(text.lines().all(|line| line.len() < 80), "{text}");
}

#[test]
fn json_has_the_same_figures() {
    let json = a_cluster().as_json();
    let node = |number: u64, away, connections, sent, queued, lost, behind, lag| {
        json!({
            "node": number, "away": away, "connections": connections, "sent_bytes_per_second": sent,
            "queued_bytes": queued, "lost_connections": lost, "replicas_behind": behind, "lag_records": lag,
        })
    };
    let expected = json!({
        "node_count": 3.0, "nodes_away": 1.0, "leads_metadata": true, "leaderless_partitions": 2.0,
        "led_partitions": 12.0, "opening_partitions": 1.0, "short_partitions": 4.0,
        "epochs_opened": 3.0, "epochs_ended": 1.0, "shipped_bytes_per_second": 2_097_152.0,
        "deferred_bytes": 1536.0, "repairs": 1.0,
        "nodes": [
            node(2, false, 3.0, 4096.0, 2048.0, 0.0, 1.0, 40.0),
            node(3, true, 0.0, 0.0, 0.0, 3.0, 4.0, 12_000.0),
        ],
    });
    assert_eq!(json, expected);
}

#[test]
fn a_node_that_is_alone_shows_no_cluster() {
    let alone = "ropewalk_led_partitions{core=\"0\",journal=\"0\"} 0\n";
    assert!(seen(alone, alone).is_none());
    assert!(seen("ropewalk_nodes 1\n", "ropewalk_nodes 1\n").is_none());
}

#[test]
fn what_is_not_told_is_not_known() {
    // Core 0 is silent, which alone knows the nodes.
    let told = "ropewalk_peer_connections{core=\"1\",node=\"2\"} 1\n";
    let view = seen("", told).expect("there is another");
    assert_eq!(
        text(&view),
        "\
cluster   - nodes  - away  metadata leader -  leaderless -  epochs -
led       -  opening -  short -  repairs -  shipped -/s  deferred -
node  connections  sent/s  queued  lost  replicas behind  lag
2     1            -       -       -     -                -"
    );
    let json = view.as_json();
    assert_eq!(json["leads_metadata"], Value::Null);
    assert_eq!(json["nodes"][0]["sent_bytes_per_second"], Value::Null);
}

#[test]
fn nodes_are_in_order_and_those_never_reached_are_among_them() {
    let told = "ropewalk_nodes 4\nropewalk_nodes_away 1\nropewalk_peer_connections{node=\"10\"} 1\n\
        ropewalk_peer_connections{node=\"2\"} 1\nropewalk_replicas_behind{node=\"3\"} 5\n";
    let rows = seen(told, told).expect("there are others").node_rows();
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["2", "3 (away)", "10"]);
}

#[test]
fn a_removed_node_has_no_row() {
    let left = "ropewalk_nodes 2\nropewalk_nodes_away 0\nropewalk_peer_connections{node=\"2\"} 1\n\
        ropewalk_peer_connections{node=\"3\"} 0\n";
    let rows = seen(left, left).expect("there is another").node_rows();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0][0], "2");
}

#[test]
fn a_node_away_or_a_partition_without_leader_is_an_ailment() {
    assert!(a_cluster().is_ailing());
    let told = |away, leaderless| {
        let now = format!(
            "ropewalk_nodes 3\nropewalk_nodes_away {away}\nropewalk_leaderless_partitions {leaderless}\n\
             ropewalk_short_partitions 4\n"
        );
        seen("", &now).expect("there are others").is_ailing()
    };
    assert!(told(1, 0) && told(0, 1));
    assert!(!told(0, 0));
}
