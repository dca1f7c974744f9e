//! Changes of configs: wishes, layers, and that what is replayed is what was done.

use std::time::Duration;

use record::ClusterId;

use super::*;
use crate::leader::Durability;
use crate::metadata::{Address, NewTopic, Plans};

const TOPIC: TopicId = TopicId([1; 16]);
const NODE: NodeId = NodeId(1);

/// The commands that make a cluster of one node with one topic, and whatever the test adds.
struct Log {
    commands: Vec<Command>,
    image: Metadata,
}

impl Log {
    fn new(started_with: &[ConfigChange]) -> Log {
        let mut log = Log {
            commands: Vec::new(),
            image: image(started_with),
        };
        log.apply(Command::FormatCluster {
            cluster: ClusterId([9; 16]),
        });
        let address = Address {
            host: "rope".into(),
            port: 9092,
        };
        log.apply(Command::StartNode {
            node: NODE,
            address,
            home: None,
            rack: None,
        });
        let topic = NewTopic {
            id: TOPIC,
            name: "orders".into(),
            partition_count: 1,
            replica_count: 1,
            chosen: None,
            config: vec![ConfigChange::set("segment.ms", "5")],
        };
        let create = log
            .image
            .plan_topic(&topic, &mut Plans::default())
            .expect("valid");
        log.apply(create);
        log
    }

    fn apply(&mut self, command: Command) {
        self.image.apply(&command).expect("it fits");
        self.commands.push(command);
    }

    fn wish(&mut self, target: ConfigTarget, wish: &ConfigWish) -> Result<(), PlanError> {
        let before = self.image.clone();
        let planned = self.image.plan_configs(target, wish, &mut Plans::default());
        assert_eq!(self.image, before, "a plan changes nothing");
        planned.map(|command| self.apply(command))
    }

    fn set(&mut self, target: ConfigTarget, name: &str, value: &str) {
        let wish = ConfigWish::Edit(vec![edit(name, ConfigOperation::Set, value)]);
        self.wish(target, &wish).expect("valid");
    }

    fn settings(&self) -> TopicSettings {
        self.image.topic(TOPIC).expect("it is there").settings
    }

    /// The value in force for the topic, and its source.
    fn told(&self, name: &str) -> (String, ConfigSource) {
        let own = &self.image.topic(TOPIC).expect("it is there").config;
        let mut entries = self.image.describe_topic_config(own);
        let entry = entries.find(|entry| entry.config.name == name).expect("known");
        (entry.value.to_string(), entry.source)
    }
}

fn image(started_with: &[ConfigChange]) -> Metadata {
    let mut defaults = TopicConfig::new();
    defaults.change(started_with).expect("valid");
    Metadata::new(defaults).of_node(NODE)
}

fn edit(name: &str, operation: ConfigOperation, value: &str) -> ConfigEdit {
    ConfigEdit {
        name: name.into(),
        operation,
        value: value.into(),
    }
}

fn replace(values: &[(&str, &str)]) -> ConfigWish {
    let values = values
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()));
    ConfigWish::Replace(values.collect())
}

fn delete(name: &str) -> ConfigWish {
    ConfigWish::Edit(vec![edit(name, ConfigOperation::Delete, "")])
}

#[test]
fn the_nearest_value_goes() {
    let mut log = Log::new(&[ConfigChange::set("retention.ms", "40")]);
    let steps = [
        (
            ConfigTarget::AllBrokers,
            "log.retention.ms",
            "30",
            ConfigSource::AllBrokers,
        ),
        (
            ConfigTarget::Broker(NODE),
            "log.retention.ms",
            "20",
            ConfigSource::Broker,
        ),
        (
            ConfigTarget::Topic(TOPIC),
            "retention.ms",
            "10",
            ConfigSource::Topic,
        ),
    ];
    assert_eq!(log.told("retention.ms"), ("40".into(), ConfigSource::Started));
    for (target, name, value, source) in steps {
        log.set(target, name, value);
        assert_eq!(log.told("retention.ms"), (value.into(), source));
        let ms = value.parse().expect("a number");
        assert_eq!(log.settings().retention, Some(Duration::from_millis(ms)));
    }
    let own = &log.image.topic(TOPIC).expect("it is there").config;
    let known = topic_config::find("retention.ms").expect("known");
    let values = log.image.topic_config_values(own, known);
    let values: Vec<&str> = values.iter().map(|value| &*value.value).collect();
    assert_eq!(values, ["10", "20", "30", "40", "604800000"]);

    for (target, name, _, _) in steps.into_iter().rev() {
        log.wish(target, &delete(name)).expect("set");
    }
    assert_eq!(log.settings().retention, Some(Duration::from_millis(40)));
    assert_eq!(log.image.broker_config(None), None, "nothing is left behind");
}

