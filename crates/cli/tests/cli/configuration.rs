//! The output of `ropewalk config`, with the source of each value, and refusals of bad configurations.

use std::fs;

use crate::support::{Ran, ropewalk, run};

#[test]
fn the_default_configuration_is_the_golden_one() {
    let printed = run(&["config"]).printed();
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/config.toml");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(golden, &printed).expect("the source tree can be written");
    }
    let expected = fs::read_to_string(golden).expect("stands beside this test");
    assert_eq!(printed, expected, "UPDATE_GOLDEN=1 takes the new output");
}

#[test]
fn the_printed_configuration_is_one_that_can_be_given() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("node.toml");
    let path = path.to_str().expect("text");
    fs::write(path, run(&["config"]).printed()).expect("writable");
    let live = fs::read_to_string(path).expect("written");
    let live = live.lines().filter(|line| !line.starts_with(['#', '[']));
    assert_eq!(
        live.filter(|line| !line.is_empty()).count(),
        0,
        "nothing was changed"
    );
    let plain = |text: String| -> Vec<String> {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(
        plain(run(&["config", "--full", "--config", path]).printed()),
        plain(run(&["config", "--full"]).printed())
    );
}

#[test]
fn each_value_tells_where_it_comes_from() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("node.toml");
    fs::write(
        &path,
        "cores = 2\n[node]\nid = 7\n[kafka]\nlisten = \"127.0.0.1:1\"\n",
    )
    .expect("writable");
    let path = path.to_str().expect("text");
    let arguments = [
        "config",
        "--json",
        "--config",
        path,
        "--set",
        "cores=3",
        "--kafka",
        "127.0.0.1:2",
    ];
    let keys: serde_json::Value = serde_json::from_str(&run(&arguments).printed()).expect("JSON");
    let found = |name: &str| {
        let key = keys
            .as_array()
            .expect("a list")
            .iter()
            .find(|key| key["key"] == name)
            .expect("a known key");
        (
            key["value"].as_str().expect("text"),
            key["source"].as_str().expect("text"),
        )
    };
    assert_eq!(found("node.id"), ("7", path));
    assert_eq!(found("cores"), ("3", "--set"));
    assert_eq!(found("kafka.listen"), ("127.0.0.1:2", "--kafka"));
    assert_eq!(found("http.listen"), ("127.0.0.1:8092", "default"));
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("node.toml");
    let text = "data = \"file\"\ncores = 2\n[kafka]\nlisten = \"h:1\"\n[http]\nlisten = \"h:2\"\n";
    fs::write(&path, text).expect("writable");
    let run = |variables: &[(&str, &str)], flags: &[&str]| {
        let mut command = ropewalk(&[&["config", "--json"], flags].concat());
        command
            .env("ROPEWALK_CONFIG", &path)
            .envs(variables.iter().copied());
        Ran::of(command.output().expect("the binary was built"))
    };
    let variables = [
        ("ROPEWALK_DATA", "environment"),
        ("ROPEWALK_KAFKA", "e:3"),
        ("ROPEWALK_HTTP", ""),
        ("ROPEWALK_CORES", "4"),
    ];
    let printed = run(&variables, &["--kafka", "f:4", "--set", "cores=5"]).printed();
    let keys: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let found = |name: &str| {
        let mut keys = keys.as_array().expect("a list").iter();
        let key = keys.find(|key| key["key"] == name).expect("a known key");
        (key["value"].to_string(), key["source"].to_string())
    };
    let told = |value: &str, source: &str| (format!("{value:?}"), format!("{source:?}"));
    assert_eq!(found("data"), told("environment", "ROPEWALK_DATA"));
    assert_eq!(found("kafka.listen"), told("f:4", "--kafka"));
    assert_eq!(
        found("http.listen").0,
        told("h:2", "").0,
        "an empty variable is not set"
    );
    assert_eq!(found("cores"), told("5", "--set"));
    let refused = run(&[("ROPEWALK_CORES", "many")], &[]).complaint();
    assert!(refused.ends_with(r#"not "many" (ROPEWALK_CORES)"#), "{refused}");
    let help = run(&[], &["--help"]).printed();
    for (name, _) in variables {
        assert!(help.contains(name), "{name}");
    }
    assert!(help.contains("ROPEWALK_CONFIG"));
}

#[test]
fn defaults_of_topics_may_have_units() {
    let printed = run(&["config", "--set", "topics.defaults.retention.ms=1h"]).printed();
    assert!(printed.contains("\n\"retention.ms\" = 3600000"), "{printed}");
    let refused = run(&["config", "--set", "topics.defaults.retention.ms=1 fortnight"]).senseless();
    let expected = "topics.defaults.retention.ms must be a whole number of milliseconds, or a time such as";
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn a_bad_configuration_is_one_sentence() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("node.toml");
    let path = path.to_str().expect("text");
    fs::write(path, "[journal]\nfile_byts = 1\n").expect("writable");
    for command in ["serve", "config"] {
        let complaint = run(&[command, "--config", path]).complaint();
        let meant = "there is no key journal.file_byts (PATH); did you mean journal.file_bytes?";
        assert_eq!(complaint, format!("error: {}", meant.replace("PATH", path)));
    }
    let complaint = run(&["serve", "--set", "limits.handshake=30"]).senseless();
    assert!(
        complaint.starts_with("error: limits.handshake must be a time from 100ms to 1h"),
        "{complaint}"
    );
    for (arguments, end) in [
        (["config", "--kafka", "nowhere"], r#"not "nowhere" (--kafka)"#),
        (["serve", "--kafka", "nowhere"], r#"not "nowhere" (--kafka)"#),
        (["serve", "--cores", "5000"], r#"not "5000" (--cores)"#),
        (["config", "--set", "cores=abc"], r#"not "abc" (--set)"#),
        (
            ["config", "--set", "colour=1"],
            "`ropewalk config` lists all keys",
        ),
    ] {
        let complaint = run(&arguments).senseless();
        assert!(complaint.ends_with(end), "{complaint}");
    }
    let complaint = run(&["serve", "--config", "/nowhere/node.toml"]).complaint();
    assert_eq!(
        complaint,
        "error: the configuration file /nowhere/node.toml cannot be read: No such file or directory (os error 2)"
    );
}
