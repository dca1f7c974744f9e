//! Damage from outside: bits turned, files cut short, swapped, copied, removed, of another owner or another version. It is
//! reported with the file's name, or proven to touch nothing that counts; wrong bytes are never served.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::disk::{Disk, SimulatedDisk};
use record::ClusterId;

use super::history::History;
use super::rig::{Rig, config, copy, open, open_as, partition, read_all, read_log, write_file};
use super::workload::{Driver, Op, Replicate, draw, draw_replicated};
use crate::checksum::{DirectoryId, JournalIdentity};
use crate::fault::Fault;
use crate::inspect::{EntryListing, FrameListing, list_frames, list_witnesses};
use crate::store::{ReadError, StoreConfig};

/// A disk with all kinds of files on it, everything acknowledged, and what it holds.
pub(super) struct Victim {
    disk: SimulatedDisk,
    history: History,
}

/// The outcomes of damage.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Everything is there and right.
    untouched: usize,
    /// The store does not open, and says why.
    refused: usize,
    /// Reading says what is wrong.
    found: usize,
}

impl Victim {
    pub(super) fn new(seed: u64, steps: usize) -> Victim {
        let disk = SimulatedDisk::new();
        let mut driver = Driver::new(&disk).expect("nothing is wrong with the disk");
        driver.run(&draw(seed, steps));
        driver.prepare();
        driver.flush_all();
        Victim {
            disk: copy(&disk),
            history: driver.history,
        }
    }

    /// The same, with the journal closed.
    pub(super) fn closed(seed: u64, steps: usize) -> Victim {
        let disk = SimulatedDisk::new();
        let mut driver = Driver::new(&disk).expect("nothing is wrong with the disk");
        driver.run(&draw(seed, steps));
        driver.prepare();
        driver.flush_all();
        driver.append(0, 700);
        driver.flush_all();
        driver.close();
        driver.flush_all();
        Victim {
            disk: copy(&disk),
            history: driver.history,
        }
    }

    /// One of a replica. At the end the journal has an entry of each kind, and the checkpoint witnesses and a partition
    /// that is empty but for its vows.
    fn replica(seed: u64, steps: usize) -> Victim {
        let disk = SimulatedDisk::new();
        let mut ops = draw_replicated(seed, steps);
        let replicate = |partition, what, eighths| Op::Replicate {
            partition,
            what,
            eighths,
        };
        ops.push(Op::Delete { partition: 3 });
        ops.push(replicate(3, Replicate::Promise, 0));
        ops.push(replicate(0, Replicate::Witness, 4));
        let mut driver = Driver::for_ops(&disk, config(), &ops).expect("nothing is wrong with the disk");
        driver.run(&ops);
        driver.release_all();
        driver.settle();
        let kinds = [
            replicate(1, Replicate::Hold, 0),
            replicate(1, Replicate::Copy, 1),
            replicate(1, Replicate::Copy, 2),
            replicate(1, Replicate::Copy, 7),
            replicate(1, Replicate::Cut, 6),
            replicate(1, Replicate::Accept, 7),
            replicate(0, Replicate::Promise, 0),
            replicate(2, Replicate::BeginAnew, 3),
            replicate(0, Replicate::Witness, 0),
            Op::Trim {
                partition: 0,
                eighths: 8,
            },
        ];
        driver.run(&kinds);
        driver.prepare();
        driver.flush_all();
        Victim {
            disk: copy(&disk),
            history: driver.history,
        }
    }

    fn paths(&self, extension: &str) -> Vec<PathBuf> {
        let ends = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
        self.disk.paths().into_iter().filter(ends).collect()
    }

    fn length(&self, path: &Path) -> u64 {
        self.disk.file_bytes(path).expect("it is listed").len() as u64
    }

