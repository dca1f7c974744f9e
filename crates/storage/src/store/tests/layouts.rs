//! Group commit and layout: what rides in which flush, how the journal fills and empties, how segments grow and are sealed.

use platform::disk::{FaultKind, OperationKind, SimulatedDisk};
use record::Offset;

use super::rig::{ROLLING, Rig, begin_checkpoint, config, partition};
use crate::fault::Fault;
use crate::journal::{JournalSizes, StageError};
use crate::partition::SegmentRolling;
use crate::store::StoreConfig;

#[test]
fn what_arrives_during_a_flush_rides_in_the_next() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    rig.append(1, 10);
    let first = rig.store.next_flush().expect("something is staged");
    rig.append(0, 10);
    rig.append(2, 10);
    assert!(rig.store.next_flush().is_none(), "one flush at a time");
    let result = first.run();
    let durable = super::rig::flushed(&mut rig.store, first, result).expect("the disk works");
    assert_eq!(durable, [(partition(0), Offset(1)), (partition(1), Offset(1))]);
    let second = rig.store.next_flush().expect("something came meanwhile");
    let result = second.run();
    let durable = super::rig::flushed(&mut rig.store, second, result).expect("the disk works");
    assert_eq!(durable, [(partition(0), Offset(2)), (partition(2), Offset(1))]);
    assert!(rig.store.next_flush().is_none(), "nothing is left");
    assert_eq!(rig.store.status().unflushed_bytes, 0);
}

#[test]
fn a_frame_larger_than_a_slab_is_one_flush() {
    let sizes = JournalSizes {
        file_bytes: 8 << 20,
        files_max: 2,
    };
    let mut rig = Rig::on(
        SimulatedDisk::new(),
        StoreConfig {
            journal: sizes,
            ..config()
        },
    );
    rig.append(0, 100);
    let large = rig.append(1, 3 << 20);
    assert!(rig.flush_one(), "the small one");
    assert!(rig.flush_one(), "the large one");
    assert!(!rig.flush_one());
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(1), large);
}

#[test]
fn what_no_file_can_hold_is_refused_for_good() {
    let mut rig = Rig::new();
    let refused = rig.try_append(0, 1, 40_000);
    assert!(matches!(refused, Err(StageError::TooLarge { .. })));
    assert_eq!(rig.bounds(0), (0, 0), "nothing has changed");
    let largest = rig.append(0, 32_768 - 4_096 - 64 - 56 - 61 - 20);
    rig.flush();
    assert_eq!(rig.read(0), largest);
}

/// A store of large files in which a round is due after 4 MiB, and how many frames with one small batch make it so.
fn frames_until_due(partitions: u8, tail_cache_bytes: usize) -> (Rig, u32) {
    let mut rig = Rig::on(
        SimulatedDisk::new(),
        StoreConfig {
            journal: JournalSizes {
                file_bytes: 16 << 20,
                files_max: 3,
            },
            layout_trigger_bytes: 4 << 20,
            tail_cache_bytes,
            ..config()
        },
    );
    for number in 0..partitions {
        rig.append(number, 10);
    }
    rig.flush();
    let mut frames = 1;
    while !rig.store.layout_is_due() {
        rig.append(0, 10);
        rig.flush();
        frames += 1;
    }
    (rig, frames)
}

#[test]
fn frames_that_hold_little_are_laid_out_while_memory_has_them() {
    let frames = |partitions, tail_cache_bytes| frames_until_due(partitions, tail_cache_bytes).1;
    let (much, little) = (16 << 20, 2 << 20);
    assert_eq!(frames(1, much), 1024, "a block for each, and a trigger's worth");
    assert_eq!(frames(1, little), 256, "half of the cache");
    assert_eq!(frames(1, 0), 128, "no smaller rounds than that");
    assert_eq!(frames(3, little), 384, "more partitions make a round dearer");
}

#[test]
fn after_a_round_frames_are_counted_anew_unless_it_was_given_up() {
    let (mut rig, _) = frames_until_due(1, 2 << 20);
    assert!(rig.store.begin_layout());
    let job = rig.store.next_layout(rig.now_ms).expect("there are batches");
    let failed = Fault::UnknownVersion {
        file: "a file".to_owned(),
        version: 9,
        known: 3,
    };
    rig.store
        .laid_out(job, Err(failed.into()))
        .expect_err("it failed");
    assert!(rig.store.layout_is_due());
    rig.lay_out();
    rig.append(0, 10);
    rig.flush();
    assert!(!rig.store.layout_is_due());
}

