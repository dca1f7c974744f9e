//! A journal, segments and a checkpoint.

use std::sync::Arc;

use platform::disk::{Disk, SimulatedDisk};
use record::{Compression, Logged, Offset};
use storage::{Recovered, Store, check};

use super::{
    CODECS, CONFIG, Files, IDENTITY, append, assert_golden, flush, golden, lay_out, load, open_as, partition,
    read_all, save,
};

pub(super) const FILES: Files = golden! { "format-4/plain":
    "checkpoints/000.checkpoint",
    "journals/000/000000.journal",
    "journals/000/000001.journal",
    "journals/000/000002.journal",
    "journals/000/000003.journal",
    "journals/000/000004.journal",
    "partitions/01010101010101010101010101010101-1/00000000000000000000.segment",
    "partitions/01010101010101010101010101010101-1/00000000000000000030.segment",
    "partitions/02020202020202020202020202020202-2/00000000000000000000.segment",
    "partitions/03030303030303030303030303030303-3/00000000000000000000.segment",
};

fn open(disk: &SimulatedDisk) -> (Store, Recovered) {
    open_as(disk, CONFIG)
}

#[test]
fn it_can_be_read() {
    let disk = load(FILES);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &IDENTITY, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
    assert!(report.frames > 0 && report.segments >= 3 && report.cut_bytes == 0 && !report.mended);

    let (mut store, recovered) = open(&disk);
    let [first, second] = &recovered.partitions[..] else {
        panic!("two partitions are left")
    };
    assert_eq!(
        (first.id, first.log_start, first.next),
        (partition(1), Offset(0), Offset(75))
    );
    assert_eq!(
        (second.id, second.log_start, second.next),
        (partition(2), Offset(4), Offset(15))
    );
    assert_eq!(
        (&first.state[..], &second.state[..]),
        (&b"state up to 60"[..], &b"state up to 12"[..])
    );
    let replayed = |batches: &[Logged]| {
        batches
            .iter()
            .map(|batch| batch.header.base_offset.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(replayed(&first.replay), [60, 63, 66, 69, 72]);
    assert_eq!(replayed(&second.replay), [12]);

    for (number, log_start, next) in [(1, 0, 75), (2, 4, 15)] {
        let records = read_all(&mut store, number);
        // A batch is given whole, also if its first records are trimmed.
        let records: Vec<_> = records
            .iter()
            .filter(|record| record.offset.0 >= log_start)
            .collect();
        assert!(records.iter().map(|record| record.offset.0).eq(log_start..next));
        records.iter().for_each(|record| assert_golden(number, record));
    }
}

#[test]
fn it_can_be_written_on() {
    let disk = load(FILES);
    let (mut store, _) = open(&disk);
    append(&mut store, 1, Compression::None);
    flush(&mut store);
    lay_out(&mut store);
    let (mut store, _) = open(&disk);
    let records = read_all(&mut store, 1);
    assert_eq!(records.len(), 78);
    records.iter().for_each(|record| assert_golden(1, record));
}

/// Wrote the folder. Never again: a new format gets a new one.
#[test]
#[ignore = "writes golden data"]
fn write_plain() {
    let disk = SimulatedDisk::new();
    let (mut store, _) = open(&disk);
    for (round, round_codec) in CODECS.into_iter().enumerate() {
        for codec in CODECS {
            append(&mut store, 1, codec);
            flush(&mut store);
        }
        append(&mut store, 2, round_codec);
        if round < 3 {
            append(&mut store, 3, round_codec);
        }
        if round == 3 {
            store.trim(partition(2), Offset(4)).expect("there is room");
            store.delete_partition(partition(3)).expect("there is room");
        }
        flush(&mut store);
        if round < 4 {
            lay_out(&mut store);
        }
    }
    save(&disk, "format-4/plain");
}
