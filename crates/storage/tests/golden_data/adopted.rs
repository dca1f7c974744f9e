//! Journal files that became segments, and go back to the journal.

use std::path::Path;
use std::sync::Arc;

use platform::disk::{Disk, SimulatedDisk};
use record::{Compression, Offset};
use storage::{Store, check};

use super::{
    CODECS, Files, IDENTITY, MANY, ROOMY, append, append_records, assert_golden, flush, golden, lay_out,
    load, open_as, partition, read_all, remove, save,
};

pub(super) const FILES: Files = golden! { "format-4/adopted":
    "checkpoints/000.checkpoint",
    "journals/000/000000.journal",
    "journals/000/000001.journal",
    "journals/000/000002.journal",
    "journals/000/000003.journal",
    "journals/000/000004.journal",
    "journals/000/000005.journal",
    "journals/000/000006.journal",
    "partitions/01010101010101010101010101010101-1/00000000000000000000.segment",
    "partitions/04040404040404040404040404040404-4/00000000000000000000.segment",
    "partitions/04040404040404040404040404040404-4/00000000000000000159.segment",
    "partitions/04040404040404040404040404040404-4/00000000000000000318.segment",
    "partitions/04040404040404040404040404040404-4/00000000000000000424.segment",
    "partitions/05050505050505050505050505050505-5/00000000000000000000.segment",
    "partitions/05050505050505050505050505050505-5/00000000000000000027.segment",
    "partitions/06060606060606060606060606060606-6/00000000000000000000.segment",
};

/// The partitions that `write_adopted` left: number, log start, next offset, the state of the checkpoint,
/// and how many batches the state does not reflect.
const KEPT: [(u8, i64, i64, &[u8], usize); 3] = [
    (1, 0, 36, b"state up to 33", 1),
    (4, 169, 636, b"state up to 583", 2),
    (5, 0, 54, b"state up to 48", 2),
];

fn assert_kept(store: &mut Store) {
    for (number, log_start, next, ..) in KEPT {
        let records = read_all(store, number);
        let kept = records.iter().filter(|record| record.offset.0 >= log_start);
        assert!(kept.clone().map(|record| record.offset.0).eq(log_start..next));
        kept.for_each(|record| assert_golden(number, record));
    }
}

/// The paths in a folder of the disk.
fn paths_in(disk: &SimulatedDisk, folder: &str) -> Vec<String> {
    let paths = disk.paths().into_iter().map(|path| path.display().to_string());
    paths.filter(|path| path.starts_with(folder)).collect()
}

#[test]
fn it_can_be_read() {
    let disk = load(FILES);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
    assert!(report.orphans.is_empty(), "{:?}", report.orphans);
    assert!(report.frames > 0 && report.cut_bytes == 0 && !report.mended);

    let (mut store, recovered) = open_as(&disk, ROOMY);
    let found: Vec<_> = recovered
        .partitions
        .iter()
        .map(|found| {
            (
                found.id,
                found.log_start.0,
                found.next.0,
                &*found.state,
                found.replay.len(),
            )
        })
        .collect();
    let kept =
        KEPT.map(|(number, start, next, state, replay)| (partition(number), start, next, state, replay));
    assert_eq!(found, kept);
    assert_kept(&mut store);
}

#[test]
fn adopted_files_go_back_to_the_journal() {
    let disk = load(FILES);
    let journals = paths_in(&disk, "journals/");
    let (mut store, _) = open_as(&disk, ROOMY);
    remove(&mut store);
    assert_eq!(paths_in(&disk, "journals/"), journals);
    lay_out(&mut store);
    let (mut store, _) = open_as(&disk, ROOMY);
    assert_kept(&mut store);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
}

