//! Tests of segments that move from one node to another: what is sent arrives and counts, what is wrong with it is refused and leaves
//! nothing behind, and logs that are made to begin anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::{Applied, Disk, FaultKind, OperationKind, SimulatedDisk};
use record::{ClusterId, Epoch, Offset, PartitionId};

use super::adoption::{LARGE, VALUE_BYTES, adopted, roomy};
use super::events::with_events;
use super::rig::{ROLLING, Rig, batch, config, partition, rolling, stage};
use crate::check::check;
use crate::checksum::{DirectoryId, JournalIdentity, SegmentIdentity};
use crate::fault::Fault;
use crate::import::{Import, ImportError, ImportedFile, SegmentOffer};
use crate::inspect::{list_segments, stored_batches};
use crate::segment::{Segment, SegmentName, table};
use crate::store::{SealedSegment, Store, StoreConfig};

/// A segment on another node: what it offers, the file, and each batch with its end.
pub(super) struct Donation {
    pub(super) offer: SegmentOffer,
    pub(super) file: Vec<u8>,
    pub(super) batches: Vec<(i64, Bytes)>,
}

impl Donation {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let batches: Vec<&[u8]> = self.batches.iter().map(|(_, bytes)| &**bytes).collect();
        batches.concat()
    }
}

/// Another node of the same cluster.
fn donors_config() -> StoreConfig {
    StoreConfig {
        identity: JournalIdentity {
            directory: DirectoryId([6; 16]),
            node: 2,
            ..config().identity
        },
        ..config()
    }
}

/// A sealed segment of a partition that begins at `first`, from another node.
pub(super) fn donate(id: PartitionId, first: i64, fill: u64) -> Donation {
    donate_as(donors_config(), id, first, fill)
}

fn donate_as(config: StoreConfig, id: PartitionId, first: i64, fill: u64) -> Donation {
    let mut donor = Rig::on(SimulatedDisk::new(), config);
    donor.store.open_partition(id, ROLLING);
    if first > 0 {
        donor.store.begin_at(id, Offset(first)).expect("there is room");
    }
    let mut batches = Vec::new();
    for number in 0..3 {
        let bytes = batch(1 + number % 2, 3_000, 2_000 + number, fill + number as u64);
        let bytes = stage(&mut donor.store, id, &bytes).expect("there is room");
        let next = donor.store.bounds(id).expect("it is open").1.0;
        batches.push((next, bytes));
    }
    donor.flush();
    donor.lay_out();
    let [SealedSegment::Whole(offer)] = donor.store.sealed_segments(id, Offset(0))[..] else {
        panic!("{:?}", donor.store.sealed_segments(id, Offset(0)))
    };
    Donation {
        offer,
        file: sent(&donor.store, id, &offer),
        batches,
    }
}

/// The file as a node sends it, piece by piece.
fn sent(store: &Store, id: PartitionId, offer: &SegmentOffer) -> Vec<u8> {
    let mut file = Vec::new();
    while let Some(read) = store.read_sealed(id, offer, file.len() as u64, 5_000) {
        file.extend_from_slice(&read.run().expect("it is there"));
    }
    file
}

/// Writes a file that came, in pieces.
pub(super) fn receive(mut import: Import, file: &[u8]) -> Result<ImportedFile, ImportError> {
    for piece in file.chunks(2 * 4096) {
        if let Err(error) = import.write(piece) {
            import.abandon();
            return Err(error);
        }
    }
    import.finish()
}

fn import(rig: &mut Rig, id: PartitionId, donation: &Donation) -> Result<(), ImportError> {
    let import = rig.store.begin_import(id, &donation.offer, None)?;
    let file = receive(import, &donation.file)?;
    assert_eq!(file.last_writer(), Epoch(5));
    rig.store.imported(file)
}

fn open_partition(rig: &mut Rig, number: u8) -> PartitionId {
    let id = partition(number);
    rig.store.open_partition(id, rolling(id));
    id
}

