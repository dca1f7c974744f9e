//! Reading committed batches of one partition, from memory at once or from the disk through a job.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};
use protocol::leader::NodeId;
use record::{Epoch, Offset, PartitionId};
use storage::{Aborted, AbortedFound, Located, Read, ReadError, ReadJob};
use tokio::time::timeout;

use super::{Partition, Shard, Watcher};
use crate::TopicCounters;
use crate::role::{NotLed, Role};

/// The longest that a read of what is committed waits for a replica to hear so.
const COMMITTED_PATIENCE: Duration = Duration::from_millis(200);

/// A wish to read one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRequest {
    /// The partition to read.
    pub partition: PartitionId,
    /// The first offset that is wanted.
    pub from: Offset,
    /// The most bytes; the first batch comes whole even if it is longer. With 0 only the bounds are looked at.
    pub bytes_max: usize,
    /// The epoch that the reader believes in; `None` if any will do.
    pub epoch: Option<Epoch>,
    /// A replica that does not lead may answer.
    pub from_any: bool,
    /// The node of a replica that is nearer to the reader than the leader is.
    pub near: Option<NodeId>,
    /// An order names all below this, so it is committed: any replica may answer, and waits until it knows so much.
    pub ordered_until: Option<Offset>,
    /// The reader wants records of no transaction that is open, and leaves out those of aborted ones (Kafka: `read_committed`).
    pub committed_only: bool,
}

/// A partition that a reader waits for, as it numbers it.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    /// The partition.
    pub partition: PartitionId,
    /// The tail that the reader has seen.
    pub seen: Offset,
    /// The reader's number for it.
    pub number: u32,
}

impl Watch {
    /// The watch of a reader that has no other partition.
    pub fn lone(partition: PartitionId, seen: Offset) -> Watch {
        Watch {
            partition,
            seen,
            number: 0,
        }
    }
}

/// The bounds of a partition, and the batches found.
#[derive(Debug, Clone, Default)]
pub struct ReadResult {
    /// The first offset that there is.
    pub log_start: Offset,
    /// The first offset that is not committed.
    pub tail: Offset,
    /// No record before it is in a transaction that is open (Kafka's last stable offset). At most the tail.
    pub stable: Offset,
    /// The end of what the reader may see: the tail, or where all is stable.
    pub until: Offset,
    /// The aborted transactions of which the batches may have records, by their first offsets; for those who leave them out.
    pub aborted: Vec<Aborted>,
    /// Whole committed batches in the order of their offsets, one or more to an element, as they are stored. The first may begin
    /// before the offset that was asked for.
    pub batches: Vec<Bytes>,
    /// Their bytes together.
    pub bytes: usize,
    /// More may be found at once from behind the batches on, and might have fitted.
    pub is_part: bool,
    /// Nothing was read: the reader finds it at this replica, which is nearer to it.
    pub nearer: Option<NodeId>,
}

/// Reasons for which nothing was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadRefusal {
    /// The shard has no such partition.
    #[error("this partition is not here")]
    UnknownPartition,
    /// Another node leads the partition.
    #[error("this node does not lead the partition")]
    NotLeader,
    /// The partition's leader does not know yet how far the log is committed.
    #[error("the partition's epoch has just begun; try again")]
    NotOpen,
    /// The reader believes in an epoch that is over.
    #[error("epoch {wanted} is over, the partition is in {current}")]
    FencedEpoch {
        /// The epoch that the reader believes in.
        wanted: Epoch,
        /// The partition's.
        current: Epoch,
    },
    /// The reader believes in an epoch that has not begun.
    #[error("epoch {wanted} has not begun, the partition is in {current}")]
    UnknownEpoch {
        /// The epoch that the reader believes in.
        wanted: Epoch,
        /// The partition's.
        current: Epoch,
    },
    /// The offset is before the first or behind the last.
    #[error("offset {wanted} is outside of {log_start}..{tail}")]
    OutOfRange {
        /// The offset that was asked for.
        wanted: Offset,
        /// The first that there is.
        log_start: Offset,
        /// The first that is not there yet.
        tail: Offset,
    },
    /// The bytes cannot be read, or are damaged.
    #[error("{0}")]
    Fault(String),
}

impl Shard {
    /// Checks the epoch that a client believes in, and returns the partition's.
    ///
    /// # Errors
    /// The partition, or its leader, is not here; or the epoch is another one.
    pub fn check_epoch(&self, partition: PartitionId, wanted: Option<Epoch>) -> Result<Epoch, ReadRefusal> {
        let current = self.with_leader(partition, |leader| leader.epoch())?;
        check_epoch(wanted, current)?;
        Ok(current)
    }

