//! A directory of the library `ropewalk` is a node's: the tools that look into one understand it, and a node serves it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ropewalk::{Logs, Offset, Settings};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{RunningNode, run, run_unread};

fn small() -> Settings {
    Settings {
        journal_file_bytes: 1 << 20,
        journal_files_max: 3,
        layout_trigger_bytes: 1 << 20,
        batch_bytes_max: 512 << 10,
        disk_reserve_bytes: 0,
        ..Settings::default()
    }
}

fn open(data: &Path) -> Logs {
    Logs::open_with(data, small()).expect("the directory is ours")
}

/// As messages name it.
fn data(directory: &TempDir) -> PathBuf {
    let above = directory.path().canonicalize().expect("it is there");
    above.join("data")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// Values that are lines.
fn lines(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{number} {}", "x".repeat(2_000)))
        .collect()
}

/// Appends more than all journal files have room for: some of it is in segments for certain.
fn fill(data: &Path) -> usize {
    let logs = open(data);
    let changes = logs.log("changes").expect("there is room");
    let lines = lines(2_000);
    for some in lines.chunks(50) {
        changes
            .append_batch(some.iter().map(String::as_str))
            .expect("there is room");
    }
    changes.trim(Offset(10)).expect("there is room");
    assert!(
        run(&["check", text(data)]).complaint().contains("is in use"),
        "it is open"
    );
    logs.close();
    lines.len()
}

#[test]
fn check_and_inspect_understand_a_directory_of_the_library() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = data(&directory);
    let next = fill(&data);
    // With so much room nothing is laid out: this stays in the journal.
    let roomy = Settings {
        journal_files_max: 64,
        layout_trigger_bytes: 64 << 20,
        ..small()
    };
    let logs = Logs::open_with(&data, roomy).expect("the directory is ours");
    let changes = logs.log("changes").expect("it is there");
    changes.append(b"last").expect("there is room");
    logs.close();
    let checked = run(&["check", text(&data)]).printed();
    assert!(checked.contains(": sound"), "{checked}");
    let journal = run(&["inspect", text(&data), "journal"]).printed();
    let last = format!("offsets {next}..{} epoch 1", next + 1);
    assert!(journal.contains(&last), "{journal}");
    let segments = run(&["inspect", text(&data), "segments"]).printed();
    assert!(segments.contains("segment changes-0 offsets 0.."), "{segments}");

    let stray = data.join("partitions/stray");
    fs::create_dir(&stray).expect("writable");
    let checked = run(&["check", text(&data)]).printed();
    assert!(
        checked.contains(&format!("left over, does not count: {}", stray.display())),
        "{checked}"
    );
}

#[test]
fn a_directory_that_cannot_be_listed_is_a_fault_like_others() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = data(&directory);
    let logs = open(&data);
    let changes = logs.log("changes").expect("there is room");
    changes.append(b"one").expect("there is room");
    logs.close();
    let partitions = data.join("partitions");
    let no_text = partitions.join(OsStr::from_bytes(b"\xff"));
    fs::create_dir_all(no_text).expect("Linux takes any name");
    let checked = run(&["check", text(&data)]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let mut lines = checked.out.lines();
    assert!(
        lines.any(|line| line.starts_with("journal 0: ") && line.ends_with(": DAMAGED")),
        "{checked:?}"
    );
    let fault = format!("  reading {} failed: ", partitions.display());
    assert!(lines.any(|line| line.starts_with(&fault)), "{checked:?}");
    assert!(checked.err.contains("1 damaged place found"), "{checked:?}");
    // Scripts that look at the exit code alone are told the same.
    let unread = run_unread(&["check", text(&data)]);
    assert_eq!((unread.code, &unread.err), (Some(1), &checked.err));
}

#[test]
fn what_is_damaged_is_named_and_the_rest_is_listed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = data(&directory);
    fill(&data);
    let inspect = |words: &[&str]| run(&[&["inspect", text(&data)], words].concat());
    let segments = inspect(&["segments", "--json"]).printed();
    let first: Value = serde_json::from_str(segments.lines().next().expect("there is one")).expect("JSON");
    assert_eq!(first["fault"], Value::Null);
    let file = first["file"].as_str().expect("text");
    let mut bytes = fs::read(file).expect("it is there");
    let near_end = bytes.len() - 20;
    bytes[near_end] ^= 1;
    fs::write(file, bytes).expect("writable");

    for words in [&[][..], &["segments"], &["index"]] {
        let ran = inspect(words);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(
            ran.out.contains(&format!("DAMAGED: {file} is damaged")),
            "{ran:?}"
        );
        assert!(ran.err.contains("1 damaged place found"), "{ran:?}");
    }
    let unread = run_unread(&["inspect", text(&data), "segments"]);
    assert_eq!(unread.code, Some(1), "{unread:?}");
    let listed = inspect(&["segments", "--json"]).out;
    assert_eq!(listed.lines().count(), segments.lines().count());
    let first: Value = serde_json::from_str(listed.lines().next().expect("there is one")).expect("JSON");
    assert!(first["fault"].is_string(), "{first}");
    assert!(inspect(&[]).out.contains(" 2000 "), "the partition has its line");
    let journal = inspect(&["journal"]);
    assert_eq!(journal.code, Some(0), "{journal:?}");
}

