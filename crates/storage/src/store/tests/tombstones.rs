//! Tombstones: what goes with them at once, and when they go themselves.

use record::Offset;

use super::compaction::{
    all, append, assert_sound, compact, compact_all, lay_out, roomy, run_pass, seal, summary,
};
use super::rig::{Rig, partition};
use super::workload::EAGER;
use crate::compaction::CompactionPolicy;
use crate::store::{Compacted, CompactionOrder};

#[test]
fn tombstones_stay_for_their_time_and_take_older_records_with_them_at_once() {
    let mut rig = roomy();
    append(&mut rig, &[("a", Some("first")), ("b", Some("first"))]);
    append(&mut rig, &[("a", None)]);
    seal(&mut rig, "filler");
    let first_pass_ms = rig.now_ms;
    compact_all(&mut rig);
    lay_out(&mut rig);
    let with_tombstone = [(1, "b".to_string(), true), (2, "a".to_string(), false)];
    assert_eq!(summary(&mut rig), with_tombstone);

    // Neither a restart nor more passes make the time longer or shorter.
    let (mut rig, _) = rig.restart();
    rig.now_ms = first_pass_ms + EAGER.delete_retention_ms - 2;
    append(&mut rig, &[("b", Some("second"))]);
    seal(&mut rig, "other");
    rig.now_ms = first_pass_ms + EAGER.delete_retention_ms - 1;
    compact_all(&mut rig);
    lay_out(&mut rig);
    assert!(summary(&mut rig).contains(&(2, "a".to_string(), false)));
    rig.now_ms = first_pass_ms + EAGER.delete_retention_ms;
    let need = rig
        .store
        .compaction_need(partition(0), &EAGER, Offset(i64::MAX), rig.now_ms);
    assert_eq!(need.expect("its time is over").dirty_bytes, 0);
    let steps = compact_all(&mut rig);
    let tombstones = steps.iter().map(|step| match step {
        Compacted::Rewritten {
            tombstones_removed, ..
        } => *tombstones_removed,
        _ => 0,
    });
    assert_eq!(tombstones.sum::<u64>(), 1);
    assert!(summary(&mut rig).iter().all(|(_, key, _)| key != "a"));
    assert!(
        rig.store
            .compaction_need(partition(0), &EAGER, Offset(i64::MAX), rig.now_ms)
            .is_none()
    );
    assert_sound(&rig);
}

#[test]
fn a_long_pass_gives_tombstones_their_time_from_its_end() {
    let mut rig = roomy();
    append(&mut rig, &[("a", Some("first"))]);
    append(&mut rig, &[("a", None)]);
    seal(&mut rig, "filler");
    assert!(rig.store.begin_compaction(partition(0), &all(&rig), &[]));
    rig.now_ms += 10 * EAGER.delete_retention_ms;
    run_pass(&mut rig);
    lay_out(&mut rig);
    let need = |rig: &Rig, now_ms| {
        rig.store
            .compaction_need(partition(0), &EAGER, Offset(i64::MAX), now_ms)
    };
    let ended_ms = rig.now_ms;
    assert!(need(&rig, ended_ms + EAGER.delete_retention_ms - 1).is_none());
    assert!(need(&rig, ended_ms + EAGER.delete_retention_ms).is_some());
}

/// A pass that may touch less than the one before it knows nothing of the tombstones behind its end.
#[test]
fn a_pass_that_ends_sooner_leaves_later_tombstones_their_time() {
    let mut rig = roomy();
    seal(&mut rig, "first");
    let early_ms = rig.now_ms;
    append(&mut rig, &[("a", Some("first"))]);
    append(&mut rig, &[("a", None)]);
    seal(&mut rig, "filler");
    compact_all(&mut rig);
    lay_out(&mut rig);
    let appointment_ms = rig.now_ms + EAGER.delete_retention_ms;
    let sooner = CompactionOrder {
        policy: CompactionPolicy {
            min_lag_ms: rig.now_ms - early_ms,
            ..EAGER
        },
        ..all(&rig)
    };
    assert_eq!(compact(&mut rig, &sooner).last(), Some(&Compacted::Done));
    lay_out(&mut rig);
    let (mut rig, _) = rig.restart();
    rig.now_ms = appointment_ms;
    let need = rig
        .store
        .compaction_need(partition(0), &EAGER, Offset(i64::MAX), rig.now_ms);
    assert!(need.is_some(), "their time is over");
    compact_all(&mut rig);
    assert!(summary(&mut rig).is_empty());
    assert_sound(&rig);
}
