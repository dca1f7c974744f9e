//! Repair of damaged segments: whatever bit turns, what another replica lends is in its place afterwards, and nothing else ever is.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use platform::disk::{Disk, SimulatedDisk};
use record::{BatchBuilder, Compression, Offset, PartitionId, batches};

use super::adoption::{LARGE, adopted, fill};
use super::compaction::{append, assert_sound, compact_all, roomy, seal};
use super::rig::{Rig, copy, open_as, partition, read_all, read_log};
use crate::damage::Damage;
use crate::repair::RepairStep;
use crate::segment::{Segment, path};
use crate::store::{NotNow, Read, ReadError, RepairEnd, Store};

/// All damage in a partition's segments.
fn scrub(store: &mut Store, id: PartitionId) -> Vec<Damage> {
    let (mut from, mut damages) = (Offset(0), Vec::new());
    while let Some(mut scrub) = store.begin_scrub(id, from) {
        from = scrub.next();
        loop {
            let scrubbed = scrub.step();
            assert!(scrubbed.unread.is_none());
            damages.extend(scrubbed.damages);
            if scrubbed.is_over {
                break;
            }
        }
        assert!(store.has_scrubbed(&scrub));
    }
    damages
}

/// The batches of a replica from the one that holds `from` on, before `until`.
fn lend(donor: &mut Store, id: PartitionId, from: Offset, until: Offset) -> Bytes {
    super::rig::read(donor, id, from.0, until.0, usize::MAX)
        .expect("the replica is sound")
        .into()
}

/// Writes a damaged segment anew with what `lend` gives for each range; or says why that came to nothing.
fn mend_with(
    rig: &mut Rig,
    damage: &Damage,
    mut lend: impl FnMut(&Damage, Offset) -> Bytes,
) -> Result<RepairEnd, String> {
    let begun = rig.store.begin_repair(damage, 0);
    let mut repair = begun.map_err(|why| why.to_string())?;
    loop {
        let step = repair.step().map_err(|fault| fault.to_string());
        let lent = match step {
            Ok(RepairStep::More) => continue,
            Ok(RepairStep::Wants(lost, from)) => {
                let bytes = lend(&lost, from);
                repair.lend(bytes)
            }
            Ok(RepairStep::Written(rewrite)) => {
                let end = rig.store.repaired(&repair, &rewrite);
                rig.lay_out();
                rig.remove();
                return Ok(end);
            }
            Ok(RepairStep::Sound) => Err("it is sound".to_owned()),
            Ok(RepairStep::NoRoom(bytes)) => Err(format!("no room for {bytes} bytes")),
            Err(fault) => Err(fault),
        };
        if let Err(why) = lent {
            rig.store.end_repair(repair).run();
            return Err(why);
        }
    }
}

/// The same with the batches of a replica.
fn mend(rig: &mut Rig, donor: &mut Store, damage: &Damage) -> Result<RepairEnd, String> {
    mend_with(rig, damage, |lost, from| {
        lend(donor, lost.partition(), from, lost.range().1)
    })
}

/// A log of several segments, each of several runs, the last of which is open.
fn laid_out() -> (Rig, Vec<u8>) {
    let mut rig = Rig::new();
    let mut expected = Vec::new();
    for number in 0..31 {
        expected.extend_from_slice(&rig.append(0, 700 + 31 * number));
        rig.flush();
        rig.prepare();
        if number % 3 == 2 {
            rig.lay_out();
        }
    }
    rig.lay_out();
    let (rig, _) = rig.restart();
    (rig, expected)
}

fn segments(store: &Store, id: PartitionId) -> Vec<Segment> {
    store.partitions[&id].segments.clone()
}

fn reopened(rig: &Rig, disk: &SimulatedDisk) -> Rig {
    let (store, _) = open_as(disk, rig.store.config).expect("a start does not look there");
    Rig {
        disk: disk.clone(),
        store,
        now_ms: rig.now_ms,
        fill: rig.fill,
    }
}

