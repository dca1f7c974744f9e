//! A disk without room for a while: layout, checkpoints and preparations go on where they stopped when there is some again.

use platform::disk::{FaultKind, OperationKind, SimulatedDisk};

use super::layouts::fill;
use super::rig::{Rig, begin_checkpoint, config, partition};
use crate::journal::StageError;

/// Lets calls of a kind on paths that contain `part` fail for want of room.
fn no_room(disk: &SimulatedDisk, kind: OperationKind, part: &'static str) {
    disk.fail_when(move |call| {
        let meant = call.kind == kind && call.path.to_string_lossy().contains(part);
        meant.then_some(FaultKind::NoSpace { until_lifted: false })
    });
}

#[test]
fn layout_goes_on_when_the_full_disk_has_room_again() {
    let mut rig = Rig::new();
    let mut appended = vec![rig.append(0, 1_000)];
    rig.flush();
    rig.lay_out();
    appended.push(rig.append(0, 1_000));
    rig.flush();
    no_room(&rig.disk, OperationKind::Write, ".segment");
    rig.store.begin_layout();
    let job = rig
        .store
        .next_layout(rig.now_ms)
        .expect("there is something to lay out");
    let result = job.run();
    assert!(result.is_err());
    assert!(rig.store.laid_out(job, result).is_err());
    assert_eq!(rig.read(0), appended.concat(), "reads go on");
    rig.disk.clear_faults();
    rig.lay_out();
    assert_eq!(
        rig.segments(0).len(),
        2,
        "a segment whose write failed is not written again"
    );
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), appended.concat());
}

#[test]
fn a_full_journal_recovers_from_a_checkpoint_that_found_no_room() {
    let mut rig = Rig::new();
    let mut appended = fill(&mut rig);
    no_room(&rig.disk, OperationKind::Create, "checkpoint");
    rig.lay_out_only();
    let job = begin_checkpoint(&mut rig.store);
    let result = job.run();
    assert!(rig.store.checkpointed(job, result).is_err());
    rig.disk.clear_faults();
    assert!(
        rig.store.layout_is_due(),
        "a checkpoint is owed, although all is laid out"
    );
    rig.lay_out();
    appended.extend(fill(&mut rig));
    assert_eq!(rig.read(0), appended.concat());
}

#[test]
fn a_preparation_that_found_no_room_is_tried_again() {
    let mut rig = Rig::new();
    let small = fill(&mut rig).len();
    let mut rig = Rig::new();
    no_room(&rig.disk, OperationKind::FillWithZeros, ".preparing");
    let mut appended = Vec::new();
    while let Ok(bytes) = rig.try_append(0, 1, 3_000) {
        appended.push(bytes);
        rig.flush();
        if let Some(job) = rig.store.next_preparation() {
            let file = job.run();
            assert!(rig.store.prepared(job, file).is_err());
        }
    }
    assert!(appended.len() < small);
    assert_eq!(
        rig.disk
            .paths()
            .iter()
            .filter(|path| path.starts_with("journals"))
            .count(),
        2,
        "nothing is left over"
    );
    rig.disk.clear_faults();
    rig.prepare();
    appended.extend(fill(&mut rig));
    assert_eq!(appended.len(), small);
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), appended.concat());
}

#[test]
fn a_journal_that_records_have_filled_has_room_for_a_trim_and_a_deletion() {
    let mut config = config();
    config.journal.file_bytes = 512 << 10;
    let mut rig = Rig::on(SimulatedDisk::new(), config);
    rig.append(1, 100);
    while rig.try_append(0, 1, 3_000).is_ok() {
        rig.flush();
    }
    assert_eq!(rig.try_append(0, 1, 1), Err(StageError::Full));
    rig.trim(0, 1);
    rig.store
        .delete_partition(partition(1))
        .expect("the reserve is for this");
    rig.flush();
    let (rig, _) = rig.restart();
    assert_eq!(rig.bounds(0).0, 1);
    assert!(rig.store.bounds(partition(1)).is_none());
}

#[test]
fn a_new_file_that_cannot_be_prepared_takes_no_number() {
    let mut rig = Rig::new();
    no_room(&rig.disk, OperationKind::FillWithZeros, ".preparing");
    while rig.try_append(0, 1, 3_000).is_ok() {
        rig.flush();
    }
    let mut paths = Vec::new();
    for _ in 0..5 {
        let job = rig.store.next_preparation().expect("no file is ready");
        let file = job.run();
        paths.push(rig.store.prepared(job, file).expect_err("no room").to_string());
    }
    paths.dedup();
    assert_eq!(paths.len(), 1, "{paths:?}");
    rig.disk.clear_faults();
    rig.prepare();
    assert!(rig.disk.paths().contains(&"journals/000/000002.journal".into()));
}