#[test]
fn another_brokers_value_does_not_go_here() {
    let mut log = Log::new(&[]);
    let address = Address {
        host: "twine".into(),
        port: 9092,
    };
    log.apply(Command::StartNode {
        node: NodeId(2),
        address,
        home: None,
        rack: None,
    });
    log.set(ConfigTarget::Broker(NodeId(2)), "log.retention.ms", "5");
    assert_eq!(log.settings().retention, Some(Duration::from_millis(604_800_000)));
    let there = log.image.clone().of_node(NodeId(2));
    let settings = there.topic(TOPIC).expect("it is there").settings;
    assert_eq!(settings.retention, Some(Duration::from_millis(5)));
}

#[test]
fn what_a_topic_does_not_have_can_be_given_up() {
    let mut log = Log::new(&[]);
    let topic = ConfigTarget::Topic(TOPIC);
    for name in ["nonsense", "file.delete.delay.ms", "retention.ms"] {
        log.wish(topic, &delete(name)).expect("it is so already");
        let wish = ConfigWish::Edit(vec![
            edit(name, ConfigOperation::Delete, ""),
            edit("segment.ms", ConfigOperation::Set, "6"),
        ]);
        log.wish(topic, &wish).expect("the rest is sound");
        assert_eq!(log.told("segment.ms"), ("6".into(), ConfigSource::Topic));
        log.set(topic, "segment.ms", "5");
    }
    let gone = ConfigTarget::Topic(TopicId([7; 16]));
    log.wish(gone, &delete("nonsense"))
        .expect_err("there is no such topic");
    log.wish(ConfigTarget::AllBrokers, &delete("nonsense"))
        .expect_err("brokers have no such config");
}

#[test]
fn the_last_word_of_a_list_can_be_taken_away() {
    let mut log = Log::new(&[]);
    let taken = edit("cleanup.policy", ConfigOperation::Subtract, "delete");
    log.wish(ConfigTarget::Topic(TOPIC), &ConfigWish::Edit(vec![taken]))
        .expect("an empty list is one");
    assert_eq!(log.told("cleanup.policy"), (String::new(), ConfigSource::Topic));
    let settings = log.settings();
    assert_eq!((settings.retention, settings.compaction), (None, None));
}

#[test]
fn replacing_gives_up_what_is_not_named() {
    let mut log = Log::new(&[]);
    let topic = ConfigTarget::Topic(TOPIC);
    log.set(topic, "ropewalk.durability", "memory");
    log.wish(
        topic,
        &replace(&[("retention.ms", "7"), ("ropewalk.durability", "memory")]),
    )
    .expect("valid");
    assert_eq!(log.told("segment.ms").1, ConfigSource::Default);
    assert_eq!(log.told("retention.ms"), ("7".into(), ConfigSource::Topic));
    assert_eq!(log.settings().durability, Durability::Memory);
    log.wish(topic, &replace(&[])).expect("valid");
    assert_eq!(
        log.image.topic(TOPIC).expect("it is there").config,
        TopicConfig::new()
    );

    log.set(ConfigTarget::AllBrokers, "max.connections", "5");
    log.wish(ConfigTarget::AllBrokers, &replace(&[("log.roll.ms", "9")]))
        .expect("valid");
    let set: Vec<&str> = log
        .image
        .broker_config(None)
        .into_iter()
        .flat_map(|config| config.iter().map(|(name, _)| name))
        .collect();
    assert_eq!(set, ["log.roll.ms"]);
}

#[test]
fn only_lists_are_added_to_and_taken_from() {
    let mut log = Log::new(&[]);
    let change = |name, operation, value| ConfigWish::Edit(vec![edit(name, operation, value)]);
    let topic = ConfigTarget::Topic(TOPIC);
    // An item that is there already is not added twice; one that is not there is not missed.
    log.wish(
        topic,
        &change("cleanup.policy", ConfigOperation::Append, "delete"),
    )
    .expect("nothing new");
    assert_eq!(log.told("cleanup.policy"), ("delete".into(), ConfigSource::Topic));
    log.wish(
        topic,
        &change("cleanup.policy", ConfigOperation::Subtract, "nothing"),
    )
    .expect("nothing gone");
    assert_eq!(log.told("cleanup.policy").0, "delete");
    for operation in [ConfigOperation::Append, ConfigOperation::Subtract] {
        for (target, name) in [
            (topic, "retention.ms"),
            (ConfigTarget::AllBrokers, "log.retention.ms"),
        ] {
            let refused = log.wish(target, &change(name, operation, "5"));
            let no_list = ConfigError::NotAList { name: name.into() };
            assert_eq!(refused, Err(ApplyError::Config(no_list).into()));
        }
    }
}

