//! A place in a log from which records are taken one after the other. It never gives a record at or behind the tail that
//! it is told, nor bytes that fail their checksum, and it says so when what it wants was trimmed.

use std::collections::VecDeque;

use bytes::Bytes;
use record::{BatchError, BatchHeader, Limits, Offset, PartitionId, Record, Records};
use storage::{Fault, Read};

use crate::engine::{Engine, Phase};

/// Bytes that are asked of the store at a time.
const READ_BYTES: usize = 1 << 20;

/// Reasons for which nothing was read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The offset was trimmed, or is behind the tail. Begin again at `log_start`, knowing that the records before it are given up.
    #[error("offset {wanted} is outside of the log, which has {log_start}..{tail}")]
    OutOfRange {
        /// The offset that was asked for.
        wanted: Offset,
        /// The first offset kept.
        log_start: Offset,
        /// The offset after the last committed record.
        tail: Offset,
    },
    /// The disk failed, or stored bytes are damaged; they are not served. Restore them from a backup.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// A batch is whole and makes no sense: it was stored so.
    #[error("the batch at offset {offset} cannot be read: {error}")]
    Batch {
        /// Its first offset.
        offset: Offset,
        /// The reason.
        #[source]
        error: BatchError,
    },
    /// The logs were closed.
    #[error("the logs are closed")]
    Closed,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Cursor {
    id: PartitionId,
    /// The offset of the next record to give, or of one before it.
    next: Offset,
    /// Whole batches that were read and not taken apart yet, one or more to an element.
    parts: VecDeque<Bytes>,
    /// The batch being taken apart.
    batch: Option<Records>,
}

impl Cursor {
    /// Begins at `next`.
    pub(crate) fn new(id: PartitionId, next: Offset) -> Cursor {
        Cursor {
            id,
            next,
            parts: VecDeque::new(),
            batch: None,
        }
    }

    /// The offset that the next record has, or a smaller one.
    pub(crate) fn next(&self) -> Offset {
        self.next
    }

    /// The next record before `until`, a committed tail; `None` if there is none.
    ///
    /// # Errors
    /// See `ReadError`. The next call tries the same place again.
    pub(crate) fn take(&mut self, engine: &Engine, until: Offset) -> Result<Option<Record>, ReadError> {
        let taken = self.try_take(engine, until);
        if taken.is_err() {
            // Otherwise the batch behind the damage would be next.
            self.parts.clear();
            self.batch = None;
        }
        taken
    }

    fn try_take(&mut self, engine: &Engine, until: Offset) -> Result<Option<Record>, ReadError> {
        loop {
            if let Some(record) = self.take_from_batch()? {
                return Ok(Some(record));
            }
            if !self.open_batch(&engine.batch_limits())? {
                if self.next >= until {
                    return Ok(None);
                }
                self.parts = engine.read(self.id, self.next, until)?.into();
            }
        }
    }

    fn take_from_batch(&mut self) -> Result<Option<Record>, ReadError> {
        let Some(records) = &mut self.batch else {
            return Ok(None);
        };
        let (first, end) = (records.header().base_offset, records.header().next_offset());
        for record in records {
            let record = record.map_err(|error| ReadError::Batch { offset: first, error })?;
            // The batch may begin before the place that was asked for.
            if record.offset >= self.next {
                self.next = record.offset.advance(1);
                return Ok(Some(record));
            }
        }
        // Behind the last record of a batch there may be offsets that compaction took.
        self.next = self.next.max(end);
        self.batch = None;
        Ok(None)
    }

    /// Goes on to the next batch that was read; false if there is none.
    fn open_batch(&mut self, limits: &Limits) -> Result<bool, ReadError> {
        let Some(part) = self.parts.front_mut() else {
            return Ok(false);
        };
        let bad = |offset| move |error| ReadError::Batch { offset, error };
        let header = BatchHeader::read(part).map_err(bad(self.next))?;
        let batch = part.split_to(header.length_bytes);
        if part.is_empty() {
            self.parts.pop_front();
        }
        let records = record::records(&batch, limits).map_err(bad(header.base_offset))?;
        self.batch = Some(records);
        Ok(true)
    }
}

impl Engine {
    fn batch_limits(&self) -> Limits {
        Limits::up_to(self.settings.decompressed_bytes_max)
    }

    /// Whole batches of `[from, until)`, which is not empty: at least one.
    fn read(&self, id: PartitionId, from: Offset, until: Offset) -> Result<Vec<Bytes>, ReadError> {
        let mut state = self.state();
        if state.phase == Phase::Closed {
            return Err(ReadError::Closed);
        }
        let mut read = state.store.read(id, from, until, READ_BYTES);
        loop {
            let job = match read {
                Ok(Read::Ready(parts) | Read::Part(parts)) => {
                    assert!(!parts.is_empty(), "before the tail there is a batch");
                    return Ok(parts);
                }
                Ok(Read::Job(job)) => job,
                Ok(Read::UnderWay) => unreachable!("nothing is read ahead here"),
                Err(error) => {
                    let leader = &state.partition(id).leader;
                    return Err(refusal(error, leader.log_start(), leader.tail()));
                }
            };
            drop(state);
            let outcome = job.run();
            state = self.state();
            if state.phase == Phase::Closed {
                return Err(ReadError::Closed);
            }
            read = state.store.finish_read(outcome);
        }
    }
}

fn refusal(error: storage::ReadError, log_start: Offset, tail: Offset) -> ReadError {
    match error {
        storage::ReadError::OutOfRange { wanted, .. } => ReadError::OutOfRange {
            wanted,
            log_start,
            tail,
        },
        storage::ReadError::Fault(fault) => ReadError::Fault(fault),
        storage::ReadError::Damaged(damage) => ReadError::Fault(damage.into_fault()),
        storage::ReadError::UnknownPartition(id) => unreachable!("partition {id} was opened"),
    }
}
