//! Tests of what replicas need of a log: it is laid out up to its committed tail, a suffix of it can be cut off, it can begin anywhere
//! and have gaps, and what was promised for it is not forgotten.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{Disk, OperationKind, SimulatedDisk};
use platform::random::{Random, SeededRandom};
use record::{BatchBuilder, Compression, Epoch, Offset, PartitionId};

use super::adoption::{LARGE, VALUE_BYTES, adopted, roomy};
use super::rig::{Rig, batch, config, partition, read, rolling, stage};
use crate::Reserve;
use crate::check::check;
use crate::checksum::DirectoryId;
use crate::inspect::{EntryListing, list_frames, stored_batches};
use crate::segment::{AbortedRange, open_segment, read_index};
use crate::store::{Recovered, Store, StoreConfig};
use crate::witness::Witness;

/// Flushes everything, and commits nothing.
fn flush_only(rig: &mut Rig) -> Vec<(PartitionId, Offset)> {
    let mut reported = Vec::new();
    while let Some(flush) = rig.store.next_flush() {
        let result = flush.run();
        reported.extend(rig.store.flushed(flush, result).expect("the disk works"));
        rig.prepare();
    }
    reported
}

fn commit(rig: &mut Rig, number: u8) {
    let (_, next) = rig.bounds(number);
    rig.store.commit_to(partition(number), Offset(next));
}

/// A round; the states say up to where they reach, which is what is committed.
fn lay_out_committed(rig: &mut Rig, state: &'static [u8]) {
    rig.store.begin_overdue_layout();
    rig.step();
    assert!(rig.store.checkpoint_is_due());
    checkpoint_committed(rig, state);
}

fn checkpoint_committed(rig: &mut Rig, state: &'static [u8]) {
    let logs = rig.store.partitions.values();
    let committed: BTreeMap<_, _> = logs.map(|log| (log.id, log.committed)).collect();
    let job = rig
        .store
        .begin_checkpoint(&mut |id| Some((Bytes::from_static(state), Offset(committed[&id]))));
    flush_only(rig);
    let result = job.run();
    rig.store.checkpointed(job, result).expect("the disk works");
    rig.prepare();
}

fn assert_sound(rig: &Rig) {
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let report = check(&disk, &rig.store.config.identity, &mut |_| {}).expect("the checkpoint is sound");
    assert!(report.is_sound(), "{:?}", report.faults);
}

/// A batch as another node wrote it.
fn copied(rig: &mut Rig, number: u8, first: i64, value_bytes: usize) -> Bytes {
    rig.fill += 1;
    let mut builder = BatchBuilder::new(Compression::None).with_producer(4, 0, 0);
    builder.append(7, None, Some(&vec![rig.fill as u8; value_bytes]), &[]);
    let mut bytes = builder.build().to_vec();
    record::set_base_offset(&mut bytes, Offset(first));
    record::set_leader_epoch(&mut bytes, Epoch(4));
    let id = partition(number);
    rig.store.open_partition(id, rolling(id));
    Bytes::from(bytes)
}

fn append_copy(rig: &mut Rig, number: u8, first: i64, value_bytes: usize, aborts: Option<i64>) -> Bytes {
    let bytes = copied(rig, number, first, value_bytes);
    let mut batch = bytes.clone().into();
    rig.store
        .append_copy(
            partition(number),
            &mut batch,
            aborts.map(Offset),
            crate::Reserve::Keep,
        )
        .expect("there is room");
    bytes
}

#[test]
fn layout_stops_at_the_committed_tail() {
    let mut rig = Rig::new();
    let mut expected = rig.append(0, 100).to_vec();
    rig.flush();
    expected.extend_from_slice(&rig.append(0, 100));
    let other = rig.append(1, 100);
    flush_only(&mut rig);
    commit(&mut rig, 1);
    lay_out_committed(&mut rig, b"");
    let laid_out = |rig: &Rig, number| rig.store.partitions[&partition(number)].laid_out;
    assert_eq!(
        (laid_out(&rig, 0), laid_out(&rig, 1)),
        (1, 0),
        "both are in one frame"
    );
    assert!(
        !rig.store.begin_overdue_layout(),
        "there is nothing before that frame"
    );
    assert_eq!((rig.read(0), rig.read(1)), (expected.clone(), other.to_vec()));
    commit(&mut rig, 0);
    lay_out_committed(&mut rig, b"");
    assert_eq!((laid_out(&rig, 0), laid_out(&rig, 1)), (2, 1));
    let (mut rig, _) = rig.restart();
    assert_eq!((rig.read(0), rig.read(1)), (expected, other.to_vec()));
    assert_sound(&rig);
}

