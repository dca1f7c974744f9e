//! Requests that no member should send, nor anyone who is none: Kafka's code for each, in the place where its clients look, and
//! nothing lost by it.

use bytes::Bytes;
use kafka_wire::leave_group::MemberIdentity;
use kafka_wire::{
    ConsumerGroupHeartbeatRequest, ErrorCode, LeaveGroupRequest, ListGroupsRequest, SyncGroupRequest, Text,
};

use super::{
    ORDERS, beat, code, commit, committed, hear, heartbeat, join_request, joining, member, start,
    sync_request,
};

#[test]
fn members_of_the_classic_protocol_that_are_not_or_are_of_another_time() {
    let (_node, mut wire) = start();
    let ann = member(&mut wire);
    let unknown = ErrorCode::UnknownMemberId;
    assert_eq!(code(wire.call(4, &beat("nobody", 1)).error_code), unknown);
    assert_eq!(code(wire.call(3, &sync_request("nobody", 1)).error_code), unknown);
    let joined = wire.call(5, &join_request("readers", "nobody"));
    assert_eq!((code(joined.error_code), joined.generation_id), (unknown, -1));
    assert_eq!(
        commit(&mut wire, 8, ("readers", "nobody", 1), ORDERS, &[(0, 1)]),
        [unknown]
    );
    let leave = LeaveGroupRequest {
        group_id: Text::from("readers"),
        member_id: Text::from("nobody"),
        members: vec![MemberIdentity {
            member_id: Text::from("nobody"),
            ..MemberIdentity::default()
        }],
    };
    assert_eq!(code(wire.call(2, &leave).error_code), unknown);
    let left = wire.call(5, &leave);
    assert_eq!(
        (code(left.error_code), code(left.members[0].error_code)),
        (ErrorCode::None, unknown)
    );
    for generation in [i32::MIN, -1, 0, 2, i32::MAX] {
        let stale = ErrorCode::IllegalGeneration;
        assert_eq!(code(wire.call(4, &beat(&ann, generation)).error_code), stale);
        assert_eq!(
            code(wire.call(5, &sync_request(&ann, generation)).error_code),
            stale
        );
        for version in [2, 9] {
            let told = commit(
                &mut wire,
                version,
                ("readers", &ann, generation),
                ORDERS,
                &[(0, 1)],
            );
            assert_eq!(told, [stale], "{generation}");
        }
    }
    assert_eq!(code(wire.call(4, &beat(&ann, 1)).error_code), ErrorCode::None);
    assert_eq!(committed(&mut wire, "readers"), []);
    for (version, expected) in [(8, ErrorCode::IllegalGeneration), (9, ErrorCode::GroupIdNotFound)] {
        for generation in [0, 1, i32::MAX] {
            let told = commit(&mut wire, version, ("nowhere", "", generation), ORDERS, &[(0, 1)]);
            assert_eq!(told, [expected], "no such group");
        }
    }
    assert_eq!(wire.call(4, &ListGroupsRequest::default()).groups.len(), 1);
}

/// A member that syncs names its protocol, from the version on that has a place for it (KIP-559).
#[test]
fn who_syncs_names_the_protocol() {
    let (_node, mut wire) = start();
    let ann = member(&mut wire);
    let named = || sync_request(&ann, 1);
    for nameless in [
        SyncGroupRequest {
            protocol_type: None,
            ..named()
        },
        SyncGroupRequest {
            protocol_name: None,
            ..named()
        },
    ] {
        let told = wire.call(5, &nameless);
        assert_eq!(code(told.error_code), ErrorCode::InconsistentGroupProtocol);
        assert_eq!(code(wire.call(4, &nameless).error_code), ErrorCode::None);
    }
    assert_eq!(code(wire.call(5, &named()).error_code), ErrorCode::None);
}

