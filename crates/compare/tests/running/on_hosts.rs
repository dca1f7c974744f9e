//! Systems whose nodes are each on a host of its own. The hosts are this machine under several addresses, and what stands in for ssh
//! runs what it is asked here.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use compare::results::Cell;
use compare::{CompareOptions, Interrupt, Results, Suite};

use super::{Bench, cells};

const HOSTS: &str = "me@ash=127.0.0.1,elm=127.0.0.2,oak=127.0.0.3";
/// How long what was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(20);
/// A node. The files of the first host are the log, and the second leads.
const SERVE_NODE: &str = "#!/bin/sh
mkdir -p \"$2/log\" \"$2/../1/log\"
sleep 1000 & one=$!
echo $one $PPID >>../../processes
[ $ROPEWALK_NODE != 2 ] || echo $one >\"$2/../1/log/leader\"
echo \"{\\\"ready\\\":{\\\"address\\\":\\\"$2/log\\\",\\\"pids\\\":[$one],\\\"nodes\\\":[[$one]],\\\"settings\\\":{\\\"node\\\":\\\"$ROPEWALK_NODE of $ROPEWALK_HOSTS\\\"}}}\"
wait
";

fn bench(systems: &[&str]) -> Bench {
    let bench = Bench::new();
    for name in systems {
        bench.add(name, name, SERVE_NODE, "");
        change(&bench, name, "serve = [", "nodes = [3]\nhosts = true\nserve = [");
        change(
            &bench,
            name,
            "survives = \"nothing\"",
            "survives = \"process_crash\"",
        );
    }
    bench
}

fn change(bench: &Bench, name: &str, before: &str, after: &str) {
    let file = bench.directory.path().join("peers").join(name).join("peer.toml");
    let text = fs::read_to_string(&file).expect("it was written");
    fs::write(&file, text.replace(before, after)).expect("there is room");
}

