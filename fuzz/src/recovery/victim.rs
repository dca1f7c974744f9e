//! The runs whose files are damaged: small, but together they have every kind of file in every state.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use platform::disk::{Disk, SimulatedDisk};
use record::{Offset, PartitionId, TopicId};

use super::forge::salt_again;
use super::rig::{append, flush, lay_out, open, remove};

/// All batches ever appended to each partition, as they are to be read, in order.
pub(super) type Appended = BTreeMap<PartitionId, Vec<Vec<u8>>>;

/// A finished run, everything in it acknowledged.
pub(super) struct Victim {
    pub(super) disk: SimulatedDisk,
    pub(super) appended: Appended,
    /// Where each partition that was not deleted begins and ends.
    pub(super) bounds: BTreeMap<PartitionId, (i64, i64)>,
}

/// How many runs there are.
pub(super) const VICTIM_COUNT: usize = 3;

const PARTITIONS: u8 = 3;

/// Run number `index`, made when it is first asked for.
pub(super) fn victim(index: usize) -> &'static Victim {
    static VICTIMS: [OnceLock<Victim>; VICTIM_COUNT] = [const { OnceLock::new() }; VICTIM_COUNT];
    VICTIMS[index].get_or_init(|| match index {
        0 => run(0, false),
        1 => run(1, false),
        _ => run(5, true),
    })
}

fn partition(number: u8) -> PartitionId {
    PartitionId {
        topic: TopicId([number; 16]),
        index: i32::from(number),
    }
}

/// Appends and flushes; after each of `rounds` lays out. With `gives_up`, also trims and deletes. Ends with batches in the
/// journal only.
fn run(rounds: usize, gives_up: bool) -> Victim {
    let disk = SimulatedDisk::new();
    let mut store = open(&disk).expect("an empty disk is no damage");
    let mut appended: Appended = (0..PARTITIONS)
        .map(|number| (partition(number), Vec::new()))
        .collect();
    for round in 0..=rounds {
        for (number, (id, log)) in appended.iter_mut().enumerate() {
            if gives_up && number == 2 && round > 2 {
                continue;
            }
            for batch in 0..2 {
                append(&mut store, *id, 90 + 600 * number + 40 * batch, log).expect("there is room");
            }
            flush(&mut store);
        }
        if gives_up && round == 2 {
            store.delete_partition(partition(2)).expect("there is room");
            store.trim(partition(1), Offset(9)).expect("there is room");
            flush(&mut store);
        }
        if round < rounds {
            lay_out(&mut store, appended.keys()).expect("nothing is damaged");
            remove(&mut store);
        }
    }
    let bounds = appended
        .keys()
        .filter_map(|id| store.bounds(*id).map(|(first, next)| (*id, (first.0, next.0))))
        .collect();
    fix_salts(&disk);
    Victim {
        disk: disk.crash(0),
        appended,
        bounds,
    }
}

fn fix_salts(disk: &SimulatedDisk) {
    let journals = disk
        .paths()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "journal"));
    for (number, path) in journals.enumerate() {
        let mut bytes = disk.file_bytes(&path).expect("it is listed");
        salt_again(&mut bytes, number as u64 + 1);
        disk.replace(&path, &bytes).expect("nothing fails on this disk");
    }
}
