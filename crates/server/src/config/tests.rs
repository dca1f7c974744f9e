//! Configurations out of files, `--set` and flags.

mod refusals;

use std::time::Duration;

use platform::random::SeededRandom;
use protocol::metadata::broker_config::{
    CLEANER_BACKOFF, CLEANER_BUFFER, CLEANER_RATE, MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP,
};
use protocol::metadata::topic_config::KNOWN;
use protocol::metadata::{KnownBrokerConfig, PlanLimits};

use super::keys::KEYS;
use super::values::{read_bytes, read_duration, read_host_port, show_bytes, show_duration};
use super::*;

fn from_file(text: &str) -> Result<Config, ConfigError> {
    Config::load(
        Some(FileText {
            name: "node.toml",
            text,
        }),
        &[],
        &[],
    )
}

fn from_sets(sets: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let sets: Vec<_> = sets
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Config::load(None, &sets, &[])
}

fn source(config: &Config, key: &str) -> String {
    let described = config
        .describe()
        .into_iter()
        .find(|described| described.key == key);
    described.expect("a known key").source.to_string()
}

#[test]
fn nothing_given_is_the_default() {
    let config = Config::load(None, &[], &[]).expect("valid");
    assert_eq!(config, Config::default());
    assert!(
        config
            .describe()
            .iter()
            .all(|key| key.source == Source::Default && key.value == key.default)
    );
}

#[test]
fn a_file_is_read_by_tables_or_dotted_keys() {
    let text = r#"
        data = "/srv/log"
        cores = 2
        pin_threads = false
        kafka.listen = "[::1]:9999"

        [journal]
        file_bytes = "8 MiB"
        bytes_max = 33554432
        layout_trigger = "16mib"

        [limits]
        connection_idle = "3d"

        [topics.defaults]
        retention.ms = 60000
        "ropewalk.durability" = "memory"

        [log]
        format = "json"
        level = "debug"
    "#;
    let config = from_file(text).expect("valid");
    assert_eq!(config.data, PathBuf::from("/srv/log"));
    assert_eq!((config.cores, config.pin_threads), (2, false));
    assert_eq!(config.kafka.listen, "[::1]:9999");
    assert_eq!(config.journal.file_bytes, 8 << 20);
    assert_eq!(config.journal.bytes_max, 32 << 20);
    assert_eq!(config.limits.connection_idle, Duration::from_secs(3 * 86_400));
    assert_eq!(
        config.topics.defaults.get("retention.ms").map(|value| &**value),
        Some("60000")
    );
    assert_eq!(
        config
            .topics
            .defaults
            .get("ropewalk.durability")
            .map(|value| &**value),
        Some("memory")
    );
    assert_eq!(
        (config.log.format, config.log.level),
        (LogFormat::Json, LogLevel::Debug)
    );
    assert_eq!(source(&config, "journal.file_bytes"), "node.toml");
    assert_eq!(source(&config, "topics.defaults.retention.ms"), "node.toml");
    assert_eq!(source(&config, "topics.auto_create"), "default");
}

#[test]
fn flags_win_over_sets_over_the_file_over_defaults() {
    let file = FileText {
        name: "node.toml",
        text: "data = \"a\"\ncores = 3\n[node]\nid = 3\n",
    };
    let sets = [("data", "b"), ("cores", "4"), ("cores", "5")].map(|(key, value)| (key.into(), value.into()));
    let flags = [Flag {
        flag: "--data",
        key: "data",
        value: "c".to_owned(),
    }];
    let config = Config::load(Some(file), &sets, &flags).expect("valid");
    assert_eq!(
        (config.data.to_str(), config.cores, config.node.id),
        (Some("c"), 5, 3)
    );
    let sources = ["data", "cores", "node.id", "kafka.listen"].map(|key| source(&config, key));
    assert_eq!(sources, ["--data", "--set", "node.toml", "default"]);
}

#[test]
fn a_value_changed_in_the_struct_is_the_programs() {
    let mut config = Config::default();
    config.kafka.listen = "127.0.0.1:0".to_owned();
    assert_eq!(source(&config, "kafka.listen"), "the program");
}

