//! One append, on the core that owns the partition: check, number, stage, wait.
//!
//! Read `Shard::append_one` from top to bottom: it is the way of a batch from the produce handler to the journal. What
//! follows is in `background.rs`: the flush, and the leader's commit that answers the producer.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Duration;

use protocol::leader::{Append, AppendError, Checked, TrimError};
use protocol::metadata::topic_config::TimestampType;
use protocol::{Durability, Stamp};
use record::{BatchError, BatchHeader, Examined, Offset, PartitionId};
use storage::{BatchBytes, StageError};
use tokio::sync::oneshot;

use super::background::MEMORY_GATHERED_BYTES_MAX;
use super::partition::Waiting;
use super::stalled::{Attempt, Stalled};
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
    #[error("the batch takes {bytes} bytes, a journal file has room for {bytes_max} (journal.file_bytes)")]
    TooLargeForJournal { bytes: usize, bytes_max: u64 },
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
            StageError::TooLarge { bytes, file_bytes } => AppendRefusal::TooLargeForJournal {
                bytes,
                bytes_max: file_bytes,
            },
        }
    }
}

/// An append that there is no room for now.
enum NoRoom {
    /// In the journal.
    InJournal(Attempt),
    /// In memory: what was answered before is to be flushed first. Or others of its partition wait for that.
    InMemory(Attempt),
}

impl Shard {
    /// Stages a batch, or queues it while there is no room: appends of a partition keep the order they came in.
    pub(crate) fn append(&self, request: AppendRequest) {
        // Before anything else: what is refused must not wait, nor hold memory, behind what waits for room. What waits already
        // is told by whoever brings the reason about.
        if let Some(refusal) = self.refuses_from(request.partition) {
            refuse(request, refusal);
            return;
        }
        let attempt = Attempt::from(request);
        if !self.stalled.borrow().is_empty() {
            self.stalled.borrow_mut().push(attempt);
            return;
        }
        match self.append_in_order(attempt) {
            None => return,
            Some(NoRoom::InJournal(attempt)) => self.stalled.borrow_mut().push(attempt),
            Some(NoRoom::InMemory(attempt)) => self.ahead.borrow_mut().push(attempt),
        }
        self.background.notify_one();
    }

    /// Why appends to a partition are refused, if they are. The reserve is the metadata's: a full disk is helped by deleting a
    /// topic or giving it retention. And a start is over only when the metadata says so.
    fn refuses_from(&self, partition: PartitionId) -> Option<AppendRefusal> {
        self.refuses().filter(|refusal| {
            let reserved = matches!(refusal, AppendRefusal::DiskFull | AppendRefusal::Starting);
            !(reserved && partition == METADATA_PARTITION)
        })
    }

    /// Tries again what was refused or stalled: deletions, then what waits for the journal alone, among it the metadata's, and
    /// last the topics in memory that are ahead. What was in the first queue goes to the other one behind its partition's.
    pub(super) fn append_stalled(&self) {
        self.journal_is_full.set(false);
        self.delete_refused();
        while let Some(attempt) = take_first(&self.stalled) {
            match self.append_in_order(attempt) {
                None => {}
                Some(NoRoom::InMemory(attempt)) => self.ahead.borrow_mut().push(attempt),
                Some(NoRoom::InJournal(attempt)) => {
                    self.stalled.borrow_mut().put_back(attempt);
                    return;
                }
            }
        }
        while let Some(attempt) = take_first(&self.ahead) {
            if let Some(NoRoom::InJournal(attempt) | NoRoom::InMemory(attempt)) = self.append_one(attempt) {
                self.ahead.borrow_mut().put_back(attempt);
                return;
            }
        }
    }

    /// Tells everybody who waits for room that it is in vain.
    pub(super) fn refuse_stalled(&self, refusal: &AppendRefusal) {
        for queue in [&self.stalled, &self.ahead] {
            for request in queue.borrow_mut().take_all() {
                refuse(request, refusal.clone());
            }
        }
    }

    /// Appends one batch, unless others of its partition wait already: also if the topic is not in memory any more, it must
    /// not overtake them.
    fn append_in_order(&self, attempt: Attempt) -> Option<NoRoom> {
        let others_wait = self.ahead.borrow().has(attempt.request.partition);
        match others_wait {
            true => Some(NoRoom::InMemory(attempt)),
            false => self.append_one(attempt),
        }
    }

