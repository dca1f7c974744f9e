//! Recovery after a clean end and after one at each stage of a round of layout, and what it hands to the owner.

use std::path::Path;

use bytes::Bytes;
use platform::disk::{Applied, Call, FaultKind, OperationKind};

use super::rig::{Rig, begin_checkpoint, copy, open, partition, read_all};

#[test]
fn an_empty_disk_gives_an_empty_store() {
    let rig = Rig::new();
    let (rig, recovered) = rig.restart();
    assert!(recovered.partitions.is_empty());
    assert_eq!(
        (recovered.frames, recovered.journal_bytes, recovered.cut_bytes),
        (0, 0, 0)
    );
    assert_eq!(rig.store.status().partitions, 0);
}

/// Ends the process after each of the stages of a round; all must give the same records.
#[test]
fn a_round_may_end_at_any_stage() {
    for stage in 0..7 {
        let mut rig = Rig::new();
        let mut appended: Vec<Bytes> = Vec::new();
        for round in 0..3 {
            appended.extend([rig.append(0, 800), rig.append(0, 2_500)]);
            rig.append(1, 800);
            rig.flush();
            if round < 2 {
                rig.lay_out();
            }
        }
        end_at(&mut rig, stage);
        let (mut rig, recovered) = rig.restart();
        assert_eq!(rig.read(0), appended.concat(), "stage {stage}");
        assert_eq!(recovered.partitions.len(), 2);
        appended.push(rig.append(0, 100));
        rig.flush();
        rig.lay_out();
        let (mut rig, _) = rig.restart();
        assert_eq!(rig.read(0), appended.concat(), "stage {stage}, gone on");
    }
}

fn end_at(rig: &mut Rig, stage: usize) {
    let stages: [&dyn Fn(&mut Rig); 6] = [
        &|rig| {
            rig.store.begin_layout();
        },
        &|rig| {
            let job = rig.store.next_layout(rig.now_ms).expect("two partitions wait");
            job.run().map(|_| ()).expect("the disk works");
            // Run, but never applied; then given up.
            let result = job.run();
            rig.store.laid_out(job, result).expect("the disk works");
        },
        &|rig| {
            rig.step();
        },
        &|rig| {
            let job = begin_checkpoint(&mut rig.store);
            job.run().expect("the disk works");
            rig.store.checkpointed(job, Ok(())).expect("it was written");
        },
        &Rig::prepare,
        &|rig| {
            rig.remove();
        },
    ];
    stages.iter().take(stage).for_each(|run| run(rig));
}

#[test]
fn the_owners_state_comes_back_with_what_came_after_it() {
    let mut rig = Rig::new();
    rig.append(0, 100);
    rig.append(0, 100);
    rig.flush();
    rig.lay_out();
    rig.append(0, 100);
    rig.append(1, 100);
    rig.flush();
    let (_, recovered) = rig.restart();
    let [first, second] = &recovered.partitions[..] else {
        panic!("two partitions")
    };
    assert_eq!((first.id, second.id), (partition(0), partition(1)));
    assert_eq!(&*first.state, &2_i64.to_le_bytes());
    assert_eq!(
        first
            .replay
            .iter()
            .map(|batch| batch.header.base_offset.0)
            .collect::<Vec<_>>(),
        [2]
    );
    assert!(second.state.is_empty());
    assert_eq!(second.replay.len(), 1);
    assert_eq!(recovered.frames, 1);
}

#[test]
fn a_torn_frame_is_cut_off_and_its_place_used_again() {
    let mut rig = Rig::new();
    let kept = rig.append(0, 100);
    rig.flush();
    rig.append(0, 9_000);
    let flush = rig.store.next_flush().expect("something is staged");
    flush.run().expect("the disk works");
    // Its last block never arrived.
    let path = rig
        .disk
        .paths()
        .into_iter()
        .find(|path| path.ends_with("000000.journal"))
        .expect("the first file");
    let bytes = rig.disk.file_bytes(&path).expect("it is listed");
    let disk = copy(&rig.disk);
    let mut torn = bytes.clone();
    torn[4_096 * 4..4_096 * 5].fill(0);
    super::rig::write_file(&disk, &path, &torn);
    let (store, recovered) = open(&disk).expect("a torn frame is no damage");
    assert_eq!(recovered.cut_bytes, 3 * 4_096);
    let mut rig = Rig { store, disk, ..rig };
    assert_eq!(rig.read(0), kept);
    let next = rig.append(0, 50);
    rig.flush();
    let (mut rig, recovered) = rig.restart();
    assert_eq!(recovered.cut_bytes, 0);
    assert_eq!(rig.read(0), [kept, next].concat());
}

