//! DescribeGroups, ConsumerGroupDescribe, ListGroups and DeleteGroups: what operators ask.
//!
//! All but the last have answers of any length: their room is taken first.

use std::rc::Rc;

use kafka_wire::consumer_group_describe::{
    Assignment, DescribedGroup as DescribedConsumerGroup, Member, TopicPartitions,
};
use kafka_wire::delete_groups::DeletableGroupResult;
use kafka_wire::describe_groups::{DescribedGroup, DescribedGroupMember};
use kafka_wire::list_groups::ListedGroup;
use kafka_wire::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DeleteGroupsRequest, DeleteGroupsResponse,
    DescribeGroupsRequest, DescribeGroupsResponse, ErrorCode, ListGroupsRequest, ListGroupsResponse, Text,
};
use platform::slices::Slices;
use protocol::groups::{
    self, DeleteGroup, DescribeClassic, DescribeConsumer, DescribedClassic, DescribedConsumer,
    DescribedConsumerMember, GroupState, ListGroups, Name, NamedPartitions,
};

use super::super::Envelope;
use super::super::authorized::{ON_GROUP, if_asked};
use super::super::wide::is_long;
use super::answer_room::{AnswerRoom, Asked};
use super::{Refusal, ask, for_each, name, named_twice, names, once, optional_text, text};
use crate::core::Core;

/// Before this version a group that is not there is shown as dead, without an error.
const FIRST_WITH_UNKNOWN_GROUPS: i16 = 6;

/// The numbers of ConsumerGroupDescribe for a member that speaks the classic protocol, and for one that speaks the consumer
/// protocol.
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

/// Groups and members that are told before others have their turn.
const GROUPS_IN_ONE_TURN: usize = 1_000;

/// Bytes that these take beside their texts and bytes: as they were found, as they are told, and in the frame.
const MEMBER_BYTES: usize = 512;
const TOPIC_BYTES: usize = 128;
const INDEX_BYTES: usize = 12;
const LISTED_BYTES: usize = 256;

pub(in crate::api) async fn describe_groups(
    core: Rc<Core>,
    request: DescribeGroupsRequest,
    Envelope { version, .. }: Envelope,
) -> DescribeGroupsResponse {
    let operations = if_asked(request.include_authorized_operations, ON_GROUP);
    let mut room = AnswerRoom::new(&core.answers);
    let mut groups = Vec::with_capacity(request.groups.len());
    let mut slices = Slices::of(GROUPS_IN_ONE_TURN);
    for (group, is_first) in once(&core, request.groups, |group| group).await {
        let mut group = describe_group(&core, &mut room, group, is_first, version).await;
        if group.error_code == 0 {
            group.authorized_operations = operations;
        }
        slices.did(1 + group.members.len()).await;
        groups.push(group);
    }
    DescribeGroupsResponse {
        throttle_time_ms: 0,
        groups,
    }
}

async fn describe_group(
    core: &Rc<Core>,
    room: &mut AnswerRoom,
    group_id: Text,
    is_first: bool,
    version: i16,
) -> DescribedGroup {
    let describe = DescribeClassic {
        group: name(&group_id),
    };
    let described = match is_first {
        true => room.ask(core, Asked::Much, describe, classic_bytes).await,
        false => Err(named_twice()),
    };
    match described {
        Ok(described) => told_group(group_id, &described),
        Err(refusal) => {
            let hidden = refusal.code == ErrorCode::GroupIdNotFound && version < FIRST_WITH_UNKNOWN_GROUPS;
            DescribedGroup {
                error_code: if hidden { 0 } else { refusal.code.code() },
                error_message: refusal.text(),
                group_id,
                group_state: Text::from(GroupState::Dead.name()),
                ..DescribedGroup::default()
            }
        }
    }
}

/// Bytes that a described group takes: texts once as such and once in the frame, bytes at most there.
fn classic_bytes(described: &DescribedClassic) -> usize {
    let of_member = |member: &groups::DescribedClassicMember| {
        let texts = [
            Some(&member.member),
            member.instance.as_ref(),
            Some(&member.client_id),
            Some(&member.client_host),
        ];
        MEMBER_BYTES + twice(texts.into_iter().flatten()) + member.metadata.len() + member.assignment.len()
    };
    MEMBER_BYTES + described.members.iter().map(of_member).sum::<usize>()
}

fn twice<'a>(texts: impl IntoIterator<Item = &'a Name>) -> usize {
    texts.into_iter().map(|text| 2 * text.len()).sum()
}

