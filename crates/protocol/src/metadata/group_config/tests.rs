//! Configs of groups: what is taken and refused, and that an image has what the commands made.

use record::{ClusterId, Offset};

use super::*;
use crate::leader::NodeId;
use crate::metadata::{Address, ConfigEdit, FeatureLevel, ImageWriter, TopicConfig};

fn image_of(level: Option<FeatureLevel>) -> Metadata {
    let mut image = Metadata::new(TopicConfig::new()).of_node(NodeId(1));
    let address = Address {
        host: "rope".into(),
        port: 9092,
    };
    let commands = [
        Command::FormatCluster {
            cluster: ClusterId([9; 16]),
        },
        Command::StartNode {
            node: NodeId(1),
            address,
            home: None,
            rack: None,
        },
    ];
    let level = level.map(|level| Command::SetFeatureLevel { level });
    for command in commands.into_iter().chain(level) {
        image.apply(&command).expect("it fits");
    }
    image
}

fn edit(name: &str, operation: ConfigOperation, value: &str) -> ConfigWish {
    ConfigWish::Edit(vec![ConfigEdit {
        name: name.into(),
        operation,
        value: value.into(),
    }])
}

/// Carries a wish out; says what was refused.
fn wish(image: &mut Metadata, group: &str, wish: &ConfigWish) -> Result<Command, String> {
    let planned = image.plan_group_configs(&group.into(), wish, &mut Plans::default());
    let command = planned.map_err(|error| error.to_string())?;
    let read = Command::decode(&command.encode()).expect("it was written");
    assert_eq!(read, command);
    image.apply(&command).expect("it was checked");
    Ok(command)
}

#[test]
fn a_groups_configs_are_set_and_given_up() {
    let mut image = image_of(Some(FeatureLevel::NEWEST));
    wish(
        &mut image,
        "readers",
        &edit(SESSION_TIMEOUT, ConfigOperation::Set, " 050000 "),
    )
    .expect("valid");
    let config = image.group_config("readers").expect("it has some");
    assert_eq!(config.get(SESSION_TIMEOUT).map(|value| &**value), Some("50000"));
    assert_eq!(config.time(SESSION_TIMEOUT), Some(Duration::from_secs(50)));
    assert_eq!(config.time(HEARTBEAT_INTERVAL), None);

    // Again, and what is not set: nothing is to be committed.
    let again = [
        edit(SESSION_TIMEOUT, ConfigOperation::Set, "50000"),
        edit(HEARTBEAT_INTERVAL, ConfigOperation::Delete, ""),
        edit("nonsense", ConfigOperation::Delete, ""),
    ];
    for again in again {
        let command = wish(&mut image, "readers", &again).expect("valid");
        assert!(command.changes_nothing(), "{command:?}");
    }

    let whole = ConfigWish::Replace(vec![(HEARTBEAT_INTERVAL.into(), "6000".into())]);
    wish(&mut image, "readers", &whole).expect("valid");
    let config = image.group_config("readers").expect("it has some");
    let values: Vec<_> = config.iter().map(|(name, value)| (name, &**value)).collect();
    assert_eq!(values, [(HEARTBEAT_INTERVAL, "6000")]);

    wish(&mut image, "readers", &ConfigWish::Replace(Vec::new())).expect("valid");
    assert_eq!(image.group_config("readers"), None, "nothing is left behind");
}

#[test]
fn what_is_wrong_is_refused_by_its_name_and_changes_nothing() {
    let mut image = image_of(Some(FeatureLevel::NEWEST));
    let before = image.clone();
    let refused = [
        (
            edit("share.session.timeout.ms", ConfigOperation::Set, "50000"),
            "Unknown group config name: share.session.timeout.ms",
        ),
        (
            edit(SESSION_TIMEOUT, ConfigOperation::Set, "44999"),
            "Invalid value 44999 for configuration consumer.session.timeout.ms: it must be a whole number from 45000 to 60000",
        ),
        (
            edit(HEARTBEAT_INTERVAL, ConfigOperation::Set, "soon"),
            "Invalid value soon for configuration consumer.heartbeat.interval.ms: it must be a whole number from 5000 to 15000",
        ),
        (
            edit(HEARTBEAT_INTERVAL, ConfigOperation::Append, "6000"),
            "Can't APPEND to or SUBTRACT from key consumer.heartbeat.interval.ms because its type is not LIST; set it or delete it",
        ),
        (
            ConfigWish::Replace(vec![
                (HEARTBEAT_INTERVAL.into(), "6000".into()),
                ("retention.ms".into(), "6000".into()),
            ]),
            "Unknown group config name: retention.ms",
        ),
    ];
    for (wanted, told) in refused {
        assert_eq!(wish(&mut image, "readers", &wanted), Err(told.to_owned()));
    }
    let sound = edit(HEARTBEAT_INTERVAL, ConfigOperation::Set, "6000");
    for group in [String::new(), "g".repeat(513)] {
        let told = wish(&mut image, &group, &sound).expect_err("no group has that name");
        assert_eq!(
            told,
            format!("the name of a group has 1 to 512 bytes, not {}", group.len())
        );
    }
    assert_eq!(image, before);

    let mut early = image_of(None);
    let told = wish(&mut early, "readers", &sound).expect_err("nodes of that level know none");
    assert!(told.contains("feature level"), "{told}");
}

#[test]
fn so_many_groups_have_configs_and_no_more() {
    let image = image_of(Some(FeatureLevel::NEWEST));
    let sound = edit(HEARTBEAT_INTERVAL, ConfigOperation::Set, "6000");
    let mut plans = Plans::default();
    for number in 0..GROUPS_MAX {
        let group = format!("group-{number}").into();
        image
            .plan_group_configs(&group, &sound, &mut plans)
            .expect("there is room");
    }
    let refused = image.plan_group_configs(&"one-more".into(), &sound, &mut plans);
    assert_eq!(refused, Err(PlanError::GroupConfigsFull { max: GROUPS_MAX }));
    let given_up = edit(HEARTBEAT_INTERVAL, ConfigOperation::Delete, "");
    let planned = image.plan_group_configs(&"one-more".into(), &given_up, &mut plans);
    assert!(planned.is_ok(), "what adds nothing is always taken");
}

#[test]
fn an_image_has_them_and_is_as_before_without() {
    let written = |image: &Metadata| {
        let mut writer = ImageWriter::begin(image, Offset(0));
        assert!(!writer.go_on(image, 1 << 20));
        writer.finish()
    };
    let mut image = image_of(Some(FeatureLevel::NEWEST));
    assert_eq!(written(&image)[0], 6, "programs before read it");
    for group in ["readers", "writers"] {
        wish(
            &mut image,
            group,
            &edit(SESSION_TIMEOUT, ConfigOperation::Set, "60000"),
        )
        .expect("valid");
    }
    let bytes = written(&image);
    assert_eq!(bytes[0], 7);
    let read = image.read_image(Offset(0), &bytes).expect("it was written");
    assert_eq!(read, image);
}