fn assert_sound(rig: &Rig) {
    let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
    let report = check(&disk, &rig.store.config.identity, &mut |_| {}).expect("the checkpoint is sound");
    assert!(report.is_sound(), "{:?}", report.faults);
    assert!(report.orphans.is_empty(), "{:?}", report.orphans);
}

/// All files of partitions and imports.
pub(super) fn segment_files(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| path.starts_with("partitions") || path.starts_with("imports");
    disk.paths().into_iter().filter(is_one).collect()
}

#[test]
fn what_is_imported_is_read_and_goes_on() {
    for first in [0, 1_000] {
        let mut rig = Rig::new();
        let id = open_partition(&mut rig, 0);
        let one = donate(id, first, 1);
        let two = donate(id, one.offer.next.0, 7);
        import(&mut rig, id, &one).expect("it is sound");
        import(&mut rig, id, &two).expect("it goes on behind the first");
        let mut expected = [one.bytes(), two.bytes()].concat();
        assert_eq!(rig.bounds(0), (first, two.offer.next.0));
        assert_eq!(rig.read(0), expected, "readers see it at once");
        assert!(rig.store.awaits_checkpoint(id) && rig.store.layout_is_due());
        rig.round();
        assert!(!rig.store.awaits_checkpoint(id));
        assert!(
            rig.disk
                .list(Path::new("imports/000"))
                .expect("it can be listed")
                .is_empty()
        );
        for _ in 0..4 {
            expected.extend_from_slice(&rig.append(0, 3_000));
        }
        rig.flush();
        let (mut rig, _) = rig.restart();
        assert_eq!(rig.bounds(0).0, first);
        assert_eq!(rig.read(0), expected);
        rig.lay_out();
        let (mut rig, _) = rig.restart();
        assert_eq!(rig.read(0), expected);
        assert_sound(&rig);
        let disk: Arc<dyn Disk> = Arc::new(rig.disk.clone());
        let stored = stored_batches(&disk, &config().identity, id).expect("nothing is damaged");
        assert_eq!(stored.concat(), expected);
        let identity = config().identity;
        let listed = list_segments(&disk, &identity, |_| true).expect("the checkpoint is sound");
        let listed: Vec<_> = listed.map(|segment| (segment.first, segment.sealed)).collect();
        assert_eq!(listed[..2], [(one.offer.first, true), (two.offer.first, true)]);
    }
}

#[test]
fn an_import_goes_on_behind_what_is_laid_out() {
    let mut rig = Rig::new();
    let mut expected = rig.append(0, 700).to_vec();
    let id = partition(0);
    let donation = donate(id, 1, 3);
    let refused = |rig: &mut Rig| match rig.store.begin_import(id, &donation.offer, None) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("the journal has a batch of it"),
    };
    let waits = format!("the journal still has entries of {id} that no checkpoint covers");
    assert_eq!(refused(&mut rig), waits);
    rig.flush();
    assert_eq!(refused(&mut rig), waits);
    rig.lay_out_only();
    assert_eq!(refused(&mut rig), waits, "no checkpoint says so");
    rig.checkpoint();
    import(&mut rig, id, &donation).expect("the open segment ends there");
    expected.extend_from_slice(&donation.bytes());
    assert_eq!(rig.read(0), expected);
    rig.round();
    expected.extend_from_slice(&rig.append(0, 700));
    rig.flush();
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), expected);
    assert_sound(&rig);
}

#[test]
fn a_segment_that_goes_on_elsewhere_is_refused() {
    let mut rig = Rig::new();
    rig.append(0, 700);
    rig.append(0, 700);
    rig.flush();
    rig.lay_out();
    let files = segment_files(&rig.disk);
    for first in [0, 1, 3] {
        let donation = donate(partition(0), first, 3);
        let error = import(&mut rig, partition(0), &donation).expect_err("the log ends at 2");
        assert!(
            matches!(error, ImportError::Elsewhere { next: Offset(2), .. }),
            "{error}"
        );
    }
    let donation = donate(partition(9), 0, 3);
    let error = import(&mut rig, partition(9), &donation).expect_err("nobody opened it");
    assert!(matches!(error, ImportError::UnknownPartition(_)), "{error}");
    assert_eq!(segment_files(&rig.disk), files);
}

