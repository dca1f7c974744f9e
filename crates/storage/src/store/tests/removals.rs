//! Trims, deletions, retention, and the removal of files that nothing refers to.

use platform::disk::OperationKind;
use record::Offset;

use super::rig::{Rig, partition, read};
use crate::store::ReadError;
use crate::store::removal::{AgeLimit, UNNAMED_MAX};

/// A segment is trimmed away while a run is written to it. The run's records must not go with the file.
pub(super) fn trim_while_a_run_is_written() -> Result<(), String> {
    let mut rig = Rig::new();
    rig.append(0, 300);
    rig.flush();
    rig.lay_out();
    let kept = rig.append(0, 300);
    rig.flush();
    rig.store.begin_layout();
    let job = rig
        .store
        .next_layout(rig.now_ms)
        .ok_or("there is something to lay out")?;
    rig.trim(0, 1);
    rig.flush();
    let result = job.run();
    rig.store
        .laid_out(job, result)
        .map_err(|fault| fault.to_string())?;
    rig.step();
    rig.checkpoint();
    rig.remove();
    let (mut rig, _) = rig.restart();
    match read(&mut rig.store, partition(0), 1, 2, 4_000) {
        Ok(bytes) if bytes == kept => Ok(()),
        Ok(_) => Err("other bytes are served".into()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_trim_spares_the_run_that_is_being_written() {
    trim_while_a_run_is_written().unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_trim_gives_up_the_open_segment_while_another_partition_is_laid_out() {
    let mut rig = Rig::new();
    rig.append(0, 300);
    rig.flush();
    rig.lay_out();
    rig.append(1, 300);
    rig.flush();
    rig.store.begin_layout();
    let job = rig
        .store
        .next_layout(rig.now_ms)
        .expect("there is something to lay out");
    rig.trim(0, 1);
    rig.flush();
    let result = job.run();
    rig.store.laid_out(job, result).expect("the disk works");
    rig.step();
    rig.checkpoint();
    rig.remove();
    assert_eq!(rig.segments(0).len(), 0);
}

/// Eight batches of 3,000 bytes, laid out in rounds of two: segments of about 8 KiB.
fn laid_out_rig() -> (Rig, Vec<bytes::Bytes>) {
    let mut rig = Rig::new();
    let mut appended = Vec::new();
    for _ in 0..4 {
        appended.extend([rig.append(0, 3_000), rig.append(0, 3_000)]);
        rig.flush();
        rig.lay_out();
    }
    (rig, appended)
}

#[test]
fn trimmed_segments_go_when_the_trim_is_durable() {
    let (mut rig, appended) = laid_out_rig();
    let before = rig.segments(0).len();
    assert!(before >= 2);
    let frame = rig.trim(0, 5);
    assert_eq!(rig.bounds(0), (5, 8), "readers see it at once");
    assert!(!rig.store.is_durable(frame));
    assert!(rig.store.next_removal().is_none(), "a crash could still undo it");
    rig.flush();
    assert!(rig.store.is_durable(frame));
    assert!(rig.remove() > 0);
    assert!(rig.segments(0).len() < before);
    assert_eq!(rig.read(0), appended[5..].concat());
    let outside = read(&mut rig.store, partition(0), 4, 8, 4_000);
    assert!(matches!(
        outside,
        Err(ReadError::OutOfRange {
            log_start: Offset(5),
            next: Offset(8),
            ..
        })
    ));

    let (mut rig, recovered) = rig.restart();
    assert_eq!(recovered.partitions[0].log_start, Offset(5));
    assert_eq!(rig.read(0), appended[5..].concat());
}

#[test]
fn a_log_trimmed_to_its_end_is_empty_and_goes_on_there() {
    let (mut rig, _) = laid_out_rig();
    rig.trim(0, 8);
    rig.flush();
    rig.lay_out();
    rig.remove();
    assert_eq!(rig.segments(0).len(), 0);
    assert_eq!(rig.read(0), b"");
    let next = rig.append(0, 20);
    rig.flush();
    rig.lay_out();
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.bounds(0), (8, 9));
    assert_eq!(rig.read(0), next);
}

#[test]
fn a_trim_never_moves_back() {
    let (mut rig, _) = laid_out_rig();
    rig.trim(0, 6);
    rig.trim(0, 2);
    assert_eq!(rig.bounds(0), (6, 8));
    rig.flush();
    let (rig, _) = rig.restart();
    assert_eq!(rig.bounds(0), (6, 8));
}

#[test]
fn a_trim_in_the_middle_of_a_batch_keeps_the_batch() {
    let mut rig = Rig::new();
    let batch = rig.try_append(0, 10, 100).expect("there is room");
    rig.trim(0, 7);
    rig.flush();
    for _ in 0..2 {
        assert_eq!(rig.bounds(0), (7, 10));
        assert_eq!(rig.read(0), batch);
        rig.lay_out();
    }
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), batch);
}

#[test]
fn a_deleted_partition_stays_deleted_and_its_files_go() {
    let (mut rig, _) = laid_out_rig();
    let other = rig.append(1, 100);
    rig.store.delete_partition(partition(0)).expect("there is room");
    rig.store
        .delete_partition(partition(7))
        .expect("deleting what is not there is nothing");
    assert!(rig.store.bounds(partition(0)).is_none());
    assert_eq!(rig.remove(), 0, "not before it is durable");
    rig.flush();
    assert_ne!(rig.remove(), 0);
    assert_eq!(rig.segments(0).len(), 0);
    for _ in 0..2 {
        let (again, recovered) = rig.restart();
        assert_eq!(recovered.partitions.len(), 1);
        rig = again;
        assert_eq!(rig.read(1), other);
        rig.lay_out();
    }
}

#[test]
fn removals_that_a_crash_interrupted_are_in_the_checkpoint() {
    let (mut rig, _) = laid_out_rig();
    rig.trim(0, 8);
    rig.flush();
    rig.lay_out();
    assert!(rig.segments(0).len() > 1, "nothing has been removed yet");
    let (mut rig, _) = rig.restart();
    rig.remove();
    assert_eq!(rig.segments(0).len(), 0);
}

#[test]
fn a_partition_deleted_while_it_is_laid_out_leaves_nothing() {
    let (mut rig, _) = laid_out_rig();
    rig.append(0, 100);
    rig.flush();
    rig.store.begin_layout();
    let job = rig
        .store
        .next_layout(rig.now_ms)
        .expect("there is something to lay out");
    rig.store.delete_partition(partition(0)).expect("there is room");
    rig.flush();
    assert!(rig.store.next_removal().is_none(), "the step is writing there");
    let result = job.run();
    rig.store.laid_out(job, result).expect("nothing failed");
    assert!(rig.store.next_layout(rig.now_ms).is_none());
    rig.checkpoint();
    assert_ne!(rig.remove(), 0);
    assert_eq!(rig.segments(0).len(), 0);
    let (_, recovered) = rig.restart();
    assert!(recovered.partitions.is_empty());
}

#[test]
fn a_read_that_a_trim_overtakes_says_so() {
    let (rig, _) = laid_out_rig();
    let (mut rig, _) = rig.restart();
    let read = rig
        .store
        .read(partition(0), Offset(0), Offset(8), 4_000)
        .expect("it is there");
    let crate::store::Read::Job(job) = read else {
        panic!("nothing is in memory after a start")
    };
    rig.trim(0, 8);
    rig.flush();
    rig.remove();
    let outcome = job.run();
    let overtaken = rig.store.finish_read(outcome);
    assert!(
        matches!(overtaken, Err(ReadError::OutOfRange { .. })),
        "no damage"
    );
}

/// Lengths that files without a name were shortened to, in the order of that.
fn shortened(rig: &Rig) -> Vec<u64> {
    let operations = rig.disk.operations().into_iter();
    let steps = operations.filter(|operation| operation.kind == OperationKind::ShrinkUnnamed);
    steps.map(|step| step.length).collect()
}

/// As `laid_out_rig` after a start, with steps of a block: each segment is more than goes at once.
fn large_segments_rig() -> Rig {
    let (rig, _) = laid_out_rig();
    let (mut rig, _) = rig.restart();
    rig.store.config.journal.file_bytes = 16 << 10;
    rig
}

#[test]
fn a_large_file_goes_in_steps_from_its_end_and_whoever_reads_it_is_told_that_it_was_trimmed() {
    let mut rig = large_segments_rig();
    let read = rig.store.read(partition(0), Offset(0), Offset(8), 4_000);
    let Ok(crate::store::Read::Job(job)) = read else {
        panic!("nothing is in memory after a start")
    };
    rig.trim(0, 8);
    rig.flush();
    let mut removals = 0;
    while shortened(&rig).is_empty() {
        let removal = rig.store.next_removal().expect("the segment is large");
        let result = removal.run();
        rig.store.removed(removal, result).expect("the disk works");
        removals += 1;
    }
    assert!(removals > 1, "first its name goes");
    let overtaken = rig.store.finish_read(job.run());
    assert!(
        matches!(overtaken, Err(ReadError::OutOfRange { .. })),
        "no damage"
    );
    rig.remove();
    assert_eq!(rig.segments(0).len(), 0);
    let lengths = shortened(&rig);
    assert!(
        lengths.windows(2).any(|pair| pair[0] == pair[1] + 4_096),
        "{lengths:?}"
    );
}

#[test]
fn large_files_of_a_deleted_partition_go_in_steps_some_at_a_time() {
    let mut rig = Rig::new();
    for _ in 0..60 {
        rig.append(0, 3_000);
        rig.flush();
        rig.lay_out();
    }
    rig.store.config.journal.file_bytes = 16 << 10;
    let files = rig.segments(0).len();
    assert!(files > UNNAMED_MAX, "{files}");
    rig.store.delete_partition(partition(0)).expect("there is room");
    rig.flush();
    let removal = rig.store.next_removal().expect("the deletion is durable");
    let result = removal.run();
    rig.store.removed(removal, result).expect("the disk works");
    assert_eq!(rig.segments(0).len(), files - UNNAMED_MAX);
    rig.remove();
    assert_eq!(rig.segments(0).len(), 0);
    assert!(shortened(&rig).len() >= files - 1, "but for the one that is open");
    assert!(rig.store.next_removal().is_none(), "that was all");
}

#[test]
fn where_space_is_short_a_large_file_goes_at_once() {
    let mut rig = large_segments_rig();
    rig.store.set_short_of_space(true);
    rig.trim(0, 8);
    rig.flush();
    rig.remove();
    assert_eq!(rig.segments(0).len(), 0);
    assert_eq!(shortened(&rig), [] as [u64; 0]);
}

/// By age alone, however lately records were appended.
fn older_than(oldest_ms: i64) -> Option<AgeLimit> {
    let stood_before = Offset(i64::MAX);
    Some(AgeLimit {
        oldest_ms,
        stood_before,
    })
}

#[test]
fn retention_goes_by_age_and_by_size() {
    let (mut rig, _) = laid_out_rig();
    let id = partition(0);
    let sealed: Vec<_> = rig.store.partitions[&id]
        .segments
        .iter()
        .filter(|segment| segment.sealed)
        .copied()
        .collect();
    assert!(sealed.len() >= 2);
    assert_eq!(rig.store.retention_start(id, None, None), None);
    assert_eq!(rig.store.retention_start(id, older_than(0), Some(1 << 30)), None);
    let behind_first = sealed[0].max_timestamp_ms + 1;
    assert_eq!(
        rig.store.retention_start(id, older_than(behind_first), None),
        Some(Offset(sealed[0].next))
    );
    let bytes = rig.store.partition_bytes(id);
    assert_eq!(rig.store.retention_start(id, None, Some(bytes)), None);
    assert_eq!(
        rig.store
            .retention_start(id, None, Some(bytes - sealed[0].end + 1)),
        None,
        "it would be too little"
    );
    let one = rig.store.retention_start(id, None, Some(bytes - sealed[0].end));
    assert_eq!(one, Some(Offset(sealed[0].next)));
    // By age everything may go, what is in the journal only too.
    rig.append(0, 50);
    assert_eq!(
        rig.store.retention_start(id, older_than(i64::MAX), None),
        Some(Offset(9))
    );
    assert_eq!(
        rig.store
            .retention_start(partition(9), older_than(i64::MAX), None),
        None
    );
    // Records that came too lately stay, and so does all of a segment or a batch that they are part of.
    let all_before = |stood_before: i64| {
        let age = AgeLimit {
            oldest_ms: i64::MAX,
            stood_before: Offset(stood_before),
        };
        rig.store.retention_start(id, Some(age), None)
    };
    assert_eq!(all_before(9), Some(Offset(9)));
    assert_eq!(all_before(8), Some(Offset(8)));
    assert_eq!(all_before(sealed[0].next), Some(Offset(sealed[0].next)));
    assert_eq!(all_before(sealed[0].next - 1), None);
    let age = AgeLimit {
        oldest_ms: i64::MAX,
        stood_before: Offset::ZERO,
    };
    let by_size = rig
        .store
        .retention_start(id, Some(age), Some(bytes - sealed[0].end));
    assert_eq!(by_size, Some(Offset(sealed[0].next)), "size asks for no age");
}

#[test]
fn records_without_times_are_as_old_as_what_came_after_them() {
    let (mut rig, _) = laid_out_rig();
    let id = partition(0);
    let log = rig.store.partitions.get_mut(&id).expect("it has records");
    for (segment, number) in log.segments.iter_mut().zip(0..) {
        segment.max_timestamp_ms = -1;
        segment.created_ms = 1_000 * number;
    }
    let ends: Vec<Offset> = log.segments.iter().map(|segment| Offset(segment.next)).collect();
    let start = |oldest_ms| rig.store.retention_start(id, older_than(oldest_ms), None);
    assert_eq!(start(1_000), None, "the first may have been written until then");
    assert_eq!(start(1_001), Some(ends[0]));
    let but_the_last = ends[ends.len() - 2];
    assert_eq!(start(i64::MAX), Some(but_the_last), "nobody knows how old it is");

    rig.append(1, 50);
    let id = partition(1);
    let log = rig.store.partitions.get_mut(&id).expect("it has a record");
    log.tail.iter_mut().for_each(|batch| batch.max_timestamp_ms = -1);
    assert_eq!(rig.store.retention_start(id, older_than(i64::MAX), None), None);
}

#[test]
fn a_deleted_partition_begins_anew_once_nothing_tells_of_it() {
    let (mut rig, _) = laid_out_rig();
    let id = partition(0);
    assert!(!rig.store.may_begin(id), "it is there");
    rig.store.delete_partition(id).expect("there is room");
    rig.flush();
    // Its files are named in the checkpoint, and then it is named in the journal.
    assert!(!rig.store.may_begin(id));
    assert_ne!(rig.remove(), 0);
    assert!(!rig.store.may_begin(id));
    let (mut rig, _) = rig.restart();
    assert!(!rig.store.may_begin(id), "a start reads the deletion back");
    rig.remove();
    assert!(rig.store.hasten_forgetting(id));
    rig.lay_out();
    assert!(rig.store.may_begin(id));
    rig.store.open_partition(id, super::rig::rolling(id));
    let (before, after) = (rig.append(0, 100), rig.append(0, 100));
    rig.flush();
    for _ in 0..2 {
        let (again, recovered) = rig.restart();
        rig = again;
        assert_eq!(recovered.partitions.len(), 1);
        assert_eq!(rig.read(0), [before.as_ref(), after.as_ref()].concat());
        rig.remove();
        rig.lay_out();
        assert!(!rig.segments(0).is_empty());
    }
}
