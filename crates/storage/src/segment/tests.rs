//! Tests of segments by themselves: runs, seals, damage, and the identity of every byte.

use std::path::Path;

use bytes::Bytes;
use platform::disk::{BLOCK_BYTES, Disk, SimulatedDisk};
use record::{ClusterId, PartitionId, TopicId};

use super::table::{CHUNK_BYTES, TRAILER_BYTES, Trailer, TrailerError};
use super::*;
use crate::fault::Fault;

const FIRST: i64 = 100;

fn identity() -> SegmentIdentity {
    let partition = PartitionId {
        topic: TopicId([2; 16]),
        index: 3,
    };
    SegmentIdentity {
        cluster: ClusterId([1; 16]),
        partition,
        segment: SegmentName {
            first: FIRST,
            generation: 0,
        },
    }
}

/// Batches of ten offsets each, of these sizes; here any bytes will do.
fn batches(first: i64, sizes: &[usize]) -> Vec<Batch> {
    let batch = |(index, size): (usize, &usize)| Batch {
        first: first + 10 * index as i64,
        next: first + 10 * index as i64 + 10,
        max_timestamp_ms: 1_000 + index as i64,
        bytes: Bytes::from(vec![index as u8 + 1; *size]),
    };
    sizes.iter().enumerate().map(batch).collect()
}

fn new_file(disk: &SimulatedDisk) -> SegmentFile {
    let file = disk.create(Path::new("0.segment")).expect("nothing fails");
    SegmentFile {
        file,
        identity: identity(),
        path: "0.segment".into(),
        adopted: None,
        patient: false,
    }
}

/// Writes runs of batches, the last one sealing; gives back the segment as the checkpoint would know it, and all chunks.
fn write(file: &SegmentFile, runs: &[&[usize]], seal: bool) -> (Segment, Vec<Chunk>) {
    let (mut next, mut end) = (FIRST, 0);
    let mut index = Index::default();
    for (number, sizes) in runs.iter().enumerate() {
        let batches = batches(next, sizes);
        let sealing = seal && number + 1 == runs.len();
        let run = Run {
            identity: identity(),
            start: end,
            seal: sealing.then_some(&index),
            aborted: &[],
        };
        let (written, new_end) = write_run(&*file.file, &run, &batches).expect("nothing fails");
        assert!(new_end.is_multiple_of(BLOCK_BYTES as u64) && new_end > end);
        index.chunks.extend(written);
        (next, end) = (next + 10 * sizes.len() as i64, new_end);
    }
    let segment = Segment {
        first: FIRST,
        generation: 0,
        sparse: false,
        next,
        end,
        max_timestamp_ms: 0,
        aborted: 0,
        created_ms: 0,
        sealed: seal,
        adopted: None,
    };
    (segment, index.chunks)
}

#[test]
fn runs_read_back_with_and_without_a_seal() {
    let runs: [&[usize]; 4] = [&[10], &[5_000, 70_000, 3], &[200_000], &[1, 2, 3]];
    for seal in [false, true] {
        for count in 1..=runs.len() {
            let disk = SimulatedDisk::new();
            let file = new_file(&disk);
            let (segment, chunks) = write(&file, &runs[..count], seal);
            assert_eq!(read_table(&file, &segment).expect("nothing is damaged"), chunks);
            let piece = read_piece(&file, &chunks).expect("nothing is damaged");
            let expected: Vec<u8> = runs[..count]
                .iter()
                .flat_map(|sizes| {
                    batches(0, sizes)
                        .into_iter()
                        .flat_map(|batch| batch.bytes.to_vec())
                })
                .collect();
            assert_eq!(piece.to_vec(), expected);
        }
    }
}

