//! Reading back a log that the node keeps for itself: every committed record of its partition, in order.
//!
//! Code that acts by such a log has read all of it: a record that cannot be taken ends the reading, and is never left out.

use std::rc::Rc;

use bytes::Bytes;
use record::{BatchError, Limits, Offset, PartitionId, Record};

use super::{ReadRefusal, Shard};

/// Read at a time.
const REPLAY_BYTES: usize = 4 << 20;

/// Reasons for which a log could not be read back. The state that it is the log of must not be used then.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A read was refused.
    #[error(transparent)]
    Read(#[from] ReadRefusal),
    /// A batch is damaged.
    #[error("the batch at offset {at} is damaged: {error}")]
    Batch {
        /// Its first offset.
        at: Offset,
        /// The damage.
        error: BatchError,
    },
    /// A record cannot be taken.
    #[error("the record at offset {at}: {error}")]
    Record {
        /// Its offset.
        at: Offset,
        /// The reason.
        error: String,
    },
    /// Records are missing at the end.
    #[error("nothing is found from offset {from} on, and the log ends at {tail}")]
    Short {
        /// The first offset that is missing.
        from: Offset,
        /// The tail of the log.
        tail: Offset,
    },
}

impl Shard {
    /// Has `take` take every committed record of a partition, in the order of offsets. Other tasks of the core have turns in between.
    ///
    /// # Errors
    /// A read was refused, bytes are damaged or missing, or `take` refused a record with a sentence.
    pub async fn replay(
        self: &Rc<Self>,
        partition: PartitionId,
        take: &mut dyn FnMut(&Record) -> Result<(), String>,
    ) -> Result<(), ReplayError> {
        self.replay_from(partition, Offset::ZERO, take).await
    }

    /// The same from an offset on, or from where the log begins later than that. A few records before it may come, too.
    ///
    /// # Errors
    /// As of [`Shard::replay`].
    pub async fn replay_from(
        self: &Rc<Self>,
        partition: PartitionId,
        first: Offset,
        take: &mut dyn FnMut(&Record) -> Result<(), String>,
    ) -> Result<(), ReplayError> {
        let (log_start, tail) = self
            .with_leader(partition, |leader| (leader.log_start(), leader.tail()))
            .map_err(ReadRefusal::from)?;
        let mut from = first.max(log_start);
        while from < tail {
            let found = self.read_batches(partition, from, tail, REPLAY_BYTES).await?;
            let before = from;
            for batches in &found {
                from = replay_batches(batches, from, &self.settings.batch_limits, take)?;
            }
            if from == before {
                // The last records may have been compacted away; nothing else may be missing.
                match self.is_compacted(partition) {
                    true => break,
                    false => return Err(ReplayError::Short { from, tail }),
                }
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Says whether a topic is compacted now.
    pub(crate) fn is_compacted(&self, partition: PartitionId) -> bool {
        let partitions = self.partitions.borrow();
        let found = partitions.get(&partition);
        found.is_some_and(|found| found.topic.compaction.is_some())
    }
}

/// Has `take` take every record of whole batches that begin at `from`. Returns the offset behind them.
///
/// # Errors
/// A batch is damaged, or `take` refused a record with a sentence.
pub fn replay_batches(
    batches: &Bytes,
    from: Offset,
    limits: &Limits,
    take: &mut dyn FnMut(&Record) -> Result<(), String>,
) -> Result<Offset, ReplayError> {
    let mut next = from;
    for batch in record::batches(batches) {
        let (header, batch) = batch.map_err(|error| ReplayError::Batch { at: next, error })?;
        let damaged = |error| ReplayError::Batch {
            at: header.base_offset,
            error,
        };
        for record in record::records(batch, limits).map_err(damaged)? {
            let record = record.map_err(damaged)?;
            take(&record).map_err(|error| ReplayError::Record {
                at: record.offset,
                error,
            })?;
        }
        next = header.next_offset();
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use record::{BatchBuilder, Compression};

    use super::*;

    #[test]
    fn what_cannot_be_taken_is_named_by_its_offset() {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(0, None, Some(b"taken"), &[]);
        builder.append(0, None, Some(b"refused"), &[]);
        let batch = builder.build();
        let replay = |batches: &Bytes, refused: Option<Offset>| {
            let mut taken = Vec::new();
            let ended = replay_batches(batches, Offset::ZERO, &Limits::default(), &mut |record| {
                if Some(record.offset) == refused {
                    return Err("nobody knows it".to_owned());
                }
                taken.push(record.offset);
                Ok(())
            });
            (taken, ended.map_err(|error| error.to_string()))
        };
        let both = vec![Offset(0), Offset(1)];
        assert_eq!(replay(&batch, None), (both.clone(), Ok(Offset(2))));
        let (taken, ended) = replay(&batch, Some(Offset(1)));
        assert_eq!(taken, [Offset(0)]);
        assert_eq!(ended, Err("the record at offset 1: nobody knows it".to_owned()));

        let torn = Bytes::from([&batch[..], &batch[..20]].concat());
        let (taken, ended) = replay(&torn, None);
        let error = ended.expect_err("the second batch ends early");
        assert_eq!(taken, both);
        assert!(error.starts_with("the batch at offset 2 is damaged: "), "{error}");
    }
}
