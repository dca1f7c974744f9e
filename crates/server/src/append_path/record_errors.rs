//! The records to blame, as one answer to a Produce request tells them: each by its place in its batch, with a sentence.

use kafka_wire::Text;
use kafka_wire::produce::BatchIndexAndErrorMessage;

use shard::BadRecords;

/// The most records that one answer names; beyond them, it names the first of each batch.
const NAMED_MAX: usize = 10_000;
/// Bytes that all sentences of one answer may have. A record beyond that is named without one; clients show the batch's then.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// The records that one answer has named so far, and the bytes of their sentences.
#[derive(Default)]
pub(super) struct RecordErrors {
    named: usize,
    message_bytes: usize,
}

impl RecordErrors {
    /// Names the records of one batch.
    pub(super) fn of(&mut self, bad: &BadRecords, topic: &str, index: i32) -> Vec<BatchIndexAndErrorMessage> {
        let left = NAMED_MAX.saturating_sub(self.named).max(1);
        let named = bad.named().iter().take(left);
        self.named += named.len();
        let told = named.map(|record| BatchIndexAndErrorMessage {
            batch_index: record.place,
            batch_index_error_message: (self.message_bytes < MESSAGE_BYTES_MAX).then(|| {
                let message = bad.message(*record, topic, index);
                self.message_bytes += message.len();
                Text::from(message)
            }),
        });
        told.collect()
    }
}
