//! The harness of comparisons, end to end, with systems that are files: honest ones, and ones that do what a system must not.

mod choosing;
mod failing;
mod failing_over;
mod measuring;
mod on_hosts;
mod repeating;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use compare::results::Cell;
use compare::{self, Clients, CompareOptions, Interrupt, Results, Suite};

const SERVE: &str = "#!/bin/sh
mkdir -p \"$2/log\"
echo \"{\\\"ready\\\":{\\\"address\\\":\\\"$2/log\\\",\\\"pids\\\":[$$],\\\"settings\\\":{\\\"sleeps\\\":\\\"yes\\\"}}}\"
exec sleep 1000
";

/// A folder of systems and a place for reports.
struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let directory = tempfile::tempdir().expect("a directory");
        fs::create_dir(directory.path().join("peers")).expect("it is new");
        Bench { directory }
    }

    fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    /// Adds a system whose driver runs in `mode`.
    fn add(&self, name: &str, mode: &str, serve: &str, needs: &str) {
        let folder = self.directory.path().join("peers").join(name);
        fs::create_dir(&folder).expect("it is new");
        let driver = driver();
        let text = format!(
            "title = \"{name}\"\nversion = \"1\"\nneeds = [{needs}]\nserve = [\"./serve\"]\n\
             [drivers.{name}]\ntitle = \"files\"\ncommand = [\"{}\", \"{mode}\"]\n\
             [[variants]]\nname = \"{name}\"\ntitle = \"{name}\"\nsurvives = \"nothing\"\ndurability = \"none\"\ndriver = \"{name}\"\n",
            driver.display()
        );
        fs::write(folder.join("peer.toml"), text).expect("there is room");
        let path = folder.join("serve");
        fs::write(&path, serve).expect("there is room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    fn options(&self) -> CompareOptions {
        CompareOptions {
            systems: Vec::new(),
            clients: Clients::All,
            suite: Suite::Quick,
            only: vec!["one-by-one".to_owned(), "read-back".to_owned()],
            out: self.out(),
            dir: None,
            peers: self.directory.path().join("peers"),
            nodes: 1,
            hosts: Vec::new(),
            ssh: "ssh".to_owned(),
            repetitions: 2,
            repetitions_max: 2,
            seconds: 0.05,
            warmup_seconds: 0.05,
            scale: 0.001,
            silent_seconds: 2.0,
        }
    }

    fn run(&self, options: &CompareOptions) -> (Vec<String>, Results) {
        let failures =
            compare::run(options, "test", &Interrupt::default()).expect("runs may fail, the comparison not");
        let results = compare::read_results(&self.out().join("results.json")).expect("it was written");
        (failures, results)
    }
}

/// Built with the tests: Cargo puts examples beside them.
fn driver() -> PathBuf {
    let test = std::env::current_exe().expect("we are running");
    let folder = test.parent().and_then(Path::parent).expect("target/debug/deps");
    let driver = folder.join("examples/file_log");
    assert!(
        driver.exists(),
        "{} is missing: cargo test builds it",
        driver.display()
    );
    driver
}

/// The cells of a system.
fn cells<'a>(results: &'a Results, system: &'a str) -> impl Iterator<Item = &'a Cell> {
    let rows = results.experiments.iter().flat_map(|experiment| &experiment.rows);
    rows.flat_map(|row| &row.cells)
        .filter(move |cell| cell.system == system)
}

/// How many runs stand in a record.
fn runs_in(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter(|line| line.contains("\"line\":\"run\""))
        .count()
}

/// Every cell of a system has all its runs and no failure.
fn is_whole(results: &Results, system: &str) -> bool {
    cells(results, system)
        .all(|cell| cell.runs.len() == 2 && cell.failures.is_empty() && cell.verified_records > Some(0))
}