#[test]
fn chunks_hold_whole_batches_of_at_least_their_size() {
    let disk = SimulatedDisk::new();
    let file = new_file(&disk);
    let (_, chunks) = write(&file, &[&[CHUNK_BYTES - 1, 2, 7, CHUNK_BYTES, 9]], true);
    let spans: Vec<_> = chunks
        .iter()
        .map(|chunk| (chunk.first - FIRST, chunk.next - FIRST, chunk.length))
        .collect();
    let size = CHUNK_BYTES as u32;
    assert_eq!(spans, [(0, 20, size + 1), (20, 40, size + 7), (40, 50, 9)]);
    assert_eq!(chunks[1].max_timestamp_ms, 1_003);
}

#[test]
fn every_turned_bit_of_the_index_and_every_byte_of_the_data_shows() {
    let disk = SimulatedDisk::new();
    let file = new_file(&disk);
    let (segment, chunks) = write(&file, &[&[300, 200], &[100]], false);
    let path = Path::new("0.segment");
    let starts = [chunks[0].position, chunks[1].position];
    for byte in 0..segment.end {
        disk.flip_bit(path, 8 * byte + byte % 8);
        let read = read_table(&file, &segment).and_then(|table| read_piece(&file, &table));
        let in_run = byte
            - starts
                .into_iter()
                .rfind(|start| *start <= byte)
                .expect("runs begin at zero");
        let data_and_table = if byte < starts[1] { 500 + 56 } else { 100 + 56 };
        let is_padding = in_run >= data_and_table && in_run < (BLOCK_BYTES - TRAILER_BYTES) as u64;
        assert_eq!(read.is_ok(), is_padding, "byte {byte}");
        if let Err(fault) = read {
            assert!(matches!(fault, Fault::Damaged { file, .. } if file == "0.segment"));
        }
        disk.flip_bit(path, 8 * byte + byte % 8);
    }
}

#[test]
fn the_same_bytes_elsewhere_are_not_believed() {
    let disk = SimulatedDisk::new();
    let file = new_file(&disk);
    let (segment, chunks) = write(&file, &[&[300]], true);
    let ours = identity();
    let others = [
        SegmentIdentity {
            cluster: ClusterId([9; 16]),
            ..ours
        },
        SegmentIdentity {
            partition: PartitionId {
                index: 4,
                ..ours.partition
            },
            ..ours
        },
        SegmentIdentity {
            partition: PartitionId {
                topic: TopicId([9; 16]),
                ..ours.partition
            },
            ..ours
        },
        SegmentIdentity {
            segment: SegmentName {
                first: FIRST + 1,
                generation: 0,
            },
            ..ours
        },
        SegmentIdentity {
            segment: SegmentName {
                first: FIRST,
                generation: 1,
            },
            ..ours
        },
    ];
    for identity in others {
        let other = SegmentFile {
            identity,
            ..file.clone()
        };
        assert!(
            matches!(read_table(&other, &segment), Err(Fault::Damaged { .. })),
            "{identity:?}"
        );
        assert!(
            matches!(read_piece(&other, &chunks), Err(Fault::Damaged { .. })),
            "{identity:?}"
        );
    }
    let trailer = Trailer {
        table_position: 0,
        chunk_count: 1,
        aborted_count: 0,
        table_checksum: 0,
        previous_end: 0,
        next: 1,
    };
    let bytes = trailer.encode(&ours, 4_096);
    assert_eq!(Trailer::decode(&bytes, &ours, 4_096), Ok(trailer));
    assert_eq!(
        Trailer::decode(&bytes, &ours, 8_192),
        Err(TrailerError::Damaged),
        "another place of the same file"
    );
}

#[test]
fn a_segment_known_with_another_end_or_span_is_not_believed() {
    let disk = SimulatedDisk::new();
    let file = new_file(&disk);
    let (segment, _) = write(&file, &[&[300], &[300]], false);
    let others = [
        Segment {
            end: segment.end - 512,
            ..segment
        },
        Segment {
            end: segment.end + 4_096,
            ..segment
        },
        Segment { end: 64, ..segment },
        Segment {
            next: segment.next + 1,
            ..segment
        },
        Segment {
            first: segment.first + 1,
            ..segment
        },
        Segment { end: 0, ..segment },
    ];
    for other in others {
        assert!(
            matches!(read_table(&file, &other), Err(Fault::Damaged { .. })),
            "{other:?}"
        );
    }
    // Bytes behind the end that counts do not matter.
    let shorter = Segment {
        end: segment.end / 2,
        next: FIRST + 10,
        ..segment
    };
    assert_eq!(
        read_table(&file, &shorter)
            .expect("the first run by itself")
            .len(),
        1
    );
}