/// Batches of a partition are cut off while the flush is under way that makes them durable, and in the frame behind it.
pub(super) fn cut_before_the_flush() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    rig.append(1, 10);
    rig.append(0, 10);
    let flush = rig.store.next_flush().expect("something is staged");
    rig.append(0, 10);
    rig.append(1, 10);
    rig.append(0, 10);
    rig.store.cut(partition(0), Offset(1)).expect("there is room");
    rig.append(1, 10);
    rig.append(0, 10);
    let result = flush.run();
    let mut reported = rig.store.flushed(flush, result).expect("the disk works");
    reported.extend(flush_only(&mut rig));
    let of = |number| {
        let own = reported.iter().filter(|(id, _)| *id == partition(number));
        own.map(|(_, next)| next.0).collect::<Vec<_>>()
    };
    assert!(of(0).is_sorted() && of(1).is_sorted(), "{reported:?}");
    assert_eq!(
        of(0).last(),
        Some(&2),
        "its end is the last that is reported: {reported:?}"
    );
    assert_eq!(of(1).last(), Some(&3), "{reported:?}");
}

#[test]
fn no_flush_reports_what_was_cut_off() {
    cut_before_the_flush();
}

/// A batch in the middle of a file is cut off that is else worth adopting.
pub(super) fn adopt_what_was_cut() {
    let mut rig = roomy();
    let first = rig.try_append(LARGE, 2, VALUE_BYTES / 2 - 20);
    let mut expected = first.expect("there is room").to_vec();
    flush_only(&mut rig);
    rig.append(LARGE, 10);
    flush_only(&mut rig);
    rig.store.cut(partition(LARGE), Offset(2)).expect("there is room");
    for value_bytes in [VALUE_BYTES - 100, VALUE_BYTES, 10] {
        expected.extend_from_slice(&rig.append(LARGE, value_bytes));
        flush_only(&mut rig);
    }
    commit(&mut rig, LARGE);
    rig.lay_out();
    assert_eq!(
        rig.store.partitions[&partition(LARGE)].laid_out,
        5,
        "the file is complete"
    );
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(LARGE), expected);
    assert!(adopted(&rig).is_empty());
    assert_sound(&rig);
}

#[test]
fn a_file_with_a_cut_is_copied() {
    adopt_what_was_cut();
}

/// The journal holds a promise for a partition in which nothing was ever written, and lets go of the frame.
pub(super) fn promise_on_an_empty_partition() {
    let mut rig = Rig::new();
    let id = partition(5);
    rig.store.open_partition(id, rolling(id));
    rig.store.promise(id, Epoch(4), 2).expect("there is room");
    rig.append(0, 10);
    rig.flush();
    let found = |recovered: &Recovered| {
        let found = recovered.partitions.iter().find(|found| found.id == id);
        let found = found.expect("a promise was made for it");
        assert_eq!((found.log_start, found.next), (Offset(0), Offset(0)));
        (found.promised, found.state.clone())
    };
    let (mut rig, recovered) = rig.restart();
    assert_eq!(found(&recovered), (Some(Epoch(4)), Bytes::new()));
    for _ in 0..2 {
        rig.append(0, 10);
        rig.flush();
        lay_out_committed(&mut rig, b"promised 4");
    }
    let (mut rig, recovered) = rig.restart();
    assert_eq!(found(&recovered), (None, Bytes::from_static(b"promised 4")));
    lay_out_after(&mut rig);
    let (_, recovered) = rig.restart();
    assert_eq!(
        found(&recovered).1,
        Bytes::from_static(b"promised 4"),
        "nor by the next process"
    );
}

fn lay_out_after(rig: &mut Rig) {
    rig.append(0, 10);
    rig.flush();
    lay_out_committed(rig, b"promised 4");
}

#[test]
fn a_promise_for_an_empty_partition_survives_checkpoints() {
    promise_on_an_empty_partition();
}

