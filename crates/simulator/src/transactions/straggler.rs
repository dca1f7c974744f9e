//! Requests that arrive late: a batch that its producer has given up, beside the end of its transaction; a batch that was acknowledged, and the end of
//! a transaction, once more after others of the same producer have begun. The network has held them, and nobody waits for their answers.
//!
//! None may have an effect: the ledger would show it.

use std::time::Duration;

use bytes::Bytes;
use kafka_wire::{ApiKey, EndTxnRequest};
use tokio::time::sleep;

use super::Caller;
use super::producer::produce_request;

/// Stragglers of one producer that wait at once.
const WAITING_MAX: usize = 4;

/// A request that is on its way.
pub(super) enum Straggler {
    Batch {
        partition: i32,
        version: i16,
        transactional_id: &'static str,
        batch: Bytes,
    },
    End {
        version: i16,
        request: EndTxnRequest,
    },
}

/// The stragglers of one producer, on connections of their own.
pub(super) struct Stragglers {
    caller: Caller,
    waiting: Vec<Straggler>,
}

impl Stragglers {
    pub(super) fn new(caller: Caller) -> Stragglers {
        Stragglers {
            caller,
            waiting: Vec::new(),
        }
    }

    /// Has a request come some time later.
    pub(super) fn hold(&mut self, straggler: Straggler) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push(straggler);
        }
    }

    /// Lets one of those that wait come now, if there is one.
    pub(super) async fn let_one_come(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let place = self.caller.random.below(self.waiting.len() as u64) as usize;
        let straggler = self.waiting.swap_remove(place);
        self.arrive(straggler).await;
    }

    /// Sends it within a moment.
    pub(super) async fn come_soon(&mut self, straggler: Straggler) {
        let pause = self.caller.random.below(40);
        sleep(Duration::from_millis(pause)).await;
        self.arrive(straggler).await;
    }

    /// Sends it to whoever leads, or to any node; its answer is only counted.
    async fn arrive(&mut self, straggler: Straggler) {
        let (api, code) = match straggler {
            Straggler::Batch {
                partition,
                version,
                transactional_id,
                batch,
            } => {
                let known = self.caller.partitions().await;
                let leader = known.map(|known| known[partition as usize].leader);
                let node = leader.unwrap_or_else(|_| self.caller.any());
                let request = produce_request(transactional_id, partition, batch);
                let told = self.caller.call(node, version, &request).await;
                let code = told.map(|told| told.responses[0].partition_responses[0].error_code);
                (ApiKey::Produce, code)
            }
            Straggler::End { version, request } => {
                let node = self.caller.any();
                let told = self.caller.call(node, version, &request).await;
                (ApiKey::EndTxn, told.map(|told| told.error_code))
            }
        };
        if let Ok(code) = code {
            self.caller
                .bank
                .trace
                .count(format!("transactions: late {api:?}: {code}"));
        }
    }
}