#[test]
fn one_segment_of_a_partition_is_imported_at_a_time() {
    let mut rig = Rig::new();
    let id = open_partition(&mut rig, 0);
    let donation = donate(id, 0, 3);
    let mut first = rig
        .store
        .begin_import(id, &donation.offer, None)
        .expect("it is empty");
    first.write(&donation.file[..4096]).expect("the disk works");
    assert_eq!(first.received(), 4096);
    let error = rig.store.begin_import(id, &donation.offer, None).err();
    assert!(matches!(error, Some(ImportError::UnderWay(_))), "{error:?}");
    // A peer that went away: what it sent is written over.
    drop(first);
    import(&mut rig, id, &donation).expect("it is sound");
    assert_eq!(rig.read(0), donation.bytes());
}

#[test]
#[should_panic(expected = "a log is left alone while a segment is imported")]
fn an_append_beside_an_import_is_a_mistake() {
    let mut rig = Rig::new();
    let id = open_partition(&mut rig, 0);
    let _import = rig.store.begin_import(id, &donate(id, 0, 3).offer, None);
    rig.append(0, 10);
}

#[test]
#[should_panic(expected = "a log goes on behind an import when a checkpoint names it")]
fn an_append_before_the_checkpoint_is_a_mistake() {
    let mut rig = Rig::new();
    let id = open_partition(&mut rig, 0);
    import(&mut rig, id, &donate(id, 0, 3)).expect("it is sound");
    rig.append(0, 10);
}

#[test]
fn an_import_that_is_not_ended_is_removed_at_the_next_start() {
    let mut rig = Rig::new();
    rig.append(1, 700);
    rig.flush();
    rig.lay_out();
    let files = segment_files(&rig.disk);
    for whole in [false, true] {
        let id = open_partition(&mut rig, 0);
        let donation = donate(id, 0, 3);
        match whole {
            false => {
                let begun = rig.store.begin_import(id, &donation.offer, None);
                let mut begun = begun.expect("it is empty");
                begun.write(&donation.file[..4096]).expect("the disk works");
            }
            true => import(&mut rig, id, &donation).expect("it is sound"),
        }
        assert!(segment_files(&rig.disk).len() == files.len() + 2);
        (rig, _) = rig.restart();
        assert_eq!(segment_files(&rig.disk), files);
    }
}

#[test]
fn imports_that_cannot_be_listed_are_told_and_left_to_the_next_start() {
    let mut rig = Rig::new();
    let id = open_partition(&mut rig, 0);
    import(&mut rig, id, &donate(id, 0, 3)).expect("it is sound");
    let files = segment_files(&rig.disk);
    rig.disk.count_reads(true);
    rig.disk.fail_when(|call| {
        let is_list = call.kind == OperationKind::List && call.path.starts_with("imports");
        is_list.then_some(FaultKind::Error {
            errno: 5,
            applied: Applied::Nothing,
        })
    });
    let ((rig, _), told) = with_events(|| rig.restart());
    assert_eq!((segment_files(&rig.disk), told), (files, 1));
    rig.disk.clear_faults();
    let ((rig, _), told) = with_events(|| rig.restart());
    assert_eq!((segment_files(&rig.disk), told), (Vec::new(), 0));
}