    /// Reads committed batches, beginning with the one that holds `from`. At the tail it finds none and returns at once:
    /// [`Shard::watch`] tells of more.
    ///
    /// # Errors
    /// As [`ReadRefusal`] has them. Bytes that fail their checksum are never returned.
    pub async fn read(self: &Rc<Self>, request: ReadRequest) -> Result<ReadResult, ReadRefusal> {
        if let Some(until) = request.ordered_until {
            self.until_committed(request.partition, until).await?;
        }
        let (mut result, counters) = self.begin_read(&request)?;
        if let Some(counters) = counters {
            (result.batches, result.is_part) = self
                .find_batches(request.partition, request.from, result.until, request.bytes_max)
                .await?;
            // In tests alone: it goes through all that is read.
            debug_assert!(
                is_before(&result.batches, result.until),
                "readers see committed records only"
            );
            if request.committed_only
                && let Some(next) = end_of(&result.batches)
            {
                result.aborted = self.aborted(request.partition, request.from, next).await?;
                self.check_still_there(&request)?;
            }
            result.bytes = result.batches.iter().map(Bytes::len).sum();
            counters.read_bytes.add(result.bytes as u64);
            self.counters.read_bytes.add(result.bytes as u64);
        }
        Ok(result)
    }

    /// Checks that nothing was given up of what was just read: what was aborted of it may not be known any more.
    fn check_still_there(&self, request: &ReadRequest) -> Result<(), ReadRefusal> {
        let partitions = self.partitions.borrow();
        let partition = partitions.get(&request.partition);
        let role = &partition.ok_or_else(|| self.absence(request.partition))?.role;
        match role.log_start() <= request.from {
            true => Ok(()),
            false => Err(ReadRefusal::OutOfRange {
                wanted: request.from,
                log_start: role.log_start(),
                tail: role.tail(),
            }),
        }
    }

    /// The bounds of the partition; and the counters for the read, if there is something to read.
    fn begin_read(
        &self,
        request: &ReadRequest,
    ) -> Result<(ReadResult, Option<Rc<TopicCounters>>), ReadRefusal> {
        self.look_at_line(request.partition);
        let partitions = self.partitions.borrow();
        let partition = partitions
            .get(&request.partition)
            .ok_or_else(|| self.absence(request.partition))?;
        let View {
            epoch,
            log_start,
            mut tail,
            stable,
            next_offset,
        } = match request.ordered_until {
            Some(_) => Shard::committed_view(partition)?,
            None => self.view(partition, request.from_any)?,
        };
        check_epoch(request.epoch, epoch)?;
        if let Ok(leader) = partition.role.leader() {
            partition.check_bounds(leader);
        }
        if planted(Bug::UncommittedShown) {
            tail = next_offset;
        }
        if request.from < log_start || request.from > next_offset {
            return Err(ReadRefusal::OutOfRange {
                wanted: request.from,
                log_start,
                tail,
            });
        }
        let near = request
            .near
            .filter(|_| !partition.is_ordered())
            .filter(|near| partition.role.is_held_by(*near, request.from));
        let result = ReadResult {
            log_start,
            tail,
            stable,
            until: match request.committed_only {
                true => stable,
                false => tail,
            },
            nearer: near,
            ..ReadResult::default()
        };
        if request.from >= tail && self.is_forsaken(&partition.role) {
            return Err(NotLed::NotLeader.into());
        }
        let is_wanted = request.bytes_max > 0 && request.from < result.until && near.is_none();
        let counters = is_wanted.then(|| {
            partition
                .counters(request.partition.topic, &self.topic_book)
                .clone()
        });
        Ok((result, counters))
    }

    /// The bounds of a partition that readers may see here. A replica that only follows shows, to those that may read anywhere, as much as it knows
    /// to be committed, for as long as its leader reaches it.
    fn view(&self, partition: &Partition, from_any: bool) -> Result<View, NotLed> {
        let role = &partition.role;
        // A replica that only follows does not know how far its topic is ordered.
        let may_follow = from_any && !partition.is_ordered();
        let leader = match partition.open_leader() {
            Err(NotLed::NotLeader) if may_follow => {
                return self.follower_view(role).ok_or(NotLed::NotLeader);
            }
            leader => leader?,
        };
        let tail = partition.shown_of(leader.tail());
        Ok(View {
            epoch: leader.epoch(),
            log_start: leader.log_start(),
            tail,
            stable: leader.stable().min(tail),
            next_offset: leader.next_offset(),
        })
    }

