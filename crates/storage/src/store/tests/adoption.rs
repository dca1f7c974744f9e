//! Tests of adoption: a journal file that is nearly all one partition's becomes its segment, and is nothing else again.

use std::sync::Arc;

use platform::disk::{BLOCK_BYTES, Disk, SimulatedDisk};

use super::returning::assert_accounted;
use super::rig::{Rig, begin_checkpoint, config, copy, open_as, partition, read_all};
use crate::check::check;
use crate::partition::SegmentRolling;
use crate::segment::{Segment, open_segment, read_table};
use crate::store::ReadError;

/// Its segments may be as large as a journal file.
pub(super) const LARGE: u8 = 3;
/// With this value a batch nearly fills two blocks of a frame of its own.
pub(super) const VALUE_BYTES: usize = 7_900;

/// With room for several files that wait for their round.
pub(super) fn roomy() -> Rig {
    let mut config = config();
    config.journal.files_max = 9;
    Rig::on(SimulatedDisk::new(), config)
}

pub(super) fn adopted(rig: &Rig) -> Vec<Segment> {
    let log = &rig.store.partitions[&partition(LARGE)];
    let segments = log.segments.iter().copied();
    segments.filter(|segment| segment.adopted.is_some()).collect()
}

/// Fills somewhat more than `files` journal files with one partition's batches, and a few of another's in each; returns what
/// is to be read of both.
pub(super) fn fill(rig: &mut Rig, files: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for _ in 0..files * 4 {
        large.extend_from_slice(&rig.append(LARGE, VALUE_BYTES));
        rig.flush();
        rig.prepare();
        if large.len() % 3 == 0 {
            small.extend_from_slice(&rig.append(0, 20));
        }
    }
    small.extend_from_slice(&rig.append(0, 20));
    rig.flush();
    rig.prepare();
    (large, small)
}

pub(super) fn journal_files(rig: &Rig) -> usize {
    let paths = rig.disk.paths().into_iter();
    paths
        .filter(|path| path.extension().is_some_and(|end| end == "journal"))
        .count()
}

