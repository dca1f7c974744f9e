//! Comparisons that are made again: what was measured is kept, what is missing, failed or changed is measured.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use compare::{self, CompareOptions, Interrupt, Interrupted};
use rustix::process::{Pid, Signal, kill_process};

use super::{Bench, SERVE, cells, is_whole, runs_in};

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
fn what_was_started_goes_with_a_comparison_that_is_killed() {
    let bench = Bench::new();
    let serve = SERVE.replace("exec sleep", "echo $$ >> ../../pids; exec sleep");
    bench.add("able", "honest", &serve, "");
    let pids = bench.directory.path().join("pids");
    let started = || fs::read_to_string(&pids).unwrap_or_default();
    // Twice at the terminal, or by somebody who leaves it no time.
    for signals in [&[Signal::INT, Signal::INT][..], &[Signal::KILL]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk-compare"));
        command
            .args(["run", "--only", "one-by-one", "--peers"])
            .arg(bench.directory.path().join("peers"))
            .arg("--out")
            .arg(bench.out());
        let mut comparison = command.spawn().expect("it was built");
        let before = started();
        wait_until(|| started() != before);
        for signal in signals {
            let _ = kill_process(Pid::from_child(&comparison), *signal);
        }
        comparison.wait().expect("it is ours");
        let is_gone = |pid: &str| !Path::new("/proc").join(pid).exists();
        wait_until(|| started().lines().all(is_gone));
    }
}

fn wait_until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it takes too long");
        thread::sleep(Duration::from_millis(5));
    }
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
