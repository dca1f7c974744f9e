//! Tests of the way back: a journal file that was a segment is the journal's again, once no checkpoint names it and nobody
//! reads it, and is one or the other at every point.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use platform::disk::{Applied, Disk, FaultKind, OperationKind, SimulatedDisk};
use record::Offset;

use super::adoption::{LARGE, VALUE_BYTES, adopted, fill, journal_files, roomy};
use super::events::with_events;
use super::rig::{Rig, config, copy, open_as, partition};
use crate::check::check;
use crate::inspect::list_frames;
use crate::store::{Located, Read, Store};

/// Each journal file on the disk is the journal's, a segment's, about to be removed, or on its way back, and only one of
/// these. Nothing may be out.
pub(super) fn assert_accounted(store: &Store, disk: &SimulatedDisk) {
    let segments = store.partitions.values().flat_map(|log| &log.segments);
    let adopted = segments.filter_map(|segment| segment.adopted);
    let removals = store.removals.iter().chain(store.compaction.superseded());
    let removed = removals.filter_map(|removal| removal.adopted);
    let held = adopted
        .filter(|file| !store.journal.has_file(file.sequence))
        .chain(removed)
        .map(|file| crate::journal::file_name(file.number));
    let returning = store.returning.file_names().map(str::to_owned);
    let names = store
        .journal
        .file_names()
        .into_iter()
        .chain(held)
        .chain(returning);
    let mut known = BTreeSet::new();
    for name in names {
        assert!(known.insert(name.clone()), "{name} has two owners");
    }
    for path in disk.paths() {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let is_journal_file = path.extension().is_some_and(|end| end == "journal");
        assert!(!is_journal_file || known.contains(name), "{name} has no owner");
    }
}

fn assert_sound(rig: &Rig) {
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let report = check(&disk, &rig.store.config.identity, &mut |_| {}).expect("there is a checkpoint");
    assert!(report.is_sound(), "{:?}", report.faults);
    let (_, faults) = list_frames(&disk, &rig.store.config.identity);
    assert!(faults.is_empty(), "{faults:?}");
}

/// Gives up everything that was adopted; the number of files.
fn give_up(rig: &mut Rig) -> usize {
    let segments = adopted(rig);
    let last = segments.last().expect("one was adopted");
    rig.trim(LARGE, last.next);
    rig.flush();
    assert!(rig.remove() >= segments.len());
    segments.len()
}

fn free(rig: &Rig) -> BTreeSet<String> {
    rig.store.journal.file_names().into_iter().collect()
}

#[test]
fn the_journal_gets_a_file_back_when_no_checkpoint_names_it() {
    let mut rig = roomy();
    fill(&mut rig, 3);
    rig.lay_out();
    let (files, indexes) = (journal_files(&rig), rig.segments(LARGE).len());
    let names: BTreeSet<String> = adopted(&rig)
        .iter()
        .filter_map(|segment| Some(crate::journal::file_name(segment.adopted?.number)))
        .collect();
    let given_up = give_up(&mut rig);
    assert_eq!(
        rig.segments(LARGE).len(),
        indexes - given_up,
        "their indexes are gone"
    );
    assert_eq!(journal_files(&rig), files);
    assert!(
        free(&rig).is_disjoint(&names),
        "the checkpoint still calls them segments"
    );
    assert_sound(&rig);
    // A process that starts now finds them given up once more.
    let (mut rig, _) = rig.restart();
    rig.remove();
    assert!(free(&rig).is_disjoint(&names));
    assert_accounted(&rig.store, &rig.disk);
    rig.append(0, 20);
    rig.flush();
    rig.lay_out();
    assert!(free(&rig).is_superset(&names));
    assert_accounted(&rig.store, &rig.disk);
    assert_sound(&rig);
    // And one that starts from here on finds free files.
    let (mut rig, _) = rig.restart();
    assert!(free(&rig).is_superset(&names));
    let (large, _) = fill(&mut rig, 3);
    assert_eq!(journal_files(&rig), files, "no file was made");
    rig.lay_out();
    let (mut rig, _) = rig.restart();
    assert!(rig.read(LARGE).ends_with(&large));
    assert_sound(&rig);
}

#[test]
fn a_deleted_partition_gives_its_files_back() {
    let mut rig = roomy();
    let (_, small) = fill(&mut rig, 3);
    rig.lay_out();
    let files = journal_files(&rig);
    rig.store
        .delete_partition(partition(LARGE))
        .expect("there is room");
    rig.flush();
    rig.remove();
    assert!(rig.segments(LARGE).is_empty());
    rig.lay_out();
    assert_eq!(journal_files(&rig), files);
    assert_eq!(free(&rig).len(), files);
    let (mut rig, _) = rig.restart();
    rig.remove();
    assert_eq!(rig.read(0), small);
    assert_sound(&rig);
}

