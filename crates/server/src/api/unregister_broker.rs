//! UnregisterBroker: a node that is stopped, and holds nothing, is none of the cluster's any more (KIP-631).

use std::rc::Rc;

use kafka_wire::{ErrorCode, UnregisterBrokerRequest, UnregisterBrokerResponse};
use protocol::metadata::PlanError;
use protocol::{ApplyError, NodeId};

use super::Envelope;
use super::topic_change::Refusal;
use crate::controller::{ChangeError, RemovalError};
use crate::core::Core;

pub(super) async fn handle(
    core: Rc<Core>,
    request: UnregisterBrokerRequest,
    _envelope: Envelope,
) -> UnregisterBrokerResponse {
    let (code, message) = match remove(&core, NodeId(request.broker_id)).await {
        Ok(()) => (ErrorCode::None, None),
        Err(refusal) => (refusal.code, refusal.text()),
    };
    UnregisterBrokerResponse {
        error_code: code.code(),
        error_message: message,
        ..UnregisterBrokerResponse::default()
    }
}

async fn remove(core: &Core, node: NodeId) -> Result<(), Refusal> {
    let removed = core
        .facts
        .mailboxes
        .call(0, move |core| async move { core.remove_node(node).await });
    match removed.await.map_err(ChangeError::from)? {
        Ok(()) => Ok(()),
        Err(RemovalError::Change(ChangeError::Plan(PlanError::Refused(ApplyError::UnknownNode {
            ..
        })))) => {
            // Kafka's sentence.
            let message = format!("Broker ID {node} is not currently registered");
            Err(Refusal::new(ErrorCode::BrokerIdNotRegistered, message))
        }
        Err(RemovalError::Change(error)) => Err(error.into()),
        Err(running @ RemovalError::Running(_)) => {
            Err(Refusal::new(ErrorCode::InvalidRequest, running.to_string()))
        }
    }
}