#[test]
fn what_is_added_or_taken_away_is_as_short_as_a_value() {
    let mut log = Log::new(&[]);
    let words = "compact,".repeat(100_000) + "delete";
    for (target, name) in [
        (ConfigTarget::Topic(TOPIC), "cleanup.policy"),
        (ConfigTarget::AllBrokers, "log.cleanup.policy"),
        (ConfigTarget::Broker(NODE), "log.cleanup.policy"),
    ] {
        for operation in [
            ConfigOperation::Set,
            ConfigOperation::Append,
            ConfigOperation::Subtract,
        ] {
            let wish = ConfigWish::Edit(vec![edit(name, operation, &words)]);
            let too_long = ConfigError::TooLong {
                name: name.into(),
                bytes: words.len(),
                bytes_max: topic_config::CONFIG_VALUE_BYTES_MAX,
            };
            let refused = Err(ApplyError::Config(too_long).into());
            assert_eq!(log.wish(target, &wish), refused, "{name} {operation:?}");
        }
    }
    let padded = " ".repeat(100_000) + "compact";
    let compacted = edit("cleanup.policy", ConfigOperation::Append, &padded);
    let wish = ConfigWish::Edit(vec![compacted]);
    log.wish(ConfigTarget::Topic(TOPIC), &wish)
        .expect("blanks do not count");
    assert_eq!(log.told("cleanup.policy").0, "delete,compact");
}

#[test]
fn a_wish_is_granted_whole_or_not_at_all() {
    let mut log = Log::new(&[]);
    let before = log.image.clone();
    let wrong = [
        (ConfigTarget::Topic(TOPIC), "retention.ms", "never"),
        (ConfigTarget::Topic(TOPIC), "log.retention.ms", "5"),
        (ConfigTarget::Topic(TopicId([7; 16])), "retention.ms", "5"),
        (ConfigTarget::AllBrokers, "retention.ms", "5"),
        (ConfigTarget::AllBrokers, "max.connections", "0"),
        (ConfigTarget::Broker(NodeId(9)), "log.retention.ms", "5"),
    ];
    for (target, name, value) in wrong {
        let good = match target {
            ConfigTarget::Topic(_) => "segment.ms",
            _ => "log.roll.ms",
        };
        let edits = [(good, "8"), (name, value)];
        let edits = edits.map(|(name, value)| edit(name, ConfigOperation::Set, value));
        log.wish(target, &ConfigWish::Edit(edits.to_vec()))
            .expect_err("it cannot be");
        log.wish(target, &replace(&[(good, "8"), (name, value)]))
            .expect_err("it cannot be");
        assert_eq!(log.image, before, "{name}={value}");
    }
}

#[test]
fn a_topics_own_lags_go_together_and_those_of_others_are_nobodys_fault() {
    let mut log = Log::new(&[]);
    let topic = ConfigTarget::Topic(TOPIC);
    log.set(topic, "cleanup.policy", "compact");
    log.set(topic, "min.compaction.lag.ms", "10");
    let less = ConfigWish::Edit(vec![edit("max.compaction.lag.ms", ConfigOperation::Set, "9")]);
    let crossed = |refused| {
        matches!(
            refused,
            Err(PlanError::Refused(ApplyError::Config(
                ConfigError::Crossed { .. }
            )))
        )
    };
    assert!(crossed(log.wish(topic, &less)));
    let new = NewTopic {
        id: TopicId([2; 16]),
        name: "table".into(),
        partition_count: 1,
        replica_count: 1,
        chosen: None,
        config: vec![
            ConfigChange::set("max.compaction.lag.ms", "9"),
            ConfigChange::set("min.compaction.lag.ms", "10"),
        ],
    };
    assert!(crossed(
        log.image.plan_topic(&new, &mut Plans::default()).map(|_| ())
    ));
    // Set in different places, each by itself is as good as the other.
    log.set(ConfigTarget::AllBrokers, "log.cleaner.max.compaction.lag.ms", "9");
    log.set(
        ConfigTarget::Broker(NODE),
        "log.cleaner.min.compaction.lag.ms",
        "12",
    );
    let compaction = log.settings().compaction.expect("it is compacted");
    assert_eq!(
        (compaction.lag_min, compaction.lag_max),
        (Duration::from_millis(10), Duration::from_millis(9))
    );
}

