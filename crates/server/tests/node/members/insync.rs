//! `min.insync.replicas` above the quorum: every replica has to hold a batch before it is acknowledged, and what the quorum holds is read all the same.

use std::collections::BTreeMap;

use kafka_wire::ErrorCode;

use super::{append_at_leader, created_with, leaders, three_with_votes, values_at_leader};
use crate::support::{Wire, batch, eventually, now_ms, produce_request};

#[test]
fn all_three_replicas_are_waited_for_while_they_are_there() {
    let [first, second, third] = three_with_votes();
    let mut wires: BTreeMap<i32, Wire> = [(1, &first), (2, &second)]
        .map(|(id, node)| (id, node.connect()))
        .into();
    let wire = wires.get_mut(&1).expect("it is there");
    assert_eq!(
        created_with(wire, "orders", 1, &[("min.insync.replicas", "3")]),
        0
    );
    append_at_leader(&mut wires, 0, "on three");

    let third = third.restart_with(&[("peer.listen", "127.0.0.1:0")], |_| {
        let wire = wires.get_mut(&1).expect("it is there");
        eventually("two of three are not enough", || {
            let code = wire.produce("orders", 0, batch(&[(now_ms(), "late")])).error_code;
            code == ErrorCode::NotEnoughReplicas.code()
        });
        // Who waits for the leader alone, and who reads, is served.
        let alone = produce_request("orders", 0, batch(&[(now_ms(), "on one")]), 1);
        let told = wire
            .call(9, &alone)
            .responses
            .remove(0)
            .partition_responses
            .remove(0);
        assert_eq!(told.error_code, 0);
        eventually("what two hold is read", || {
            let values = values_at_leader(&mut wires, 0);
            values.contains(&"on three".to_owned()) && values.contains(&"on one".to_owned())
        });
    });
    append_at_leader(&mut wires, 0, "on three again");
    let wire = wires.get_mut(&1).expect("it is there");
    assert_eq!(leaders(wire, "orders"), [1]);
    drop((first, second, third));
}
