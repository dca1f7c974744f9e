//! Tests of all three layouts: what was appended is there after a restart, after a kill, and through the driver's commands.

mod commands;
mod kill;

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::mpsc;

use crate::arguments;
use crate::committer::Unit;
use crate::layout::LayoutName;
use crate::log::Log;

const SHARDS: u32 = 3;

/// The entry that stands at a position: of a length that depends on the unit it came in.
fn entry(shard: u32, position: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .map(|at| (at * 7 + position * 13 + u64::from(shard)) as u8)
        .collect()
}

/// Appends units of each length to each shard, all in flight at once. Each has two entries.
fn append(log: &Log, lengths: &[usize]) {
    let (reply, answers) = mpsc::channel();
    for shard in 0..SHARDS {
        let mut position = log.tails().of(shard);
        for (number, bytes) in (0..).zip(lengths) {
            let both = [entry(shard, position, *bytes), entry(shard, position + 1, *bytes)].concat();
            let unit = Unit {
                number,
                shard,
                entry_bytes: *bytes,
                bytes: both,
                reply: reply.clone(),
            };
            log.queue().send(unit).expect("the committer lives");
            position += 2;
        }
    }
    drop(reply);
    assert_eq!(
        answers.iter().filter(|answer| answer.failure.is_some()).count(),
        0
    );
}

fn scan(log: &Log, shard: u32, positions: Range<u64>) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut keep = |entry: &[u8]| {
        found.push(entry.to_vec());
        ControlFlow::Continue(())
    };
    log.scan(shard, positions, &mut keep).expect("all is there");
    found
}

fn check(log: &Log, lengths: &[usize]) {
    let all: Vec<usize> = lengths.iter().flat_map(|bytes| [*bytes, *bytes]).collect();
    for shard in 0..SHARDS {
        assert_eq!(log.tails().of(shard), all.len() as u64);
        let expected: Vec<_> = (0..)
            .zip(&all)
            .map(|(position, bytes)| entry(shard, position, *bytes))
            .collect();
        assert_eq!(scan(log, shard, 0..all.len() as u64), expected);
        // By position, and from the middle on.
        let positions = all.len().checked_sub(1).map(|last| [0, last, all.len() / 2]);
        for position in positions.into_iter().flatten() {
            assert_eq!(
                scan(log, shard, position as u64..position as u64 + 1),
                expected[position..=position]
            );
        }
        let middle = all.len() / 2;
        assert_eq!(
            scan(log, shard, middle as u64..all.len() as u64),
            expected[middle..]
        );
    }
}

#[test]
fn what_was_appended_is_there_after_a_restart() {
    for layout in LayoutName::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let open = || Log::open(directory.path(), layout, SHARDS).expect("nothing is wrong with the disk");
        let lengths = [16, 100, 4_096, 1, 40_000, 700_000, 3];
        let log = open();
        check(&log, &[]);
        append(&log, &lengths[..4]);
        check(&log, &lengths[..4]);
        drop(log);
        let log = open();
        check(&log, &lengths[..4]);
        append(&log, &lengths[4..]);
        check(&log, &lengths);
        drop(log);
        check(&open(), &lengths);
    }
}

#[test]
fn a_log_is_open_once() {
    for layout in LayoutName::ALL {
        let directory = tempfile::tempdir().expect("a directory");
        let _log = Log::open(directory.path(), layout, 1).expect("nothing is wrong with the disk");
        assert!(Log::open(directory.path(), layout, 1).is_err(), "{layout}");
    }
}

#[test]
fn what_is_damaged_in_the_file_is_not_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Log::open(directory.path(), LayoutName::Bytestream, SHARDS).expect("it opens");
    append(&open(), &[100]);
    let path = directory.path().join("entries");
    let mut bytes = std::fs::read(&path).expect("it is there");
    bytes[150] ^= 1;
    std::fs::write(&path, bytes).expect("it can be written");
    let log = open();
    let mut shown = 0;
    let mut count = |_: &[u8]| {
        shown += 1;
        ControlFlow::Continue(())
    };
    let error = log.scan(0, 0..2, &mut count).expect_err("an entry is damaged");
    assert_eq!(error.to_string(), "the entry at position 1 of shard 0 is damaged");
    assert_eq!(shown, 1);
}

#[test]
fn the_command_line_is_read() {
    let read = |words: &[&str]| arguments(words.iter().map(|word| (*word).to_owned()));
    for layout in LayoutName::ALL {
        let (directory, found) = read(&["/data", &format!("layout={layout}")]).expect("it is right");
        assert_eq!((directory.as_path(), found), (Path::new("/data"), layout));
    }
    for wrong in [
        &[][..],
        &["/data"],
        &["/data", "journal"],
        &["/data", "layout=heap"],
        &["/data", "layout=journal", "x"],
    ] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
}
