//! The real disk in a temporary directory, and on a file system in memory where there is one.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use super::file::{continue_short_reads, continue_short_writes};
use super::*;

fn disk() -> (tempfile::TempDir, RealDisk) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let disk = RealDisk::open(&directory.path().join("made/here")).expect("the root is made");
    (directory, disk)
}

fn letters(text: &str) -> AlignedBuffer {
    let mut buffer = AlignedBuffer::zeroed(text.len() * BLOCK_BYTES);
    for (chunk, byte) in buffer.chunks_mut(BLOCK_BYTES).zip(text.bytes()) {
        chunk.fill(byte);
    }
    buffer
}

fn exercise(disk: &RealDisk) {
    let file = disk.create(Path::new("a")).expect("new");
    assert!(
        disk.create(Path::new("a"))
            .is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
    );
    let steps = RefCell::new(Vec::new());
    let watched = |filled, _| {
        steps.borrow_mut().push(filled);
        ControlFlow::Continue(Duration::from_micros(1))
    };
    file.fill_with_zeros_at((1 << 20) + 8192, &watched).expect("room");
    let expected = (1..=8).map(|step| step * (128 << 10));
    assert!(steps.into_inner().into_iter().eq(expected));
    file.write_durable(4096, &letters("xyz")).expect("room");
    file.write(0, &letters("w")).expect("room");
    file.sync().expect("a sound disk");
    let file = disk.open(Path::new("a")).expect("made above");
    let read = file.read(4090, 8200).expect("inside");
    assert!(read[..6].iter().all(|byte| *byte == b'w') && read[6..4102].iter().all(|byte| *byte == b'x'));
    assert_eq!((read.len(), read[8199]), (8200, b'z'));
    let length = file.length().expect("open");
    assert_eq!(length, (1 << 20) + 8192);
    assert!(file.read(length - 1, 1).is_ok_and(|last| last[0] == 0) && file.read(length, 0).is_ok());
    for (position, count) in [(length, 1), (length - 1, 2), (0, usize::MAX / 4)] {
        assert_eq!(
            file.read(position, count).expect_err("beyond").kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
    assert_eq!(
        file.read(u64::MAX, 2).expect_err("no such place").kind(),
        io::ErrorKind::InvalidInput
    );
}

#[test]
fn a_file_that_is_not_filled_to_its_end_has_its_space_all_the_same() {
    let (_directory, disk) = disk();
    let file = disk.create(Path::new("a")).expect("new");
    let at_once = |_, _| ControlFlow::Break(());
    file.fill_with_zeros_at(1 << 20, &at_once).expect("room");
    let metadata = std::fs::metadata(disk.root().join("a")).expect("made");
    assert_eq!(metadata.len(), 1 << 20);
    assert!(metadata.blocks() * 512 >= 1 << 20);
    file.write_durable(512 << 10, &letters("x"))
        .expect("its own space");
    let read = file.read(0, 1 << 20).expect("inside");
    let written = 512 << 10..(512 << 10) + 4096;
    for (position, byte) in read.iter().enumerate() {
        let expected = if written.contains(&position) { b'x' } else { 0 };
        assert_eq!(*byte, expected, "at {position}");
    }
}

#[test]
fn files_work_here() {
    let (_directory, disk) = disk();
    exercise(&disk);
    assert!(disk.free_bytes().expect("a sound disk") > 0);
    assert!(disk.total_bytes().expect("a sound disk") >= disk.free_bytes().expect("a sound disk"));
    assert_eq!(
        disk.list(Path::new("")).expect("it exists"),
        ["a"],
        "the probe is gone"
    );
}

#[test]
fn a_file_system_in_memory_falls_back() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: /dev/shm cannot be written");
        return;
    };
    let disk = RealDisk::open(directory.path()).expect("it exists");
    assert_eq!(disk.durable_write_mode(), DurableWriteMode::Buffered);
    exercise(&disk);
}

#[test]
fn what_names_a_new_root_is_found_from_the_root_up() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let above = directory.path();
    let parents = |path: &Path| -> Vec<PathBuf> {
        let parents = parents_of_missing(path).into_iter();
        parents.map(Path::to_path_buf).collect()
    };
    assert_eq!(
        parents(&above.join("a/b/c")),
        [above.join("a/b"), above.join("a"), above.to_path_buf()]
    );
    fs::create_dir(above.join("a")).expect("a sound disk");
    assert_eq!(parents(&above.join("a/b")), [above.join("a")]);
    assert!(parents(&above.join("a")).is_empty());
}