#[test]
fn an_unknown_version_says_which() {
    let ours = identity();
    let trailer = Trailer {
        table_position: 0,
        chunk_count: 1,
        aborted_count: 0,
        table_checksum: 0,
        previous_end: 0,
        next: 1,
    };
    let mut bytes = trailer.encode(&ours, 4_096);
    bytes[8] = 9;
    let checksum = ours.checksum(4_096, &bytes[..TRAILER_BYTES - 8]);
    bytes[TRAILER_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(
        Trailer::decode(&bytes, &ours, 4_096),
        Err(TrailerError::UnknownVersion(9))
    );
    bytes[8] = 3;
    for at in 52..TRAILER_BYTES - 8 {
        bytes[at] = 1;
        let checksum = ours.checksum(4_096, &bytes[..TRAILER_BYTES - 8]);
        bytes[TRAILER_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(
            Trailer::decode(&bytes, &ours, 4_096),
            Err(TrailerError::UnknownFields),
            "byte {at}"
        );
        bytes[at] = 0;
    }
}

#[test]
fn what_a_table_does_not_know_is_refused() {
    let disk = SimulatedDisk::new();
    let file = new_file(&disk);
    let (_, chunks) = write(&file, &[&[300, 200]], true);
    let index = Index {
        chunks,
        aborted: Vec::new(),
    };
    let mut bytes = index.encode();
    assert_eq!(Index::decode(&bytes, 1), Some(index));
    bytes[52] = 1;
    assert_eq!(Index::decode(&bytes, 1), None);
}

#[test]
fn aborted_transactions_read_back_and_must_be_of_the_segment() {
    let ranges = |last: i64| {
        let range = |marker: i64| AbortedRange {
            producer_id: 7,
            first: marker - 7,
            marker,
        };
        [range(FIRST + 3), range(last)]
    };
    let disk = SimulatedDisk::new();
    let file = new_file(&disk);
    let mut index = Index::default();
    let mut end = 0;
    for (number, aborted) in [
        ranges(FIRST + 9),
        ranges(FIRST + 19).map(|range| AbortedRange {
            marker: range.marker.max(FIRST + 10),
            ..range
        }),
    ]
    .iter()
    .enumerate()
    {
        let run = Run {
            identity: identity(),
            start: end,
            seal: (number == 1).then_some(&index),
            aborted,
        };
        let written = write_run(&*file.file, &run, &batches(FIRST + 10 * number as i64, &[100]));
        let (chunks, new_end) = written.expect("nothing fails");
        index.chunks.extend(chunks);
        index.aborted.extend(aborted);
        end = new_end;
    }
    let segment = Segment {
        next: FIRST + 20,
        end,
        aborted: 4,
        ..Segment::new(FIRST, 0)
    };
    assert_eq!(read_index(&file, &segment).expect("nothing is damaged"), index);
    // Another number of them was recorded, or they are not in these offsets.
    for other in [
        Segment {
            aborted: 3,
            ..segment
        },
        Segment {
            aborted: 0,
            ..segment
        },
    ] {
        let read = read_index(&file, &other);
        assert!(matches!(read, Err(Fault::Damaged { .. })), "{read:?}");
    }
    let run = Run {
        identity: identity(),
        start: 0,
        seal: Some(&Index::default()),
        aborted: &ranges(FIRST + 10),
    };
    let (_, end) = write_run(&*file.file, &run, &batches(FIRST, &[100])).expect("nothing fails");
    let beyond = Segment {
        next: FIRST + 10,
        end,
        aborted: 2,
        ..segment
    };
    assert!(matches!(read_index(&file, &beyond), Err(Fault::Damaged { .. })));
}

#[test]
fn a_table_tells_how_many_records_there_are_and_the_least_of_their_times() {
    let record = |timestamp_ms: i64, count: i64| {
        let mut builder = record::BatchBuilder::new(record::Compression::None);
        for record in 0..count {
            builder.append(timestamp_ms + record, None, Some(b"v"), &[]);
        }
        builder.build()
    };
    let batch = |first, bytes: Bytes, count| Batch {
        first,
        next: first + count,
        max_timestamp_ms: 0,
        bytes,
    };
    let chunk = |batches: &[Batch]| {
        let disk = SimulatedDisk::new();
        let file = new_file(&disk);
        let run = Run {
            identity: identity(),
            start: 0,
            seal: None,
            aborted: &[],
        };
        let (chunks, _) = write_run(&*file.file, &run, batches).expect("nothing fails");
        (chunks[0].records, chunks[0].min_timestamp_ms)
    };
    let single = batch(FIRST, record(70, 1), 1);
    let earlier = batch(FIRST + 1, record(60, 1), 1);
    assert_eq!(chunk(&[single.clone(), earlier.clone()]), (2, 60));
    // The least time of several records is not in their header.
    let three = batch(FIRST + 2, record(50, 3), 3);
    assert_eq!(chunk(&[single.clone(), earlier, three]), (5, TIME_UNKNOWN));
    let other = batches(FIRST + 1, &[9]).remove(0);
    assert_eq!(chunk(&[single, other]), (RECORDS_UNKNOWN, TIME_UNKNOWN));
    let mut appended = record(50, 3).to_vec();
    record::set_log_append_time(&mut appended, 90);
    assert_eq!(chunk(&[batch(FIRST, appended.into(), 3)]), (3, 90));
}

#[test]
fn names_and_files_are_the_same_both_ways() {
    let name = |first, generation| SegmentName { first, generation };
    let files = [
        (name(0, 0), "00000000000000000000.segment"),
        (name(17, 3), "00000000000000000017.3.segment"),
        (
            name(i64::MAX, u32::MAX),
            "09223372036854775807.4294967295.segment",
        ),
    ];
    for (name, file) in files {
        assert_eq!(name.to_string(), file);
        assert_eq!(SegmentName::of_file(file), Some(name));
    }
    let others = [
        "17.segment",
        "00000000000000000017.0.segment",
        "00000000000000000017.03.segment",
        "00000000000000000017.3.1.segment",
        "00000000000000000017",
        "-0000000000000000017.segment",
        "000000.journal",
    ];
    for other in others {
        assert_eq!(SegmentName::of_file(other), None, "{other}");
    }
}

#[test]
fn a_chunk_ends_before_its_span_is_beyond_what_the_table_can_say() {
    let far = 3_000_000_000;
    let batch = |(first, bytes)| Batch {
        first,
        next: first + 10,
        max_timestamp_ms: 0,
        bytes: Bytes::from(vec![1u8; bytes]),
    };
    // Also where the entry of the second chunk is what does not fit into the block any more.
    for bytes in (5..4_000).step_by(7).chain(3_800..BLOCK_BYTES) {
        let disk = SimulatedDisk::new();
        let file = new_file(&disk);
        let run = Run {
            identity: identity(),
            start: 0,
            seal: None,
            aborted: &[],
        };
        let sparse = [(FIRST, 1), (FIRST + far, 1), (FIRST + 2 * far, bytes - 2)].map(batch);
        let (chunks, _) = write_run(&*file.file, &run, &sparse).expect("nothing fails");
        let spans: Vec<_> = chunks.iter().map(|chunk| chunk.next - chunk.first).collect();
        assert_eq!(spans, [far + 10, 10], "{bytes} bytes");
    }
}
