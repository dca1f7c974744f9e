//! Reading back what is no longer in memory: several readers at once, each fed ahead of its fetches, and readers who want
//! much at a time.

use kafka_wire::FetchRequest;
use kafka_wire::fetch::PartitionData;

use crate::support::{PATIENCE, TestNode, Wire, batch, eventually, fetch_request, now_ms, records_of};

const VALUE_BYTES: usize = 256 << 10;
/// Several journal files of 4 MiB.
const BATCHES: i64 = 72;
/// Four of these batches fit. Of a journal file's fifteen, three are left for the last fetch.
const FETCH_BYTES: i32 = 4 * (VALUE_BYTES as i32 + 1_000);

/// A node of one core, and topic "orders" with 18 MiB of records, nearly all of them out of memory.
fn start() -> TestNode {
    let node = TestNode::start_with(&[
        ("cores", "1"),
        ("cache.tail_bytes", "1MiB"),
        ("cache.chunk_bytes", "16MiB"),
    ]);
    let mut wire = node.connect();
    wire.create_topic("orders", 1, &[]);
    for offset in 0..BATCHES {
        let told = wire.produce("orders", 0, batch(&[(now_ms(), &value(offset))]));
        assert_eq!((told.error_code, told.base_offset), (0, offset));
    }
    eventually("the journal is laid out", || {
        node.metric("ropewalk_layout_rounds_total") > 0
    });
    node
}

fn value(offset: i64) -> String {
    format!("{offset:08}").repeat(VALUE_BYTES / 8)
}

/// Fetches from `from` on; waits for so much as long as it takes.
fn fetch_much(wire: &mut Wire, from: i64, min_bytes: i32, partition_max_bytes: i32) -> PartitionData {
    let mut request = FetchRequest {
        max_wait_ms: 10 * PATIENCE.as_millis() as i32,
        min_bytes,
        ..fetch_request("orders", 0, from)
    };
    request.topics[0].partitions[0].partition_max_bytes = partition_max_bytes;
    let mut response = wire.call(12, &request);
    response.responses.remove(0).partitions.remove(0)
}

#[test]
fn readers_get_all_of_it_in_order_however_many_there_are() {
    let node = start();
    let read = || {
        let records = node.connect().read_all("orders", 0, 0);
        assert_eq!(records.len() as i64, BATCHES);
        for (record, offset) in records.iter().zip(0..) {
            assert_eq!(record.offset.0, offset);
            assert_eq!(record.value.as_deref(), Some(value(offset).as_bytes()));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(read);
        }
    });
    eventually("all answers are taken", || {
        node.metric("ropewalk_answer_bytes") == 0
    });
    assert!(node.metric("ropewalk_chunk_cache_bytes") <= 16 << 20);
}

/// As with `fetch.min.bytes` and `max.partition.fetch.bytes` both of a megabyte, of which whole batches make less.
#[test]
fn who_wants_as_much_as_there_is_room_for_does_not_wait_for_what_has_none() {
    let node = start();
    let mut wire = node.connect();
    let mut from = 0;
    while from < BATCHES - 4 {
        let found = records_of(&fetch_much(&mut wire, from, FETCH_BYTES - 1, FETCH_BYTES - 1));
        assert_eq!(found.first().map(|record| record.offset.0), Some(from));
        from += found.len() as i64;
    }
}

#[test]
fn who_wants_much_does_not_wait_where_one_file_ends_and_the_next_begins() {
    let node = start();
    let mut wire = node.connect();
    let mut from = 0;
    // Less than a megabyte is left at the very end.
    while from < BATCHES - 4 {
        let found = records_of(&fetch_much(&mut wire, from, 1_000_000, FETCH_BYTES));
        assert_eq!(found.first().map(|record| record.offset.0), Some(from));
        from += found.len() as i64;
    }
}
