//! A group's configs: told, changed, listed, and heard of by its members.

use kafka_wire::ListConfigResourcesRequest;

use super::*;
use crate::ask::configs::{
    APPEND, DELETE, GROUP, SET, all_of, change, described, edit, replacement, set, told,
};

const INTERVAL: &str = "consumer.heartbeat.interval.ms";
const SESSION: &str = "consumer.session.timeout.ms";
/// Where values come from, as Kafka numbers it.
const OF_GROUP: i8 = 8;
const OF_START: i8 = 4;
const BUILT_IN: i8 = 5;

/// The groups with configs.
fn listed(wire: &mut Wire) -> Vec<String> {
    let request = ListConfigResourcesRequest {
        resource_types: vec![GROUP],
    };
    let told = wire.call(1, &request);
    assert_eq!(told.error_code, 0);
    told.config_resources
        .iter()
        .map(|resource| resource.resource_name.to_string())
        .collect()
}

#[test]
fn members_hear_of_their_groups_configs_which_outlast_restarts() {
    let node = TestNode::start_with(&[("groups.consumer_session_timeout", "50s")]);
    let mut wire = node.connect();
    wire.create_topic("orders", 2, &[]);
    let synonyms = |own: &[&str]| {
        let own = own.iter().map(|name| ((*name).to_owned(), OF_GROUP));
        let behind =
            [OF_START, BUILT_IN].map(|source| ("groups.consumer_session_timeout".to_owned(), source));
        own.chain(behind).collect::<Vec<_>>()
    };
    // A group need not be there.
    assert_eq!(
        told(&mut wire, GROUP, "consumers", SESSION),
        ("50000".to_owned(), OF_START, synonyms(&[]))
    );
    set(&mut wire, GROUP, "consumers", SESSION, "60000");
    set(&mut wire, GROUP, "consumers", INTERVAL, "15000");
    assert_eq!(
        told(&mut wire, GROUP, "consumers", SESSION),
        ("60000".to_owned(), OF_GROUP, synonyms(&[SESSION]))
    );
    assert_eq!(listed(&mut wire), ["consumers"]);
    assert_eq!(hear(&mut wire, &joining("ann")).heartbeat_interval_ms, 15_000);
    let other = ConsumerGroupHeartbeatRequest {
        group_id: Text::from("others"),
        ..joining("bob")
    };
    assert_eq!(
        hear(&mut wire, &other).heartbeat_interval_ms,
        5_000,
        "another group"
    );

    let node = node.kill_and_restart();
    let mut wire = node.connect();
    let epoch = hear(&mut wire, &heartbeat("ann", 1)).member_epoch;
    assert_eq!(
        hear(&mut wire, &heartbeat("ann", epoch)).heartbeat_interval_ms,
        15_000
    );
    let unset = edit(INTERVAL, DELETE, None);
    assert_eq!(change(&mut wire, GROUP, "consumers", unset), ErrorCode::None);
    assert_eq!(
        hear(&mut wire, &heartbeat("ann", epoch)).heartbeat_interval_ms,
        5_000
    );
    assert_eq!(told(&mut wire, GROUP, "consumers", INTERVAL).1, BUILT_IN);
    let nothing = wire.call(2, &replacement(GROUP, "consumers", &[]));
    assert_eq!(nothing.responses[0].error_code, 0);
    assert_eq!(listed(&mut wire), [""; 0], "nothing is left behind");
}

#[test]
fn what_no_group_can_have_is_refused() {
    let node = TestNode::start();
    let mut wire = node.connect();
    let long = "g".repeat(513);
    let sound = || edit(SESSION, SET, Some("60000"));
    let refused = [
        ("", sound(), ErrorCode::InvalidRequest),
        (&*long, sound(), ErrorCode::InvalidGroupId),
        (
            "readers",
            edit(SESSION, SET, Some("5000")),
            ErrorCode::InvalidConfig,
        ),
        (
            "readers",
            edit(SESSION, SET, Some("soon")),
            ErrorCode::InvalidConfig,
        ),
        (
            "readers",
            edit(SESSION, APPEND, Some("60000")),
            ErrorCode::InvalidConfig,
        ),
        (
            "readers",
            edit("retention.ms", SET, Some("5")),
            ErrorCode::InvalidConfig,
        ),
        (
            "readers",
            edit("share.session.timeout.ms", SET, Some("50000")),
            ErrorCode::InvalidConfig,
        ),
    ];
    for (group, wish, code) in refused {
        assert_eq!(change(&mut wire, GROUP, group, wish), code, "{group}");
    }
    assert_eq!(listed(&mut wire), [""; 0]);
    let names: Vec<_> = described(&mut wire, GROUP, "readers")
        .iter()
        .map(|config| config.name.to_string())
        .collect();
    assert_eq!(names, [INTERVAL, SESSION]);
    let request = kafka_wire::DescribeConfigsRequest {
        resources: vec![all_of(GROUP, "")],
        ..kafka_wire::DescribeConfigsRequest::default()
    };
    let told = wire.call(4, &request).results.remove(0);
    assert_eq!(code(told.error_code), ErrorCode::InvalidRequest);
    assert_eq!(
        told.error_message.as_deref(),
        Some("Default group resources are not allowed.")
    );
}