fn told_group(group_id: Text, described: &DescribedClassic) -> DescribedGroup {
    let members = described.members.iter().map(|member| DescribedGroupMember {
        member_id: text(&member.member),
        group_instance_id: optional_text(member.instance.as_ref()),
        client_id: text(&member.client_id),
        client_host: text(&member.client_host),
        member_metadata: member.metadata.clone(),
        member_assignment: member.assignment.clone(),
    });
    DescribedGroup {
        error_code: 0,
        error_message: None,
        group_id,
        group_state: Text::from(described.state.name()),
        protocol_type: optional_text(described.protocol_type.as_ref()).unwrap_or_default(),
        protocol_data: optional_text(described.protocol.as_ref()).unwrap_or_default(),
        members: members.collect(),
        ..DescribedGroup::default()
    }
}

pub(in crate::api) async fn consumer_group_describe(
    core: Rc<Core>,
    request: ConsumerGroupDescribeRequest,
    _envelope: Envelope,
) -> ConsumerGroupDescribeResponse {
    let operations = if_asked(request.include_authorized_operations, ON_GROUP);
    let mut room = AnswerRoom::new(&core.answers);
    let mut groups = Vec::with_capacity(request.group_ids.len());
    let mut slices = Slices::of(GROUPS_IN_ONE_TURN);
    for (group, is_first) in once(&core, request.group_ids, |group| group).await {
        let mut group = describe_consumer_group(&core, &mut room, group, is_first).await;
        if group.error_code == 0 {
            group.authorized_operations = operations;
        }
        slices.did(1 + group.members.len()).await;
        groups.push(group);
    }
    ConsumerGroupDescribeResponse {
        throttle_time_ms: 0,
        groups,
    }
}

async fn describe_consumer_group(
    core: &Rc<Core>,
    room: &mut AnswerRoom,
    group_id: Text,
    is_first: bool,
) -> DescribedConsumerGroup {
    let describe = DescribeConsumer {
        group: name(&group_id),
    };
    let described = match is_first {
        true => room.ask(core, Asked::Much, describe, consumer_bytes).await,
        false => Err(named_twice()),
    };
    match described {
        // Named with its topics and partitions, a single one may take longer than a turn.
        Ok(described) if is_long(consumer_bytes(&described)) => {
            let tell = move || told_consumer_group(group_id, &described);
            core.codec.run(tell).await
        }
        Ok(described) => told_consumer_group(group_id, &described),
        Err(refusal) => DescribedConsumerGroup {
            error_code: refusal.code.code(),
            error_message: refusal.text(),
            group_id,
            group_state: Text::from(GroupState::Dead.name()),
            ..DescribedConsumerGroup::default()
        },
    }
}

/// Bytes that a described group takes.
fn consumer_bytes(described: &DescribedConsumer) -> usize {
    let of_topic =
        |topic: &NamedPartitions| TOPIC_BYTES + twice([&topic.topic]) + topic.partitions.len() * INDEX_BYTES;
    let of_member = |member: &DescribedConsumerMember| {
        let optional = [&member.instance, &member.rack, &member.regex];
        let names = [&member.member, &member.client_id, &member.client_host];
        let assigned = member.assignment.iter().chain(&member.target);
        MEMBER_BYTES
            + twice(names)
            + twice(optional.into_iter().flatten())
            + twice(&member.topics)
            + member.topics.len() * TOPIC_BYTES
            + assigned.map(of_topic).sum::<usize>()
    };
    MEMBER_BYTES + described.members.iter().map(of_member).sum::<usize>()
}

fn told_consumer_group(group_id: Text, described: &DescribedConsumer) -> DescribedConsumerGroup {
    DescribedConsumerGroup {
        error_code: 0,
        error_message: None,
        group_id,
        group_state: Text::from(described.state.name()),
        group_epoch: described.epoch,
        assignment_epoch: described.target_epoch,
        assignor_name: text(&described.assignor),
        members: described.members.iter().map(told_member).collect(),
        ..DescribedConsumerGroup::default()
    }
}

fn told_member(member: &DescribedConsumerMember) -> Member {
    Member {
        member_id: text(&member.member),
        instance_id: optional_text(member.instance.as_ref()),
        rack_id: optional_text(member.rack.as_ref()),
        member_epoch: member.epoch,
        client_id: text(&member.client_id),
        client_host: text(&member.client_host),
        subscribed_topic_names: member.topics.iter().map(text).collect(),
        subscribed_topic_regex: optional_text(member.regex.as_ref()),
        assignment: told_assignment(&member.assignment),
        target_assignment: told_assignment(&member.target),
        member_type: if member.is_classic {
            CLASSIC_MEMBER
        } else {
            CONSUMER_MEMBER
        },
    }
}

