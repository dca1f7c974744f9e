//! Tests of the journal's bytes, and of what a scan makes of files that no run of ours leaves behind.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use platform::disk::{Disk, SimulatedDisk};
use platform::random::Random;
use record::{ClusterId, Epoch, Offset, PartitionId, TopicId};

use super::files::{Files, FoundFiles, directory};
use super::frame::*;
use super::majority::Majority;
use super::{JournalSizes, Reserve};
use crate::checksum::{DirectoryId, FrameIdentity, JournalIdentity};
use crate::witness::Witness;

const IDENTITY: JournalIdentity = JournalIdentity {
    cluster: ClusterId([1; 16]),
    directory: DirectoryId([5; 16]),
    node: 2,
    journal: 3,
};

const FRAMES: FrameIdentity = FrameIdentity {
    journal: IDENTITY,
    salt: 55,
};

/// An entry that says something in every field that its kind has.
fn entry(kind: EntryKind, payload_bytes: u32) -> EntryHeader {
    let partition = PartitionId {
        topic: TopicId([4; 16]),
        index: 5,
    };
    let epoch = match kind {
        EntryKind::Trim | EntryKind::Delete | EntryKind::Base => Epoch(0),
        _ => Epoch(6),
    };
    let first = match kind {
        EntryKind::Delete => Offset(0),
        _ => Offset(70),
    };
    let bare = EntryHeader::bare(kind, partition, epoch, first);
    match kind {
        EntryKind::Batch => EntryHeader {
            next: Offset(77),
            payload_bytes,
            ..bare
        },
        EntryKind::AbortBatch => EntryHeader {
            next: Offset(71),
            payload_bytes,
            aborts: 33,
            ..bare
        },
        EntryKind::Accept => EntryHeader {
            next: Offset(5),
            ..bare
        },
        _ => bare,
    }
}

/// A frame with one entry of each kind.
fn frame() -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    for (kind, _) in EntryKind::ALL {
        let payload = if kind.is_batch() { &b"abc"[..] } else { b"" };
        frame.extend(entry(kind, payload.len() as u32).encode());
        frame.extend(payload);
    }
    FrameHeader::complete(&mut frame, &FRAMES, 8, 9, EntryKind::ALL.len() as u32);
    frame
}

#[test]
fn a_file_header_reads_back_and_every_turned_bit_shows() {
    let header = FileHeader {
        sequence: 11,
        previous: 10,
        file_bytes: 1 << 20,
        salt: 55,
    };
    let block = header.encode(&IDENTITY);
    assert_eq!(block.len(), FILE_HEADER_BYTES);
    assert_eq!(FileHeader::decode(&block, &IDENTITY), Ok(header));
    for bit in 0..8 * 56 {
        let mut damaged = block.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            FileHeader::decode(&damaged, &IDENTITY),
            Err(FileHeaderError::Invalid),
            "bit {bit}"
        );
    }
    for bit in 8 * 56..8 * FILE_HEADER_BYTES {
        let mut damaged = block.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            FileHeader::decode(&damaged, &IDENTITY),
            Err(FileHeaderError::UnknownFields),
            "bit {bit}"
        );
    }
    for length in 0..FILE_HEADER_BYTES {
        assert_eq!(
            FileHeader::decode(&block[..length], &IDENTITY),
            Err(FileHeaderError::Invalid)
        );
    }
    let other = JournalIdentity {
        journal: 4,
        ..IDENTITY
    };
    assert_eq!(FileHeader::decode(&block, &other), Err(FileHeaderError::Invalid));
}

#[test]
fn a_file_header_of_an_unknown_version_says_which() {
    let mut block = FileHeader {
        sequence: 1,
        previous: 0,
        file_bytes: 4096,
        salt: 55,
    }
    .encode(&IDENTITY);
    put_u32(&mut block, 8, 77);
    let checksum = IDENTITY.checksum(&[&block[..48]]);
    put_u64(&mut block, 48, checksum);
    assert_eq!(
        FileHeader::decode(&block, &IDENTITY),
        Err(FileHeaderError::UnknownVersion(77))
    );
}