#[test]
fn a_partition_that_is_deleted_meanwhile_takes_the_import_along() {
    let mut rig = Rig::new();
    rig.append(1, 700);
    rig.flush();
    rig.lay_out();
    let files = segment_files(&rig.disk);
    let id = open_partition(&mut rig, 0);
    let donation = donate(id, 0, 3);
    let begun = rig
        .store
        .begin_import(id, &donation.offer, None)
        .expect("it is empty");
    rig.store.delete_partition(id).expect("there is room");
    let file = receive(begun, &donation.file).expect("it is sound");
    let error = rig.store.imported(file).expect_err("it is gone");
    assert!(matches!(error, ImportError::UnknownPartition(_)), "{error}");
    rig.flush();
    rig.remove();
    let (rig, _) = rig.restart();
    assert_eq!(segment_files(&rig.disk), files);
}

/// Why a file is refused, which leaves nothing behind. None if it is not.
fn refusal(donation: &Donation, writer_before: Option<Epoch>) -> Option<ImportError> {
    let mut rig = Rig::new();
    let id = open_partition(&mut rig, 0);
    let begun = rig.store.begin_import(id, &donation.offer, writer_before);
    let error = begun.and_then(|import| receive(import, &donation.file)).err()?;
    assert_eq!(segment_files(&rig.disk), Vec::<PathBuf>::new(), "{error}");
    assert_eq!(rig.bounds(0), (0, 0));
    import_afterwards(&mut rig, id);
    Some(error)
}

/// A refusal stands in the way of nothing.
fn import_afterwards(rig: &mut Rig, id: PartitionId) {
    import(rig, id, &donate(id, 0, 3)).expect("it is sound");
}

fn is_damaged(error: Option<&ImportError>) -> bool {
    matches!(error, Some(ImportError::Fault(Fault::Damaged { file, .. })) if file.ends_with(".segment"))
}

#[test]
fn a_file_of_another_owner_is_refused() {
    let id = partition(0);
    let of_another_cluster = StoreConfig {
        identity: JournalIdentity {
            cluster: ClusterId([4; 16]),
            ..donors_config().identity
        },
        ..donors_config()
    };
    for donation in [
        donate_as(of_another_cluster, id, 0, 3),
        donate(partition(4), 0, 3),
    ] {
        let error = refusal(&donation, None);
        assert!(is_damaged(error.as_ref()), "{error:?}");
    }
    let mut donation = donate(id, 0, 3);
    donation.offer.generation = 1;
    donation.offer.sparse = true;
    let error = refusal(&donation, None);
    assert!(is_damaged(error.as_ref()), "another generation: {error:?}");
}

#[test]
fn an_offer_that_the_file_does_not_keep_is_refused() {
    let whole = donate(partition(0), 0, 3);
    assert!(refusal(&whole, Some(Epoch(5))).is_none());
    let error = refusal(&whole, Some(Epoch(6)));
    assert!(is_damaged(error.as_ref()), "an older writer: {error:?}");
    type Change = fn(&mut SegmentOffer);
    let changes: [Change; 5] = [
        |offer| offer.first = Offset(1),
        |offer| offer.next = offer.next.advance(1),
        |offer| offer.next = offer.next.advance(-1),
        |offer| offer.aborted = 1,
        |offer| offer.max_timestamp_ms += 1,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut donation = donate(partition(0), 0, 3);
        change(&mut donation.offer);
        let error = refusal(&donation, None);
        assert!(is_damaged(error.as_ref()), "change {number}: {error:?}");
    }
    let impossible: [Change; 4] = [
        |offer| offer.next = offer.first,
        |offer| offer.next = Offset(i64::MAX),
        |offer| offer.bytes = 0,
        |offer| offer.bytes -= 1,
    ];
    for change in impossible {
        let mut donation = donate(partition(0), 0, 3);
        change(&mut donation.offer);
        let error = refusal(&donation, None);
        assert!(matches!(error, Some(ImportError::NoSegment(_))), "{error:?}");
    }
}

