//! Idempotent producers: InitProducerId, and what sequences are taken, ignored and refused.

use std::collections::BTreeSet;

use kafka_wire::{ErrorCode, InitProducerIdRequest, InitProducerIdResponse};

use crate::ask::deletion;
use crate::support::{TestNode, Wire, eventually, stamped_batch};

fn request() -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        ..InitProducerIdRequest::default()
    }
}

/// A producer id of its own. With it others of its block may be used: as on another connection of the core.
pub(crate) fn init(wire: &mut Wire) -> i64 {
    let response = wire.call(5, &request());
    assert_eq!((response.error_code, response.producer_epoch), (0, 0));
    response.producer_id
}

/// Produces and answers base offset and error.
fn produce(wire: &mut Wire, index: i32, batch: bytes::Bytes) -> (i64, Option<ErrorCode>) {
    let told = wire.produce("orders", index, batch);
    (told.base_offset, ErrorCode::from_code(told.error_code))
}

const OK: Option<ErrorCode> = Some(ErrorCode::None);
const OUT_OF_ORDER: (i64, Option<ErrorCode>) = (-1, Some(ErrorCode::OutOfOrderSequenceNumber));
const STALE: (i64, Option<ErrorCode>) = (-1, Some(ErrorCode::InvalidProducerEpoch));

#[test]
fn no_producer_id_is_given_twice() {
    let node = TestNode::start();
    let mut seen = BTreeSet::new();
    let mut take_ids = |node: &TestNode| {
        for _ in 0..4 {
            let mut wire = node.connect();
            for version in 0..=5 {
                let told = wire.call(version, &request());
                assert_eq!((told.error_code, told.producer_epoch), (0, 0));
                assert!(
                    told.producer_id >= 0 && seen.insert(told.producer_id),
                    "{}",
                    told.producer_id
                );
            }
        }
    };
    take_ids(&node);
    let node = node.restart();
    take_ids(&node);
    let node = node.kill_and_restart();
    take_ids(&node);
}

#[test]
fn halves_of_an_identity_are_refused() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let mut refused = |request: InitProducerIdRequest| {
        let told: InitProducerIdResponse = wire.call(5, &request);
        assert_eq!((told.producer_id, told.producer_epoch), (-1, -1));
        ErrorCode::from_code(told.error_code)
    };
    let transactional = InitProducerIdRequest {
        transactional_id: Some("t".into()),
        ..request()
    };
    // Nobody has looked for a coordinator, so there is none yet.
    assert_eq!(refused(transactional), Some(ErrorCode::NotCoordinator));
    let nameless = InitProducerIdRequest {
        transactional_id: Some("".into()),
        ..request()
    };
    assert_eq!(refused(nameless), Some(ErrorCode::InvalidRequest));
    assert_eq!(
        refused(InitProducerIdRequest {
            producer_id: 5,
            ..request()
        }),
        Some(ErrorCode::InvalidRequest)
    );
    assert_eq!(
        refused(InitProducerIdRequest {
            producer_epoch: 5,
            ..request()
        }),
        Some(ErrorCode::InvalidRequest)
    );
    let again = wire.call(
        5,
        &InitProducerIdRequest {
            producer_id: 5,
            producer_epoch: 1,
            ..request()
        },
    );
    assert_eq!(
        (again.error_code, again.producer_epoch),
        (0, 0),
        "an old identity gets a new one"
    );
}

