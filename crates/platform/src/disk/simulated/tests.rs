//! The judge judged: what must be there after a crash is in every state, what may be lost is lost in some, and nothing
//! that could not happen turns up.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::*;
use crate::disk::{BLOCK_BYTES, Disk, File, RealDisk};
use crate::memory::AlignedBuffer;
use crate::random::SeededRandom;

mod crashes;
mod faults;

const BLOCK: u64 = BLOCK_BYTES as u64;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// One block for each byte of `text`, filled with it.
pub(super) fn blocks(text: &str) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(text.len() * BLOCK_BYTES);
    for (chunk, byte) in buffer.chunks_mut(BLOCK_BYTES).zip(text.bytes()) {
        chunk.fill(byte);
    }
    buffer
}

/// A file as text: a letter for each block, `.` for zeros, `?` for a mixed block, `-` for no file.
pub(super) fn text(disk: &SimulatedDisk, path: &str) -> String {
    let Some(bytes) = disk.file_bytes(Path::new(path)) else {
        return "-".to_owned();
    };
    let letter = |block: &[u8]| match block[0] {
        first if block.iter().any(|byte| *byte != first) => '?',
        0 => '.',
        first => first as char,
    };
    bytes.chunks(BLOCK_BYTES).map(letter).collect()
}

/// A disk with the durable file `a` of the given blocks and an empty record.
pub(super) fn disk_with(content: &str) -> (SimulatedDisk, Arc<dyn File>) {
    let disk = SimulatedDisk::new();
    let file = disk.create(Path::new("a")).expect("an empty disk");
    file.write_durable(0, &blocks(content)).expect("room");
    disk.sync_directory(Path::new("")).expect("no faults");
    disk.forget_operations();
    (disk, file)
}

/// All texts of `path` over the crash states at which `completed` operations had returned (all points if none).
pub(super) fn outcomes(disk: &SimulatedDisk, path: &str, completed: Option<u64>) -> BTreeSet<String> {
    disk.crash_states(1 << 12, 1)
        .filter(|left| {
            completed.is_none_or(|count| left.crash_point().expect("a crash state").completed == count)
        })
        .map(|left| text(&left, path))
        .collect()
}

pub(super) fn set(texts: &[&str]) -> BTreeSet<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn misaligned_writes_and_climbing_paths_are_refused() {
    let (disk, file) = disk_with("x");
    let block = blocks("y");
    for (position, bytes) in [
        (1, &block[..]),
        (0, &block[..512]),
        (0, &blocks("yy")[512..512 + BLOCK_BYTES]),
    ] {
        assert_eq!(
            file.write(position, bytes).expect_err("misaligned").kind(),
            io::ErrorKind::InvalidInput
        );
    }
    assert!(file.fill_with_zeros(1).is_err());
    assert!(disk.open(Path::new("../a")).is_err());
    assert!(disk.create(Path::new("/b")).is_err());
    assert_eq!(disk.operation_count(), 3, "nothing refused is recorded");
}

/// On both kinds of disk.
#[test]
fn only_a_file_without_a_name_is_shortened() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let real = RealDisk::open(directory.path()).expect("it exists");
    let disks: [&dyn Disk; 2] = [&real, &SimulatedDisk::new()];
    for disk in disks {
        let file = disk.create(Path::new("a")).expect("room");
        file.write(0, &blocks("xyz")).expect("room");
        let refused = |length: u64| {
            let refused = file.shrink_unnamed(length).expect_err("it must stay as it is");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
        };
        refused(BLOCK);
        disk.remove(Path::new("a")).expect("it is there");
        disk.sync_directory(Path::new("")).expect("it is there");
        refused(4 * BLOCK);
        file.shrink_unnamed(BLOCK).expect("it has no name");
        assert_eq!(file.length().expect("it is open"), BLOCK);
        assert_eq!(file.read(0, BLOCK_BYTES).expect("it is left"), blocks("x")[..]);
        let gone = file.read(BLOCK, 1).expect_err("that was given back");
        assert_eq!(gone.kind(), io::ErrorKind::UnexpectedEof);
    }
}

/// A name that a crash may bring back counts.
#[test]
fn a_file_that_a_crash_may_bring_back_is_not_shortened() {
    let (disk, file) = disk_with("xy");
    disk.sync_directory(Path::new("")).expect("no faults");
    disk.remove(Path::new("a")).expect("it is there");
    assert!(file.shrink_unnamed(BLOCK).is_err());
    disk.sync_directory(Path::new("")).expect("no faults");
    file.shrink_unnamed(BLOCK).expect("it has no name");
}

