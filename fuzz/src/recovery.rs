//! Recovery: a store opened over damaged files says so, or serves what was appended, and never panics.
//!
//! An input names one of a few small runs and then what is done to a copy of its files: bits turned, bytes overwritten,
//! files cut, swapped, copied, removed. What must hold then:
//! - no batch is served that was not appended at that place;
//! - a single turned bit loses nothing without a word;
//! - where an offline check finds nothing, everything can be read;
//! - what could be opened goes on: it appends, lays out, and can be opened again with all of it.
//!
//! Damage that was sealed again (see `forge`) may change what is served, since nothing can tell it from the truth: then only
//! a panic while opening and reading is wrong. Such a store is not written to: what contradicts itself and is sealed is our
//! own mistake, which assertions stop there.

mod damage;
mod forge;
mod rig;
mod victim;

use std::collections::BTreeMap;
use std::sync::Arc;

use platform::disk::{Disk, SimulatedDisk};
use record::{Offset, PartitionId, batches};
use storage::{Located, Read, ReadError, Store};

use self::damage::Damage;
use self::rig::{IDENTITY, append, flush, lay_out, open};
use self::victim::{Appended, VICTIM_COUNT, victim};
use crate::input::Input;

/// How much a read asks for: less than most logs have.
const READ_BYTES: usize = 3_000;

/// See the module.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let victim = victim(input.below(VICTIM_COUNT));
    // Nothing is on its way, so what a crash leaves is the disk as it is.
    let disk = victim.disk.crash(0);
    let damage = Damage::apply(&disk, &mut input);
    let mut appended = victim.appended.clone();
    let looks_sound = look_offline(&disk);
    assert!(
        looks_sound || damage.is_any(),
        "the check finds faults where none are"
    );
    let mut store = match open(&disk) {
        Ok(store) => store,
        Err(fault) => {
            assert!(!looks_sound, "the check found nothing, but: {fault}");
            return damage.assert_blamed(&fault);
        }
    };
    if damage.is_one_bit() {
        for (id, bounds) in &victim.bounds {
            assert_eq!(
                bounds_of(&store, *id),
                Some(*bounds),
                "a turned bit loses nothing of {id} without a word"
            );
        }
    }
    let faults = read_everything(&mut store, &appended, &damage);
    assert!(
        !looks_sound || faults == 0 || damage.is_forged(),
        "the check found nothing, but a read did"
    );
    if damage.is_forged() {
        return;
    }
    go_on(&disk, store, &mut appended, &damage);
}

fn bounds_of(store: &Store, id: PartitionId) -> Option<(i64, i64)> {
    store.bounds(id).map(|(log_start, next)| (log_start.0, next.0))
}

/// Appends to each partition, lays out, and opens the store again.
fn go_on(disk: &SimulatedDisk, mut store: Store, appended: &mut Appended, damage: &Damage) {
    let mut expected = BTreeMap::new();
    for (number, (id, log)) in appended.iter_mut().enumerate() {
        // What the damage took is appended anew, and in another form.
        let next = bounds_of(&store, *id).map_or(0, |(_, next)| next);
        if append(&mut store, *id, 700 + number, log).is_err() {
            continue;
        }
        expected.insert(*id, (next, bounds_of(&store, *id).expect("just appended to")));
    }
    flush(&mut store);
    if let Err(fault) = lay_out(&mut store, appended.keys()) {
        damage.assert_blamed(&fault);
    }
    drop(store);
    let mut store = match open(disk) {
        Ok(store) => store,
        Err(fault) => panic!("what could be opened once can not be opened again: {fault}"),
    };
    for (id, (first, bounds)) in &expected {
        assert_eq!(
            bounds_of(&store, *id),
            Some(*bounds),
            "what was appended to {id} is still there"
        );
        match read(&mut store, *id, *first, bounds.1) {
            Ok(bytes) => assert!(!bytes.is_empty(), "the batch appended to {id} can be read"),
            // A run that was laid out behind a damaged one can not be found without that one's table.
            Err(ReadError::Fault(fault)) => damage.assert_blamed(&fault),
            Err(error) => panic!("the batch appended to {id} is within its bounds: {error}"),
        }
    }
    read_everything(&mut store, appended, damage);
}

