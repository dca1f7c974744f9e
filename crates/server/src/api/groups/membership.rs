//! JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the classic protocol.

use std::rc::Rc;

use bytes::Bytes;
use kafka_wire::join_group::JoinGroupResponseMember;
use kafka_wire::leave_group::MemberResponse;
use kafka_wire::{
    ErrorCode, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse, Text,
};
use protocol::groups::{
    GroupError, Heartbeat, JoinGroup, Joined, LeaveGroup, LeavingMember, LeftMember, Protocol, SyncGroup,
};

use super::super::Envelope;
use super::{ask, ask_and_wait, name, optional_name, optional_text, text, time};
use crate::core::Core;
use crate::error_codes::group_code;

/// From these versions on: a new member comes back with an id (KIP-394), a leader may be told not to assign (KIP-814), the
/// rebalance timeout has a field of its own, several members may leave at once, who syncs names its protocol (KIP-559).
const FIRST_WITH_KNOWN_MEMBERS: i16 = 4;
const FIRST_WITH_SKIPPED_ASSIGNMENT: i16 = 9;
const FIRST_WITH_REBALANCE_TIMEOUT: i16 = 1;
const FIRST_WITH_LEAVING_TOGETHER: i16 = 3;
const FIRST_WITH_NAMED_PROTOCOL: i16 = 5;

/// In place of a generation where there is none.
const NO_GENERATION: i32 = -1;

pub(in crate::api) async fn join_group(
    core: Rc<Core>,
    request: JoinGroupRequest,
    Envelope {
        version,
        caller,
        room,
    }: Envelope,
) -> JoinGroupResponse {
    let session_timeout = time(request.session_timeout_ms).unwrap_or_default();
    let rebalance_timeout = match version {
        ..FIRST_WITH_REBALANCE_TIMEOUT => session_timeout,
        _ => time(request.rebalance_timeout_ms).unwrap_or_default(),
    };
    let protocols = request.protocols.iter().map(|protocol| Protocol {
        name: name(&protocol.name),
        // Kept for long: it must not keep the whole request.
        metadata: Bytes::copy_from_slice(&protocol.metadata),
    });
    let join = JoinGroup {
        group: name(&request.group_id),
        member: name(&request.member_id),
        instance: optional_name(request.group_instance_id.as_ref()),
        client_id: caller.client_id.clone(),
        client_host: caller.shown_host(),
        session_timeout,
        rebalance_timeout,
        protocol_type: name(&request.protocol_type),
        protocols: protocols.collect(),
        requires_known_member: version >= FIRST_WITH_KNOWN_MEMBERS,
        can_skip_assignment: version >= FIRST_WITH_SKIPPED_ASSIGNMENT,
        random: u128::from_le_bytes(core.facts.random.bytes()),
    };
    let member_id = request.member_id.detached();
    drop(request);
    match ask_and_wait(&core, join, room).await {
        Ok(Ok(joined)) => told_joined(joined),
        Ok(Err(error)) => {
            let member_id = match &error {
                GroupError::MemberIdRequired { member } => text(member),
                _ => member_id,
            };
            not_joined(member_id, group_code(&error))
        }
        Err(code) => not_joined(member_id, code),
    }
}

fn told_joined(joined: Joined) -> JoinGroupResponse {
    let members = joined.members.iter().map(|member| JoinGroupResponseMember {
        member_id: text(&member.member),
        group_instance_id: optional_text(member.instance.as_ref()),
        metadata: member.metadata.clone(),
    });
    JoinGroupResponse {
        throttle_time_ms: 0,
        error_code: 0,
        generation_id: joined.generation,
        protocol_type: optional_text(joined.protocol_type.as_ref()),
        protocol_name: optional_text(joined.protocol.as_ref()),
        leader: text(&joined.leader),
        skip_assignment: joined.skip_assignment,
        member_id: text(&joined.member),
        members: members.collect(),
    }
}

