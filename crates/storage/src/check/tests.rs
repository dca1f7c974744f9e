//! Tests of the offline check and of the listings, on a store's files.

use std::path::{Path, PathBuf};

use platform::disk::{Disk, File, SimulatedDisk};
use record::{Offset, batches};

use super::*;
use crate::inspect::{
    EntryListing, FrameListing, SegmentListing, list_frames, list_segments, stored_batches,
};
use crate::journal::JournalSizes;
use crate::store::StoreConfig;
use crate::store::testing::{Rig, batch, config, copy, partition, stage};

/// Two partitions in segments and in the journal.
fn stored() -> SimulatedDisk {
    let mut rig = Rig::new();
    for _ in 0..3 {
        for number in [0, 1] {
            rig.append(number, 2_000);
            rig.append(number, 3_000);
        }
        rig.flush();
        rig.lay_out();
    }
    rig.append(0, 100);
    rig.flush();
    rig.trim(1, 1);
    rig.flush();
    copy(&rig.disk)
}

fn run(disk: &SimulatedDisk) -> Result<CheckReport, Fault> {
    let before = disk.operation_count();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &config().identity, &mut |_| {});
    assert_eq!(disk.operation_count(), before, "a check changes nothing");
    report
}

/// The frames of a sound journal.
fn frames(disk: &SimulatedDisk) -> Vec<FrameListing> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (frames, faults) = list_frames(&shared, &config().identity);
    assert!(faults.is_empty(), "{faults:?}");
    frames
}

/// Turns a bit of a frame's, so many bytes behind its start.
fn turn_bit(disk: &SimulatedDisk, frame: &FrameListing, byte: u64) {
    let path = Path::new(&frame.file).strip_prefix(disk.root());
    let path = path.expect("it is below the root");
    disk.flip_bit(path, 8 * (frame.position + byte));
}

fn paths(disk: &SimulatedDisk, extension: &str) -> Vec<PathBuf> {
    let ends = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    disk.paths().into_iter().filter(ends).collect()
}

#[test]
fn sound_files_are_counted() {
    let disk = stored();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut steps = Vec::new();
    let report = check(&shared, &config().identity, &mut |progress| {
        steps.push((progress.file.to_string(), progress.bytes, progress.bytes_total));
    });
    let report = report.expect("the checkpoint is sound");
    assert!(report.is_sound(), "{:?}", report.faults);
    let batches = (report.journal_batches, report.segment_batches);
    assert_eq!((report.partitions, report.frames, batches), (2, 2, (1, 12)));
    let stored: u64 = frames(&disk).iter().map(|frame| u64::from(frame.bytes)).sum();
    assert_eq!(report.journal_bytes, stored);
    assert_eq!(report.segments as usize, paths(&disk, "segment").len());
    assert_eq!(report.segments as usize, steps.len());
    assert!(report.orphans.is_empty() && report.cut_bytes == 0 && !report.mended);
    let (_, bytes, total) = steps.last().expect("there are segments");
    assert_eq!(bytes, total);
    assert!(
        run(&SimulatedDisk::new())
            .expect("nothing is no fault")
            .is_sound()
    );
}

#[test]
fn damage_in_each_file_is_found_and_the_rest_is_checked() {
    let disk = stored();
    let all = run(&disk).expect("the checkpoint is sound");
    for path in paths(&disk, "segment") {
        let damaged = copy(&disk);
        damaged.flip_bit(&path, 8 * 1_000 + 3);
        let report = run(&damaged).expect("the checkpoint is sound");
        let [Fault::Damaged { file, .. }] = &report.faults[..] else {
            panic!("{:?}", report.faults)
        };
        assert!(Path::new(file).ends_with(&path));
        assert_eq!(report.segments, all.segments);
        assert!(report.chunks < all.chunks && report.chunks > 0);
        damaged.remove(&path).expect("nothing fails");
        let report = run(&damaged).expect("the checkpoint is sound");
        let is_missing =
            |fault: &Fault| matches!(fault, Fault::Damaged { what, .. } if what == "the file is missing");
        assert!(
            matches!(&report.faults[..], [fault] if is_missing(fault)),
            "{:?}",
            report.faults
        );
    }
    let journal = frames(&disk);
    let damaged = copy(&disk);
    turn_bit(&damaged, &journal[0], 200);
    let report = run(&damaged).expect("the checkpoint is sound");
    assert!(matches!(&report.faults[..], [Fault::Damaged { file, .. }] if *file == journal[0].file));
    assert!(report.chunks > 0, "segments are checked all the same");

    damaged.flip_bit(Path::new("checkpoints/000.checkpoint"), 300);
    assert!(matches!(run(&damaged), Err(Fault::Damaged { .. })));
}

