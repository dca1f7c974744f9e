//! Closing: in order, for all handles at once, with the directory free afterwards.

use std::path::Path;

use platform::disk::SimulatedDisk;
use platform::threads;

use super::gate::Gate;
use super::rig::{log, open, try_open, values};
use crate::{AppendError, Offset, OpenError, ReadError};

#[test]
fn closing_ends_all_handles_and_frees_the_directory() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    orders.append(b"one").expect("there is room");
    logs.clone().close();
    assert_eq!(orders.append(b"two"), Err(AppendError::Closed));
    assert!(logs.log("orders").is_err());
    let mut reader = orders.read(Offset(0)).expect("its place is known");
    assert!(matches!(reader.next(), Some(Err(ReadError::Closed))));
    assert_eq!(
        values(&log(&open(&disk), "orders")),
        [b"one"],
        "though there are handles left"
    );
    logs.close();
}

#[test]
fn closing_waits_for_appends_under_way() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    let gate = Gate::before(&disk);
    gate.close();
    let appender = orders.clone();
    let appending = threads::spawn("test", move || appender.append(b"one"));
    gate.until_one_waits();
    let closer = logs.clone();
    let closing = threads::spawn("test", move || closer.close());
    while logs.log("orders").is_ok() {
        std::thread::yield_now();
    }
    assert_eq!(orders.append(b"two"), Err(AppendError::Closed));
    gate.open();
    let appended = appending.expect("the system has threads").join();
    assert_eq!(
        appended.expect("it does not panic"),
        Ok(Offset(0)),
        "it was taken before the closing"
    );
    closing
        .expect("the system has threads")
        .join()
        .expect("it does not panic");
    assert_eq!(values(&log(&open(&disk), "orders")), [b"one"]);
}

#[test]
fn damage_in_the_last_record_is_no_torn_flush_once_the_logs_are_closed() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    log(&logs, "orders")
        .append(b"the last one")
        .expect("there is room");
    logs.close();
    let path = Path::new("journals/000/000000.journal");
    let bytes = disk.file_bytes(path).expect("the first file");
    let at = bytes
        .windows(12)
        .position(|window| window == b"the last one")
        .expect("it is there");
    disk.flip_bit(path, 8 * at as u64);
    disk.flip_bit(path, 8 * at as u64 + 20);
    let damaged = try_open(&disk).map(|_| ());
    assert!(
        matches!(&damaged, Err(OpenError::Fault(storage::Fault::Damaged { .. }))),
        "{damaged:?}"
    );
}
