//! The figures of each node about the others: those that are away, and the records that replicas lack.

use std::collections::BTreeMap;

use super::{append_at_leader, created, three_with_votes};
use crate::support::{TestNode, Wire, eventually};

/// The sum of a metric over what it is told of, of all these nodes.
fn sum(nodes: &[&TestNode], metric: &str) -> u64 {
    let told = nodes.iter().map(|node| node.get("/metrics"));
    let values = told.map(|text| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(metric));
        let values = lines.filter(|rest| rest.starts_with(['{', ' ']));
        let values = values.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum::<u64>()
    });
    values.sum()
}

#[test]
fn who_is_away_and_what_its_replicas_lack_is_told() {
    let [first, second, third] = three_with_votes();
    let mut wires: BTreeMap<i32, Wire> = [(1, &first), (2, &second)]
        .map(|(id, node)| (id, node.connect()))
        .into();
    assert_eq!(created(wires.get_mut(&1).expect("it is there"), "orders", 3), 0);
    let all = [&first, &second, &third];
    eventually("a topic at rest lacks nothing", || {
        sum(&all, "ropewalk_led_partitions") == 3 && sum(&all, "ropewalk_short_partitions") == 0
    });
    assert_eq!(sum(&all, "ropewalk_metadata_leader"), 1);
    assert_eq!(sum(&all, "ropewalk_nodes"), 9);
    assert_eq!(sum(&all, "ropewalk_nodes_away"), 0);
    assert_eq!(sum(&all, "ropewalk_leaderless_partitions"), 0);
    assert!(sum(&all, "ropewalk_peer_sent_bytes_total") > 0);

    let third = third.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| {
        for index in 0..3 {
            append_at_leader(&mut wires, index, "meanwhile");
        }
        let rest = [&first, &second];
        eventually("the third lacks a record of each", || {
            sum(&rest, "ropewalk_led_partitions") == 3
                && sum(&rest, "ropewalk_short_partitions") == 3
                && sum(&rest, "ropewalk_replicas_behind") == 3
                && sum(&rest, "ropewalk_replica_lag_records") == 3
        });
        assert_eq!(sum(&rest, "ropewalk_nodes_away"), 2, "each sees that one is away");
        assert_eq!(sum(&rest, "ropewalk_leaderless_partitions"), 0);
    });
    let all = [&first, &second, &third];
    eventually("it has been given what it lacked", || {
        sum(&all, "ropewalk_short_partitions") == 0 && sum(&all, "ropewalk_replica_lag_records") == 0
    });
    assert!(sum(&all, "ropewalk_shipped_bytes_total") > 0);
    assert!(sum(&all, "ropewalk_peer_connections_lost_total") > 0);
}