/// Damages one file at a place, and says whether all of it is as it was after repair, and stays so over a start.
fn turn_and_mend(
    sound: &Rig,
    id: PartitionId,
    file: &Path,
    bits: &[u64],
    expected: &[u8],
) -> Result<usize, String> {
    let disk = copy(&sound.disk);
    bits.iter().for_each(|bit| disk.flip_bit(file, *bit));
    let mut donor = reopened(sound, &copy(&sound.disk));
    let mut rig = reopened(sound, &disk);
    let damages = scrub(&mut rig.store, id);
    for damage in &damages {
        assert!(rig.store.has_damaged(damage));
        match mend(&mut rig, &mut donor.store, damage) {
            Ok(RepairEnd::InPlace) => {}
            Ok(RepairEnd::Gone) => return Err("it is gone".into()),
            // One repair mends all of a segment.
            Err(why) if why == NotNow::Gone.to_string() => {}
            Err(why) => return Err(format!("{} of {bits:?}: {why}", file.display())),
        }
    }
    let (mut rig, _) = rig.restart();
    let found = read_all(&mut rig.store, id, 4_000).map_err(|error| error.to_string())?;
    if found != expected {
        return Err(format!(
            "other records are read after {bits:?} of {} were mended",
            file.display()
        ));
    }
    if !scrub(&mut rig.store, id).is_empty() {
        return Err("there is damage still".into());
    }
    assert_sound(&rig);
    Ok(damages.len())
}

/// Turns a bit in each part of each segment, and two at a time.
pub(super) fn turn_every_part() -> Result<(), String> {
    let (sound, expected) = laid_out();
    let id = partition(0);
    let all = segments(&sound.store, id);
    assert!(
        all.len() > 2 && all.iter().any(|segment| !segment.sealed),
        "{all:?}"
    );
    let mut met = 0;
    for segment in &all {
        let file = path(&id, segment.name());
        let mut before = 0;
        for bit in (0..segment.end * 8).step_by(8 * 293) {
            met += turn_and_mend(&sound, id, &file, &[bit], &expected)?;
            met += turn_and_mend(&sound, id, &file, &[before, bit], &expected)?;
            before = bit;
        }
        // The trailer, by which everything else is found.
        met += turn_and_mend(&sound, id, &file, &[segment.end * 8 - 9], &expected)?;
    }
    match met > 60 {
        true => Ok(()),
        false => Err(format!("only {met} damages were met")),
    }
}

