//! InitProducerId: gives a producer its identity; one with a transactional id gets it from its coordinator.

use std::rc::Rc;

use kafka_wire::{ErrorCode, InitProducerIdRequest, InitProducerIdResponse};

use super::Envelope;
use super::transactions::init_producer;
use crate::core::Core;
use crate::error_codes::producer_id_code;

pub(super) async fn handle(
    core: Rc<Core>,
    request: InitProducerIdRequest,
    Envelope { version, .. }: Envelope,
) -> InitProducerIdResponse {
    if let Err(code) = check(&request) {
        return refused(code);
    }
    if let Some(id) = request.transactional_id.clone() {
        let initialized = init_producer(&core, request, &id, version).await;
        return initialized.unwrap_or_else(refused);
    }
    match core.next_producer_id().await {
        Ok(producer_id) => InitProducerIdResponse {
            producer_id,
            ..InitProducerIdResponse::default()
        },
        Err(error) => {
            tracing::debug!(%error, "a producer id could not be given");
            refused(producer_id_code(&error))
        }
    }
}

/// An idempotent producer that names its old identity (KIP-360) gets a new one like any other; half of one is a mistake.
fn check(request: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    match &request.transactional_id {
        Some(id) if id.is_empty() => return Err(ErrorCode::InvalidRequest),
        _ => {}
    }
    match (request.producer_id == -1) == (request.producer_epoch == -1) {
        true => Ok(()),
        false => Err(ErrorCode::InvalidRequest),
    }
}

fn refused(code: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse {
        error_code: code.code(),
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdResponse::default()
    }
}
