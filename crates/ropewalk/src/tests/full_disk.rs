//! A disk without room: appends are refused with an answer, what is stored is read, and appends go on when there is room.

use platform::disk::SimulatedDisk;

use super::rig::{check, log, open, settings, try_open_with, value, values};
use crate::{AppendError, Log, Offset, Settings};

/// Appends until there is no room; gives back what was appended, and the refusal.
fn fill(log: &Log) -> (Vec<Vec<u8>>, AppendError) {
    let mut appended = Vec::new();
    loop {
        let value = value(appended.len(), 3_000);
        match log.append(&value) {
            Ok(offset) => assert_eq!(offset, Offset(appended.len() as i64)),
            Err(refusal) => return (appended, refusal),
        }
        appended.push(value);
        assert!(appended.len() < 10_000, "the disk is small");
    }
}

#[test]
fn a_full_disk_refuses_and_is_read() {
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(600 << 10));
    let logs = open(&disk);
    let orders = log(&logs, "orders");
    let (mut appended, refusal) = fill(&orders);
    assert!(matches!(refusal, AppendError::NoRoom { .. }), "{refusal}");
    assert!(refusal.to_string().contains("no room to append"), "{refusal}");
    assert!(
        appended.len() > 50,
        "the disk was nearly full: {}",
        appended.len()
    );
    assert!(values(&orders) == appended);
    drop((orders, logs));

    let logs = open(&disk);
    let orders = log(&logs, "orders");
    assert!(values(&orders) == appended, "a full disk is opened and read");
    disk.set_capacity(None);
    assert_eq!(
        orders.append(b"again"),
        Ok(Offset(appended.len() as i64)),
        "at once when there is room"
    );
    appended.push(b"again".to_vec());
    assert!(values(&orders) == appended);
    drop((orders, logs));
    let report = check(&disk);
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn within_its_reserve_a_disk_takes_trims_only_and_recovers_by_them() {
    let reserve = Settings {
        disk_reserve_bytes: 256 << 10,
        ..settings()
    };
    let disk = SimulatedDisk::new();
    disk.set_capacity(Some(1 << 20));
    let logs = try_open_with(&disk, reserve).expect("nothing is wrong with the disk");
    let orders = log(&logs, "orders");
    for _ in 0..3 {
        let first = orders.tail();
        while orders.append(&value(1, 3_000)).is_ok() {}
        assert!(orders.tail() > first.advance(50), "{first}");
        let refusal = orders.append(b"still").expect_err("the disk is short of space");
        assert!(refusal.to_string().contains("are kept in reserve"), "{refusal}");
        orders.trim(orders.tail()).expect("the reserve is for this");
        orders.append(b"again").expect("there is room again");
    }
    drop((orders, logs));
    let report = check(&disk);
    assert!(report.is_sound(), "{report:?}");
}