#[test]
fn a_file_of_one_partition_becomes_its_segment() {
    let mut rig = roomy();
    let (large, small) = fill(&mut rig, 2);
    let written = rig.disk.paths().len();
    rig.lay_out();
    let segments = adopted(&rig);
    assert!(!segments.is_empty(), "{written} files, and none was adopted");
    for segment in &segments {
        assert!(
            segment.sealed && segment.end <= 2 * BLOCK_BYTES as u64,
            "only an index was written"
        );
    }
    // From memory, then from the file, then by another process.
    assert_eq!(rig.read(LARGE), large);
    let (mut rig, _) = rig.restart();
    assert_eq!(adopted(&rig), segments);
    assert_eq!(rig.read(LARGE), large);
    assert_eq!(rig.read(0), small);
    // The journal goes on in other files, and recycles those.
    for _ in 0..4 {
        fill(&mut rig, 2);
        rig.lay_out();
    }
    assert_eq!(rig.read(LARGE)[..large.len()], large);
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let report = check(&disk, &rig.store.config.identity, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
}

#[test]
fn what_is_not_nearly_all_one_partitions_is_copied() {
    let mut rig = roomy();
    for _ in 0..8 {
        rig.append(LARGE, 3_500);
        rig.append(2, 3_500);
        rig.flush();
        rig.prepare();
    }
    rig.lay_out();
    assert!(adopted(&rig).is_empty());
    // Nor with segments that are to be smaller than a file.
    let mut rig = roomy();
    for _ in 0..8 {
        rig.append(0, VALUE_BYTES);
        rig.flush();
        rig.prepare();
    }
    rig.lay_out();
    let log = &rig.store.partitions[&partition(0)];
    assert!(!log.segments.is_empty() && log.segments.iter().all(|segment| segment.adopted.is_none()));
}

/// Trims between the adoption of a file and the checkpoint that makes it a segment: recovery still needs the file.
pub(super) fn trim_what_was_just_adopted() -> Result<(), String> {
    let mut rig = roomy();
    let (_, small) = fill(&mut rig, 2);
    rig.lay_out_only();
    let segments = adopted(&rig);
    let last = segments.last().ok_or("no file was adopted")?;
    let frame = rig.trim(LARGE, last.next);
    rig.flush();
    assert!(rig.store.is_durable(frame));
    rig.store.set_short_of_space(true);
    rig.remove();
    let (mut rig, recovered) = crate::store::tests::rig::open(&rig.disk)
        .map(|(store, recovered)| (Rig { store, ..rig }, recovered))
        .map_err(|fault| fault.to_string())?;
    let kept = recovered
        .partitions
        .iter()
        .find(|found| found.id == partition(LARGE));
    if kept.map(|found| found.log_start.0) != Some(last.next) {
        return Err("the trim is lost".into());
    }
    match read_all(&mut rig.store, partition(0), 4_000) {
        Ok(read) if read == small => Ok(()),
        Ok(_) => Err("other records are there".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_file_that_recovery_needs_stays() {
    trim_what_was_just_adopted().unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn damage_in_an_adopted_file_is_named_and_never_served() {
    let mut rig = roomy();
    fill(&mut rig, 2);
    rig.lay_out();
    let segment = adopted(&rig)[0];
    let path = segment.adopted.expect("adopted").path(&rig.store.config.identity);
    let (rig, _) = rig.restart();
    for place in [BLOCK_BYTES + 10, BLOCK_BYTES + 200, 3 * BLOCK_BYTES + 4_000] {
        let disk = super::rig::copy(&rig.disk);
        disk.flip_bit(&path, 8 * place as u64);
        let (mut store, _) = super::rig::open(&disk).expect("a start does not look there");
        let error = read_all(&mut store, partition(LARGE), 1 << 20).expect_err("a bit has turned");
        let ReadError::Fault(fault) = error else {
            panic!("{error}")
        };
        assert!(fault.to_string().contains(&path.display().to_string()), "{fault}");
        let shared: Arc<dyn Disk> = Arc::new(disk);
        let report = check(&shared, &rig.store.config.identity, &mut |_| {}).expect("there is a checkpoint");
        assert!(!report.is_sound());
    }
    let disk = super::rig::copy(&rig.disk);
    disk.remove(&path).expect("nothing fails");
    let (mut store, _) = super::rig::open(&disk).expect("a start does not look there");
    let error = read_all(&mut store, partition(LARGE), 1 << 20).expect_err("the file is gone");
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn a_file_given_up_while_its_checkpoint_is_written_is_not_written_to_again() {
    let mut rig = roomy();
    fill(&mut rig, 2);
    rig.lay_out_only();
    let last = *adopted(&rig).last().expect("one was adopted");
    let job = begin_checkpoint(&mut rig.store);
    rig.flush();
    let result = job.run();
    rig.trim(LARGE, last.next);
    rig.flush();
    rig.store.checkpointed(job, result).expect("the disk works");
    rig.prepare();
    // The checkpoint calls these files segments: recovery passes over whatever is in them.
    for _ in 0..14 {
        rig.append(0, 7_000);
        rig.flush();
        rig.prepare();
        let (store, _) = open_as(&copy(&rig.disk), rig.store.config).expect("nothing is damaged");
        let (_, next) = store.bounds(partition(0)).expect("it is known");
        assert_eq!(next.0, rig.bounds(0).1, "acknowledged records are gone");
    }
    rig.remove();
    rig.lay_out();
    assert_accounted(&rig.store, &rig.disk);
}

#[test]
fn a_round_never_ends_before_what_was_laid_out() {
    let mut rig = roomy();
    for value_bytes in [VALUE_BYTES, VALUE_BYTES, VALUE_BYTES, 20, 20] {
        rig.append(0, value_bytes);
        rig.flush();
        rig.prepare();
    }
    rig.lay_out_only();
    let job = begin_checkpoint(&mut rig.store);
    rig.flush();
    let failed = std::io::Error::other("the disk is full");
    rig.store
        .checkpointed(job, Err(failed))
        .expect_err("it could not be written");
    // The file being written is nearly all another partition's from now on, and might be adopted later.
    for _ in 0..2 {
        rig.append(LARGE, VALUE_BYTES);
        rig.flush();
        rig.prepare();
    }
    rig.lay_out();
    rig.restart();
}

/// The checkpoint has recovery begin at a file's end, where the next frame had no place any more.
#[test]
fn a_file_without_frames_is_freed_beside_one_to_be_adopted() {
    let mut config = config();
    config.journal.files_max = 2;
    let mut rig = Rig::on(SimulatedDisk::new(), config);
    for _ in 0..3 {
        rig.append(0, VALUE_BYTES);
        rig.flush();
    }
    rig.lay_out();
    let mut expected = Vec::new();
    for _ in 0..3 {
        expected.extend_from_slice(&rig.append(LARGE, VALUE_BYTES));
        rig.flush();
    }
    rig.lay_out();
    expected.extend_from_slice(&rig.append(LARGE, VALUE_BYTES));
    rig.flush();
    assert_eq!(rig.read(LARGE), expected);
}

/// A rig with files that are far larger than a frame, and a partition that may adopt them.
fn spacious(file_bytes: u64) -> Rig {
    let mut config = config();
    config.journal.file_bytes = file_bytes;
    config.journal.files_max = 9;
    let mut rig = Rig::on(SimulatedDisk::new(), config);
    let rolling = SegmentRolling {
        bytes: file_bytes,
        ..super::rig::ROLLING
    };
    rig.store.open_partition(partition(LARGE), rolling);
    rig
}

#[test]
fn no_round_begins_before_the_last_frame_of_a_file_to_be_adopted_is_durable() {
    let mut rig = spacious(4 << 20);
    while rig.store.status().journal_bytes < (4 << 20) {
        rig.append(LARGE, 100_000);
    }
    while rig.flush_one() {
        rig.lay_out();
    }
    assert_eq!(adopted(&rig).len(), 1);
    assert_eq!(rig.store.partitions[&partition(LARGE)].segments.len(), 1);
}

#[test]
fn a_chunk_does_not_span_what_is_others() {
    let mut rig = spacious(1 << 20);
    let mut expected = Vec::new();
    for (number, value_bytes) in [
        (LARGE, 10),
        (0, 270_000),
        (LARGE, 10),
        (LARGE, 360_000),
        (LARGE, 360_000),
        (LARGE, 360_000),
    ] {
        let bytes = rig.append(number, value_bytes);
        if number == LARGE {
            expected.extend_from_slice(&bytes);
        }
        rig.flush();
        rig.prepare();
    }
    rig.lay_out();
    let segment = adopted(&rig)[0];
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let file =
        open_segment(&disk, &rig.store.config.identity, &partition(LARGE), &segment).expect("it is there");
    let table = read_table(&file, &segment).expect("it is whole");
    let bytes: u32 = table.iter().map(|chunk| chunk.length).sum();
    assert!(bytes < 800_000, "{table:?}");
    assert_eq!(rig.read(LARGE), expected);
}