#[test]
fn sequences_are_taken_once_and_in_order() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let id = init(&mut wire);
    let batch = |first_sequence, values: &[&str]| stamped_batch(id, 0, first_sequence, values);
    assert_eq!(produce(&mut wire, 0, batch(0, &["a", "b"])), (0, OK));
    assert_eq!(
        produce(&mut wire, 0, batch(0, &["a", "b"])),
        (0, OK),
        "again, told where it stands"
    );
    assert_eq!(
        produce(&mut wire, 0, batch(3, &["d"])),
        OUT_OF_ORDER,
        "c is missing"
    );
    assert_eq!(
        produce(&mut wire, 0, batch(1, &["b"])),
        OUT_OF_ORDER,
        "part of a batch is no repetition"
    );
    assert_eq!(produce(&mut wire, 0, batch(2, &["c"])), (2, OK));
    for (place, value) in ["d", "e", "f", "g"].into_iter().enumerate() {
        assert_eq!(
            produce(&mut wire, 0, batch(3 + place as i32, &[value])),
            (3 + place as i64, OK)
        );
    }
    assert_eq!(
        produce(&mut wire, 0, batch(2, &["c"])),
        (2, OK),
        "the last five are remembered"
    );
    let forgotten = produce(&mut wire, 0, batch(0, &["a", "b"]));
    assert_eq!(
        forgotten.0, -1,
        "older ones are refused, never stored again: {forgotten:?}"
    );
    // Partitions count by themselves, and so do producers.
    assert_eq!(produce(&mut wire, 1, batch(0, &["a"])), (0, OK));
    let other = init(&mut wire);
    assert_eq!(produce(&mut wire, 0, stamped_batch(other, 0, 0, &["z"])), (7, OK));
    assert_eq!(wire.read_all("orders", 0, 0).len(), 8);
}

#[test]
fn a_new_epoch_begins_at_zero_and_ends_the_old_one() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let id = init(&mut wire);
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 0, 0, &["a"])), (0, OK));
    assert_eq!(
        produce(&mut wire, 0, stamped_batch(id, 1, 1, &["b"])),
        OUT_OF_ORDER
    );
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 1, 0, &["b"])), (1, OK));
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 0, 1, &["zombie"])), STALE);
    assert_eq!(wire.read_all("orders", 0, 0).len(), 2);
}

#[test]
fn sequences_go_on_after_a_restart() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let id = init(&mut wire);
    assert_eq!(
        produce(&mut wire, 0, stamped_batch(id, 2, 0, &["a", "b"])),
        (0, OK)
    );
    let node = node.restart();
    let mut wire = node.connect();
    assert_eq!(
        produce(&mut wire, 0, stamped_batch(id, 2, 0, &["a", "b"])),
        (0, OK),
        "still a repetition"
    );
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 2, 2, &["c"])), (2, OK));
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 2, 2, &["c"])), (2, OK));
    assert_eq!(
        produce(&mut wire, 0, stamped_batch(id, 2, 4, &["e"])),
        OUT_OF_ORDER
    );
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 1, 0, &["zombie"])), STALE);
    assert_eq!(wire.read_all("orders", 0, 0).len(), 3);
}

/// Ids that were not handed out could push out whoever waits for an answer, and are somebody else's one day.
#[test]
fn invented_ids_are_refused_and_push_nobody_out() {
    let node = TestNode::start_with(&[("producers.per_partition_max", "3")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let id = init(&mut wire);
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 0, 0, &["a"])), (0, OK));
    for invented in [id + 1000, id + 1001, id + 1002, i64::MAX - 1, i64::MAX] {
        assert_eq!(
            produce(&mut wire, 0, stamped_batch(invented, 0, 0, &["x"])),
            (-1, Some(ErrorCode::InvalidProducerIdMapping))
        );
    }
    assert_eq!(
        produce(&mut wire, 0, stamped_batch(id, 0, 0, &["a"])),
        (0, OK),
        "a retry"
    );
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(
        produce(&mut wire, 0, stamped_batch(id, 0, 0, &["a"])),
        (0, OK),
        "a retry"
    );
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 0, 1, &["b"])), (1, OK));
    assert_eq!(wire.read_all("orders", 0, 0).len(), 2);
}

