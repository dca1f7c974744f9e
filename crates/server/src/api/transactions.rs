//! The APIs of transactions: Kafka's requests as the coordinators' words, and their answers as Kafka's.
//!
//! Nothing is decided here but what the wire's versions differ in. Errors become codes in `error_codes`.

mod end;
mod markers;
mod offsets;
mod partitions;
mod tools;

use kafka_wire::{ErrorCode, Text};
use protocol::groups::Name;

pub(super) use end::{end_txn, init_producer};
pub(crate) use markers::write_markers;
pub(super) use markers::write_txn_markers;
pub(super) use offsets::{add_offsets_to_txn, txn_offset_commit};
pub(crate) use partitions::add_partitions;
pub(super) use partitions::add_partitions_to_txn;
pub(super) use tools::{describe_transactions, list_transactions};

fn name(text: &Text) -> Name {
    Name::from(text.as_str())
}

/// The code for a client that does not know that of a fenced producer: it is there from `first` on (KIP-588).
fn fenced_as_known(code: ErrorCode, version: i16, first: i16) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced if version < first => ErrorCode::InvalidProducerEpoch,
        code => code,
    }
}
