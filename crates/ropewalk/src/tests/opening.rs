//! Openings of a directory: one at a time, strangers' and damage named, a torn end cut.

use platform::disk::{Disk, RealDisk, SimulatedDisk};
use platform::random::Random;
use std::path::Path;

use super::rig::{check, log, open, settings, try_open, try_open_with, value, values};
use crate::{DirectoryError, Fault, LogError, Logs, Offset, OpenError, Settings};

#[test]
fn a_directory_is_opened_once_at_a_time() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    let error = try_open(&disk).expect_err("it is open");
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    orders.append(b"one").expect("the first opening is not disturbed");
    drop(logs);
    assert!(
        try_open(&disk).is_err(),
        "a log is a handle of the directory as well"
    );
    drop(orders);
    assert_eq!(values(&log(&open(&disk), "orders")), [b"one"]);
}

#[test]
fn a_foreign_directory_and_one_of_many_journals_are_left_alone() {
    let disk = SimulatedDisk::new();
    disk.replace(Path::new("photo.jpg"), b"not ours")
        .expect("there is room");
    let error = try_open(&disk).expect_err("it is somebody else's");
    assert!(
        matches!(error, OpenError::Directory(DirectoryError::Foreign { .. })),
        "{error}"
    );
    assert_eq!(disk.paths(), [Path::new("photo.jpg")]);

    let disk = SimulatedDisk::new();
    storage::identify(&disk, &Random::SYSTEM, Some(3), 2).expect("there is room");
    let before = disk.paths();
    let error = try_open(&disk).expect_err("it has two journals");
    assert!(
        matches!(error, OpenError::Journals { journals: 2, .. }),
        "{error}"
    );
    assert_eq!(disk.paths(), before);
}

#[test]
fn settings_that_cannot_be_are_refused_before_anything_is_touched() {
    let disk = SimulatedDisk::new();
    let wrong = Settings {
        journal_files_max: 1,
        ..settings()
    };
    let error = try_open_with(&disk, wrong).expect_err("too few");
    assert!(
        error.to_string().starts_with("journal_files_max must be"),
        "{error}"
    );
    assert_eq!(disk.call_count(), 0);
}

#[test]
fn names_are_topics_names_and_never_lost() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    for name in ["", "..", "a b", "a/b"] {
        let error = logs.log(name).expect_err(name);
        assert!(matches!(error, LogError::Name { .. }), "{error}");
    }
    log(&logs, "a.b");
    assert!(
        matches!(logs.log("a_b"), Err(LogError::Name { .. })),
        "as in Kafka, these would collide"
    );
    let crashed = disk.crash(3);
    assert_eq!(
        open(&crashed).names(),
        ["a.b"],
        "a name is durable when its log is there"
    );
}

#[test]
fn a_name_can_be_looked_for_and_nothing_is_made() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let find = |name| logs.find(name).expect("it may be asked for");
    assert!(find("orders").is_none() && find("no such name").is_none());
    assert!(logs.names().is_empty());
    log(&logs, "orders").append(b"one").expect("there is room");
    let orders = find("orders").expect("it was made");
    assert_eq!(values(&orders), [b"one"]);
    orders.append(b"two").expect("there is room");
    let error = logs.find("__consumer_offsets").expect_err("a node's own");
    assert!(matches!(error, LogError::NodesOwn { .. }), "{error}");
    logs.close();
    let error = logs.find("orders").expect_err("too late");
    assert!(matches!(error, LogError::Closed), "{error}");
}

#[test]
fn the_metadatas_name_is_given_to_no_log_and_opened_where_it_was() {
    let logs = open(&SimulatedDisk::new());
    let error = logs.log("__cluster_metadata").expect_err("it is reserved");
    assert!(matches!(error, LogError::Name { .. }), "{error}");
    logs.create_topic("__cluster_metadata", &[]);
    log(&logs, "__cluster_metadata")
        .append(b"one")
        .expect("there is room");
}

#[test]
fn a_log_is_kept_whole_whatever_topics_have_by_default() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    logs.set_for_all_brokers("log.cleanup.policy", "compact");
    logs.set_for_all_brokers("log.retention.ms", "1");
    log(&logs, "orders")
        .append(b"no key")
        .expect("it is not compacted");
    drop(logs);
    log(&open(&disk), "orders")
        .append(b"no key")
        .expect("it is not compacted");
}

