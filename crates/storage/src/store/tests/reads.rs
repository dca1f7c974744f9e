//! Reading: from memory, the journal, segments and caches, at every boundary; and finding a time.

use platform::disk::{Applied, FaultKind, SimulatedDisk};
use record::{Offset, batches, checksum_holds};

use super::rig::{Rig, batch, config, open_as, partition, plain, read, read_all, stage};
use crate::store::{Located, Read, ReadError, StoreConfig};

/// Three records a batch, so that offsets 0, 3, 6 … begin one.
fn append_threes(rig: &mut Rig, batches: usize, value_bytes: usize) -> Vec<bytes::Bytes> {
    (0..batches)
        .map(|_| rig.try_append(0, 3, value_bytes).expect("there is room"))
        .collect()
}

/// Reads from every offset up to every other with several limits and compares.
fn check_all_ranges(rig: &mut Rig, appended: &[bytes::Bytes]) {
    let next = 3 * appended.len() as i64;
    for from in 0..=next {
        for until in 0..=next {
            for bytes_max in [0, 1, appended[0].len() * 2, 1 << 20] {
                let found =
                    read(&mut rig.store, partition(0), from, until, bytes_max).expect("it is in range");
                let (first, last) = (from as usize / 3, until as usize / 3);
                let whole = appended.get(first..last.max(first)).unwrap_or_default();
                if whole.is_empty() || from >= until {
                    assert!(found.is_empty(), "{from}..{until}");
                    continue;
                }
                assert!(
                    whole.concat().starts_with(&found),
                    "{from}..{until} of {bytes_max} bytes"
                );
                assert!(
                    found.len() >= whole[0].len(),
                    "at least one batch, {from}..{until} of {bytes_max} bytes"
                );
                assert!(
                    found.len() <= bytes_max.max(whole[0].len()),
                    "{from}..{until} of {bytes_max} bytes"
                );
            }
        }
    }
}

#[test]
fn a_small_part_of_what_is_in_memory_is_read_as_a_copy() {
    let mut rig = Rig::new();
    let small = rig.append(0, 100);
    rig.append(1, 3_000);
    rig.flush();
    let found = rig.store.read(partition(0), Offset(0), Offset(1), 4_000);
    let Ok(Read::Ready(found)) = found else {
        panic!("it is in memory")
    };
    assert_eq!(found.concat(), small);
    let held = &rig.store.partitions[&partition(0)].tail[0];
    let staged = crate::journal::Staged {
        frame: held.frame,
        start: held.start,
    };
    let shared = rig.store.journal.resident(staged, small.len());
    let shared = shared.expect("it is in memory");
    assert_ne!(found[0].as_ptr(), shared.as_ptr(), "nothing else is kept for it");
}

#[test]
fn every_range_is_read_from_memory() {
    let mut rig = Rig::new();
    let appended = append_threes(&mut rig, 5, 100);
    check_all_ranges(&mut rig, &appended);
    rig.flush();
    check_all_ranges(&mut rig, &appended);
    assert!(matches!(
        rig.store.read(partition(0), Offset(0), Offset(15), 1 << 20),
        Ok(Read::Ready(_))
    ));
}

#[test]
fn every_range_is_read_from_the_journal() {
    let mut rig = Rig::new();
    let appended = append_threes(&mut rig, 3, 100);
    rig.flush();
    let appended = [appended, append_threes(&mut rig, 2, 100)].concat();
    rig.flush();
    let (mut rig, _) = rig.restart();
    assert!(matches!(
        rig.store.read(partition(0), Offset(0), Offset(15), 1 << 20),
        Ok(Read::Job(_))
    ));
    check_all_ranges(&mut rig, &appended);
}

#[test]
fn every_range_is_read_from_segments() {
    let mut rig = Rig::new();
    let mut appended = Vec::new();
    for _ in 0..3 {
        appended.extend(append_threes(&mut rig, 2, 900));
        rig.flush();
        rig.lay_out();
    }
    let (mut rig, _) = rig.restart();
    assert!(rig.segments(0).len() >= 2);
    check_all_ranges(&mut rig, &appended);
    let status = rig.store.status();
    assert!(status.chunk_cache_hits > 0 && status.chunk_cache_bytes > 0);
}

