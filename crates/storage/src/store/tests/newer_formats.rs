//! Fields that a newer format may have where this one has nothing, under checksums that hold: the store does not open, says so,
//! and leaves everything as it is.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use platform::disk::{Disk, SimulatedDisk};

use super::rig::{Rig, config, copy, open, write_file};
use crate::check::check;
use crate::checksum::FrameIdentity;
use crate::fault::Fault;
use crate::inspect::list_frames;
use crate::journal::frame::{FRAME_HEADER_BYTES, get_u32, get_u64, put_u64};

/// A journal with two frames that count, and a file that is ready.
fn stored() -> SimulatedDisk {
    let mut rig = Rig::new();
    for _ in 0..2 {
        rig.append(0, 100);
        rig.flush();
    }
    rig.prepare();
    copy(&rig.disk)
}

fn journal_files(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|end| end == "journal");
    disk.paths().into_iter().filter(is_journal).collect()
}

/// Where the frames that count stand, all in the first file.
fn frames(disk: &SimulatedDisk) -> Vec<usize> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (frames, _) = list_frames(&disk, &config().identity);
    frames.iter().map(|frame| frame.position as usize).collect()
}

/// Makes both checksums of a frame hold.
fn seal(file: &mut [u8], frame: usize) {
    let identity = FrameIdentity {
        journal: config().identity,
        salt: get_u64(file, 40),
    };
    let frame = &mut file[frame..];
    let body = FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + get_u32(frame, 4) as usize;
    let sum = identity.checksum(&frame[8..24], &frame[body]);
    put_u64(frame, 32, sum);
    let sum = identity.checksum(&frame[..48], &frame[56..FRAME_HEADER_BYTES]);
    put_u64(frame, 48, sum);
}

fn assert_refused(disk: &SimulatedDisk, position: u64, what: &str) {
    let before = disk.operation_count();
    let refused = open(disk).map(|_| ()).expect_err("nobody knows what it means");
    assert!(
        matches!(&refused, Fault::Damaged { position: at, .. } if *at == position),
        "{refused}"
    );
    assert!(refused.to_string().contains(what), "{refused}");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check(&shared, &config().identity, &mut |_| {}).expect("there is no checkpoint");
    let told: Vec<_> = report.faults.iter().map(ToString::to_string).collect();
    assert!(told.contains(&refused.to_string()), "{told:?}");
    assert_eq!(disk.operation_count(), before, "nothing was written");
}

/// Sets a bit of each byte in turn, in each of the frames.
fn set_in_frames(bytes: Range<usize>, what: &str) {
    let disk = stored();
    let path = &journal_files(&disk)[0];
    let frames = frames(&disk);
    assert_eq!(frames.len(), 2);
    for frame in frames {
        for at in bytes.clone() {
            let disk = copy(&disk);
            let mut file = disk.file_bytes(path).expect("it is there");
            file[frame + at] ^= 1 << (at % 8);
            seal(&mut file, frame);
            write_file(&disk, path, &file);
            assert_refused(&disk, frame as u64, what);
        }
    }
}

#[test]
fn a_frame_header_with_other_fields_is_refused() {
    for reserved in [28..32, 40..48, 56..64] {
        set_in_frames(
            reserved,
            "fields that this version does not know: a newer one wrote it",
        );
    }
}

#[test]
fn an_entry_with_flags_or_a_position_is_refused() {
    for reserved in [1..4, 48..56] {
        let entry = FRAME_HEADER_BYTES + reserved.start..FRAME_HEADER_BYTES + reserved.end;
        set_in_frames(entry, "flags or a position, which this version does not know");
    }
}

#[test]
fn a_journal_file_header_with_other_fields_is_refused_also_of_a_file_without_frames() {
    let disk = stored();
    let paths = journal_files(&disk);
    assert_eq!(paths.len(), 2);
    for path in paths {
        for at in [56, 57, 511, 512, 4_095] {
            let disk = copy(&disk);
            let mut file = disk.file_bytes(&path).expect("it is there");
            file[at] = 0x10;
            write_file(&disk, &path, &file);
            assert_refused(&disk, 0, "fields that this version does not know");
        }
    }
}
