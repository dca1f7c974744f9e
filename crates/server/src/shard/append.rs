//! One append, on the core that owns the partition: check, number, stage, wait.
//!
//! Read `Shard::append_one` from top to bottom: it is the way of a batch from the produce handler to the journal. What
//! follows is in `background.rs`: the flush, and the leader's commit that answers the producer.

use std::ops::ControlFlow;
use std::time::Duration;

use protocol::leader::{Append, AppendError, Checked, TrimError};
use protocol::metadata::topic_config::TimestampType;
use protocol::{Durability, Stamp};
use record::{BatchError, BatchHeader, Examined, Offset, PartitionId};
use storage::{BatchBytes, StageError};
use tokio::sync::oneshot;

use super::background::{MEMORY_GATHERED_BYTES_MAX, MEMORY_UNFLUSHED_BYTES_MAX};
use super::partition::Waiting;
use super::{Partition, Shard, count};
use crate::core::METADATA_PARTITION;

/// What the producer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acks {
    /// Nothing: no answer is wanted.
    None,
    /// The leader's own flush.
    Leader,
    /// The ack quorum.
    Quorum,
}

/// A batch on its way to its partition.
pub(crate) struct AppendRequest {
    pub(crate) partition: PartitionId,
    pub(crate) batch: BatchBytes,
    pub(crate) acks: Acks,
    pub(crate) reply: oneshot::Sender<Result<AppendOutcome, AppendRefusal>>,
}

/// Where the batch came to stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AppendOutcome {
    pub(crate) first_offset: Offset,
    pub(crate) log_start: Offset,
    /// Set for `LogAppendTime`.
    pub(crate) append_time_ms: Option<i64>,
}

/// Why a batch was not appended, or its fate is not known here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AppendRefusal {
    #[error("this partition is not here")]
    UnknownPartition,
    #[error("this node does not lead the partition any more")]
    NotLeader,
    #[error("the batch is not sound: {0}")]
    Batch(BatchError),
    #[error("the batch has {bytes} bytes, the topic allows {bytes_max} (max.message.bytes)")]
    TooLarge { bytes: usize, bytes_max: u32 },
    #[error("timestamp {timestamp_ms} is further from the broker's time than the topic allows")]
    Timestamp { timestamp_ms: i64 },
    #[error("the record at place {place} of the batch has no key; the topic is compacted (cleanup.policy)")]
    WithoutKey { place: i64 },
    #[error(transparent)]
    Leader(AppendError),
    #[error(transparent)]
    Trim(TrimError),
    #[error("the disk is full; free some space, or add retention")]
    DiskFull,
    #[error("{0}")]
    JournalDead(String),
    #[error("the journal has no room yet; try again")]
    JournalFull,
    #[error("the node's start is not journaled yet; if the disk is full, free some space")]
    Starting,
    #[error("the node is stopping")]
    Stopping,
}

impl From<StageError> for AppendRefusal {
    fn from(error: StageError) -> AppendRefusal {
        match error {
            StageError::Full => AppendRefusal::JournalFull,
            StageError::Dead(reason) => AppendRefusal::JournalDead(reason),
            StageError::TooLarge { bytes, file_bytes } => AppendRefusal::TooLarge {
                bytes,
                bytes_max: u32::try_from(file_bytes).unwrap_or(u32::MAX),
            },
        }
    }
}

impl Shard {
    /// Stages a batch, or queues it while the journal has no room: appends keep the order they came in.
    pub(crate) fn append(&self, request: AppendRequest) {
        // Before anything else: what is refused must not wait, nor hold memory, behind what waits for room. What waits already
        // is told by whoever brings the reason about.
        if let Some(refusal) = self.refuses_from(request.partition) {
            refuse(request, refusal);
            return;
        }
        if !self.stalled.borrow().is_empty() {
            self.stalled.borrow_mut().push(request);
            return;
        }
        if let Some(stalled) = self.append_one(request) {
            self.stalled.borrow_mut().push(stalled);
            self.background.notify_one();
        }
    }

