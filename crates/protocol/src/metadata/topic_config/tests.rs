//! Rules and values of topic configs, and what the cores make of them.

use std::time::Duration;

use record::{Compression, Packing};

use super::*;
use crate::leader::Durability;

fn config(changes: &[(&str, &str)]) -> Result<TopicConfig, ConfigError> {
    let changes: Vec<_> = changes
        .iter()
        .map(|(name, value)| ConfigChange::set(name, value))
        .collect();
    let mut config = TopicConfig::new();
    config.change(&changes).map(|()| config)
}

#[test]
fn built_in_values_obey_their_own_rules() {
    for known in KNOWN {
        known.check(known.default).expect("a built-in value is valid");
    }
    let settings = TopicSettings::resolve(&TopicConfig::new(), &TopicConfig::new());
    assert_eq!(settings.retention, Some(Duration::from_secs(7 * 24 * 60 * 60)));
    assert_eq!(settings.retention_bytes, None);
    assert_eq!(settings.durability, Durability::Flushed);
    assert_eq!(settings.batch_bytes_max, 1_048_588);
}

#[test]
fn what_changes_nothing_is_kept_as_kafka_takes_it() {
    let taken = [
        ("flush.ms", "0"),
        ("flush.messages", "1"),
        ("file.delete.delay.ms", "0"),
        ("segment.jitter.ms", "9223372036854775807"),
        ("compression.lz4.level", "17"),
        ("message.downconversion.enable", "true"),
        ("preallocate", "TRUE"),
        ("unclean.leader.election.enable", "true"),
        ("local.retention.bytes", "-2"),
        ("leader.replication.throttled.replicas", "*"),
        ("follower.replication.throttled.replicas", "0:101,12:102"),
        ("follower.replication.throttled.replicas", ""),
    ];
    let without = TopicSettings::resolve(&TopicConfig::new(), &TopicConfig::new());
    for (name, value) in taken {
        let set = config(&[(name, value)]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(set.get(name).map(|kept| &**kept), Some(value));
        assert_eq!(
            TopicSettings::resolve(&set, &TopicConfig::new()),
            without,
            "{name}"
        );
        let told = find(name).expect("known").documentation;
        assert!(told.starts_with("No effect: "), "{name}: {told}");
    }
}

#[test]
fn what_is_not_served_is_refused() {
    let wrong = [
        ("cleanup.policy", "archive"),
        ("cleanup.policy", "compact,archive"),
        ("cleanup.policy", "compact,compact"),
        ("cleanup.policy", ","),
        ("cleanup.policy", "delete,"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "NaN"),
        ("min.cleanable.dirty.ratio", "half"),
        ("max.compaction.lag.ms", "0"),
        ("compression.type", "none"),
        ("compression.type", "ZSTD"),
        ("retention.ms", "-2"),
        ("retention.ms", "7d"),
        ("segment.bytes", "99999999999"),
        ("min.insync.replicas", "0"),
        ("ropewalk.durability", "none"),
        ("message.format.version", "3.0"),
        ("remote.storage.enable", "true"),
        // Without effect here, and checked all the same.
        ("flush.ms", "-1"),
        ("flush.messages", "0"),
        ("segment.index.bytes", "3"),
        ("segment.jitter.ms", "1s"),
        ("index.interval.bytes", "2147483648"),
        ("file.delete.delay.ms", "-1"),
        ("local.retention.ms", "-3"),
        ("compression.gzip.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("preallocate", "yes"),
        ("unclean.leader.election.enable", "1"),
        ("leader.replication.throttled.replicas", "0"),
        ("leader.replication.throttled.replicas", "0:1,"),
        ("follower.replication.throttled.replicas", "0:-1"),
    ];
    for (name, value) in wrong {
        assert!(config(&[(name, value)]).is_err(), "{name}={value}");
    }
    // A value that holds anyway may be set.
    for value in ["false", "False"] {
        assert!(config(&[("remote.storage.enable", value)]).is_ok(), "{value}");
    }
    let refused = config(&[("cleanup.policy", "archive")]).expect_err("not served");
    assert_eq!(
        refused.to_string(),
        "Invalid value archive for configuration cleanup.policy: String must be one of: compact, delete; or some of these with \
         commas between"
    );
    let crossed = [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "9")];
    let crossed = config(&crossed).expect("each is valid");
    assert_eq!(
        crossed
            .check_together()
            .expect_err("no record could be kept to it")
            .to_string(),
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)"
    );
    let in_memory = [("ropewalk.order", "total"), ("ropewalk.durability", "memory")];
    let in_memory = config(&in_memory).expect("each is valid");
    assert_eq!(in_memory.check_together(), Err(ConfigError::OrderInMemory));
    assert_eq!(in_memory.check_as_default(), Err(ConfigError::OrderOfAll));
    // Records with one order are flushed whatever others have by default.
    let (ordered, memory) = (
        config(&[("ropewalk.order", "total")]),
        config(&[("ropewalk.durability", "memory")]),
    );
    let (ordered, memory) = (ordered.expect("valid"), memory.expect("valid"));
    let resolved = TopicSettings::resolve(&ordered, &memory);
    assert!(resolved.is_ordered);
    assert_eq!(resolved.durability, Durability::Flushed);
    assert_eq!(
        TopicSettings::resolve(&TopicConfig::new(), &memory).durability,
        Durability::Memory
    );
}

