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
    let before = ways();
    let along = || {
        ways()
            .iter()
            .zip(before)
            .map(|(now, before)| now - before)
            .collect::<Vec<u64>>()
    };
    for number in 0..BATCHES {
        append_at_leader(&mut wires, 0, &format!("{number:0>VALUE_BYTES$}"));
    }
    eventually("the last in the chain has all of it", || along()[1] >= bytes);
    let along = along();
    assert!(along[0] >= bytes, "{along:?}");
    assert!(
        along[2] < bytes / 10,
        "the leader sends the last one little: {along:?}"
    );

    let second = second.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| {
        append_at_leader(&mut wires, 0, "without the second");
    });
    append_at_leader(&mut wires, 0, "with all again");
    let values = values_at_leader(&mut wires, 0);
    for value in ["the first", "without the second", "with all again"] {
        assert_eq!(
            values.iter().filter(|found| *found == value).count(),
            1,
            "{value}"
        );
    }
    assert_eq!(values.len(), BATCHES + 3);
    drop((first, second, third));
}
