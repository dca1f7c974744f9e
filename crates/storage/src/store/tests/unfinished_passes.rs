//! Passes of compaction that do not come to their end: nothing is lost, and what they wrote goes.

use platform::disk::{Disk, FaultKind, OperationKind};

use super::compaction::{
    all, append, assert_sound, compact, compact_all, lay_out, log, roomy, run_pass, seal, summary,
};
use super::rig::{ROLLING, Rig, partition, write_file};
use crate::partition::SegmentRolling;
use crate::store::{Compacted, CompactionOrder};

const RESERVE_BYTES: u64 = 1 << 20;
/// The bytes that are left free beside the reserve.
const MARGIN_BYTES: u64 = 32 << 20;

#[test]
fn a_failed_pass_loses_nothing_and_the_next_one_cleans_up() {
    let mut rig = roomy();
    for _ in 0..20 {
        append(&mut rig, &[("a", Some("value"))]);
    }
    seal(&mut rig, "filler");
    let before = log(&mut rig);
    // As a crash would have left it.
    let left = rig.segments(0)[0].with_file_name("00000000000000000003.1.segment");
    write_file(&rig.disk, &left, b"half of a segment");
    let list = |rig: &Rig| rig.segments(0).len();
    let files = list(&rig);
    rig.disk.fail_when(|call| {
        let is_segments = call.path.extension().is_some_and(|end| end == "segment");
        (is_segments && call.kind == OperationKind::Write)
            .then_some(FaultKind::NoSpace { until_lifted: false })
    });
    assert!(rig.store.begin_compaction(partition(0), &all(&rig), &[]));
    let fault = loop {
        let mut job = rig.store.next_compaction().expect("one step after the other");
        let result = job.run();
        if let Err(fault) = rig.store.compacted(job, result, rig.now_ms) {
            break fault;
        }
    };
    assert!(fault.to_string().contains("segment"), "{fault}");
    assert!(!rig.store.is_compacting());
    assert_eq!(log(&mut rig), before);
    assert!(
        list(&rig) < files,
        "neither what was left nor what failed is there"
    );
    rig.disk.clear_faults();
    compact_all(&mut rig);
    assert_eq!(summary(&mut rig), [(19, "a".to_string(), true)]);
    assert_sound(&rig);
}

/// Many segments of six records a batch, with this key for each record. All may be one: so they are one group.
fn large_group(batches: usize, key: impl Fn(usize) -> String) -> Rig {
    let mut rig = roomy();
    for batch in 0..batches {
        let keys: Vec<String> = (6 * batch..6 * batch + 6).map(&key).collect();
        let records: Vec<_> = keys.iter().map(|key| (key.as_str(), Some("value"))).collect();
        append(&mut rig, &records);
        rig.lay_out();
    }
    seal(&mut rig, "filler");
    let rolling = SegmentRolling {
        bytes: 4 << 20,
        ..ROLLING
    };
    rig.store.open_partition(partition(0), rolling);
    rig
}

/// Far more than a step reads, all with one key, and a pass over it that has begun to write and not ended.
fn begin_writing() -> Rig {
    let mut rig = large_group(100, |_| "a".into());
    assert!(rig.store.begin_compaction(partition(0), &all(&rig), &[]));
    let files = rig.segments(0).len();
    while rig.segments(0).len() == files {
        let mut job = rig.store.next_compaction().expect("one step after the other");
        let result = job.run();
        let step = rig.store.compacted(job, result, rig.now_ms);
        assert_eq!(step.expect("nothing fails"), Compacted::More);
    }
    rig
}

#[test]
fn what_a_pass_that_is_given_up_has_written_goes() {
    for again_at_once in [false, true] {
        let mut rig = begin_writing();
        let id = partition(0);
        let before = log(&mut rig);
        rig.store.end_compaction();
        assert!(!rig.store.is_compacting());
        if again_at_once {
            // It must not write where the removal of what the other wrote will come by.
            compact_all(&mut rig);
        }
        lay_out(&mut rig);
        assert_eq!(rig.segments(0).len(), rig.store.partitions[&id].segments.len());
        let (mut rig, _) = rig.restart();
        match again_at_once {
            true => assert_eq!(summary(&mut rig), [(599, "a".to_string(), true)]),
            false => assert!(log(&mut rig) == before),
        }
        assert_sound(&rig);
    }
}