    /// Why appends to a partition are refused, if they are. The reserve is the metadata's: a full disk is helped by deleting a
    /// topic or giving it retention. And a start is over only when the metadata says so.
    fn refuses_from(&self, partition: PartitionId) -> Option<AppendRefusal> {
        self.refuses().filter(|refusal| {
            let reserved = matches!(refusal, AppendRefusal::DiskFull | AppendRefusal::Starting);
            !(reserved && partition == METADATA_PARTITION)
        })
    }

    /// Tries again what was stalled, in order.
    pub(super) fn append_stalled(&self) {
        self.journal_is_full.set(false);
        loop {
            let Some(request) = self.stalled.borrow_mut().pop() else {
                return;
            };
            if request.reply.is_closed() && request.acks != Acks::None {
                continue;
            }
            if let Some(stalled) = self.append_one(request) {
                self.stalled.borrow_mut().put_back(stalled);
                return;
            }
        }
    }

    /// Appends one batch that was not refused. Gives the request back if there is no room for it now: in the journal, or in
    /// memory before it is flushed or laid out.
    fn append_one(&self, mut request: AppendRequest) -> Option<AppendRequest> {
        let mut partitions = self.partitions.borrow_mut();
        let Some(partition) = partitions.get_mut(&request.partition) else {
            return refuse(request, AppendRefusal::UnknownPartition);
        };
        let Examined {
            header,
            max_timestamp_found_ms,
        } = match self.check(partition, &request) {
            Ok(examined) => examined,
            Err(refusal) => return refuse(request, refusal),
        };
        let batch_bytes = request.batch.len();
        let in_place = matches!(request.batch, BatchBytes::Alone(_));
        let append = Append {
            record_count: header.record_count,
            max_timestamp_ms: max_timestamp_found_ms,
            producer: Stamp::of(&header),
            transactional: header.attributes.is_transactional(),
        };
        let numbered = match partition.leader.check_append(&append) {
            Ok(Checked::New(numbered)) => numbered,
            Ok(Checked::Duplicate(written)) => {
                self.wait(
                    partition,
                    written.first_offset,
                    written.next_offset,
                    None,
                    request,
                );
                return None;
            }
            Err(error) => return refuse(request, AppendRefusal::Leader(error)),
        };
        let durability = partition.leader.durability();
        let (unflushed_bytes, layout_is_behind) = {
            let store = self.store.borrow();
            (store.unflushed_bytes(), store.layout_is_behind())
        };
        // Nothing else slows down those who do not wait for flushes.
        let is_ahead = unflushed_bytes >= MEMORY_UNFLUSHED_BYTES_MAX || layout_is_behind;
        if durability == Durability::Memory && is_ahead {
            return Some(request);
        }
        let append_time_ms =
            (partition.topic.timestamp_type == TimestampType::LogAppendTime).then(|| self.clock.wall_ms());
        let staged = self.store.borrow_mut().append(
            request.partition,
            &storage::Append {
                epoch: numbered.epoch,
                first: numbered.first_offset,
                next: numbered.next_offset,
                max_timestamp_ms: max_timestamp_found_ms,
                append_time_ms,
            },
            &mut request.batch,
        );
        match staged {
            Ok(()) => {}
            Err(StageError::Full) => {
                self.journal_is_full.set(true);
                return Some(request);
            }
            Err(error) => return refuse(request, error.into()),
        }
        let appended = partition.leader.handle_append(self.clock.monotonic(), numbered);
        count(&self.counters.appended_batches, 1);
        count(&self.counters.batches_in_place, u64::from(in_place));
        count(&self.counters.appended_records, header.record_count as u64);
        count(&self.counters.appended_bytes, batch_bytes as u64);
        self.wait(
            partition,
            appended.first_offset,
            appended.next_offset,
            append_time_ms,
            request,
        );
        match durability {
            Durability::Memory if unflushed_bytes < MEMORY_GATHERED_BYTES_MAX => {
                self.staged_in_memory.notify_one();
            }
            Durability::Memory | Durability::Flushed => self.staged.notify_one(),
        }
        partition.act();
        None
    }

