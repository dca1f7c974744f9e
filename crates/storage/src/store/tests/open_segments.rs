//! Open segments that cannot be gone on with: the damage stays where it is and is told to those who read it, and what is
//! laid out afterwards can be read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::disk::{Applied, Disk, FaultKind, OperationKind, SimulatedDisk};

use super::rig::{ROLLING, Rig, config, copy, partition, read};
use crate::check::check;
use crate::fault::Fault;
use crate::partition::SegmentRolling;
use crate::segment::{SegmentName, path};
use crate::store::ReadError;

/// A partition with one record in an open segment of one block: its path.
fn one_open_segment() -> (Rig, PathBuf) {
    let mut rig = Rig::new();
    rig.append(0, 200);
    rig.flush();
    rig.lay_out();
    let path = rig.segments(0).remove(0);
    let length = rig.disk.file_bytes(&path).expect("it is listed").len();
    assert_eq!(length, 4_096, "one run of one block");
    (rig, path)
}

fn damaged_file(fault: &Fault) -> Result<&Path, String> {
    match fault {
        Fault::Damaged { file, .. } => Ok(Path::new(file)),
        other => Err(format!("it is reported as: {other}")),
    }
}

/// Batches that were laid out later are there; damage is told of, and nothing else.
fn judge(rig: &mut Rig, damaged: &Path, later: &[u8]) -> Result<(), String> {
    let id = partition(0);
    let (first, next) = rig.bounds(0);
    match read(&mut rig.store, id, first, next, 1) {
        Err(ReadError::Fault(fault)) if damaged_file(&fault)?.ends_with(damaged) => {}
        Err(error) => return Err(format!("the damage is reported as: {error}")),
        Ok(_) => return Err("the damaged record is served".into()),
    }
    match read(&mut rig.store, id, next - 1, next, 1) {
        Ok(bytes) if bytes == later => {}
        Ok(_) => return Err("the later record is another one".into()),
        Err(error) => return Err(format!("the later record is lost: {error}")),
    }
    let disk: Arc<dyn Disk> = Arc::new(copy(&rig.disk));
    let report = check(&disk, &config().identity, &mut |_| {}).map_err(|fault| fault.to_string())?;
    match &report.faults[..] {
        [fault] if damaged_file(fault)?.ends_with(damaged) => Ok(()),
        faults => Err(format!("the check finds {faults:?}")),
    }
}

/// Damages the end, lays a record out in another process, and looks from there and from a third.
fn lay_out_behind(damage: impl FnOnce(&SimulatedDisk, &Path)) -> Result<(), String> {
    let (rig, path) = one_open_segment();
    damage(&rig.disk, &path);
    let (mut rig, _) = rig.restart();
    let later = rig.append(0, 100);
    rig.flush();
    rig.lay_out();
    // Memory proves nothing of what is on the disk.
    let (mut rig, _) = rig.restart();
    judge(&mut rig, &path, &later)?;
    let last = rig.append(0, 50);
    rig.flush();
    rig.lay_out();
    let (mut rig, _) = rig.restart();
    judge(&mut rig, &path, &last)
}

/// Turns a bit in every byte of the trailer and of the table, cuts the file short, and removes it.
pub(super) fn damage_every_end() -> Result<(), String> {
    // One entry of 40 bytes; behind the one batch, which is its chunk.
    let batch_bytes = one_open_segment().0.read(0).len() as u64;
    let table = batch_bytes..batch_bytes + 40;
    for at in table.chain(4_096 - 128..4_096) {
        lay_out_behind(|disk, path| disk.flip_bit(path, 8 * at + at % 8))
            .map_err(|why| format!("byte {at}: {why}"))?;
    }
    for length in [0, 1_000, 4_095] {
        lay_out_behind(|disk, path| disk.truncate(path, length))
            .map_err(|why| format!("cut to {length} bytes: {why}"))?;
    }
    lay_out_behind(|disk, path| disk.remove(path).expect("nothing fails"))
        .map_err(|why| format!("removed: {why}"))?;
    lay_out_behind(|disk, path| {
        let directory = path.parent().expect("a segment is in a directory");
        disk.remove_directory(directory).expect("nothing fails");
    })
    .map_err(|why| format!("removed with its directory: {why}"))
}

