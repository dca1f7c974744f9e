//! Layout that is behind, so that memory has let go of what it is to copy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use platform::disk::{OperationKind, SimulatedDisk};

use super::adoption::{LARGE, VALUE_BYTES};
use super::rig::{Rig, config, partition};
use crate::journal::JournalSizes;
use crate::store::StoreConfig;

const PARTITIONS: u8 = 8;

/// A store that keeps nothing in memory, with room for several files that wait for their round.
fn forgetful() -> Rig {
    forgetful_with(config().journal.file_bytes)
}

fn forgetful_with(file_bytes: u64) -> Rig {
    Rig::on(
        SimulatedDisk::new(),
        StoreConfig {
            tail_cache_bytes: 0,
            journal: JournalSizes {
                files_max: 6,
                file_bytes,
            },
            ..config()
        },
    )
}

/// Frames that hold a batch of each partition. What is to be read of each.
fn fill(rig: &mut Rig, frames: usize) -> Vec<Vec<Bytes>> {
    let mut appended = vec![Vec::new(); usize::from(PARTITIONS)];
    for _ in 0..frames {
        for (number, appended) in (0..PARTITIONS).zip(&mut appended) {
            appended.push(rig.append(number, 300));
        }
        rig.flush();
        rig.prepare();
    }
    appended
}

fn assert_whole(rig: &mut Rig, appended: &[Vec<Bytes>]) {
    for (number, appended) in (0..PARTITIONS).zip(appended) {
        assert_eq!(rig.read(number), appended.concat());
    }
}

/// Counts the bytes that are read from the journal from now on.
fn count_journal_reads(disk: &SimulatedDisk) -> Arc<AtomicU64> {
    let read = Arc::new(AtomicU64::new(0));
    let counter = read.clone();
    disk.count_reads(true);
    disk.fail_when(move |call| {
        if call.kind == OperationKind::Read && call.path.starts_with("journals") {
            counter.fetch_add(call.length, Ordering::Relaxed);
        }
        None
    });
    read
}

#[test]
fn what_memory_has_let_go_of_is_read_back_once_for_all_partitions() {
    let mut rig = forgetful();
    let appended = fill(&mut rig, 6);
    let (in_journal, _) = rig.store.journal.occupied_bytes();
    let read = count_journal_reads(&rig.disk);
    rig.lay_out();
    let read = read.load(Ordering::Relaxed);
    assert!(read > 0 && read <= in_journal, "{read} of {in_journal} bytes");
    rig.disk.clear_faults();
    let (mut rig, _) = rig.restart();
    assert_whole(&mut rig, &appended);
}

#[test]
fn a_round_that_is_behind_frees_one_file_and_the_next_follows_at_once() {
    let mut rig = forgetful();
    let mut appended = fill(&mut rig, 36);
    let occupied = |rig: &Rig| rig.store.journal.occupied_bytes().0;
    let file_bytes = config().journal.file_bytes;
    let mut rounds = 0;
    while rig.store.layout_is_due() {
        let before = occupied(&rig);
        assert!(rig.round() > 0);
        // The checkpoint adds a frame.
        assert!(before.saturating_sub(occupied(&rig)) <= file_bytes);
        rounds += 1;
    }
    assert!(rounds > 2, "{rounds}");
    assert!(occupied(&rig) < config().layout_trigger_bytes + file_bytes);
    let more = fill(&mut rig, 3);
    for (appended, more) in appended.iter_mut().zip(more) {
        appended.extend(more);
    }
    assert_whole(&mut rig, &appended);
    let (mut rig, _) = rig.restart();
    assert_whole(&mut rig, &appended);
}

#[test]
fn what_one_partition_has_alone_is_not_kept_for_others() {
    let mut rig = forgetful();
    let mut appended = Vec::new();
    for _ in 0..6 {
        appended.push(rig.append(0, 3_000));
        rig.flush();
    }
    rig.append(1, 10);
    rig.flush();
    rig.store.begin_layout();
    let job = rig.store.next_layout(rig.now_ms).expect("partition 0 waits");
    let laid_out = job.run();
    assert!(laid_out.as_ref().is_ok_and(|done| done.recalled.is_empty()));
    rig.store.laid_out(job, laid_out).expect("the disk works");
    rig.step();
    rig.checkpoint();
    assert_eq!(rig.read(0), appended.concat());
}

#[test]
fn a_round_ends_with_the_first_file_that_is_read_back_for_its_lesser_part() {
    let mut rig = forgetful_with(64 << 10);
    // Some frame of each file is others' as well.
    for number in 0..28 {
        rig.append(LARGE, VALUE_BYTES);
        if number % 5 == 1 {
            rig.append(0, 20);
        }
        rig.flush();
        rig.prepare();
    }
    let end = rig.store.layout_end();
    let journal = &rig.store.journal;
    let first = journal.forgotten_file(journal.released_before(), end);
    let first = first.expect("it is complete, and not in memory");
    assert!(rig.store.is_adoptable(&first) && first.is_shared);
    assert!(first.frames_end < end, "there are more");
    assert_eq!(rig.store.end_of_first_to_read_back(end), Some(first.frames_end));
}

#[test]
fn a_partition_that_has_fallen_silent_keeps_nothing_of_its_tail() {
    let mut rig = Rig::new();
    for _ in 0..70 {
        rig.append(0, 10);
    }
    rig.flush();
    rig.lay_out();
    assert_eq!(
        rig.store.partitions[&partition(0)].tail.len(),
        70,
        "memory still has them"
    );
    for _ in 0..12 {
        rig.append(1, 3_000);
        rig.flush();
        rig.lay_out();
    }
    let tail = &rig.store.partitions[&partition(0)].tail;
    assert!(
        tail.is_empty() && tail.capacity() <= 64,
        "{} of {}",
        tail.len(),
        tail.capacity()
    );
}