    /// Has the producer answered when its acks are met.
    fn wait(
        &self,
        partition: &mut Partition,
        first_offset: Offset,
        next_offset: Offset,
        append_time_ms: Option<i64>,
        request: AppendRequest,
    ) {
        let outcome = AppendOutcome {
            first_offset,
            log_start: partition.leader.log_start(),
            append_time_ms,
        };
        let (queue, reached) = match request.acks {
            Acks::None => return,
            Acks::Leader => (&mut partition.waiting_durable, partition.leader.durable_here()),
            Acks::Quorum => (&mut partition.waiting_committed, partition.leader.tail()),
        };
        if next_offset <= reached {
            let _ = request.reply.send(Ok(outcome));
            return;
        }
        // A duplicate of a batch still under way waits among those that came before it.
        let place = queue.partition_point(|waiting| waiting.next_offset <= next_offset);
        queue.insert(
            place,
            Waiting {
                next_offset,
                outcome,
                reply: request.reply,
            },
        );
    }

    fn check(&self, partition: &Partition, request: &AppendRequest) -> Result<Examined, AppendRefusal> {
        let (batch, topic) = (&*request.batch, &partition.topic);
        if request.acks == Acks::Quorum {
            let replicas = partition.leader.check_replicas(topic.insync_replicas_min);
            replicas.map_err(AppendRefusal::Leader)?;
        }
        let bytes_max = topic.batch_bytes_max;
        if batch.len() > bytes_max as usize {
            return Err(AppendRefusal::TooLarge {
                bytes: batch.len(),
                bytes_max,
            });
        }
        let examined = record::examine(batch, &self.settings.batch_limits).map_err(AppendRefusal::Batch)?;
        let check_time = topic.timestamp_type == TimestampType::CreateTime;
        let timestamp_ms = examined.max_timestamp_found_ms;
        if check_time && !self.timestamp_is_near(partition, timestamp_ms) {
            return Err(AppendRefusal::Timestamp { timestamp_ms });
        }
        if topic.compaction.is_some() {
            self.check_keys(&examined.header, batch)?;
        }
        Ok(examined)
    }

    /// That compaction will know what each record supersedes. One record without a key has the whole batch refused, as in
    /// Kafka.
    fn check_keys(&self, header: &BatchHeader, batch: &[u8]) -> Result<(), AppendRefusal> {
        let mut without_key = None;
        let looked = record::visit_keys(batch, &self.settings.batch_limits, |record| match record.key {
            Some(_) => ControlFlow::Continue(()),
            None => {
                without_key = Some(record.offset.0 - header.base_offset.0);
                ControlFlow::Break(())
            }
        });
        looked.map_err(AppendRefusal::Batch)?;
        without_key.map_or(Ok(()), |place| Err(AppendRefusal::WithoutKey { place }))
    }

    fn timestamp_is_near(&self, partition: &Partition, timestamp_ms: i64) -> bool {
        let now_ms = self.clock.wall_ms();
        let within =
            |distance_ms: i64, limit: Duration| distance_ms <= 0 || distance_ms as u128 <= limit.as_millis();
        within(
            now_ms.saturating_sub(timestamp_ms),
            partition.topic.timestamp_before_max,
        ) && within(
            timestamp_ms.saturating_sub(now_ms),
            partition.topic.timestamp_after_max,
        )
    }
}

fn refuse(request: AppendRequest, refusal: AppendRefusal) -> Option<AppendRequest> {
    // A client that has gone does not wait any more.
    let _ = request.reply.send(Err(refusal));
    None
}