#[test]
fn an_append_without_a_place_hurries_the_next_file() {
    let mut rig = Rig::new();
    let job = loop {
        rig.append(0, 3_000);
        rig.flush();
        if let Some(job) = rig.store.next_preparation() {
            break job;
        }
    };
    assert!(!job.is_hurried());
    while rig.try_append(0, 1, 3_000).is_ok() {
        rig.flush();
    }
    assert!(job.is_hurried());
}

/// Fills the journal until it refuses; gives back what was taken.
pub(super) fn fill(rig: &mut Rig) -> Vec<bytes::Bytes> {
    let mut appended = Vec::new();
    for _ in 0..100 {
        match rig.try_append(0, 1, 3_000) {
            Ok(bytes) => appended.push(bytes),
            Err(StageError::Full) => return appended,
            Err(error) => panic!("{error}"),
        }
        rig.flush();
        rig.prepare();
    }
    panic!("the journal takes more than all its files hold");
}

#[test]
fn a_full_journal_refuses_until_layout_has_made_room() {
    let mut rig = Rig::new();
    let mut appended = fill(&mut rig);
    assert!(rig.store.layout_is_due());
    assert!(
        rig.store.next_preparation().is_none(),
        "there may be no further file"
    );
    assert_eq!(rig.read(0), appended.concat(), "reads go on");
    for _ in 0..3 {
        rig.lay_out();
        let more = fill(&mut rig);
        assert!(more.len() > 10);
        appended.extend(more);
    }
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), appended.concat());
    rig.lay_out();
    assert_eq!(rig.read(0), appended.concat());
}

#[test]
fn what_is_staged_in_a_full_journal_can_be_flushed() {
    // Or the checkpoint, which waits for it, could never free a file.
    let mut rig = Rig::new();
    let mut appended = Vec::new();
    while let Ok(bytes) = rig.try_append(0, 1, 3_000) {
        appended.push(bytes);
        if appended.len() % 3 == 0 {
            rig.flush();
        }
        rig.prepare();
    }
    rig.store.begin_layout();
    rig.step();
    let job = begin_checkpoint(&mut rig.store);
    rig.flush();
    assert!(rig.store.checkpoint_may_run(&job));
    let result = job.run();
    rig.store.checkpointed(job, result).expect("the disk works");
    rig.prepare();
    appended.push(rig.append(0, 3_000));
    assert_eq!(rig.read(0), appended.concat());
}

#[test]
fn a_journal_full_of_trims_is_emptied_too() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    rig.flush();
    rig.lay_out();
    let mut trims = 0;
    while rig.store.trim(partition(0), Offset(1)).is_ok() {
        rig.flush();
        rig.prepare();
        trims += 1;
        assert!(trims < 100, "the journal takes more than all its files hold");
    }
    assert!(rig.store.layout_is_due(), "although there is nothing to lay out");
    rig.lay_out();
    rig.trim(0, 1);
}

#[test]
fn a_round_that_comes_to_nothing_is_due_again() {
    let mut rig = Rig::new();
    while !rig.store.layout_is_due() {
        rig.append(0, 3_000);
        rig.flush();
    }
    rig.lay_out_only();
    let job = begin_checkpoint(&mut rig.store);
    let refused = rig.store.checkpointed(job, Err(std::io::Error::other("no room")));
    assert!(refused.is_err());
    assert!(rig.store.layout_is_due(), "its checkpoint is still owed");
    rig.lay_out();
    assert!(!rig.store.layout_is_due());
}

#[test]
fn segments_are_sealed_by_size() {
    let mut rig = Rig::new();
    let mut appended = Vec::new();
    for _ in 0..6 {
        appended.push(rig.append(0, 3_000));
        rig.flush();
        rig.lay_out();
    }
    let segments = rig.store.partitions[&partition(0)].segments.clone();
    assert!(segments.len() >= 2 && segments[0].sealed, "{segments:?}");
    assert!(segments.windows(2).all(|pair| pair[0].next == pair[1].first));
    assert_eq!(rig.segments(0).len(), segments.len());
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), appended.concat());
}

