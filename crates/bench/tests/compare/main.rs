//! The harness of comparisons, end to end, with systems that are files: honest ones, and ones that do what a system must not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bench::compare::{self, Clients, CompareOptions, Interrupt, Interrupted, Results, Suite};

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
            repetitions: 2,
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

/// Every cell of a system has all its runs and no failure.
fn is_whole(results: &Results, system: &str) -> bool {
    let rows = results.experiments.iter().flat_map(|experiment| &experiment.rows);
    let mut cells = rows
        .flat_map(|row| &row.cells)
        .filter(|cell| cell.system == system);
    cells.all(|cell| cell.runs.len() == 2 && cell.failures.is_empty() && cell.verified_records > Some(0))
}

#[test]
fn honest_systems_are_measured_and_a_second_time_nothing_is_left_to_do() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add("baker", "honest", SERVE, "");
    let (failures, results) = bench.run(&bench.options());
    assert_eq!(failures, [] as [String; 0]);
    assert!(
        is_whole(&results, "able") && is_whole(&results, "baker"),
        "{results:#?}"
    );
    assert_eq!(results.systems[0].settings["sleeps"], "yes");
    assert_eq!(results.systems[0].drivers["able"].version, "file_log 1");
    for file in ["report.html", "report.md"] {
        let text = fs::read_to_string(bench.out().join(file)).expect("it was written");
        assert!(text.contains("baker"), "{file}");
    }
    assert!(!bench.out().join("data").exists(), "what systems left is removed");
    let runs = fs::read_to_string(bench.out().join("runs.jsonl")).expect("it is there");
    let (_, again) = bench.run(&bench.options());
    let runs_again = fs::read_to_string(bench.out().join("runs.jsonl")).expect("it is there");
    let count = |text: &str| {
        text.lines()
            .filter(|line| line.contains("\"line\":\"run\""))
            .count()
    };
    assert_eq!(count(&runs), count(&runs_again));
    assert_eq!(again.experiments, results.experiments);
}

/// The figures of all runs of a system.
fn runs<'a>(results: &'a Results, system: &str) -> Vec<&'a BTreeMap<String, f64>> {
    let rows = results.experiments.iter().flat_map(|experiment| &experiment.rows);
    let cells = rows
        .flat_map(|row| &row.cells)
        .filter(|cell| cell.system == system);
    cells.flat_map(|cell| &cell.runs).collect()
}

#[test]
fn readers_read_pass_after_pass_and_it_is_said_how_much_was_there() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add("slow", "slow", SERVE, "");
    let options = CompareOptions {
        only: vec!["read-back".to_owned()],
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert_eq!(failures, [] as [String; 0]);
    let slow = runs(&results, "slow");
    assert_eq!(slow.len(), 2);
    for run in runs(&results, "able").iter().chain(&slow) {
        // What the slow one wrote is read in a moment, unless the machine is busy.
        assert!(run["seconds"] >= options.seconds, "{run:?}");
        assert!(run["stored_mb"] > 0.0 && run["stored_mb"] < 256.0, "{run:?}");
        let read_mb = run["records"] * 100.0 / 1e6;
        assert!(read_mb >= run["stored_mb"] * run["passes"] * 0.9, "{run:?}");
    }
    let text = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(text.contains("MB there to read"), "the column says it");
}

#[test]
fn a_cold_read_is_made_after_a_restart_and_beside_appends() {
    // Notes each start in the system's folder, where it runs.
    let serve = SERVE.replace("mkdir", "echo start >> starts\nmkdir");
    for (table, restarts) in [("backlog", 0), ("cold-reads", 2)] {
        let bench = Bench::new();
        bench.add("able", "honest", &serve, "");
        let options = CompareOptions {
            suite: Suite::Field,
            only: vec![table.to_owned()],
            ..bench.options()
        };
        let (failures, results) = bench.run(&options);
        // Only root may empty the page cache: for all others the row says so.
        if let [failure, ..] = &failures[..] {
            assert!(
                table == "cold-reads" && failure.contains("drop_caches"),
                "{failure}"
            );
            continue;
        }
        let runs = runs(&results, "able");
        assert_eq!(runs.len(), 2, "{results:#?}");
        for run in runs {
            let has = |metric: &str| run.get(metric).is_some_and(|value| *value > 0.0);
            assert!(
                has("read_mb_per_s") && has("stored_mb") && has("p99_us"),
                "{run:?}"
            );
        }
        let starts = fs::read_to_string(bench.directory.path().join("peers/able/starts"));
        let starts = starts.expect("it was started").lines().count();
        assert_eq!(starts, 1 + restarts, "{table}");
    }
}

#[test]
fn who_cheats_dies_stalls_or_refuses_is_found_out_and_harms_no_other() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    for mode in ["cheat", "swap", "die", "stall", "refuse"] {
        bench.add(mode, mode, SERVE, "");
    }
    bench.add("absent", "honest", SERVE, "\"no-such-program\"");
    bench.add(
        "broken",
        "honest",
        "#!/bin/sh\necho the disk is upside down >&2\nexit 7\n",
        "",
    );
    let options = CompareOptions {
        only: vec!["one-by-one".to_owned()],
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert!(is_whole(&results, "able"), "{results:#?}");
    for (system, words) in [
        ("cheat", "were acknowledged, but 0 were read back"),
        ("swap", "not those that were acknowledged"),
        ("die", "ended (exit status: 3)"),
        ("stall", "did not get on for 2 s|said nothing for"),
        ("refuse", "logs are refused today"),
        ("absent", "no-such-program"),
        ("broken", "the disk is upside down"),
    ] {
        let facts = results
            .systems
            .iter()
            .find(|facts| facts.name == system)
            .expect("it took part");
        let why = facts.failed.as_deref().unwrap_or("it did not fail");
        let tells = |text: &str| words.split('|').any(|words| text.contains(words));
        assert!(tells(why), "{system}: {why}");
        assert!(
            failures.iter().any(|failure| tells(failure)),
            "{system}: {failures:?}"
        );
    }
}

#[test]
fn an_interrupted_comparison_goes_on_where_it_stopped() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    let interrupt = Interrupt::default();
    interrupt.set();
    let error = compare::run(&bench.options(), "test", &interrupt).expect_err("it was interrupted");
    assert!(error.is::<Interrupted>(), "{error:#}");
    let (failures, results) = bench.run(&bench.options());
    assert!(failures.is_empty() && is_whole(&results, "able"));
    let other = CompareOptions {
        seconds: 9.0,
        ..bench.options()
    };
    let error = compare::run(&other, "test", &Interrupt::default()).expect_err("another comparison");
    assert!(error.to_string().contains("--out"), "{error:#}");
}

#[test]
fn what_does_not_exist_is_named_with_what_does() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    let wrong = |options: CompareOptions, word: &str| {
        let error = compare::run(&options, "test", &Interrupt::default()).expect_err(word);
        assert!(format!("{error:#}").contains(word), "{error:#}");
    };
    let systems = vec!["charlie".to_owned()];
    wrong(
        CompareOptions {
            systems,
            ..bench.options()
        },
        "only: able",
    );
    let only = vec!["nothing".to_owned()];
    wrong(
        CompareOptions {
            only,
            ..bench.options()
        },
        "one-by-one",
    );
    let peers = PathBuf::from("/no/such/folder");
    wrong(
        CompareOptions {
            peers,
            ..bench.options()
        },
        "--peers",
    );
    wrong(
        CompareOptions {
            seconds: 0.0,
            ..bench.options()
        },
        "--seconds",
    );
}