/// Fills and lays out a journal of few files until a partition has adopted many more.
fn long_log() -> (Rig, usize) {
    let mut rig = Rig::new();
    for _ in 0..10 {
        fill(&mut rig, 1);
        rig.lay_out();
    }
    let files = adopted(&rig).len();
    assert!(files > 2 * config().journal.files_max, "{files} files");
    (rig, files)
}

#[test]
fn the_journal_keeps_no_more_files_than_it_may_have() {
    let files_max = config().journal.files_max;
    let (mut rig, files) = long_log();
    let before = journal_files(&rig);
    rig.store
        .delete_partition(partition(LARGE))
        .expect("there is room");
    rig.flush();
    rig.remove();
    rig.lay_out();
    assert!(before > files && journal_files(&rig) == files_max);
    assert_accounted(&rig.store, &rig.disk);
    // Files that were made while others were on their way back are too many then.
    let (mut rig, _) = long_log();
    give_up(&mut rig);
    let returning = rig.store.returning.file_names().count();
    assert!(returning > 0);
    for _ in 0..12 {
        if rig.try_append(LARGE, 1, VALUE_BYTES).is_ok() {
            rig.flush();
            rig.prepare();
        }
    }
    rig.lay_out();
    rig.remove();
    assert!(free(&rig).len() <= files_max && rig.store.returning.file_names().count() == 0);
    assert_accounted(&rig.store, &rig.disk);
}

#[test]
fn a_journal_that_became_smaller_gives_its_files_up() {
    let mut rig = roomy();
    fill(&mut rig, 3);
    rig.lay_out();
    give_up(&mut rig);
    rig.append(0, 20);
    rig.flush();
    rig.lay_out();
    let files_max = config().journal.files_max;
    assert!(free(&rig).len() > files_max);
    rig = Rig::on(rig.disk, config());
    rig.remove();
    assert_eq!(free(&rig).len(), files_max);
    assert_accounted(&rig.store, &rig.disk);
    fill(&mut rig, 1);
    assert_sound(&rig.restart().0);
}

#[test]
fn a_disk_that_is_short_of_space_gets_it_back() {
    let mut rig = roomy();
    fill(&mut rig, 3);
    rig.lay_out();
    let files = journal_files(&rig);
    rig.store.set_short_of_space(true);
    let given_up = give_up(&mut rig);
    assert_eq!(journal_files(&rig), files - given_up);
    // A checkpoint still names them: a start must not miss them, nor give their names away.
    let (mut rig, _) = rig.restart();
    rig.remove();
    let (large, _) = fill(&mut rig, 3);
    rig.lay_out();
    let (mut rig, _) = rig.restart();
    assert!(rig.read(LARGE).ends_with(&large));
}

#[test]
fn a_file_that_is_not_what_it_was_does_not_come_back() {
    let mut rig = roomy();
    fill(&mut rig, 3);
    rig.lay_out();
    let files = journal_files(&rig);
    let broken = adopted(&rig)[0].adopted.expect("it is one");
    rig.disk
        .flip_bit(&broken.path(&rig.store.config.identity), 8 * 20);
    give_up(&mut rig);
    assert_eq!(journal_files(&rig), files - 1);
    rig.lay_out();
    // A free file with a damaged header would keep the store from opening.
    let (rig, _) = rig.restart();
    assert_sound(&rig);
}

#[test]
fn a_removal_that_is_made_again_is_not_told() {
    let told_of = |harm: fn(&SimulatedDisk, &Path)| {
        let mut rig = roomy();
        fill(&mut rig, 3);
        rig.lay_out();
        let harmed = adopted(&rig)[0].adopted.expect("it is one");
        harm(&rig.disk, &harmed.path(&rig.store.config.identity));
        with_events(|| give_up(&mut rig)).1
    };
    assert_eq!(told_of(|_, _| ()), 0);
    let broken = told_of(|disk, path| disk.flip_bit(path, 8 * 20));
    assert_eq!(broken, 1, "a file that is not what it was is told");
    let gone = told_of(|disk, path| disk.remove(path).expect("the disk works"));
    assert_eq!(gone, 0, "a crash may have cut the removal short");
}

