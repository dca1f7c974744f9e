//! Rules of one partition's producers, checked against state; the scenario files show them through a leader.

mod shares;

use proptest::prelude::*;

use super::*;
use crate::encoding::{Reader, Writer};

const SECOND: Duration = Duration::from_secs(1);

/// Everybody's admission at a moment.
fn at(now: Duration) -> Admission {
    Admission {
        now,
        next_id: ProducerId(1000),
        has_room: true,
        from: None,
    }
}

fn limits(producers_max: usize) -> ProducerLimits {
    ProducerLimits {
        producers_max,
        retry_horizon: 5 * SECOND,
        expiration: 10 * SECOND,
    }
}

fn stamp(id: i64, epoch: i16, first_sequence: i32) -> Stamp {
    Stamp {
        id: ProducerId(id),
        epoch,
        first_sequence,
    }
}

fn batch(first_sequence: i32, record_count: i32, first_offset: i64) -> WrittenBatch {
    WrittenBatch {
        first_sequence,
        record_count,
        first_offset: Offset(first_offset),
        max_timestamp_ms: 7,
    }
}

fn written(producers: &Producers, now: Duration) -> bytes::Bytes {
    let mut writer = Writer::open(2);
    producers.write_below(Offset(i64::MAX), now, &mut writer);
    writer.close()
}

fn read(now: Duration, limits: ProducerLimits, bytes: &[u8]) -> Result<Producers, crate::DecodeError> {
    let mut reader = Reader::open(bytes, "producers", 2)?;
    let producers = Producers::read(now, limits, &mut reader)?;
    reader.close()?;
    Ok(producers)
}

#[test]
fn sequences_wrap_after_the_largest() {
    assert_eq!(sequence_after(i32::MAX, 1), 0);
    assert_eq!(sequence_after(i32::MAX, 0), i32::MAX);
    assert_eq!(sequence_after(i32::MAX - 1, 4), 2);
    assert_eq!(sequence_after(i32::MAX, i32::MAX), i32::MAX - 1);
    assert_eq!(batch(i32::MAX - 1, 4, 0).last_sequence(), 1);
}

#[test]
fn the_one_silent_longest_makes_way_once_it_cannot_retry() {
    let mut producers = Producers::new(limits(2));
    producers.note(SECOND, stamp(1, 0, 0), batch(0, 1, 0));
    producers.note(2 * SECOND, stamp(2, 0, 0), batch(0, 1, 1));
    producers.note(3 * SECOND, stamp(1, 0, 1), batch(1, 1, 2));
    let newcomer = stamp(3, 0, 0);
    let full = Err(SequenceError::PartitionFull { producers_max: 2 });
    assert_eq!(producers.check(newcomer, 1, &at(6 * SECOND)), full);
    assert_eq!(producers.check(newcomer, 1, &at(7 * SECOND)), Ok(Sequence::First));
    producers.make_way(newcomer, &at(7 * SECOND));
    producers.note(7 * SECOND, newcomer, batch(0, 1, 3));
    let ids: Vec<i64> = producers.iter().map(|(id, ..)| id.0).collect();
    assert_eq!(ids, [1, 3]);
    assert_eq!(producers.deadline(), Some(13 * SECOND));
    producers.handle_time(13 * SECOND);
    assert_eq!(producers.len(), 1);
}

#[test]
fn where_the_node_has_no_room_a_newcomer_takes_the_place_of_one_that_cannot_retry() {
    let mut producers = Producers::new(limits(9));
    let newcomer = stamp(3, 0, 0);
    let at = |now| Admission {
        has_room: false,
        ..at(now)
    };
    assert_eq!(
        producers.check(newcomer, 1, &at(SECOND)),
        Err(SequenceError::NodeFull)
    );
    producers.note(SECOND, stamp(1, 0, 0), batch(0, 1, 0));
    producers.note(SECOND, stamp(2, 0, 0), batch(0, 1, 1));
    assert_eq!(
        producers.check(newcomer, 1, &at(5 * SECOND)),
        Err(SequenceError::NodeFull)
    );
    assert_eq!(producers.check(newcomer, 1, &at(6 * SECOND)), Ok(Sequence::First));
    producers.make_way(newcomer, &at(6 * SECOND));
    assert_eq!(producers.len(), 1, "one goes, not all that may");
    let known = stamp(2, 0, 1);
    assert_eq!(producers.check(known, 1, &at(SECOND)), Ok(Sequence::Next));
    producers.make_way(known, &at(6 * SECOND));
    assert_eq!(producers.len(), 1, "who is remembered takes no place");
}

