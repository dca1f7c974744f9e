//! ConsumerGroupHeartbeat: the one request by which a member of a consumer group joins, tells, learns and leaves (KIP-848).

use std::rc::Rc;

use kafka_wire::consumer_group_heartbeat::{Assignment as WireAssignment, TopicPartitions};
use kafka_wire::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, ErrorCode};
use protocol::groups::{Assignment, ConsumerHeartbeat, Heard, MemberPresence};
use record::PartitionId;

use super::super::Envelope;
use super::{Refusal, ask, name, names, optional_name, text, time};
use crate::caller::Caller;
use crate::core::Core;

/// From this version on the client makes its member's id itself (KIP-1082).
const FIRST_WITH_OWN_ID: i16 = 1;

/// Bytes that a topic and a partition take as they are told and in the frame.
const TOPIC_BYTES: usize = 64;
const INDEX_BYTES: usize = 8;

pub(in crate::api) async fn consumer_group_heartbeat(
    core: Rc<Core>,
    request: ConsumerGroupHeartbeatRequest,
    Envelope { version, caller, .. }: Envelope,
) -> ConsumerGroupHeartbeatResponse {
    let random = u128::from_le_bytes(core.facts.random.bytes());
    let outcome = match read(&request, version, &caller, random) {
        Ok(heartbeat) => ask(&core, heartbeat).await,
        Err(refusal) => Err(refusal),
    };
    match outcome {
        Ok(heard) => told(&heard),
        Err(refusal) => ConsumerGroupHeartbeatResponse {
            error_code: refusal.code.code(),
            error_message: refusal.text(),
            ..ConsumerGroupHeartbeatResponse::default()
        },
    }
}

/// Memory that an answer takes, in bytes.
pub(in crate::api) fn heard_bytes(told: &ConsumerGroupHeartbeatResponse) -> usize {
    let topics = told
        .assignment
        .iter()
        .flat_map(|assigned| &assigned.topic_partitions);
    topics
        .map(|topic| TOPIC_BYTES + topic.partitions.len() * INDEX_BYTES)
        .sum()
}

fn read(
    request: &ConsumerGroupHeartbeatRequest,
    version: i16,
    caller: &Caller,
    random: u128,
) -> Result<ConsumerHeartbeat, Refusal> {
    let presence = MemberPresence::from_epoch(request.member_epoch)
        .ok_or_else(|| invalid(format!("{} is no member epoch", request.member_epoch)))?;
    if request.member_id.is_empty() && (version >= FIRST_WITH_OWN_ID || presence != MemberPresence::Joining) {
        return Err(invalid("the member id is missing".to_owned()));
    }
    let owned = request.topic_partitions.as_ref().map(|topics| {
        let partitions = topics.iter().flat_map(|topic| {
            let topic_id = topic.topic_id;
            let indexes = topic.partitions.iter();
            indexes.map(move |index| PartitionId {
                topic: topic_id,
                index: *index,
            })
        });
        Assignment::from_iter(partitions)
    });
    Ok(ConsumerHeartbeat {
        group: name(&request.group_id),
        member: name(&request.member_id),
        presence,
        instance: optional_name(request.instance_id.as_ref()),
        rack: optional_name(request.rack_id.as_ref()),
        client_id: caller.client_id.clone(),
        client_host: caller.shown_host(),
        rebalance_timeout: time(request.rebalance_timeout_ms),
        topics: request.subscribed_topic_names.as_deref().map(names),
        regex: optional_name(request.subscribed_topic_regex.as_ref()),
        assignor: optional_name(request.server_assignor.as_ref()),
        owned,
        random,
    })
}

fn invalid(message: String) -> Refusal {
    Refusal {
        code: ErrorCode::InvalidRequest,
        message: Some(message),
    }
}

fn told(heard: &Heard) -> ConsumerGroupHeartbeatResponse {
    let assignment = heard.assignment.as_ref().map(|assignment| {
        let topics = assignment.topics().map(|(topic_id, partitions)| TopicPartitions {
            topic_id,
            partitions: partitions.iter().copied().collect(),
        });
        WireAssignment {
            topic_partitions: topics.collect(),
        }
    });
    ConsumerGroupHeartbeatResponse {
        throttle_time_ms: 0,
        error_code: 0,
        error_message: None,
        member_id: Some(text(&heard.member)),
        member_epoch: heard.epoch,
        heartbeat_interval_ms: i32::try_from(heard.heartbeat_interval.as_millis()).unwrap_or(i32::MAX),
        assignment,
    }
}