#[test]
fn a_frame_reads_back_with_its_entries() {
    let frame = frame();
    let header = FrameHeader::decode(&frame, &FRAMES).expect("it is whole");
    assert_eq!(
        (header.file_sequence, header.frame_sequence, header.entry_count),
        (8, 9, 8)
    );
    let body = &frame[FRAME_HEADER_BYTES..];
    assert!(header.body_holds(body, &FRAMES));
    let found = entries(&header, body).expect("they add up");
    for (found, (kind, _)) in found.iter().zip(EntryKind::ALL) {
        let payload_bytes = if kind.is_batch() { 3 } else { 0 };
        assert_eq!(found.header, entry(kind, payload_bytes));
    }
    assert_eq!(&frame[found[0].payload_start..][..3], b"abc");
}

#[test]
fn every_turned_bit_of_a_frame_shows_and_can_be_mended() {
    let frame = frame();
    let whole = FrameHeader::decode(&frame, &FRAMES).expect("it is whole");
    for bit in 0..8 * frame.len() {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let header = FrameHeader::decode(&damaged, &FRAMES);
        let holds = header.is_some_and(|header| header.body_holds(&damaged[FRAME_HEADER_BYTES..], &FRAMES));
        assert!(!holds, "bit {bit}");
        let (header, mended) = super::mend::mend(&damaged.into(), &FRAMES).expect("one bit can be mended");
        assert_eq!(header, whole);
        assert_eq!(mended, frame, "bit {bit}");
    }
}

#[test]
fn two_turned_bits_are_not_mended() {
    let frame = frame();
    for bit in 0..8 * frame.len() - 8 * 9 {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        damaged[bit / 8 + 9] ^= 0x10;
        assert!(super::mend::mend(&damaged.into(), &FRAMES).is_none(), "bit {bit}");
    }
}

#[test]
fn a_frame_of_another_place_in_history_is_not_this_one() {
    let frame = frame();
    let mut moved = frame.clone();
    FrameHeader::complete(&mut moved, &FRAMES, 8, 10, 8);
    // The new header before the old body: the body's checksum is of another frame.
    let mut mixed = frame;
    mixed[..FRAME_HEADER_BYTES].copy_from_slice(&moved[..FRAME_HEADER_BYTES]);
    let mut header = FrameHeader::decode(&mixed, &FRAMES).expect("the header is whole");
    assert!(
        header.body_holds(&mixed[FRAME_HEADER_BYTES..], &FRAMES),
        "only its own"
    );
    header.frame_sequence = 9;
    assert!(!header.body_holds(&mixed[FRAME_HEADER_BYTES..], &FRAMES));
}

#[test]
fn entries_that_do_not_add_up_are_none() {
    let frame = frame();
    let header = FrameHeader::decode(&frame, &FRAMES).expect("it is whole");
    let body = &frame[FRAME_HEADER_BYTES..];
    for length in 0..body.len() {
        assert!(entries(&header, &body[..length]).is_err(), "{length} bytes");
    }
    let mut long = body.to_vec();
    put_u32(&mut long, 4, u32::MAX);
    assert!(entries(&header, &long).is_err(), "a length beyond the body");
    let mut unknown = header;
    unknown.has_unknown = true;
    assert!(entries(&unknown, body).is_err(), "unknown fields of the frame");
}

#[test]
fn entries_that_say_what_this_version_does_not_know_are_refused() {
    for byte in (0..=255).filter(|byte| !(1..=8).contains(byte)) {
        let mut unknown = entry(EntryKind::Batch, 0).encode();
        unknown[0] = byte;
        let refused = EntryHeader::decode(&unknown).expect_err("there is no such kind");
        assert!(refused.contains(&format!("kind {byte}")), "{refused}");
    }
    for (kind, _) in EntryKind::ALL {
        let header = entry(kind, 0);
        assert_eq!(EntryHeader::decode(&header.encode()), Ok(header));
        // Flags, reserved bytes, the position.
        for bit in (8..32).chain(8 * 48..8 * 56) {
            let mut unknown = header.encode();
            unknown[bit / 8] ^= 1 << (bit % 8);
            assert!(EntryHeader::decode(&unknown).is_err(), "bit {bit} of {kind:?}");
        }
    }
}

