//! The key-value store of the examples is killed again and again while it takes changes: what it answered `ok` to is there. So
//! it is of a store that its snapshots cannot hold.
//!
//! Nothing is timed: the kill comes after so many answers, while more changes are under way.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use platform::random::SeededRandom;

/// Built with the tests: Cargo puts examples beside them.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("we are running");
    let folder = test.parent().and_then(Path::parent).expect("target/debug/deps");
    folder.join("examples/key_value")
}

/// A running store; killed when it is dropped.
struct Running {
    child: Child,
    input: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Running {
    fn start(directory: &Path) -> Running {
        let mut child = Command::new(program())
            .arg(directory)
            .arg("50")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built: run the tests of the whole crate, or build its examples");
        let input = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped"));
        Running {
            child,
            input,
            answers,
        }
    }

    fn send(&mut self, commands: &str) {
        self.input.write_all(commands.as_bytes()).expect("it listens");
    }

    /// The next answer; `None` if the program is gone.
    fn answer(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).expect("answers are text");
        // A line that a kill cut off was no answer.
        (read > 0 && line.ends_with('\n')).then(|| line.trim_end_matches('\n').to_owned())
    }

    fn kill(&mut self) {
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it was started");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The values that the store may hold for each key: more than one only where the last change was not answered.
#[derive(Default)]
struct Expected {
    keys: BTreeMap<String, Vec<Option<String>>>,
}

impl Expected {
    fn answered(&mut self, key: &str, value: Option<String>) {
        self.keys.insert(key.to_owned(), vec![value]);
    }

    fn sent(&mut self, key: &str, value: Option<String>) {
        self.keys
            .entry(key.to_owned())
            .or_insert_with(|| vec![None])
            .push(value);
    }

    /// Asks for each key, and takes over what is there of what was not answered.
    fn check(&mut self, running: &mut Running, round: usize) {
        for (key, possible) in &mut self.keys {
            running.send(&format!("get {key}\n"));
            let found = running.answer().expect("the store was opened again");
            let found = (found != "-").then_some(found);
            assert!(
                possible.contains(&found),
                "round {round}: {key} is {found:?}, which is none of {possible:?}"
            );
            *possible = vec![found];
        }
        let there = self.keys.values().filter(|values| values[0].is_some()).count();
        running.send("count\n");
        assert_eq!(
            running.answer(),
            Some(there.to_string()),
            "round {round}: and nothing else is there"
        );
    }
}

#[test]
fn every_acknowledged_change_survives_kill_nine() {
    const ROUNDS: usize = 25;
    /// Changes sent and not waited for: some are under way when the kill comes.
    const AHEAD: usize = 40;
    let directory = tempfile::tempdir().expect("there is room for a temporary directory");
    let directory = directory.path().join("store");
    let mut random = SeededRandom::new(20_261_121);
    let mut expected = Expected::default();
    let mut number = 0_u64;
    for round in 0..ROUNDS {
        let mut running = Running::start(&directory);
        expected.check(&mut running, round);
        let answers = random.below(200) as usize;
        let changes: Vec<(String, Option<String>)> = (0..answers + AHEAD)
            .map(|_| {
                number += 1;
                let value =
                    (!random.chance(1, 8)).then(|| format!("{number} {}", "x".repeat(number as usize % 300)));
                (format!("key{}", random.below(80)), value)
            })
            .collect();
        for (key, value) in &changes {
            running.send(&match value {
                Some(value) => format!("set {key} {value}\n"),
                None => format!("delete {key}\n"),
            });
        }
        let mut answered = 0;
        while answered < answers && running.answer().is_some_and(|answer| answer == "ok") {
            answered += 1;
        }
        assert_eq!(answered, answers, "round {round}");
        running.kill();
        // Answers that were on their way count as well.
        while running.answer().is_some() {
            answered += 1;
        }
        for (index, (key, value)) in changes.into_iter().enumerate() {
            match index < answered {
                true => expected.answered(&key, value),
                false => expected.sent(&key, value),
            }
        }
    }
    expected.check(&mut Running::start(&directory), ROUNDS);
}

#[test]
fn a_store_that_no_snapshot_can_hold_keeps_its_changes() {
    /// More than the 50 after which a snapshot is due, and together more than the 8 MiB that one may have.
    const KEYS: usize = 60;
    let directory = tempfile::tempdir().expect("there is room for a temporary directory");
    let value = "x".repeat(200 << 10);
    let mut running = Running::start(directory.path());
    for key in 0..KEYS {
        running.send(&format!("set key{key} {value}\n"));
        assert_eq!(running.answer().as_deref(), Some("ok"), "key{key}");
    }
    running.kill();
    let mut running = Running::start(directory.path());
    running.send("count\n");
    assert_eq!(running.answer(), Some(KEYS.to_string()));
    running.send("get key0\n");
    assert!(running.answer() == Some(value), "the first change is kept, too");
}