#[test]
fn a_clock_that_steps_back_keeps_the_order() {
    let mut producers = Producers::new(limits(9));
    producers.note(5 * SECOND, stamp(1, 0, 0), batch(0, 1, 0));
    producers.note(SECOND, stamp(2, 0, 0), batch(0, 1, 1));
    producers.handle_time(14 * SECOND);
    assert_eq!(producers.len(), 2);
}

#[test]
fn negative_stamps_are_refused() {
    let producers = Producers::new(limits(1));
    for wrong in [stamp(-1, 0, 0), stamp(0, -1, 0), stamp(0, 0, -1)] {
        assert!(matches!(
            producers.check(wrong, 1, &at(SECOND)),
            Err(SequenceError::Malformed { .. })
        ));
    }
}

#[test]
fn cutting_more_than_is_remembered_never_accepts_a_sequence_twice() {
    let mut producers = Producers::new(limits(1));
    for sequence in 0..9 {
        producers.note(
            SECOND,
            stamp(1, 0, sequence),
            batch(sequence, 1, i64::from(sequence)),
        );
    }
    let mut some_left = producers.clone();
    some_left.cut_to(Offset(6));
    assert!(some_left.check(stamp(1, 0, 6), 1, &at(SECOND)).is_ok());
    assert_eq!(
        some_left.check(stamp(1, 0, 7), 1, &at(SECOND)),
        Err(SequenceError::OutOfOrder { expected: 6, got: 7 })
    );
    producers.cut_to(Offset(2));
    for first_sequence in 0..4 {
        let refused = Err(SequenceError::OutOfOrder {
            expected: 4,
            got: first_sequence,
        });
        assert_eq!(
            producers.check(stamp(1, 0, first_sequence), 1, &at(SECOND)),
            refused
        );
    }
    assert_eq!(
        producers.check(stamp(1, 1, 0), 1, &at(SECOND)),
        Ok(Sequence::Next),
        "a new epoch goes on"
    );
}

#[test]
fn smaller_limits_forget_nobody_that_may_still_retry() {
    let mut producers = Producers::new(limits(5));
    for id in 0..5 {
        producers.note(SECOND, stamp(id, 0, 0), batch(0, 1, id));
    }
    let mut restored = read(SECOND, limits(2), &written(&producers, SECOND)).expect("just written");
    assert_eq!(restored.len(), 5);
    let newcomer = stamp(7, 0, 0);
    let full = Err(SequenceError::PartitionFull { producers_max: 2 });
    assert_eq!(restored.check(newcomer, 1, &at(2 * SECOND)), full);
    restored.make_way(newcomer, &at(6 * SECOND));
    assert_eq!(restored.len(), 1, "there is room within the new limit");
}

#[test]
fn a_forgotten_producer_of_a_twin_says_nothing_of_those_that_come_later() {
    let mut producers = Producers::new(limits(5));
    producers.begin_at(ProducerId(0));
    let of_twin = Stamp {
        id: ProducerId(3).on_twin(),
        ..stamp(3, 0, 0)
    };
    assert_eq!(producers.check(of_twin, 1, &at(SECOND)), Ok(Sequence::First));
    producers.note(SECOND, of_twin, batch(0, 1, 0));
    producers.handle_time(20 * SECOND);
    assert_eq!(producers.len(), 0);
    let bytes = written(&producers, 20 * SECOND);
    for producers in [
        read(20 * SECOND, limits(5), &bytes).expect("just written"),
        producers,
    ] {
        let missing = Err(SequenceError::OutOfOrder { expected: 0, got: 5 });
        for id in [ProducerId(4), ProducerId(4).on_twin()] {
            let later = Stamp { id, ..stamp(4, 0, 5) };
            assert_eq!(producers.check(later, 1, &at(20 * SECOND)), missing);
        }
        // It may be the one that was forgotten.
        assert_eq!(
            producers.check(stamp(3, 0, 5), 1, &at(20 * SECOND)),
            Ok(Sequence::First)
        );
    }
}

