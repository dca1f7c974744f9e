//! Compaction of a store, step by step: what stays, what readers see meanwhile, what is never touched.

use std::sync::Arc;

use bytes::Bytes;
use platform::disk::Disk;
use record::{BatchBuilder, Compression, Limits, Offset, Record, batches, records};

use super::rig::{Rig, partition, read, read_log, stage};
use super::workload::{EAGER, order};
use crate::check::check;
use crate::compaction::{CompactionPolicy, KEY_BYTES};
use crate::store::{Compacted, CompactionOrder, Located};

/// Appends a batch of records with these keys; no value is a tombstone.
pub(super) fn append(rig: &mut Rig, records: &[(&str, Option<&str>)]) {
    rig.now_ms += 1;
    let mut builder = BatchBuilder::new(Compression::None);
    for (key, value) in records {
        // So large that few fill a segment.
        let value = value.map(|value| format!("{value:>1200}"));
        builder.append(
            rig.now_ms,
            Some(key.as_bytes()),
            value.as_deref().map(str::as_bytes),
            &[],
        );
    }
    stage(&mut rig.store, partition(0), &builder.build()).expect("there is room");
    rig.flush();
    rig.prepare();
}

/// Lays everything out; segments that are full are sealed by that.
pub(super) fn lay_out(rig: &mut Rig) {
    rig.lay_out();
    rig.remove();
}

/// With room in one file for much that waits for its round.
pub(super) fn roomy() -> Rig {
    let mut config = super::rig::config();
    config.journal.file_bytes = 1 << 20;
    Rig::on(platform::disk::SimulatedDisk::new(), config)
}

/// Seals the last segment with a large batch of other keys.
pub(super) fn seal(rig: &mut Rig, key: &str) {
    for number in 0..7 {
        append(rig, &[(&format!("{key}{number}"), Some("filler"))]);
    }
    lay_out(rig);
}

pub(super) fn all(rig: &Rig) -> CompactionOrder {
    CompactionOrder {
        key_map_bytes: 1 << 20,
        ..order(i64::MAX, rig.now_ms)
    }
}

/// Begins a pass, if there is anything to do, and runs it to its end.
pub(super) fn compact(rig: &mut Rig, order: &CompactionOrder) -> Vec<Compacted> {
    match rig.store.begin_compaction(partition(0), order, &[]) {
        true => run_pass(rig),
        false => Vec::new(),
    }
}

/// The steps that are left of a pass, with a checkpoint whenever the store wants one.
pub(super) fn run_pass(rig: &mut Rig) -> Vec<Compacted> {
    let mut steps = Vec::new();
    while rig.store.is_compacting() {
        match rig.store.next_compaction() {
            Some(mut job) => {
                let result = job.run();
                let step = rig.store.compacted(job, result, rig.now_ms);
                steps.push(step.expect("nothing fails"));
            }
            None => {
                assert!(
                    rig.store.layout_is_due(),
                    "what was put in place is to be recorded"
                );
                rig.lay_out();
            }
        }
    }
    steps
}

/// The same of everything that may be touched, with room for all keys.
pub(super) fn compact_all(rig: &mut Rig) -> Vec<Compacted> {
    let order = all(rig);
    compact(rig, &order)
}

pub(super) fn log(rig: &mut Rig) -> Vec<Record> {
    let bytes = read_log(&mut rig.store, partition(0), 4_000, true).expect("all of it can be read");
    let batches = batches(&bytes).map(|batch| batch.expect("whole").1.to_vec());
    let read = batches.flat_map(|batch| records(&batch, &Limits::default()).expect("sound"));
    read.map(|record| record.expect("sound")).collect()
}

/// Offsets, keys and whether there is a value, of records that are no filler.
pub(super) fn summary(rig: &mut Rig) -> Vec<(i64, String, bool)> {
    let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    log(rig)
        .into_iter()
        .map(|record| {
            (
                record.offset.0,
                text(&record.key.expect("keyed")),
                record.value.is_some(),
            )
        })
        .filter(|(_, key, _)| key.len() == 1)
        .collect()
}

