//! InitProducerId: gives an idempotent producer its identity. Transactions are not served yet.

use std::rc::Rc;

use kafka_wire::{ErrorCode, InitProducerIdRequest, InitProducerIdResponse};

use super::Envelope;
use crate::core::Core;
use crate::error_codes::producer_id_code;

pub(super) async fn handle(
    core: Rc<Core>,
    request: InitProducerIdRequest,
    _envelope: Envelope,
) -> InitProducerIdResponse {
    if let Err(code) = check(&request) {
        return refused(code);
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
        // Of all errors this is the one that every client gives up on at once, instead of trying again for ever.
        Some(_) => return Err(ErrorCode::TransactionalIdAuthorizationFailed),
        None => {}
    }
    match (request.producer_id == -1) == (request.producer_epoch == -1) {
        true => Ok(()),
        false => Err(ErrorCode::InvalidRequest),
    }
}

fn refused(code: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse {
        error_code: code.code(),
        producer_epoch: -1,
        ..InitProducerIdResponse::default()
    }
}