#[test]
fn a_read_goes_on_across_segments_journal_and_memory() {
    let mut rig = Rig::new();
    let mut appended = append_threes(&mut rig, 2, 900);
    rig.flush();
    rig.lay_out();
    appended.extend(append_threes(&mut rig, 2, 900));
    rig.flush();
    let (mut rig, _) = rig.restart();
    appended.extend(append_threes(&mut rig, 2, 900));
    let read = rig.read(0);
    assert_eq!(read, appended.concat());
    for batch in batches(&read) {
        let (header, bytes) = batch.expect("whole");
        assert!(checksum_holds(bytes));
        assert_eq!(header.leader_epoch.0, 5);
    }
}

#[test]
fn what_lies_outside_is_refused() {
    let mut rig = Rig::new();
    append_threes(&mut rig, 1, 10);
    for from in [-1, 4, i64::MAX] {
        let read = rig.store.read(partition(0), Offset(from), Offset(9), 100);
        assert!(matches!(read, Err(ReadError::OutOfRange { .. })), "{from}");
    }
    let at_the_end = read(&mut rig.store, partition(0), 3, i64::MAX, 100).expect("the end is no error");
    assert!(at_the_end.is_empty());
    let unknown = rig.store.read(partition(5), Offset(0), Offset(9), 100);
    assert!(matches!(unknown, Err(ReadError::UnknownPartition(_))));
}

#[test]
fn a_job_overtaken_by_layout_and_reuse_reads_again() {
    let mut rig = Rig::new();
    let first = rig.append(0, 2_000);
    rig.flush();
    let (mut rig, _) = rig.restart();
    let Ok(Read::Job(job)) = rig.store.read(partition(0), Offset(0), Offset(1), 100) else {
        panic!("nothing is in memory after a start")
    };
    // Meanwhile the frame is laid out and its place in the journal written over.
    for _ in 0..12 {
        rig.append(1, 9_000);
        rig.flush();
        rig.lay_out();
    }
    let mut next = rig
        .store
        .finish_read(job.run())
        .expect("it moved, it is not lost");
    let found = loop {
        match next {
            Read::Ready(parts) | Read::Part(parts) => break parts.concat(),
            Read::Job(job) => next = rig.store.finish_read(job.run()).expect("it is in a segment"),
            Read::UnderWay => panic!("nothing is read ahead"),
        }
    };
    assert_eq!(found, first);
}

#[test]
fn the_tail_cache_keeps_to_its_size() {
    let mut rig = Rig::on(
        platform::disk::SimulatedDisk::new(),
        StoreConfig {
            tail_cache_bytes: 8 << 10,
            ..config()
        },
    );
    for _ in 0..5 {
        rig.append(0, 3_000);
        rig.flush();
        assert!(rig.store.status().tail_cache_bytes <= 8 << 10);
    }
    let from_memory = rig.store.read(partition(0), Offset(4), Offset(5), 100);
    assert!(matches!(from_memory, Ok(Read::Ready(_))));
    let from_disk = rig.store.read(partition(0), Offset(0), Offset(5), 1 << 20);
    let Ok(Read::Job(job)) = from_disk else {
        panic!("the first ones are not in memory any more");
    };
    let found = rig.store.finish_read(job.run());
    assert!(matches!(found, Ok(Read::Part(_))), "the last ones are elsewhere");
}

