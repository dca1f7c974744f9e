//! Reading ahead: who reads on finds everything in the cache, who does not costs nothing, and what lies ready is bounded.

use bytes::Bytes;
use platform::disk::SimulatedDisk;
use record::{BatchBuilder, Compression, Offset, batches};

use super::compaction::{all, run_pass};
use super::rig::{Rig, batch, config, partition, plain, stage};
use crate::store::{Read, ReadError, ReadJob, StoreConfig};

/// Several to a piece.
const VALUE_BYTES: usize = 300 << 10;
const BATCHES: i64 = 40;
/// Its segments are made of journal files, those of `COPIED` are written.
const ADOPTED: u8 = 3;
const COPIED: u8 = 0;

/// An empty partition whose segments have several pieces.
fn empty(number: u8, chunk_cache_bytes: usize) -> Rig {
    let mut config = StoreConfig {
        chunk_cache_bytes,
        ..config()
    };
    config.journal.file_bytes = 4 << 20;
    config.journal.files_max = 16;
    let mut rig = Rig::on(SimulatedDisk::new(), config);
    let rolling = crate::partition::SegmentRolling {
        bytes: if number == ADOPTED { 4 << 20 } else { 3 << 20 },
        age_ms: 60_000,
    };
    rig.store.open_partition(partition(number), rolling);
    rig
}

/// Batches of one record each, laid out in segments of several pieces, and nothing in memory.
fn laid_out(number: u8, chunk_cache_bytes: usize) -> (Rig, Vec<Bytes>) {
    let mut rig = empty(number, chunk_cache_bytes);
    let id = partition(number);
    let mut appended = Vec::new();
    for fill in 0..BATCHES {
        let bytes = batch(1, VALUE_BYTES, fill, fill as u64);
        appended.push(stage(&mut rig.store, id, &bytes).expect("there is room"));
        rig.flush();
        rig.prepare();
    }
    rig.lay_out();
    let (rig, _) = rig.restart();
    (rig, appended)
}

/// The answer of a read now: the batches, or how many loads it has to wait for.
enum Found {
    Batches(Vec<Bytes>),
    AfterLoading(Vec<Bytes>),
    UnderWay,
}

fn find(rig: &mut Rig, number: u8, from: i64, bytes_max: usize) -> Result<Found, ReadError> {
    let id = partition(number);
    let mut waited = false;
    let mut read = rig.store.read(id, Offset(from), Offset(i64::MAX), bytes_max)?;
    loop {
        match read {
            Read::Ready(batches) | Read::Part(batches) if waited => return Ok(Found::AfterLoading(batches)),
            Read::Ready(batches) | Read::Part(batches) => return Ok(Found::Batches(batches)),
            Read::UnderWay => return Ok(Found::UnderWay),
            Read::Job(job) => {
                waited = true;
                read = rig.store.finish_read(job.run()).map_err(plain)?;
            }
        }
    }
}

fn loads(rig: &mut Rig) -> Vec<ReadJob> {
    std::iter::from_fn(|| rig.store.next_read_ahead()).collect()
}

/// Runs what is to be read ahead, until nothing is; the bytes.
fn read_ahead(rig: &mut Rig) -> usize {
    let mut bytes = 0;
    while let Some(job) = rig.store.next_read_ahead() {
        bytes += job.bytes();
        rig.store.finish_read_ahead(job.run());
    }
    bytes
}

#[test]
fn who_reads_on_waits_for_the_disk_no_more() {
    for number in [ADOPTED, COPIED] {
        let (mut rig, appended) = laid_out(number, 32 << 20);
        let appended = appended.concat();
        let in_memory_from = rig.store.partitions[&partition(number)].laid_out;
        let (mut found, mut from, mut waits) = (Vec::new(), 0, 0);
        while from < in_memory_from {
            let batches = match find(&mut rig, number, from, 700 << 10).expect("all is well") {
                Found::Batches(batches) => batches,
                Found::AfterLoading(batches) => {
                    waits += 1;
                    batches
                }
                Found::UnderWay => panic!("every load has ended"),
            };
            from += batches
                .iter()
                .map(|batches| batches.len() / VALUE_BYTES)
                .sum::<usize>() as i64;
            found.extend(batches.concat());
            read_ahead(&mut rig);
        }
        assert!(from > 20, "{from} batches were laid out");
        assert!(appended.starts_with(&found));
        assert_eq!(waits, 2, "only until it is known that somebody reads on");
    }
}