#[test]
fn a_root_is_made_where_names_can_be_put_and_not_read() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let above = directory.path().join("above");
    fs::create_dir(&above).expect("a sound disk");
    let set_mode = |mode| {
        fs::set_permissions(&above, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    set_mode(0o300);
    let opened = RealDisk::open(&above.join("root"));
    set_mode(0o700);
    opened.expect("a parent that cannot be opened is no failure");
}

#[test]
fn misaligned_writes_are_refused() {
    let (_directory, disk) = disk();
    let file = disk.create(Path::new("a")).expect("new");
    let two = letters("xy");
    for (position, bytes) in [(1, &two[..]), (0, &two[..100]), (0, &two[512..512 + BLOCK_BYTES])] {
        assert_eq!(
            file.write(position, bytes).expect_err("misaligned").kind(),
            io::ErrorKind::InvalidInput
        );
        assert!(file.write_durable(position, bytes).is_err());
    }
    assert!(file.fill_with_zeros(100).is_err());
    file.write_durable(0, &[]).expect("nothing to do");
    assert_eq!(file.length().expect("open"), 0);
}

#[test]
fn the_lock_is_held_once() {
    let (_directory, disk) = disk();
    let held = disk.lock().expect("free");
    let second = RealDisk::open(&disk.root()).expect("opening is no locking");
    assert_eq!(
        second.lock().err().map(|error| error.kind()),
        Some(io::ErrorKind::WouldBlock)
    );
    drop(held);
    assert!(second.lock().is_ok());
    assert!(disk.list(Path::new("")).expect("it exists").is_empty());
}

/// As a kill between the making of the file and its removal leaves it.
#[test]
fn a_probe_that_was_left_is_no_part_of_the_tree() {
    let (_directory, disk) = disk();
    for name in ["probe.4711", "probe.jpg", "probe"] {
        fs::write(disk.root().join(name), b"").expect("a sound disk");
    }
    assert_eq!(
        disk.list(Path::new("")).expect("it exists"),
        ["probe", "probe.jpg"]
    );
}

#[test]
fn looking_writes_nothing() {
    let (_directory, disk) = disk();
    let path = Path::new("a");
    let file = disk.create(path).expect("new");
    file.write_durable(0, &letters("x")).expect("room");
    let names = || -> Vec<_> {
        let entries = fs::read_dir(disk.root()).expect("it exists");
        entries
            .map(|entry| entry.expect("it exists").file_name())
            .collect()
    };
    let look = || RealDisk::open_to_read(&disk.root()).expect("it exists");
    drop(look().lock().expect("nobody has it"));
    let read = look().open(path).and_then(|file| file.read(0, 3));
    assert_eq!(&read.expect("inside")[..], b"xxx");
    let refused = |outcome: io::Result<()>| {
        outcome.is_err_and(|error| error.kind() == io::ErrorKind::ReadOnlyFilesystem)
    };
    let other = Path::new("b");
    assert!(refused(look().create(other).map(drop)) && refused(look().replace(path, b"new")));
    assert!(refused(look().rename(path, other)) && refused(look().remove(path)));
    assert!(refused(look().create_directory(other)) && refused(look().remove_directory(other)));
    let read = look().open(path).and_then(|file| file.read(0, 3));
    assert_eq!(&read.expect("inside")[..], b"xxx", "nothing has changed");
    assert_eq!(names(), ["a"]);

    let held = disk.lock().expect("free");
    let refused = look().lock().err().map(|error| error.kind());
    assert_eq!(refused, Some(io::ErrorKind::WouldBlock), "it has a lock by now");
    drop(held);
    drop(look().lock().expect("nobody has it"));
    let absent = RealDisk::open_to_read(&disk.root().join("absent"));
    assert_eq!(
        absent.map(drop).map_err(|error| error.kind()),
        Err(io::ErrorKind::NotFound)
    );
    assert!(!disk.root().join("absent").exists());
}

#[test]
fn paths_that_climb_are_refused() {
    let (_directory, disk) = disk();
    for path in ["../x", "/tmp/x", "a/../../x", ""] {
        let path = Path::new(path);
        let refused =
            |outcome: io::Result<()>| outcome.is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput);
        assert!(
            refused(disk.create(path).map(drop)) && refused(disk.open(path).map(drop)),
            "{path:?}"
        );
        assert!(
            refused(disk.remove(path)) && refused(disk.remove_directory(path)),
            "{path:?}"
        );
        assert!(
            refused(disk.replace(path, b"x")) && refused(disk.rename(path, Path::new("b"))),
            "{path:?}"
        );
        assert!(refused(disk.read_whole(path, 1).map(drop)), "{path:?}");
    }
    assert!(disk.list(Path::new("..")).is_err() && disk.create_directory(Path::new("../d")).is_err());
}