pub(super) fn assert_sound(rig: &Rig) {
    let disk: Arc<dyn Disk> = Arc::new(super::rig::copy(&rig.disk));
    let report = check(&disk, &rig.store.config.identity, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
}

pub(super) fn generations(rig: &Rig) -> Vec<(i64, i64, u32)> {
    let segments = &rig.store.partitions[&partition(0)].segments;
    let of = |segment: &crate::segment::Segment| (segment.first, segment.next, segment.generation);
    segments.iter().map(of).collect()
}

#[test]
fn the_latest_record_of_each_key_stays_where_it_was() {
    let mut rig = roomy();
    for round in 0..3 {
        for key in ["a", "b", "c"] {
            append(&mut rig, &[(key, Some(&format!("{key} {round}")))]);
        }
        append(&mut rig, &[("a", Some("again")), ("d", Some("once"))]);
        lay_out(&mut rig);
    }
    seal(&mut rig, "filler");
    let before = log(&mut rig);
    let (bounds, bytes) = (rig.bounds(0), rig.store.partition_bytes(partition(0)));
    let files = rig.segments(0);
    let steps = compact_all(&mut rig);
    assert!(matches!(steps.last(), Some(Compacted::Done)));

    let latest = [(11, "b"), (12, "c"), (13, "a"), (14, "d")];
    let latest = latest.map(|(offset, key)| (offset, key.to_string(), true));
    assert_eq!(summary(&mut rig), latest);
    let after = log(&mut rig);
    assert!(
        after.iter().all(|record| before.contains(record)),
        "every byte as it was"
    );
    assert_eq!(rig.bounds(0), bounds, "neither start nor end moves");
    assert_sound(&rig);

    lay_out(&mut rig);
    let left = rig.segments(0);
    assert_eq!(left.len(), generations(&rig).len(), "what was superseded is gone");
    assert!(left.iter().any(|path| !files.contains(path)));
    assert!(rig.store.partition_bytes(partition(0)) < bytes);
    let (mut rig, _) = rig.restart();
    assert_eq!(log(&mut rig), after);
    assert_sound(&rig);
    assert!(
        rig.store
            .compaction_need(partition(0), &EAGER, Offset(i64::MAX), rig.now_ms)
            .is_none()
    );
}

#[test]
fn reads_from_every_offset_find_what_is_there() {
    let mut rig = roomy();
    for number in 0..30 {
        append(&mut rig, &[(["a", "b"][number % 2], Some("value")), ("c", None)]);
    }
    seal(&mut rig, "filler");
    compact_all(&mut rig);
    let next = rig.bounds(0).1;
    let log = log(&mut rig);
    for from in 0..next {
        let bytes = read(&mut rig.store, partition(0), from, next, 1).expect("it is in range");
        let (header, _) = batches(&bytes).next().expect("a batch").expect("whole");
        assert!(header.next_offset().0 > from, "a read always gets on");
        let wanted = log
            .iter()
            .find(|record| record.offset.0 >= from)
            .expect("the end has records");
        assert!(header.base_offset <= wanted.offset, "and leaves nothing out");
    }
    // A time: the first record that is not older, not one that was there once.
    let time_ms = log[0].timestamp_ms;
    let mut located = rig.store.locate_timestamp(partition(0), time_ms);
    if let Ok(Located::Job(job)) = located {
        located = rig.store.finish_locate(job.run(), time_ms);
    }
    let Ok(Located::From(located)) = located else {
        panic!("a record has this time")
    };
    assert!(located <= log[0].offset);
}

#[test]
fn a_trim_into_a_gap_leaves_what_is_behind() {
    let mut rig = roomy();
    for _ in 0..12 {
        append(&mut rig, &[("a", Some("value"))]);
    }
    seal(&mut rig, "filler");
    compact_all(&mut rig);
    lay_out(&mut rig);
    rig.trim(0, 5);
    rig.flush();
    assert_eq!(rig.bounds(0).0, 5);
    assert_eq!(summary(&mut rig), [(11, "a".to_string(), true)]);
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.bounds(0).0, 5);
    assert_eq!(summary(&mut rig), [(11, "a".to_string(), true)]);
    assert_sound(&rig);
}

#[test]
fn when_all_records_are_gone_the_end_is_still_there() {
    let mut rig = roomy();
    for number in 0..8 {
        append(&mut rig, &[("a", (number < 7).then_some("value"))]);
    }
    lay_out(&mut rig);
    rig.store
        .partitions
        .get_mut(&partition(0))
        .expect("known")
        .segments[0]
        .sealed = true;
    let bounds = rig.bounds(0);
    compact_all(&mut rig);
    rig.now_ms += EAGER.delete_retention_ms;
    compact_all(&mut rig);
    lay_out(&mut rig);
    assert_eq!(rig.bounds(0), bounds);
    assert!(
        log(&mut rig).is_empty(),
        "the empty batches say only where the log ends"
    );
    assert_sound(&rig);
    append(&mut rig, &[("b", Some("goes on"))]);
    lay_out(&mut rig);
    let (mut rig, _) = rig.restart();
    assert_eq!(summary(&mut rig), [(8, "b".to_string(), true)]);
}

