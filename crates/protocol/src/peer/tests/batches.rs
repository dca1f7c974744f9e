//! The facts of an append's batches, and the bytes that are refused as such.

use super::*;
use crate::history::{BatchFacts, Part};
use crate::producers::{ProducerId, Stamp};

fn facts(batches: Vec<Vec<u8>>) -> Result<Vec<BatchFacts>, BatchesError> {
    facts_of(&batches.concat().into())
}

/// The sentence that a batch is refused with after a change of its bytes. Its checksum is made to hold again.
fn refusal_of(at: usize, bytes: &[u8]) -> String {
    let mut changed = batch(7, 40, 3);
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    let sum = record::checksum(&changed);
    changed[17..21].copy_from_slice(&sum.to_be_bytes());
    facts(vec![changed]).expect_err("it is refused").to_string()
}

#[test]
fn facts_are_those_of_the_headers() {
    let stamp = Stamp {
        id: ProducerId(9),
        epoch: 1,
        first_sequence: 30,
    };
    let fact = |epoch, first_offset, record_count: i32| BatchFacts {
        epoch: Epoch(epoch),
        first_offset: Offset(first_offset),
        record_count,
        max_timestamp_ms: 1_699_999_999_999 + i64::from(record_count),
        producer: Some(stamp),
        part: Part::Outside,
    };
    let read = facts(vec![batch(5, 40, 3), batch(5, 43, 1), batch(7, 44, 2)]);
    assert_eq!(read, Ok(vec![fact(5, 40, 3), fact(5, 43, 1), fact(7, 44, 2)]));
}

/// Its end is where it was when it was written, and so are its sequences.
#[test]
fn a_batch_that_compaction_has_taken_records_from_is_taken() {
    for left in 0..3_i32 {
        let mut compacted = batch(7, 40, 3);
        compacted[57..61].copy_from_slice(&left.to_be_bytes());
        let sum = record::checksum(&compacted);
        compacted[17..21].copy_from_slice(&sum.to_be_bytes());
        let read = facts(vec![compacted, batch(7, 43, 1)]).expect("they follow each other");
        assert_eq!(read[0], facts(vec![batch(7, 40, 3)]).expect("it is sound")[0]);
        assert_eq!(read[0].next_offset(), Offset(43));
    }
}

#[test]
fn producers_without_numbers_are_taken() {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(1, None, None, &[]);
    let mut batch = builder.build().to_vec();
    record::set_leader_epoch(&mut batch, Epoch(0));
    let read = facts(vec![batch]).expect("it is sound");
    assert_eq!(read[0].producer, None);
}

#[test]
fn an_append_becomes_what_a_replica_takes() {
    let bytes: Bytes = batch(7, 40, 3).into();
    let (epoch, writer_before) = (Epoch(7), Epoch(6));
    let received = Prompt::Append {
        epoch,
        writer_before,
        batches: bytes.clone(),
    };
    let for_replica = Prompt::Append {
        epoch,
        writer_before,
        batches: facts_of(&bytes).expect("it is sound"),
    };
    assert_eq!(
        received.clone().read_facts(),
        Ok((for_replica.clone(), bytes.clone()))
    );
    assert_eq!(for_replica.with_bytes(bytes), received);
    let seal: Prompt = Prompt::Seal { epoch };
    assert_eq!(
        seal.clone().with_bytes(Bytes::new()).read_facts(),
        Ok((seal, Bytes::new()))
    );
}

#[test]
fn no_batch_is_refused() {
    assert_eq!(facts(vec![]), Err(BatchesError::Empty));
}

#[test]
fn a_batch_that_is_not_whole_is_refused() {
    let two = [batch(7, 40, 3), batch(7, 43, 1)].concat();
    let first_bytes = batch(7, 40, 3).len();
    for length in 1..two.len() {
        let read = facts_of(&Bytes::copy_from_slice(&two[..length]));
        match read {
            Ok(read) => assert_eq!((length, read.len()), (first_bytes, 1)),
            Err(BatchesError::Unsound {
                at_bytes,
                error: record::BatchError::Truncated { .. },
            }) => assert_eq!(at_bytes, if length < first_bytes { 0 } else { first_bytes }),
            Err(other) => panic!("{length} bytes: {other}"),
        }
    }
}

#[test]
fn damaged_records_are_refused() {
    let mut two = [batch(7, 40, 3), batch(7, 43, 1)].concat();
    let last = two.len() - 1;
    two[last] ^= 1;
    let refused = facts_of(&two.into()).expect_err("it is damaged").to_string();
    let at_bytes = batch(7, 40, 3).len();
    let begins = format!("the batch at byte {at_bytes} of an append: the batch says its checksum is ");
    assert!(refused.starts_with(&begins), "{refused}");
}

#[test]
fn batches_that_no_log_could_hold_are_refused() {
    let cases: [(usize, &[u8], &str); 8] = [
        (
            0,
            &[0xff],
            "the batch at byte 0 of an append has offset -72057594037927896 and epoch 7, which cannot be",
        ),
        (
            0,
            &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe],
            "the batch at byte 0 of an append has offset 9223372036854775806 and epoch 7, which cannot be",
        ),
        (
            12,
            &[0xff; 4],
            "the batch at byte 0 of an append has offset 40 and epoch -1, which cannot be",
        ),
        (
            57,
            &[0, 0, 0, 4],
            "the batch at byte 0 of an append: 4 records cannot have the last offset delta 2",
        ),
        (
            57,
            &[0x80, 0, 0, 0],
            "the batch at byte 0 of an append: -2147483648 records cannot have the last offset delta 2",
        ),
        (
            43,
            &[0xff; 7],
            "the batch at byte 0 of an append: producer id -247, epoch 1 and sequence 30 do not belong together (transactional: false)",
        ),
        (
            51,
            &[0xff; 2],
            "the batch at byte 0 of an append: producer id 9, epoch -1 and sequence 30 do not belong together (transactional: false)",
        ),
        (
            53,
            &[0xff; 4],
            "the batch at byte 0 of an append: producer id 9, epoch 1 and sequence -1 do not belong together (transactional: false)",
        ),
    ];
    for (at, bytes, expected) in cases {
        assert_eq!(refusal_of(at, bytes), expected, "at {at}");
    }
    for delta in [-1, i32::MIN, i32::MAX] {
        let refused = refusal_of(23, &delta.to_be_bytes());
        let expected =
            format!("the batch at byte 0 of an append: 3 records cannot have the last offset delta {delta}");
        assert_eq!(refused, expected);
    }
    let greatest_id = refusal_of(43, &i64::MAX.to_be_bytes());
    assert!(greatest_id.contains("do not belong together"), "{greatest_id}");
}

#[test]
fn batches_that_do_not_follow_one_another_are_refused() {
    for first_offset in [0, 42, 44] {
        let apart = facts(vec![batch(7, 40, 3), batch(7, first_offset, 1)]);
        let expected = BatchesError::Apart {
            expected: Offset(43),
            first_offset: Offset(first_offset),
        };
        assert_eq!(apart, Err(expected));
    }
    let older = facts(vec![batch(7, 40, 3), batch(6, 43, 1)]);
    assert_eq!(
        older.expect_err("epochs rise").to_string(),
        "a batch of epoch 6 at offset 43 follows one of epoch 7"
    );
}