#[test]
fn nothing_is_laid_out_behind_a_damaged_end() {
    damage_every_end().unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_segment_that_cannot_be_sealed_is_left() {
    let (mut rig, path) = one_open_segment();
    rig.append(0, 200);
    rig.flush();
    rig.lay_out();
    assert_eq!(rig.segments(0).len(), 1);
    // The first run's trailer: only the run that seals follows the runs back.
    rig.disk.flip_bit(&path, 8 * 4_000);
    rig.now_ms += ROLLING.age_ms;
    let later = rig.append(0, 200);
    rig.flush();
    rig.lay_out();
    assert_eq!(rig.segments(0).len(), 2);
    let (mut rig, _) = rig.restart();
    judge(&mut rig, &path, &later).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn layout_goes_on_without_the_directory_of_sealed_segments() {
    let (mut rig, path) = one_open_segment();
    rig.now_ms += ROLLING.age_ms;
    rig.append(0, 100);
    rig.flush();
    rig.lay_out();
    assert!(rig.store.partitions[&partition(0)].segments[0].sealed);
    let directory = path.parent().expect("a segment is in a directory");
    rig.disk.remove_directory(directory).expect("nothing fails");
    let (mut rig, _) = rig.restart();
    let later = rig.append(0, 100);
    rig.flush();
    rig.lay_out();
    let disk = copy(&rig.disk);
    let mut rig = Rig {
        disk,
        ..rig.restart().0
    };
    judge(&mut rig, &path, &later).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn an_end_is_looked_at_once_and_a_sound_one_is_gone_on_with() {
    let (rig, path) = one_open_segment();
    let (mut rig, _) = rig.restart();
    let rolling = SegmentRolling {
        bytes: 1 << 30,
        ..ROLLING
    };
    rig.store.open_partition(partition(0), rolling);
    let mut reads = Vec::new();
    for _ in 0..3 {
        rig.append(0, 100);
        rig.flush();
        rig.disk.count_reads(true);
        let seen = Arc::new(std::sync::Mutex::new(0));
        let counted = seen.clone();
        rig.disk.fail_when(move |call| {
            if call.kind == OperationKind::Read && call.path.extension().is_some_and(|end| end == "segment") {
                *counted.lock().expect("nobody panics with it") += 1;
            }
            None
        });
        rig.lay_out();
        rig.disk.count_reads(false);
        rig.disk.clear_faults();
        reads.push(*seen.lock().expect("nobody panics with it"));
    }
    assert_eq!(reads, [1, 0, 0]);
    assert_eq!(rig.segments(0), [path]);
    let all = rig.read(0);
    assert_eq!(rig.restart().0.read(0), all);
}

#[test]
fn an_end_that_cannot_be_read_now_is_left_too() {
    let (rig, _) = one_open_segment();
    let first = rig.disk.clone();
    let (mut rig, _) = rig.restart();
    let before = rig.read(0);
    let (mut rig, _) = rig.restart();
    let later = rig.append(0, 100);
    rig.flush();
    first.count_reads(true);
    first.fail_when(|call| {
        let meant = call.kind == OperationKind::Read && call.path.to_string_lossy().contains(".segment");
        meant.then_some(FaultKind::Error {
            errno: 5,
            applied: Applied::Nothing,
        })
    });
    rig.lay_out();
    first.clear_faults();
    first.count_reads(false);
    assert_eq!(rig.segments(0).len(), 2);
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), [&before[..], &later].concat(), "nothing was damaged");
}

#[test]
fn a_full_disk_is_reported_as_what_it_is() {
    let (mut rig, _) = one_open_segment();
    rig.append(0, 100);
    rig.flush();
    rig.disk.fail_when(|call| {
        let meant = call.kind == OperationKind::Write && call.path.to_string_lossy().contains(".segment");
        meant.then_some(FaultKind::NoSpace { until_lifted: false })
    });
    rig.store.begin_layout();
    let job = rig
        .store
        .next_layout(rig.now_ms)
        .expect("there is something to lay out");
    let result = job.run();
    let fault = rig.store.laid_out(job, result).expect_err("there is no room");
    assert!(fault.to_string().starts_with("writing "), "{fault}");
    assert!(matches!(fault, Fault::Disk { error, .. } if error.kind() == std::io::ErrorKind::StorageFull));
}

#[test]
fn files_that_unrecorded_runs_left_behind_go_though_an_open_segment_is_gone_on_with() {
    let (rig, open) = one_open_segment();
    let name = SegmentName {
        first: 3,
        generation: 0,
    };
    let left = path(&partition(0), name);
    rig.disk.create(&left).expect("the disk works");
    let (mut rig, _) = rig.restart();
    // The segment grows beyond where the other round had begun the next one.
    for _ in 0..5 {
        rig.append(0, 200);
    }
    rig.flush();
    rig.lay_out();
    assert_eq!(rig.segments(0), [open]);
}
