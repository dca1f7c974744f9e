//! The binary without a node: usage, and failures.

use std::fs::{self, File};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Ran, ropewalk, run, run_unread};

#[test]
fn help_teaches_by_example() {
    let help = run(&["--help"]).printed();
    for part in [
        "serve",
        "config",
        "topic",
        "produce",
        "consume",
        "top",
        "bench",
        "A first session:",
    ] {
        assert!(help.contains(part), "{help}");
    }
    let commands = "serve config topic group produce consume check inspect top bench completions man";
    for command in commands.split(' ') {
        let help = run(&[command, "--help"]).printed();
        assert!(help.contains(&format!("  ropewalk {command} ")), "{help}");
    }
}

#[test]
fn the_version_names_the_commit() {
    let (short, long) = (run(&["-V"]).printed(), run(&["--version"]).printed());
    let number = concat!("ropewalk ", env!("CARGO_PKG_VERSION"));
    let commit = Command::new("git")
        .args([
            "log",
            "-1",
            "--format=%H %cd",
            "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("TZ", "UTC")
        .output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit = commit.map(|output| String::from_utf8(output.stdout).expect("git prints text"));
    let Some((id, time)) = commit.as_deref().and_then(|line| line.trim().split_once(' ')) else {
        assert_eq!(short, format!("{number} (commit unknown)\n"));
        assert_eq!(long, format!("{number}\ncommit unknown: built without git\n"));
        return;
    };
    let expected = format!("{number} ({}, {}", &id[..12], &time[..10]);
    assert!(
        short.starts_with(&expected) && short.lines().count() == 1,
        "{short}"
    );
    assert!(
        long.starts_with(&format!("{number}\ncommit {id} of {time}")),
        "{long}"
    );
}

#[test]
fn a_senseless_command_line_exits_with_2() {
    let senseless: &[&[&str]] = &[
        &[],
        &["walk"],
        &["serve", "--cores", "many"],
        &["serve", "--set", "cores"],
        &["produce"],
        &["produce", "t", "--acks", "2"],
        &["produce", "t", "--key-separator", ""],
        &["consume", "t", "--from", "oldest"],
        &["consume", "t", "--from", "2026-01-31"],
        &["consume", "t", "--from", "5", "--last", "5"],
        &["consume", "t", "--last", "0"],
        &["consume", "t", "--until", "latest"],
        &["consume", "t", "--max", "0"],
        &["consume", "t", "--topic", "u"],
        &["produce", "--whole"],
        &["consume", "t", "--partition", "0,x"],
        &["consume", "t", "--format", "{vlaue}"][..],
        &["consume", "t", "--format", "value"],
        &["consume", "t", "--format", "{value}", "--json"],
        &["consume", "t", "--delimiter", r"\q"],
        &["produce", "t", "--rate", "0"],
        &["produce", "t", "--compression", "zip"],
        &["produce", "t", "--header", "name"],
        &["produce", "t", "--delimiter", ""],
        &["produce", "t", "--key", "a", "--key-separator", ":"],
        &["produce", "t", "--json", "--key-separator", ":"],
        &["topic", "grow", "t"],
        &["topic", "trim", "t", "--partition", "0", "--before", "soon"],
        &["group", "reset", "g"],
        &["group", "reset", "g", "--to-latest", "--topic", "orders:x"],
        &["group", "reset", "g", "--to-latest", "--to-earliest"],
        &["group", "reset", "g", "--to-time", "yesterday"],
        &["top", "--interval", "0"],
        &["top", "--http", "https://h:1"],
        &["completions", "tcsh"],
        &["man"],
        &["topic", "create", "t", "--partitions", "0"],
        &["config", "get"],
        &["config", "get", "--topic", "t", "--all-nodes"],
        &["config", "set", "--topic", "t"],
        &["config", "set", "--topic", "t", "retention.ms"],
        &["config", "unset", "--topic", "t"],
        &["bench"],
        &["--nonsense"],
        &["serve", "--data"],
        &["serve", "everything"],
        &["topic"],
        &["topic", "walk"],
        &["topic", "create"],
        &["topic", "describe"],
        &["topic", "delete"],
        &["group"],
        &["group", "walk", "g"],
        &["group", "describe"],
        &["group", "describe", "g", "h"],
        &["group", "delete"],
        &["group", "reset", "--to-latest"],
        &["group", "reset", "g", "--to-offset", "-1"],
        &["group", "reset", "g", "--to-offset", "1", "--shift", "1"],
        &["config", "set", "--topic", "t", "--node", "1", "segment.ms=1"],
        &["config", "set", "segment.ms=1"],
        &["config", "get", "--node", "one"],
        &["consume"],
        &["check"],
        &["check", "one", "two"],
        &["inspect"],
        &["inspect", "data", "everything"],
        &["inspect", "data", "--partition", "orders/0"],
        &["topic", "list", "--bootstrap", "127.0.0.1"],
        &["consume", "t", "--bootstrap", "http://127.0.0.1:9092"],
        &["bench", "append", "--rate", "0"],
    ];
    for arguments in senseless {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(
            ran.out.is_empty() && !ran.err.is_empty(),
            "{arguments:?}: {ran:?}"
        );
    }
}

#[test]
fn what_is_senseless_is_told_with_what_would_make_sense() {
    for (arguments, remedy) in [
        (
            &["consume", "t", "--format", "{vlaue}"][..],
            "there is no {vlaue}; there are {topic} {partition}",
        ),
        (&["consume", "t", "--format", "{value"], "{{ stands for a brace"),
        (
            &["consume", "t", "--until", "soon"],
            "an offset, a time such as 2026-01-31T12:00:00Z",
        ),
        (
            &["consume", "t", "--delimiter", r"\q"],
            r"there is no \q; \n, \t, \r, \0, \\ and \xHH are known",
        ),
        (&["produce", "t", "--header", "name"], "expected NAME=VALUE"),
        (&["produce", "t", "--rate", "0"], "0 is not in 1.."),
        (
            &["produce", "t", "--compression", "zip"],
            "[possible values: none, gzip, snappy, lz4, zstd]",
        ),
        (
            &["produce", "t", "--delimiter", ""],
            "--whole makes each input one record",
        ),
        (&["top", "--http", "nowhere", "--once"], "expected HOST:PORT"),
        (
            &["topic", "create", "t", "-c", "retention.ms=soon"],
            "retention.ms must be a whole number of milliseconds, or a time such as 90s, 12h or 7d",
        ),
        (
            &["config", "set", "-t", "t", "segment.bytes=1G"],
            "segment.bytes must be a whole number of bytes, or a size such as 64MiB or 1GiB",
        ),
        (
            &["consume", "t", "-o", "soon"],
            "expected earliest, latest, an offset",
        ),
        (
            &["topic", "list", "-b", "127.0.0.1:80000"],
            "there is no port 80000, the last one is 65535",
        ),
        (
            &["serve", "--http", "127.0.0.1:80000"],
            "http.listen must be host:port with a port from 0 to 65535",
        ),
        (
            &["bench", "append", "-c", "retention.ms=soon"],
            "retention.ms must be a whole number of milliseconds, or a time such as 90s, 12h or 7d",
        ),
        (&["bench", "append", "-r", "0"], "0 is not in 1.."),
        (
            &["consume", "t", "-p", "x"],
            "'x' for '--partition <N>': expected a whole number",
        ),
        (
            &["serve", "--cores", "many"],
            "'many' for '--cores <N>': expected a whole number",
        ),
        (&["bench", "append", "--seconds", "x"], "expected a number"),
        (
            &["consume", "t", "-n", "99999999999999999999"],
            "expected a smaller number",
        ),
        (&["consume", "t", "-n", "0"], "0 is not in 1.."),
        (&["produce", "t", "-H", "name"], "expected NAME=VALUE"),
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains(remedy), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn ends_that_cross_make_no_sense() {
    for (first, next, told) in [
        ("10", "10", "--from 10 and --until 10; --until must be greater"),
        (
            "@2000",
            "@1000",
            "--from 1970-01-01T00:00:02.000Z and --until 1970-01-01T00:00:01.000Z; --until must be later",
        ),
    ] {
        let refused = run(&["consume", "t", "--from", first, "--until", next]).senseless();
        assert_eq!(refused, format!("error: nothing lies between {told}"));
    }
}

#[test]
fn what_cannot_be_is_told_before_a_node_is_asked() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().to_str().expect("text");
    let absent = format!("{path}/../absent");
    let complaints: &[(&[&str], String)] = &[
        (
            &["produce", "t", &absent],
            format!("{absent} cannot be read: No such file or directory (os error 2)"),
        ),
        (
            &["produce", "t", path],
            format!("{path} is a directory; name the files in it"),
        ),
        (&["check", &absent], format!("{absent} is not a directory")),
        (&["inspect", &absent], format!("{absent} is not a directory")),
    ];
    for (arguments, expected) in complaints {
        assert_eq!(run(arguments).complaint(), format!("error: {expected}"));
    }
}

#[test]
fn top_says_where_it_looked() {
    let complaint = run(&["top", "--once", "--http", "127.77.0.1:9"]).complaint();
    assert!(
        complaint.starts_with("error: the metrics of http://127.77.0.1:9 cannot be read: "),
        "{complaint}"
    );
    assert!(complaint.ends_with("--http names another address"), "{complaint}");
}

#[test]
fn no_node_is_said_with_a_way_out() {
    // A loopback address that no test and no service uses, and the port of the discard service.
    let address = "127.77.0.1:9";
    let commands: &[&[&str]] = &[
        &["topic", "list"],
        &["consume", "t"],
        &["produce", "t"],
        &["group", "list"],
        &["bench", "read"],
        &["topic", "describe", "t"],
        &["topic", "delete", "t"],
        &["group", "describe", "g"],
        &["group", "reset", "g", "--to-latest"],
        &["group", "delete", "g"],
        &["config", "get", "--node", "1"],
        &["config", "set", "--topic", "t", "segment.ms=1"],
    ];
    for command in commands {
        let arguments: Vec<_> = command.iter().copied().chain(["--bootstrap", address]).collect();
        let complaint = run(&arguments).complaint();
        assert!(
            complaint.starts_with(&format!("error: cannot connect to {address}: ")),
            "{complaint}"
        );
        assert!(
            complaint.contains("`ropewalk serve` starts a node"),
            "{complaint}"
        );
    }
}

#[test]
fn a_directory_of_somebody_else_is_left_as_it_is() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("text").to_owned();
    let (empty, foreign, damaged, file) = (path("empty"), path("foreign"), path("damaged"), path("file"));
    for made in [&empty, &foreign, &damaged] {
        fs::create_dir(made).expect("writable");
    }
    fs::write(path("foreign/letter.txt"), "dear reader").expect("writable");
    fs::write(path("damaged/node.toml"), "format = ").expect("writable");
    fs::write(&file, "").expect("writable");
    let nothing = format!("{empty} is empty; there is no ropewalk directory here");
    let not_ours = format!(
        "{foreign} is not a ropewalk directory (it has letter.txt and no node.toml); choose another one"
    );
    let names = |path: &str| -> Vec<_> {
        let entries = fs::read_dir(path).expect("it is there");
        entries
            .map(|entry| entry.expect("readable").file_name())
            .collect()
    };
    for command in ["check", "inspect"] {
        for (path, told) in [(&empty, &nothing), (&foreign, &not_ours)] {
            let before = names(path);
            let complaint = run(&[command, path]).complaint();
            assert_eq!(complaint, format!("error: {told}"));
            assert_eq!(names(path), before, "nothing is left there");
        }
        let complaint = run(&[command, &damaged]).complaint();
        assert!(
            complaint.starts_with(&format!("error: {damaged}/node.toml cannot be understood: ")),
            "{complaint}"
        );
        assert_eq!(
            run(&[command, &file]).complaint(),
            format!("error: {file} is not a directory")
        );
    }
}

#[test]
fn a_node_that_cannot_start_says_why() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let occupied = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = occupied.local_addr().expect("bound").to_string();
    let data = directory.path().join("data");
    let data = data.to_str().expect("text");
    let complaint = run(&[
        "serve",
        "--data",
        data,
        "--kafka",
        &address,
        "--http",
        "127.0.0.1:0",
    ])
    .complaint();
    assert!(
        complaint.starts_with(&format!("error: cannot listen on {address} (kafka.listen): ")),
        "{complaint}"
    );
}

#[test]
fn a_node_that_logs_json_tells_its_end_as_json() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let occupied = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = occupied.local_addr().expect("bound").to_string();
    let data = directory.path().join("data");
    let data = data.to_str().expect("text");
    let listen = ["--kafka", &address, "--http", "127.0.0.1:0"];
    let serve = ["serve", "--data", data, "--set", "log.format=json"];
    let ran = run(&[&serve[..], &listen].concat());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let lines = ran.err.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<_> = lines.map(|line| line.expect("each is JSON")).collect();
    let last = lines.last().expect("it says why");
    let message = last["fields"]["message"].as_str().expect("text");
    assert!(
        last["level"] == "ERROR"
            && message.starts_with(&format!("cannot listen on {address} (kafka.listen): ")),
        "{last}"
    );
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let whole: [&[&str]; 3] = [&["config"], &["--help"], &["completions", "zsh"]];
    for arguments in whole {
        let ran = run_unread(arguments);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux has it");
    let output = ropewalk(&["config"]).stdout(full).stderr(Stdio::piped()).output();
    let complaint = Ran::of(output.expect("the binary was built")).complaint();
    assert!(
        complaint.starts_with("error: standard output cannot be written: "),
        "{complaint}"
    );
}

#[test]
fn a_usage_line_asks_for_nothing_that_the_environment_gives() {
    for (arguments, usage) in [
        (&["consume"][..], "Usage: ropewalk consume [OPTIONS] <TOPIC>\n"),
        (&["topic", "create"], "Usage: ropewalk topic create <NAME>\n"),
    ] {
        let mut command = ropewalk(arguments);
        let output = command.env("ROPEWALK_BOOTSTRAP", "h:1").output();
        let ran = Ran::of(output.expect("the binary was built"));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.err.contains(usage), "{}", ran.err);
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_told_with_a_way_out() {
    // Not even root makes a directory there.
    let complaint = run(&["serve", "--data", "/proc/absent"]).complaint();
    assert!(
        complaint.starts_with("error: the directory /proc/absent cannot be used: "),
        "{complaint}"
    );
    assert!(
        complaint.ends_with("; choose a directory that exists or can be made"),
        "{complaint}"
    );
}

#[test]
fn where_the_node_is_can_be_told_for_all_commands_at_once() {
    for arguments in [
        &["topic", "list"][..],
        &["bench", "append"],
        &["bench", "read"],
        &["bench", "commit"],
        &["bench", "members"],
    ] {
        let mut command = ropewalk(arguments);
        // Nobody listens there.
        let output = command.env("ROPEWALK_BOOTSTRAP", "127.0.0.1:1").output();
        let complaint = Ran::of(output.expect("the binary was built")).complaint();
        assert!(complaint.contains("127.0.0.1:1"), "{arguments:?}: {complaint}");
    }
}