#[test]
fn a_snapshot_of_the_first_version_says_of_nobody_that_it_is_new() {
    let mut producers = Producers::new(limits(5));
    producers.begin_at(ProducerId(7));
    producers.note(SECOND, stamp(8, 0, 0), batch(0, 1, 0));
    let bytes = written(&producers, SECOND);
    let restored = read(SECOND, limits(5), &bytes).expect("just written");
    assert_eq!(restored, producers);
    let missing = Err(SequenceError::OutOfOrder { expected: 0, got: 3 });
    assert_eq!(restored.check(stamp(9, 0, 3), 1, &at(SECOND)), missing);
    let unknown = [&bytes[..1], &(-1i64).to_be_bytes(), &bytes[9..]].concat();
    let mut restored = read(SECOND, limits(5), &unknown).expect("it is not known of any id");
    assert_eq!(
        restored.check(stamp(9, 0, 3), 1, &at(SECOND)),
        Ok(Sequence::First)
    );
    restored.begin_at(ProducerId(9));
    assert_eq!(restored.check(stamp(9, 0, 3), 1, &at(SECOND)), missing);
}

#[test]
fn a_snapshot_takes_no_more_than_is_promised() {
    let mut producers = Producers::new(limits(5));
    let empty = written(&producers, SECOND).len();
    for sequence in 0..9 {
        let offset = i64::from(sequence);
        producers.note(SECOND, stamp(1, 0, sequence), batch(sequence, 1, offset));
    }
    let ending = crate::history::Ending {
        commit: true,
        coordinator_epoch: 3,
        aborts: None,
    };
    producers.note_end(SECOND, stamp(1, 0, -1), &ending, Offset(9));
    producers.note_inside(SECOND, stamp(1, 0, 9), batch(9, 1, 10));
    assert_eq!(
        written(&producers, SECOND).len() - empty,
        PRODUCER_SNAPSHOT_BYTES_MAX
    );
}

#[test]
fn what_follows_a_producer_and_is_not_known_is_refused() {
    let mut producers = Producers::new(limits(5));
    producers.note(SECOND, stamp(1, 0, 0), batch(0, 1, 0));
    let mut bytes = written(&producers, SECOND).to_vec();
    // Version, complete from, count; id, epoch, silence, next sequence.
    let at = 1 + 8 + 4 + 8 + 2 + 8 + 4;
    for follows in 4..=255 {
        bytes[at] = follows;
        let refused = read(SECOND, limits(5), &bytes);
        assert!(
            matches!(refused, Err(crate::DecodeError::UnknownKind { value, .. }) if value == follows),
            "{refused:?}"
        );
    }
}

#[test]
fn every_cut_of_a_snapshot_is_refused() {
    let mut producers = Producers::new(limits(5));
    for id in 0..3 {
        producers.note(SECOND, stamp(id, 0, 0), batch(0, 1, id));
    }
    let bytes = written(&producers, SECOND);
    for length in 0..bytes.len() {
        assert!(
            read(SECOND, limits(5), &bytes[..length]).is_err(),
            "cut to {length} bytes"
        );
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(read(SECOND, limits(5), &longer).is_err());
    let huge = [&[2; 9][..], &[0xff, 0xff, 0xff, 0xff, 0, 0]].concat();
    assert!(matches!(
        read(SECOND, limits(5), &huge),
        Err(crate::DecodeError::Truncated { .. })
    ));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0u8..4) {
        if bytes.len() > 13 {
            bytes[..13].copy_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, count]);
        }
        if let Ok(mut producers) = read(SECOND, limits(2), &bytes) {
            producers.cut_to(Offset(0));
        }
    }
}
