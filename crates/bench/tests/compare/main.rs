//! The harness of comparisons, end to end, with systems that are files: honest ones, and ones that do what a system must not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bench::compare::results::Cell;
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
    let runs = runs_in(&bench.out().join("runs.jsonl"));
    let (_, again) = bench.run(&bench.options());
    assert_eq!(runs_in(&bench.out().join("runs.jsonl")), runs);
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
    for mode in ["cheat", "swap", "hush", "die", "stall", "refuse"] {
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
        ("hush", "latencies of"),
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

#[test]
fn an_interrupt_in_the_middle_ends_all_that_runs_and_keeps_what_was_measured() {
    let bench = Bench::new();
    let serve = SERVE.replace("exec sleep", "echo $$ >> ../../pids; exec sleep");
    bench.add("able", "honest", &serve, "");
    let record = bench.out().join("runs.jsonl");
    let interrupt = Interrupt::default();
    let (setter, watched) = (interrupt.clone(), record.clone());
    let setting = thread::spawn(move || {
        let end = Instant::now() + Duration::from_secs(60);
        while runs_in(&watched) == 0 && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        setter.set();
    });
    let options = CompareOptions {
        repetitions: 9,
        repetitions_max: 9,
        ..bench.options()
    };
    let error = compare::run(&options, "test", &interrupt).expect_err("it was interrupted");
    setting.join().expect("it does not panic");
    assert!(error.is::<Interrupted>(), "{error:#}");
    let made = runs_in(&record);
    assert!((1..27).contains(&made), "{made}");
    let pids = fs::read_to_string(bench.directory.path().join("pids")).expect("it was started");
    for pid in pids.lines() {
        assert!(!Path::new("/proc").join(pid).exists(), "{pid} lives on");
    }
    assert!(!bench.out().join(".reserve").exists() && !bench.out().join("data").exists());
    let (failures, results) = bench.run(&options);
    assert_eq!(failures, [] as [String; 0]);
    assert!(cells(&results, "able").all(|cell| cell.runs.len() == 9));
    assert_eq!(runs_in(&record), 27, "none was made twice");
}

#[test]
fn a_server_that_dies_in_the_middle_fails_its_own_runs_only() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add(
        "frail",
        "honest",
        &SERVE.replace("exec sleep 1000", "sleep 0.1; exit 9"),
        "",
    );
    let (failures, results) = bench.run(&bench.options());
    assert!(is_whole(&results, "able"), "{results:#?}");
    let why = |failure: &String| failure.contains("frail") && failure.contains("a process of frail is gone");
    assert!(failures.iter().any(why), "{failures:?}");
}

/// Adds a variant of a system in its folder: with a driver of its own that runs in `mode`, and one of another folder.
fn add_variant(bench: &Bench, folder: &str, name: &str, mode: &str, also: &str) {
    let path = bench
        .directory
        .path()
        .join("peers")
        .join(folder)
        .join("peer.toml");
    let text = fs::read_to_string(&path).expect("it was written");
    let driver = driver();
    let more = format!(
        "[drivers.{name}]\ntitle = \"files\"\ncommand = [\"{}\", \"{mode}\"]\n\
         [[variants]]\nname = \"{name}\"\ntitle = \"{name}\"\nsurvives = \"nothing\"\ndurability = \"none\"\n\
         driver = \"{name}\"\nalso = [{also}]\n",
        driver.display()
    );
    fs::write(&path, text + &more).expect("there is room");
}

#[test]
fn one_that_fails_takes_nothing_from_another_that_shares_its_server() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    add_variant(&bench, "able", "able-die", "die", "");
    bench.add("absent", "honest", SERVE, "\"no-such-program\"");
    add_variant(&bench, "able", "able-too", "honest", "\"absent\"");
    let (failures, results) = bench.run(&bench.options());
    assert!(is_whole(&results, "able"), "{results:#?}");
    let mut own = cells(&results, "able-too").filter(|cell| cell.driver == "able-too");
    assert!(own.all(|cell| cell.runs.len() == 2), "{results:#?}");
    for why in ["ended (exit status: 3)", "no-such-program"] {
        assert!(
            failures.iter().any(|failure| failure.contains(why)),
            "{failures:?}"
        );
    }
}

#[test]
fn a_share_of_a_maximum_brings_the_maximum_with_it() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    let options = CompareOptions {
        suite: Suite::Field,
        only: vec!["shares".to_owned()],
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert_eq!(failures, [] as [String; 0]);
    let names: Vec<&str> = results.experiments.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["maximum", "shares"]);
    let due = |run: &&BTreeMap<String, f64>| run.get("due_per_s").is_some_and(|due| *due > 0.0);
    assert!(runs(&results, "able").iter().any(due), "{results:#?}");
}