/// A suffix is cut off, another one comes in its place, and the process ends.
pub(super) fn replay_a_cut() {
    let mut rig = Rig::new();
    let mut expected = rig.append(0, 10).to_vec();
    rig.append(0, 20);
    flush_only(&mut rig);
    rig.append(0, 30);
    let id = partition(0);
    rig.store
        .accept(id, Epoch(6), Offset(1), Some(Epoch(5)))
        .expect("there is room");
    expected.extend_from_slice(&rig.append(0, 40));
    flush_only(&mut rig);
    let (mut rig, recovered) = rig.restart();
    let [found] = &recovered.partitions[..] else {
        panic!("{:?}", recovered.partitions)
    };
    assert_eq!(
        (found.next, found.accepted, found.promised),
        (Offset(2), Some(Epoch(6)), None)
    );
    let offsets: Vec<_> = found
        .replay
        .iter()
        .map(|batch| batch.header.base_offset.0)
        .collect();
    assert_eq!(offsets, [0, 1], "each batch once");
    assert_eq!(rig.read(0), expected);
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let stored = stored_batches(&disk, &config().identity, id).expect("nothing is damaged");
    assert_eq!(stored.concat(), expected);
    assert_sound(&rig);
}

#[test]
fn the_epoch_of_a_batch_that_was_cut_off_is_told() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    let (_, kept) = rig.bounds(0);
    rig.append(0, 10);
    flush_only(&mut rig);
    rig.store.cut(partition(0), Offset(kept)).expect("there is room");
    flush_only(&mut rig);
    let (_, recovered) = rig.restart();
    let found = recovered.partitions.first().expect("it is there");
    assert_eq!((found.next, found.written), (Offset(kept), Some(Epoch(5))));
}

/// A partition has no quorum for long, while another one fills the journal several times over. Returns how often files were used anew.
fn outlast(config: StoreConfig, held: &[usize]) -> usize {
    let mut rig = Rig::on(SimulatedDisk::new(), config);
    let mut expected = Vec::new();
    for value_bytes in held {
        expected.extend_from_slice(&append_copy_at_end(&mut rig, 0, *value_bytes));
    }
    flush_only(&mut rig);
    let mut other = Vec::new();
    for round in 0..40 {
        other.extend_from_slice(&rig.append(1, 3_000));
        if round == 20 {
            expected.extend_from_slice(&append_copy_at_end(&mut rig, 0, 100));
        }
        flush_only(&mut rig);
        commit(&mut rig, 1);
        if rig.store.layout_is_due() && rig.store.begin_layout() {
            rig.step();
            if rig.store.checkpoint_is_due() {
                checkpoint_committed(&mut rig, b"");
            }
        }
        rig.prepare();
        if round % 7 == 0 {
            (rig, _) = restart_uncommitted(rig);
            commit(&mut rig, 1);
            assert_eq!(rig.read(0), expected, "in round {round}");
        }
    }
    assert_eq!((rig.read(0), rig.read(1)), (expected.clone(), other));
    assert_eq!(
        rig.store.partitions[&partition(0)].laid_out,
        0,
        "nothing of it is committed"
    );
    assert_sound(&rig);
    commit(&mut rig, 0);
    rig.lay_out();
    assert_eq!(rig.read(0), expected);
    let headers = rig.disk.operations().into_iter().filter(|operation| {
        operation.kind == OperationKind::WriteDurable
            && operation.position == 0
            && operation.path.extension().is_some_and(|end| end == "journal")
    });
    headers.count()
}

/// Where there is said to be room, there is, in whatever frames the entries come.
#[test]
fn what_there_is_room_for_can_be_staged() {
    let mut random = SeededRandom::new(7);
    for _ in 0..200 {
        let mut rig = Rig::new();
        rig.store.open_partition(partition(0), rolling(partition(0)));
        loop {
            let lengths: Vec<usize> = (0..1 + random.below(8))
                .map(|_| 100 + random.below(6_000) as usize)
                .collect();
            let batches: Vec<Bytes> = lengths.iter().map(|length| batch(1, *length, 0, 1)).collect();
            if !rig.store.has_room(batches.iter().map(Bytes::len), Reserve::Keep) {
                break;
            }
            for bytes in &batches {
                stage(&mut rig.store, partition(0), bytes).expect("there was said to be room");
            }
            if random.chance(1, 2) {
                flush_only(&mut rig);
            }
        }
    }
}

fn append_copy_at_end(rig: &mut Rig, number: u8, value_bytes: usize) -> Bytes {
    let next = rig.store.bounds(partition(number)).map_or(0, |(_, next)| next.0);
    // Some of them end a transaction.
    append_copy(
        rig,
        number,
        next,
        value_bytes,
        (next % 2 == 1).then_some(next / 2),
    )
}

