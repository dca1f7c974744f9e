//! Tests of the checkpoint: what is written reads back, and what cannot have been written is refused.

use platform::disk::SimulatedDisk;
use record::ClusterId;

use super::*;

const IDENTITY: JournalIdentity = JournalIdentity {
    cluster: ClusterId([1; 16]),
    directory: DirectoryId([5; 16]),
    node: 2,
    journal: 3,
};

#[test]
fn a_checkpoint_that_could_not_be_read_is_not_written() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
    let file_bytes = HEADER_BYTES + checkpoint().encode(&IDENTITY.directory).len();
    let refused = checkpoint().write_up_to(file_bytes - 1, &disk, &IDENTITY);
    assert!(refused.is_err_and(|error| error.to_string().contains("producers.per_partition_max")));
    let read = || Checkpoint::read(&disk, &IDENTITY).expect("the disk works");
    assert_eq!(read(), None);
    checkpoint()
        .write_up_to(file_bytes, &disk, &IDENTITY)
        .expect("it is small enough");
    assert_eq!(read(), Some(checkpoint()));
}

fn checkpoint() -> Checkpoint {
    let partition = |number: u8, segments: i64| PartitionCheckpoint {
        id: PartitionId {
            topic: TopicId([number; 16]),
            index: i32::from(number),
        },
        log_start: 5,
        laid_out: 10 * segments,
        segments: (0..segments)
            .map(|index| Segment {
                first: 10 * index,
                next: 10 * index + 10,
                end: 4_096,
                max_timestamp_ms: -1,
                created_ms: 77,
                sealed: index + 1 < segments,
                sparse: index == 0,
                aborted: index as u32,
                generation: if index == 0 && segments > 1 { 4 } else { 0 },
                adopted: (number == 1 && index == 1).then_some(AdoptedFile {
                    number: 12,
                    sequence: 3,
                    salt: u64::MAX,
                    bytes: 1 << 20,
                }),
            })
            .collect(),
        cleaned: (1..segments)
            .map(|pass| Cleaned {
                until: 7 * pass,
                at_ms: 1_000 * pass,
                tombstones: 3,
            })
            .collect(),
        state_next: 99,
        state: vec![number; usize::from(number)].into(),
    };
    let whole = Removal {
        partition: partition(8, 0).id,
        segment: None,
        adopted: None,
    };
    Checkpoint {
        replay: ReplayStart {
            file_sequence: 4,
            position: 8_192,
            frame: 6,
        },
        partitions: vec![partition(0, 0), partition(1, 3), partition(200, 1)],
        removals: vec![
            whole,
            Removal {
                segment: Some(SegmentName {
                    first: 0,
                    generation: 2,
                }),
                adopted: Some(AdoptedFile {
                    number: 13,
                    sequence: 2,
                    salt: 5,
                    bytes: 1 << 20,
                }),
                ..whole
            },
        ],
        witnesses: vec![
            witness(0, 6, 1, 0),
            witness(3, 1, 0, 1 << 40),
            witness(3, 1, 2, 7),
            witness(3, 2, 1, i64::MAX as u64),
            witness(4, 1, 1, 8),
        ],
    }
}

fn witness(node: i32, directory: u8, journal: u32, frame: u64) -> Witness {
    Witness {
        node,
        directory: DirectoryId([directory; 16]),
        journal,
        frame,
    }
}

#[test]
fn it_reads_back() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
    assert_eq!(Checkpoint::read(&disk, &IDENTITY).expect("nothing fails"), None);
    let empty = Checkpoint {
        partitions: Vec::new(),
        removals: Vec::new(),
        witnesses: Vec::new(),
        ..checkpoint()
    };
    for written in [checkpoint(), empty, checkpoint()] {
        written.write(&disk, &IDENTITY).expect("nothing fails");
        assert_eq!(
            Checkpoint::read(&disk, &IDENTITY).expect("nothing fails"),
            Some(written)
        );
    }
}

#[test]
fn the_checkpoint_of_another_directory_is_refused_and_says_so() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
    checkpoint().write(&disk, &IDENTITY).expect("nothing fails");
    let other = JournalIdentity {
        directory: DirectoryId([6; 16]),
        ..IDENTITY
    };
    let refused = Checkpoint::read(&disk, &other).expect_err("it is not of this directory");
    let (written, read) = ("05".repeat(16), "06".repeat(16));
    let what = format!("written for directory {written}, and this is directory {read}");
    assert!(refused.to_string().contains(&what), "{refused}");
}

#[test]
fn reserved_bytes_of_the_header_are_refused() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
    checkpoint().write(&disk, &IDENTITY).expect("nothing fails");
    let path = path(&IDENTITY);
    let mut bytes = disk
        .read_whole(&path, FILE_BYTES_MAX)
        .expect("just written")
        .to_vec();
    bytes[15] = 1;
    let checksum = IDENTITY.checksum(&[&bytes[..16], &bytes[HEADER_BYTES..]]);
    bytes[16..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    disk.replace(&path, &bytes).expect("nothing fails");
    let refused = Checkpoint::read(&disk, &IDENTITY).expect_err("nobody knows what it means");
    assert!(
        refused
            .to_string()
            .contains("fields that this version does not know"),
        "{refused}"
    );
}

