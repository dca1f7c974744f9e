//! A broker's writes into a batch that it takes: all in place, on bytes that `validate` has seen.

use super::header::{
    ATTRIBUTES_AT, Attributes, BATCH_OVERHEAD_BYTES, CRC_AT, LEADER_EPOCH_AT, MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT, checksum, stored_checksum,
};
use super::resum::resum;
use crate::{Epoch, Offset};

/// Numbers the batch: its first record gets `base_offset`. Outside the checksum.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_base_offset(batch: &mut [u8], base_offset: Offset) {
    assert_whole(batch);
    put(batch, 0, &base_offset.0.to_be_bytes());
}

/// Says whose epoch took the batch. Outside the checksum.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_leader_epoch(batch: &mut [u8], leader_epoch: Epoch) {
    assert_whole(batch);
    put(batch, LEADER_EPOCH_AT, &leader_epoch.0.to_be_bytes());
}

/// Gives all records the time of their append: the largest timestamp becomes `now_ms`, the timestamp type says so, the
/// base timestamp stays (the records' deltas are not rewritten). The checksum follows; one that did not hold still does not.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_log_append_time(batch: &mut [u8], now_ms: i64) {
    change_summed(batch, |batch| {
        // The timestamp type's bit is in the lower of the two bytes.
        batch[ATTRIBUTES_AT + 1] |= Attributes::LOG_APPEND_TIME as u8;
        put(batch, MAX_TIMESTAMP_AT, &now_ms.to_be_bytes());
    });
}

/// Says truly which timestamp is the largest, where a producer's header does not (`examine` finds out). Searches by time
/// and retention believe the header. Kafka's brokers also put it right, in topics whose records keep the time that their
/// producer gave them (CreateTime). The checksum follows; one that did not hold still does not.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_max_timestamp(batch: &mut [u8], max_timestamp_ms: i64) {
    let bytes = max_timestamp_ms.to_be_bytes();
    // Nearly always it is right already.
    if batch[MAX_TIMESTAMP_AT..].starts_with(&bytes) {
        return;
    }
    change_summed(batch, |batch| {
        put(batch, MAX_TIMESTAMP_AT, &bytes);
    });
}

/// Names another producer. The checksum follows; one that did not hold still does not.
///
/// # Panics
/// If `batch` is shorter than a header.
pub fn set_producer_id(batch: &mut [u8], producer_id: i64) {
    change_summed(batch, |batch| {
        put(batch, PRODUCER_ID_AT, &producer_id.to_be_bytes());
    });
}

/// Makes a change between attributes and producer id, and adds what it does to the checksum: a batch may be long.
fn change_summed(batch: &mut [u8], change: impl FnOnce(&mut [u8])) {
    assert_whole(batch);
    let part = ATTRIBUTES_AT..PRODUCER_ID_AT + size_of::<i64>();
    let part_before = crc_fast::crc32_iscsi(&batch[part.clone()]);
    change(batch);
    let part_after = crc_fast::crc32_iscsi(&batch[part.clone()]);
    let crc = resum(
        stored_checksum(batch),
        part_before,
        part_after,
        batch.len() - part.end,
    );
    put(batch, CRC_AT, &crc.to_be_bytes());
}

/// Writes the checksum of the bytes as they are now.
pub(super) fn seal_checksum(batch: &mut [u8]) {
    let crc = checksum(batch);
    put(batch, CRC_AT, &crc.to_be_bytes());
}

pub(super) fn put(batch: &mut [u8], at: usize, bytes: &[u8]) {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
}

fn assert_whole(batch: &[u8]) {
    assert!(
        batch.len() >= BATCH_OVERHEAD_BYTES,
        "only whole batches are patched"
    );
}
