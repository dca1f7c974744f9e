//! Operators' views of groups, and the deletion of one.

use kafka_wire::{
    ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, ErrorCode, LeaveGroupRequest,
    ListGroupsRequest, Text,
};

use super::{code, hear, joining, member, start};
use crate::support::Wire;

#[test]
fn operators_list_describe_and_delete() {
    let (_node, mut wire) = start();
    let describe = |wire: &mut Wire, version| {
        let request = DescribeGroupsRequest {
            groups: vec![Text::from("readers")],
            ..DescribeGroupsRequest::default()
        };
        wire.call(version, &request).groups.remove(0)
    };
    let old = describe(&mut wire, 5);
    assert_eq!((old.error_code, old.group_state.as_str()), (0, "Dead"));
    let new = describe(&mut wire, 6);
    assert_eq!(code(new.error_code), ErrorCode::GroupIdNotFound);

    let ann = member(&mut wire);
    let described = describe(&mut wire, 6);
    assert_eq!(
        (described.group_state.as_str(), described.protocol_data.as_str()),
        ("Stable", "range")
    );
    let [only] = &described.members[..] else {
        panic!("one member: {:?}", described.members);
    };
    assert_eq!(
        (
            &only.member_id,
            only.client_id.as_str(),
            only.client_host.as_str()
        ),
        (&ann, "test", "/127.0.0.1")
    );
    let listed = wire.call(5, &ListGroupsRequest::default()).groups;
    let listed: Vec<_> = listed
        .iter()
        .map(|group| {
            (
                group.group_id.as_str(),
                group.group_state.as_str(),
                group.group_type.as_str(),
            )
        })
        .collect();
    assert_eq!(listed, [("readers", "Stable", "classic")]);

    let delete = DeleteGroupsRequest {
        groups_names: vec![Text::from("readers"), Text::from("nobody")],
    };
    let codes = |wire: &mut Wire| -> Vec<ErrorCode> {
        let results = wire.call(2, &delete).results;
        results.iter().map(|result| code(result.error_code)).collect()
    };
    assert_eq!(
        codes(&mut wire),
        [ErrorCode::NonEmptyGroup, ErrorCode::GroupIdNotFound]
    );
    let leave = LeaveGroupRequest {
        group_id: Text::from("readers"),
        member_id: ann,
        ..LeaveGroupRequest::default()
    };
    wire.call(1, &leave);
    assert_eq!(codes(&mut wire), [ErrorCode::None, ErrorCode::GroupIdNotFound]);
    assert!(wire.call(5, &ListGroupsRequest::default()).groups.is_empty());
}

#[test]
fn who_asks_is_told_what_may_be_done_with_a_group() {
    let (_node, mut wire) = start();
    member(&mut wire);
    let heard = hear(&mut wire, &joining("ann"));
    assert_eq!(code(heard.error_code), ErrorCode::None);
    let and_nobody = |group: &str| vec![Text::from(group), Text::from("nobody")];
    for (asks, expected) in [(true, 3_400), (false, i32::MIN)] {
        let classic = DescribeGroupsRequest {
            groups: and_nobody("readers"),
            include_authorized_operations: asks,
        };
        let told = wire.call(6, &classic).groups;
        let told: Vec<i32> = told.iter().map(|group| group.authorized_operations).collect();
        assert_eq!(told, [expected, i32::MIN]);
        let consumer = ConsumerGroupDescribeRequest {
            group_ids: and_nobody("consumers"),
            include_authorized_operations: asks,
        };
        let told = wire.call(1, &consumer).groups;
        let told: Vec<i32> = told.iter().map(|group| group.authorized_operations).collect();
        assert_eq!(told, [expected, i32::MIN]);
    }
}
