//! Two batches that are staged one directly behind the other: in one frame, where the first has memory of its own.

use bytes::Bytes;
use record::{BatchHeader, Epoch, Offset};

use super::rig::{Rig, batch, batch_bytes, open, partition, rolling};
use crate::Reserve;
use crate::journal::StageError;
use crate::store::Append;

/// Stages a batch of partition 0 with a small one of partition 1 behind it; gives back what is to be read of both.
fn stage_two(rig: &mut Rig, value_bytes: usize) -> Result<[Bytes; 2], StageError> {
    rig.fill += 1;
    let bytes = [batch(3, value_bytes, 7, rig.fill), batch(1, 80, 8, rig.fill)];
    let (_, first) = rig.store.bounds(partition(0)).unwrap_or_default();
    // One at an odd offset is alone in its memory.
    let mut first = batch_bytes(&bytes[0], first);
    rig.store
        .make_room_for_two(&mut first, bytes[1].len(), Reserve::Keep)?;
    let appends = [0, 1].map(|number| {
        let id = partition(number);
        if rig.store.bounds(id).is_none() {
            rig.store.open_partition(id, rolling(id));
        }
        let (_, first) = rig.store.bounds(id).expect("it is open");
        let header = BatchHeader::read(&bytes[usize::from(number)]).expect("a whole batch");
        Append {
            epoch: Epoch(5),
            first,
            next: first.advance(i64::from(header.record_count)),
            max_timestamp_ms: header.max_timestamp_ms,
            append_time_ms: None,
            producer_id: None,
            aborts: None,
            reserve: Reserve::Keep,
        }
    });
    rig.store.append_two(
        (partition(0), &appends[0], &mut first),
        (partition(1), &appends[1], bytes[1].clone()),
    );
    Ok([0, 1].map(|at| {
        let mut stored = bytes[at].to_vec();
        record::set_base_offset(&mut stored, appends[at].first);
        record::set_leader_epoch(&mut stored, Epoch(5));
        stored.into()
    }))
}

#[test]
fn two_are_one_frame_where_the_first_has_memory_of_its_own() {
    for value_bytes in [400, 1_200, 1_300, 1_338, 1_339, 1_340, 4_000] {
        let mut rig = Rig::new();
        // Something small is in the frame being built: it is sealed before them.
        let mut first = vec![rig.append(0, 10)];
        let pair = stage_two(&mut rig, value_bytes).expect("there is room");
        first.push(pair[0].clone());
        rig.flush_one();
        let second = rig.store.next_flush().expect("there is another frame");
        let result = second.run();
        let durable = rig.store.flushed(second, result).expect("the disk works");
        let both = [(partition(0), Offset(4)), (partition(1), Offset(1))];
        assert_eq!(durable, both, "{value_bytes}");
        assert!(!rig.flush_one(), "there were two frames");
        for (id, next) in both {
            rig.store.commit_to(id, next);
        }
        assert_eq!(rig.read(1), pair[1], "what is in memory");
        let (mut rig, _) = rig.restart();
        assert_eq!(rig.read(0), first.concat(), "{value_bytes}");
        assert_eq!(rig.read(1), pair[1], "{value_bytes}");
        rig.lay_out();
        let (mut rig, _) = rig.restart();
        assert_eq!(rig.read(0), first.concat(), "{value_bytes}, laid out");
        assert_eq!(rig.read(1), pair[1], "{value_bytes}, laid out");
    }
}

#[test]
fn a_crash_leaves_both_or_none_of_one_frame() {
    let mut rig = Rig::new();
    rig.disk.set_sector_tears(true);
    rig.append(0, 10);
    rig.flush();
    let before = rig.disk.operation_count();
    stage_two(&mut rig, 2_000).expect("there is room");
    rig.flush();
    let (mut with, mut without) = (0, 0);
    for disk in rig.disk.crash_states(64, 1) {
        let at = disk.crash_point().expect("a crash state knows its point");
        let (store, _) = open(&disk).expect("nothing is wrong with the disk");
        match [0, 1].map(|number| store.bounds(partition(number)).map(|(_, next)| next.0)) {
            [Some(4), Some(1)] => with += 1,
            [Some(1), None] => without += 1,
            [None, None] if at.completed < before => {}
            bounds => panic!("{at}: {bounds:?}"),
        }
    }
    assert!(with > 0 && without > 1, "{with} {without}");
}

#[test]
fn two_that_have_no_room_change_nothing_and_are_taken_later() {
    let mut rig = Rig::new();
    let mut expected = [Vec::new(), Vec::new()];
    let mut refused = 0;
    for _ in 0..40 {
        let before = (rig.store.bounds(partition(0)), rig.store.bounds(partition(1)));
        match stage_two(&mut rig, 1_500) {
            Ok(pair) => {
                for (all, one) in expected.iter_mut().zip(pair) {
                    all.extend_from_slice(&one);
                }
            }
            Err(StageError::Full) => {
                refused += 1;
                let after = (rig.store.bounds(partition(0)), rig.store.bounds(partition(1)));
                assert_eq!(before, after);
                rig.flush();
                rig.lay_out();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 0);
    rig.flush();
    for (number, all) in (0..).zip(&expected) {
        assert!(rig.read(number).starts_with(&all[..100]));
        assert_eq!(rig.read(number).len(), all.len());
    }
    let too_large = stage_two(&mut rig, 20_000);
    assert!(
        matches!(too_large, Err(StageError::TooLarge { .. })),
        "{too_large:?}"
    );
}

#[test]
fn two_are_in_one_frame_however_full_the_one_before_is() {
    for filler in (23_000..28_400).step_by(33) {
        let mut rig = Rig::new();
        rig.append(2, filler);
        // At an even offset it is copied.
        stage_two(&mut rig, 1_000).expect("there is room");
        let mut together = 0;
        while let Some(flush) = rig.store.next_flush() {
            let result = flush.run();
            let durable = rig.store.flushed(flush, result).expect("the disk works");
            let has = |number| durable.iter().any(|(id, _)| *id == partition(number));
            assert_eq!(has(0), has(1), "{filler}");
            together += u32::from(has(0));
        }
        assert_eq!(together, 1);
    }
}

#[test]
fn two_of_any_size_are_taken_when_there_is_room_or_never() {
    let (mut taken, mut too_large) = (0, 0);
    for value_bytes in (8_900..9_600).step_by(3) {
        let mut rig = Rig::new();
        for odd in [false, true] {
            if odd {
                rig.append(0, 10);
            }
            rig.flush();
            rig.lay_out();
            match stage_two(&mut rig, value_bytes) {
                Ok(_) => taken += 1,
                Err(StageError::TooLarge { .. }) => too_large += 1,
                Err(error) => panic!("{value_bytes}: {error:?}, and nothing makes more room"),
            }
        }
    }
    assert!(taken > 20 && too_large > 20, "{taken} and {too_large}");
}