#[test]
fn content_that_does_not_add_up_is_none() {
    let encoded = checkpoint().encode(&IDENTITY.directory).split_off(16);
    assert_eq!(decode(&encoded), Some(checkpoint()));
    for length in 0..encoded.len() {
        assert_eq!(decode(&encoded[..length]), None, "{length} bytes");
    }
    assert_eq!(decode(&[&encoded[..], b"x"].concat()), None);
    // The flags of the first segment there is, of the second partition.
    let flags = encoded.windows(8).position(|bytes| bytes == 77i64.to_le_bytes());
    let mut flagged = encoded.clone();
    flagged[flags.expect("when it was begun") + 8] |= 4;
    assert_eq!(decode(&flagged), None);
    // A count of more partitions than the bytes could hold is not believed, whatever it says.
    let mut many = encoded.clone();
    many[24..28].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(decode(&many), None);
    // Nor one of witnesses.
    let witnesses = encoded.len() - checkpoint().witnesses.len() * WITNESS_BYTES - 4;
    for count in [0, 4, 6, u32::MAX] {
        let mut other = encoded.clone();
        other[witnesses..witnesses + 4].copy_from_slice(&count.to_le_bytes());
        assert_eq!(decode(&other), None, "{count} witnesses");
    }
}

/// One change that no store makes.
type Forge = fn(&mut Checkpoint);

const FORGERIES: [(&str, Forge); 37] = [
    ("a position in the header", |forged| forged.replay.position = 0),
    ("a position between blocks", |forged| forged.replay.position += 1),
    ("a position beyond all files", |forged| {
        forged.replay.position = 1 << 63
    }),
    ("a frame beyond all", |forged| forged.replay.frame = u64::MAX),
    ("a file beyond all", |forged| {
        forged.replay.file_sequence = u64::MAX
    }),
    ("a log start below zero", |forged| {
        forged.partitions[0].log_start = -1
    }),
    ("a log start before the segments", |forged| {
        forged.partitions[2].segments[0].first = 6
    }),
    ("a log start before what was laid out", |forged| {
        forged.partitions[0].laid_out = 6
    }),
    ("a laid out below zero", |forged| {
        forged.partitions[0].laid_out = -1
    }),
    ("a laid out beyond all offsets", |forged| {
        let partition = &mut forged.partitions[0];
        (partition.log_start, partition.laid_out, partition.state_next) = (i64::MAX, i64::MAX, i64::MAX);
    }),
    ("a laid out behind the segments", |forged| {
        forged.partitions[1].laid_out = 31
    }),
    ("a laid out before the segments' end", |forged| {
        forged.partitions[1].laid_out = 29
    }),
    ("a state that does not reach", |forged| {
        forged.partitions[1].state_next = 29
    }),
    ("segments that overlap", |forged| {
        forged.partitions[1].segments[1].first = 9
    }),
    ("segments with a gap", |forged| {
        forged.partitions[1].segments[0].next = 9
    }),
    ("segments out of order", |forged| {
        forged.partitions[1].segments.swap(0, 1)
    }),
    ("a segment that ends before it begins", |forged| {
        let segments = &mut forged.partitions[1].segments;
        (segments[0].next, segments[1].first) = (-1, -1);
    }),
    ("a segment without bytes", |forged| {
        forged.partitions[1].segments[2].end = 0
    }),
    ("a segment of half a block", |forged| {
        forged.partitions[1].segments[2].end = 2_048
    }),
    ("segments larger than any disk", |forged| {
        for segment in &mut forged.partitions[1].segments {
            segment.end = 1 << 63;
        }
    }),
    ("an open segment before others", |forged| {
        forged.partitions[1].segments[0].sealed = false
    }),
    ("a compacted segment that is open", |forged| {
        forged.partitions[1].segments[2].generation = 1
    }),
    ("a compacted segment that is a journal file", |forged| {
        forged.partitions[1].segments[1].generation = 1
    }),
    ("a pass beyond what was laid out", |forged| {
        forged.partitions[1].cleaned[1].until = 31
    }),
    ("passes out of order", |forged| {
        forged.partitions[1].cleaned.swap(0, 1)
    }),
    ("a partition twice", |forged| {
        forged.partitions[2] = forged.partitions[1].clone()
    }),
    ("a partition below zero", |forged| {
        forged.partitions[0].id.index = -1
    }),
    ("partitions out of order", |forged| forged.partitions.swap(0, 1)),
    ("a removal of a partition below zero", |forged| {
        forged.removals[0].partition.index = -1
    }),
    ("a journal file twice", |forged| {
        forged.removals[0].adopted = forged.removals[1].adopted
    }),
    ("an adopted file that recovery needs", |forged| {
        let adopted = &mut forged.partitions[1].segments[1].adopted;
        adopted.as_mut().expect("it has one").sequence = 4;
    }),
    ("an adopted file with no such number", |forged| {
        let adopted = &mut forged.partitions[1].segments[1].adopted;
        adopted.as_mut().expect("it has one").number = u32::MAX;
    }),
    ("a witness of no node", |forged| forged.witnesses[0].node = -1),
    ("a witness of a frame beyond all", |forged| {
        forged.witnesses[3].frame += 1
    }),
    ("a witness twice", |forged| {
        forged.witnesses[2] = forged.witnesses[1]
    }),
    ("two witnesses of a journal", |forged| {
        forged.witnesses[2].journal = 0
    }),
    ("witnesses out of order", |forged| forged.witnesses.swap(3, 4)),
];

#[test]
fn what_contradicts_itself_is_damage() {
    let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
    for (what, forge) in FORGERIES {
        let mut forged = checkpoint();
        forge(&mut forged);
        forged.write(&disk, &IDENTITY).expect("nothing fails");
        match Checkpoint::read(&disk, &IDENTITY) {
            Err(Fault::Damaged { file, .. }) => assert!(file.ends_with("003.checkpoint"), "{file}"),
            other => panic!("{what}: {other:?}"),
        }
    }
}