#[test]
fn an_append_time_is_written_into_the_batch() {
    let mut rig = Rig::new();
    rig.store.open_partition(partition(0), super::rig::ROLLING);
    let bytes = batch(2, 10, 77, 1);
    let append = crate::store::Append {
        epoch: record::Epoch(1),
        first: Offset(0),
        next: Offset(2),
        max_timestamp_ms: 78,
        append_time_ms: Some(5_000),
        producer_id: None,
        aborts: None,
        reserve: crate::Reserve::Keep,
    };
    rig.store
        .append(partition(0), &append, &mut bytes.into())
        .expect("there is room");
    assert_eq!(rig.store.max_timestamp(partition(0)), Some(5_000));
    let stored = rig.read(0);
    let header = record::BatchHeader::read(&stored).expect("whole");
    assert_eq!(header.max_timestamp_ms, 5_000);
    assert!(checksum_holds(&stored));
}

/// Loads an index at most once, whatever the cache keeps of it.
fn locate(rig: &mut Rig, timestamp_ms: i64) -> Option<i64> {
    let mut located = rig
        .store
        .locate_timestamp(partition(0), timestamp_ms)
        .expect("it is known");
    if let Located::Job(job) = located {
        located = rig
            .store
            .finish_locate(job.run(), timestamp_ms)
            .expect("nothing is damaged");
    }
    match located {
        Located::From(offset) => Some(offset.0),
        Located::Nowhere => None,
        Located::Job(_) => panic!("the index was loaded, and nothing has moved"),
    }
}

#[test]
fn a_timestamp_is_located_in_segments_and_tail() {
    locate_times(config());
}

#[test]
fn a_timestamp_is_located_though_the_cache_takes_no_index() {
    locate_times(StoreConfig {
        chunk_cache_bytes: 0,
        ..config()
    });
}

#[test]
fn a_timestamp_is_located_though_its_segment_is_given_up_meanwhile() {
    let mut rig = Rig::new();
    for number in 0..4 {
        let bytes = batch(3, 1_500, 1_000 * number, number as u64);
        stage(&mut rig.store, partition(0), &bytes).expect("there is room");
        rig.flush();
        rig.lay_out();
    }
    let (mut rig, _) = rig.restart();
    let Ok(Located::Job(job)) = rig.store.locate_timestamp(partition(0), 0) else {
        panic!("no index is in memory after a start")
    };
    rig.trim(0, 9);
    rig.flush();
    rig.remove();
    let mut located = rig.store.finish_locate(job.run(), 0);
    if let Ok(Located::Job(job)) = located {
        located = rig.store.finish_locate(job.run(), 0);
    }
    assert!(matches!(located, Ok(Located::From(Offset(9)))));
}

/// A fault that is found there is no index that was trimmed meanwhile, to be asked for again.
#[test]
fn a_search_whose_index_cannot_be_read_ends_though_the_log_starts_inside_its_segment() {
    let mut rig = Rig::new();
    for number in 0..4 {
        let bytes = batch(3, 100, 1_000 * number, number as u64);
        stage(&mut rig.store, partition(0), &bytes).expect("there is room");
    }
    rig.flush();
    rig.lay_out();
    let (mut rig, _) = rig.restart();
    rig.trim(0, 4);
    rig.flush();
    let Ok(Located::Job(job)) = rig.store.locate_timestamp(partition(0), 0) else {
        panic!("no index is in memory after a start")
    };
    rig.disk.count_reads(true);
    rig.disk.fail_when(|call| {
        call.path.starts_with("partitions").then_some(FaultKind::Error {
            errno: 5,
            applied: Applied::Nothing,
        })
    });
    let located = rig.store.finish_locate(job.run(), 0).map_err(plain);
    assert!(matches!(located, Err(ReadError::Fault(_))));
}

