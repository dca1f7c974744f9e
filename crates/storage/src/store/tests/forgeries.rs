//! Checkpoints whose checksum holds over what no store has written: fields changed one by one and several at a time. The
//! store opens or says what is wrong, and one that opens can be lived with: nothing panics. And what a journal may hold
//! that its store relies on not to be there.

use std::path::Path;

use platform::disk::SimulatedDisk;
use platform::random::SeededRandom;
use record::{Epoch, Offset, set_base_offset};

use super::rig::{
    Rig, batch, begin_checkpoint, config, copy, open, partition, read, rolling, stage, write_file,
};
use super::workload::{Driver, Op, draw, draw_replicated};
use crate::fault::Fault;
use crate::journal::frame::{EntryHeader, EntryKind};
use crate::store::{AgeLimit, ReadError, Store};

const CHECKPOINT: &str = "checkpoints/000.checkpoint";
/// Where what is summed up begins, behind the magic, the version and the checksum.
const CONTENT: usize = 24;

#[derive(Debug, Default)]
struct Outcomes {
    opened: usize,
    refused: usize,
}

/// A disk with segments, a trim, removals that wait, and a journal that goes on.
fn victim(seed: u64) -> SimulatedDisk {
    victim_of(&draw(seed, 130))
}

/// The same of a replica: with promises and witnesses.
fn replica(seed: u64) -> SimulatedDisk {
    victim_of(&draw_replicated(seed, 110))
}

fn victim_of(ops: &[Op]) -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    let mut driver = Driver::for_ops(&disk, config(), ops).expect("nothing is wrong with the disk");
    driver.run(ops);
    driver.flush_all();
    copy(&disk)
}

fn content(disk: &SimulatedDisk) -> Vec<u8> {
    disk.file_bytes(Path::new(CHECKPOINT)).expect("there is one")
}

/// Gives the checkpoint another content under a checksum that holds.
fn forge(disk: &SimulatedDisk, bytes: &mut [u8]) {
    let checksum = config().identity.checksum(&[&bytes[..16], &bytes[CONTENT..]]);
    bytes[16..CONTENT].copy_from_slice(&checksum.to_le_bytes());
    write_file(disk, Path::new(CHECKPOINT), bytes);
}

/// Opens the store and does everything with it that a node does. Faults are right; a panic is not.
fn live_with(disk: &SimulatedDisk, outcomes: &mut Outcomes) {
    match open(disk) {
        Ok((mut store, recovered)) => {
            outcomes.opened += 1;
            let numbered = recovered.partitions.iter().map(|partition| partition.id);
            let ids: Vec<_> = numbered.chain([partition(77)]).collect();
            for id in &ids {
                store.open_partition(*id, rolling(*id));
                read_on(&mut store, *id);
                let _ = stage(&mut store, *id, &batch(2, 900, 5, 5));
            }
            flush(&mut store);
            if lay_out(&mut store).is_ok() {
                ids.iter().for_each(|id| read_on(&mut store, *id));
            }
            let age = AgeLimit {
                oldest_ms: i64::MAX,
                stood_before: Offset(i64::MAX),
            };
            store.retention_start(ids[0], Some(age), Some(0));
            while let Some(job) = store.next_removal() {
                let result = job.run();
                store.removed(job, result).expect("nothing fails on this disk");
            }
            drop(store);
            // The files that it left are not judged, but must not break the next one either.
            let _ = open(disk);
        }
        Err(Fault::Damaged { .. }) => outcomes.refused += 1,
        Err(fault) => panic!("a forged checkpoint is reported as: {fault}"),
    }
}

fn read_on(store: &mut Store, id: record::PartitionId) {
    let (log_start, next) = store.bounds(id).expect("it was opened");
    assert!(log_start <= next, "{id} starts behind its end");
    let mut from = log_start;
    while from < next {
        match read(store, id, from.0, next.0, 4_000) {
            Ok(bytes) => {
                let ends = record::batches(&bytes).map(|batch| batch.expect("batches are read whole").0);
                let end = ends
                    .last()
                    .map_or(Offset(i64::MAX), |header| header.next_offset());
                assert!(end > from, "{id} goes on behind {from}");
                from = end;
            }
            Err(ReadError::Fault(Fault::Damaged { .. })) => return,
            Err(error) => panic!("{id}: {error}"),
        }
    }
}

fn flush(store: &mut Store) {
    while let Some(flush) = store.next_flush() {
        let result = flush.run();
        super::rig::flushed(store, flush, result).expect("nothing fails on this disk");
    }
}

fn lay_out(store: &mut Store) -> Result<(), Fault> {
    store.begin_layout();
    while let Some(job) = store.next_layout(9_000) {
        let result = job.run();
        store.laid_out(job, result)?;
    }
    if store.checkpoint_is_due() {
        let job = begin_checkpoint(store);
        flush(store);
        let result = job.run();
        store
            .checkpointed(job, result)
            .expect("nothing fails on this disk");
    }
    Ok(())
}

