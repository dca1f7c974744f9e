//! Entries that no store writes, in frames whose checksums hold: out of order, of a log that has no such place, of no partition.
//! They are damage where they contradict what is stored, and take nothing back where they come late.

use std::sync::Arc;

use platform::disk::Disk;
use record::{Epoch, Offset, PartitionId};

use super::rig::{Rig, batch, config, open, partition, stage};
use crate::check::check;
use crate::fault::Fault;
use crate::journal::frame::{EntryHeader, EntryKind, NONE};
use crate::store::Recovered;

const ID: PartitionId = PartitionId {
    topic: record::TopicId([0; 16]),
    index: 0,
};

fn entry(kind: EntryKind, epoch: i32, first: i64) -> EntryHeader {
    EntryHeader::bare(kind, ID, Epoch(epoch), Offset(first))
}

/// Cuts off what lies at `first` and above.
fn cut(first: i64) -> EntryHeader {
    EntryHeader {
        next: Offset(NONE),
        ..entry(EntryKind::Accept, -1, first)
    }
}

fn accept(epoch: i32, first: i64) -> EntryHeader {
    EntryHeader {
        next: Offset(NONE),
        ..entry(EntryKind::Accept, epoch, first)
    }
}

/// A log of two batches of three records, laid out up to `laid_out`, and these entries behind it.
fn stored(laid_out: i64, entries: &[EntryHeader]) -> Rig {
    let mut rig = Rig::new();
    assert_eq!(ID, partition(0));
    rig.store.open_partition(ID, super::rig::rolling(ID));
    for first in [0, 3] {
        stage(&mut rig.store, ID, &batch(3, 40, 1_000, first)).expect("there is room");
        rig.flush();
        if laid_out == first as i64 + 3 {
            rig.lay_out();
        }
    }
    for entry in entries {
        let staged = rig.store.journal.stage(entry, &[], crate::Reserve::Keep);
        staged.expect("there is room");
    }
    // Nothing is committed by them: the store itself knows nothing of them.
    while let Some(flush) = rig.store.next_flush() {
        let result = flush.run();
        rig.store.flushed(flush, result).expect("the disk works");
    }
    rig
}

fn recovered(laid_out: i64, entries: &[EntryHeader]) -> Recovered {
    let rig = stored(laid_out, entries);
    let opened = open(&rig.disk).map(|(_, recovered)| recovered);
    opened.unwrap_or_else(|fault| panic!("{entries:?}: {fault}"))
}

fn assert_refused(laid_out: i64, entries: &[EntryHeader], what: &str) {
    let rig = stored(laid_out, entries);
    let before = rig.disk.operation_count();
    let refused = open(&rig.disk).map(|_| ()).expect_err("no store has written it");
    assert!(matches!(refused, Fault::Damaged { .. }), "{entries:?}: {refused}");
    assert!(refused.to_string().contains(what), "{entries:?}: {refused}");
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let report = check(&disk, &config().identity, &mut |_| {}).expect("the checkpoint is sound");
    assert!(!report.is_sound(), "{entries:?}");
    assert_eq!(rig.disk.operation_count(), before, "nothing was written");
}

#[test]
fn what_a_log_has_no_place_for_is_refused() {
    for laid_out in [0, 3] {
        assert_refused(laid_out, &[cut(7)], "goes on at offset 7 where 6 is expected");
        assert_refused(
            laid_out,
            &[accept(9, 7)],
            "goes on at offset 7 where 6 is expected",
        );
        assert_refused(laid_out, &[cut(4)], "is cut off at offset 4");
        assert_refused(laid_out, &[accept(9, 5)], "is cut off at offset 5");
        assert_refused(
            laid_out,
            &[entry(EntryKind::Trim, 0, 7)],
            "is trimmed to offset 7",
        );
        let twice = [cut(3), cut(6)];
        assert_refused(laid_out, &twice, "goes on at offset 6 where 3 is expected");
    }
}

#[test]
fn what_reaches_into_segments_is_refused() {
    assert_refused(3, &[cut(0)], "is cut off at offset 0");
    assert_refused(3, &[accept(9, 2)], "is cut off at offset 2");
    assert_refused(
        3,
        &[entry(EntryKind::Base, 0, 2)],
        "begins at offset 2, and offset 3 is laid out",
    );
    for reaching in [cut(3), accept(9, 5), entry(EntryKind::Base, 0, 5)] {
        let what = format!("goes on at offset {} where 6 is expected", reaching.first);
        assert_refused(6, &[reaching], &what);
    }
}

#[test]
fn entries_of_fields_that_their_kind_has_not_are_refused() {
    let of_no_partition = |kind, epoch, first| {
        let mut entry = entry(kind, epoch, first);
        entry.partition.index = -1;
        entry
    };
    let impossible = [
        entry(EntryKind::Promise, -1, 2),
        entry(EntryKind::Promise, 4, 1 << 31),
        entry(EntryKind::Witness, -4, 2),
        entry(EntryKind::Base, 0, 0),
        entry(EntryKind::Delete, 0, 1),
        accept(-2, 6),
        of_no_partition(EntryKind::Promise, 4, 2),
        of_no_partition(EntryKind::Base, 0, 60),
        of_no_partition(EntryKind::Delete, 0, 0),
    ];
    for entry in impossible {
        assert_refused(0, &[entry], "has fields that such an entry has not");
    }
}

#[test]
fn what_comes_late_takes_nothing_back() {
    let promise = |epoch| entry(EntryKind::Promise, epoch, 2);
    let witness = |frame| entry(EntryKind::Witness, 3, frame);
    let entries = [
        promise(7),
        promise(5),
        accept(6, 6),
        accept(4, 6),
        witness(9),
        witness(8),
    ];
    for laid_out in [0, 6] {
        let recovered = recovered(laid_out, &entries);
        let [found] = &recovered.partitions[..] else {
            panic!("there is one partition: {recovered:?}")
        };
        assert_eq!((found.promised, found.accepted), (Some(Epoch(7)), Some(Epoch(6))));
        assert_eq!(found.next, Offset(6));
        assert_eq!(recovered.witnesses, [witness(9).witness()]);
    }
}
