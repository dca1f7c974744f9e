//! Idempotent producers: InitProducerId, and what sequences are taken, ignored and refused.

use std::collections::HashSet;

use kafka_wire::{ErrorCode, InitProducerIdRequest, InitProducerIdResponse};

use crate::support::{TestNode, Wire, stamped_batch};

fn request() -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        ..InitProducerIdRequest::default()
    }
}

fn init(wire: &mut Wire) -> i64 {
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
    let mut seen = HashSet::new();
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
fn transactions_are_refused_in_a_way_that_clients_give_up_on() {
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
    assert_eq!(
        refused(transactional),
        Some(ErrorCode::TransactionalIdAuthorizationFailed)
    );
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