/// Lets the tools for a stopped node look at the files; whether they find nothing wrong.
fn look_offline(disk: &SimulatedDisk) -> bool {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (_, faults) = storage::list_frames(&disk, &IDENTITY);
    let segments = storage::list_segments(&disk, &IDENTITY, |_| true)
        .is_ok_and(|mut listed| listed.all(|segment| segment.fault.is_none()));
    let report = storage::check(&disk, &IDENTITY, &mut |_| {});
    let sound = report.is_ok_and(|report| report.is_sound());
    assert!(
        !sound || (faults.is_empty() && segments),
        "the check found nothing, but a listing did"
    );
    sound
}

/// Reads all that the store has, by offset and by time; how often damage was found, which must not be served.
fn read_everything(store: &mut Store, appended: &Appended, damage: &Damage) -> usize {
    let mut faults = 0;
    for id in appended.keys() {
        let Some((log_start, next)) = bounds_of(store, *id) else {
            continue;
        };
        let mut from = log_start;
        while from < next {
            match read(store, *id, from, next) {
                Ok(bytes) => match check_served(*id, from, &bytes, appended, damage) {
                    Some(served_next) => from = served_next,
                    None => break,
                },
                Err(ReadError::Fault(fault)) => {
                    damage.assert_blamed(&fault);
                    faults += 1;
                    break;
                }
                Err(error) => {
                    assert!(
                        damage.is_forged(),
                        "offset {from} of {id} is within its bounds: {error}"
                    );
                    break;
                }
            }
        }
        locate(store, *id, damage);
    }
    faults
}

/// Compares what was served from `from` on with what was appended; the offset after it, or `None` if nothing was.
fn check_served(
    id: PartitionId,
    from: i64,
    bytes: &[u8],
    appended: &Appended,
    damage: &Damage,
) -> Option<i64> {
    if damage.is_forged() {
        return None;
    }
    let mut next = from;
    for batch in batches(bytes) {
        let (header, batch) = batch.expect("batches are served whole");
        let first = header.base_offset.0;
        assert!(
            first <= next && header.next_offset().0 > next,
            "{id} goes on at {next}, not at {first}"
        );
        let known = appended[&id].iter().any(|known| known == batch);
        assert!(
            known,
            "a batch at offset {first} of {id} is served that was never appended there"
        );
        next = header.next_offset().0;
    }
    assert!(next > from, "there is a batch at {from}, before the end of {id}");
    Some(next)
}

fn read(store: &mut Store, id: PartitionId, from: i64, until: i64) -> Result<Vec<u8>, ReadError> {
    let mut read = store.read(id, Offset(from), Offset(until), READ_BYTES)?;
    loop {
        match read {
            Read::Ready(parts) | Read::Part(parts) => return Ok(parts.concat()),
            Read::UnderWay => unreachable!("nothing is read ahead here"),
            Read::Job(job) => read = store.finish_read(job.run()).map_err(unmended)?,
        }
    }
}

/// Nobody here lends what was lost.
fn unmended(error: ReadError) -> ReadError {
    match error {
        ReadError::Damaged(damage) => ReadError::Fault(damage.into_fault()),
        error => error,
    }
}

fn locate(store: &mut Store, id: PartitionId, damage: &Damage) {
    for timestamp_ms in [i64::MIN, 1_010, i64::MAX] {
        if let Ok(Located::Job(job)) = store.locate_timestamp(id, timestamp_ms)
            && let Err(ReadError::Fault(fault)) =
                store.finish_locate(job.run(), timestamp_ms).map_err(unmended)
        {
            return damage.assert_blamed(&fault);
        }
    }
}

/// Each run undamaged, and each kind of damage to each of the runs.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for victim in 0..VICTIM_COUNT as u8 {
        seeds.push(vec![victim]);
        for (index, kind) in damage::KINDS.iter().enumerate() {
            let file = victim + index as u8;
            seeds.push([&[victim, *kind, file][..], &[0x10, 0x11, 0x24, 0x03, 0x50, 0x20]].concat());
        }
    }
    seeds
}