#[test]
fn one_lock_at_a_time() {
    let disk = SimulatedDisk::new();
    let held = disk.lock().expect("free");
    assert_eq!(
        disk.clone().lock().err().map(|error| error.kind()),
        Some(io::ErrorKind::WouldBlock)
    );
    drop(held);
    assert!(disk.lock().is_ok());
}

#[test]
fn corruption_changes_what_is_stored() {
    let (disk, file) = disk_with("xy");
    disk.replace(Path::new("b"), b"small").expect("no faults");
    disk.flip_bit(Path::new("b"), 8);
    assert_eq!(disk.file_bytes(Path::new("b")).as_deref(), Some(&b"slall"[..]));
    disk.truncate(Path::new("a"), BLOCK);
    assert_eq!(file.length().expect("open"), BLOCK);
    disk.swap_files(Path::new("a"), Path::new("b"));
    assert_eq!(text(&disk, "b"), "x");
    assert_eq!(text(&disk.crash(0), "b"), "x");
    assert_eq!(disk.paths(), [PathBuf::from("a"), PathBuf::from("b")]);
}

#[test]
fn operations_tell_what_was_done() {
    let (disk, file) = disk_with("x");
    file.write(BLOCK, &blocks("yz")).expect("room");
    file.sync().expect("no faults");
    disk.remove(Path::new("missing")).expect("no error");
    let told: Vec<String> = disk.operations().iter().map(ToString::to_string).collect();
    assert_eq!(told, ["#3 Write a 4096+8192", "#4 Sync a 0+0"]);
    assert_eq!((disk.operation_count(), disk.call_count()), (5, 6));
}

/// Does a random run of calls on both disks and compares every answer: the simulated one must look like the real one.
#[test]
fn looks_like_the_real_disk() {
    for seed in 0..20 {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let real = RealDisk::open(directory.path()).expect("it exists");
        let simulated = SimulatedDisk::new();
        let mut random = SeededRandom::new(seed);
        for step in 0..60 {
            let draw = [random.next_u64(), random.next_u64(), random.next_u64()];
            let answers = (act(&real, draw), act(&simulated, draw));
            assert_eq!(answers.0, answers.1, "seed {seed} step {step}");
        }
    }
}

/// One call chosen by `draw`, and its answer as text.
fn act(disk: &dyn Disk, draw: [u64; 3]) -> String {
    let paths = ["a", "b", "d/a", "d/e/b", "d", "d/e", "gone/x"];
    let pick = |number: u64| Path::new(paths[(number % paths.len() as u64) as usize]);
    let (path, other) = (pick(draw[1]), pick(draw[2]));
    let bytes = blocks(["p", "qr", "stu"][(draw[2] % 3) as usize]);
    let on_file =
        |call: &dyn Fn(&dyn File) -> io::Result<String>| disk.open(path).and_then(|file| call(&*file));
    let done = |outcome: io::Result<()>| outcome.map(|()| "done".to_owned());
    let position = draw[2] / 8 % 3 * BLOCK;
    let answer = match draw[0] % 16 {
        0 | 1 => disk
            .create(path)
            .and_then(|file| file.length())
            .map(|length| length.to_string()),
        2 => done(disk.create_directory(path)),
        3 => done(disk.remove(path)),
        4 => done(disk.rename(path, other)),
        5 => done(disk.remove_directory(path)),
        6 => done(disk.replace(path, &bytes[..(draw[2] % 5000) as usize % bytes.len()])),
        7 => disk.list(path).map(|names| format!("{names:?}")),
        8 => disk.read_whole(path, 6000).map(|bytes| format!("{bytes:?}")),
        9 | 10 | 12 => on_file(&|file| done(file.write(position, &bytes))),
        11 => on_file(&|file| done(file.write_durable(position, &bytes))),
        13 => on_file(&|file| done(file.fill_with_zeros(position))),
        14 => on_file(&|file| {
            Ok(format!(
                "{:?}",
                file.read(draw[2] % 6000, draw[1] as usize % 7000)?
            ))
        }),
        _ => on_file(&|file| {
            file.sync()
                .and_then(|()| file.length())
                .map(|length| length.to_string())
        }),
    };
    answer.unwrap_or_else(|error| format!("{:?}", error.kind()))
}