#[test]
fn each_damaged_frame_is_named_and_the_whole_ones_are_listed() {
    let mut rig = Rig::new();
    for _ in 0..6 {
        rig.append(0, 100);
        rig.flush();
    }
    let disk = copy(&rig.disk);
    let all = frames(&disk);
    assert_eq!(all.len(), 6);
    // Of one frame the header is gone, so that where it ends is not known; of another only a byte of its batch.
    turn_bit(&disk, &all[1], 3);
    turn_bit(&disk, &all[4], 200);
    let report = run(&disk).expect("there is no checkpoint");
    let places = |faults: &[Fault]| -> Vec<(String, u64)> {
        let place = |fault: &Fault| match fault {
            Fault::Damaged { file, position, .. } => (file.clone(), *position),
            other => panic!("{other:?}"),
        };
        faults.iter().map(place).collect()
    };
    let damaged = [&all[1], &all[4]].map(|frame| (frame.file.clone(), frame.position));
    assert_eq!(places(&report.faults), damaged);
    assert_eq!((report.frames, report.journal_batches), (4, 4));

    let shared: Arc<dyn Disk> = Arc::new(disk);
    let (listed, faults) = list_frames(&shared, &config().identity);
    assert_eq!(listed, [&all[..1], &all[2..4], &all[5..]].concat());
    assert_eq!(places(&faults), damaged);
}

#[test]
fn a_journal_with_very_many_damaged_places_is_not_looked_through() {
    let journal = JournalSizes {
        file_bytes: 8 << 20,
        files_max: 3,
    };
    let mut rig = Rig::on(SimulatedDisk::new(), StoreConfig { journal, ..config() });
    for _ in 0..1_100 {
        rig.append(0, 100);
        rig.flush();
    }
    let disk = copy(&rig.disk);
    for frame in frames(&disk) {
        turn_bit(&disk, &frame, 200);
    }
    let report = run(&disk).expect("there is no checkpoint");
    assert_eq!(report.faults.len(), 1_001);
    let last = report.faults.last().map(Fault::to_string);
    assert!(
        last.as_ref()
            .is_some_and(|told| told.contains("the rest was not looked at")),
        "{last:?}"
    );
}

#[test]
fn damage_at_the_end_of_a_journal_file_is_one_place() {
    let mut rig = Rig::new();
    // Each frame takes a block, and a file has eight.
    for _ in 0..10 {
        rig.prepare();
        rig.append(0, 100);
        rig.flush();
    }
    let disk = copy(&rig.disk);
    let all = frames(&disk);
    assert_eq!(all.len(), 10);
    let next_file = all.iter().position(|frame| frame.file != all[0].file);
    let last = &all[next_file.expect("there are two files") - 1];
    turn_bit(&disk, last, 200);
    let report = run(&disk).expect("there is no checkpoint");
    assert!(
        matches!(&report.faults[..], [Fault::Damaged { file, position, .. }]
            if *file == last.file && *position == last.position),
        "{:?}",
        report.faults
    );
    assert_eq!(report.frames as usize, all.len() - 1);
}

#[test]
fn a_turned_bit_in_the_last_frame_is_told() {
    let disk = stored();
    let frames = frames(&disk);
    turn_bit(&disk, frames.last().expect("there are frames"), 70);
    let report = run(&disk).expect("the checkpoint is sound");
    assert!(report.mended && report.is_sound());
}

#[test]
fn damage_in_the_last_records_of_a_closed_journal_is_told() {
    let mut rig = Rig::new();
    for _ in 0..3 {
        rig.append(0, 100);
        rig.flush();
    }
    rig.store.stage_closing_frame();
    rig.flush();
    let disk = copy(&rig.disk);
    let frames = frames(&disk);
    let last = &frames[frames.len() - 2];
    turn_bit(&disk, last, 70);
    turn_bit(&disk, last, 150);
    let report = run(&disk).expect("there is no checkpoint");
    let [fault @ Fault::Damaged { file, position, .. }] = &report.faults[..] else {
        panic!("{:?}", report.faults)
    };
    assert_eq!((file, *position), (&last.file, last.position));
    assert!(fault.to_string().contains("was written after it"), "{fault}");
    assert_eq!(report.cut_bytes, 0);
}