#[test]
fn every_address_is_fine_with_one_to_tell() {
    let config = from_sets(&[
        ("kafka.listen", "0.0.0.0:9092"),
        ("kafka.advertised", "log.example:19092"),
    ]);
    let advertised = config.expect("valid").kafka.advertised;
    assert_eq!(
        advertised,
        Some(HostPort {
            host: "log.example".to_owned(),
            port: 19_092
        })
    );
}

#[test]
fn every_key_is_documented_and_takes_what_it_shows() {
    let described = Config::default().describe();
    let mut names: Vec<_> = described.iter().map(|key| key.key.clone()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), described.len(), "no key stands there twice");
    for key in &described {
        assert!(
            key.documentation.ends_with('.'),
            "{}: {}",
            key.key,
            key.documentation
        );
    }
    let sets: Vec<_> = described.into_iter().map(|key| (key.key, key.value)).collect();
    let again = Config::load(None, &sets, &[]).expect("what is shown can be given");
    let values = |config: &Config| {
        config
            .describe()
            .into_iter()
            .map(|key| key.value)
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&again), values(&Config::default()));
    assert_eq!(again.limits, LimitSettings::default());
}

#[test]
fn values_read_as_people_write_them() {
    assert_eq!(read_bytes("64MiB"), Some(64 << 20));
    assert_eq!(read_bytes("64 mib"), Some(64 << 20));
    assert_eq!(read_bytes("2GB"), Some(2_000_000_000));
    assert_eq!(read_bytes("17"), Some(17));
    for wrong in [
        "",
        "MiB",
        "-1",
        "1.5GiB",
        "64M",
        "99999999TiB",
        "18446744073709551616",
    ] {
        assert_eq!(read_bytes(wrong), None, "{wrong}");
    }
    assert_eq!(read_duration("100ms"), Some(Duration::from_millis(100)));
    assert_eq!(read_duration("10 m"), Some(Duration::from_secs(600)));
    assert_eq!(read_duration("3d"), Some(Duration::from_secs(3 * 86_400)));
    for wrong in ["", "10", "ms", "-1s", "1.5h", "1M", "999999999999999d"] {
        assert_eq!(read_duration(wrong), None, "{wrong}");
    }
    assert_eq!(show_bytes(0), "0B");
    assert_eq!(show_bytes(1 << 20), "1MiB");
    assert_eq!(show_bytes((1 << 20) + 1), "1048577B");
    assert_eq!(show_duration(Duration::ZERO), "0s");
    assert_eq!(show_duration(Duration::from_millis(90_000)), "90s");
}

#[test]
fn addresses_have_a_host_and_a_port() {
    let host_port = |text: &str| read_host_port(text).map(|address| address.to_string());
    for good in ["127.0.0.1:9092", "localhost:0", "[::1]:1", "log.example:65535"] {
        assert_eq!(host_port(good).as_deref(), Some(good));
    }
    for wrong in [
        "",
        ":9092",
        "host",
        "host:",
        "host:65536",
        "::1:9092",
        "[::1:9092",
        "a b:1",
        "tcp://host:1",
    ] {
        assert_eq!(host_port(wrong), None, "{wrong}");
    }
}

#[test]
fn what_is_shown_is_read_back() {
    let mut random = SeededRandom::new(7);
    for _ in 0..10_000 {
        // A random shift, so that small numbers and round ones come up too.
        let number = random.next_u64() >> random.below(64) << random.below(20);
        assert_eq!(read_bytes(&show_bytes(number)), Some(number));
        let time = Duration::from_micros(number);
        assert_eq!(read_duration(&show_duration(time)), Some(time));
    }
}

#[test]
fn every_config_stands_in_the_documentation() {
    let text = include_str!("../../../../docs/configs.md");
    let keys = KEYS.iter().map(|key| key.name);
    let of_topics = KNOWN.iter().map(|known| known.name);
    let of_brokers = KnownBrokerConfig::all().map(|known| known.name);
    for name in keys.chain(of_topics).chain(of_brokers) {
        assert!(text.contains(&format!("| `{name}` |")), "{name}");
    }
}