#[test]
fn whatever_bit_of_a_segment_turns_is_mended() {
    turn_every_part().unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_segment_that_is_gone_is_lent_whole() {
    let (sound, expected) = laid_out();
    let id = partition(0);
    let file = path(&id, segments(&sound.store, id)[1].name());
    let disk = copy(&sound.disk);
    disk.remove(&file).expect("nothing fails");
    let mut donor = reopened(&sound, &copy(&sound.disk));
    let mut rig = reopened(&sound, &disk);
    let damages = scrub(&mut rig.store, id);
    assert!(damages.len() == 1 && damages[0].is_of_index());
    assert_eq!(
        mend(&mut rig, &mut donor.store, &damages[0]),
        Ok(RepairEnd::InPlace)
    );
    assert_eq!(
        read_all(&mut rig.store, id, 4_000).expect("it is mended"),
        expected
    );
    assert_sound(&rig);
}

#[test]
fn a_journal_file_that_became_a_segment_is_written_out_of_it() {
    let mut rig = super::adoption::roomy();
    let (expected, _) = fill(&mut rig, 2);
    rig.lay_out();
    let segment = adopted(&rig)[0];
    let (rig, _) = rig.restart();
    let data = segment.adopted.expect("adopted").path(&rig.store.config.identity);
    let index = path(&partition(LARGE), segment.name());
    let end = segment.adopted.expect("adopted").bytes;
    let mut met = 0;
    for bit in (0..end * 8).step_by(8 * 4_093) {
        met += turn_and_mend(&rig, partition(LARGE), &data, &[bit], &expected)
            .unwrap_or_else(|why| panic!("{why}"));
    }
    for bit in (0..segment.end * 8).step_by(8 * 97) {
        met += turn_and_mend(&rig, partition(LARGE), &index, &[bit], &expected)
            .unwrap_or_else(|why| panic!("{why}"));
    }
    assert!(met > 5, "{met}");
}

/// A batch with the same offset, and other records.
fn another(lent: &Bytes) -> Bytes {
    let (header, _) = batches(lent).next().expect("a batch").expect("whole");
    let mut builder = BatchBuilder::new(Compression::None);
    for number in 0..i64::from(header.record_count) {
        builder.append(header.max_timestamp_ms, None, Some(&number.to_le_bytes()), &[]);
    }
    let mut other = builder.build().to_vec();
    record::set_base_offset(&mut other, header.base_offset);
    record::set_leader_epoch(&mut other, header.leader_epoch);
    let length = header.length_bytes;
    [Bytes::from(other), lent.slice(length..)].concat().into()
}

/// Lends what is sound in itself and is not what was stored.
pub(super) fn lend_something_else() -> Result<(), String> {
    let (sound, expected) = laid_out();
    let id = partition(0);
    let file = path(&id, segments(&sound.store, id)[0].name());
    let disk = copy(&sound.disk);
    disk.flip_bit(&file, 8 * 300);
    let mut donor = reopened(&sound, &copy(&sound.disk));
    let mut rig = reopened(&sound, &disk);
    let damage = scrub(&mut rig.store, id).remove(0);
    type Forge = fn(&Bytes) -> Bytes;
    let forgeries: [(&str, Forge); 5] = [
        ("nothing", |_| Bytes::new()),
        ("other records", another),
        ("less", |lent| {
            let (header, _) = batches(lent).next().expect("a batch").expect("whole");
            lent.slice(..header.length_bytes)
        }),
        ("what follows it", |lent| {
            let (header, _) = batches(lent).next().expect("a batch").expect("whole");
            lent.slice(header.length_bytes..)
        }),
        ("a turned bit", |lent| {
            let mut lent = lent.to_vec();
            lent[200] ^= 1;
            lent.into()
        }),
    ];
    for (name, forge) in forgeries {
        let mended = mend_with(&mut rig, &damage, |lost, from| {
            forge(&lend(&mut donor.store, id, from, lost.range().1))
        });
        if mended.is_ok() {
            return Err(format!("{name} was taken"));
        }
        let (restarted, _) = rig.restart();
        rig = restarted;
        let found = read_all(&mut rig.store, id, 4_000);
        assert!(
            matches!(found, Err(ReadError::Fault(_))),
            "it is damaged as before"
        );
    }
    assert_eq!(mend(&mut rig, &mut donor.store, &damage), Ok(RepairEnd::InPlace));
    assert_eq!(
        read_all(&mut rig.store, id, 4_000).expect("it is mended"),
        expected
    );
    Ok(())
}

#[test]
fn nothing_else_than_what_was_stored_takes_its_place() {
    lend_something_else().unwrap_or_else(|why| panic!("{why}"));
}

/// Cuts the power at every moment of a repair, with every choice of what had reached the disk.
#[test]
fn a_power_cut_finds_the_damaged_segment_or_the_mended_one() {
    let (sound, expected) = laid_out();
    let id = partition(0);
    let damaged = segments(&sound.store, id)[1];
    for bits in [&[8 * 300_u64][..], &[damaged.end * 8 - 9]] {
        let disk = copy(&sound.disk);
        bits.iter()
            .for_each(|bit| disk.flip_bit(&path(&id, damaged.name()), *bit));
        let mut donor = reopened(&sound, &copy(&sound.disk));
        let mut rig = reopened(&sound, &disk);
        let damage = scrub(&mut rig.store, id).remove(0);
        disk.forget_operations();
        mend(&mut rig, &mut donor.store, &damage).expect("it is mended");
        let (mut as_before, mut mended) = (0, 0);
        for crashed in disk.crash_states(16, 5) {
            let mut rig = reopened(&sound, &crashed);
            let found = scrub(&mut rig.store, id);
            match found.first() {
                Some(damage) => {
                    as_before += 1;
                    assert_eq!(
                        damage.mark(),
                        scrub(&mut reopened(&sound, &crashed).store, id)[0].mark()
                    );
                    assert_eq!(mend(&mut rig, &mut donor.store, damage), Ok(RepairEnd::InPlace));
                }
                None => mended += 1,
            }
            assert_eq!(
                read_all(&mut rig.store, id, 4_000).expect("it is mended"),
                expected
            );
            rig.lay_out();
            rig.remove();
            let known: Vec<PathBuf> = segments(&rig.store, id)
                .iter()
                .map(|segment| path(&id, segment.name()))
                .collect();
            let mut files = rig.segments(0);
            files.retain(|file| file.extension().is_some_and(|end| end == "segment"));
            assert_eq!(files.len(), known.len(), "nothing is left over: {files:?}");
            assert_sound(&rig);
        }
        assert!(as_before > 5 && mended > 3, "{as_before} and {mended}");
    }
}

/// Of a log that was compacted here and not there, nothing may come back that has gone.
#[test]
fn what_compaction_has_taken_does_not_come_back() {
    let mut rig = roomy();
    for _ in 0..10 {
        append(&mut rig, &[("a", Some("value")), ("b", Some("value"))]);
    }
    append(&mut rig, &[("a", None)]);
    seal(&mut rig, "filler");
    let (mut rig, _) = rig.restart();
    let full = copy(&rig.disk);
    compact_all(&mut rig);
    rig.lay_out();
    rig.remove();
    let (sound, _) = rig.restart();
    let id = partition(0);
    let expected = read_log(&mut reopened(&sound, &copy(&sound.disk)).store, id, 4_000, true);
    let expected = expected.expect("it is sound");
    let segment = segments(&sound.store, id)[0];
    assert!(segment.sparse && segment.generation == 1);
    for (bit, is_index) in [(8 * 200, false), (segment.end * 8 - 9, true)] {
        let disk = copy(&sound.disk);
        disk.flip_bit(&path(&id, segment.name()), bit);
        let mut rig = reopened(&sound, &disk);
        let damage = scrub(&mut rig.store, id).remove(0);
        assert_eq!(damage.is_of_index(), is_index);
        let mut uncompacted = reopened(&sound, &full);
        let refused = mend(&mut rig, &mut uncompacted.store, &damage);
        assert!(refused.is_err(), "{refused:?}");
        // Where the index says what was there, the same bytes are known again.
        let mut alike = reopened(&sound, &copy(&sound.disk));
        let mended = mend(&mut rig, &mut alike.store, &damage);
        assert_eq!(mended.is_ok(), !is_index, "{mended:?}");
        if !is_index {
            let found = read_log(&mut rig.store, id, 4_000, true).expect("it is mended");
            assert_eq!(found, expected);
            assert!(segments(&rig.store, id)[0].sparse, "gaps are still gaps");
            assert_sound(&rig);
        }
    }
}

/// Trimmed records are neither needed nor brought back.
#[test]
fn damage_below_the_beginning_of_the_log_is_left_out() {
    let (sound, _) = laid_out();
    let id = partition(0);
    let segment = segments(&sound.store, id)[0];
    let disk = copy(&sound.disk);
    // The first chunk, and the last one.
    disk.flip_bit(&path(&id, segment.name()), 8 * 100);
    let mut rig = reopened(&sound, &disk);
    let before = scrub(&mut rig.store, id);
    assert_eq!(before.len(), 1);
    let chunk_next = before[0].range().1;
    rig.trim(0, chunk_next.0);
    rig.flush();
    assert!(scrub(&mut rig.store, id).is_empty(), "nobody needs it");
    let mended = mend_with(&mut rig, &before[0], |_, _| panic!("nothing is to be lent"));
    assert_eq!(mended, Ok(RepairEnd::InPlace));
    let (log_start, next) = rig.bounds(0);
    assert_eq!(log_start, chunk_next.0);
    assert!(segments(&rig.store, id)[0].sparse);
    let found = read_log(&mut rig.store, id, 4_000, true).expect("the rest is sound");
    let first = batches(&found).next().expect("a batch").expect("whole").0;
    assert!(first.base_offset <= chunk_next && first.next_offset() > chunk_next && next > log_start);
    assert_sound(&rig);
}

/// Of a chunk that begins below the log's beginning, a replica lends what it still has.
#[test]
fn the_rest_of_a_chunk_is_lent_by_a_replica_that_has_trimmed() {
    let (sound, _) = laid_out();
    let id = partition(0);
    let segment = segments(&sound.store, id)[0];
    let disk = copy(&sound.disk);
    disk.flip_bit(&path(&id, segment.name()), 8 * 100);
    let mut rig = reopened(&sound, &disk);
    let mut donor = reopened(&sound, &copy(&sound.disk));
    for rig in [&mut rig, &mut donor] {
        rig.trim(0, 1);
        rig.flush();
    }
    let expected = read_all(&mut donor.store, id, 4_000).expect("it is sound");
    let damage = scrub(&mut rig.store, id).remove(0);
    assert_eq!(mend(&mut rig, &mut donor.store, &damage), Ok(RepairEnd::InPlace));
    assert_eq!(
        read_all(&mut rig.store, id, 4_000).expect("it is mended"),
        expected
    );
    assert_sound(&rig);
}

#[test]
fn a_reader_is_told_of_the_damage_and_gets_what_comes_before_it() {
    let (sound, expected) = laid_out();
    let id = partition(0);
    let segment = segments(&sound.store, id)[0];
    let mut store = reopened(&sound, &copy(&sound.disk)).store;
    // A bit of the second chunk.
    let position = {
        let index = crate::segment::open_segment(&store.disk, &store.config.identity, &id, &segment)
            .and_then(|file| crate::segment::read_table(&file, &segment));
        let chunks = index.expect("it is sound");
        assert!(chunks.len() > 1, "a segment of several runs");
        (
            chunks[1].position,
            Offset(chunks[1].first),
            Offset(chunks[1].next),
        )
    };
    let disk = copy(&sound.disk);
    disk.flip_bit(&path(&id, segment.name()), 8 * position.0 + 77);
    store = reopened(&sound, &disk).store;
    let Ok(Read::Job(job)) = store.read(id, Offset(0), Offset(30), 1 << 20) else {
        panic!("nothing is in memory after a start");
    };
    let Ok(Read::Part(parts)) = store.finish_read(job.run()) else {
        panic!("the first chunk is sound");
    };
    let found = parts.concat();
    assert!(!found.is_empty() && expected.starts_with(&found));
    let Ok(Read::Job(job)) = store.read(id, position.1, Offset(30), 1 << 20) else {
        panic!("it is in no cache");
    };
    let Err(ReadError::Damaged(damage)) = store.finish_read(job.run()) else {
        panic!("a bit has turned");
    };
    assert_eq!(damage.range(), (position.1, position.2));
    let lent = lend(
        &mut reopened(&sound, &copy(&sound.disk)).store,
        id,
        position.1,
        position.2,
    );
    assert_eq!(damage.accept(position.1, &lent), Ok(position.2));
    assert!(damage.accept(position.1, &another(&lent)).is_err());
}

/// Two writers of one partition would give their files the same name.
#[test]
fn a_partition_is_not_compacted_while_it_is_repaired() {
    let mut rig = roomy();
    for _ in 0..10 {
        append(&mut rig, &[("a", Some("value"))]);
    }
    seal(&mut rig, "filler");
    let (mut rig, _) = rig.restart();
    let id = partition(0);
    let file = path(&id, segments(&rig.store, id)[0].name());
    rig.disk.flip_bit(&file, 8 * 100);
    let damage = scrub(&mut rig.store, id).remove(0);
    let order = super::compaction::all(&rig);
    let repair = rig
        .store
        .begin_repair(&damage, 0)
        .expect("nothing else is under way");
    assert!(!rig.store.begin_compaction(id, &order, &[]));
    assert_eq!(rig.store.begin_repair(&damage, 0).err(), Some(NotNow::InUse));
    rig.store.end_repair(repair).run();
    assert!(rig.store.begin_compaction(id, &order, &[]));
    assert_eq!(rig.store.begin_repair(&damage, 0).err(), Some(NotNow::InUse));
}

/// A replica whose batches begin elsewhere is another log, and is told so.
#[test]
fn batches_that_overlap_what_is_there_are_refused() {
    let (sound, _) = laid_out();
    let id = partition(0);
    let segment = segments(&sound.store, id)[1];
    let disk = copy(&sound.disk);
    disk.flip_bit(&path(&id, segment.name()), segment.end * 8 - 9);
    let mut rig = reopened(&sound, &disk);
    let damage = scrub(&mut rig.store, id).remove(0);
    let batch = |first: i64, records: i64| {
        let mut builder = BatchBuilder::new(Compression::None);
        for _ in 0..records {
            builder.append(1_000, None, Some(b"value"), &[]);
        }
        let mut batch = builder.build().to_vec();
        record::set_base_offset(&mut batch, Offset(first));
        Bytes::from(batch)
    };
    let mut lent = vec![batch(segment.first + 1, 3), batch(segment.first, 2)];
    let refused = mend_with(&mut rig, &damage, |_, _| lent.pop().expect("twice"));
    let why = refused.expect_err("the second begins in the first");
    assert!(why.contains("all before"), "{why}");
}
