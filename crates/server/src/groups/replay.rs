//! Reads a coordinator's log back: every record of its partition, in order.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use protocol::groups::Coordinator;
use record::{BatchError, Limits, Offset, PartitionId};

use crate::shard::{ReadRefusal, Shard};

/// Read at a time.
const REPLAY_BYTES: usize = 4 << 20;

/// Why a log could not be read back. Its coordinator must not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReplayError {
    #[error(transparent)]
    Read(#[from] ReadRefusal),
    #[error("the batch at offset {at} is damaged: {error}")]
    Batch { at: Offset, error: BatchError },
    #[error("the record at offset {at}: {error}")]
    Record {
        at: Offset,
        error: protocol::DecodeError,
    },
}

/// Has the coordinator take everything that is committed in the partition.
pub(super) async fn replay(
    shard: &Rc<Shard>,
    partition: PartitionId,
    coordinator: &RefCell<Coordinator>,
) -> Result<(), ReplayError> {
    let (mut from, tail) = shard
        .with_leader(partition, |leader| (leader.log_start(), leader.tail()))
        .ok_or(ReadRefusal::UnknownPartition)?;
    while from < tail {
        let found = shard.read_batches(partition, from, tail, REPLAY_BYTES).await?;
        let before = from;
        for batches in &found {
            from = replay_batches(batches, from, coordinator)?;
        }
        // Nothing more is there: the last records may have been compacted away.
        if from == before {
            break;
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn replay_batches(
    batches: &Bytes,
    from: Offset,
    coordinator: &RefCell<Coordinator>,
) -> Result<Offset, ReplayError> {
    let mut next = from;
    for batch in record::batches(batches) {
        let (header, batch) = batch.map_err(|error| ReplayError::Batch { at: next, error })?;
        let damaged = |error| ReplayError::Batch {
            at: header.base_offset,
            error,
        };
        for record in record::records(batch, &Limits::default()).map_err(damaged)? {
            let record = record.map_err(damaged)?;
            // A record without a key says nothing about any group.
            let Some(key) = &record.key else { continue };
            coordinator
                .borrow_mut()
                .replay(key, record.value.as_deref())
                .map_err(|error| ReplayError::Record {
                    at: record.offset,
                    error,
                })?;
        }
        next = header.next_offset();
    }
    Ok(next)
}