    /// Appends one batch that was not refused. Gives it back if there is no room for it now.
    fn append_one(&self, mut attempt: Attempt) -> Option<NoRoom> {
        let mut partitions = self.partitions.borrow_mut();
        let Some(partition) = partitions.get_mut(&attempt.request.partition) else {
            return refuse(attempt.request, AppendRefusal::UnknownPartition);
        };
        let examined = match self.check(partition, &attempt) {
            Ok(examined) => examined,
            Err(refusal) => return refuse(attempt.request, refusal),
        };
        attempt.examined = Some(examined);
        let numbered = match partition.leader.check_append(&append_of(&examined)) {
            Ok(Checked::New(numbered)) => numbered,
            Ok(Checked::Duplicate(written)) => {
                let (first, next) = (written.first_offset, written.next_offset);
                self.wait(partition, first, next, None, attempt.request);
                return None;
            }
            Err(error) => return refuse(attempt.request, AppendRefusal::Leader(error)),
        };
        let durability = partition.leader.durability();
        if !self.has_room_in_memory(durability) {
            return Some(NoRoom::InMemory(attempt));
        }
        let append_time_ms =
            (partition.topic.timestamp_type == TimestampType::LogAppendTime).then(|| self.clock.wall_ms());
        let in_place = matches!(attempt.request.batch, BatchBytes::Alone(_));
        let place = storage::Append {
            epoch: numbered.epoch,
            first: numbered.first_offset,
            next: numbered.next_offset,
            max_timestamp_ms: examined.max_timestamp_found_ms,
            append_time_ms,
        };
        let (id, batch) = (attempt.request.partition, &mut attempt.request.batch);
        let staged = self.store.borrow_mut().append(id, &place, batch);
        match staged {
            Ok(()) => {}
            Err(StageError::Full) => {
                self.journal_is_full.set(true);
                return Some(NoRoom::InJournal(attempt));
            }
            Err(error) => return refuse(attempt.request, error.into()),
        }
        let appended = partition.leader.handle_append(self.clock.monotonic(), numbered);
        self.note_appended(&examined.header, in_place, durability);
        let (first, next) = (appended.first_offset, appended.next_offset);
        self.wait(partition, first, next, append_time_ms, attempt.request);
        self.wake_flush(durability);
        partition.act();
        None
    }

    /// Whether more may be answered before it is flushed: nothing else slows down those who do not wait for flushes.
    fn has_room_in_memory(&self, durability: Durability) -> bool {
        match durability {
            Durability::Flushed => true,
            Durability::Memory => self.answered.borrow().bytes() < self.settings.memory_unflushed_bytes_max,
        }
    }

    /// Has what was staged flushed: at once, or with what comes in a moment, if nobody waits and little else does.
    fn wake_flush(&self, durability: Durability) {
        let unflushed_bytes = self.store.borrow().unflushed_bytes();
        match durability {
            Durability::Memory if unflushed_bytes < MEMORY_GATHERED_BYTES_MAX => {
                self.staged_in_memory.notify_one();
            }
            Durability::Memory | Durability::Flushed => self.staged.notify_one(),
        }
    }

    fn note_appended(&self, header: &BatchHeader, in_place: bool, durability: Durability) {
        if durability == Durability::Memory {
            let frame = self.store.borrow().staged_before() - 1;
            self.answered.borrow_mut().note(frame, header.length_bytes);
        }
        let counters = &self.counters;
        count(&counters.appended_batches, 1);
        count(&counters.batches_in_place, u64::from(in_place));
        count(&counters.appended_records, header.record_count as u64);
        count(&counters.appended_bytes, header.length_bytes as u64);
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
            // Nobody is told; but to whoever holds the other end it was not refused.
            Acks::None => {
                let _ = request.reply.send(Ok(outcome));
                return;
            }
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

    fn check(&self, partition: &Partition, attempt: &Attempt) -> Result<Examined, AppendRefusal> {
        let (batch, topic) = (&*attempt.request.batch, &partition.topic);
        if attempt.request.acks == Acks::Quorum {
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
        let examined = match attempt.examined {
            Some(examined) => examined,
            None => record::examine(batch, &self.settings.batch_limits).map_err(AppendRefusal::Batch)?,
        };
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

/// What the leader needs to know of a batch.
fn append_of(examined: &Examined) -> Append {
    let header = &examined.header;
    Append {
        record_count: header.record_count,
        max_timestamp_ms: examined.max_timestamp_found_ms,
        producer: Stamp::of(header),
        transactional: header.attributes.is_transactional(),
    }
}

/// Takes the first append of a queue that is still wanted.
fn take_first(queue: &RefCell<Stalled>) -> Option<Attempt> {
    queue.borrow_mut().pop_wanted()
}

fn refuse(request: AppendRequest, refusal: AppendRefusal) -> Option<NoRoom> {
    // A client that has gone does not wait any more.
    let _ = request.reply.send(Err(refusal));
    None
}