/// Writes a program that stands in for ssh: it is told a host, a program and its argument. The host `gone` cannot be reached.
fn stand_in(bench: &Bench, program: &str) -> PathBuf {
    let path = bench.directory.path().join("ssh");
    let text = format!(
        "#!/bin/sh\nif [ \"$1\" = gone ]; then echo no route to gone >&2; exit 255; fi\n\
         echo \"$1\" >>\"{}\"\nshift 2\nexec {program} \"$@\"\n",
        bench.directory.path().join("reached").display()
    );
    fs::write(&path, text).expect("there is room");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

/// Runs the program itself: its agents must be of the same build.
fn compare(bench: &Bench, hosts: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_ropewalk-compare");
    let mut command = Command::new(program);
    command.args([
        "run",
        "--suite",
        "field",
        "--only",
        "fail-over",
        "--hosts",
        hosts,
        "--ssh",
    ]);
    command.arg(stand_in(bench, program));
    for (option, path) in [
        ("--peers", bench.directory.path().join("peers")),
        ("--out", bench.out()),
        ("--dir", data(bench)),
    ] {
        command.arg(option).arg(path);
    }
    command.args(["--seconds", "0.2", "--repetitions", "1", "--repetitions-max", "1"]);
    command.output().expect("it is there")
}

/// The results of a comparison on all hosts, none of whose runs failed.
fn compared(bench: &Bench) -> Results {
    let output = compare(bench, HOSTS);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    compare::read_results(&bench.out().join("results.json")).expect("it was written")
}

fn data(bench: &Bench) -> PathBuf {
    bench.directory.path().join("data")
}

/// Those of the nodes and of the agents that started them which are there still, some time after they were killed.
fn left(bench: &Bench) -> Vec<String> {
    let all = fs::read_to_string(bench.directory.path().join("processes")).expect("nodes were started");
    let mut all: Vec<String> = all.split_whitespace().map(str::to_owned).collect();
    assert!(all.len() >= 2 * 3, "{all:?}");
    let end = Instant::now() + GONE_WITHIN;
    while !all.is_empty() && Instant::now() < end {
        all.retain(|pid| is_there(pid));
        std::thread::sleep(Duration::from_millis(5));
    }
    all
}

/// Says that a process lives. One that was killed and not waited for yet has no memory any more.
fn is_there(pid: &str) -> bool {
    let memory = fs::read_to_string(Path::new("/proc").join(pid).join("statm"));
    memory.is_ok_and(|pages| !pages.starts_with("0 "))
}

#[test]
fn each_node_is_started_metered_and_killed_on_its_own_host_and_nothing_is_left_there() {
    let bench = bench(&["honest", "frail"]);
    let results = compared(&bench);
    assert_eq!(results.hosts, ["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let cell = |system| cells(&results, system).next().expect("it was asked");
    let (honest, frail): (&Cell, &Cell) = (cell("honest"), cell("frail"));
    assert!(honest.runs[0]["stall_leader_s"] < 0.5 && frail.runs[0]["stall_leader_s"] >= 0.5);
    assert_eq!(
        results.systems[0].settings["node"],
        "1 of 127.0.0.1,127.0.0.2,127.0.0.3"
    );
    let page = fs::read_to_string(bench.out().join("report.md")).expect("it was written");
    assert!(
        page.contains("each on a host of its own (127.0.0.1, 127.0.0.2, 127.0.0.3)"),
        "{page}"
    );
    let reached = fs::read_to_string(bench.directory.path().join("reached")).expect("it was written");
    for host in ["me@ash", "elm", "oak"] {
        assert!(reached.lines().any(|line| line == host), "{reached}");
    }
    let files = fs::read_dir(data(&bench)).map_or(0, Iterator::count);
    assert_eq!((files, left(&bench)), (0, Vec::new()));
}

#[test]
fn a_host_that_cannot_be_reached_or_has_another_build_is_named() {
    let bench = bench(&["honest"]);
    let output = compare(&bench, "ash=127.0.0.1,gone=127.0.0.2,oak=127.0.0.3");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("no route to gone"),
        "{said}"
    );
    // The build of this test is not that of the program.
    let options = CompareOptions {
        suite: Suite::Field,
        only: vec!["fail-over".to_owned()],
        hosts: HOSTS
            .split(',')
            .map(|host| host.parse().expect("a host"))
            .collect(),
        ssh: stand_in(&bench, env!("CARGO_BIN_EXE_ropewalk-compare"))
            .display()
            .to_string(),
        out: bench.directory.path().join("other"),
        seconds: 0.2,
        ..bench.options()
    };
    let failures = compare::run(&options, "test", &Interrupt::default()).expect("runs may fail");
    assert!(failures[0].contains("me@ash has another build"), "{failures:?}");
}

#[test]
fn who_starts_all_nodes_on_one_machine_is_not_asked() {
    let bench = bench(&["honest"]);
    change(&bench, "honest", "hosts = true\n", "");
    let results = compared(&bench);
    let cell = cells(&results, "honest").next().expect("it stands there");
    let why = cell.not_asked.as_deref().unwrap_or_default();
    assert!(
        cell.runs.is_empty() && why.contains("on a host of its own"),
        "{cell:?}"
    );
}

#[test]
fn an_agent_whose_input_ends_leaves_no_process_and_no_data() {
    let bench = bench(&["honest"]);
    let folder = bench.directory.path().join("peers/honest");
    let own = bench.directory.path().join("own");
    let mut agent = Command::new(env!("CARGO_BIN_EXE_ropewalk-compare"))
        .arg("agent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is there");
    let mut input = agent.stdin.take().expect("it was piped");
    let mut answers = BufReader::new(agent.stdout.take().expect("it was piped")).lines();
    let serve = serde_json::json!({"number": 7, "what": {
        "request": "serve", "name": "honest", "command": ["./serve"], "arguments": ["1", own.join("1"), "3"],
        "environment": {"ROPEWALK_NODE": "1"}, "folder": folder, "own": own, "log": own.join("log"),
    }});
    writeln!(input, "{serve}").expect("it listens");
    let answer = answers.next().expect("it answers").expect("text");
    assert!(
        answer.contains("\"number\":7") && answer.contains("nodes"),
        "{answer}"
    );
    let started = fs::read_to_string(bench.directory.path().join("processes")).expect("it was started");
    let node = started.split_whitespace().next().expect("a node").to_owned();
    assert!(own.exists() && is_there(&node));
    drop(input);
    assert!(agent.wait().expect("it ends").success());
    let end = Instant::now() + GONE_WITHIN;
    while is_there(&node) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!own.exists() && !is_there(&node));
}