/// Numbers that are likely to be wrong somewhere.
fn numbers(random: &mut SeededRandom) -> u64 {
    let small = random.below(200);
    match random.below(9) {
        0 => 0,
        1 => u64::MAX,
        2 => i64::MAX as u64,
        3 => i64::MIN as u64,
        4 => 4_096 * small,
        5 => 1 << random.below(64),
        6 => small.wrapping_neg(),
        _ => small,
    }
}

#[test]
fn any_number_in_a_checkpoint_may_be_forged() {
    forge_any_number(&victim(13));
    forge_any_number(&replica(14));
}

fn forge_any_number(disk: &SimulatedDisk) {
    let whole = content(disk);
    let mut outcomes = Outcomes::default();
    for at in (CONTENT..whole.len() - 3).step_by(4) {
        let old = u32::from_le_bytes(whole[at..at + 4].try_into().expect("four bytes"));
        let close = [old.wrapping_add(1), old.wrapping_sub(1), old.wrapping_add(4_096)];
        for number in close.into_iter().chain([0, u32::MAX, i32::MAX as u32, 1 << 31]) {
            let disk = copy(disk);
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
            forge(&disk, &mut bytes);
            live_with(&disk, &mut outcomes);
        }
    }
    eprintln!("numbers of a checkpoint forged: {outcomes:?}");
    assert!(outcomes.refused > 300 && outcomes.opened > 100);
}

#[test]
fn several_numbers_in_a_checkpoint_may_be_forged() {
    let mut outcomes = Outcomes::default();
    for (seed, disk) in (21..33).map(|seed| {
        (
            seed,
            if seed % 4 == 0 {
                replica(seed)
            } else {
                victim(seed)
            },
        )
    }) {
        let whole = content(&disk);
        let mut random = SeededRandom::new(seed);
        for _ in 0..300 {
            let disk = copy(&disk);
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                let fields = (whole.len() - CONTENT - 8) as u64 / 4;
                let at = CONTENT + 4 * random.below(fields) as usize;
                let number = numbers(&mut random).to_le_bytes();
                bytes[at..at + 8].copy_from_slice(&number);
            }
            forge(&disk, &mut bytes);
            live_with(&disk, &mut outcomes);
        }
    }
    eprintln!("checkpoints forged in several places: {outcomes:?}");
    assert!(outcomes.refused > 1_000 && outcomes.opened > 100);
}

#[test]
fn a_batch_without_records_is_refused() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    let mut bytes = batch(1, 10, 1, 1).to_vec();
    set_base_offset(&mut bytes, Offset(1));
    // The last record's offset, less the first one's: there is none.
    bytes[23..27].copy_from_slice(&(-1i32).to_be_bytes());
    let entry = EntryHeader {
        payload_bytes: bytes.len() as u32,
        ..EntryHeader::bare(EntryKind::Batch, partition(0), Epoch(5), Offset(1))
    };
    let staged = rig.store.journal.stage(&entry, &bytes, crate::Reserve::Keep);
    staged.expect("there is room");
    rig.flush();
    let fault = open(&rig.disk).map(|_| ()).expect_err("no broker wrote this");
    assert!(
        fault.to_string().contains("fields that such an entry has not"),
        "{fault}"
    );
}

#[test]
fn a_journal_file_with_the_last_sequence_of_all_is_refused() {
    let disk = victim(13);
    let is_journal = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "journal");
    for path in disk.paths().into_iter().filter(is_journal) {
        let disk = copy(&disk);
        let mut bytes = disk.file_bytes(&path).expect("it is listed");
        bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        let checksum = config().identity.checksum(&[&bytes[..48]]);
        bytes[48..56].copy_from_slice(&checksum.to_le_bytes());
        write_file(&disk, &path, &bytes);
        assert!(matches!(open(&disk), Err(Fault::Damaged { .. })));
    }
}

#[test]
fn a_log_that_starts_behind_its_end_is_refused() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    rig.flush();
    rig.lay_out();
    rig.append(0, 10);
    rig.flush();
    let whole = content(&rig.disk);
    // Its log start, behind the directory, where replay starts, how many partitions there are, and its own name.
    let at = CONTENT + 16 + 24 + 4 + 20;
    for (log_start, opens) in [(0i64, true), (2, true), (3, false), (i64::MAX, false)] {
        let disk = copy(&rig.disk);
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&log_start.to_le_bytes());
        forge(&disk, &mut bytes);
        let opened = open(&disk).map(|_| ());
        assert_eq!(opened.is_ok(), opens, "{log_start}: {opened:?}");
        live_with(&disk, &mut Outcomes::default());
    }
}

#[test]
fn a_journal_that_would_begin_behind_its_file_is_refused() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    rig.flush();
    rig.lay_out();
    // The state does not know of it: nothing but the place says that it is there.
    rig.append(0, 10);
    rig.flush();
    let mut bytes = content(&rig.disk);
    let behind = config().journal.file_bytes + 4_096;
    bytes[CONTENT + 8..CONTENT + 16].copy_from_slice(&behind.to_le_bytes());
    forge(&rig.disk, &mut bytes);
    assert!(matches!(open(&rig.disk), Err(Fault::Damaged { .. })));
}