#[test]
fn a_journal_is_closed_once_behind_what_recovery_needs() {
    let mut rig = Rig::new();
    assert!(!rig.store.stage_closing_frame(), "nothing is in it");
    let mut appended = vec![rig.append(0, 100)];
    assert!(!rig.store.stage_closing_frame(), "the frame is still being built");
    rig.flush();
    assert!(rig.store.stage_closing_frame());
    assert!(!rig.store.stage_closing_frame(), "it is closed already");
    assert!(rig.flush_one() && !rig.flush_one());
    let (mut rig, recovered) = rig.restart();
    assert_eq!(recovered.frames, 2);
    assert!(!rig.store.stage_closing_frame(), "and a start finds that");
    appended.push(rig.append(0, 100));
    rig.flush();
    assert!(rig.store.stage_closing_frame(), "there are later records");
    rig.flush();
    rig.lay_out();
    assert_eq!(rig.read(0), appended.concat());
    rig.append(0, 100);
    rig.flush();
    rig.lay_out();
    assert!(
        !rig.store.stage_closing_frame(),
        "segments have all, recovery needs nothing of the journal"
    );
}

#[test]
fn a_torn_closing_frame_is_cut_off() {
    let mut rig = Rig::new();
    let kept = rig.append(0, 100);
    rig.flush();
    rig.store.stage_closing_frame();
    let whole = copy(&rig.disk);
    rig.flush();
    let (_, recovered) = open(&whole).expect("nothing is wrong with the disk");
    assert_eq!((recovered.frames, recovered.cut_bytes), (1, 0));
    let path = Path::new("journals/000/000000.journal");
    let mut bytes = rig.disk.file_bytes(path).expect("the first file");
    bytes[2 * 4_096..][8..24].fill(0);
    super::rig::write_file(&rig.disk, path, &bytes);
    let (mut rig, recovered) = rig.restart();
    assert_eq!(recovered.frames, 1, "nothing was in it");
    assert_eq!(rig.read(0), kept);
}

#[test]
fn a_disk_without_room_can_be_opened_and_read() {
    let mut rig = Rig::new();
    let appended = [rig.append(0, 3_000), rig.append(0, 3_000)];
    rig.flush();
    rig.lay_out();
    let last = rig.append(0, 3_000);
    rig.flush();
    rig.disk.set_capacity(Some(0));
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), [appended.concat(), last.to_vec()].concat());
}

/// Appends, so many times, and gives back what the partition has then.
fn append(rig: &mut Rig, appended: &mut Vec<Bytes>, count: usize) -> Vec<u8> {
    for _ in 0..count {
        appended.push(rig.append(0, 3_000));
        rig.flush();
        rig.prepare();
    }
    appended.concat()
}

/// A node whose last checkpoint has taken its name, and the sync of that has failed.
fn with_a_doubtful_checkpoint(appended: &mut Vec<Bytes>) -> Rig {
    let mut rig = Rig::new();
    append(&mut rig, appended, 6);
    rig.lay_out();
    append(&mut rig, appended, 14);
    rig.lay_out_only();
    rig.disk.fail_when(|call| {
        let is_doubtful = call.kind == OperationKind::SyncDirectory && call.path == Path::new("checkpoints");
        is_doubtful.then_some(FaultKind::Error {
            errno: 5,
            applied: Applied::All,
        })
    });
    let job = begin_checkpoint(&mut rig.store);
    rig.flush();
    job.run().expect_err("its name is not synced");
    rig.disk.clear_faults();
    rig
}

fn check_cuts(rig: &Rig, expected: &[u8]) {
    for choice in 0..40 {
        let (mut store, _) = open(&rig.disk.crash(choice)).expect("all that it needs is there");
        let read = read_all(&mut store, partition(0), 4_000).expect("it can be read");
        assert_eq!(read, expected, "cut {choice}");
    }
}

/// Another process starts over what it sees, and goes on until journal files are used again. Then the power fails.
pub(super) fn go_on_from_a_doubtful_checkpoint() {
    let mut appended = Vec::new();
    let rig = with_a_doubtful_checkpoint(&mut appended);
    let (mut rig, _) = rig.restart();
    let all = append(&mut rig, &mut appended, 6);
    check_cuts(&rig, &all);
}

#[test]
fn a_checkpoint_that_may_be_gone_is_made_durable_first() {
    go_on_from_a_doubtful_checkpoint();
}

#[test]
fn on_a_full_disk_an_earlier_checkpoint_keeps_what_it_needs_until_there_is_room() {
    let mut appended = Vec::new();
    let rig = with_a_doubtful_checkpoint(&mut appended);
    let is_of_checkpoints = |call: &Call| call.path.extension().is_some_and(|end| end == "replacing");
    rig.disk
        .fail_when(move |call| is_of_checkpoints(call).then_some(FaultKind::NoSpace { until_lifted: false }));
    let (mut rig, _) = rig.restart();
    // As far as there is room in the files that nobody else needs.
    while let Ok(bytes) = rig.try_append(0, 1, 3_000) {
        appended.push(bytes);
        rig.flush();
        rig.prepare();
    }
    rig.remove();
    check_cuts(&rig, &appended.concat());
    rig.store.set_short_of_space(false);
    rig.try_append(0, 1, 3_000).expect_err("the disk is full still");
    rig.disk.clear_faults();
    rig.store.set_short_of_space(false);
    rig.prepare();
    let all = append(&mut rig, &mut appended, 6);
    check_cuts(&rig, &all);
}
