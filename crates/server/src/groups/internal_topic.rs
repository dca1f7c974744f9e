//! The settings of the topics that nodes keep for themselves, whatever clients want and other topics have.
//!
//! Settings that are fixed here go before all that are set, for the topic itself as well: it may have been made with other
//! values. Code that needs a topic's settings asks here.

use std::borrow::Cow;

use protocol::metadata::{
    ConfigChange, Metadata, Topic, TopicConfig, TopicSettings, is_internal, is_order_log,
};

/// The last record of each key, durable before anybody acts by it, and no change of a group refused or waiting for a codec. A
/// group's record grows with its members. Where several nodes hold it, the coordinator keeps the last record of each key itself (`rewriting`).
const GROUPS_CONFIG: [(&str, &str); 7] = [
    ("cleanup.policy", "compact"),
    ("compression.type", "producer"),
    ("max.message.bytes", "16777216"),
    ("message.timestamp.after.max.ms", "9223372036854775807"),
    ("message.timestamp.before.max.ms", "9223372036854775807"),
    ("min.insync.replicas", "1"),
    ("ropewalk.durability", "fsync"),
];
/// Positions are kept for ever, and flushed before anybody is told of them.
const ORDER_CONFIG: [(&str, &str); 6] = [
    ("cleanup.policy", "delete"),
    ("compression.type", "producer"),
    ("min.insync.replicas", "1"),
    ("retention.bytes", "-1"),
    ("retention.ms", "-1"),
    ("ropewalk.durability", "fsync"),
];
/// In segments that are soon complete, unless clients want others (Kafka's `offsets.topic.segment.bytes`): only those are
/// compacted, and a start reads all of what is not. 16 MiB are some 200,000 commits.
const SEGMENT_CONFIG: (&str, &str) = ("segment.bytes", "16777216");

/// The configs that the topic is made with.
pub(super) fn first_config() -> Vec<ConfigChange> {
    as_changes(GROUPS_CONFIG.into_iter().chain([SEGMENT_CONFIG]))
}

/// The configs of a topic that the nodes keep for themselves which cannot be set; none of others.
pub(crate) fn fixed_config(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        name if is_order_log(name) => &ORDER_CONFIG,
        name if is_internal(name) => &GROUPS_CONFIG,
        _ => &[],
    }
}

/// A topic's own configs as they go.
pub(crate) fn own_config(topic: &Topic) -> Cow<'_, TopicConfig> {
    if !is_internal(&topic.name) {
        return Cow::Borrowed(&topic.config);
    }
    let mut config = topic.config.clone();
    config
        .change(&as_changes(fixed_config(&topic.name).iter().copied()))
        .expect("what is fixed is valid");
    Cow::Owned(config)
}

/// The settings in force for a topic.
pub(crate) fn topic_settings(metadata: &Metadata, topic: &Topic) -> TopicSettings {
    let Cow::Owned(own) = own_config(topic) else {
        return topic.settings;
    };
    let in_force: Vec<_> = metadata.describe_topic_config(&own).collect();
    let in_force = in_force.iter().map(|entry| (entry.config.name, &*entry.value));
    let mut config = TopicConfig::new();
    config
        .change(&as_changes(in_force))
        .expect("what is in force was checked when it was set");
    TopicSettings::resolve(&config, &TopicConfig::new())
}

fn as_changes<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<ConfigChange> {
    let values = values.into_iter();
    values
        .map(|(name, value)| ConfigChange::set(name, value))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::Durability;
    use protocol::groups::GROUPS_TOPIC;
    use protocol::leader::NodeId;
    use protocol::metadata::{Address, Command, NewTopic, Plans};
    use record::{ClusterId, TopicId};

    use super::*;

    /// Each worse for groups than what is fixed.
    const WEAK: [(&str, &str); 7] = [
        ("cleanup.policy", "delete"),
        ("compression.type", "zstd"),
        ("max.message.bytes", "100"),
        ("message.timestamp.after.max.ms", "0"),
        ("message.timestamp.before.max.ms", "0"),
        ("min.insync.replicas", "3"),
        ("ropewalk.durability", "memory"),
    ];

    /// A node whose topics have these configs by default, with a topic that has those of its own.
    fn metadata(defaults: &[(&str, &str)], name: &str, own: &[(&str, &str)]) -> Metadata {
        let mut started_with = TopicConfig::new();
        let defaults = as_changes(defaults.iter().copied());
        started_with.change(&defaults).expect("valid");
        let node = NodeId(1);
        let mut metadata = Metadata::new(started_with).of_node(node);
        let address = Address {
            host: "rope".into(),
            port: 9092,
        };
        let cluster = ClusterId([9; 16]);
        for command in [
            Command::FormatCluster { cluster },
            Command::StartNode {
                node,
                address,
                home: None,
                rack: None,
            },
        ] {
            metadata.apply(&command).expect("it fits");
        }
        let topic = NewTopic {
            id: TopicId([1; 16]),
            name: name.into(),
            partition_count: 1,
            replica_count: 1,
            chosen: None,
            config: as_changes(own.iter().copied()),
        };
        let create = metadata.plan_topic(&topic, &mut Plans::default());
        metadata.apply(&create.expect("valid")).expect("it fits");
        metadata
    }

    fn check(metadata: &Metadata) -> TopicSettings {
        let topic = metadata.topic_named(GROUPS_TOPIC).expect("it was made");
        let settings = topic_settings(metadata, topic);
        assert_eq!((settings.retention, settings.retention_bytes), (None, None));
        assert!(settings.compaction.is_some());
        assert_eq!(settings.durability, Durability::Flushed);
        assert_eq!(settings.insync_replicas_min, 1);
        assert_eq!(settings.batch_bytes_max, 16 << 20);
        assert_eq!(settings.packing, None);
        let longest = Duration::from_millis(i64::MAX as u64);
        assert_eq!(settings.timestamp_before_max, longest);
        assert_eq!(settings.timestamp_after_max, longest);
        for (name, value) in GROUPS_CONFIG {
            assert_eq!(own_config(topic).get(name).map(|value| &**value), Some(value));
        }
        settings
    }

    #[test]
    fn what_is_fixed_goes_before_all_that_is_set() {
        let (nothing, weak): (&[_], &[_]) = (&[], &WEAK);
        for (defaults, own) in [(weak, nothing), (nothing, weak), (weak, weak)] {
            check(&metadata(defaults, GROUPS_TOPIC, own));
        }
    }

    #[test]
    fn what_is_not_fixed_comes_from_where_other_topics_have_it() {
        let defaults = [("segment.ms", "7000"), ("delete.retention.ms", "8000")];
        let settings = check(&metadata(
            &defaults,
            GROUPS_TOPIC,
            &[("segment.bytes", "2000000")],
        ));
        assert_eq!(settings.segment_age_max, Duration::from_secs(7));
        assert_eq!(settings.segment_bytes_max, 2_000_000);
        let compaction = settings.compaction.expect("it is compacted");
        assert_eq!(compaction.tombstone_retention, Duration::from_secs(8));
    }

    #[test]
    fn other_topics_have_what_is_set_for_them() {
        let metadata = metadata(&[("segment.ms", "7000")], "orders", &WEAK);
        let topic = metadata.topic_named("orders").expect("it was made");
        assert_eq!(topic_settings(&metadata, topic), topic.settings);
        assert_eq!(*own_config(topic), topic.config);
        assert_eq!(topic.settings.durability, Durability::Memory);
    }
}
