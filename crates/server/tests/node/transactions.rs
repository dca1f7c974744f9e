//! Transactions: what producers of both versions are told, what readers of committed records see, and what is refused.

use bytes::Bytes;
use kafka_wire::add_partitions_to_txn::AddPartitionsToTxnTopic;
use kafka_wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_wire::write_txn_markers::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_wire::{
    AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest, EndTxnResponse, ErrorCode,
    FindCoordinatorRequest, InitProducerIdRequest, ListOffsetsRequest, ListTransactionsRequest, Text,
    WriteTxnMarkersRequest,
};
use record::{BatchBuilder, Compression};

use crate::ask::code;
use crate::support::{TestNode, Wire, eventually, fetch_request, now_ms, produce_request, stamped_batch};

const READ_COMMITTED: i8 = 1;
/// The versions of Produce with which partitions are added by their producers, and by their leaders.
const FIRST: i16 = 9;
const SECOND: i16 = 12;

/// A producer with a transactional id, over one connection.
struct Producer {
    wire: Wire,
    id: i64,
    epoch: i16,
    sequence: i32,
}

impl Producer {
    fn begin(node: &TestNode) -> Producer {
        let mut wire = node.connect();
        let find = FindCoordinatorRequest {
            key_type: 1,
            coordinator_keys: vec![Text::from("mine")],
            ..FindCoordinatorRequest::default()
        };
        let found = wire.call(4, &find);
        assert_eq!(code(found.coordinators[0].error_code), ErrorCode::None);
        let mut told = wire.call(5, &init("mine"));
        eventually("the coordinator has its log", || {
            if told.error_code != 0 {
                told = wire.call(5, &init("mine"));
            }
            told.error_code == 0
        });
        Producer {
            wire,
            id: told.producer_id,
            epoch: told.producer_epoch,
            sequence: 0,
        }
    }

    fn batch(&self, value: &str) -> Bytes {
        let mut builder =
            BatchBuilder::new(Compression::None).with_producer(self.id, self.epoch, self.sequence);
        builder.set_transactional(true);
        builder.append(now_ms(), Some(b"key"), Some(value.as_bytes()), &[]);
        builder.build()
    }

    /// Produces to partition 0 in a version.
    fn try_produce(&mut self, version: i16, topic: &str, value: &str) -> ErrorCode {
        let mut request = produce_request(topic, 0, self.batch(value), -1);
        request.transactional_id = Some(Text::from("mine"));
        let told = self.wire.call(version, &request);
        code(told.responses[0].partition_responses[0].error_code)
    }

    fn produce(&mut self, version: i16, topic: &str, value: &str) {
        assert_eq!(
            self.try_produce(version, topic, value),
            ErrorCode::None,
            "{value}"
        );
        self.sequence += 1;
    }

    fn add(&mut self, topic: &str) -> ErrorCode {
        let add = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: Text::from("mine"),
            v3_and_below_producer_id: self.id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: Text::from(topic),
                partitions: vec![0],
            }],
            ..AddPartitionsToTxnRequest::default()
        };
        let told = self.wire.call(3, &add);
        code(told.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
    }

    fn end(&mut self, version: i16, committed: bool) -> EndTxnResponse {
        let end = EndTxnRequest {
            transactional_id: Text::from("mine"),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed,
        };
        self.wire.call(version, &end)
    }

    /// Ends it as a producer of the second version does, and takes the next epoch.
    fn end_second(&mut self, committed: bool) {
        let told = self.end(5, committed);
        assert_eq!(code(told.error_code), ErrorCode::None);
        assert_eq!(told.producer_epoch, self.epoch + 1);
        (self.id, self.epoch, self.sequence) = (told.producer_id, told.producer_epoch, 0);
    }
}

fn init(id: &str) -> InitProducerIdRequest {
    InitProducerIdRequest {
        transactional_id: Some(Text::from(id)),
        transaction_timeout_ms: 60_000,
        ..InitProducerIdRequest::default()
    }
}