/// Somebody reads on over what compaction has left, and waits no more often than without gaps.
pub(super) fn read_over_gaps() -> Result<(), String> {
    for number in [ADOPTED, COPIED] {
        let mut rig = empty(number, 32 << 20);
        let id = partition(number);
        for offset in 0..BATCHES {
            // Two of three have the key of those before them.
            let key = if offset % 3 == 0 { offset } else { -1 };
            let mut builder = BatchBuilder::new(Compression::None);
            let value = vec![b'v'; VALUE_BYTES];
            builder.append(offset, Some(&key.to_le_bytes()), Some(&value), &[]);
            stage(&mut rig.store, id, &builder.build()).expect("there is room");
            rig.flush();
            rig.prepare();
        }
        rig.lay_out();
        assert!(rig.store.begin_compaction(id, &all(&rig), &[]));
        run_pass(&mut rig);
        rig.lay_out();
        let (mut rig, _) = rig.restart();

        let in_memory_from = rig.store.partitions[&id].laid_out;
        let (mut offsets, mut from, mut waits) = (Vec::new(), 0, 0);
        while from < in_memory_from {
            let found = match find(&mut rig, number, from, 700 << 10).expect("all is well") {
                Found::Batches(found) => found,
                Found::AfterLoading(found) => {
                    waits += 1;
                    found
                }
                Found::UnderWay => panic!("every load has ended"),
            };
            for batch in batches(&found.concat()) {
                let (header, _) = batch.expect("batches are read whole");
                from = header.next_offset().0;
                offsets.push(header.base_offset.0);
            }
            read_ahead(&mut rig);
        }
        let missing = (0..from).filter(|offset| !offsets.contains(offset)).count();
        assert!(missing > 15, "{missing} of {from} are gone");
        if waits != 2 {
            return Err(format!("waited for {waits} reads instead of the first two"));
        }
    }
    Ok(())
}

#[test]
fn gaps_that_compaction_left_do_not_stop_it() {
    read_over_gaps().unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn who_reads_here_and_there_has_nothing_read_ahead() {
    let (mut rig, _) = laid_out(COPIED, 32 << 20);
    for from in [20, 3, 11, 3, 8] {
        find(&mut rig, COPIED, from, 1).expect("all is well");
        assert_eq!(loads(&mut rig).len(), 0);
    }
}

#[test]
fn a_read_waits_for_the_load_that_is_under_way() {
    let (mut rig, appended) = laid_out(COPIED, 32 << 20);
    for from in [0, 1] {
        find(&mut rig, COPIED, from, 1).expect("all is well");
    }
    let loads = loads(&mut rig);
    assert_eq!(loads.len(), 2, "as many as may be under way");
    assert!(matches!(find(&mut rig, COPIED, 2, 1), Ok(Found::UnderWay)));
    assert!(
        matches!(find(&mut rig, COPIED, 20, 1), Ok(Found::AfterLoading(_))),
        "others do not wait"
    );
    // In whatever order they end.
    for job in loads.into_iter().rev() {
        rig.store.finish_read_ahead(job.run());
    }
    let Ok(Found::Batches(found)) = find(&mut rig, COPIED, 2, 1) else {
        panic!("it was read ahead")
    };
    assert_eq!(found.concat(), appended[2]);
}

#[test]
fn a_load_that_fails_is_told_to_the_reader_and_not_tried_again() {
    let (mut rig, _) = laid_out(COPIED, 32 << 20);
    for from in [0, 1] {
        find(&mut rig, COPIED, from, 1).expect("all is well");
    }
    let path = rig.segments(COPIED).into_iter().min().expect("it was laid out");
    // Of the third batch, which is of the piece that is read ahead.
    rig.disk.flip_bit(&path, 8 * (5 * VALUE_BYTES as u64 / 2));
    for job in loads(&mut rig) {
        rig.store.finish_read_ahead(job.run());
    }
    assert_eq!(loads(&mut rig).len(), 0);
    assert!(matches!(find(&mut rig, COPIED, 2, 1), Err(ReadError::Fault(_))));
    assert_eq!(loads(&mut rig).len(), 0);
}

#[test]
fn what_lies_ready_keeps_to_its_share_and_the_silent_make_room() {
    let cache_bytes = 8 << 20;
    let (mut rig, _) = laid_out(COPIED, cache_bytes);
    let mut ready_bytes = 0;
    for reader in 0..6 {
        for from in [6 * reader, 6 * reader + 1] {
            find(&mut rig, COPIED, from, 1).expect("all is well");
        }
        ready_bytes += read_ahead(&mut rig);
    }
    assert!(
        ready_bytes > 0 && ready_bytes <= cache_bytes / 2,
        "{ready_bytes} bytes"
    );
    // They are gone: somebody else reads, and reads on.
    for _ in 0..40 {
        find(&mut rig, COPIED, 2, 1).expect("all is well");
    }
    for from in [28, 29] {
        find(&mut rig, COPIED, from, 1).expect("all is well");
    }
    assert!(read_ahead(&mut rig) > 0);
}

#[test]
fn a_load_of_a_partition_that_is_gone_is_not_kept() {
    let (mut rig, _) = laid_out(COPIED, 32 << 20);
    for from in [0, 1] {
        find(&mut rig, COPIED, from, 1).expect("all is well");
    }
    let loads = loads(&mut rig);
    rig.store
        .delete_partition(partition(COPIED))
        .expect("there is room");
    let cached_before = rig.store.caches.pieces.len();
    for job in loads {
        rig.store.finish_read_ahead(job.run());
    }
    assert_eq!(rig.store.caches.pieces.len(), cached_before);
    assert!(rig.store.next_read_ahead().is_none());
}

#[test]
fn a_reader_that_takes_little_does_not_keep_a_whole_piece_in_memory() {
    let (mut rig, _) = laid_out(COPIED, 32 << 20);
    // More than a whole piece: what is of that is shared with the cache.
    let Ok(Found::AfterLoading(all)) = find(&mut rig, COPIED, 0, 2 << 20) else {
        panic!("nothing is in memory")
    };
    assert!(!all[0].is_unique());
    let Ok(Found::Batches(little)) = find(&mut rig, COPIED, 1, 1) else {
        panic!("it is cached")
    };
    assert!(little[0].is_unique(), "a copy");
}
