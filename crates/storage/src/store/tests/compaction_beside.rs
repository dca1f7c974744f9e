//! Compaction beside everything else: readers, trims, deletions, and files that the journal had.

use std::collections::BTreeSet;
use std::sync::Arc;

use platform::disk::Disk;
use record::{BatchBuilder, Compression, Offset, batches};

use super::compaction::{
    all, append, assert_sound, compact_all, lay_out, log, roomy, run_pass, seal, summary,
};
use super::returning::assert_accounted;
use super::rig::{Rig, partition, read_log, stage};
use super::workload::EAGER;
use crate::inspect::list_segments;
use crate::store::{Compacted, Read};

#[test]
fn readers_that_began_before_end_well_and_caches_do_not_mix() {
    let mut rig = roomy();
    for _ in 0..20 {
        append(&mut rig, &[("a", Some("value"))]);
    }
    seal(&mut rig, "filler");
    let (mut rig, _) = rig.restart();
    let plan = |rig: &mut Rig| match rig
        .store
        .read(partition(0), Offset(0), Offset(20), 100_000)
        .expect("in range")
    {
        Read::Job(job) => job,
        _ => panic!("nothing is in memory after a start"),
    };
    let (early, late) = (plan(&mut rig), plan(&mut rig));
    let early = early.run();
    compact_all(&mut rig);
    lay_out(&mut rig);
    // It read the old files: that is what there was. Nothing of it is kept.
    let Ok(Read::Ready(parts) | Read::Part(parts)) = rig.store.finish_read(early) else {
        panic!("it has read already");
    };
    assert!(batches(&parts.concat()).count() > 1);
    assert_eq!(rig.store.status().chunk_cache_bytes, 0);
    // The files of the other are gone when it runs: it reads again.
    let mut again = rig.store.finish_read(late.run()).expect("no damage");
    let parts = loop {
        match again {
            Read::Ready(parts) | Read::Part(parts) => break parts,
            Read::Job(job) => again = rig.store.finish_read(job.run()).expect("no damage"),
            Read::UnderWay => panic!("nothing is being read ahead here"),
        }
    };
    let bytes = parts.concat();
    let (header, _) = batches(&bytes).next().expect("a batch").expect("whole");
    assert_eq!(header.base_offset, Offset(19));
}

#[test]
fn what_memory_still_holds_is_not_read_as_it_was() {
    let mut rig = roomy();
    rig.store.config.tail_cache_bytes = 1 << 20;
    append(&mut rig, &[("a", Some("value"))]);
    append(&mut rig, &[("a", None)]);
    seal(&mut rig, "filler");
    compact_all(&mut rig);
    assert_eq!(summary(&mut rig), [(1, "a".to_string(), false)]);
    rig.now_ms += EAGER.delete_retention_ms;
    lay_out(&mut rig);
    compact_all(&mut rig);
    assert!(summary(&mut rig).is_empty());
}

#[test]
fn a_pass_over_what_is_trimmed_or_deleted_meanwhile_comes_to_nothing() {
    for delete in [false, true] {
        let mut rig = roomy();
        for _ in 0..40 {
            append(&mut rig, &[("a", Some("value"))]);
            rig.lay_out();
        }
        seal(&mut rig, "filler");
        assert!(rig.store.begin_compaction(partition(0), &all(&rig), &[]));
        // Until the first segment is written, and not yet put in place.
        let (job, result) = loop {
            let mut job = rig.store.next_compaction().expect("one step after the other");
            let result = job.run();
            if result.as_ref().expect("nothing fails").bytes_written > 0 {
                break (job, result);
            }
            rig.store
                .compacted(job, result, rig.now_ms)
                .expect("nothing fails");
        };
        match delete {
            true => rig.store.delete_partition(partition(0)).expect("there is room"),
            false => {
                rig.trim(0, 30);
            }
        }
        rig.flush();
        assert_eq!(
            rig.store.compacted(job, result, rig.now_ms).expect("no damage"),
            Compacted::Abandoned
        );
        assert!(!rig.store.is_compacting());
        lay_out(&mut rig);
        if delete {
            assert!(rig.segments(0).is_empty());
            continue;
        }
        assert_eq!(
            log(&mut rig)
                .iter()
                .filter(|record| record.offset.0 >= 30)
                .count(),
            17
        );
        let known = rig.store.partitions[&partition(0)].segments.len();
        assert_eq!(rig.segments(0).len(), known, "what was written in vain is gone");
        assert_sound(&rig);
    }
}

/// Its segments may be as large as a journal file, and so are journal files.
const LARGE: u8 = 3;