/// Another process, that knows of nothing that it is committed.
fn restart_uncommitted(rig: Rig) -> (Rig, Recovered) {
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let (mut store, recovered) =
        Store::open(disk, Random::SYSTEM, rig.store.config).expect("nothing is damaged");
    for found in &recovered.partitions {
        store.open_partition(found.id, rolling(found.id));
    }
    (Rig { store, ..rig }, recovered)
}

#[test]
fn a_partition_without_a_quorum_never_fills_the_journal() {
    let config = StoreConfig {
        journal: crate::JournalSizes {
            files_max: 5,
            ..config().journal
        },
        ..config()
    };
    assert!(outlast(config, &[100, 200, 300]) > 3, "the journal goes round");
    // Also if nothing of it is in memory any more.
    let forgetful = StoreConfig {
        tail_cache_bytes: 0,
        ..config
    };
    assert!(outlast(forgetful, &[5_000, 100]) > 3);
}

#[test]
fn what_does_not_fit_a_frame_holds_the_journal_until_it_is_committed() {
    let mut rig = Rig::new();
    let mut expected = Vec::new();
    for _ in 0..4 {
        expected.extend_from_slice(&append_copy_at_end(&mut rig, 0, 7_900));
        flush_only(&mut rig);
        rig.prepare();
    }
    append_copy_at_end(&mut rig, 1, 10);
    while rig.try_append(1, 1, 3_000).is_ok() {
        flush_only(&mut rig);
    }
    commit(&mut rig, 1);
    assert!(!rig.store.begin_overdue_layout(), "it would not fit");
    assert_eq!(rig.read(0), expected);
    commit(&mut rig, 0);
    rig.lay_out();
    assert_eq!(rig.read(0), expected);
    rig.append(1, 3_000);
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    replay_a_cut();
}

#[test]
fn a_log_can_be_cut_off_to_nothing() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    flush_only(&mut rig);
    rig.store.cut(partition(0), Offset(0)).expect("there is room");
    rig.append(1, 10);
    flush_only(&mut rig);
    commit(&mut rig, 1);
    let (mut rig, recovered) = rig.restart();
    let ids: Vec<_> = recovered.partitions.iter().map(|found| found.id).collect();
    assert_eq!(ids, [partition(1)]);
    lay_out_committed(&mut rig, b"");
    let expected = rig.append(0, 10);
    flush_only(&mut rig);
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), expected);
}

#[test]
#[should_panic(expected = "what is committed is never cut off")]
fn a_cut_below_the_committed_tail_is_a_mistake() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    rig.append(0, 10);
    rig.flush();
    let _ = rig.store.cut(partition(0), Offset(1));
}

#[test]
#[should_panic(expected = "whole batches are cut off")]
fn a_cut_within_a_batch_is_a_mistake() {
    let mut rig = Rig::new();
    rig.try_append(0, 3, 10).expect("there is room");
    let _ = rig.store.cut(partition(0), Offset(1));
}

#[test]
fn a_log_may_begin_anywhere() {
    let mut rig = Rig::new();
    let id = partition(0);
    rig.store.open_partition(id, rolling(id));
    rig.store.begin_at(id, Offset(1_000)).expect("there is room");
    rig.flush();
    let (mut rig, recovered) = rig.restart();
    let [found] = &recovered.partitions[..] else {
        panic!("{:?}", recovered.partitions)
    };
    assert_eq!((found.log_start, found.next), (Offset(1_000), Offset(1_000)));
    let mut expected = rig.append(0, 700).to_vec();
    rig.flush();
    rig.lay_out();
    expected.extend_from_slice(&rig.append(0, 700));
    rig.flush();
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.bounds(0), (1_000, 1_002));
    assert_eq!(rig.read(0), expected);
    assert_sound(&rig);
}

#[test]
fn a_log_may_have_gaps_in_the_journal_in_segments_and_in_adopted_files() {
    let mut rig = roomy();
    let mut expected = Vec::new();
    let mut first = 0;
    for batch in 0..9 {
        first += if batch % 2 == 1 { 10 } else { 1 };
        expected.push((first, append_copy(&mut rig, LARGE, first, VALUE_BYTES, None)));
        rig.flush();
        rig.prepare();
    }
    append_copy(&mut rig, 0, 5, 100, None);
    rig.flush();
    for laid_out in [false, true] {
        if laid_out {
            rig.lay_out();
            assert!(!adopted(&rig).is_empty(), "a file was adopted");
            let logs = rig.store.partitions.values();
            assert!(logs.flat_map(|log| &log.segments).all(|segment| segment.sparse));
        }
        (rig, _) = rig.restart();
        let mut from = 0;
        for (first, bytes) in &expected {
            for offset in from..=*first {
                let found =
                    read(&mut rig.store, partition(LARGE), offset, first + 1, 1).expect("it is there");
                assert_eq!(found, bytes.to_vec(), "at offset {offset}");
            }
            from = first + 1;
        }
        assert_sound(&rig);
    }
}