#[test]
fn a_value_is_kept_without_the_blanks_around_it_and_is_short() {
    let blanks = " \n".repeat(300_000);
    let padded = format!("{blanks}-1{blanks}");
    let topic = config(&[
        ("retention.ms", &padded),
        ("cleanup.policy", " delete , compact "),
    ]);
    let topic = topic.expect("what is kept is short");
    let kept: Vec<_> = topic.iter().map(|(name, value)| (name, &**value)).collect();
    assert_eq!(
        kept,
        [("cleanup.policy", "delete , compact"), ("retention.ms", "-1")]
    );

    let number = |bytes: usize| format!("{:0>bytes$}", 7);
    let longest = config(&[("retention.ms", &number(CONFIG_VALUE_BYTES_MAX))]).expect("not too long");
    let settings = TopicSettings::resolve(&longest, &TopicConfig::new());
    assert_eq!(settings.retention, Some(Duration::from_millis(7)));
    let list = format!("delete,{}compact", " ".repeat(CONFIG_VALUE_BYTES_MAX));
    let share = format!("0.{}", number(CONFIG_VALUE_BYTES_MAX));
    for (name, value) in [
        ("retention.ms", number(CONFIG_VALUE_BYTES_MAX + 1)),
        ("cleanup.policy", list),
        ("min.cleanable.dirty.ratio", share),
    ] {
        let too_long = ConfigError::TooLong {
            name: name.into(),
            bytes: value.len(),
            bytes_max: CONFIG_VALUE_BYTES_MAX,
        };
        assert_eq!(config(&[(name, &value)]), Err(too_long));
    }
}

#[test]
fn lists_of_replicas_are_as_long_as_kafkas_protocol_can_say() {
    const NAME: &str = "leader.replication.throttled.replicas";
    let list = |bytes: usize| {
        let mut list = "0:101".to_owned();
        while list.len() + 6 <= bytes {
            list.push_str(",1:101");
        }
        let missing = bytes - list.len();
        list + &"1".repeat(missing)
    };
    let longest = list(REPLICAS_BYTES_MAX);
    let kept = config(&[(NAME, &longest)]).expect("not too long");
    assert_eq!(kept.get(NAME).map(|kept| &**kept), Some(&*longest));
    let bytes = REPLICAS_BYTES_MAX + 1;
    let too_long = ConfigError::TooLong {
        name: NAME.into(),
        bytes,
        bytes_max: REPLICAS_BYTES_MAX,
    };
    assert_eq!(config(&[(NAME, &list(bytes))]), Err(too_long));
    // The refusal of a wrong list is short, however long the list is.
    let wrong = format!("{longest}x");
    let refused = config(&[(NAME, &wrong[6..])]).expect_err("no replica");
    assert!(refused.to_string().contains("x for configuration"), "{refused}");
    let refused = config(&[(NAME, &"ä".repeat(1_000))]).expect_err("no replica");
    assert!(refused.to_string().len() < 350, "{refused}");
}

#[test]
fn refused_values_are_told_in_kafkas_words() {
    for (name, value, words) in [
        (
            "retention.ms",
            "a\nweek",
            r"Invalid value a\nweek for configuration retention.ms: ",
        ),
        (
            "segment.bytes",
            "-1",
            "Invalid value -1 for configuration segment.bytes: ",
        ),
        (
            "message.timestamp.type",
            "Never",
            "Invalid value Never for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime",
        ),
        ("nonsense", "1", "Unknown topic config name: nonsense"),
        (
            "leader.replication.throttled.replicas",
            "0",
            "Invalid value 0 for configuration leader.replication.throttled.replicas: it must be the literal '*' or a list",
        ),
    ] {
        let refused = config(&[(name, value)]).expect_err("wrong").to_string();
        assert!(refused.starts_with(words), "{refused}");
    }
}