/// A fetch of partition 0: the values as a consumer sorts them out, the end of what is stable, and the most that was told to be aborted.
fn read(wire: &mut Wire, topic: &str, isolation: i8) -> (Vec<String>, i64, usize) {
    let (mut values, mut from, mut most_aborted) = (Vec::new(), 0, 0);
    loop {
        let mut request = fetch_request(topic, 0, from);
        request.isolation_level = isolation;
        let told = wire.call(12, &request).responses.remove(0).partitions.remove(0);
        let aborted = told.aborted_transactions.unwrap_or_default();
        let aborted = aborted
            .iter()
            .map(|of| (of.producer_id, record::Offset(of.first_offset)));
        let mut committed = record::CommittedBatches::new(aborted.clone());
        most_aborted = most_aborted.max(aborted.count());
        let bytes = told.records.joined();
        if bytes.is_empty() {
            return (values, told.last_stable_offset, most_aborted);
        }
        for batch in record::batches(&bytes) {
            let (header, batch) = batch.expect("whole");
            from = header.next_offset().0;
            let counts = committed.take(&header, batch).expect("sound");
            let is_data = !header.attributes.is_control();
            if is_data && (counts || isolation != READ_COMMITTED) {
                let records = record::records(batch, &record::Limits::default()).expect("sound");
                let value = |record: record::Record| record.value.expect("a value").to_vec();
                let texts = records.map(|record| String::from_utf8(value(record.expect("sound"))));
                values.extend(texts.map(|text| text.expect("text")));
            }
        }
    }
}

fn latest(wire: &mut Wire, topic: &str, isolation_level: i8) -> i64 {
    let partition = ListOffsetsPartition {
        partition_index: 0,
        current_leader_epoch: -1,
        timestamp: -1,
    };
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level,
        topics: vec![ListOffsetsTopic {
            name: Text::from(topic),
            partitions: vec![partition],
        }],
        ..ListOffsetsRequest::default()
    };
    wire.call(6, &request).topics[0].partitions[0].offset
}

