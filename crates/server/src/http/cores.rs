//! HTTP's way to the log: letters to the cores, by the ways that Kafka's requests take. Nothing is decided here.
//!
//! Records that a core finds for a reader take room in that core's answer budget until the reader lets go of them.

use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use protocol::metadata::{Metadata, Topic, is_internal};
use record::{CommittedBatches, Offset, PartitionId, TopicId};
use shard::{
    Acks, AppendAnswer, AppendRefusal, AppendRequest, Conditions, ReadRefusal, ReadRequest, Shard, Trimmed,
    Watch, Watcher,
};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::append_path::send_from_outside;
use crate::caller::Caller;
use crate::core::{Core, NodeFacts};
use crate::log_bounds::LogBounds;
use crate::mailbox::Stopping;

use super::body::ANSWERS_FULL;
use super::others::Lines;
use super::problem::{Kind, Problem};

/// The core that is asked about topics. Any would do: a change is answered when all have applied it.
const METADATA_CORE: usize = 0;

/// See the module.
pub(super) struct Cores {
    pub(super) facts: NodeFacts,
    pub(super) lines: Lines,
}

/// The facts about a topic before its partitions are asked.
#[derive(Debug, Clone)]
pub(super) struct KnownTopic {
    pub(super) id: TopicId,
    pub(super) name: Arc<str>,
    pub(super) partition_count: i32,
    pub(super) batch_bytes_max: usize,
}

impl KnownTopic {
    fn of(topic: &Topic) -> KnownTopic {
        KnownTopic {
            id: topic.id,
            name: Arc::clone(&topic.name),
            partition_count: topic.partition_count(),
            batch_bytes_max: topic.settings.batch_bytes_max as usize,
        }
    }

    /// One of its partitions, as a path names it.
    ///
    /// # Errors
    /// There is no such partition.
    pub(super) fn partition(&self, text: &str) -> Result<PartitionId, Problem> {
        let index = text.parse().ok().and_then(|index| self.partition_at(index));
        index.ok_or_else(|| self.no_partition(text))
    }

    fn partition_at(&self, index: i32) -> Option<PartitionId> {
        let is_there = (0..self.partition_count).contains(&index);
        is_there.then_some(PartitionId {
            topic: self.id,
            index,
        })
    }

    fn no_partition(&self, named: impl Display) -> Problem {
        let (name, last) = (&self.name, self.partition_count - 1);
        let detail = format!("topic {name} has no partition {named}, only 0 to {last}");
        Problem::new(Kind::UnknownPartition, detail)
    }
}

/// The transactions whose records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    /// Those that were committed, and what is outside of any; up to the first that is open.
    Committed,
    /// All.
    Uncommitted,
}

/// The outcome of a read. Its core counts it as held until it is dropped.
pub(super) struct Found {
    pub(super) bounds: LogBounds,
    /// Tells which of the batches count, if only those are wanted that do.
    pub(super) committed: Option<CommittedBatches>,
    pub(super) batches: Vec<Bytes>,
    lent: Arc<oneshot::Sender<()>>,
}

impl Found {
    /// Some of its batches. They count as held with the others.
    pub(super) fn part(&self, batches: Vec<Bytes>) -> Found {
        Found {
            bounds: self.bounds,
            committed: None,
            batches,
            lent: Arc::clone(&self.lent),
        }
    }
}

#[cfg(test)]
impl Found {
    /// These batches; what comes with them ends when they are let go of.
    pub(super) fn of(batches: Vec<Bytes>) -> (Found, oneshot::Receiver<()>) {
        let (lent, returned) = oneshot::channel();
        let bounds = LogBounds {
            log_start: Offset(0),
            tail: Offset(0),
        };
        let found = Found {
            committed: None,
            bounds,
            batches,
            lent: Arc::new(lent),
        };
        (found, returned)
    }
}