/// Short-lived producers come by the thousand: those that are new wait, and nobody's retry is written twice.
#[test]
fn new_producers_are_refused_while_those_before_them_may_retry() {
    let node = TestNode::start_with(&[
        ("producers.per_partition_max", "3"),
        ("producers.retry_horizon", "1s"),
    ]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let ids: Vec<i64> = (0..4).map(|_| init(&mut wire)).collect();
    // From an address each, as one has but half of the places.
    let mut wires = [1, 2, 3].map(|last| node.connect_from(last));
    for (offset, wire) in wires.iter_mut().enumerate() {
        let begun = produce(wire, 0, stamped_batch(ids[offset], 0, 0, &["a"]));
        assert_eq!(begun, (offset as i64, OK));
    }
    let [.., elsewhere] = &mut wires;
    let told = elsewhere.produce("orders", 0, stamped_batch(ids[3], 0, 0, &["a"]));
    if told.error_code != 0 {
        // Unless this took more than the second.
        let code = ErrorCode::from_code(told.error_code);
        assert_eq!(
            code,
            Some(ErrorCode::NotEnoughReplicas),
            "clients try again at this one"
        );
        let why = told.error_message.expect("a sentence");
        assert!(why.contains("producers.per_partition_max"), "{why}");
        assert_eq!(
            produce(&mut wire, 0, stamped_batch(ids[0], 0, 0, &["a"])),
            (0, OK)
        );
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        assert_eq!(
            produce(elsewhere, 0, stamped_batch(ids[3], 0, 0, &["a"])),
            (3, OK)
        );
    }
    assert_eq!(wire.read_all("orders", 0, 0).len(), 4);
}

/// Its second batch came while the first was refused for a passing reason: were it written, the order would be lost.
#[test]
fn a_producers_first_batch_here_has_the_first_sequence() {
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    let id = init(&mut wire);
    assert_eq!(
        produce(&mut wire, 0, stamped_batch(id, 0, 1, &["b"])),
        OUT_OF_ORDER
    );
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 0, 0, &["a"])), (0, OK));
    assert_eq!(produce(&mut wire, 0, stamped_batch(id, 0, 1, &["b"])), (1, OK));
    wire.call(5, &deletion("orders", 5_000));
    wire.create_topic("orders", 1, &[]);
    assert_eq!(
        produce(&mut wire, 0, stamped_batch(id, 0, 2, &["c"])),
        (0, OK),
        "it began in a topic of the same name"
    );
}