#[test]
fn entries_with_fields_of_other_kinds_are_refused() {
    let refused = |header: EntryHeader| {
        let bytes = [&header.encode()[..], &[0; 9]].concat();
        assert!(EntryHeader::decode(&bytes).is_err(), "{header:?}");
    };
    for (kind, _) in EntryKind::ALL {
        let header = entry(kind, 0);
        refused(EntryHeader {
            first: Offset(-70),
            ..header
        });
        let mut of_no_partition = header;
        of_no_partition.partition.index = -1;
        match kind {
            EntryKind::Witness => {
                assert_eq!(
                    EntryHeader::decode(&of_no_partition.encode()),
                    Ok(of_no_partition)
                );
            }
            _ => refused(of_no_partition),
        }
        if !kind.is_batch() {
            refused(EntryHeader {
                payload_bytes: 9,
                ..header
            });
        }
        if kind != EntryKind::AbortBatch {
            refused(EntryHeader { aborts: 4, ..header });
        }
        let other_next = match kind {
            EntryKind::Batch | EntryKind::AbortBatch => Offset(70),
            // The record before the cut is of a later epoch than the one that is accepted.
            EntryKind::Accept => Offset(7),
            _ => Offset(71),
        };
        refused(EntryHeader {
            next: other_next,
            ..header
        });
    }
    for aborts in [-1, 71] {
        refused(EntryHeader {
            aborts,
            ..entry(EntryKind::AbortBatch, 0)
        });
    }
    for kind in [EntryKind::Promise, EntryKind::Witness] {
        refused(EntryHeader {
            epoch: Epoch(-1),
            ..entry(kind, 0)
        });
    }
    let beyond = Offset(i64::from(i32::MAX) + 1);
    refused(EntryHeader {
        first: beyond,
        next: beyond,
        ..entry(EntryKind::Promise, 0)
    });
    for epoch in [Epoch(-1), Epoch(i32::MAX)] {
        refused(EntryHeader {
            epoch,
            next: beyond,
            ..entry(EntryKind::Accept, 0)
        });
    }
    let (somewhere, zero) = (Offset(7), Offset(0));
    for (kind, first) in [(EntryKind::Delete, somewhere), (EntryKind::Base, zero)] {
        refused(EntryHeader {
            first,
            next: first,
            ..entry(kind, 0)
        });
    }
    refused(EntryHeader {
        epoch: Epoch(-2),
        ..entry(EntryKind::Accept, 0)
    });
    refused(EntryHeader {
        epoch: Epoch(1),
        ..entry(EntryKind::Trim, 0)
    });
}

#[test]
fn a_witness_reads_back() {
    let witness = Witness {
        node: 7,
        directory: DirectoryId([9; 16]),
        journal: 2,
        frame: 1 << 40,
    };
    let header = EntryHeader::decode(&EntryHeader::of_witness(&witness).encode());
    assert_eq!(header.expect("it is one").witness(), witness);
}

#[test]
fn a_frame_of_another_use_of_the_file_is_none() {
    let frame = frame();
    let other = FrameIdentity { salt: 56, ..FRAMES };
    assert!(FrameHeader::decode(&frame, &other).is_none());
    assert!(super::mend::mend(&frame.into(), &other).is_none());
}

/// A new journal's files.
fn files(files_max: usize) -> Files {
    let sizes = JournalSizes {
        file_bytes: 32 << 10,
        files_max,
    };
    let disk = Arc::new(SimulatedDisk::new());
    for directory in [Path::new("journals"), &directory(&IDENTITY)] {
        disk.create_directory(directory).expect("room");
    }
    Files::open(disk, Random::SYSTEM, IDENTITY, sizes, FoundFiles::default()).expect("room")
}

#[test]
fn who_fills_the_next_file_sees_how_far_this_one_is_and_when_it_is_wanted() {
    let mut files = files(4);
    let in_a_row = files.frame_bytes_max(Reserve::Use);
    files.place(in_a_row, 1, Majority::default());
    files.place(4096, 2, Majority::default());
    let job = files.next_preparation().expect("no file is ready");
    let written = || job.written.load(Ordering::Relaxed);
    assert_eq!(written(), files.next_place().1);
    files.place(4096, 3, Majority::default());
    assert_eq!(written(), files.next_place().1);
    assert!(!files.has_place(in_a_row, Reserve::Use));
    files.hurry_preparation();
    assert_eq!(written(), u64::MAX);
    files.place(4096, 4, Majority::default());
    assert_eq!(written(), files.next_place().1, "a smaller one had a place");
}
