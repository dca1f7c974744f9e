//! InitProducerId with a transactional id, and EndTxn.

use std::rc::Rc;

use kafka_wire::{
    EndTxnRequest, EndTxnResponse, ErrorCode, InitProducerIdRequest, InitProducerIdResponse, Text,
};
use protocol::ProducerId;
use protocol::transactions::{EndTransaction, InitProducer};

use super::super::Envelope;
use super::{fenced_as_known, name};
use crate::core::Core;
use crate::error_codes::transaction_code;

/// Clients know PRODUCER_FENCED from these versions on (KIP-588).
const FIRST_INIT_WITH_FENCED: i16 = 4;
const FIRST_END_WITH_FENCED: i16 = 2;
/// From this version of EndTxn on a transaction ends the producer's epoch, too (KIP-890).
const FIRST_WITH_NEW_EPOCH: i16 = 5;

/// Gives a producer the identity that goes with its transactional id.
pub(in crate::api) async fn init_producer(
    core: &Rc<Core>,
    request: InitProducerIdRequest,
    transactional_id: &Text,
    version: i16,
) -> Result<InitProducerIdResponse, ErrorCode> {
    let has_identity = request.producer_id >= 0;
    let init = InitProducer {
        transactional_id: name(transactional_id),
        timeout_ms: request.transaction_timeout_ms,
        producer: has_identity.then_some((ProducerId(request.producer_id), request.producer_epoch)),
    };
    let initialized = core.ask_transactions(init).await?;
    let initialized = initialized
        .map_err(|error| fenced_as_known(transaction_code(&error), version, FIRST_INIT_WITH_FENCED))?;
    Ok(InitProducerIdResponse {
        producer_id: initialized.producer.0,
        producer_epoch: initialized.epoch,
        ..InitProducerIdResponse::default()
    })
}

pub(in crate::api) async fn end_txn(
    core: Rc<Core>,
    request: EndTxnRequest,
    Envelope { version, .. }: Envelope,
) -> EndTxnResponse {
    let end = EndTransaction {
        transactional_id: name(&request.transactional_id),
        producer: ProducerId(request.producer_id),
        epoch: request.producer_epoch,
        commit: request.committed,
        bumps_epoch: version >= FIRST_WITH_NEW_EPOCH,
    };
    let ended = core.ask_transactions(end).await;
    let ended = ended.and_then(|ended| ended.map_err(|error| transaction_code(&error)));
    match ended {
        Ok(ended) if version >= FIRST_WITH_NEW_EPOCH => EndTxnResponse {
            producer_id: ended.producer.0,
            producer_epoch: ended.epoch,
            ..EndTxnResponse::default()
        },
        Ok(_) => EndTxnResponse::default(),
        Err(code) => EndTxnResponse {
            error_code: fenced_as_known(code, version, FIRST_END_WITH_FENCED).code(),
            ..EndTxnResponse::default()
        },
    }
}
