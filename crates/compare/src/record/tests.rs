//! The record of runs: gone on with, refused, and on a disk that is full.

use super::*;

fn asked(suite: &str) -> Asked {
    Asked {
        suite: suite.to_owned(),
        hosts: Vec::new(),
        nodes: 1,
        seconds: 3.0,
        scale: 1.0,
        warmup_seconds: 20.0,
        machine: "2 × a CPU".to_owned(),
        disk: "ext4 on device 254:0".to_owned(),
        build: "0.1.0 (aaaa)".to_owned(),
    }
}

fn key() -> CellKey {
    CellKey::made_up("100 B")
}

fn run(repetition: u32) -> Run {
    Run {
        figures: BTreeMap::from([("p50_us".to_owned(), 12.5)]),
        latency_ns: vec![(12_500, 3)],
        verified_records: Some(3),
        ..Run::new(&key(), repetition)
    }
}

fn failed(repetition: u32) -> Run {
    Run {
        failure: Some("java is missing".to_owned()),
        ..Run::new(&key(), repetition)
    }
}

/// Where a record may be.
fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("runs.jsonl");
    (directory, path)
}

fn open(path: &Path) -> Record {
    Record::open(path, &asked("quick")).expect("new, or the same")
}

#[test]
fn it_goes_on_where_it_stopped_and_drops_a_torn_line() {
    let (_directory, path) = place();
    let mut record = open(&path);
    record.add(Line::Run(run(0)));
    drop(record);
    let torn = OpenOptions::new().append(true).open(&path).expect("it is there");
    (&torn)
        .write_all(b"{\"line\":\"run\",\"exp")
        .expect("there is room");
    let mut record = open(&path);
    assert_eq!(record.runs(&key()).collect::<Vec<_>>(), [&run(0)]);
    record.add(Line::Run(run(1)));
    drop(record);
    let record = open(&path);
    assert_eq!(record.runs(&key()).count(), 2);
    let other = CellKey {
        identity: "able 2".to_owned(),
        ..key()
    };
    assert_eq!(
        record.runs(&other).count(),
        0,
        "another version is another system"
    );
}

#[test]
fn what_failed_is_tried_again_and_the_later_run_counts() {
    let (_directory, path) = place();
    let mut record = open(&path);
    record.add(Line::Run(run(0)));
    record.add(Line::Run(failed(1)));
    assert_eq!(record.runs(&key()).count(), 2);
    drop(record);
    let mut record = open(&path);
    assert_eq!(record.runs(&key()).collect::<Vec<_>>(), [&run(0)]);
    record.add(Line::Run(run(1)));
    drop(record);
    let record = open(&path);
    assert_eq!(record.runs(&key()).collect::<Vec<_>>(), [&run(0), &run(1)]);
}

#[test]
fn a_broken_promise_is_not_forgotten() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("runs.jsonl");
    let broken = Run {
        broke_its_promise: true,
        ..failed(1)
    };
    let mut record = Record::open(&path, &asked("quick")).expect("new");
    record.add(Line::Run(broken.clone()));
    let busy = Record::open(&path, &asked("quick")).expect_err("the first is open");
    assert!(format!("{busy:#}").contains("in use"), "{busy:#}");
    drop(record);
    let record = open(&path);
    assert_eq!(record.runs(&key()).collect::<Vec<_>>(), [&broken]);
}

#[test]
fn another_comparison_or_another_build_is_not_mixed_in() {
    let (_directory, path) = place();
    open(&path);
    let build = Asked {
        build: "0.1.0 (bbbb)".to_owned(),
        ..asked("quick")
    };
    let warm = Asked {
        warmup_seconds: 1.0,
        disk: "ext4 on device 254:0".to_owned(),
        ..asked("quick")
    };
    for (other, words) in [
        (asked("field"), "suite \"quick\" (now \"field\")"),
        (build, "build \"0.1.0 (aaaa)\" (now \"0.1.0 (bbbb)\")"),
        (warm, "warmup_seconds 20.0 (now 1.0)"),
    ] {
        let error = Record::open(&path, &other).expect_err(words).to_string();
        assert!(
            error.contains("--out") && error.contains("remove it") && error.contains(words),
            "{error}"
        );
    }
    // As written before there were builds in it.
    let old = "{\"line\":\"asked\",\"suite\":\"quick\",\"nodes\":1,\"seconds\":3.0,\"scale\":1.0}\n";
    for text in ["nonsense\n", old] {
        std::fs::write(&path, text).expect("there is room");
        let error = Record::open(&path, &asked("quick")).expect_err(text).to_string();
        assert!(error.contains("--out"), "{error}");
    }
}

#[test]
fn on_a_full_disk_nothing_is_lost() {
    let (_directory, path) = place();
    let mut record = open(&path);
    let full = OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .expect("Linux has one");
    let file = std::mem::replace(&mut record.file, full);
    record.add(Line::Run(run(0)));
    record.add(Line::Run(run(1)));
    assert!(
        record.write().is_some_and(|why| why.contains("No space")),
        "{record:?}"
    );
    assert_eq!(record.runs(&key()).count(), 2, "they are in the report");
    record.file = file;
    record.add(Line::Run(run(2)));
    assert_eq!(record.write(), None);
    drop(record);
    let record = open(&path);
    assert_eq!(
        record.runs(&key()).count(),
        3,
        "and on the disk, once there is room"
    );
}