fn values(of: &[&str]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

/// Waits until nothing is open: a marker is on its way when its transaction's end is told.
fn settled(wire: &mut Wire, topic: &str) {
    eventually("markers are committed", || {
        latest(wire, topic, READ_COMMITTED) == latest(wire, topic, 0)
    });
}

#[test]
fn readers_of_committed_records_wait_for_the_end_and_leave_out_what_was_aborted() {
    for version in [FIRST, SECOND] {
        let node = TestNode::start();
        let mut wire = node.connect();
        wire.create_topic("orders", 1, &[]);
        let mut producer = Producer::begin(&node);
        let end = |producer: &mut Producer, committed| match version {
            SECOND => producer.end_second(committed),
            _ => assert_eq!(producer.end(2, committed).error_code, 0),
        };
        if version == FIRST {
            assert_eq!(producer.add("orders"), ErrorCode::None);
        }
        producer.produce(version, "orders", "one");
        assert_eq!(
            wire.produce("orders", 0, stamped_batch(-1, -1, -1, &["plain"]))
                .error_code,
            0
        );
        assert_eq!(read(&mut wire, "orders", READ_COMMITTED), (values(&[]), 0, 0));
        assert_eq!(read(&mut wire, "orders", 0).0, values(&["one", "plain"]));
        assert_eq!(
            (
                latest(&mut wire, "orders", 0),
                latest(&mut wire, "orders", READ_COMMITTED)
            ),
            (2, 0)
        );
        end(&mut producer, false);
        settled(&mut wire, "orders");
        assert_eq!(
            read(&mut wire, "orders", READ_COMMITTED),
            (values(&["plain"]), 3, 1)
        );
        if version == FIRST {
            assert_eq!(producer.add("orders"), ErrorCode::None);
        }
        producer.produce(version, "orders", "two");
        end(&mut producer, true);
        settled(&mut wire, "orders");
        assert_eq!(
            read(&mut wire, "orders", READ_COMMITTED),
            (values(&["plain", "two"]), 5, 1)
        );
        assert_eq!(read(&mut wire, "orders", 0).0, values(&["one", "plain", "two"]));
        let node = node.kill_and_restart();
        let mut wire = node.connect();
        assert_eq!(
            read(&mut wire, "orders", READ_COMMITTED),
            (values(&["plain", "two"]), 5, 1)
        );
    }
}

#[test]
fn what_a_crash_interrupts_is_ended_by_the_next_start() {
    let node = TestNode::start();
    node.connect().create_topic("orders", 1, &[]);
    let mut producer = Producer::begin(&node);
    producer.produce(SECOND, "orders", "open");
    let node = node.kill_and_restart();
    let mut wire = node.connect();
    assert_eq!(read(&mut wire, "orders", READ_COMMITTED), (values(&[]), 0, 0));
    // Whoever comes with the id has the open transaction aborted.
    let mut next = Producer::begin(&node);
    assert_eq!((next.id, next.epoch > producer.epoch), (producer.id, true));
    settled(&mut wire, "orders");
    next.produce(SECOND, "orders", "after");
    next.end_second(true);
    settled(&mut wire, "orders");
    assert_eq!(read(&mut wire, "orders", READ_COMMITTED).0, values(&["after"]));
    producer.wire = node.connect();
    assert_eq!(
        producer.try_produce(SECOND, "orders", "late"),
        ErrorCode::InvalidProducerEpoch
    );
    assert_eq!(code(producer.end(5, true).error_code), ErrorCode::ProducerFenced);
}

#[test]
fn a_batch_opens_no_transaction_that_nobody_will_end() {
    let node = TestNode::start();
    node.connect().create_topic("orders", 1, &[]);
    let mut producer = Producer::begin(&node);
    // Nobody has added the partition.
    assert_eq!(
        producer.try_produce(FIRST, "orders", "lost"),
        ErrorCode::InvalidTxnState
    );
    assert_eq!(
        producer.try_produce(11, "orders", "lost"),
        ErrorCode::TransactionAbortable
    );
    assert_eq!(producer.add("orders"), ErrorCode::None);
    producer.produce(FIRST, "orders", "one");
    assert_eq!(producer.end(3, true).error_code, 0);
    settled(&mut node.connect(), "orders");
    assert_eq!(
        producer.try_produce(FIRST, "orders", "late"),
        ErrorCode::InvalidTxnState
    );
    // One without a transactional id has no transaction, and one of a transaction does not leave it.
    let batch = producer.batch("nobody's");
    let told = producer.wire.produce("orders", 0, batch);
    assert_eq!(
        code(told.error_code),
        ErrorCode::TransactionalIdAuthorizationFailed
    );
    assert_eq!(producer.add("orders"), ErrorCode::None);
    producer.produce(FIRST, "orders", "two");
    let outside = stamped_batch(producer.id, producer.epoch, producer.sequence, &["outside"]);
    let told = producer.wire.produce("orders", 0, outside);
    assert_eq!(code(told.error_code), ErrorCode::InvalidTxnState);
}

#[test]
fn topics_with_one_order_take_no_transactions() {
    let node = TestNode::start();
    node.connect()
        .create_topic("ordered", 2, &[("ropewalk.order", "total")]);
    let mut producer = Producer::begin(&node);
    assert_eq!(
        producer.try_produce(SECOND, "ordered", "one"),
        ErrorCode::InvalidTxnState
    );
    assert_eq!(
        producer.try_produce(SECOND, "ordered@total", "one"),
        ErrorCode::InvalidTxnState
    );
    let described = DescribeTransactionsRequest {
        transactional_ids: vec![Text::from("mine"), Text::from("mine"), Text::from("nobody's")],
    };
    let told = producer.wire.call(0, &described).transaction_states;
    let told: Vec<_> = told
        .iter()
        .map(|state| (code(state.error_code), state.transaction_state.as_str()))
        .collect();
    let expected = [
        (ErrorCode::None, "Empty"),
        (ErrorCode::InvalidRequest, ""),
        (ErrorCode::TransactionalIdNotFound, ""),
    ];
    assert_eq!(told, expected);
}

#[test]
fn markers_that_are_late_or_forged_end_nothing() {
    let node = TestNode::start();
    node.connect().create_topic("orders", 1, &[]);
    let mut producer = Producer::begin(&node);
    let first_epoch = producer.epoch;
    producer.produce(SECOND, "orders", "one");
    producer.end_second(true);
    let mut wire = node.connect();
    settled(&mut wire, "orders");
    producer.produce(SECOND, "orders", "two");
    let mark = |id: i64, epoch: i16, coordinator_epoch: i32, index: i32| {
        let request = WriteTxnMarkersRequest {
            markers: vec![WritableTxnMarker {
                producer_id: id,
                producer_epoch: epoch,
                transaction_result: true,
                coordinator_epoch,
                transaction_version: 2,
                topics: vec![WritableTxnMarkerTopic {
                    name: Text::from("orders"),
                    partition_indexes: vec![index],
                }],
            }],
        };
        let told = node.connect().call(2, &request);
        code(told.markers[0].topics[0].partitions[0].error_code)
    };
    // That of the first transaction, once more.
    assert_eq!(
        mark(producer.id, first_epoch + 1, 9, 0),
        ErrorCode::InvalidProducerEpoch
    );
    assert_eq!(
        mark(producer.id, first_epoch, 9, 0),
        ErrorCode::InvalidProducerEpoch
    );
    assert_eq!(
        mark(producer.id + 1_000, 3, 9, 0),
        ErrorCode::None,
        "nothing of it is open"
    );
    assert_eq!(mark(producer.id, -1, 9, 0), ErrorCode::InvalidRequest);
    assert_eq!(mark(producer.id, 1, 9, 7), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(read(&mut wire, "orders", READ_COMMITTED).0, values(&["one"]));
    producer.end_second(false);
    settled(&mut wire, "orders");
    assert_eq!(read(&mut wire, "orders", READ_COMMITTED).0, values(&["one"]));
}

#[test]
fn transactions_are_listed_by_state_producer_and_pattern() {
    let node = TestNode::start();
    node.connect().create_topic("orders", 1, &[]);
    let mut producer = Producer::begin(&node);
    producer.produce(SECOND, "orders", "one");
    let mut list = |request: ListTransactionsRequest| {
        let told = producer.wire.call(2, &request);
        let states = told.transaction_states.iter();
        let ids: Vec<_> = states.map(|state| state.transactional_id.to_string()).collect();
        (code(told.error_code), ids, told.unknown_state_filters.len())
    };
    let all = ListTransactionsRequest {
        duration_filter: -1,
        ..ListTransactionsRequest::default()
    };
    let mine = (ErrorCode::None, values(&["mine"]), 0);
    let none = (ErrorCode::None, values(&[]), 0);
    assert_eq!(list(all.clone()), mine);
    let by_state = |state: &str| ListTransactionsRequest {
        state_filters: vec![Text::from(state)],
        ..all.clone()
    };
    assert_eq!(list(by_state("Ongoing")), mine);
    assert_eq!(list(by_state("Empty")), none);
    assert_eq!(list(by_state("Asleep")), (ErrorCode::None, values(&[]), 1));
    let by_pattern = |pattern: &str| ListTransactionsRequest {
        transactional_id_pattern: Some(Text::from(pattern)),
        ..all.clone()
    };
    assert_eq!(list(by_pattern("m.*")), mine);
    assert_eq!(list(by_pattern("m")), none, "a pattern stands for all of an id");
    assert_eq!(list(by_pattern("m(")).0, ErrorCode::InvalidRegularExpression);
    let too_many = ListTransactionsRequest {
        producer_id_filters: vec![1; 5_000],
        ..all
    };
    assert_eq!(list(too_many).0, ErrorCode::InvalidRequest);
}
