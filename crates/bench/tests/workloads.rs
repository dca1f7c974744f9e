//! Whole workloads against a broker in memory.

use bench::{AppendOptions, Broker, Decode, ReadOptions, Report as _, append, read};
use clap::Args;
use client::fake_broker::{FakeBroker, Fault};
use client::{ApiKey, Compression, ErrorCode};

/// The one API that these tests disturb.
const PRODUCE: ApiKey = ApiKey::Produce;

/// The options that a command line gives.
fn parsed<O: Args>(words: &[&str]) -> Result<O, clap::Error> {
    let command = O::augment_args(clap::Command::new("bench").no_binary_name(true));
    O::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// What an empty command line says.
fn usual<O: Args>() -> O {
    parsed(&[]).expect("every option has a default or is not needed")
}

fn small(broker: &FakeBroker) -> AppendOptions {
    AppendOptions {
        broker: Broker {
            bootstrap: broker.address(),
        },
        topic: "strand".to_owned(),
        records: Some(1_000),
        ..usual()
    }
}

#[test]
fn records_are_appended_counted_and_read_back() {
    let broker = FakeBroker::start();
    let options = AppendOptions {
        partitions: 2,
        producers: 3,
        batch_records: 7,
        in_flight: 4,
        warmup_records: 50,
        verify: true,
        server_pids: vec![std::process::id()],
        durability: Some("memory".to_owned()),
        configs: vec![("flush.messages".to_owned(), "1".to_owned())],
        ..small(&broker)
    };
    let report = append::run(&options).expect("it works");
    // As many as were asked for, shared out among producers: the last batch of each may be smaller.
    assert_eq!(report.records, 1_000);
    assert_eq!((report.errors, report.first_error.as_deref()), (0, None));
    assert_eq!(report.verified_records, Some(1_000 + 50));
    assert!(report.latency.p50_us > 0.0 && report.latency.p50_us <= report.latency.max_us);
    assert!(report.usage.server_cpu_s.is_some());
    assert_eq!(
        broker.configs("strand"),
        [
            ("flush.messages".to_owned(), "1".to_owned()),
            ("ropewalk.durability".to_owned(), "memory".to_owned()),
        ]
    );
    let json: serde_json::Value = serde_json::from_str(&report.render(true)).expect("JSON");
    assert!(json["p9999_us"].is_f64() && json["client_cpu_s"].is_f64());
    let text = report.render(false);
    for (name, value) in [
        ("records", "1,000"),
        ("record_bytes", "100"),
        ("producers", "3"),
        ("acks", "-1"),
    ] {
        let is_told = |line: &str| line.split_whitespace().eq([name, value]);
        assert!(text.lines().any(is_told), "{name} {value}: {text}");
    }
    // This broker is here, and tells of no disk.
    assert!(json["floor_loopback_p50_us"].is_f64() && json["floor_flush_p50_us"].is_null());
    assert_eq!(json["floor_bytes"], 700);
    let disk = json["floor_disk"].as_str();
    assert!(disk.is_some_and(|disk| disk.ends_with("; `ropewalk bench floor --dir` times a flush")));

    for (consumers, decode, times) in [
        (1, Decode::Records, 1),
        (2, Decode::Headers, 1),
        (4, Decode::Records, 2),
    ] {
        let options = ReadOptions {
            broker: Broker {
                bootstrap: broker.address(),
            },
            topic: "strand".to_owned(),
            consumers,
            decode,
            fetch_bytes: 3_000,
            ..usual()
        };
        let report = read::run(&options).expect("it works");
        assert_eq!(report.records, 1_050 * times);
        assert_eq!(report.offset_gaps, 0);
        assert!(report.fetches > 10 && report.bytes > 105_000);
    }
}

#[test]
fn a_fixed_rate_is_kept_and_a_compressed_batch_is_a_batch() {
    let broker = FakeBroker::start();
    let options = AppendOptions {
        records: Some(200),
        rate: Some(20_000.0),
        producers: 2,
        batch_records: 2,
        in_flight: 3,
        idempotent: true,
        compression: Compression::Lz4,
        verify: true,
        ..small(&broker)
    };
    let report = append::run(&options).expect("it works");
    assert_eq!(report.verified_records, Some(200));
    // 200 records at 20,000 a second take ten milliseconds or, on a busy machine, longer.
    assert!(report.seconds >= 0.0095, "{}", report.seconds);
}

#[test]
fn failures_are_counted_and_named() {
    let broker = FakeBroker::start();
    broker.inject(PRODUCE, Fault::Refuse(ErrorCode::MessageTooLarge));
    broker.inject(PRODUCE, Fault::Close);
    let report = append::run(&small(&broker)).expect("it works");
    assert_eq!(report.errors, 2);
    assert_eq!(report.records, 998);
    let first = report.first_error.as_deref();
    assert!(
        first.is_some_and(|text| text.contains("MESSAGE_TOO_LARGE")),
        "{first:?}"
    );
}

#[test]
fn a_broker_that_only_fails_ends_the_run() {
    let broker = FakeBroker::start();
    for _ in 0..200 {
        broker.inject(PRODUCE, Fault::Refuse(ErrorCode::PolicyViolation));
    }
    let options = AppendOptions {
        records: None,
        seconds: 3_600.0,
        ..small(&broker)
    };
    let report = append::run(&options).expect("it ends");
    assert_eq!((report.records, report.errors), (0, 100));
}

#[test]
fn a_lost_record_is_found() {
    let broker = FakeBroker::start();
    let options = AppendOptions {
        verify: true,
        ..small(&broker)
    };
    broker.create_topic("strand", 1);
    // What was acknowledged from here on is not kept.
    broker.forget_after("strand", 0, 990);
    let error = append::run(&options).expect_err("ten records are gone");
    assert!(
        format!("{error:#}").contains("offset 990 was acknowledged"),
        "{error:#}"
    );
}

#[test]
fn what_cannot_begin_says_why() {
    let broker = FakeBroker::start();
    broker.create_topic("strand", 1);
    let refused = [
        (
            AppendOptions {
                partitions: 2,
                ..small(&broker)
            },
            "has 1 partition, not 2",
        ),
        (
            AppendOptions {
                durability: Some("flush".to_owned()),
                ..small(&broker)
            },
            "exists already",
        ),
        (
            AppendOptions {
                rate: Some(0.0),
                ..small(&broker)
            },
            "--rate",
        ),
        (
            AppendOptions {
                broker: Broker {
                    bootstrap: "127.0.0.1:1".to_owned(),
                },
                ..small(&broker)
            },
            "cannot connect",
        ),
    ];
    for (options, expected) in refused {
        let error = append::run(&options).expect_err("it cannot begin");
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }
    let options = ReadOptions {
        broker: Broker {
            bootstrap: broker.address(),
        },
        topic: "strand".to_owned(),
        ..usual()
    };
    let error = read::run(&options).expect_err("it is empty");
    assert!(error.to_string().contains("is empty"));
}

#[test]
fn acks_that_there_are_not_are_refused() {
    assert!(parsed::<AppendOptions>(&["--acks", "2"]).is_err());
}