fn not_joined(member_id: Text, code: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code: code.code(),
        generation_id: NO_GENERATION,
        protocol_type: None,
        protocol_name: None,
        member_id,
        ..JoinGroupResponse::default()
    }
}

pub(in crate::api) async fn sync_group(
    core: Rc<Core>,
    request: SyncGroupRequest,
    Envelope { version, room, .. }: Envelope,
) -> SyncGroupResponse {
    let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if version >= FIRST_WITH_NAMED_PROTOCOL && !names_protocol {
        return not_synced(ErrorCode::InconsistentGroupProtocol);
    }
    let assignments = request
        .assignments
        .iter()
        .map(|given| (name(&given.member_id), Bytes::copy_from_slice(&given.assignment)));
    let sync = SyncGroup {
        group: name(&request.group_id),
        member: name(&request.member_id),
        instance: optional_name(request.group_instance_id.as_ref()),
        generation: request.generation_id,
        protocol_type: optional_name(request.protocol_type.as_ref()),
        protocol: optional_name(request.protocol_name.as_ref()),
        assignments: assignments.collect(),
    };
    drop(request);
    match ask_and_wait(&core, sync, room).await {
        Ok(Ok(synced)) => SyncGroupResponse {
            throttle_time_ms: 0,
            error_code: 0,
            protocol_type: optional_text(synced.protocol_type.as_ref()),
            protocol_name: optional_text(synced.protocol.as_ref()),
            assignment: synced.assignment,
        },
        Ok(Err(error)) => not_synced(group_code(&error)),
        Err(code) => not_synced(code),
    }
}

fn not_synced(code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse {
        error_code: code.code(),
        protocol_type: None,
        protocol_name: None,
        ..SyncGroupResponse::default()
    }
}

pub(in crate::api) async fn heartbeat(
    core: Rc<Core>,
    request: HeartbeatRequest,
    _envelope: Envelope,
) -> HeartbeatResponse {
    let heartbeat = Heartbeat {
        group: name(&request.group_id),
        member: name(&request.member_id),
        instance: optional_name(request.group_instance_id.as_ref()),
        generation: request.generation_id,
    };
    let outcome = ask(&core, heartbeat).await;
    HeartbeatResponse {
        throttle_time_ms: 0,
        error_code: outcome.err().map_or(0, |refusal| refusal.code.code()),
    }
}

pub(in crate::api) async fn leave_group(
    core: Rc<Core>,
    request: LeaveGroupRequest,
    Envelope { version, .. }: Envelope,
) -> LeaveGroupResponse {
    let members = match version {
        ..FIRST_WITH_LEAVING_TOGETHER => vec![LeavingMember {
            member: name(&request.member_id),
            instance: None,
        }],
        _ => {
            let members = request.members.iter();
            let leaving = members.map(|member| LeavingMember {
                member: name(&member.member_id),
                instance: optional_name(member.group_instance_id.as_ref()),
            });
            leaving.collect()
        }
    };
    let leave = LeaveGroup {
        group: name(&request.group_id),
        members,
    };
    match ask(&core, leave).await {
        Ok(left) if version < FIRST_WITH_LEAVING_TOGETHER => LeaveGroupResponse {
            error_code: left.first().map_or(0, |left| outcome_code(&left.outcome)),
            ..LeaveGroupResponse::default()
        },
        Ok(left) => LeaveGroupResponse {
            members: left.iter().map(told_left).collect(),
            ..LeaveGroupResponse::default()
        },
        Err(refusal) => LeaveGroupResponse {
            error_code: refusal.code.code(),
            ..LeaveGroupResponse::default()
        },
    }
}

fn told_left(left: &LeftMember) -> MemberResponse {
    MemberResponse {
        member_id: text(&left.member),
        group_instance_id: optional_text(left.instance.as_ref()),
        error_code: outcome_code(&left.outcome),
    }
}

fn outcome_code(outcome: &Result<(), GroupError>) -> i16 {
    outcome.as_ref().err().map_or(0, |error| group_code(error).code())
}