fn told_assignment(assignment: &[NamedPartitions]) -> Assignment {
    let topics = assignment.iter().map(|topic| TopicPartitions {
        topic_id: topic.id,
        topic_name: text(&topic.topic),
        partitions: topic.partitions.clone(),
    });
    Assignment {
        topic_partitions: topics.collect(),
    }
}

/// Memory that descriptions take, in bytes.
pub(in crate::api) fn described_bytes(told: &DescribeGroupsResponse) -> usize {
    let of_group = |group: &DescribedGroup| {
        let bytes = |member: &DescribedGroupMember| {
            MEMBER_BYTES + member.member_metadata.len() + member.member_assignment.len()
        };
        MEMBER_BYTES + group.members.iter().map(bytes).sum::<usize>()
    };
    told.groups.iter().map(of_group).sum()
}

/// Memory that descriptions of groups of the consumer protocol take, in bytes.
pub(in crate::api) fn described_consumer_bytes(told: &ConsumerGroupDescribeResponse) -> usize {
    let of_assignment = |assignment: &Assignment| {
        let topics = assignment.topic_partitions.iter();
        let bytes = topics.map(|topic| TOPIC_BYTES + topic.partitions.len() * INDEX_BYTES);
        bytes.sum::<usize>()
    };
    let of_member = |member: &Member| {
        MEMBER_BYTES
            + member.subscribed_topic_names.len() * TOPIC_BYTES
            + of_assignment(&member.assignment)
            + of_assignment(&member.target_assignment)
    };
    let of_group =
        |group: &DescribedConsumerGroup| MEMBER_BYTES + group.members.iter().map(of_member).sum::<usize>();
    told.groups.iter().map(of_group).sum()
}

/// Memory that a list of groups takes, in bytes.
pub(in crate::api) fn list_bytes(told: &ListGroupsResponse) -> usize {
    told.groups.len() * LISTED_BYTES
}

pub(in crate::api) async fn list_groups(
    core: Rc<Core>,
    request: ListGroupsRequest,
    _envelope: Envelope,
) -> ListGroupsResponse {
    let list = ListGroups {
        states: names(&request.states_filter),
        types: names(&request.types_filter),
        ..ListGroups::default()
    };
    let find = || find_groups(&core, &list);
    let mut room = AnswerRoom::new(&core.answers);
    let found = room.take(Asked::Much, find, |found| listed_bytes(found));
    match found.await {
        Ok(found) if is_long(listed_bytes(&found)) => core.codec.run(move || told_list(&found)).await,
        Ok(found) => told_list(&found),
        Err(refusal) => ListGroupsResponse {
            error_code: refusal.code.code(),
            ..ListGroupsResponse::default()
        },
    }
}

async fn find_groups(core: &Rc<Core>, list: &ListGroups) -> Result<Vec<groups::ListedGroup>, Refusal> {
    Ok(core.list_groups(list).await??)
}

fn told_list(found: &[groups::ListedGroup]) -> ListGroupsResponse {
    ListGroupsResponse {
        groups: found.iter().map(told_listed).collect(),
        ..ListGroupsResponse::default()
    }
}

/// Bytes that a list of groups takes.
fn listed_bytes(found: &[groups::ListedGroup]) -> usize {
    let of_group = |group: &groups::ListedGroup| LISTED_BYTES + twice([&group.group, &group.protocol_type]);
    found.iter().map(of_group).sum()
}

fn told_listed(group: &groups::ListedGroup) -> ListedGroup {
    ListedGroup {
        group_id: text(&group.group),
        protocol_type: text(&group.protocol_type),
        group_state: Text::from(group.state.name()),
        group_type: Text::from(group.group_type.name()),
    }
}

pub(in crate::api) async fn delete_groups(
    core: Rc<Core>,
    request: DeleteGroupsRequest,
    _envelope: Envelope,
) -> DeleteGroupsResponse {
    let results = for_each(request.groups_names, |group| delete_group(&core, group)).await;
    DeleteGroupsResponse {
        throttle_time_ms: 0,
        results,
    }
}

async fn delete_group(core: &Rc<Core>, group_id: Text) -> DeletableGroupResult {
    let delete = DeleteGroup {
        group: name(&group_id),
    };
    let outcome = ask(core, delete).await;
    DeletableGroupResult {
        group_id,
        error_code: outcome.err().map_or(0, |refusal| refusal.code.code()),
    }
}
