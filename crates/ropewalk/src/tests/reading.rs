//! Readers and followers: committed records only, from any offset that is kept, and an answer where there is none.

use std::sync::mpsc;
use std::time::Duration;

use platform::disk::SimulatedDisk;
use platform::threads;
use record::{BatchBuilder, Compression};

use super::gate::Gate;
use super::rig::{log, open, settings, try_open_with, value, values};
use crate::{BatchError, Offset, ReadError, Settings};

#[test]
fn reading_begins_anywhere_and_ends_where_the_tail_was() {
    let logs = open(&SimulatedDisk::new());
    let orders = log(&logs, "orders");
    // Far more than the caches hold: some of it comes from segments, some from the journal, some from memory.
    let all: Vec<Vec<u8>> = (0..300).map(|number| value(number, 400)).collect();
    for values in all.chunks(3) {
        orders.append_batch(values).expect("there is room");
    }
    for from in [0, 1, 2, 150, 298, 299, 300] {
        let reader = orders.read(Offset(from)).expect("it is kept");
        orders.append(b"later").expect("there is room");
        let found: Vec<i64> = reader
            .map(|record| record.expect("nothing is damaged").offset.0)
            .collect();
        assert_eq!(found.first(), Some(&from));
        assert_eq!(
            found.len() as i64,
            orders.tail().0 - 1 - from,
            "up to the tail at its beginning"
        );
    }
    assert!(values(&orders).starts_with(&all));
    let error = orders
        .read(orders.tail().advance(1))
        .expect_err("behind the tail");
    assert!(
        matches!(
            error,
            ReadError::OutOfRange {
                wanted: Offset(308),
                tail: Offset(307),
                ..
            }
        ),
        "{error}"
    );
    assert!(orders.read(Offset(-1)).is_err());
}

#[test]
fn a_follower_gets_each_record_when_it_is_durable_and_ends_with_the_logs() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    orders.append(b"0").expect("there is room");
    let mut polling = orders.follow(Offset(0)).expect("it is kept");
    let mut poll = || {
        let polled = polling.next_timeout(Duration::ZERO).expect("nothing is damaged");
        polled.map(|record| record.offset)
    };
    let follower = orders.follow(Offset(0)).expect("it is kept");
    let (seen, offsets) = mpsc::channel();
    let following = threads::spawn("test", move || {
        for record in follower {
            seen.send(record.expect("nothing is damaged").offset.0)
                .expect("the test listens");
        }
    });
    assert_eq!(poll(), Some(Offset(0)));
    assert_eq!(poll(), None, "none came in time");

    let gate = Gate::before(&disk);
    gate.close();
    let appender = orders.clone();
    let appending = threads::spawn("test", move || appender.append(b"1"));
    gate.until_one_waits();
    assert_eq!(poll(), None, "it is staged and not durable");
    gate.open();
    appending
        .expect("the system has threads")
        .join()
        .expect("it does not panic")
        .expect("the disk works");
    assert_eq!(poll(), Some(Offset(1)), "it goes on");

    for number in 2..50 {
        orders.append(&value(number, 1_000)).expect("there is room");
    }
    let followed: Vec<i64> = offsets.iter().take(50).collect();
    assert_eq!(followed, (0..50).collect::<Vec<_>>());
    logs.close();
    assert!(offsets.recv().is_err(), "a follower ends with the logs");
    following
        .expect("the system has threads")
        .join()
        .expect("it does not panic");
}

#[test]
fn a_follower_that_is_behind_when_the_logs_are_closed_hears_of_it() {
    let logs = open(&SimulatedDisk::new());
    let orders = log(&logs, "orders");
    let follow = |from| orders.follow(Offset(from)).expect("it is kept");
    let (mut follower, mut polling) = (follow(0), follow(0));
    orders.append(b"unseen").expect("there is room");
    let mut at_tail = follow(1);
    logs.close();
    assert!(matches!(follower.next(), Some(Err(ReadError::Closed))));
    assert!(follower.next().is_none());
    assert!(at_tail.next().is_none(), "it has seen everything");
    for _ in 0..3 {
        // However long it would wait.
        for polling in [&mut polling, &mut at_tail] {
            let polled = polling.next_timeout(Duration::MAX);
            assert!(matches!(polled, Err(ReadError::Closed)), "{polled:?}");
        }
    }
}

#[test]
fn a_follower_waits_as_long_as_it_was_told() {
    let logs = open(&SimulatedDisk::new());
    let orders = log(&logs, "orders");
    let mut follower = orders.follow(Offset(0)).expect("it is kept");
    let polled = follower.next_timeout(Duration::from_millis(20));
    assert!(matches!(polled, Ok(None)), "{polled:?}");
    let following = threads::spawn("test", move || follower.next_timeout(Duration::MAX));
    orders.append(b"one").expect("there is room");
    let found = following
        .expect("the system has threads")
        .join()
        .expect("it does not panic")
        .expect("nothing is damaged");
    assert_eq!(found.map(|record| record.offset), Some(Offset(0)));
}

#[test]
fn what_was_compressed_is_unpacked_up_to_the_limit() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    let mut builder = BatchBuilder::new(Compression::Zstd);
    builder.append(0, None, Some(&vec![7; 2 << 20]), &[]);
    orders.append_built(builder.build()).expect("it is small");
    assert!(values(&orders) == [vec![7; 2 << 20]]);
    drop((orders, logs));
    let less = Settings {
        decompressed_bytes_max: 1 << 20,
        ..settings()
    };
    let logs = try_open_with(&disk, less).expect("nothing is wrong with the disk");
    let orders = log(&logs, "orders");
    let is_too_large = |refused: &ReadError| {
        let ReadError::Batch { error, .. } = refused else {
            return false;
        };
        matches!(error, BatchError::DecompressedTooLarge { .. })
    };
    let refused = orders.read(Offset(0)).expect("it is kept").next();
    assert!(matches!(&refused, Some(Err(error)) if is_too_large(error)));

    orders.append(b"behind it").expect("there is room");
    let mut follower = orders.follow(Offset(0)).expect("it is kept");
    for _ in 0..3 {
        let refused = follower.next_timeout(Duration::ZERO);
        let refused = refused.expect_err("it is never passed over");
        assert!(is_too_large(&refused), "{refused}");
    }
    assert!(matches!(follower.next(), Some(Err(_))));
    assert!(follower.next().is_none(), "after an error an iterator ends");
}