#[test]
fn how_batches_are_compressed() {
    let packing = |values: &[(&str, &str)], defaults: &[(&str, &str)]| {
        let (topic, cluster) = (config(values), config(defaults));
        TopicSettings::resolve(&topic.expect("valid"), &cluster.expect("valid")).packing
    };
    let levels = [
        ("compression.gzip.level", "9"),
        ("compression.lz4.level", "1"),
        ("compression.zstd.level", "-131072"),
    ];
    for (name, compression, built_in, set) in [
        ("uncompressed", Compression::None, None, None),
        ("gzip", Compression::Gzip, Some(-1), Some(9)),
        ("snappy", Compression::Snappy, None, None),
        ("lz4", Compression::Lz4, None, None),
        ("zstd", Compression::Zstd, Some(3), Some(-131_072)),
    ] {
        let wanted = |level| Some(Packing { compression, level });
        assert_eq!(packing(&[("compression.type", name)], &[]), wanted(built_in));
        assert_eq!(packing(&[("compression.type", name)], &levels), wanted(set));
        assert_eq!(packing(&levels, &[("compression.type", name)]), wanted(set));
    }
    assert_eq!(packing(&levels, &[]), None);
    let own = [("compression.type", "producer")];
    assert_eq!(packing(&own, &[("compression.type", "zstd")]), None);
}

#[test]
fn what_a_policy_means() {
    let settings = |policy: &str| {
        let topic = config(&[
            ("cleanup.policy", policy),
            ("retention.ms", "5"),
            ("retention.bytes", "6"),
            ("min.cleanable.dirty.ratio", " 0.25 "),
            ("delete.retention.ms", "7"),
        ]);
        TopicSettings::resolve(&topic.expect("valid"), &TopicConfig::new())
    };
    let compaction = Some(CompactionSettings {
        lag_min: Duration::ZERO,
        lag_max: Duration::from_millis(i64::MAX as u64),
        dirty_share_min: Millionths(250_000),
        tombstone_retention: Duration::from_millis(7),
    });
    let (age, bytes) = (Some(Duration::from_millis(5)), Some(6));
    for (policy, retention, retention_bytes, compaction) in [
        ("delete", age, bytes, None),
        ("compact", None, None, compaction),
        ("compact,delete", age, bytes, compaction),
        ("", None, None, None),
        (" delete , compact ", age, bytes, compaction),
    ] {
        let settings = settings(policy);
        assert_eq!(settings.retention, retention, "{policy}");
        assert_eq!(settings.retention_bytes, retention_bytes, "{policy}");
        assert_eq!(settings.compaction, compaction, "{policy}");
        assert_eq!(settings.deletes, retention.is_some(), "{policy}");
        assert_eq!(settings.is_only_compacted(), policy == "compact", "{policy}");
    }
}

#[test]
fn a_segment_to_be_compacted_in_time_is_complete_in_time() {
    let age_ms = |policy: &str, lag_max_ms: &str| {
        let topic = config(&[
            ("cleanup.policy", policy),
            ("segment.ms", "9"),
            ("max.compaction.lag.ms", lag_max_ms),
        ]);
        let settings = TopicSettings::resolve(&topic.expect("valid"), &TopicConfig::new());
        settings.segment_age().as_millis()
    };
    assert_eq!(age_ms("compact", "5"), 5);
    assert_eq!(age_ms("compact", "50"), 9);
    assert_eq!(age_ms("delete", "5"), 9);
}

#[test]
fn a_refused_change_changes_nothing() {
    let mut topic = config(&[("retention.ms", "5")]).expect("valid");
    let before = topic.clone();
    let changes = [
        ConfigChange::set("retention.ms", "6"),
        ConfigChange::set("nonsense", "1"),
    ];
    assert_eq!(
        topic.change(&changes),
        Err(ConfigError::Unknown {
            name: "nonsense".into()
        })
    );
    assert_eq!(topic, before);
}

#[test]
fn the_topic_goes_before_the_cluster() {
    let cluster = config(&[("retention.ms", "5"), ("segment.ms", "9")]).expect("valid");
    let mut topic = config(&[("retention.ms", "-1"), ("ropewalk.durability", "memory")]).expect("valid");
    let settings = TopicSettings::resolve(&topic, &cluster);
    assert_eq!(settings.retention, None);
    assert_eq!(settings.segment_age_max, Duration::from_millis(9));
    assert_eq!(settings.durability, Durability::Memory);
    topic
        .change(&[ConfigChange::reset("retention.ms")])
        .expect("known");
    assert_eq!(
        TopicSettings::resolve(&topic, &cluster).retention,
        Some(Duration::from_millis(5))
    );
}