#[test]
fn the_documentation_says_what_numbers_may_be() {
    let text = include_str!("../../../../docs/configs.md");
    let mut config = Config::default();
    for key in KEYS {
        // Such as `a size from 1MiB to 1GiB, such as 64MiB`. A key that is no number has no range, and an address only that of ports.
        let expected = (key.slot)(&mut config).expected(key.range);
        let Some((_, range)) = expected
            .split_once(" from ")
            .filter(|(what, _)| !what.ends_with("port"))
        else {
            continue;
        };
        let range = range.split(',').next().unwrap_or_default();
        let cell = format!("| `{}` |", range.replace(" to ", "`–`"));
        let row = format!("| `{}` |", key.name);
        let row = text.lines().find(|line| line.starts_with(&row));
        let row = row.expect("every key has a row");
        assert!(row.contains(&cell), "{}: {cell} in {row}", key.name);
    }
}

#[test]
fn a_topic_may_have_as_many_partitions_as_the_default_may_say() {
    let key = KEYS.iter().find(|key| key.name == "topics.default_partitions");
    let most = key.expect("a key").range.max;
    assert_eq!(most, PlanLimits::default().topic_partitions_max as u64);
}

#[test]
fn readers_take_what_a_node_takes_by_default() {
    let accepted = Config::default().limits.decompressed_bytes as u64;
    assert_eq!(record::Limits::up_to(accepted), record::Limits::default());
}

#[test]
fn the_documentation_says_what_values_topics_take() {
    let text = include_str!("../../../../docs/configs.md");
    for known in KNOWN {
        let row = format!("| `{}` | `{}` |", known.name, known.default);
        let row = text.lines().find_map(|line| line.strip_prefix(&row));
        assert_eq!(
            row.is_some_and(|row| row.contains("| No effect: ")),
            known.documentation.starts_with("No effect: "),
            "{}",
            known.name
        );
        let values = row
            .and_then(|row| row.split('|').next())
            .expect("every config has a row");
        let takes = |value: &str| known.check(value).is_ok();
        let named: Vec<&str> = values.split('`').skip(1).step_by(2).collect();
        let number = |value: &str| value.parse::<i128>().expect("a number");
        match named[..] {
            [least] if values.ends_with(" and more ") => {
                assert!(takes(least) && takes(&i64::MAX.to_string()), "{}", known.name);
                assert!(!takes(&(number(least) - 1).to_string()), "{}", known.name);
            }
            [least, most] if values.contains('–') => {
                assert!(takes(least) && takes(most), "{}", known.name);
                assert!(!takes(&(number(least) - 1).to_string()), "{}", known.name);
                assert!(!takes(&(number(most) + 1).to_string()), "{}", known.name);
            }
            _ => {
                let takes_all = !named.is_empty() && named.iter().all(|word| takes(word));
                assert!(takes_all && !takes("other"), "{}", known.name);
            }
        }
    }
}

#[test]
fn what_changes_has_the_defaults_of_its_keys() {
    let Config {
        limits, compaction, ..
    } = Config::default();
    let of = |name| KnownBrokerConfig::find(name).expect("known").rules.default;
    assert_eq!(of(MAX_CONNECTIONS), limits.connections.to_string());
    assert_eq!(
        of(MAX_CONNECTIONS_PER_IP),
        limits.connections_per_address.to_string()
    );
    assert_eq!(
        of(CLEANER_BACKOFF),
        compaction.check_interval.as_millis().to_string()
    );
    assert_eq!(of(CLEANER_BUFFER), compaction.key_map_bytes.to_string());
    assert_eq!(of(CLEANER_RATE), compaction.rate.to_string());
    for (name, key) in [
        (MAX_CONNECTIONS, "limits.connections"),
        (MAX_CONNECTIONS_PER_IP, "limits.connections_per_address"),
        (CLEANER_BACKOFF, "compaction.check_interval"),
        (CLEANER_BUFFER, "compaction.key_map_bytes"),
        (CLEANER_RATE, "compaction.rate"),
    ] {
        let known = KnownBrokerConfig::find(name).expect("known");
        let range = KEYS.iter().find(|known| known.name == key).expect("a key").range;
        let takes = |number: u64| known.check(&number.to_string()).is_ok();
        assert!(takes(range.min) && takes(range.max), "{name} is not as {key}");
        assert!(
            !takes(range.min - 1) && !takes(range.max + 1),
            "{name} is not as {key}"
        );
    }
}

