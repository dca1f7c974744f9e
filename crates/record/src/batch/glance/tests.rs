//! A glance and the general walk say the same: of sound records of all shapes, and of damaged ones.

use std::ops::ControlFlow;

use proptest::prelude::*;

use super::*;
use crate::batch::header::{BASE_TIMESTAMP_AT, LAST_OFFSET_DELTA_AT, LENGTH_AT, RECORD_COUNT_AT};
use crate::batch::patch::{put, seal_checksum};
use crate::batch::{
    BATCH_OVERHEAD_BYTES, BatchBuilder, BatchError, Compression, Limits, RecordFault, examine, walk,
};

/// The largest timestamp of a batch's records by the general walk alone.
fn walked(batch: &[u8]) -> Result<i64, BatchError> {
    let header = crate::BatchHeader::read(batch)?;
    let mut max_timestamp_ms = i64::MIN;
    walk::walk_batch(&header, batch, &Limits::default(), |index, head| {
        if head.offset_delta != index {
            return Err(RecordFault::OffsetDelta {
                offset_delta: head.offset_delta,
            });
        }
        let timestamp_delta = head.timestamp_delta;
        let timestamp_ms = header
            .timestamp_at(timestamp_delta)
            .ok_or(RecordFault::TimestampDelta { timestamp_delta })?;
        max_timestamp_ms = max_timestamp_ms.max(timestamp_ms);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(max_timestamp_ms)
}

fn examined(batch: &[u8]) -> Result<i64, BatchError> {
    examine(batch, &Limits::default()).map(|examined| examined.max_timestamp_found_ms)
}

/// Seals `batch` and asks both.
fn agree(batch: &mut [u8]) -> Result<i64, BatchError> {
    let length = (batch.len() - 12) as i32;
    put(batch, LENGTH_AT, &length.to_be_bytes());
    seal_checksum(batch);
    let verdict = examined(batch);
    assert_eq!(verdict, walked(batch), "{batch:?}");
    verdict
}

/// The number of a batch's records that are taken before the first that is not common.
fn taken(batch: &[u8]) -> u32 {
    let header = crate::BatchHeader::read(batch).expect("whole");
    take_run(&batch[BATCH_OVERHEAD_BYTES..], 0, header.record_count as u32).next_index
}

/// A record's timestamp and the lengths of its key, value and header.
type Shape = (i64, Option<usize>, Option<usize>, Option<usize>);

fn built(shapes: &[Shape]) -> Vec<u8> {
    let bytes = [0; 20_000];
    let mut builder = BatchBuilder::new(Compression::None);
    for &(timestamp_ms, key, value, header) in shapes {
        let headers: Vec<_> = header
            .iter()
            .map(|&length| (&bytes[..length], Some(&bytes[..length])))
            .collect();
        let [key, value] = [key, value].map(|length| length.map(|length| &bytes[..length]));
        builder.append(timestamp_ms, key, value, &headers);
    }
    builder.build().to_vec()
}

#[test]
fn offset_deltas_of_every_length_are_foreseen() {
    let mut batch = built(&[(1_000, None, Some(10), None); 20_000]);
    assert_eq!(taken(&batch), 20_000);
    assert_eq!(agree(&mut batch), Ok(1_000));
    for index in [0, 1, 63, 64, 65, 8_191, 8_192, 8_193, (1 << 20) - 1] {
        let mut written = Vec::new();
        crate::varint::put_varint(&mut written, i64::from(index));
        let length = written.len();
        written.resize(4, 0);
        let four = u32::from_le_bytes(*written.first_chunk().expect("four bytes"));
        assert_eq!(natural(four), Some((index, length)));
        assert_eq!(natural_bytes(index, length), four);
    }
}

#[test]
fn what_is_common_is_taken() {
    let sound = |shape: Shape| taken(&built(&[shape, (1_000, None, Some(100), None)])) > 0;
    assert!(sound((1_000, None, Some(100), None)));
    assert!(sound((1_000, Some(0), Some(0), None)));
    assert!(sound((1_000, Some(63), Some(20_000), None)));
    assert!(sound((1_000, Some(64), Some(100), None)));
    assert!(sound((1_000, Some(5), None, None)));
    assert_eq!(
        taken(&built(&[
            (1_000, None, Some(100), None),
            (9, None, Some(100), None)
        ])),
        2
    );
    // These are sound too, but left to the general walk.
    assert!(!sound((1_000, None, Some(100), Some(1))));
}

#[test]
fn times_at_the_end_of_time() {
    for base in [
        i64::MAX,
        i64::MAX - 5,
        i64::MAX - TIMESTAMP_DELTA_MAX,
        i64::MIN,
        i64::MIN + 5,
        i64::MIN + TIMESTAMP_DELTA_MAX,
        -1,
    ] {
        let far = TIMESTAMP_DELTA_MAX;
        for delta in [0, 5, 6, far - 1, far, far + 1, -1, -70, -far, -far - 1] {
            let mut batch = built(&[(0, None, Some(100), None), (delta, None, Some(100), None)]);
            put(&mut batch, BASE_TIMESTAMP_AT, &base.to_be_bytes());
            let expected = match base.checked_add(delta) {
                Some(timestamp_ms) => Ok(timestamp_ms.max(base)),
                None => Err(BatchError::Record {
                    index: 1,
                    fault: RecordFault::TimestampDelta {
                        timestamp_delta: delta,
                    },
                }),
            };
            assert_eq!(agree(&mut batch), expected);
        }
    }
}

#[test]
fn every_byte_of_a_front_changed_to_every_value() {
    for first in [0, 62, 63] {
        let mut shapes = vec![(1_000, None, Some(3), None); first];
        shapes.extend([(1_100, Some(3), Some(70), None), (1_001, None, Some(9), None)]);
        let sound = built(&shapes);
        // The last two records and a few bytes of the one before.
        for at in (sound.len() - 105).max(BATCH_OVERHEAD_BYTES)..sound.len() {
            for byte in 0..=u8::MAX {
                let mut batch = sound.clone();
                batch[at] = byte;
                let _ = agree(&mut batch);
            }
        }
    }
}

#[test]
fn every_cut_and_every_count() {
    let sound = built(&[
        (1_000, Some(4), Some(20), None),
        (1_009, None, Some(70), None),
        (999, None, Some(0), None),
    ]);
    for length in BATCH_OVERHEAD_BYTES..sound.len() {
        assert!(agree(&mut sound[..length].to_vec()).is_err());
    }
    for count in [1, 2, 3, 4, i32::MAX] {
        let mut batch = sound.clone();
        put(&mut batch, RECORD_COUNT_AT, &count.to_be_bytes());
        put(&mut batch, LAST_OFFSET_DELTA_AT, &(count - 1).to_be_bytes());
        assert_eq!(agree(&mut batch).is_ok(), count == 3);
    }
}

fn shape() -> impl Strategy<Value = Shape> {
    let delta = prop_oneof![4 => 0i64..100, 2 => 0i64..20_000, 1 => -200i64..200, 1 => any::<i32>().prop_map(i64::from)];
    let length = |far: usize| prop_oneof![1 => Just(None), 4 => (0usize..12).prop_map(Some), 2 => (0..far).prop_map(Some)];
    let header = prop_oneof![6 => Just(None), 1 => (0usize..4).prop_map(Some)];
    (delta, length(70), length(200), header)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sound_batches(shapes in proptest::collection::vec(shape(), 1..100)) {
        prop_assert!(agree(&mut built(&shapes)).is_ok());
    }

    #[test]
    fn changed_batches(
        shapes in proptest::collection::vec(shape(), 1..70),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>(), 0..4u8), 1..4),
    ) {
        let mut batch = built(&shapes);
        for (at, byte, kind) in changes {
            let at = BATCH_OVERHEAD_BYTES + at.index(batch.len() - BATCH_OVERHEAD_BYTES + 1);
            match kind {
                0 => batch.truncate(at),
                1 => batch.insert(at, byte),
                _ if at == batch.len() => {}
                2 => batch[at] ^= 1 << (byte % 8),
                _ => batch[at] = byte,
            }
        }
        let _ = agree(&mut batch);
    }

    #[test]
    fn any_bytes(body in proptest::collection::vec(0u8..40, 0..200), count in 1i32..6) {
        let mut batch = built(&vec![(1_000, None, None, None); count as usize]);
        batch.truncate(BATCH_OVERHEAD_BYTES);
        batch.extend(body);
        let _ = agree(&mut batch);
    }
}
