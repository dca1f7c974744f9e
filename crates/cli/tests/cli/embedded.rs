//! A directory of the library `ropewalk` is a node's: the tools that look into one understand it, and a node serves it.

use std::path::{Path, PathBuf};

use ropewalk::{Logs, Offset, Settings};
use tempfile::TempDir;

use crate::support::{RunningNode, run};

fn open(data: &Path) -> Logs {
    let small = Settings {
        journal_file_bytes: 1 << 20,
        layout_trigger_bytes: 1 << 20,
        batch_bytes_max: 512 << 10,
        disk_reserve_bytes: 0,
        ..Settings::default()
    };
    Logs::open_with(data, small).expect("the directory is ours")
}

fn data(directory: &TempDir) -> PathBuf {
    directory.path().join("data")
}

/// Values that are lines, more of them than one journal file has room for.
fn lines(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{number} {}", "x".repeat(2_000)))
        .collect()
}

#[test]
fn check_and_inspect_understand_a_directory_of_the_library() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = data(&directory);
    let data_text = data.to_str().expect("temporary paths are text");
    let logs = open(&data);
    let changes = logs.log("changes").expect("there is room");
    for some in lines(1_500).chunks(50) {
        changes
            .append_batch(some.iter().map(String::as_str))
            .expect("there is room");
    }
    changes.trim(Offset(10)).expect("there is room");
    assert!(
        run(&["check", data_text]).complaint().contains("is in use"),
        "it is open"
    );
    logs.close();
    // So that there is something in the journal for certain, whatever the background had laid out by then.
    let logs = open(&data);
    let changes = logs.log("changes").expect("it is there");
    changes.append(b"last").expect("there is room");
    logs.close();
    let checked = run(&["check", data_text]).printed();
    assert!(!checked.is_empty());
    let journal = run(&["inspect", data_text, "journal"]).printed();
    assert!(journal.contains("offsets 1500..1501 epoch 1"), "{journal}");
    let segments = run(&["inspect", data_text, "segments"]).printed();
    assert!(segments.contains("chunk"), "{segments}");
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