#[test]
fn a_batch_that_was_bad_when_it_came_is_found() {
    let mut rig = Rig::new();
    let mut bytes = batch(1, 100, 1, 1).to_vec();
    bytes[90] ^= 1;
    stage(&mut rig.store, partition(0), &bytes).expect("there is room");
    rig.flush();
    let in_journal = run(&copy(&rig.disk)).expect("there is no checkpoint");
    assert_eq!(in_journal.faults.len(), 1);
    rig.lay_out();
    let in_segment = run(&copy(&rig.disk)).expect("the checkpoint is sound");
    assert!(
        in_segment.faults[0].to_string().contains("its own checksum"),
        "{}",
        in_segment.faults[0]
    );
}

#[test]
fn files_that_nothing_refers_to_are_named() {
    let disk = stored();
    let directory = directory(&partition(0));
    let stray = directory.join("00000000000000009999.segment");
    let file: Arc<dyn File> = disk.create(&stray).expect("nothing fails");
    drop(file);
    let report = run(&disk).expect("the checkpoint is sound");
    assert!(report.is_sound());
    assert!(matches!(&report.orphans[..], [name] if Path::new(name).ends_with(&stray)));
}

#[test]
fn directories_that_no_partition_has_are_named() {
    let disk = stored();
    let report = run(&disk).expect("the checkpoint is sound");
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let strays = stray_directories(&shared, &report.known).expect("nothing fails");
    assert!(strays.is_empty(), "{strays:?}");
    let stray = crate::segment::directory(&partition(9));
    shared.create_directory(&stray).expect("nothing fails");
    let strays = stray_directories(&shared, &report.known).expect("nothing fails");
    assert!(matches!(&strays[..], [name] if Path::new(name).ends_with(&stray)));
    assert_eq!(
        stray_directories(&shared, &BTreeSet::new())
            .expect("nothing fails")
            .len(),
        3
    );
}

#[test]
fn listings_show_what_was_stored() {
    let disk = stored();
    let frames = frames(&disk);
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let [appended, trimmed] = &frames[..] else {
        panic!("{frames:?}")
    };
    assert!(matches!(
        appended.entries[..],
        [EntryListing::Batch { partition: id, first: Offset(6), next: Offset(7), .. }] if id == partition(0)
    ));
    assert!(matches!(
        trimmed.entries[..],
        [EntryListing::Trim {
            log_start: Offset(1),
            ..
        }]
    ));
    assert_eq!(trimmed.frame, appended.frame + 1);

    let list = |wanted: fn(PartitionId) -> bool| -> Vec<SegmentListing> {
        let identity = config().identity;
        let listed = list_segments(&shared, &identity, wanted).expect("all is sound");
        listed.collect()
    };
    let (segments, of_one) = (list(|_| true), list(|id| id == partition(1)));
    assert!(of_one.iter().all(|segment| segment.partition == partition(1)));
    assert_eq!(segments.len(), 2 * of_one.len());
    for pair in of_one.windows(2) {
        assert_eq!(pair[0].next, pair[1].first);
        assert!(pair[0].sealed);
    }
    for segment in &segments {
        assert_eq!(segment.chunks[0].first, segment.first);
        assert_eq!(segment.chunks.last().map(|chunk| chunk.next), Some(segment.next));
    }
}

#[test]
fn the_batches_of_a_partition_are_found_in_segments_and_in_the_journal() {
    let disk: Arc<dyn Disk> = Arc::new(stored());
    let found = stored_batches(&disk, &config().identity, partition(0)).expect("all is sound");
    let offsets = found.iter().flat_map(|bytes| batches(bytes)).map(|batch| {
        let (header, _) = batch.expect("it is whole");
        header.base_offset.0
    });
    assert_eq!(offsets.collect::<Vec<_>>(), (0..7).collect::<Vec<_>>());
    let none = stored_batches(&disk, &config().identity, partition(9)).expect("all is sound");
    assert!(none.is_empty());
}

#[test]
fn a_damaged_segment_is_listed_with_its_fault_among_the_others() {
    let disk = stored();
    let damaged = paths(&disk, "segment").remove(1);
    let length = disk.file_bytes(&damaged).expect("it is there").len() as u64;
    disk.flip_bit(&damaged, 8 * (length - 20));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let identity = config().identity;
    let listed = list_segments(&shared, &identity, |_| true).expect("the checkpoint is sound");
    let listed: Vec<_> = listed.collect();
    assert_eq!(listed.len(), paths(&disk, "segment").len());
    for segment in listed {
        let is_damaged = Path::new(&segment.file).ends_with(&damaged);
        assert_eq!(segment.fault.is_some(), is_damaged, "{segment:?}");
        assert_eq!(segment.chunks.is_empty(), is_damaged);
    }
}