#[test]
fn who_cheats_once_it_was_believed_is_found_out_and_not_believed_at_all() {
    let bench = Bench::new();
    let names = ["later-a", "later-b", "later-c", "later-d"];
    for name in names {
        bench.add(name, "later", SERVE, "");
    }
    let options = CompareOptions {
        only: vec!["one-by-one".to_owned()],
        repetitions: 3,
        repetitions_max: 3,
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    let is_found = |cell: &&Cell| {
        cell.failures
            .iter()
            .any(|why| why.contains("were acknowledged, but"))
    };
    let found: Vec<&Cell> = names
        .iter()
        .flat_map(|name| cells(&results, name))
        .filter(is_found)
        .collect();
    assert!(!found.is_empty() && failures.len() >= found.len(), "{results:#?}");
    assert!(found.iter().all(|cell| cell.runs.is_empty()), "{found:#?}");
    let count = found.len();
    // Nor is it by asking again.
    let (failures, results) = bench.run(&options);
    let again = names
        .iter()
        .flat_map(|name| cells(&results, name))
        .filter(is_found);
    assert_eq!(again.count(), count, "{failures:?}");
}

#[test]
fn what_is_not_asked_is_no_failure() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    let peer = bench.directory.path().join("peers/able/peer.toml");
    let text = fs::read_to_string(&peer).expect("it was written");
    fs::write(&peer, format!("record_bytes_max = 1000\n{text}")).expect("there is room");
    let (failures, results) = bench.run(&bench.options());
    assert_eq!(failures, [] as [String; 0]);
    let refused: Vec<&Cell> = cells(&results, "able")
        .filter(|cell| cell.not_asked.is_some())
        .collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].runs.is_empty() && refused[0].failures.is_empty());
    let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(
        page.contains("Not asked.") && !page.contains("It failed"),
        "{page}"
    );
    // This system promises nothing after a crash, so there is nothing to look for.
    let crash = CompareOptions {
        suite: Suite::Field,
        only: vec!["restart".to_owned()],
        out: bench.directory.path().join("crash"),
        ..bench.options()
    };
    let failures = compare::run(&crash, "test", &Interrupt::default()).expect("nothing is asked");
    assert_eq!(failures, [] as [String; 0]);
}

#[test]
fn what_failed_is_tried_again_and_a_changed_system_is_measured_anew() {
    let bench = Bench::new();
    let switch = bench.directory.path().join("switch");
    let serve = SERVE.replace("mkdir", &format!("[ -e {} ] || exit 9\nmkdir", switch.display()));
    bench.add("able", "honest", &serve, "");
    let (failures, _) = bench.run(&bench.options());
    assert!(!failures.is_empty());
    fs::write(&switch, "").expect("there is room");
    let (failures, results) = bench.run(&bench.options());
    assert!(failures.is_empty() && is_whole(&results, "able"), "{failures:?}");
    let made = runs_in(&bench.out().join("runs.jsonl"));
    let peer = bench.directory.path().join("peers/able/peer.toml");
    let text = fs::read_to_string(&peer).expect("it was written");
    fs::write(&peer, text.replace("version = \"1\"", "version = \"2\"")).expect("there is room");
    let (_, results) = bench.run(&bench.options());
    assert!(is_whole(&results, "able") && results.systems[0].version == "2");
    assert_eq!(
        runs_in(&bench.out().join("runs.jsonl")),
        made + 6,
        "all were made again"
    );
}

#[test]
fn a_folder_that_is_not_as_it_should_be_harms_no_other() {
    let bench = Bench::new();
    bench.add("able", "honest", SERVE, "");
    bench.add("odd", "honest", SERVE, "");
    let peer = bench.directory.path().join("peers/odd/peer.toml");
    fs::write(&peer, "colour = 1\n").expect("there is room");
    let (failures, results) = bench.run(&bench.options());
    assert!(is_whole(&results, "able"));
    assert!(
        failures.len() == 1 && failures[0].starts_with("odd: "),
        "{failures:?}"
    );
    let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(page.contains("odd was not measured"), "{page}");
}

#[test]
fn what_is_never_the_same_twice_is_measured_more_often_up_to_a_limit() {
    let bench = Bench::new();
    bench.add("uneven", "uneven", SERVE, "");
    let options = CompareOptions {
        only: vec!["one-by-one".to_owned()],
        repetitions_max: 6,
        seconds: 0.4,
        ..bench.options()
    };
    let (failures, results) = bench.run(&options);
    assert_eq!(failures, [] as [String; 0]);
    assert!(
        cells(&results, "uneven").all(|cell| cell.runs.len() == 6),
        "{results:#?}"
    );
    let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(
        page.contains("**Unsteady.**") && page.contains("n its course."),
        "{page}"
    );
}

/// A small disk of its own; none where mounting is not allowed.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(folder: &Path) -> Option<SmallDisk> {
        fs::create_dir(folder).expect("it is new");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=96m", "none"])
            .arg(folder)
            .output();
        mount
            .is_ok_and(|done| done.status.success())
            .then(|| SmallDisk(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_costs_the_runs_it_befell_and_never_the_report() {
    for (mode, is_full_for_good) in [("fill", false), ("fill-for-good", true)] {
        let bench = Bench::new();
        let Some(_disk) = SmallDisk::mount(&bench.out()) else {
            eprintln!("SKIPPED: mounting a small disk is not allowed here");
            return;
        };
        // Slow, for what it stores must fit on the disk on the fastest machine too.
        bench.add("able", "slow", SERVE, "");
        bench.add("baker", mode, SERVE, "");
        let options = CompareOptions {
            only: vec!["one-by-one".to_owned()],
            ..bench.options()
        };
        let (failures, results) = bench.run(&options);
        let is_told = |failure: &String| failure.contains("baker") && failure.contains("No space left");
        assert!(failures.iter().any(is_told), "{failures:?}");
        assert!(cells(&results, "able").any(|cell| !cell.runs.is_empty()));
        let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
        assert!(page.contains("No space left"), "{page}");
        assert!(is_full_for_good || is_whole(&results, "able"), "{results:#?}");
    }
}
