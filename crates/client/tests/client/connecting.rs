//! Connections: agreeing on versions, pipelining, and what bad answers become.

use std::net::TcpListener;
use std::time::Duration;

use client::fake_broker::{FakeBroker, Fault};
use client::{Advice, ClientError, Cluster, Connection};
use kafka_wire::{ApiKey, DescribeGroupsRequest, MetadataRequest};

use crate::options;

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn versions_are_agreed_on_with_brokers_of_any_age() {
    for api_versions_last in [0, 3, 4] {
        let broker = FakeBroker::start_with(api_versions_last);
        let connection = Connection::connect(&broker.address(), &options(PATIENCE)).expect("an answer");
        let version = connection.version_of(ApiKey::Metadata).expect("it is offered");
        assert_eq!(version, ApiKey::Metadata.valid_versions().last);
        let asked = if api_versions_last < 4 { 2 } else { 1 };
        assert_eq!(broker.requests(ApiKey::ApiVersions), asked);
    }
}

#[test]
fn an_api_that_is_not_offered_is_refused_before_anything_is_sent() {
    let broker = FakeBroker::start();
    let mut connection = Connection::connect(&broker.address(), &options(PATIENCE)).expect("it listens");
    let refused = connection.send(&DescribeGroupsRequest::default());
    assert!(matches!(
        refused,
        Err(ClientError::Versions {
            api: ApiKey::DescribeGroups,
            offered: None,
            ..
        })
    ));
    connection
        .call(&MetadataRequest::default())
        .expect("the connection still serves");
}

#[test]
fn many_requests_in_flight_are_answered_in_their_order() {
    let broker = FakeBroker::start();
    let mut connection = Connection::connect(&broker.address(), &options(PATIENCE)).expect("it listens");
    let first = connection.send(&MetadataRequest::default()).expect("sent");
    for index in 1..100 {
        assert_eq!(
            connection.send(&MetadataRequest::default()).expect("sent"),
            first + index
        );
    }
    assert_eq!(connection.in_flight(), 100);
    for _ in 0..100 {
        assert!(connection.is_readable(PATIENCE).expect("alive"), "in time");
        let response = connection.receive::<MetadataRequest>().expect("sound");
        assert_eq!(response.brokers.len(), 1);
    }
    assert_eq!(connection.in_flight(), 0);
    assert!(!connection.is_readable(Duration::ZERO).expect("alive"));
}

/// The error of a request that meets `fault`, after which the connection must have ended.
fn spoilt(fault: Fault, request_timeout: Duration) -> ClientError {
    let broker = FakeBroker::start();
    let mut connection =
        Connection::connect(&broker.address(), &options(request_timeout)).expect("it listens");
    broker.inject(ApiKey::Metadata, fault);
    let error = connection
        .call(&MetadataRequest::default())
        .expect_err("the answer is spoilt");
    assert!(connection.is_ended());
    let next = connection
        .send(&MetadataRequest::default())
        .expect_err("the connection has ended");
    assert!(matches!(next, ClientError::Disconnected { .. }), "{next}");
    error
}

#[test]
fn lengths_that_cannot_be_are_named() {
    for length in [i32::MAX, (1 << 20) + 1, 3, 0, -1, i32::MIN] {
        let error = spoilt(Fault::Length(length), PATIENCE);
        assert!(
            matches!(error, ClientError::FrameLength { length_bytes, .. } if length_bytes == i64::from(length)),
            "{error}"
        );
        assert_eq!(error.advice(), Advice::Corrupt);
    }
}

#[test]
fn an_end_is_told_from_an_end_inside_an_answer() {
    let between = spoilt(Fault::Close, PATIENCE);
    let inside = spoilt(Fault::CloseInside, PATIENCE);
    assert_eq!(
        (between.advice(), inside.advice()),
        (Advice::Reconnect, Advice::Reconnect)
    );
    assert!(between.to_string().ends_with("the broker closed it"), "{between}");
    assert!(
        inside
            .to_string()
            .ends_with("the broker closed it inside an answer"),
        "{inside}"
    );
}

#[test]
fn a_wrong_number_and_garbage_are_damage() {
    let error = spoilt(Fault::Correlation, PATIENCE);
    assert!(
        matches!(error, ClientError::Correlation { expected, received, .. } if expected != received),
        "{error}"
    );
    let error = spoilt(Fault::Garbage, PATIENCE);
    assert!(
        matches!(
            error,
            ClientError::Wire {
                api: ApiKey::Metadata,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.advice(), Advice::Corrupt);
}

#[test]
fn silence_and_half_an_answer_are_timeouts() {
    for fault in [Fault::Silence, Fault::Length(1000)] {
        let error = spoilt(fault, Duration::from_millis(50));
        assert!(
            matches!(
                error,
                ClientError::Timeout {
                    api: ApiKey::Metadata,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(error.advice(), Advice::Reconnect);
    }
}

#[test]
fn addresses_that_lead_nowhere_are_told_apart() {
    let free = TcpListener::bind("127.0.0.1:0").expect("the loopback has free ports");
    let address = free.local_addr().expect("bound").to_string();
    drop(free);
    let refused = Connection::connect(&address, &options(PATIENCE)).expect_err("nobody listens");
    assert!(matches!(refused, ClientError::Connect { .. }), "{refused}");
    let nonsense = Connection::connect("no port here", &options(PATIENCE)).expect_err("no address");
    assert!(matches!(nonsense, ClientError::Address { .. }), "{nonsense}");
    let none = Cluster::connect(" , ", options(PATIENCE)).expect_err("no address");
    assert!(matches!(none, ClientError::Options(_)), "{none}");
}