/// The memory for producers is the journal's, whatever a partition may remember.
#[test]
fn the_memory_for_producers_is_bounded_over_all_partitions() {
    let node = TestNode::start_with(&[("producers.bytes_per_journal", "64KiB"), ("cores", "1")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let fit = (64 << 10) / protocol::producers::PRODUCER_BYTES;
    let ids: Vec<i64> = (0..=fit / 2).map(|_| init(&mut wire)).collect();
    let mut elsewhere = node.connect_from(2);
    let mut produced = Vec::new();
    for (index, id) in ids.iter().enumerate() {
        let wire = if index % 2 == 0 { &mut wire } else { &mut elsewhere };
        produced.push(produce(wire, 0, stamped_batch(*id, 0, 0, &["a"])).1);
        produced.push(produce(wire, 1, stamped_batch(*id, 0, 0, &["a"])).1);
    }
    let accepted = produced.iter().filter(|code| **code == OK).count();
    assert_eq!(accepted, fit);
    assert_eq!(produced.last(), Some(&Some(ErrorCode::NotEnoughReplicas)));
    assert_eq!(
        produce(&mut wire, 1, stamped_batch(ids[0], 0, 0, &["a"])),
        (0, OK)
    );
    wire.call(5, &deletion("orders", 5_000));
    wire.create_topic("orders", 1, &[]);
    let last = *ids.last().expect("some");
    assert_eq!(
        produce(&mut wire, 0, stamped_batch(last, 0, 0, &["a"])),
        (0, OK),
        "there is room again"
    );
}

/// Produces the first batch of a new producer, and answers why it was refused, if it was.
fn begin(wire: &mut Wire, index: i32, id: i64) -> Option<String> {
    let told = wire.produce("orders", index, stamped_batch(id, 0, 0, &["a"]));
    match ErrorCode::from_code(told.error_code) {
        OK => None,
        code => {
            assert_eq!(
                code,
                Some(ErrorCode::NotEnoughReplicas),
                "clients try again at it"
            );
            Some(told.error_message.expect("a sentence").to_string())
        }
    }
}

#[test]
fn one_address_does_not_keep_a_partitions_places_from_others() {
    let node = TestNode::start_with(&[("producers.per_partition_max", "4")]);
    let (mut wire, mut greedy) = (node.connect(), node.connect_from(9));
    wire.create_topic("orders", 1, &[]);
    let ids: Vec<i64> = (0..4).map(|_| init(&mut greedy)).collect();
    assert_eq!(begin(&mut greedy, 0, ids[0]), None);
    assert_eq!(begin(&mut greedy, 0, ids[1]), None);
    let why = begin(&mut greedy, 0, ids[2]).expect("its half is taken");
    assert!(
        why.contains("address") && why.contains("producers.per_partition_max"),
        "{why}"
    );
    let mut again = node.connect_from(9);
    assert!(
        begin(&mut again, 0, ids[2]).is_some(),
        "another connection is no other address"
    );
    assert_eq!(
        produce(&mut greedy, 0, stamped_batch(ids[0], 0, 0, &["a"])),
        (0, OK),
        "a retry"
    );
    assert_eq!(
        produce(&mut greedy, 0, stamped_batch(ids[0], 0, 1, &["b"])),
        (2, OK)
    );
    assert_eq!(begin(&mut wire, 0, ids[2]), None, "others get the rest");
    assert_eq!(
        produce(&mut greedy, 0, stamped_batch(ids[2], 0, 1, &["b"])),
        (4, OK)
    );
    let node = node.kill_and_restart();
    let mut greedy = node.connect_from(9);
    assert_eq!(
        produce(&mut greedy, 0, stamped_batch(ids[1], 0, 0, &["a"])),
        (1, OK),
        "a retry"
    );
    assert_eq!(
        begin(&mut greedy, 0, ids[3]),
        None,
        "what was there at the start counts for nobody"
    );
}

#[test]
fn one_address_does_not_keep_a_journals_memory_for_producers_from_others() {
    let node = TestNode::start_with(&[("producers.bytes_per_journal", "64KiB"), ("cores", "1")]);
    let (mut wire, mut greedy) = (node.connect(), node.connect_from(9));
    wire.create_topic("orders", 2, &[]);
    let half = (64 << 10) / protocol::producers::PRODUCER_BYTES / 2;
    let ids: Vec<i64> = (0..=half / 2).map(|_| init(&mut greedy)).collect();
    let (last, first) = ids.split_last().expect("some");
    for id in first {
        assert_eq!(begin(&mut greedy, 0, *id), None);
        assert_eq!(begin(&mut greedy, 1, *id), None);
    }
    let why = begin(&mut greedy, 1, *last).expect("its half is taken");
    assert!(
        why.contains("address") && why.contains("producers.bytes_per_journal"),
        "{why}"
    );
    assert_eq!(
        produce(&mut greedy, 1, stamped_batch(ids[0], 0, 0, &["a"])),
        (0, OK),
        "a retry"
    );
    assert_eq!(begin(&mut wire, 1, *last), None, "others get the rest");
    wire.call(5, &deletion("orders", 5_000));
    wire.create_topic("orders", 1, &[]);
    assert_eq!(
        begin(&mut greedy, 0, *last),
        None,
        "a partition that goes gives its places back"
    );
}

#[test]
fn an_address_gets_the_places_back_of_producers_that_cannot_retry_any_more() {
    let node = TestNode::start_with(&[
        ("producers.per_partition_max", "4"),
        ("producers.retry_horizon", "1s"),
        ("retention.check_interval", "10ms"),
    ]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    for _ in 0..3 {
        let id = init(&mut wire);
        eventually("the address has a place again", || {
            begin(&mut wire, 0, id).is_none()
        });
    }
}