#[test]
fn what_a_crash_left_of_a_pass_goes_with_the_next_one_or_when_nothing_is_compacted_any_more() {
    for (passes, is_compacted) in [(0, false), (0, true), (1, false), (1, true)] {
        let mut rig = roomy();
        for _ in 0..20 {
            append(&mut rig, &[("a", Some("value"))]);
        }
        seal(&mut rig, "filler");
        for _ in 0..passes {
            compact_all(&mut rig);
            lay_out(&mut rig);
        }
        let known = rig.segments(0);
        let left = known[0].with_file_name("00000000000000000000.7.segment");
        write_file(&rig.disk, &left, b"half of a segment");
        let (mut rig, _) = rig.restart();
        assert!(rig.store.may_have_leftovers(partition(0)));
        match is_compacted {
            true => assert!(rig.store.begin_compaction(partition(0), &all(&rig), &[])),
            false => assert!(rig.store.begin_sweep(partition(0))),
        }
        let steps = run_pass(&mut rig);
        assert_eq!(steps.last() == Some(&Compacted::Done), is_compacted);
        assert!(!rig.store.may_have_leftovers(partition(0)));
        assert!(!rig.segments(0).contains(&left));
        if !is_compacted || passes > 0 {
            assert_eq!(rig.segments(0), known, "there was nothing else to do");
        }
        assert_sound(&rig);
    }
}

/// Lets the disk have so many free bytes.
fn leave_free(rig: &Rig, bytes: u64) {
    rig.disk.set_capacity(None);
    let used = rig.disk.total_bytes().expect("it is known") - rig.disk.free_bytes().expect("it is known");
    rig.disk.set_capacity(Some(used + bytes));
}

fn careful(rig: &Rig) -> CompactionOrder {
    CompactionOrder {
        disk_reserve_bytes: RESERVE_BYTES,
        ..all(rig)
    }
}

#[test]
fn a_pass_ends_where_the_disk_would_not_keep_its_reserve() {
    let mut rig = roomy();
    for _ in 0..20 {
        append(&mut rig, &[("a", Some("value"))]);
    }
    seal(&mut rig, "filler");
    let before = log(&mut rig);
    let files = rig.segments(0);
    let careful = careful(&rig);
    // Passes of other cores may write while this one does: a run that would just fit is not begun.
    leave_free(&rig, RESERVE_BYTES + MARGIN_BYTES);
    let steps = compact(&mut rig, &careful);
    assert!(matches!(steps.last(), Some(Compacted::NoRoom { bytes }) if *bytes > 0));
    assert!(!rig.store.is_compacting());
    assert!(
        rig.store.may_have_leftovers(partition(0)),
        "its file may not have gone"
    );
    assert_eq!(rig.segments(0), files, "nothing is left of it");
    assert_eq!(log(&mut rig), before);
    rig.disk.set_capacity(None);
    assert!(matches!(
        compact(&mut rig, &careful).last(),
        Some(Compacted::Done)
    ));
    assert_eq!(summary(&mut rig), [(19, "a".to_string(), true)]);
}

#[test]
fn a_large_group_of_which_little_stays_needs_little_room() {
    let mut rig = large_group(100, |_| "a".into());
    let careful = careful(&rig);
    // Far less than what is read.
    leave_free(&rig, RESERVE_BYTES + MARGIN_BYTES + (64 << 10));
    let steps = compact(&mut rig, &careful);
    assert_eq!(steps.last(), Some(&Compacted::Done));
    assert_eq!(summary(&mut rig), [(599, "a".to_string(), true)]);
}

#[test]
fn a_group_that_runs_out_of_room_is_given_up() {
    let mut rig = large_group(200, |record| format!("key {record}"));
    let (before, files) = (log(&mut rig), rig.segments(0));
    let careful = careful(&rig);
    // For the first run of two.
    leave_free(&rig, RESERVE_BYTES + MARGIN_BYTES + (1_200 << 10));
    assert!(rig.store.begin_compaction(partition(0), &careful, &[]));
    let mut bytes_written = 0;
    let ended = loop {
        let mut job = rig.store.next_compaction().expect("one step after the other");
        let result = job.run();
        bytes_written += result.as_ref().expect("nothing fails").bytes_written;
        let step = rig.store.compacted(job, result, rig.now_ms);
        match step.expect("nothing fails") {
            Compacted::More => {}
            ended => break ended,
        }
    };
    assert!(matches!(ended, Compacted::NoRoom { .. }), "{ended:?}");
    assert!(bytes_written > 1 << 20, "{bytes_written}");
    assert_eq!(rig.segments(0), files, "nothing is left of it");
    assert!(log(&mut rig) == before);
}