fn locate_times(config: StoreConfig) {
    let mut rig = Rig::on(SimulatedDisk::new(), config);
    // Batch n has timestamps from 1,000 n to 1,000 n + 2.
    for number in 0..6 {
        let bytes = batch(3, 1_500, 1_000 * number, number as u64);
        stage(&mut rig.store, partition(0), &bytes).expect("there is room");
        rig.flush();
        if number == 1 || number == 3 {
            rig.lay_out();
        }
    }
    for restarted in [false, true] {
        if restarted {
            rig = rig.restart().0;
        }
        for timestamp in [-5, 0, 1, 2, 3, 1_000, 2_001, 3_002, 3_003, 4_000, 5_002] {
            let from = locate(&mut rig, timestamp).expect("there is a later one");
            let number = (0..6)
                .find(|number| 1_000 * number + 2 >= timestamp)
                .expect("there is a later one");
            assert!(
                from <= 3 * number && from >= 3 * (number - 2),
                "{timestamp}: from {from}, the batch is at {number}"
            );
        }
        assert_eq!(locate(&mut rig, 5_003), None);
    }
    rig.trim(0, 7);
    assert_eq!(locate(&mut rig, 0), Some(7), "never below the start");
    assert!(open_as(&rig.disk, config).is_ok());
}

#[test]
fn frames_beside_each_other_are_read_together_and_those_of_others_left_out() {
    let mut rig = Rig::on(
        SimulatedDisk::new(),
        StoreConfig {
            tail_cache_bytes: 0,
            ..config()
        },
    );
    let mut appended = Vec::new();
    let frames = 8;
    for number in 0..frames {
        appended.push(rig.append(0, 40));
        rig.flush();
        if number % 3 == 1 {
            rig.append(1, 40);
            rig.flush();
        }
    }
    rig.disk.count_reads(true);
    let before = rig.disk.call_count();
    let read = read_all(&mut rig.store, partition(0), 1 << 20).expect("all of it can be read");
    assert_eq!(read, appended.concat());
    let calls = rig.disk.call_count() - before;
    assert_eq!(
        calls, 3,
        "of {frames} frames, between which two of another partition stand"
    );
}

/// Frames with a small batch of the first partition, and beside them or in them a larger one of the second.
fn shared_frames(count: usize, others_bytes: usize) -> (Rig, Vec<bytes::Bytes>) {
    let mut config = config();
    config.journal.files_max = 40;
    config.tail_cache_bytes = 0;
    let mut rig = Rig::on(SimulatedDisk::new(), config);
    let mut appended = Vec::new();
    for _ in 0..count {
        appended.push(rig.append(0, 40));
        rig.append(1, others_bytes);
        rig.flush();
        rig.prepare();
    }
    (rig, appended)
}

/// Says whether what a read of two batches gives lies side by side in memory: a copy does, and not what was read with their frames.
fn is_copied(rig: &mut Rig) -> bool {
    let Ok(Read::Job(job)) = rig.store.read(partition(0), Offset(0), Offset(2), 1 << 20) else {
        panic!("nothing is kept in memory");
    };
    let Ok(Read::Ready(parts)) = rig.store.finish_read(job.run()) else {
        panic!("all of it is in the journal");
    };
    let [one, next] = &parts[..] else {
        panic!("two batches");
    };
    one.as_ptr_range().end == next.as_ptr_range().start
}

#[test]
fn what_others_have_in_a_frame_is_not_kept_in_memory() {
    let (mut shared, _) = shared_frames(2, 3_000);
    assert!(is_copied(&mut shared), "of two frames a few bytes are wanted");
    let mut config = config();
    config.tail_cache_bytes = 0;
    let mut own = Rig::on(SimulatedDisk::new(), config);
    for _ in 0..2 {
        own.append(0, 3_500);
        own.flush();
    }
    assert!(!is_copied(&mut own), "nearly all of both is wanted");
}

#[test]
fn a_read_of_few_bytes_in_many_frames_stops_in_time() {
    let (mut rig, appended) = shared_frames(30, 20_000);
    let all = appended.concat();
    let Ok(Read::Job(job)) = rig.store.read(partition(0), Offset(0), Offset(30), all.len()) else {
        panic!("nothing is kept in memory");
    };
    let Ok(Read::Part(parts)) = rig.store.finish_read(job.run()) else {
        panic!("more frames than are read at a time");
    };
    assert!((1..30).contains(&parts.len()));
    assert!(all.starts_with(&parts.concat()));
    assert_eq!(rig.read(0), all);
}