#[test]
fn a_journal_with_a_damaged_checkpoint_does_not_keep_the_others_from_being_looked_into() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let node = RunningNode::start(&directory);
    assert_eq!(node.end_with("-TERM").code, Some(0));
    let data = data(&directory);
    let checkpoint = data.join("checkpoints/000.checkpoint");
    fs::write(&checkpoint, "not a checkpoint").expect("writable");
    for command in ["check", "inspect"] {
        let ran = run(&[command, text(&data)]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(ran.out.matches(text(&checkpoint)).count(), 1, "{ran:?}");
        assert!(ran.err.contains("1 damaged place found"), "{ran:?}");
    }
    let checked = run(&["check", text(&data)]).out;
    let journal = |number| {
        let start = format!("journal {number}: ");
        checked.lines().find(|line| line.starts_with(&start))
    };
    assert!(
        journal(0).is_some_and(|line| line.ends_with(": DAMAGED")),
        "{checked}"
    );
    assert!(
        journal(1).is_some_and(|line| line.ends_with(": sound")),
        "{checked}"
    );
}

#[test]
fn the_library_reads_what_a_node_takes() {
    let node = server::config::Config::default().limits.decompressed_bytes;
    assert_eq!(Settings::default().decompressed_bytes_max, node as u64);
}

#[test]
fn a_node_serves_what_the_library_wrote_and_the_library_goes_on() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let written = lines(1_500);
    for half in written.chunks(750) {
        // Two openings: two epochs.
        let logs = open(&data(&directory));
        let changes = logs.log("changes").expect("there is room");
        for some in half.chunks(50) {
            changes
                .append_batch(some.iter().map(String::as_str))
                .expect("there is room");
        }
    }

    let node = RunningNode::start(&directory);
    let expected = written.join("\n") + "\n";
    assert!(
        node.run(&["consume", "changes"]).printed() == expected,
        "a node serves it"
    );
    node.run_with_input(&["produce", "changes"], b"by the node")
        .printed();
    node.run_with_input(&["produce", "others"], b"one").printed();
    assert_eq!(node.end_with("-TERM").code, Some(0));

    let logs = open(&data(&directory));
    let changes = logs.log("changes").expect("it is there");
    let last = changes.read(Offset(1_500)).expect("it is kept").next();
    let last = last.expect("the node's").expect("nothing is damaged");
    assert_eq!(last.value.as_deref(), Some(&b"by the node"[..]));
    assert_eq!(changes.append(b"by the library"), Ok(Offset(1_501)));
    let others = logs.log("others").expect("a topic with one partition is a log");
    assert_eq!(others.bounds(), Offset(0)..Offset(1));
    logs.close();

    let node = RunningNode::start(&directory);
    let served = node.run(&["consume", "changes"]).printed();
    assert!(
        served == expected + "by the node\nby the library\n",
        "and a node again"
    );
}

/// A link to itself can be opened by nobody, whoever runs the tests.
#[test]
fn what_cannot_be_read_is_not_called_damaged() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = data(&directory);
    fill(&data);
    let journal = data.join("journals/000");
    let mut files = fs::read_dir(&journal).expect("it is there").flatten();
    let file = &files.next().expect("a journal has files").path();
    fs::remove_file(file).expect("it is there");
    std::os::unix::fs::symlink(file, file).expect("a link");

    let checked = run(&["check", text(&data)]);
    assert_eq!(checked.code, Some(3), "{checked:?}");
    assert!(
        checked
            .out
            .lines()
            .next()
            .is_some_and(|line| line.ends_with(": COULD NOT BE READ"))
    );
    assert!(
        checked.err.starts_with("error: 1 place could not be read: "),
        "{checked:?}"
    );
    assert!(!format!("{checked:?}").contains("restore"), "{checked:?}");
    let json = run(&["check", text(&data), "--json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        (&json["sound"], &json["faults"]),
        (&false.into(), &serde_json::json!([]))
    );
    assert_eq!(json["unread"].as_array().map(Vec::len), Some(1));

    let inspected = run(&["inspect", text(&data), "journal"]);
    assert_eq!(inspected.code, Some(3), "{inspected:?}");
    assert!(inspected.out.starts_with("COULD NOT BE READ: "), "{inspected:?}");
}
