//! Giving up a prefix: at once for readers, for ever after the answer, and its space comes back.

use std::path::Path;

use platform::disk::{Applied, FaultKind, OperationKind, SimulatedDisk};
use platform::threads;

use super::gate::Gate;
use super::rig::{check, log, open, value, values};
use crate::{AppendError, Log, Offset, ReadError, TrimError};

/// EACCES, as errno(3) numbers it.
const PERMISSION_DENIED: i32 = 13;

#[test]
fn a_trim_is_for_ever() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    orders
        .append_batch([b"a", b"b", b"c", b"d"])
        .expect("there is room");
    let mut reader = orders.read(Offset(0)).expect("it is kept");
    assert_eq!(orders.trim(Offset(3)), Ok(Offset(3)));
    assert_eq!(orders.bounds(), Offset(3)..Offset(4));
    assert_eq!(values(&orders), [b"d"], "also out of the middle of a batch");
    let error = orders.read(Offset(2)).expect_err("it was given up");
    assert!(
        matches!(
            error,
            ReadError::OutOfRange {
                log_start: Offset(3),
                ..
            }
        ),
        "{error}"
    );
    let error = reader.next().expect("an answer").expect_err("it was given up");
    assert!(
        matches!(
            error,
            ReadError::OutOfRange {
                wanted: Offset(0),
                ..
            }
        ),
        "{error}"
    );
    assert!(reader.next().is_none(), "after an error a reader ends");

    assert_eq!(
        orders.trim(Offset(1)),
        Ok(Offset(3)),
        "a log's start never moves back"
    );
    let beyond = orders.trim(Offset(5));
    assert!(
        matches!(beyond, Err(TrimError::OutOfRange { tail: Offset(4), .. })),
        "{beyond:?}"
    );
    assert!(orders.trim(Offset(-1)).is_err());

    let crashed = disk.crash(7);
    logs.close();
    for disk in [disk, crashed] {
        let logs = open(&disk);
        let orders = log(&logs, "orders");
        assert_eq!(
            (orders.bounds(), values(&orders)),
            (Offset(3)..Offset(4), vec![b"d".to_vec()])
        );
        assert_eq!(orders.trim(Offset(4)), Ok(Offset(4)));
        assert_eq!(
            orders.append(b"e"),
            Ok(Offset(4)),
            "offsets go on where they were"
        );
    }
}

#[test]
fn a_trim_that_another_thread_makes_is_waited_for() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    orders.append_batch([b"a", b"b"]).expect("there is room");
    let gate = Gate::before(&disk);
    gate.close();
    let trimmer = || {
        let orders = orders.clone();
        threads::spawn("test", move || orders.trim(Offset(1))).expect("the system has threads")
    };
    let first = trimmer();
    gate.until_one_waits();
    let second = trimmer();
    gate.fail();
    for trimmer in [first, second] {
        let trimmed = trimmer.join().expect("it does not panic");
        assert!(
            matches!(trimmed, Err(TrimError::Refused(AppendError::Dead { .. }))),
            "what did not become durable is not told: {trimmed:?}"
        );
    }
}

#[test]
fn a_log_that_is_trimmed_in_time_never_fills_the_disk() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(8 << 20));
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    // Five times what the disk has.
    for number in 0..40 * 70 {
        let offset = orders
            .append(&value(number, 15 << 10))
            .expect("trimming has made room");
        if number % 20 == 19 {
            orders.trim(offset).expect("there is room");
        }
    }
    assert_eq!(orders.tail(), Offset(2_800));
    drop((orders, logs));
    let report = check(&disk);
    assert!(report.is_sound(), "{report:?}");
    let segments = disk
        .paths()
        .iter()
        .filter(|path| path.starts_with(Path::new("partitions")))
        .count();
    assert!(segments <= 12, "{segments} segments are left");
}

#[test]
fn a_file_that_cannot_be_removed_keeps_nobody_from_appending() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders: Vec<Log> = (0..8)
        .map(|number| log(&logs, &format!("orders-{number}")))
        .collect();
    let append = |count| {
        for number in 0..count {
            let value = value(number, 1_000);
            for log in &orders {
                log.append(&value).expect("there is room");
            }
        }
    };
    // More than a segment.
    for number in 0..450 {
        orders[0].append(&value(number, 3_000)).expect("there is room");
    }
    disk.fail_when(|call| {
        let is_segment = call.kind == OperationKind::Remove && call.path.starts_with("partitions");
        is_segment.then_some(FaultKind::Error {
            errno: PERMISSION_DENIED,
            applied: Applied::Nothing,
        })
    });
    orders[0].trim(orders[0].tail()).expect("it is journaled");
    append(300);
}