/// Several journal files that became segments, all with one key. Nothing else is in them.
fn with_adopted_files() -> Rig {
    let mut rig = super::adoption::roomy();
    for number in 0..12 {
        let mut builder = BatchBuilder::new(Compression::None);
        let value = vec![b'v'; 7_800];
        builder.append(rig.now_ms + number, Some(b"key"), Some(&value), &[]);
        stage(&mut rig.store, partition(LARGE), &builder.build()).expect("there is room");
        rig.flush();
        rig.prepare();
    }
    rig.lay_out();
    assert!(adopted(&rig).len() >= 2);
    rig
}

/// The names of the journal files that segments adopted.
fn adopted(rig: &Rig) -> BTreeSet<String> {
    let segments = rig.store.partitions[&partition(LARGE)].segments.iter();
    let files = segments.filter_map(|segment| segment.adopted);
    files.map(|file| crate::journal::file_name(file.number)).collect()
}

/// Of another partition, enough that no file waits to become a segment.
fn another_round(rig: &mut Rig) {
    for _ in 0..4 {
        rig.append(0, 7_000);
        rig.flush();
        rig.prepare();
    }
    rig.lay_out();
}

fn journals(rig: &Rig) -> BTreeSet<String> {
    rig.store.journal.file_names().into_iter().collect()
}

#[test]
fn adopted_files_are_compacted_too() {
    let mut rig = with_adopted_files();
    let id = partition(LARGE);
    assert!(rig.store.begin_compaction(id, &all(&rig), &[]));
    run_pass(&mut rig);
    lay_out(&mut rig);
    assert!(adopted(&rig).is_empty());
    let (mut rig, _) = rig.restart();
    let bytes = read_log(&mut rig.store, id, 4_000, true).expect("it can be read");
    let headers = batches(&bytes).map(|batch| batch.expect("whole").0);
    let first = headers.into_iter().find(|header| header.record_count > 0);
    assert!(first.expect("the latest is there").base_offset.0 >= 7);
    assert_sound(&rig);
}

#[test]
fn the_journal_gets_back_what_compaction_made_free_when_no_checkpoint_names_it() {
    let mut rig = with_adopted_files();
    let names = adopted(&rig);
    // All of it before the checkpoint that it waits for.
    rig.store.config.superseded_bytes_max = u64::MAX;
    assert!(rig.store.begin_compaction(partition(LARGE), &all(&rig), &[]));
    run_pass(&mut rig);
    assert!(adopted(&rig).is_empty());
    assert_eq!(rig.remove(), 0, "the checkpoint still calls them segments");
    assert_accounted(&rig.store, &rig.disk);
    // This one lists them for removal, and so recovery would pass over them.
    rig.lay_out();
    assert!(rig.remove() >= names.len());
    assert!(journals(&rig).is_disjoint(&names));
    assert_accounted(&rig.store, &rig.disk);
    another_round(&mut rig);
    assert!(journals(&rig).is_superset(&names));
    assert_accounted(&rig.store, &rig.disk);
    assert_sound(&rig);
    let (rig, _) = rig.restart();
    assert!(journals(&rig).is_superset(&names));
}

/// The segments that a pass is to read are given up, and the journal wants the files.
pub(super) fn trim_what_a_pass_reads() -> Result<(), String> {
    let mut rig = with_adopted_files();
    let names = adopted(&rig);
    assert!(rig.store.begin_compaction(partition(LARGE), &all(&rig), &[]));
    let mut job = rig.store.next_compaction().expect("the first step");
    let end = rig.bounds(LARGE).1;
    rig.trim(LARGE, end);
    rig.flush();
    for _ in 0..3 {
        another_round(&mut rig);
        rig.remove();
    }
    if !journals(&rig).is_disjoint(&names) {
        return Err("the journal has files that a pass may have open".into());
    }
    assert_accounted(&rig.store, &rig.disk);
    // Their indexes are gone: the pass comes to nothing, and that is no damage.
    let mut result = job.run();
    let now_ms = rig.now_ms;
    while rig.store.compacted(job, result, now_ms).expect("no damage") == Compacted::More {
        job = rig.store.next_compaction().expect("one step after the other");
        result = job.run();
    }
    another_round(&mut rig);
    assert!(journals(&rig).is_superset(&names));
    assert_accounted(&rig.store, &rig.disk);
    Ok(())
}

#[test]
fn a_journal_file_that_a_pass_reads_does_not_go_back() {
    trim_what_a_pass_reads().unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn listings_say_how_often_a_segment_was_compacted() {
    let mut rig = roomy();
    for _ in 0..12 {
        append(&mut rig, &[("a", Some("value"))]);
    }
    seal(&mut rig, "filler");
    compact_all(&mut rig);
    lay_out(&mut rig);
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let mut listed = list_segments(&disk, &rig.store.config.identity, |_| true).expect("sound");
    let first = listed.next().expect("there is one");
    assert_eq!(first.compactions, 1);
    assert!(
        first.file.ends_with("00000000000000000000.1.segment"),
        "{}",
        first.file
    );
}
