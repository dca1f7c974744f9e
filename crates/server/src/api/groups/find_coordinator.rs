//! FindCoordinator: the node that coordinates a group or a transactional id: the one that leads its partition of the topic in which the nodes
//! keep what coordinators decide.

use std::rc::Rc;

use kafka_wire::find_coordinator::Coordinator;
use kafka_wire::{ErrorCode, FindCoordinatorRequest, FindCoordinatorResponse, Text};
use protocol::groups::GROUPS_TOPIC;
use protocol::metadata::Metadata;
use protocol::transactions::TRANSACTIONS_TOPIC;

use super::super::Envelope;
use crate::core::Core;

/// The numbers of `key_type` for a group and for a transaction.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// From this version on a request may name several keys.
const FIRST_WITH_SEVERAL: i16 = 4;

pub(in crate::api) async fn find_coordinator(
    core: Rc<Core>,
    request: FindCoordinatorRequest,
    Envelope { version, .. }: Envelope,
) -> FindCoordinatorResponse {
    let outcome = check(&core, &request);
    let outcome = match outcome {
        Ok(topic) => core
            .own_topic(topic)
            .await
            .map(drop)
            .map_err(|code| (code, why_there_is_no_topic(&core))),
        Err(refused) => Err(refused),
    };
    let is_group = request.key_type == GROUP;
    let found = |key: Text| coordinator(&core, key, is_group, outcome);
    if version >= FIRST_WITH_SEVERAL {
        return FindCoordinatorResponse {
            coordinators: request.coordinator_keys.into_iter().map(found).collect(),
            ..FindCoordinatorResponse::default()
        };
    }
    let found = found(request.key);
    FindCoordinatorResponse {
        error_code: found.error_code,
        error_message: found.error_message,
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..FindCoordinatorResponse::default()
    }
}

/// Tells why the groups' topic is not there: it is made when a group is first asked for.
fn why_there_is_no_topic(core: &Core) -> &'static str {
    match core.shards().any(|shard| shard.disk_shortage().is_some()) {
        true => {
            "the disk is full, and the groups' topic is not made before there is room: free some space, or lower disk.reserve_bytes"
        }
        false => "the groups' topic is not there yet; try again",
    }
}

/// The topic that the coordinators keep.
fn check(core: &Core, request: &FindCoordinatorRequest) -> Result<&'static str, (ErrorCode, &'static str)> {
    match request.key_type {
        GROUP => Ok(GROUPS_TOPIC),
        TRANSACTION if core.with_metadata(Metadata::takes_transactions) => Ok(TRANSACTIONS_TOPIC),
        // The one error that every client gives up on at once, instead of trying again for ever.
        TRANSACTION => Err((
            ErrorCode::TransactionalIdAuthorizationFailed,
            "the cluster's feature level knows no transactions: when all nodes run a release that does, raise it (ropewalk cluster upgrade)",
        )),
        _ => Err((
            ErrorCode::InvalidRequest,
            "only consumer groups and transactional ids have coordinators here",
        )),
    }
}

fn coordinator(
    core: &Core,
    key: Text,
    is_group: bool,
    outcome: Result<(), (ErrorCode, &'static str)>,
) -> Coordinator {
    let node = match is_group {
        true => core.coordinator_of(&key),
        false => core.transaction_coordinator_of(&key).map(|(node, _)| node),
    };
    let address = node.and_then(|node| {
        core.with_metadata(|metadata| {
            let address = &metadata.node(node)?.address;
            Some((node, Text::from(&*address.host), i32::from(address.port)))
        })
    });
    match (outcome, address) {
        (Ok(()), Some((node, host, port))) => Coordinator {
            key,
            node_id: node.0,
            host,
            port,
            ..Coordinator::default()
        },
        (outcome, _) => {
            let unknown = (
                ErrorCode::CoordinatorNotAvailable,
                "the coordinator's node has not told its address yet; try again",
            );
            let (code, message) = outcome.err().unwrap_or(unknown);
            Coordinator {
                key,
                node_id: -1,
                port: -1,
                error_code: code.code(),
                error_message: Some(Text::from(message)),
                ..Coordinator::default()
            }
        }
    }
}