    /// Damages a copy, opens it and reads everything. A fault must name one of `blamed`.
    fn judge(
        &self,
        blamed: &[&Path],
        outcomes: &mut Outcomes,
        damage: impl FnOnce(&SimulatedDisk),
    ) -> Result<(), String> {
        let disk = copy(&self.disk);
        damage(&disk);
        let state = self.history.state_after(self.history.frames());
        let (mut store, recovered) = match open(&disk) {
            Ok(opened) => opened,
            Err(fault) => {
                outcomes.refused += 1;
                return check_names(&fault, blamed);
            }
        };
        let frames = store.journal.pending_frame();
        if frames != self.history.frames() {
            return Err(format!(
                "{frames} frames of {} acknowledged are left",
                self.history.frames()
            ));
        }
        self.history.check_recovered(&recovered, &state)?;
        self.history.check_witnesses(&recovered, frames)?;
        let found_before = outcomes.found;
        for (id, expected) in state.iter() {
            if store.bounds(*id).map(|(first, next)| (first.0, next.0))
                != Some((expected.log_start, expected.next))
            {
                return Err(format!("{id} has other bounds"));
            }
            match read_log(&mut store, *id, 100_000, self.history.replicated) {
                Ok(bytes) if bytes == expected.bytes() => {}
                Ok(_) => return Err(format!("wrong bytes of {id} are served")),
                Err(ReadError::Fault(fault)) => {
                    outcomes.found += 1;
                    check_names(&fault, blamed)?;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        outcomes.untouched += usize::from(outcomes.found == found_before);
        Ok(())
    }

    /// Turns a bit of every byte of the journal's files where frames may begin, and of a part of the others.
    pub(super) fn turn_journal_bits(&self, stride: u64) -> Result<Outcomes, String> {
        let is_head = |at: u64| at % 4096 < 72;
        self.turn_bits("journal", move |at| is_head(at) || at.is_multiple_of(stride))
    }

    fn turn_bits(&self, extension: &str, wanted: impl Fn(u64) -> bool) -> Result<Outcomes, String> {
        let mut outcomes = Outcomes::default();
        for path in self.paths(extension) {
            for at in (0..self.length(&path)).filter(|at| wanted(*at)) {
                let bit = 8 * at + (at ^ at >> 3) % 8;
                self.judge(&[&path], &mut outcomes, |disk| disk.flip_bit(&path, bit))
                    .map_err(|why| format!("bit {bit} (byte {at}) of {}: {why}", path.display()))?;
            }
        }
        Ok(outcomes)
    }

    /// Turns several bits of each byte of the last frame with records, one byte after the other.
    pub(super) fn damage_last_records(&self) -> Result<Outcomes, String> {
        let mut outcomes = Outcomes::default();
        let frames = self.frames();
        let [.., last, closing] = &frames[..] else {
            return Err("there are no frames".into());
        };
        if !closing.entries.is_empty() || last.entries.is_empty() {
            return Err("there is no closing frame".into());
        }
        let path = Path::new(&last.file)
            .strip_prefix(self.disk.root())
            .map_err(|error| error.to_string())?;
        for at in last.position..last.position + 900 {
            let refused = outcomes.refused;
            self.judge(&[path], &mut outcomes, |disk| {
                [0, 3, 6]
                    .into_iter()
                    .for_each(|bit| disk.flip_bit(path, 8 * at + bit))
            })
            .map_err(|why| format!("byte {at}: {why}"))?;
            if outcomes.refused == refused && at < last.position + 700 {
                return Err(format!("byte {at} is damaged, and nothing is said"));
            }
        }
        Ok(outcomes)
    }

    fn frames(&self) -> Vec<FrameListing> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        list_frames(&disk, &config().identity).0
    }

    fn cut_short(&self, extension: &str, wanted: impl Fn(u64) -> bool) -> Result<Outcomes, String> {
        let mut outcomes = Outcomes::default();
        for path in self.paths(extension) {
            for length in (0..self.length(&path)).filter(|length| wanted(*length)) {
                self.judge(&[&path], &mut outcomes, |disk| disk.truncate(&path, length))
                    .map_err(|why| format!("{} cut to {length} bytes: {why}", path.display()))?;
            }
        }
        Ok(outcomes)
    }

    pub(super) fn swap(&self, extension: &str) -> Result<Outcomes, String> {
        let mut outcomes = Outcomes::default();
        let paths = self.paths(extension);
        for (index, first) in paths.iter().enumerate() {
            for second in &paths[index + 1..] {
                self.judge(&[first, second], &mut outcomes, |disk| {
                    disk.swap_files(first, second)
                })
                .map_err(|why| format!("{} swapped with {}: {why}", first.display(), second.display()))?;
            }
        }
        Ok(outcomes)
    }
}

fn check_names(fault: &Fault, blamed: &[&Path]) -> Result<(), String> {
    match fault {
        Fault::Damaged { file, .. } if blamed.iter().any(|path| Path::new(file).ends_with(path)) => Ok(()),
        other => Err(format!("it is reported as: {other}")),
    }
}

fn is_edge(at: u64) -> bool {
    at % 4096 < 4 || at % 4096 >= 3_960
}

#[test]
fn a_turned_bit_in_a_journal_is_reported_or_mended() {
    let outcomes = Victim::new(11, 130)
        .turn_journal_bits(61)
        .unwrap_or_else(|why| panic!("{why}"));
    eprintln!("bits of journal files turned: {outcomes:?}");
    assert!(outcomes.refused > 300 && outcomes.untouched > 300);
}

#[test]
fn damage_in_the_last_records_of_a_closed_journal_is_reported() {
    for seed in 1..=4 {
        let outcomes = Victim::closed(seed, 90)
            .damage_last_records()
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert!(outcomes.refused >= 700, "{outcomes:?}");
    }
}

#[test]
fn a_turned_bit_in_a_closed_journal_is_reported_or_mended() {
    let outcomes = Victim::closed(11, 130)
        .turn_journal_bits(61)
        .unwrap_or_else(|why| panic!("{why}"));
    assert!(outcomes.refused > 300 && outcomes.untouched > 300);
}

#[test]
fn a_turned_bit_in_a_segment_is_reported() {
    let outcomes = Victim::new(12, 130)
        .turn_bits("segment", |at| is_edge(at) || at.is_multiple_of(97))
        .unwrap_or_else(|why| panic!("{why}"));
    eprintln!("bits of segments turned: {outcomes:?}");
    assert!(outcomes.found > 300 && outcomes.refused == 0);
}

#[test]
fn a_turned_bit_in_a_replicas_journal_is_reported_or_mended() {
    let victim = Victim::replica(11, 110);
    let entries: Vec<EntryListing> = victim
        .frames()
        .into_iter()
        .flat_map(|frame| frame.entries)
        .collect();
    let has = |kind: fn(&EntryListing) -> bool| entries.iter().any(kind);
    assert!(
        has(|entry| matches!(entry, EntryListing::Batch { aborts: Some(_), .. }))
            && has(|entry| matches!(entry, EntryListing::Accept { epoch: None, .. }))
            && has(|entry| matches!(entry, EntryListing::Accept { epoch: Some(_), .. }))
            && has(|entry| matches!(entry, EntryListing::Promise { .. }))
            && has(|entry| matches!(entry, EntryListing::Base { .. }))
            && has(|entry| matches!(entry, EntryListing::Witness(_)))
            && has(|entry| matches!(entry, EntryListing::Trim { .. })),
        "each kind is there: {entries:?}"
    );
    let outcomes = victim.turn_journal_bits(23).unwrap_or_else(|why| panic!("{why}"));
    eprintln!("bits of a replica's journal turned: {outcomes:?}");
    assert!(outcomes.refused > 300 && outcomes.untouched > 300);
}

#[test]
#[ignore = "takes minutes, and hours without an optimizing compiler; for changes to what is stored"]
fn a_turned_bit_in_every_byte_of_many_files_is_reported_or_mended() {
    let (mut journals, mut segments) = (0, 0);
    for seed in 21..24 {
        let victim = Victim::new(seed, 130);
        let outcomes = victim
            .turn_journal_bits(1)
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        journals += outcomes.untouched + outcomes.refused;
        let outcomes = victim
            .turn_bits("segment", |_| true)
            .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(
            outcomes.refused, 0,
            "seed {seed}: damage in a segment is no reason not to start"
        );
        segments += outcomes.untouched + outcomes.found;
    }
    eprintln!("counted: {journals} turned bits of journals, {segments} of segments");
}

fn turn_every_bit_of_the_checkpoint(victim: &Victim) {
    let mut outcomes = Outcomes::default();
    for path in victim.paths("checkpoint") {
        for bit in 0..8 * victim.length(&path) {
            victim
                .judge(&[&path], &mut outcomes, |disk| disk.flip_bit(&path, bit))
                .unwrap_or_else(|why| panic!("bit {bit}: {why}"));
        }
    }
    eprintln!("bits of checkpoints turned: {outcomes:?}");
    assert!(outcomes.refused > 1_000 && outcomes.untouched == 0 && outcomes.found == 0);
}

#[test]
fn every_turned_bit_in_a_checkpoint_is_reported() {
    turn_every_bit_of_the_checkpoint(&Victim::new(13, 130));
    let replica = Victim::replica(13, 110);
    let disk: Arc<dyn Disk> = Arc::new(replica.disk.clone());
    assert!(list_witnesses(&disk, &config().identity).is_ok_and(|kept| kept.len() > 1));
    turn_every_bit_of_the_checkpoint(&replica);
}

#[test]
fn a_file_cut_short_is_reported_at_every_length() {
    cut_every_file_short(&Victim::new(14, 130));
    cut_every_file_short(&Victim::replica(14, 110));
}

fn cut_every_file_short(victim: &Victim) {
    let near = |length: u64| (length + 2) % 4096 < 5 || length.is_multiple_of(211);
    let checkpoints = victim
        .cut_short("checkpoint", |_| true)
        .unwrap_or_else(|why| panic!("{why}"));
    let journals = victim
        .cut_short("journal", near)
        .unwrap_or_else(|why| panic!("{why}"));
    let segments = victim
        .cut_short("segment", near)
        .unwrap_or_else(|why| panic!("{why}"));
    eprintln!("cut short: checkpoints {checkpoints:?}, journals {journals:?}, segments {segments:?}");
    assert!(checkpoints.untouched == 0 && journals.untouched == 0 && segments.refused == 0);
}

#[test]
fn swapped_files_are_reported_or_make_no_difference() {
    let victim = Victim::new(22, 160);
    let journals = victim.swap("journal").unwrap_or_else(|why| panic!("{why}"));
    let segments = victim.swap("segment").unwrap_or_else(|why| panic!("{why}"));
    // A journal file knows its place by itself, whatever it is called.
    assert!(
        journals.refused == 0 && journals.found == 0 && journals.untouched > 0,
        "{journals:?}"
    );
    assert!(segments.found > 5 && segments.untouched == 0, "{segments:?}");
    // Here there are also segments that are still to be removed.
    let replica = Victim::replica(22, 130);
    let journals = replica.swap("journal").unwrap_or_else(|why| panic!("{why}"));
    let segments = replica.swap("segment").unwrap_or_else(|why| panic!("{why}"));
    assert!(
        journals.untouched > 0 && segments.found > 5,
        "{journals:?}, {segments:?}"
    );
}

/// Two segments that differ in nothing but their owner and their records, swapped.
pub(super) fn swap_twins() -> Result<(), String> {
    let mut rig = Rig::new();
    let appended = [rig.append(0, 500), rig.append(1, 500)];
    rig.flush();
    rig.lay_out();
    let paths = [rig.segments(0).remove(0), rig.segments(1).remove(0)];
    rig.disk.swap_files(&paths[0], &paths[1]);
    let (mut rig, _) = rig.restart();
    for (number, path) in [(0, &paths[0]), (1, &paths[1])] {
        match read_all(&mut rig.store, partition(number), 4_000) {
            Ok(bytes) if bytes == appended[usize::from(number)] => {
                return Err("swapping changed nothing".into());
            }
            Ok(_) => return Err("the records of another partition are served".into()),
            Err(ReadError::Fault(fault)) => check_names(&fault, &[path])?,
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

#[test]
fn swapped_segments_of_the_same_shape_are_reported() {
    swap_twins().unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_lost_or_copied_file_is_reported() {
    let victim = Victim::new(16, 130);
    let mut outcomes = Outcomes::default();
    let sequence = |path: &PathBuf| {
        let bytes = victim.disk.file_bytes(path).expect("it is listed");
        crate::journal::frame::get_u64(&bytes, 16)
    };
    let mut journals = victim.paths("journal");
    journals.sort_by_key(sequence);
    // The last one is missed by none that comes after it.
    journals.pop();
    for path in victim.paths("segment").into_iter().chain(journals) {
        let directory = path.parent().expect("all files are in directories");
        let result = victim.judge(&[&path, directory], &mut outcomes, |disk| {
            disk.remove(&path).expect("nothing fails");
        });
        result.unwrap_or_else(|why| panic!("{} removed: {why}", path.display()));
    }
    for path in victim.paths("journal") {
        let copied = path.with_file_name("777777.journal");
        let result = victim.judge(&[&copied, &path], &mut outcomes, |disk| {
            write_file(
                disk,
                &copied,
                &victim.disk.file_bytes(&path).expect("it is listed"),
            );
        });
        result.unwrap_or_else(|why| panic!("{} copied: {why}", path.display()));
    }
    eprintln!("files lost or copied: {outcomes:?}");
    assert!(outcomes.refused >= 3 && outcomes.found > 3);
    // Without its checkpoint a journal whose files were reused is no beginning.
    let disk = copy(&victim.disk);
    disk.remove(Path::new("checkpoints/000.checkpoint"))
        .expect("nothing fails");
    assert!(matches!(open(&disk), Err(Fault::Damaged { .. })));
}

#[test]
fn the_files_of_another_owner_are_refused_and_left_alone() {
    refuse_other_owners(&Victim::new(17, 130));
    refuse_other_owners(&Victim::replica(17, 110));
}

fn refuse_other_owners(victim: &Victim) {
    let ours = config();
    let others = [
        JournalIdentity {
            cluster: ClusterId([9; 16]),
            ..ours.identity
        },
        JournalIdentity {
            node: 9,
            ..ours.identity
        },
        JournalIdentity {
            directory: DirectoryId([9; 16]),
            ..ours.identity
        },
    ];
    for identity in others {
        // Only the checkpoint names the directory.
        let without = identity.directory == ours.identity.directory;
        for with_checkpoint in [true, !without] {
            let disk = copy(&victim.disk);
            if !with_checkpoint {
                disk.remove(Path::new("checkpoints/000.checkpoint"))
                    .expect("nothing fails");
            }
            let before = disk.operation_count();
            let opened = open_as(&disk, StoreConfig { identity, ..ours });
            assert!(matches!(opened, Err(Fault::Damaged { .. })), "{identity:?}");
            assert_eq!(disk.operation_count(), before, "nothing was written");
        }
    }
}

#[test]
fn another_journals_checkpoint_is_refused() {
    let victim = Victim::new(17, 130);
    let disk = copy(&victim.disk);
    let content = disk
        .file_bytes(Path::new("checkpoints/000.checkpoint"))
        .expect("there is one");
    write_file(&disk, Path::new("checkpoints/001.checkpoint"), &content);
    let ours = config();
    let identity = JournalIdentity {
        journal: 1,
        ..ours.identity
    };
    assert!(matches!(
        open_as(&disk, StoreConfig { identity, ..ours }),
        Err(Fault::Damaged { .. })
    ));
}

#[test]
fn unknown_versions_are_refused_and_left_alone() {
    let victim = Victim::new(17, 130);
    let identity = config().identity;
    // Where the version stands, what is summed up, and where the checksum stands.
    let checkpoint = |bytes: &mut [u8], version: u8| {
        bytes[8] = version;
        let checksum = identity.checksum(&[&bytes[..16], &bytes[24..]]);
        bytes[16..24].copy_from_slice(&checksum.to_le_bytes());
    };
    let journal = |bytes: &mut [u8], version: u8| {
        bytes[8] = version;
        let checksum = identity.checksum(&[&bytes[..48]]);
        bytes[48..56].copy_from_slice(&checksum.to_le_bytes());
    };
    type Age<'a> = &'a dyn Fn(&mut [u8], u8);
    let cases: [(PathBuf, u8, Age<'_>); 2] = [
        ("checkpoints/000.checkpoint".into(), 4, &checkpoint),
        (victim.paths("journal").remove(0), 2, &journal),
    ];
    for (path, ours, age) in cases {
        for (other, remedy) in [
            (ours - 1, "start this one with an empty directory"),
            (ours + 1, "use the version that wrote it"),
        ] {
            let disk = copy(&victim.disk);
            let mut bytes = disk.file_bytes(&path).expect("it is there");
            age(&mut bytes, other);
            write_file(&disk, &path, &bytes);
            let before = disk.operation_count();
            let fault = open(&disk).map(|_| ()).expect_err("it is of another version");
            assert!(
                matches!(&fault, Fault::UnknownVersion { version, known, file }
                    if Path::new(file).ends_with(&path) && (*version, *known) == (u32::from(other), u32::from(ours))),
                "{fault}"
            );
            assert!(fault.to_string().contains(remedy), "{fault}");
            assert_eq!(disk.operation_count(), before, "nothing was written");
        }
    }
}
