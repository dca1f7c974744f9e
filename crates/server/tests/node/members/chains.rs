//! Topics whose batches go from one replica to the next (`ropewalk.replication=chain`).

use std::collections::BTreeMap;

use super::{append_at_leader, created_with, leaders, three_with_votes, values_at_leader};
use crate::support::{TestNode, Wire, eventually};

const BATCHES: usize = 30;
const VALUE_BYTES: usize = 50_000;

/// The bytes that a node has sent to another one.
fn sent(from: &TestNode, to: i32) -> u64 {
    let node = format!("node=\"{to}\"}} ");
    let told = from.get("/metrics");
    let lines = told
        .lines()
        .filter(|line| line.starts_with("ropewalk_peer_sent_bytes_total"));
    let values = lines.filter_map(|line| line.split_once(&node)?.1.parse::<u64>().ok());
    values.sum()
}

fn until_nothing_is_lacking(leader: &TestNode) {
    eventually("the followers hold all of it", || {
        let told = leader.get("/metrics");
        let mut lags = told
            .lines()
            .filter(|line| line.starts_with("ropewalk_replica_lag_records{"));
        lags.all(|line| line.ends_with(" 0"))
    });
}

#[test]
fn a_leader_sends_its_batches_once_and_goes_on_without_the_next_in_the_chain() {
    let [first, second, third] = three_with_votes();
    let mut wires: BTreeMap<i32, Wire> = [(1, &first), (3, &third)]
        .map(|(id, node)| (id, node.connect()))
        .into();
    let wire = wires.get_mut(&1).expect("it is there");
    let chain = [("ropewalk.replication", "chain")];
    assert_eq!(created_with(wire, "orders", 1, &chain), 0);
    assert_eq!(leaders(wire, "orders"), [1]);
    append_at_leader(&mut wires, 0, "the first");
    let ways = || [sent(&first, 2), sent(&second, 3), sent(&first, 3)];
    let bytes = (BATCHES * VALUE_BYTES) as u64;
    // On a machine so busy that the last one stands still, the leader sends to it itself for a while.
    eventually("batches go along the chain", || {
        let before = ways();
        for number in 0..BATCHES {
            append_at_leader(&mut wires, 0, &format!("{number:0>VALUE_BYTES$}"));
        }
        until_nothing_is_lacking(&first);
        let mut along = ways();
        along
            .iter_mut()
            .zip(before)
            .for_each(|(now, before)| *now -= before);
        along[0] >= bytes && along[1] >= bytes && along[2] < bytes / 10
    });

    let second = second.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| {
        append_at_leader(&mut wires, 0, "without the second");
    });
    append_at_leader(&mut wires, 0, "with all again");
    let values = values_at_leader(&mut wires, 0);
    for value in ["the first", "without the second", "with all again"] {
        assert!(values.iter().any(|found| found == value), "{value}");
    }
    drop((first, second, third));
}