#[test]
fn a_file_that_is_cut_short_or_too_long_is_refused() {
    let whole = donate(partition(0), 0, 3);
    for blocks in (0..whole.file.len() / 4096).chain([whole.file.len() / 4096 + 1]) {
        let mut donation = donate(partition(0), 0, 3);
        donation.file.resize(blocks * 4096, 0);
        let error = refusal(&donation, None);
        assert!(
            matches!(error, Some(ImportError::NoPiece { .. })),
            "{blocks}: {error:?}"
        );
        // Also if the offer says so.
        donation.offer.bytes = donation.file.len() as u64;
        assert!(refusal(&donation, None).is_some(), "{blocks} blocks");
    }
    let mut odd = donate(partition(0), 0, 3);
    odd.file.pop();
    let error = refusal(&odd, None);
    assert!(matches!(error, Some(ImportError::NoPiece { .. })), "{error:?}");
}

#[test]
fn a_turned_bit_anywhere_is_found_or_touches_nothing() {
    let whole = donate(partition(0), 0, 3);
    let mut rig = Rig::new();
    let id = open_partition(&mut rig, 0);
    let (mut found, mut untouched) = (0, 0);
    let ends = whole.file.len() - 300;
    for at in (0..whole.file.len()).filter(|at| at.is_multiple_of(17) || *at > ends) {
        let mut file = whole.file.clone();
        file[at] ^= 1 << (at % 8);
        let begun = rig
            .store
            .begin_import(id, &whole.offer, None)
            .expect("it is empty");
        match receive(begun, &file) {
            Err(error) => {
                assert!(is_damaged(Some(&error)), "byte {at}: {error}");
                assert!(segment_files(&rig.disk).is_empty(), "byte {at}");
                found += 1;
            }
            Ok(_) => {
                assert!(
                    whole.file[at] == 0,
                    "byte {at} is between the table and the trailer"
                );
                untouched += 1;
            }
        }
        rig.disk.forget_operations();
    }
    assert!(found > 500 && untouched < found, "{found} {untouched}");
}

/// The identity of a donated segment's checksums.
fn identity(donation: &Donation) -> SegmentIdentity {
    SegmentIdentity {
        cluster: config().identity.cluster,
        partition: partition(0),
        segment: SegmentName {
            first: donation.offer.first.0,
            generation: 0,
        },
    }
}

/// Puts other bytes at `at` of the only chunk, under checksums of the segment that hold.
fn forge(donation: &mut Donation, change: impl FnOnce(&mut [u8])) {
    let (identity, end) = (identity(donation), donation.file.len());
    let trailer_at = end - table::TRAILER_BYTES;
    let trailer =
        table::Trailer::decode(&donation.file[trailer_at..], &identity, end as u64).expect("it is sound");
    let table_at = trailer.table_position as usize;
    change(&mut donation.file[..table_at]);
    let bytes = &donation.file[table_at..table_at + table::ENTRY_BYTES];
    let mut index = table::Index::decode(bytes, 1).expect("one chunk");
    index.chunks[0].checksum = identity.checksum(0, &donation.file[..index.chunks[0].length as usize]);
    let encoded = index.encode();
    donation.file[table_at..table_at + encoded.len()].copy_from_slice(&encoded);
    let trailer = table::Trailer {
        table_checksum: identity.checksum(table_at as u64, &encoded),
        ..trailer
    };
    donation.file[trailer_at..].copy_from_slice(&trailer.encode(&identity, end as u64));
}