#[test]
fn members_of_the_consumer_protocol_that_are_not_or_are_of_another_time() {
    let (_node, mut wire) = start();
    let nobody = hear(&mut wire, &heartbeat("nobody", 1));
    assert_eq!(code(nobody.error_code), ErrorCode::UnknownMemberId);
    assert_eq!(wire.call(4, &ListGroupsRequest::default()).groups.len(), 0);
    let epoch = hear(&mut wire, &joining("ann")).member_epoch;
    assert_eq!(epoch, 1);
    for (member, at, expected) in [
        ("nobody", 1, ErrorCode::UnknownMemberId),
        ("nobody", -1, ErrorCode::UnknownMemberId),
        ("ann", 2, ErrorCode::FencedMemberEpoch),
        ("ann", i32::MAX, ErrorCode::FencedMemberEpoch),
        ("ann", -2, ErrorCode::InvalidRequest),
        ("ann", -3, ErrorCode::InvalidRequest),
        ("ann", i32::MIN, ErrorCode::InvalidRequest),
        ("", 1, ErrorCode::InvalidRequest),
        ("", -1, ErrorCode::InvalidRequest),
    ] {
        let heard = hear(&mut wire, &heartbeat(member, at));
        assert_eq!(code(heard.error_code), expected, "{member} at {at}");
        assert!(heard.error_message.is_some_and(|message| !message.is_empty()));
    }
    for (version, expected) in [
        (8, ErrorCode::UnsupportedVersion),
        (9, ErrorCode::StaleMemberEpoch),
    ] {
        for at in [i32::MIN, 0, 2, i32::MAX] {
            let told = commit(&mut wire, version, ("consumers", "ann", at), ORDERS, &[(0, 1)]);
            assert_eq!(told, [expected], "{at}");
        }
    }
    // A version without member epochs is none for her, whatever it says.
    let told = commit(&mut wire, 8, ("consumers", "ann", 1), ORDERS, &[(0, 1)]);
    assert_eq!(told, [ErrorCode::UnsupportedVersion]);
    let told = commit(&mut wire, 9, ("consumers", "nobody", 1), ORDERS, &[(0, 1)]);
    assert_eq!(told, [ErrorCode::UnknownMemberId]);
    assert_eq!(committed(&mut wire, "consumers"), []);
    assert_eq!(hear(&mut wire, &heartbeat("ann", 1)).member_epoch, 1);
}

#[test]
fn patterns_that_nobody_can_use_are_refused_in_words() {
    let (_node, mut wire) = start();
    for regex in ["(", "a)|(b", "[z-a]", "(a{1000}){1000}", r"\p{Greek}"] {
        let hostile = ConsumerGroupHeartbeatRequest {
            subscribed_topic_names: None,
            subscribed_topic_regex: Some(Text::from(regex)),
            ..joining("ann")
        };
        let heard = hear(&mut wire, &hostile);
        assert_eq!(
            code(heard.error_code),
            ErrorCode::InvalidRegularExpression,
            "{regex}"
        );
        assert!(heard.error_message.is_some_and(|message| !message.is_empty()));
    }
    let long = ConsumerGroupHeartbeatRequest {
        subscribed_topic_regex: Some(Text::from("a".repeat(2_000))),
        ..joining("ann")
    };
    assert_eq!(
        code(hear(&mut wire, &long).error_code),
        ErrorCode::PolicyViolation
    );
    assert_eq!(wire.call(4, &ListGroupsRequest::default()).groups.len(), 0);
}

#[test]
fn what_is_too_long_or_empty_is_refused_in_its_place() {
    let (_node, mut wire) = start();
    member(&mut wire);
    let long = "g".repeat(600);
    for group in ["", &long] {
        let joined = wire.call(5, &join_request(group, ""));
        assert_eq!(code(joined.error_code), ErrorCode::InvalidGroupId);
    }
    let nowhere = ConsumerGroupHeartbeatRequest {
        group_id: Text::EMPTY,
        ..joining("ann")
    };
    let rackless = ConsumerGroupHeartbeatRequest {
        rack_id: Some(Text::EMPTY),
        ..joining("ann")
    };
    for empty in [nowhere, rackless] {
        let heard = wire.call(1, &empty);
        assert_eq!(code(heard.error_code), ErrorCode::InvalidRequest);
    }
    let told = commit(&mut wire, 8, (&long, "", -1), ORDERS, &[(0, 1), (1, 1)]);
    assert_eq!(told, [ErrorCode::InvalidGroupId; 2]);
    let mut talkative = join_request("others", "");
    talkative.protocols[0].metadata = Bytes::from(vec![0; 300 << 10]);
    assert_eq!(
        code(wire.call(5, &talkative).error_code),
        ErrorCode::PolicyViolation
    );
    for timeout in [i32::MIN, -1, 0, i32::MAX] {
        let mut impatient = join_request("others", "");
        impatient.session_timeout_ms = timeout;
        let joined = wire.call(5, &impatient);
        assert_eq!(code(joined.error_code), ErrorCode::InvalidSessionTimeout);
    }
    assert_eq!(wire.call(4, &ListGroupsRequest::default()).groups.len(), 1);
}