/// Why nothing was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unread {
    #[error(transparent)]
    Refused(#[from] ReadRefusal),
    #[error(transparent)]
    Stopping(#[from] Stopping),
    #[error("{}", ANSWERS_FULL)]
    NoRoom,
}

impl Cores {
    /// Asks a core. The question is dropped with the call.
    #[track_caller]
    pub(super) fn ask<T, F>(
        &self,
        core: usize,
        letter: impl FnOnce(Rc<Core>) -> F + Send + 'static,
    ) -> impl Future<Output = Result<T, Stopping>>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.facts.mailboxes.call(core, letter)
    }

    /// Asks the core that owns a partition.
    #[track_caller]
    pub(super) fn ask_owner<T, F>(
        &self,
        partition: PartitionId,
        letter: impl FnOnce(Rc<Shard>) -> F + Send + 'static,
    ) -> impl Future<Output = Result<T, Stopping>>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let shard = self.facts.shard_of(partition);
        let letter = move |core: Rc<Core>| letter(Rc::clone(core.shard(shard)));
        self.ask(self.facts.core_of(shard), letter)
    }

    /// Asks the core that knows the topics.
    #[track_caller]
    pub(super) fn ask_metadata<T, F>(
        &self,
        letter: impl FnOnce(Rc<Core>) -> F + Send + 'static,
    ) -> impl Future<Output = Result<T, Stopping>>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        self.ask(METADATA_CORE, letter)
    }

    /// The topic of a name.
    ///
    /// # Errors
    /// There is none, or the node is stopping.
    pub(super) async fn topic(&self, name: &str) -> Result<KnownTopic, Problem> {
        let wanted = name.to_owned();
        let found = self
            .ask_metadata(|core| async move {
                core.with_metadata(|metadata| metadata.topic_named(&wanted).map(KnownTopic::of))
            })
            .await?;
        found.ok_or_else(|| unknown_topic(name))
    }

    /// The topic of a name, whose records a client wants to change.
    ///
    /// # Errors
    /// As `topic`; or clients may only read it.
    pub(super) async fn topic_of_clients(&self, name: &str) -> Result<KnownTopic, Problem> {
        if is_internal(name) {
            let detail = format!("{name} is kept by the node itself; clients may read it");
            return Err(Problem::new(Kind::InternalTopic, detail).with("topic", name));
        }
        self.topic(name).await
    }

    /// Partitions that entries of a body name, in order.
    ///
    /// # Errors
    /// A problem that says which entry names none; or the node is stopping.
    pub(super) async fn partitions(&self, named: Vec<(String, i32)>) -> Result<Vec<PartitionId>, Problem> {
        let find = |metadata: &Metadata, topic: &str, index: i32| {
            let topic = metadata.topic_named(topic).ok_or_else(|| unknown_topic(topic))?;
            let topic = KnownTopic::of(topic);
            topic.partition_at(index).ok_or_else(|| topic.no_partition(index))
        };
        self.ask_metadata(move |core| async move {
            core.with_metadata(|metadata| {
                let found = named.iter().enumerate().map(|(entry, (topic, index))| {
                    find(metadata, topic, *index).map_err(|problem| problem.with("entry", entry))
                });
                found.collect()
            })
        })
        .await?
    }

    /// Hands a batch to the core that owns the partition; answered when it is durable.
    pub(super) fn append(
        &self,
        caller: &Caller,
        partition: PartitionId,
        batch: Bytes,
        conditions: Conditions,
    ) -> AppendAnswer {
        let (request, answer) = AppendRequest::new(partition, batch, Acks::Quorum);
        let request = request.sent_from(caller.address()).only_if(conditions);
        send_from_outside(&self.facts, request);
        answer
    }

    /// Reads committed batches, from the one that holds `from` on: at most `bytes_max` bytes, but at least one batch.
    ///
    /// # Errors
    /// See `Unread`; `NoRoom` if there was none until `deadline`.
    pub(super) async fn read(
        &self,
        partition: PartitionId,
        from: Offset,
        bytes_max: usize,
        deadline: Instant,
        isolation: Isolation,
    ) -> Result<Found, Unread> {
        let committed_only = isolation == Isolation::Committed;
        self.read_named(partition, from, bytes_max, deadline, (None, committed_only))
            .await
    }

    /// The same of what an order names up to an offset. Any replica has it, sooner or later.
    ///
    /// # Errors
    /// As `read`.
    pub(super) async fn read_named(
        &self,
        partition: PartitionId,
        from: Offset,
        bytes_max: usize,
        deadline: Instant,
        (ordered_until, committed_only): (Option<Offset>, bool),
    ) -> Result<Found, Unread> {
        let shard = self.facts.shard_of(partition);
        self.ask(self.facts.core_of(shard), move |core| async move {
            let granted = loop {
                if let Some(granted) = core.answers.grant(bytes_max) {
                    break granted;
                }
                // Nothing is held while waiting.
                timeout_at(deadline, core.answers.room())
                    .await
                    .map_err(|_| Unread::NoRoom)?;
            };
            let read = ReadRequest {
                partition,
                from,
                bytes_max: bytes_max.min(granted.bytes()),
                epoch: None,
                from_any: false,
                near: None,
                ordered_until,
                committed_only,
            };
            let result = match ordered_until {
                Some(_) => core.read_named(read).await?,
                None => core.shard(shard).read(read).await?,
            };
            drop(granted);
            // The reader is not on this thread, so a task stays behind here and holds what is counted here.
            let held = core.answers.hold(result.bytes);
            let (lent, returned) = oneshot::channel();
            platform::turns::spawn(async move {
                let _ = returned.await;
                drop(held);
            });
            Ok::<Found, Unread>(Found {
                bounds: LogBounds {
                    log_start: result.log_start,
                    tail: result.tail,
                },
                committed: committed_only.then(|| {
                    let aborted = result.aborted.iter();
                    CommittedBatches::new(aborted.map(|of| (of.producer_id, of.first)))
                }),
                batches: result.batches,
                lent: Arc::new(lent),
            })
        })
        .await?
    }

    /// The bounds of a partition.
    ///
    /// # Errors
    /// It is gone, or the node is stopping.
    pub(super) async fn bounds(&self, partition: PartitionId) -> Result<LogBounds, Unread> {
        let bounds = self.ask_owner(
            partition,
            move |shard| async move { LogBounds::of(&shard, partition) },
        );
        Ok(bounds.await??)
    }

    /// Has `reader` woken as soon as the tail is beyond `seen`, or the partition is gone.
    pub(super) fn watch(&self, partition: PartitionId, seen: Offset, reader: &Arc<Watcher>) {
        let (shard, reader) = (self.facts.shard_of(partition), Arc::clone(reader));
        self.facts.mailboxes.send(self.facts.core_of(shard), move |core| {
            core.shard(shard).watch(&[Watch::lone(partition, seen)], &reader);
        });
    }

    /// Gives up what lies before `first_kept`; durable on return, which has the first offset that is kept then.
    ///
    /// # Errors
    /// As Kafka's DeleteRecords.
    pub(super) async fn trim(
        &self,
        partition: PartitionId,
        first_kept: Offset,
    ) -> Result<Trimmed, AppendRefusal> {
        let trim = move |shard: Rc<Shard>| async move { shard.trim(partition, first_kept).await };
        self.ask_owner(partition, trim)
            .await
            .unwrap_or(Err(AppendRefusal::Stopping))
    }
}

/// The problem of a topic that is not there.
pub(super) fn unknown_topic(name: &str) -> Problem {
    Problem::new(Kind::UnknownTopic, format!("there is no topic {name:?}")).with("topic", name)
}