#[test]
fn a_foreign_directory_on_a_real_disk_is_not_written_to() {
    let above = tempfile::tempdir().expect("there is room for a temporary directory");
    // Seen from above, no file of it is left out.
    let disk = RealDisk::open(above.path()).expect("it is ours");
    let photo = Path::new("pictures/photo.jpg");
    disk.create_directory(Path::new("pictures"))
        .expect("there is room");
    disk.replace(photo, b"not ours").expect("there is room");
    let error = Logs::open(above.path().join("pictures")).expect_err("it is somebody else's");
    assert!(
        matches!(error, OpenError::Directory(DirectoryError::Foreign { .. })),
        "{error}"
    );
    let left = disk.list(Path::new("pictures")).expect("it is there");
    assert_eq!(left, ["photo.jpg"]);
}

#[test]
fn what_a_node_keeps_for_itself_is_no_log() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    log(&logs, "orders");
    let refused = |logs: &Logs| {
        let error = logs.log("__consumer_offsets").expect_err("a node's own");
        assert!(matches!(error, LogError::NodesOwn { .. }), "{error}");
        assert_eq!(logs.names(), ["orders"]);
    };
    // There is no such topic yet.
    refused(&logs);
    logs.create_topic("__consumer_offsets", &[("cleanup.policy", "compact")]);
    refused(&logs);
    drop(logs);
    refused(&open(&disk));
}

#[test]
fn opening_to_read_writes_nothing_into_the_journal() {
    // No round of layout is due, which would put the frames into a segment: now or later, as the background's thread gets to it.
    let settings = Settings {
        layout_trigger_bytes: 1 << 20,
        tail_cache_bytes: 1 << 20,
        ..settings()
    };
    let open =
        |disk: &SimulatedDisk| try_open_with(disk, settings.clone()).expect("nothing is wrong with the disk");
    let disk = SimulatedDisk::new();
    log(&open(&disk), "orders").append(b"one").expect("there is room");
    let frames = check(&disk).frames;
    for _ in 0..3 {
        assert_eq!(values(&log(&open(&disk), "orders")), [b"one"]);
    }
    assert_eq!(check(&disk).frames, frames);
}

#[test]
fn each_opening_is_an_epoch_of_its_own() {
    let disk = SimulatedDisk::new();
    for number in 0..5 {
        // The state of the partitions goes through checkpoints as well.
        let logs = open(&disk);
        let orders = log(&logs, "orders");
        for filler in 0..40 {
            orders.append(&value(filler, 600)).expect("there is room");
        }
        assert_eq!(orders.tail(), Offset((number + 1) * 40));
        let epoch = orders.epoch();
        assert_eq!(i64::from(epoch.0), number);
    }
}

#[test]
fn a_torn_end_is_cut_and_damage_is_named() {
    let disk = SimulatedDisk::new();
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    for number in 0..3 {
        orders.append(&value(number, 100)).expect("there is room");
    }
    // Closing would prove that the last frame was whole.
    let crashed = disk.crash(8);
    drop((orders, logs));
    let disk = crashed;
    let journal = Path::new("journals/000/000000.journal");
    let content = disk.file_bytes(journal).expect("the first file");
    let written = content
        .chunks(4096)
        .rposition(|block| block.iter().any(|byte| *byte != 0));
    let last_block = written.expect("something was written");

    // Several bits of the last frame: as if its flush had not been finished.
    let torn = disk.crash(1);
    for bit in [3, 70, 900, 1_001] {
        torn.flip_bit(journal, last_block as u64 * 4096 * 8 + bit);
    }
    let logs = open(&torn);
    assert_eq!(log(&logs, "orders").tail(), Offset(2));
    assert_eq!(log(&logs, "orders").append(b"again"), Ok(Offset(2)));
    drop(logs);

    // The same in the middle: valid frames behind it prove that it was whole once.
    let damaged = disk.crash(1);
    for bit in [3, 70, 900, 1_001] {
        damaged.flip_bit(journal, (last_block as u64 - 1) * 4096 * 8 + bit);
    }
    let error = try_open(&damaged).expect_err("it is damaged");
    assert!(
        matches!(error, OpenError::Fault(Fault::Damaged { .. })),
        "{error}"
    );
    assert!(error.to_string().contains("000000.journal"), "{error}");
}
