//! Appends of one thread and of many: numbers, batches, limits, and the flush that they share.

use std::collections::BTreeSet;
use std::thread::JoinHandle;

use platform::disk::SimulatedDisk;
use platform::threads;
use record::{BATCH_OVERHEAD_BYTES, RECORD_OVERHEAD_BYTES_MAX};

use super::gate::Gate;
use super::rig::{check, log, open, value, values};
use crate::{AppendError, Bytes, Log, NewRecord, Offset};

fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    threads::spawn("test", body).expect("the system has threads")
}

/// Returns when `count` records are staged in the log. Nothing can be waited for: the thread that staged the last of them
/// is on its way to wait itself.
fn until_staged(log: &Log, count: i64) {
    while log.next_staged() < Offset(count) {
        std::thread::yield_now();
    }
}

#[test]
fn records_come_back_as_they_were_appended() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let (orders, users) = (log(&logs, "orders"), log(&logs, "users"));
    assert_eq!(orders.append(b"one"), Ok(Offset(0)));
    assert_eq!(users.append("ann"), Ok(Offset(0)));
    assert_eq!(orders.append(NewRecord::tombstone("key")), Ok(Offset(1)));
    let more = orders.append_batch([b"two".as_slice(), b"three"]);
    assert_eq!(more, Ok(Offset(2)..Offset(4)));
    let found: Vec<_> = orders
        .read(Offset(0))
        .expect("it is kept")
        .map(|record| record.expect("nothing is damaged"))
        .collect();
    let fields = |index: usize| (found[index].key.as_deref(), found[index].value.as_deref());
    assert_eq!(found.len(), 4);
    assert_eq!(fields(0), (None, Some(&b"one"[..])));
    assert_eq!(fields(1), (Some(&b"key"[..]), None));
    assert_eq!(fields(3), (None, Some(&b"three"[..])));
    assert_eq!(values(&users), [b"ann"]);
    assert_eq!(logs.names(), ["orders", "users"]);
}

#[test]
fn records_are_made_of_what_bytes_are_kept_in() {
    let plain = NewRecord {
        key: None,
        value: Some(b"one"),
    };
    assert_eq!(NewRecord::from("one"), plain);
    assert_eq!(NewRecord::from(&"one".to_owned()), plain);
    assert_eq!(NewRecord::from(&b"one".to_vec()), plain);
    assert_eq!(NewRecord::from(&Bytes::from_static(b"one")), plain);
    let keyed = NewRecord {
        key: Some(b"ann"),
        ..plain
    };
    assert_eq!(NewRecord::from((&b"ann"[..], &b"one"[..])), keyed);
    let name = b"ann".to_vec();
    assert_eq!(NewRecord::keyed(&name, "one"), keyed);
    let gone = NewRecord { value: None, ..keyed };
    assert_eq!(NewRecord::tombstone(b"ann"), gone);
}

#[test]
fn what_cannot_be_appended_is_refused_and_leaves_no_trace() {
    let logs = open(&SimulatedDisk::new());
    let orders = log(&logs, "orders");
    assert_eq!(orders.append_batch([b""; 0]), Err(AppendError::Empty));
    let refused = orders.append(&vec![1; 17 << 10]);
    assert!(matches!(refused, Err(AppendError::TooLarge { bytes_max, .. }) if bytes_max == 16 << 10));
    let many = vec![[1u8; 100]; 200];
    let refused = orders.append_batch(&many);
    assert!(
        matches!(refused, Err(AppendError::TooLarge { .. })),
        "{refused:?}"
    );
    let largest = (16 << 10) - BATCH_OVERHEAD_BYTES - RECORD_OVERHEAD_BYTES_MAX;
    assert!(orders.append(&vec![1; largest + 1]).is_err());
    assert_eq!(orders.append(&vec![1; largest]), Ok(Offset(0)));
}

