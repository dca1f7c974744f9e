//! Appends over HTTP wait in the turns of their clients' addresses, as those over Kafka's protocol do.

use std::sync::mpsc;

use bytes::Bytes;
use platform::disk::SimulatedDisk;
use protocol::metadata::{NewTopic, Plans, fresh_topic_id};
use record::{BatchBuilder, Compression, PartitionId};
use shard::Conditions;

use crate::caller::{Caller, Listener};
use crate::http::cores::Cores;
use crate::http::others::Lines;
use crate::node::tests::{change, facts_of, start_on, wait};

/// A batch of so many records unpacks to more than a core examines by itself.
const RECORDS: i64 = 100_000;
const BATCHES_OF_ONE: i64 = 16;

fn heavy_batch() -> Bytes {
    let mut builder = BatchBuilder::new(Compression::Zstd);
    for _ in 0..RECORDS {
        builder.append(0, None, Some(b"value"), &[]);
    }
    builder.build()
}

#[test]
fn a_client_waits_for_a_batch_of_each_other_client_and_not_for_all_of_one() {
    let node = start_on(&SimulatedDisk::new(), 1).expect("the node starts");
    let topic = NewTopic {
        id: fresh_topic_id([7; 16]),
        name: "orders".into(),
        partition_count: 1,
        replica_count: 1,
        chosen: None,
        config: Vec::new(),
    };
    let partition = PartitionId {
        topic: topic.id,
        index: 0,
    };
    change(&node, move |metadata| {
        metadata.plan_topic(&topic, &mut Plans::default())
    });
    let cores = Cores {
        facts: facts_of(&node),
        lines: Lines::default(),
    };
    // The core is held up until all have come.
    let (hold, held) = mpsc::channel::<()>();
    let mailboxes = &cores.facts.mailboxes;
    mailboxes.send(0, move |_| assert!(held.recv().is_err()));
    let [greedy, modest] = [1, 2].map(|last| Caller::at(([127, 0, 0, last], 7).into(), Listener::Http));
    let batch = heavy_batch();
    let of_greedy: Vec<_> = (0..BATCHES_OF_ONE)
        .map(|_| cores.append(&greedy, partition, batch.clone(), Conditions::default()))
        .collect();
    let of_modest = cores.append(&modest, partition, batch, Conditions::default());
    drop(hold);
    let appended = wait(of_modest).expect("the core runs").expect("a sound batch");
    let batches_before = appended.first_offset.0 / RECORDS;
    // Some of them may be examined before the core has taken all letters. Without turns all of them go first.
    assert!(batches_before < BATCHES_OF_ONE, "all {BATCHES_OF_ONE} went first");
    for answer in of_greedy {
        wait(answer).expect("the core runs").expect("a sound batch");
    }
}