#[test]
fn more_keys_than_the_map_holds_take_several_passes() {
    let mut rig = roomy();
    for round in 0..2 {
        for key in 0..30 {
            let key = char::from(b'A' + key).to_string();
            append(&mut rig, &[(&key, Some(&round.to_string()))]);
        }
    }
    seal(&mut rig, "filler");
    let few = CompactionOrder {
        key_map_bytes: 12 * KEY_BYTES,
        ..all(&rig)
    };
    let mut passes = 0;
    while rig
        .store
        .compaction_need(partition(0), &EAGER, Offset(i64::MAX), rig.now_ms)
        .is_some()
    {
        compact(&mut rig, &few);
        lay_out(&mut rig);
        passes += 1;
        assert!(passes < 20, "each pass gets on");
    }
    assert!(passes >= 6, "{passes} passes of nine keys each for 67 records");
    let left = summary(&mut rig);
    assert_eq!(left.len(), 30);
    assert!(left.iter().all(|(offset, ..)| (30..60).contains(offset)));
}

#[test]
fn what_is_open_or_uncommitted_or_young_or_in_the_journal_alone_is_left_alone() {
    let mut rig = roomy();
    for _ in 0..7 {
        append(&mut rig, &[("a", Some("value"))]);
    }
    assert!(
        !rig.store.begin_compaction(partition(0), &all(&rig), &[]),
        "in the journal alone"
    );
    rig.lay_out_only();
    assert!(
        !rig.store.begin_compaction(partition(0), &all(&rig), &[]),
        "no checkpoint knows of it yet"
    );
    rig.checkpoint();
    rig.prepare();
    append(&mut rig, &[("a", Some("open"))]);
    lay_out(&mut rig);
    append(&mut rig, &[("a", Some("in the journal"))]);
    let generations_before = generations(&rig);
    let [(0, sealed_end, 0), .., (_, 8, 0)] = generations_before[..] else {
        panic!("one is complete, one is open: {generations_before:?}");
    };
    let uncommitted = order(sealed_end - 1, rig.now_ms);
    assert!(!rig.store.begin_compaction(partition(0), &uncommitted, &[]));
    let young = CompactionOrder {
        policy: CompactionPolicy {
            min_lag_ms: 100,
            ..EAGER
        },
        ..all(&rig)
    };
    assert!(!rig.store.begin_compaction(partition(0), &young, &[]));
    rig.now_ms += 100;
    let old_enough = CompactionOrder {
        now_ms: rig.now_ms,
        ..young
    };
    compact(&mut rig, &old_enough);
    assert_eq!(generations(&rig)[0], (0, sealed_end, 1));
    // The latest record of what was seen stays, though later ones have its key.
    let offsets: Vec<_> = summary(&mut rig).iter().map(|(offset, ..)| *offset).collect();
    assert_eq!(offsets, (sealed_end - 1..9).collect::<Vec<_>>());
}

#[test]
fn a_pass_is_worth_while_when_enough_is_dirty_or_waits_too_long() {
    let mut rig = roomy();
    seal(&mut rig, "first");
    seal(&mut rig, "second");
    let need = |rig: &Rig, policy: CompactionPolicy| {
        rig.store
            .compaction_need(partition(0), &policy, Offset(i64::MAX), rig.now_ms)
    };
    let ratio = |dirty_ratio_min| CompactionPolicy {
        dirty_ratio_min,
        ..EAGER
    };
    let fresh = need(&rig, ratio(0.9)).expect("all of it is dirty");
    assert_eq!(fresh.dirty_ratio, 1.0);
    compact_all(&mut rig);
    lay_out(&mut rig);
    seal(&mut rig, "third");
    let half = need(&rig, ratio(0.1)).expect("a third is dirty");
    assert!(
        (0.2..0.5).contains(&half.dirty_ratio) && !half.is_overdue,
        "{half:?}"
    );
    assert!(need(&rig, ratio(0.5)).is_none());
    let hurried = CompactionPolicy {
        max_lag_ms: 50,
        ..ratio(0.5)
    };
    assert!(need(&rig, hurried).is_none());
    rig.now_ms += 60;
    assert!(need(&rig, hurried).is_some_and(|need| need.is_overdue));
}