#[test]
fn a_replacement_overwrites_and_leaves_nothing_aside() {
    let (_directory, disk) = disk();
    let path = Path::new("d/m");
    assert!(disk.replace(path, b"no directory").is_err());
    disk.create_directory(Path::new("d")).expect("a sound disk");
    disk.replace(path, b"old").expect("a sound disk");
    fs::write(disk.root().join("d/m.replacing"), b"left by a crash").expect("a sound disk");
    disk.replace(path, b"newer").expect("a sound disk");
    assert_eq!(disk.read_whole(path, 5).expect("fits"), b"newer");
    assert_eq!(
        disk.read_whole(path, 4).expect_err("too long").kind(),
        io::ErrorKind::InvalidData
    );
    assert_eq!(disk.list(Path::new("d")).expect("it exists"), ["m"]);
}

#[test]
fn names_come_and_go() {
    let (_directory, disk) = disk();
    disk.create_directory(Path::new("d/e")).expect("a sound disk");
    disk.create_directory(Path::new("d/e"))
        .expect("no error if it is there");
    disk.create(Path::new("d/b")).expect("new");
    disk.create(Path::new("d/a")).expect("new");
    assert_eq!(disk.list(Path::new("d")).expect("it exists"), ["a", "b", "e"]);
    disk.rename(Path::new("d/a"), Path::new("d/b")).expect("replaces");
    assert!(
        disk.rename(Path::new("d/e"), Path::new("f")).is_err(),
        "directories stay where they are"
    );
    disk.sync_directory(Path::new("d")).expect("it exists");
    disk.remove(Path::new("d/b")).expect("it exists");
    disk.remove(Path::new("d/b")).expect("no error if there is none");
    disk.remove_directory(Path::new("d")).expect("it exists");
    disk.remove_directory(Path::new("d"))
        .expect("no error if there is none");
    assert!(disk.list(Path::new("d")).expect("empty if missing").is_empty());
}

#[test]
fn a_short_write_goes_on_from_a_whole_block() {
    let bytes = letters("abc");
    let mut calls = Vec::new();
    continue_short_writes(8192, &bytes, |position, rest| {
        calls.push((position, rest.len()));
        Ok(if calls.len() == 1 { 4096 + 512 } else { rest.len() })
    })
    .expect("continued");
    assert_eq!(calls, [(8192, 12288), (12288, 8192)]);
    let stuck = continue_short_writes(0, &bytes, |_, _| Ok(512));
    assert_eq!(
        stuck.expect_err("no whole block").kind(),
        io::ErrorKind::WriteZero
    );
    let mut count = 0;
    let failed = continue_short_writes(0, &bytes, |_, _| {
        count += 1;
        if count == 1 {
            Ok(4096)
        } else {
            Err(io::Error::from_raw_os_error(28))
        }
    });
    assert_eq!(
        (failed.expect_err("passed on").raw_os_error(), count),
        (Some(28), 2)
    );
}

#[test]
fn a_short_read_goes_on_until_the_file_ends() {
    let length = 3 * BLOCK_BYTES;
    let mut steps = vec![4096, 100].into_iter();
    let read = continue_short_reads(0, length, |_| Ok(steps.next().expect("no call after the end")));
    assert_eq!(read.expect("no error"), 4196);
    let read = continue_short_reads(0, length, |position| Ok(if position < 8192 { 4096 } else { 0 }));
    assert_eq!(read.expect("no error"), 8192);
}

/// It goes step by step then; no byte may be missing where one step ends and the next begins.
#[test]
fn a_long_read_beside_durable_writes_brings_every_byte() {
    let (_directory, disk) = disk();
    let letter = |block: usize| b'a' + (block % 23) as u8;
    let blocks = 2 * super::pace::STEP_BYTES / BLOCK_BYTES + 3;
    let text: String = (0..blocks).map(|block| char::from(letter(block))).collect();
    let file = disk.create(Path::new("long")).expect("new");
    file.write(0, &letters(&text)).expect("room");
    let other = disk.create(Path::new("other")).expect("new");
    for (first, length) in [(0, blocks * BLOCK_BYTES), (100, (blocks - 1) * BLOCK_BYTES)] {
        other.write_durable(0, &letters("x")).expect("room");
        let read = file.read(first as u64, length).expect("inside");
        assert_eq!(read.len(), length);
        let wrong = (0..length).find(|&place| read[place] != letter((first + place) / BLOCK_BYTES));
        assert_eq!(wrong, None, "read from {first} on");
    }
}