#[test]
fn names_lead_to_the_key_that_a_restart_needs() {
    let leads = [
        ("cores", Some("cores")),
        ("listeners", Some("kafka.listen")),
        (
            "topics.defaults.retention.ms",
            Some("topics.defaults.retention.ms"),
        ),
        ("topics.defaults.nonsense", None),
        ("retention.ms", None),
        ("num.io.threads", None),
        ("log.flush.interval.ms", None),
    ];
    for (name, key) in leads {
        assert_eq!(key_of(name).as_deref(), key, "{name}");
    }
}

#[test]
fn values_are_told_in_the_units_of_kafkas_names() {
    let sets = [
        ("groups.offsets_retention", "90s"),
        ("kafka.listen", "[::1]:9092"),
    ];
    let keys = from_sets(&sets).expect("sound").describe();
    let told = |name: &str| {
        let key = keys
            .iter()
            .find(|key| kafka_names(&key.key).any(|known| known == name));
        let key = key.expect("a key has this name");
        key.kafka_value(name, &key.value)
    };
    let values = [
        ("offsets.retention.minutes", Some("2")),
        ("connections.max.idle.ms", Some("600000")),
        ("log.cleaner.io.max.bytes.per.second", Some("67108864")),
        ("auto.create.topics.enable", Some("true")),
        ("broker.id", Some("1")),
        ("log.dirs", Some("./ropewalk-data")),
        ("listeners", Some("PLAINTEXT://[::1]:9092")),
        ("advertised.listeners", None),
    ];
    for (name, value) in values {
        assert_eq!(told(name).as_deref(), value, "{name}");
    }
    for key in keys.iter().filter(|key| key.kind == KeyKind::Duration) {
        for name in kafka_names(&key.key) {
            assert!(name.ends_with(".ms") || name.ends_with(".minutes"), "{name}");
        }
    }
}

#[test]
fn keys_lead_to_the_name_that_changes_them_while_the_node_runs() {
    let leads = [
        ("compaction.check_interval", Some("log.cleaner.backoff.ms")),
        ("compaction.key_map_bytes", Some("log.cleaner.dedupe.buffer.size")),
        ("compaction.rate", Some("log.cleaner.io.max.bytes.per.second")),
        ("limits.connections", Some("max.connections")),
        ("limits.connections_per_address", Some("max.connections.per.ip")),
        ("topics.defaults.retention.ms", Some("log.retention.ms")),
        ("topics.defaults.segment.ms", Some("log.roll.ms")),
        ("topics.defaults.ropewalk.durability", None),
        ("cores", None),
    ];
    for (key, name) in leads {
        assert_eq!(name_while_running(key), name, "{key}");
    }
}

#[test]
fn no_text_is_a_panic() {
    const PIECES: [&str; 16] = [
        "cores",
        "kafka",
        "listen",
        ".",
        "=",
        "\"",
        "[",
        "]",
        "\n",
        "64",
        "MiB",
        "é",
        "-",
        "topics.defaults.",
        "{",
        " ",
    ];
    let mut random = SeededRandom::new(11);
    for _ in 0..500 {
        let mut text = || {
            (0..random.below(8))
                .map(|_| PIECES[random.below(16) as usize])
                .collect::<String>()
        };
        let (key, value, file) = (text(), text(), text() + &text());
        // Either outcome is fine; what it must be for which text is told above.
        let _ = from_sets(&[
            (&key, &value),
            ("kafka.listen", &value),
            ("journal.file_bytes", &value),
        ]);
        let _ = from_file(&file);
    }
}