#[test]
fn aborted_transactions_are_in_the_index_of_segments_and_of_adopted_files() {
    let mut rig = roomy();
    let range = |marker: i64| AbortedRange {
        producer_id: 4,
        first: marker / 2,
        marker,
    };
    let mut markers: BTreeMap<u8, Vec<AbortedRange>> = BTreeMap::new();
    for offset in 0..9 {
        for (number, value_bytes) in [(LARGE, VALUE_BYTES - 200), (0, 40)] {
            let aborts = (offset % 2 == i64::from(number) % 2).then_some(offset / 2);
            append_copy(&mut rig, number, offset, value_bytes, aborts);
            markers
                .entry(number)
                .or_default()
                .extend(aborts.map(|_| range(offset)));
        }
        rig.flush();
        rig.prepare();
        if offset == 4 {
            (rig, _) = rig.restart();
        }
    }
    rig.lay_out();
    rig.store.begin_overdue_layout();
    rig.step();
    rig.checkpoint();
    assert!(!adopted(&rig).is_empty(), "a file was adopted");
    let (rig, _) = rig.restart();
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    for (number, expected) in markers {
        let log = &rig.store.partitions[&partition(number)];
        let listed = log.segments.iter().flat_map(|segment| {
            let file = open_segment(&disk, &config().identity, &log.id, segment).expect("it is there");
            read_index(&file, segment).expect("nothing is damaged").aborted
        });
        assert_eq!(listed.collect::<Vec<_>>(), expected);
    }
    assert_sound(&rig);
}

#[test]
fn each_kind_of_entry_is_listed() {
    let mut rig = Rig::new();
    let id = partition(0);
    rig.store.open_partition(id, rolling(id));
    let witness = Witness {
        node: 3,
        directory: DirectoryId([6; 16]),
        journal: 1,
        frame: 77,
    };
    rig.store.begin_at(id, Offset(50)).expect("there is room");
    rig.store.promise(id, Epoch(4), 2).expect("there is room");
    stage(&mut rig.store, id, &batch(1, 10, 1, 1)).expect("there is room");
    append_copy(&mut rig, 0, 51, 10, Some(50));
    rig.store
        .accept(id, Epoch(6), Offset(51), Some(Epoch(5)))
        .expect("there is room");
    rig.store.cut(id, Offset(50)).expect("there is room");
    rig.store.witness(&witness).expect("there is room");
    rig.flush();
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let (frames, faults) = list_frames(&disk, &config().identity);
    assert!(faults.is_empty(), "{faults:?}");
    let entries: Vec<_> = frames.iter().flat_map(|frame| frame.entries.clone()).collect();
    let [base, promise, batch, abort, accept, cut, last] = entries[..] else {
        panic!("{entries:?}")
    };
    let (partition, first) = (id, Offset(50));
    assert_eq!(base, EntryListing::Base { partition, first });
    let (epoch, candidate) = (Epoch(4), 2);
    assert_eq!(
        promise,
        EntryListing::Promise {
            partition,
            epoch,
            candidate
        }
    );
    assert!(
        matches!(batch, EntryListing::Batch { aborts: None, .. }),
        "{batch:?}"
    );
    assert!(
        matches!(
            abort,
            EntryListing::Batch {
                aborts: Some(Offset(50)),
                ..
            }
        ),
        "{abort:?}"
    );
    let accepted = EntryListing::Accept {
        partition,
        first: Offset(51),
        epoch: Some(Epoch(6)),
        epoch_before: Some(Epoch(5)),
    };
    let only_cut = EntryListing::Accept {
        partition,
        first,
        epoch: None,
        epoch_before: None,
    };
    assert_eq!((accept, cut), (accepted, only_cut));
    assert_eq!((last, last.partition()), (EntryListing::Witness(witness), None));
    let (_, recovered) = rig.restart();
    assert_eq!(recovered.witnesses, [witness]);
}
