//! Refusals of configurations: with the key, the value, the values that are expected, and the source.

use std::path::PathBuf;
use std::time::Duration;

use super::super::{Config, ConfigError};
use super::{from_file, from_sets};

fn refusal(loaded: Result<Config, ConfigError>) -> String {
    loaded.expect_err("refused").to_string()
}

#[test]
fn what_a_program_puts_into_the_struct_is_checked_as_well() {
    let refused = |change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        config.check().expect_err("refused").to_string()
    };
    assert_eq!(
        refused(|config| config.journal.file_bytes = 0),
        r#"journal.file_bytes must be a size from 1MiB to 1GiB, such as 64MiB, not "0B" (the program)"#
    );
    assert_eq!(
        refused(|config| config.node.id = -1),
        r#"node.id must be a whole number from 0 to 2147483647, not "-1" (the program)"#
    );
    assert_eq!(
        refused(|config| config.retention.check_interval = Duration::ZERO),
        r#"retention.check_interval must be a time from 10ms to 1d, with its unit, such as 500ms or 10m, not "0s" (the program)"#
    );
    assert_eq!(
        refused(|config| config.kafka.listen = "nowhere".to_owned()),
        r#"kafka.listen must be host:port with a port from 0 to 65535, such as 127.0.0.1:9092, not "nowhere" (the program)"#
    );
    assert!(refused(|config| config.data = PathBuf::new()).starts_with("data must be a path"));
    assert_eq!(
        refused(|config| config.journal.bytes_max = 128 << 20),
        "journal.bytes_max = 128MiB does not go with journal.file_bytes = 64MiB: a journal needs room for three files"
    );
}

#[test]
fn refusals_name_the_key_the_value_and_what_is_expected() {
    let refusals = [
        (
            ("kafka.lisen", "x"),
            "there is no key kafka.lisen (--set); did you mean kafka.listen?",
        ),
        (
            ("colour", "red"),
            "there is no key colour (--set); `ropewalk config` lists all keys",
        ),
        (
            ("topics.defaults.retention.sm", "1"),
            "there is no key topics.defaults.retention.sm (--set); did you mean topics.defaults.retention.ms?",
        ),
        (
            ("kafka.listen", "9092"),
            r#"kafka.listen must be host:port with a port from 0 to 65535, such as 127.0.0.1:9092, not "9092" (--set)"#,
        ),
        (
            ("http.listen", "127.0.0.1:80000"),
            r#"http.listen must be host:port with a port from 0 to 65535, such as 127.0.0.1:9092, not "127.0.0.1:80000" (--set)"#,
        ),
        (
            ("kafka.advertised", "host:0"),
            r#"kafka.advertised must be host:port that clients can reach, with a port from 1 to 65535, or empty, not "host:0" (--set)"#,
        ),
        (
            ("cores", "-1"),
            r#"cores must be a whole number from 0 to 1024, not "-1" (--set)"#,
        ),
        (
            ("pin_threads", "yes"),
            r#"pin_threads must be one of true, false, not "yes" (--set)"#,
        ),
        (
            ("journal.file_bytes", "64 potatoes"),
            r#"journal.file_bytes must be a size from 1MiB to 1GiB, such as 64MiB, not "64 potatoes" (--set)"#,
        ),
        (
            ("limits.handshake", "30"),
            r#"limits.handshake must be a time from 100ms to 1h, with its unit, such as 500ms or 10m, not "30" (--set)"#,
        ),
        (
            ("log.level", "loud"),
            r#"log.level must be one of error, warn, info, debug, trace, not "loud" (--set)"#,
        ),
        (("data", " "), r#"data must be a path, not " " (--set)"#),
        (
            ("topics.defaults.retention.ms", "-7"),
            "topics.defaults: Invalid value -7 for configuration retention.ms: it must be a whole number from -1 to 9223372036854775807 (--set)",
        ),
        (
            ("journal.file_bytes", "1048577"),
            r#"journal.file_bytes must be a multiple of 4KiB, not "1048577B" (--set)"#,
        ),
        (
            ("journal.bytes_max", "128MiB"),
            "journal.bytes_max = 128MiB does not go with journal.file_bytes = 64MiB: a journal needs room for three files",
        ),
        (
            ("disk.reserve_bytes", "32MiB"),
            "disk.reserve_bytes = 32MiB does not go with journal.file_bytes = 64MiB: the disk must have room left for what a \
             journal file holds (0B keeps no reserve)",
        ),
        (
            ("journal.layout_trigger", "512MiB"),
            "journal.layout_trigger = 512MiB does not go with journal.bytes_max = 512MiB: layout must begin while \
             the journal has a file left to go on with",
        ),
        (
            ("groups.session_timeout_min", "1h"),
            "groups.session_timeout_min = 1h does not go with groups.session_timeout_max = 30m: no member of a classic group \
             could choose a session timeout",
        ),
        (
            ("groups.consumer_heartbeat_interval", "45s"),
            "groups.consumer_heartbeat_interval = 45s does not go with groups.consumer_session_timeout = 45s: every member would \
             be put out between two heartbeats",
        ),
        (
            ("kafka.listen", "0.0.0.0:9092"),
            "kafka.advertised = \"\" does not go with kafka.listen = 0.0.0.0:9092: a node that listens on every address \
             must say which one its clients shall use",
        ),
    ];
    for ((key, value), message) in refusals {
        assert_eq!(refusal(from_sets(&[(key, value)])), message);
    }
}

#[test]
fn a_bad_file_is_refused_with_its_name_and_line() {
    let message = refusal(from_file("cores = 2\n\nkafka = { listen = \n"));
    assert!(message.starts_with("node.toml line 3 is not TOML: "), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert_eq!(
        refusal(from_file("[kafka]\nlistne = \"x:1\"")),
        "there is no key kafka.listne (node.toml); did you mean kafka.listen?"
    );
    assert_eq!(
        refusal(from_file("kafka = 5")),
        "there is no key kafka (node.toml); did you mean kafka.listen?"
    );
    assert_eq!(
        refusal(from_file("cores = 1.5")),
        r#"cores must be a text, a whole number, true or false, not "1.5" (node.toml)"#
    );
    assert_eq!(
        refusal(from_file("\"node.id\" = 1\n[node]\nid = 2")),
        "node.id is set twice (node.toml); keep one of them"
    );
}
