//! Batches that take long to examine, and requests of very many: no core is kept from others, and appends keep their order.
//!
//! Every test's node is held to short turns when it is gone (`support/node.rs`).

use bytes::Bytes;
use kafka_wire::produce::{PartitionProduceData, PartitionProduceResponse};
use kafka_wire::{ProduceRequest, ProduceResponse};
use record::{BatchBuilder, Compression};

use crate::producers::init;
use crate::support::{TestNode, batch, now_ms, produce_request, stamped_batch};

/// A batch of `count` records, compressed, of a producer whose first sequence this is.
fn many_records(count: i32, compression: Compression, producer: (i64, i32)) -> Bytes {
    let mut builder = BatchBuilder::new(compression).with_producer(producer.0, 0, producer.1);
    let now_ms = now_ms();
    for _ in 0..count {
        builder.append(now_ms, Some(b"key"), Some(b"value"), &[]);
    }
    builder.build()
}

/// One request with a batch for each of the partitions from 0 on.
fn wide_request(topic: &str, batches: Vec<Bytes>) -> ProduceRequest {
    let mut request = produce_request(topic, 0, Bytes::new(), -1);
    let partitions = batches.into_iter().zip(0..);
    request.topic_data[0].partition_data = partitions
        .map(|(batch, index)| PartitionProduceData {
            index,
            records: Some(batch),
            ..PartitionProduceData::default()
        })
        .collect();
    request
}

fn told(mut response: ProduceResponse) -> Vec<PartitionProduceResponse> {
    response.responses.remove(0).partition_responses
}

#[test]
fn a_batch_that_unpacks_to_much_keeps_no_core_from_others() {
    const RECORDS: i32 = 2_000_000;
    let node = TestNode::start();
    let mut wire = node.connect();
    let large = ("max.message.bytes", "3000000");
    wire.create_topic("heavy", 2, &[large]);
    wire.create_topic("compacted", 2, &[large, ("cleanup.policy", "compact")]);
    let heavy = many_records(RECORDS, Compression::Zstd, (-1, -1));
    for topic in ["heavy", "compacted"] {
        // On either core.
        let request = wide_request(topic, vec![heavy.clone(), heavy.clone()]);
        for partition in told(wire.call(9, &request)) {
            assert_eq!((partition.error_code, partition.base_offset), (0, 0));
        }
    }
}

#[test]
fn what_follows_a_heavy_batch_of_its_partition_stays_behind_it() {
    const RECORDS: i32 = 100_000;
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let producer = init(&mut wire);
    let mut expected = [0; 2];
    let mut frames = Vec::new();
    // Pipelined, on either core; sequences would be refused out of their order.
    for round in 0..30 {
        for (index, next_offset) in expected.iter_mut().enumerate() {
            let first = *next_offset;
            let (batch, count) = match round % 3 {
                0 => (
                    many_records(RECORDS, Compression::Gzip, (producer, first)),
                    RECORDS,
                ),
                _ => (stamped_batch(producer, 0, first, &["light"]), 1),
            };
            frames.extend(wire.frame(9, &produce_request("orders", index as i32, batch, -1)));
            *next_offset += count;
        }
    }
    wire.send(&frames);
    let mut found = [0; 2];
    for _ in 0..30 {
        for next_offset in &mut found {
            let (_, response) = wire.receive::<ProduceRequest>(9);
            let partition = told(response).remove(0);
            assert_eq!(
                (partition.error_code, partition.base_offset >= *next_offset),
                (0, true)
            );
            *next_offset = partition.base_offset + 1;
        }
    }
    assert_eq!(
        found,
        expected.map(i64::from),
        "the last batch of each is one record"
    );
}

#[test]
fn a_request_of_very_many_batches_is_begun_in_several_turns_and_before_the_next() {
    const PARTITIONS: i32 = 500;
    const RECORDS: i32 = 10_000;
    let node = TestNode::start();
    let mut wire = node.connect();
    wire.create_topic("wide", PARTITIONS, &[]);
    // Each of them is light by itself.
    let light = many_records(RECORDS, Compression::Gzip, (-1, -1));
    let wide = wire.frame(9, &wide_request("wide", vec![light; PARTITIONS as usize]));
    let last = PARTITIONS - 1;
    let behind: Vec<u8> = [last, 0]
        .iter()
        .flat_map(|index| {
            wire.frame(
                9,
                &produce_request("wide", *index, batch(&[(now_ms(), "behind")]), -1),
            )
        })
        .collect();
    wire.send(&[wide, behind].concat());
    let (_, response) = wire.receive::<ProduceRequest>(9);
    for (partition, index) in told(response).iter().zip(0..) {
        assert_eq!(
            (partition.index, partition.error_code, partition.base_offset),
            (index, 0, 0)
        );
    }
    for index in [last, 0] {
        let (_, response) = wire.receive::<ProduceRequest>(9);
        let partition = told(response).remove(0);
        assert_eq!((partition.index, partition.error_code), (index, 0));
        assert_eq!(
            partition.base_offset,
            i64::from(RECORDS),
            "the request before it was begun whole"
        );
    }
}