    /// The bounds of what is committed, ordered or not.
    fn committed_view(partition: &Partition) -> Result<View, NotLed> {
        let (epoch, next_offset) = match &partition.role {
            Role::Lone(leader) => (leader.epoch(), leader.next_offset()),
            Role::Member(member) if member.is_given_up() => return Err(NotLed::NotLeader),
            Role::Member(member) => (member.replica.assigned(), member.replica.next_offset()),
        };
        Ok(View {
            epoch,
            log_start: partition.role.log_start(),
            tail: partition.role.tail(),
            stable: partition.role.stable(),
            next_offset,
        })
    }

    /// Returns when this replica knows that all below an offset is committed.
    ///
    /// # Errors
    /// It does not hear of it for so long.
    async fn until_committed(&self, id: PartitionId, until: Offset) -> Result<(), ReadRefusal> {
        let deadline = self.clock.monotonic() + COMMITTED_PATIENCE;
        loop {
            let watcher = {
                let mut partitions = self.partitions.borrow_mut();
                let partition = partitions.get_mut(&id).ok_or_else(|| self.absence(id))?;
                if partition.role.tail() >= until {
                    return Ok(());
                }
                let watcher = Watcher::new(1);
                partition.watch(0, &watcher);
                watcher
            };
            let left = deadline.saturating_sub(self.clock.monotonic());
            if timeout(left, watcher.woken()).await.is_err() {
                return Err(ReadRefusal::NotLeader);
            }
        }
    }

    fn follower_view(&self, role: &Role) -> Option<View> {
        let Role::Member(member) = role else { return None };
        let replica = &member.replica;
        let (leader, epoch) = replica.followed().filter(|_| !member.is_given_up())?;
        self.replication.is_linked_with(leader).then(|| View {
            epoch,
            log_start: replica.log_start(),
            tail: replica.tail(),
            stable: replica.stable(),
            next_offset: replica.next_offset(),
        })
    }

    /// Finds the aborted transactions of which a record may be among the offsets `[from, until)`, by their first offsets.
    ///
    /// # Errors
    /// The partition is not here, or its indexes cannot be read.
    pub async fn aborted(
        self: &Rc<Self>,
        partition: PartitionId,
        from: Offset,
        until: Offset,
    ) -> Result<Vec<Aborted>, ReadRefusal> {
        let mut found = self.store.borrow_mut().aborted(partition, from, until);
        loop {
            match found.map_err(|error| self.damage_refusal(error))? {
                AbortedFound::Ready(aborted) => return Ok(aborted),
                AbortedFound::Job(job) => {
                    self.counters.disk_reads.add(1);
                    let outcome = self.threads.pool.run(|| job.run()).await;
                    found = self.store.borrow_mut().finish_aborted(outcome);
                }
            }
        }
    }

    /// Reads whole batches of the offsets `[from, until)`: at most `bytes_max` bytes, but at least one batch. `until` is the
    /// caller's to bound by the tail.
    ///
    /// # Errors
    /// As [`ReadRefusal`] has them.
    pub async fn read_batches(
        self: &Rc<Self>,
        partition: PartitionId,
        from: Offset,
        until: Offset,
        bytes_max: usize,
    ) -> Result<Vec<Bytes>, ReadRefusal> {
        let found = self.find_batches(partition, from, until, bytes_max).await?;
        Ok(found.0)
    }

    /// The same; `true` if more might have fitted that is elsewhere.
    async fn find_batches(
        self: &Rc<Self>,
        partition: PartitionId,
        from: Offset,
        until: Offset,
        bytes_max: usize,
    ) -> Result<(Vec<Bytes>, bool), ReadRefusal> {
        match self.find_stored(partition, from, until, bytes_max).await {
            Err(ReadError::Damaged(damage)) => {
                let lent = self.read_lent(*damage, from, until, bytes_max).await?;
                Ok((lent, true))
            }
            found => found.map_err(|error| self.refusal(error)),
        }
    }

    /// The same of what is stored here, damaged or not.
    pub(super) async fn find_stored(
        self: &Rc<Self>,
        partition: PartitionId,
        from: Offset,
        until: Offset,
        bytes_max: usize,
    ) -> Result<(Vec<Bytes>, bool), ReadError> {
        let plan = || self.store.borrow_mut().read(partition, from, until, bytes_max);
        let mut read = plan();
        loop {
            match read? {
                Read::Ready(batches) => return Ok((batches, false)),
                Read::Part(batches) => return Ok((batches, true)),
                // Nothing comes between the answer and the waiting: all of it is on this thread.
                Read::UnderWay => {
                    self.read_ahead.notified().await;
                    read = plan();
                }
                Read::Job(job) => {
                    let outcome = self.run_read(job).await;
                    read = self.store.borrow_mut().finish_read(outcome);
                }
            }
        }
    }