#[test]
fn segments_are_sealed_by_age() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    rig.store.open_partition(
        partition(0),
        SegmentRolling {
            bytes: 1 << 30,
            ..ROLLING
        },
    );
    rig.flush();
    rig.lay_out();
    rig.now_ms += ROLLING.age_ms;
    rig.append(0, 10);
    rig.flush();
    rig.lay_out();
    assert!(rig.store.partitions[&partition(0)].segments[0].sealed);
    rig.append(0, 10);
    rig.flush();
    rig.lay_out();
    assert_eq!(rig.store.partitions[&partition(0)].segments.len(), 2);
}

#[test]
fn a_segment_grows_by_runs_and_is_found_again_without_its_seal() {
    let mut rig = Rig::new();
    rig.store.open_partition(
        partition(0),
        SegmentRolling {
            bytes: 1 << 30,
            ..ROLLING
        },
    );
    let mut appended = Vec::new();
    for _ in 0..5 {
        appended.push(rig.append(0, 200));
        rig.store.open_partition(
            partition(0),
            SegmentRolling {
                bytes: 1 << 30,
                ..ROLLING
            },
        );
        rig.flush();
        rig.lay_out();
    }
    assert_eq!(rig.segments(0).len(), 1);
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), appended.concat());
    // Two more runs, one with the index in memory and one that seals: its table lists all.
    appended.push(rig.append(0, 9_000));
    rig.flush();
    rig.lay_out();
    assert_eq!(rig.read(0), appended.concat());
    assert!(rig.store.partitions[&partition(0)].segments[0].sealed);
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), appended.concat());
}

#[test]
fn a_round_covers_only_what_was_durable_when_it_began() {
    let mut rig = Rig::new();
    rig.append(0, 100);
    rig.flush();
    rig.append(0, 100);
    rig.store.begin_layout();
    rig.flush();
    assert_eq!(rig.step(), 1);
    assert_eq!(rig.store.partitions[&partition(0)].laid_out, 1);
    rig.checkpoint();
    assert_eq!(rig.lay_out(), 1, "the next round covers the rest");
}

#[test]
fn layout_reads_back_what_memory_has_let_go() {
    let mut rig = Rig::on(
        SimulatedDisk::new(),
        StoreConfig {
            tail_cache_bytes: 0,
            ..config()
        },
    );
    let appended: Vec<_> = (0..6)
        .map(|_| {
            let bytes = rig.append(0, 1_000);
            rig.append(1, 1_000);
            rig.flush();
            bytes
        })
        .collect();
    // Two files, and a round for each.
    assert_eq!(rig.lay_out(), 4);
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), appended.concat());
}

#[test]
fn a_failed_flush_kills_the_journal() {
    let mut rig = Rig::new();
    let kept = rig.append(0, 10);
    rig.flush();
    rig.append(0, 10);
    rig.disk.fail_when(|call| {
        let applied = platform::disk::Applied::Nothing;
        (call.kind == OperationKind::WriteDurable).then_some(FaultKind::Error { errno: 5, applied })
    });
    let flush = rig.store.next_flush().expect("something is staged");
    let result = flush.run();
    assert!(matches!(
        rig.store.flushed(flush, result),
        Err(StageError::Dead(_))
    ));
    rig.disk.clear_faults();
    assert!(rig.store.dead().is_some());
    assert!(rig.store.next_flush().is_none());
    assert!(matches!(rig.try_append(0, 1, 10), Err(StageError::Dead(_))));
    assert!(matches!(
        rig.store.trim(partition(0), Offset(1)),
        Err(StageError::Dead(_))
    ));
    rig.store.begin_layout();
    assert!(rig.store.next_layout(0).is_none());
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), kept);
}

#[test]
fn files_of_another_size_are_replaced_as_they_are_reused() {
    let mut rig = Rig::new();
    let mut appended = fill(&mut rig);
    for file_bytes in [64 << 10, 24 << 10] {
        let journal = JournalSizes {
            file_bytes,
            files_max: 4,
        };
        rig = Rig::on(rig.disk, StoreConfig { journal, ..config() });
        assert_eq!(rig.read(0), appended.concat());
        for _ in 0..5 {
            rig.lay_out();
            appended.extend(fill(&mut rig));
        }
        let lengths = rig
            .disk
            .paths()
            .into_iter()
            .filter(|path| path.extension().is_some_and(|end| end == "journal"));
        for path in lengths {
            let length = rig.disk.file_bytes(&path).expect("it is listed").len() as u64;
            assert_eq!(length, file_bytes, "{}", path.display());
        }
    }
    assert_eq!(rig.restart().0.read(0), appended.concat());
}
