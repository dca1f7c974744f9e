//! Batches as producers make them, and records as consumers find them.

use bytes::Bytes;
use kafka_wire::fetch::PartitionData;
use record::{BatchBuilder, Compression, Limits, Record};

/// A batch of these values, with one timestamp for each.
pub(crate) fn batch(records: &[(i64, &str)]) -> Bytes {
    compressed_batch(Compression::None, records)
}

/// The same, compressed.
pub(crate) fn compressed_batch(compression: Compression, records: &[(i64, &str)]) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    for (timestamp_ms, value) in records {
        builder.append(*timestamp_ms, None, Some(value.as_bytes()), &[]);
    }
    builder.build()
}

/// A batch of an idempotent producer.
pub(crate) fn stamped_batch(producer: i64, epoch: i16, first_sequence: i32, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(producer, epoch, first_sequence);
    for value in values {
        builder.append(now_ms(), None, Some(value.as_bytes()), &[]);
    }
    builder.build()
}

/// Now, as producers stamp it.
pub(crate) fn now_ms() -> i64 {
    use platform::clock::Clock;
    platform::clock::SystemClock::new().wall_ms()
}

/// The records of a fetched partition.
pub(crate) fn records_of(fetched: &PartitionData) -> Vec<Record> {
    let bytes: Vec<u8> = fetched
        .records
        .chunks
        .iter()
        .flat_map(|chunk| chunk.iter().copied())
        .collect();
    let mut records = Vec::new();
    for batch in record::batches(&bytes) {
        let (_, batch) = batch.expect("whole batches");
        assert!(record::checksum_holds(batch), "a checksum that holds");
        records.extend(
            record::records(batch, &Limits::default())
                .expect("sound")
                .map(|record| record.expect("sound")),
        );
    }
    records
}