#[test]
fn there_are_adopted_files() {
    let disk = load(FILES);
    let mut without_index: Vec<_> = FILES
        .iter()
        .filter(|(path, content)| path.contains("/04040404") && content.len() == 4_096)
        .map(|(path, _)| *path)
        .collect();
    without_index.sort_unstable();
    assert_eq!(
        without_index.len(),
        3,
        "of these one is given up: {without_index:?}"
    );
    // Its records are in no other file: without a journal file of the three they cannot be read.
    let (mut store, _) = open_as(&disk, ROOMY);
    let journals = paths_in(&disk, "journals/");
    // Or these files would go back to the journal.
    store.set_short_of_space(true);
    remove(&mut store);
    let left = paths_in(&disk, "journals/");
    let gone: Vec<_> = journals.iter().filter(|path| !left.contains(path)).collect();
    assert_eq!(
        gone,
        ["journals/000/000000.journal", "journals/000/000001.journal"]
    );
    assert!(paths_in(&disk, "partitions/06060606").is_empty());
    assert!(
        disk.paths()
            .iter()
            .all(|path| path.display().to_string() != without_index[0])
    );
    assert_kept(&mut store);
    // The checkpoint names what is gone until the next one: a start is not to miss it.
    let (mut store, _) = open_as(&disk, ROOMY);
    assert_kept(&mut store);
    let held = left.iter().find(|path| path.ends_with("000002.journal"));
    let held = held.expect("it is a segment");
    disk.remove(Path::new(held)).expect("nothing fails");
    let report =
        check(&(Arc::new(disk) as Arc<dyn Disk>), &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.faults[0].to_string().contains(held), "{:?}", report.faults);
}

#[test]
fn it_can_be_written_on() {
    let disk = load(FILES);
    let (mut store, _) = open_as(&disk, ROOMY);
    let (_, before) = store.bounds(partition(4)).expect("it is known");
    for _ in 0..4 {
        append_frame(&mut store, 4, Compression::Lz4);
    }
    lay_out(&mut store);
    remove(&mut store);
    let (mut store, _) = open_as(&disk, ROOMY);
    let records = read_all(&mut store, 4);
    let last = records.last().expect("there are some").offset;
    assert_eq!(last.0 + 1, before.0 + 4 * (MANY + 3));
    let kept = records.iter().filter(|record| record.offset.0 >= KEPT[1].1);
    kept.for_each(|record| assert_golden(4, record));
}

/// A frame of two blocks that nearly all of is one partition's; the rest is partition 5's.
fn append_frame(store: &mut Store, number: u8, codec: Compression) {
    append_records(store, number, Compression::None, MANY);
    append(store, number, codec);
    append(store, 5, codec);
    flush(store);
}

/// Rounds until all is laid out: one ends with the first file that is read back.
fn lay_out_all(store: &mut Store) {
    for _ in 0..8 {
        lay_out(store);
    }
}

/// Wrote the folder. Never again: a new format gets a new one.
#[test]
#[ignore = "writes golden data"]
fn write_adopted() {
    let disk = SimulatedDisk::new();
    let (mut store, _) = open_as(&disk, ROOMY);
    // Files 0 to 2, to be adopted.
    for (number, codec) in [6, 6, 6, 4, 4, 4, 4, 4, 4]
        .into_iter()
        .zip(CODECS.into_iter().cycle())
    {
        append_frame(&mut store, number, codec);
    }
    // File 3, and the first block of the next.
    for codec in CODECS.into_iter().chain([Compression::Zstd]) {
        append(&mut store, 1, codec);
        flush(&mut store);
    }
    append(&mut store, 5, Compression::None);
    flush(&mut store);
    lay_out_all(&mut store);
    // Files that go by this are still to be removed in the end.
    store
        .trim(partition(4), Offset(3 * (MANY + 3) + 10))
        .expect("there is room");
    store.delete_partition(partition(6)).expect("there is room");
    append(&mut store, 5, Compression::Gzip);
    flush(&mut store);
    // The rest of that file, which is not worth adopting, and all of another, which is.
    for codec in CODECS {
        append_frame(&mut store, 4, codec);
    }
    for codec in CODECS {
        append(&mut store, 1, codec);
        flush(&mut store);
    }
    lay_out_all(&mut store);
    append(&mut store, 5, Compression::Snappy);
    append(&mut store, 1, Compression::Gzip);
    flush(&mut store);
    append_frame(&mut store, 4, Compression::Zstd);
    save(&disk, "format-4/adopted");
}
