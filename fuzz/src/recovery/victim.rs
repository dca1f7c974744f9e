//! The runs whose files are damaged: small, but together they have every kind of file in every state.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use platform::disk::{Disk, SimulatedDisk};
use record::{Epoch, Offset, PartitionId, TopicId};
use storage::{DirectoryId, Store, Witness};

use super::forge::salt_again;
use super::rig::{append, flush, flush_only, lay_out, open, open_partition, remove};

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
pub(super) const VICTIM_COUNT: usize = 4;

const PARTITIONS: u8 = 3;

/// Run number `index`, made when it is first asked for.
pub(super) fn victim(index: usize) -> &'static Victim {
    static VICTIMS: [OnceLock<Victim>; VICTIM_COUNT] = [const { OnceLock::new() }; VICTIM_COUNT];
    VICTIMS[index].get_or_init(|| match index {
        0 => run(0, false),
        1 => run(1, false),
        2 => run(5, true),
        _ => replica(),
    })
}

/// A run with all that only a replica of a cluster journals. What it cut off counts as appended: with the entry that cuts it off
/// it may come back.
fn replica() -> Victim {
    let disk = SimulatedDisk::new();
    let mut store = open(&disk).expect("an empty disk is no damage");
    let mut appended: Appended = (0..PARTITIONS)
        .map(|number| (partition(number), Vec::new()))
        .collect();
    const ROOM: &str = "there is room";
    let [cut, late, promised] = [0, 1, 2].map(partition);
    let log = |appended: &mut Appended, id: PartitionId| std::mem::take(appended.entry(id).or_default());
    let (mut cut_log, mut late_log) = (log(&mut appended, cut), log(&mut appended, late));
    append(&mut store, cut, 90, &mut cut_log).expect(ROOM);
    open_partition(&mut store, late);
    store.begin_at(late, Offset(100)).expect(ROOM);
    append(&mut store, late, 700, &mut late_log).expect(ROOM);
    open_partition(&mut store, promised);
    store.promise(promised, Epoch(6), 2).expect(ROOM);
    flush(&mut store);
    lay_out(&mut store, appended.keys()).expect("nothing is damaged");
    for value_bytes in [100, 110] {
        append(&mut store, cut, value_bytes, &mut cut_log).expect(ROOM);
        flush_only(&mut store);
    }
    store
        .accept(cut, Epoch(7), Offset(4), Some(Epoch(5)))
        .expect(ROOM);
    store.cut(cut, Offset(2)).expect(ROOM);
    append(&mut store, cut, 120, &mut cut_log).expect(ROOM);
    append(&mut store, late, 130, &mut late_log).expect(ROOM);
    let witness = Witness {
        node: 2,
        directory: DirectoryId([8; 16]),
        journal: 0,
        frame: 5,
    };
    store.witness(&witness).expect(ROOM);
    store.promise(promised, Epoch(8), 3).expect(ROOM);
    flush_only(&mut store);
    appended.extend([(cut, cut_log), (late, late_log)]);
    finished(&disk, &store, appended)
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
    finished(&disk, &store, appended)
}

fn finished(disk: &SimulatedDisk, store: &Store, appended: Appended) -> Victim {
    let bounds = appended
        .keys()
        .filter_map(|id| store.bounds(*id).map(|(first, next)| (*id, (first.0, next.0))))
        .collect();
    fix_salts(disk);
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