#[test]
fn what_is_replayed_is_what_was_done() {
    let started_with = [ConfigChange::set("retention.bytes", "77")];
    let mut log = Log::new(&started_with);
    log.set(ConfigTarget::AllBrokers, "log.retention.ms", "30");
    log.set(ConfigTarget::AllBrokers, "max.connections", "12");
    log.set(ConfigTarget::Broker(NODE), "message.max.bytes", "2000");
    log.set(
        ConfigTarget::Topic(TOPIC),
        "message.timestamp.type",
        "LogAppendTime",
    );
    log.wish(ConfigTarget::Topic(TOPIC), &delete("segment.ms"))
        .expect("set");
    let mut again = image(&started_with);
    for command in &log.commands {
        let command = Command::decode(&command.encode()).expect("just written");
        again.apply(&command).expect("it fitted");
    }
    assert_eq!(again, log.image);
    assert_eq!(
        again.topic(TOPIC).expect("it is there").settings.batch_bytes_max,
        2000
    );
}

#[test]
fn values_are_kept_in_their_shortest_form_and_what_is_so_is_no_change() {
    let mut log = Log::new(&[]);
    let topic = ConfigTarget::Topic(TOPIC);
    let padded = format!("{}86400000", "0".repeat(240));
    for (target, name, sent, kept) in [
        (topic, "retention.ms", padded.as_str(), "86400000"),
        (topic, "retention.bytes", "+70", "70"),
        (topic, "cleanup.policy", "compact ,  delete", "compact,delete"),
        (topic, "min.cleanable.dirty.ratio", "0.250000000000001", "0.25"),
        (topic, "min.cleanable.dirty.ratio", "1e-300", "0"),
        (
            ConfigTarget::AllBrokers,
            "log.retention.ms",
            padded.as_str(),
            "86400000",
        ),
        (ConfigTarget::Broker(NODE), "log.retention.ms", "007", "7"),
    ] {
        let wish = ConfigWish::Edit(vec![edit(name, ConfigOperation::Set, sent)]);
        let command = log
            .image
            .plan_configs(target, &wish, &mut Plans::default())
            .expect("valid");
        let (Command::SetTopicConfig { changes, .. } | Command::SetBrokerConfig { changes, .. }) = &command
        else {
            panic!("{command:?}");
        };
        assert_eq!(changes, &[ConfigChange::set(name, kept)]);
        assert!(!command.changes_nothing());
        log.apply(command);
        let again = log
            .image
            .plan_configs(target, &wish, &mut Plans::default())
            .expect("valid");
        assert!(again.changes_nothing(), "{again:?}");
    }
    let unset = ConfigWish::Edit(vec![edit("log.retention.bytes", ConfigOperation::Delete, "")]);
    let command = log
        .image
        .plan_configs(ConfigTarget::AllBrokers, &unset, &mut Plans::default())
        .expect("valid");
    assert!(command.changes_nothing(), "{command:?}");
    let longer = format!("0{}", "0".repeat(topic_config::CONFIG_VALUE_BYTES_MAX));
    let wish = ConfigWish::Edit(vec![edit("retention.ms", ConfigOperation::Set, &longer)]);
    assert!(
        log.image
            .plan_configs(topic, &wish, &mut Plans::default())
            .is_err(),
        "too long to be looked at"
    );
}

#[test]
fn words_of_long_lists_are_found_at_once() {
    const NAME: &str = "leader.replication.throttled.replicas";
    let mut log = Log::new(&[]);
    let target = ConfigTarget::Topic(TOPIC);
    let (few, many) = ("0:1,1:1", (0..4_000).map(|index| format!("{index}:1")));
    let many = many.collect::<Vec<_>>().join(",");
    log.set(target, NAME, few);
    for (operation, list, left) in [
        (ConfigOperation::Append, &*many, &*many),
        (ConfigOperation::Append, few, &*many),
        (ConfigOperation::Subtract, &many["0:1,1:1,".len()..], few),
    ] {
        let wish = ConfigWish::Edit(vec![edit(NAME, operation, list)]);
        log.wish(target, &wish).expect("valid");
        assert_eq!(log.told(NAME).0, left);
    }
}