/// Behind a new frame stands a whole one of the segment that the file was, just where recovery looks for the next. Three
/// things tell them apart, each of them enough: the sequence of the file's use and the sequence of the frame, which
/// both stand in the frame's header, and the salt of the use, which is in both checksums.
#[test]
fn what_the_segment_left_in_the_file_is_not_taken_for_new() {
    let mut rig = roomy();
    let append = |rig: &mut Rig| {
        rig.append(LARGE, VALUE_BYTES);
        rig.flush();
        rig.prepare();
    };
    (0..3 * 4).for_each(|_| append(&mut rig));
    rig.lay_out();
    let names: BTreeSet<String> = adopted(&rig)
        .iter()
        .filter_map(|segment| Some(crate::journal::file_name(segment.adopted?.number)))
        .collect();
    give_up(&mut rig);
    rig.append(0, 20);
    rig.flush();
    rig.lay_out();
    let mut looked_at = 0;
    for _ in 0..3 * 4 {
        append(&mut rig);
        let (sequence, position) = rig.store.journal.next_place();
        if let Some(name) = rig
            .store
            .journal
            .name_of(sequence)
            .filter(|name| names.contains(name))
        {
            let bytes = rig
                .disk
                .file_bytes(&Path::new("journals/000").join(name))
                .expect("it is there");
            let behind = bytes.get(position as usize..).filter(|bytes| !bytes.is_empty());
            looked_at += usize::from(behind.is_some_and(|behind| behind.starts_with(b"RWFR")));
        }
        let (store, recovered) = open_as(&copy(&rig.disk), rig.store.config).expect("nothing is damaged");
        assert_eq!(recovered.cut_bytes, 0);
        let next = store.bounds(partition(LARGE)).expect("it is known").1;
        assert_eq!(next.0, rig.bounds(LARGE).1);
    }
    assert!(looked_at > 2, "old frames stood behind {looked_at} new ones");
}

/// A read that began before its segment was given up gets what it asked for, though the journal wants the file.
pub(super) fn read_while_the_file_goes_back() -> Result<(), String> {
    let mut rig = roomy();
    let (large, _) = fill(&mut rig, 3);
    rig.lay_out();
    let (mut rig, _) = rig.restart();
    let located = rig
        .store
        .locate_timestamp(partition(LARGE), 0)
        .map_err(|error| error.to_string())?;
    // The index is in memory then, and the chunks are not.
    let Located::Job(index) = located else {
        return Err("nothing is in memory after a start".into());
    };
    rig.store
        .finish_read(index.run())
        .map_err(|error| error.to_string())?;
    let (from, until) = (Offset(0), Offset(3));
    let read = rig.store.read(partition(LARGE), from, until, 1 << 20);
    let Ok(Read::Job(job)) = read else {
        return Err("the chunks are not in memory".into());
    };
    give_up(&mut rig);
    for _ in 0..4 {
        fill(&mut rig, 2);
        rig.lay_out();
    }
    let outcome = job.run();
    let read = rig.store.finish_read(outcome);
    let Ok(Read::Ready(batches)) = read else {
        return Err("the file was written to meanwhile".into());
    };
    if !large.starts_with(&batches.concat()) || batches.is_empty() {
        return Err("other bytes are served".into());
    }
    // The next checkpoint gives it back.
    assert_eq!(rig.store.returning.file_names().count(), 1);
    fill(&mut rig, 2);
    rig.lay_out();
    assert!(rig.store.returning.file_names().count() == 0);
    assert_accounted(&rig.store, &rig.disk);
    Ok(())
}

#[test]
fn a_file_stays_as_it_is_while_it_is_read() {
    read_while_the_file_goes_back().unwrap_or_else(|why| panic!("{why}"));
}

/// The header of a free file cannot be written. The journal must not go on with less files than it may have.
pub(super) fn fail_to_prepare_a_free_file() -> Result<(), String> {
    let mut rig = Rig::new();
    for _ in 0..2 {
        fill(&mut rig, 1);
        rig.append(0, VALUE_BYTES);
        rig.flush();
        rig.lay_out();
    }
    // Files are known by their final names then.
    let (mut rig, _) = rig.restart();
    rig.disk.fail_when(|call| {
        let is_header = call.kind == OperationKind::WriteDurable && call.position == 0;
        let of_old_file = call.path.extension().is_some_and(|end| end == "journal");
        let applied = Applied::Part;
        (is_header && of_old_file).then_some(FaultKind::Error { errno: 5, applied })
    });
    let mut failures = 0;
    for _ in 0..20 {
        if rig.try_append(0, 1, VALUE_BYTES).is_err() {
            rig.lay_out_only();
            if rig.store.checkpoint_is_due() {
                rig.checkpoint();
            }
        }
        rig.flush();
        if let Some(job) = rig.store.next_preparation() {
            let file = job.run();
            failures += usize::from(rig.store.prepared(job, file).is_err());
        }
        rig.remove();
        let files: BTreeSet<String> = free(&rig);
        if journal_files(&rig) != files.len() + adopted(&rig).len() {
            return Err("a file is on the disk, and in no list".into());
        }
    }
    assert!(failures > 1, "{failures} preparations failed");
    rig.disk.clear_faults();
    rig.prepare();
    assert_accounted(&rig.store, &rig.disk);
    assert_sound(&rig.restart().0);
    Ok(())
}

#[test]
fn a_file_that_could_not_be_prepared_is_removed() {
    fail_to_prepare_a_free_file().unwrap_or_else(|why| panic!("{why}"));
}