    /// Returns a read of bytes that readers will want next, for [`Shard::load_ahead`]. The bytes take memory until they are in the
    /// cache.
    pub fn next_read_ahead(&self) -> Option<ReadJob> {
        self.store.borrow_mut().next_read_ahead()
    }

    /// Runs a read ahead and puts its bytes into the cache.
    pub async fn load_ahead(&self, job: ReadJob) {
        let outcome = self.run_read(job).await;
        self.store.borrow_mut().finish_read_ahead(outcome);
        self.read_ahead.notify_waiters();
    }

    async fn run_read(&self, job: ReadJob) -> storage::ReadOutcome {
        self.counters.disk_reads.add(1);
        self.threads.pool.run(|| job.run()).await
    }

    /// Looks through bytes that were read, on the thread that does this for the shard: one look at a time, and none whose caller has
    /// gone.
    pub async fn look<T: Send + 'static>(&self, look: impl FnOnce() -> T + Send + 'static) -> T {
        self.threads.looking.run(look).await
    }

    /// Returns the offset from which on to look for the first record with a timestamp of at least `timestamp_ms` (since 1970);
    /// `None` if no batch has one.
    ///
    /// # Errors
    /// The partition is not here, or its bytes cannot be read.
    pub async fn locate_timestamp(
        self: &Rc<Self>,
        partition: PartitionId,
        timestamp_ms: i64,
    ) -> Result<Option<Offset>, ReadRefusal> {
        let mut located = self.store.borrow_mut().locate_timestamp(partition, timestamp_ms);
        loop {
            match located.map_err(|error| self.damage_refusal(error))? {
                Located::From(offset) => return Ok(Some(offset)),
                Located::Nowhere => return Ok(None),
                Located::Job(job) => {
                    let outcome = self.run_read(job).await;
                    located = self.store.borrow_mut().finish_locate(outcome, timestamp_ms);
                }
            }
        }
    }

    /// The greatest timestamp in the partition, in milliseconds since 1970; `None` if it is not here or has no record.
    pub fn max_timestamp(&self, partition: PartitionId) -> Option<i64> {
        self.store.borrow().max_timestamp(partition)
    }

    /// Has `reader` woken when the tail of one of these partitions moves beyond what it has seen; at once if one has, or is not here.
    pub fn watch(&self, watches: &[Watch], reader: &Arc<Watcher>) {
        let mut partitions = self.partitions.borrow_mut();
        for watch in watches {
            let has_not_moved = |partition: &&mut Box<Partition>| {
                let view = self.view(partition, true);
                view.is_ok_and(|view| view.tail <= watch.seen)
            };
            match partitions.get_mut(&watch.partition).filter(has_not_moved) {
                Some(partition) => partition.watch(watch.number, reader),
                // It has moved already, or is gone: either way the reader should look.
                None => reader.wake(watch.number),
            }
        }
    }

    pub(super) fn refusal(&self, error: ReadError) -> ReadRefusal {
        match error {
            ReadError::UnknownPartition(_) => ReadRefusal::UnknownPartition,
            ReadError::OutOfRange {
                wanted,
                log_start,
                next,
            } => ReadRefusal::OutOfRange {
                wanted,
                log_start,
                tail: next,
            },
            ReadError::Damaged(_) => self.damage_refusal(error),
            ReadError::Fault(fault) => {
                self.counters.faults.add(1);
                tracing::error!(shard = self.index, %fault, "a read found damage; the bytes are not served");
                ReadRefusal::Fault(fault.to_string())
            }
        }
    }
}

/// See [`Shard::view`].
struct View {
    epoch: Epoch,
    log_start: Offset,
    tail: Offset,
    stable: Offset,
    next_offset: Offset,
}

fn check_epoch(wanted: Option<Epoch>, current: Epoch) -> Result<(), ReadRefusal> {
    match wanted {
        Some(wanted) if wanted < current => Err(ReadRefusal::FencedEpoch { wanted, current }),
        Some(wanted) if wanted > current => Err(ReadRefusal::UnknownEpoch { wanted, current }),
        _ => Ok(()),
    }
}

/// The offset behind batches that lie one behind the other.
fn end_of(found: &[Bytes]) -> Option<Offset> {
    let last = record::batches(found.last()?).last()?;
    last.ok().map(|(header, _)| header.next_offset())
}

/// Says if all batches end before an offset, as far as their headers tell.
fn is_before(found: &[Bytes], tail: Offset) -> bool {
    let mut batches = found.iter().flat_map(|bytes| record::batches(bytes));
    batches.all(|batch| batch.is_ok_and(|(header, _)| header.next_offset() <= tail))
}
