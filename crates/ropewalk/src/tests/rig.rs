//! Small logs on a simulated disk.

use std::sync::Arc;

use platform::clock::SystemClock;
use platform::disk::{Disk, SimulatedDisk};
use storage::{CheckReport, NodeIdentity};

use crate::{Log, Logs, Offset, OpenError, Settings};

/// Everything tiny, so that a short run passes through all of it.
pub(super) fn settings() -> Settings {
    Settings {
        journal_file_bytes: 32 << 10,
        journal_files_max: 3,
        layout_trigger_bytes: 12 << 10,
        tail_cache_bytes: 12 << 10,
        read_cache_bytes: 64 << 10,
        disk_reserve_bytes: 0,
        batch_bytes_max: 16 << 10,
        segment_bytes: 1 << 20,
        decompressed_bytes_max: 4 << 20,
    }
}

pub(super) fn try_open(disk: &SimulatedDisk) -> Result<Logs, OpenError> {
    try_open_with(disk, settings())
}

pub(super) fn try_open_with(disk: &SimulatedDisk, settings: Settings) -> Result<Logs, OpenError> {
    Logs::open_on(Arc::new(disk.clone()), Arc::new(SystemClock::new()), settings)
}

pub(super) fn open(disk: &SimulatedDisk) -> Logs {
    try_open(disk).expect("nothing is wrong with the disk")
}

pub(super) fn log(logs: &Logs, name: &str) -> Log {
    logs.log(name).expect("it is there, or there is room")
}

/// The values of all committed records, which follow each other from the log's start on.
pub(super) fn values(log: &Log) -> Vec<Vec<u8>> {
    let start = log.start();
    let records = log.read(start).expect("a log can be read from its start");
    let records = records.map(|record| record.expect("nothing is damaged"));
    (start.0..)
        .zip(records)
        .map(|(offset, record)| {
            assert_eq!(record.offset, Offset(offset), "offsets have no gaps");
            record.value.expect("it was appended with one").to_vec()
        })
        .collect()
}

/// The findings of `ropewalk check`.
pub(super) fn check(disk: &SimulatedDisk) -> CheckReport {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let identity = NodeIdentity::read(&*disk).expect("the directory says whose it is");
    let journal = identity.journal_identities().next().expect("it has a journal");
    storage::check(&disk, &journal, &mut |_| {}).expect("the checkpoint is sound")
}

/// A value that tells its number, of this many bytes.
pub(super) fn value(number: usize, bytes: usize) -> Vec<u8> {
    let mut value = format!("{number}:").into_bytes();
    value.resize(bytes.max(value.len()), number as u8);
    value
}