#[test]
fn a_forged_file_is_refused_though_its_checksums_hold() {
    let mut same = donate(partition(0), 0, 3);
    forge(&mut same, |_| {});
    assert!(refusal(&same, None).is_none());
    type Change = fn(&mut [u8]);
    let second = |content: &[u8]| {
        record::batches(content)
            .next()
            .expect("three")
            .expect("whole")
            .1
            .len()
    };
    let changes: [(&str, Change); 3] = [
        ("does not match its own checksum", |content| content[200] ^= 1),
        ("a batch begins at offset 7", |content| {
            record::set_base_offset(content, Offset(7))
        }),
        ("has epoch 9, and the one before", |_| {}),
    ];
    for (number, (says, change)) in changes.into_iter().enumerate() {
        let mut donation = donate(partition(0), 0, 3);
        let start = second(&donation.file);
        forge(&mut donation, |content| match number {
            2 => {
                record::set_leader_epoch(content, Epoch(10));
                record::set_leader_epoch(&mut content[start..], Epoch(9));
            }
            _ => change(content),
        });
        let error = refusal(&donation, None);
        let error = error.expect("no store wrote it").to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_file_of_another_version_is_refused() {
    let mut donation = donate(partition(0), 0, 3);
    let (identity, end) = (identity(&donation), donation.file.len());
    let trailer_at = end - table::TRAILER_BYTES;
    for version in [2_u32, 4] {
        let trailer = &mut donation.file[trailer_at..];
        trailer[8..12].copy_from_slice(&version.to_le_bytes());
        let checksum = identity.checksum(end as u64, &trailer[..table::TRAILER_BYTES - 8]);
        trailer[table::TRAILER_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
        let error = refusal(&donation, None);
        let Some(ImportError::Fault(Fault::UnknownVersion { version: found, .. })) = error else {
            panic!("{error:?}")
        };
        assert_eq!(found, version);
    }
}

#[test]
fn a_failing_disk_ends_an_import_and_nothing_else() {
    let donation = donate(partition(0), 0, 3);
    for call in 0.. {
        let mut rig = Rig::new();
        let id = open_partition(&mut rig, 0);
        let begun = rig
            .store
            .begin_import(id, &donation.offer, None)
            .expect("it is empty");
        let first = rig.disk.call_count();
        let kind = FaultKind::Error {
            errno: 5,
            applied: Applied::All,
        };
        rig.disk.fail_operation(first + call, kind);
        let ended = receive(begun, &donation.file);
        rig.disk.clear_faults();
        let is_over = rig.disk.call_count() <= first + call;
        match ended {
            Ok(file) => rig.store.imported(file).expect("it is known"),
            Err(error) => {
                assert!(matches!(error, ImportError::Fault(Fault::Disk { .. })), "{error}");
                (rig, _) = rig.restart();
                assert!(segment_files(&rig.disk).is_empty(), "call {call}");
                open_partition(&mut rig, 0);
                import_afterwards(&mut rig, id);
            }
        }
        assert_eq!(rig.read(0), donation.bytes());
        if is_over {
            assert!(call > 8, "the calls failed one by one");
            return;
        }
    }
}

#[test]
fn an_adopted_segment_is_told_apart() {
    let mut rig = roomy();
    for _ in 0..9 {
        rig.append(LARGE, VALUE_BYTES);
        rig.flush();
        rig.prepare();
    }
    rig.append(0, 10);
    rig.flush();
    rig.lay_out();
    assert!(!adopted(&rig).is_empty(), "a file was adopted");
    let id = partition(LARGE);
    let sealed = rig.store.sealed_segments(id, Offset(0));
    let [
        SealedSegment::AsBatches {
            first: Offset(0),
            next,
        },
        ..,
    ] = sealed[..]
    else {
        panic!("{sealed:?}")
    };
    assert_eq!(rig.store.sealed_segments(id, next).len(), sealed.len() - 1);
    let index = SegmentOffer::of(&rig.store.partitions[&id].segments[0]);
    assert!(rig.store.read_sealed(id, &index, 0, 4096).is_none());
}

#[test]
fn what_is_open_unrecorded_or_gone_is_not_sent() {
    let mut rig = Rig::new();
    let id = partition(0);
    for _ in 0..4 {
        rig.append(0, 3_000);
    }
    rig.flush();
    rig.lay_out_only();
    assert!(
        rig.store.sealed_segments(id, Offset(0)).is_empty(),
        "no checkpoint names it"
    );
    rig.checkpoint();
    rig.append(0, 10);
    rig.flush();
    rig.lay_out();
    let sealed = rig.store.sealed_segments(id, Offset(0));
    let [SealedSegment::Whole(offer)] = sealed[..] else {
        panic!("{sealed:?}")
    };
    let whole = sent(&rig.store, id, &offer);
    assert_eq!(whole.len() as u64, offer.bytes);
    let late = rig.store.read_sealed(id, &offer, 0, 4096).expect("it is there");
    let other = SegmentOffer { bytes: 4096, ..offer };
    assert!(rig.store.read_sealed(id, &other, 0, 4096).is_none());
    rig.trim(0, offer.next.0);
    rig.flush();
    rig.remove();
    assert!(rig.store.read_sealed(id, &offer, 0, 4096).is_none());
    assert!(late.run().is_err(), "its file is gone");
}

/// A log of which some is in segments, some in the journal, and the last not committed, is made to begin at `first`.
pub(super) fn begin_anew(first: i64, checkpoint_behind: bool) {
    let mut rig = Rig::new();
    let id = partition(0);
    for _ in 0..4 {
        rig.append(0, 3_000);
    }
    rig.flush();
    rig.lay_out();
    rig.append(1, 10);
    rig.append(0, 700);
    rig.flush();
    rig.append(0, 700);
    rig.append(0, 700);
    rig.store.begin_at(id, Offset(first)).expect("there is room");
    assert_eq!(rig.bounds(0), (first, first));
    rig.flush();
    if checkpoint_behind {
        // It reaches to the journal's first frames only: the entry is read again.
        rig.store.begin_layout();
        rig.step();
        rig.checkpoint();
    }
    let (mut rig, recovered) = rig.restart();
    let found = recovered
        .partitions
        .iter()
        .find(|found| found.id == id)
        .expect("it begins somewhere");
    assert_eq!((found.log_start, found.next), (Offset(first), Offset(first)));
    assert!(found.replay.is_empty());
    let mut expected = rig.append(0, 700).to_vec();
    rig.flush();
    assert_eq!(rig.read(0), expected);
    rig.lay_out();
    rig.remove();
    expected.extend_from_slice(&rig.append(0, 700));
    rig.flush();
    let (mut rig, _) = rig.restart();
    assert_eq!(rig.read(0), expected);
    assert_sound(&rig);
    let segments: Vec<Segment> = rig.store.partitions[&id].segments.clone();
    assert_eq!(rig.segments(0).len(), segments.len(), "files of before are gone");
}

#[test]
fn a_log_that_has_something_may_begin_anew() {
    for first in [5, 6, 7, 50] {
        for checkpoint_behind in [false, true] {
            begin_anew(first, checkpoint_behind);
        }
    }
}

#[test]
fn a_log_begins_anew_while_it_is_laid_out() {
    for is_first in [true, false] {
        let mut rig = Rig::new();
        let id = partition(0);
        if !is_first {
            rig.append(0, 700);
            rig.flush();
            rig.lay_out();
        }
        rig.append(0, 700);
        rig.flush();
        rig.store.begin_layout();
        let job = rig.store.next_layout(9_000).expect("a batch waits");
        let result = job.run();
        rig.store.begin_at(id, Offset(9)).expect("there is room");
        rig.store.laid_out(job, result).expect("the disk works");
        let expected = rig.append(0, 700);
        rig.flush();
        rig.step();
        rig.checkpoint();
        rig.remove();
        assert_eq!(rig.read(0), expected.to_vec());
        rig.lay_out();
        rig.remove();
        let (mut rig, _) = rig.restart();
        assert_eq!(rig.read(0), expected.to_vec());
        assert_sound(&rig);
    }
}

#[test]
#[should_panic(expected = "what is committed is not given up for a beginning before it")]
fn a_beginning_below_the_committed_tail_is_a_mistake() {
    let mut rig = Rig::new();
    rig.append(0, 10);
    rig.append(0, 10);
    rig.flush();
    let _ = rig.store.begin_at(partition(0), Offset(1));
}