#[test]
fn a_compacted_log_takes_only_records_with_keys() {
    let logs = open(&SimulatedDisk::new());
    logs.create_topic("users", &[("cleanup.policy", "compact")]);
    let users = log(&logs, "users");
    let keyed = NewRecord::keyed("ann", "1");
    let refused = users.append_batch([keyed, NewRecord::from("2")]);
    assert_eq!(refused, Err(AppendError::WithoutKey { place: 1 }));
    assert_eq!(users.append(keyed), Ok(Offset(0)), "and left no trace");
}

#[test]
fn concurrent_appends_have_offsets_of_their_own_without_gaps() {
    const THREADS: usize = 8;
    const EACH: usize = 60;
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    let appenders: Vec<_> = (0..THREADS)
        .map(|thread| {
            let orders = orders.clone();
            spawn(move || -> Vec<(i64, Vec<u8>)> {
                let append = |index| {
                    let value = value(thread * EACH + index, 200);
                    (orders.append(&value).expect("there is room").0, value)
                };
                (0..EACH).map(append).collect()
            })
        })
        .collect();
    let mut appended = Vec::new();
    for appender in appenders {
        let own = appender.join().expect("it does not panic");
        assert!(
            own.is_sorted_by_key(|(offset, _)| *offset),
            "a thread's records keep their order"
        );
        appended.extend(own);
    }
    appended.sort();
    let offsets: BTreeSet<i64> = appended.iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets.len(), THREADS * EACH, "no offset is given out twice");
    assert_eq!(
        offsets.last(),
        Some(&((THREADS * EACH) as i64 - 1)),
        "and none is left out"
    );
    let expected: Vec<Vec<u8>> = appended.into_iter().map(|(_, value)| value).collect();
    assert!(values(&orders) == expected, "each record stands at its offset");
    drop((orders, logs));
    assert!(
        values(&log(&open(&disk), "orders")) == expected,
        "also after a start"
    );
    let report = check(&disk);
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn what_arrives_during_a_flush_shares_the_next_one() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    let gate = Gate::before(&disk);
    gate.close();
    let appender = |number: usize| {
        let orders = orders.clone();
        spawn(move || orders.append(&value(number, 50)))
    };
    let first = appender(0);
    gate.until_one_waits();
    let others: Vec<_> = (1..10).map(appender).collect();
    until_staged(&orders, 10);
    assert_eq!(orders.tail(), Offset(0), "nobody sees what is not durable");
    assert_eq!(values(&orders), [b""; 0]);
    gate.open();
    let joined = std::iter::once(first).chain(others);
    let offsets: BTreeSet<Offset> = joined
        .map(|appender| {
            appender
                .join()
                .expect("it does not panic")
                .expect("the disk works")
        })
        .collect();
    assert_eq!(offsets, (0..10).map(Offset).collect());
    assert_eq!(gate.passed(), 2, "one flush for the first, one for all others");
    assert_eq!(orders.tail(), Offset(10));
}

#[test]
fn after_a_failed_flush_nothing_is_acknowledged_and_all_is_read() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    orders.append(b"before").expect("the disk works");
    let gate = Gate::before(&disk);
    gate.close();
    let waiting: Vec<_> = (0..3)
        .map(|number| {
            let orders = orders.clone();
            spawn(move || orders.append(&value(number, 50)))
        })
        .collect();
    gate.until_one_waits();
    until_staged(&orders, 4);
    gate.fail();
    for appender in waiting {
        let refused = appender.join().expect("it does not panic");
        assert!(matches!(refused, Err(AppendError::Dead { .. })), "{refused:?}");
    }
    let flushes = gate.passed();
    assert!(matches!(orders.append(b"after"), Err(AppendError::Dead { .. })));
    assert!(orders.trim(Offset(1)).is_err());
    assert!(logs.log("another").is_err());
    assert_eq!(gate.passed(), flushes, "and no flush is tried again");
    assert_eq!(
        (orders.tail(), values(&orders)),
        (Offset(1), vec![b"before".to_vec()])
    );
    drop((orders, logs));
    disk.clear_faults();
    disk.drop_page_cache();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    assert_eq!(values(&orders), [b"before"]);
    assert_eq!(orders.append(b"again"), Ok(Offset(1)), "a new opening goes on");
}
