//! Appends batches to all partitions of one topic over one connection to each broker that leads some of them.
//!
//! For who writes to many partitions at once, where a `Producer` for each would be a connection for each. Batches are
//! appended with acks=all and never sent twice: a failure is told, and the leaders are looked up again before the next
//! batch. How many are in flight is for the caller to bound.

use std::collections::VecDeque;
use std::time::Duration;

use kafka_wire::{ProduceRequest, Text};
use record::{BatchBuilder, Compression, TopicId};

use crate::cluster::Cluster;
use crate::connection::{Connection, wait_readable};
use crate::error::{Advice, ClientError, Result};
use crate::producer::{Acks, Batch, BatchId, Completion, read_answer};

/// A batch that was sent and not yet answered.
#[derive(Debug, Clone, Copy)]
struct Pending {
    batch: BatchId,
    partition: i32,
    records: i32,
}

/// A connection to one broker, and what it has to answer, in this order.
#[derive(Debug)]
struct Outlet {
    connection: Connection,
    pending: VecDeque<Pending>,
}

/// Appends to the partitions of one topic.
#[derive(Debug)]
pub struct TopicProducer {
    topic: Text,
    topic_id: TopicId,
    outlets: Vec<Outlet>,
    /// Which of them leads, by partition.
    leaders: Vec<usize>,
    /// Leaders must be looked up before the next batch.
    is_stale: bool,
    builder: BatchBuilder,
    completed: Vec<Completion>,
    next_batch: u64,
    timeout_ms: i32,
}

impl TopicProducer {
    /// Connects to all leaders of the topic.
    ///
    /// # Errors
    /// `NoLeader`; as `Cluster::topic` and `Connection::connect`.
    pub fn new(cluster: &mut Cluster, topic: &str) -> Result<TopicProducer> {
        let mut producer = TopicProducer {
            topic: Text::from(topic),
            topic_id: TopicId::default(),
            outlets: Vec::new(),
            leaders: Vec::new(),
            is_stale: true,
            builder: BatchBuilder::new(Compression::None),
            completed: Vec::new(),
            next_batch: 0,
            timeout_ms: cluster.timeout_ms(),
        };
        producer.find_leaders(cluster)?;
        Ok(producer)
    }

    /// The number of the topic's partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.leaders.len()
    }

    /// Adds a record to the batch that `send` will ship.
    pub fn append(&mut self, timestamp_ms: i64, value: &[u8]) {
        self.builder.append(timestamp_ms, None, Some(value), &[]);
    }

    /// Ships the gathered records as one batch. What becomes of it is told by `poll`, also if it cannot be sent.
    ///
    /// # Panics
    /// If no record was gathered.
    pub fn send(&mut self, cluster: &mut Cluster, partition: i32) -> BatchId {
        let records = self.builder.record_count();
        let bytes = self.builder.build();
        let batch = BatchId(self.next_batch);
        self.next_batch += 1;
        let request = |producer: &TopicProducer| {
            let batch = Batch {
                topic: &producer.topic,
                topic_id: producer.topic_id,
                partition,
                bytes: &bytes,
            };
            batch.request(Acks::All, producer.timeout_ms)
        };
        let sent = self.outlet(cluster, partition).and_then(|index| {
            let request = request(self);
            let outlet = &mut self.outlets[index];
            outlet.connection.send(&request)?;
            outlet.pending.push_back(Pending {
                batch,
                partition,
                records,
            });
            Ok(())
        });
        if let Err(error) = sent {
            self.is_stale = true;
            self.completed.push(Completion {
                batch,
                records,
                outcome: Err(error),
            });
        }
        batch
    }

    /// Adds what became of batches to `completed`. If nothing is known yet, waits for an answer to begin for at most `wait`.
    pub fn poll(&mut self, wait: Duration, completed: &mut Vec<Completion>) {
        let mut wait = if self.completed.is_empty() {
            wait
        } else {
            Duration::ZERO
        };
        completed.append(&mut self.completed);
        let busy: Vec<&Connection> = self
            .outlets
            .iter()
            .filter(|outlet| !outlet.pending.is_empty())
            .map(|outlet| &outlet.connection)
            .collect();
        if busy.len() > 1 {
            // An error that the system cannot tell here shows below, connection by connection.
            let _ = wait_readable(&busy, wait);
            wait = Duration::ZERO;
        }
        for outlet in self
            .outlets
            .iter_mut()
            .filter(|outlet| !outlet.pending.is_empty())
        {
            self.is_stale |= outlet.take_answers(&self.topic, wait, completed);
        }
    }

    /// The outlet to a partition's leader.
    fn outlet(&mut self, cluster: &mut Cluster, partition: i32) -> Result<usize> {
        if self.is_stale {
            self.find_leaders(cluster)?;
        }
        let known = usize::try_from(partition)
            .ok()
            .and_then(|index| self.leaders.get(index));
        known.copied().ok_or_else(|| ClientError::NoLeader {
            topic: self.topic.to_string(),
            partition,
        })
    }

    /// Connects to whoever leads now. Connections that are of use or have answers to give stay.
    fn find_leaders(&mut self, cluster: &mut Cluster) -> Result<()> {
        let topic = cluster.topic(&self.topic)?;
        let by_leader = cluster.by_leader(&topic)?;
        self.topic_id = topic.id;
        self.outlets
            .retain(|outlet| !outlet.connection.is_ended() || !outlet.pending.is_empty());
        self.leaders = vec![0; topic.partitions.len()];
        for (broker, partitions) in by_leader {
            let is_there = |outlet: &Outlet| {
                !outlet.connection.is_ended() && outlet.connection.address() == broker.address
            };
            let index = match self.outlets.iter().position(is_there) {
                Some(index) => index,
                None => {
                    self.outlets.push(Outlet {
                        connection: Connection::connect(&broker.address, cluster.options())?,
                        pending: VecDeque::new(),
                    });
                    self.outlets.len() - 1
                }
            };
            for partition in partitions {
                self.leaders[partition as usize] = index;
            }
        }
        self.is_stale = false;
        Ok(())
    }
}

impl Outlet {
    /// Takes all answers that are here, waiting for the first at most `wait`. Whether leaders must be looked up again.
    fn take_answers(&mut self, topic: &Text, wait: Duration, completed: &mut Vec<Completion>) -> bool {
        let mut wait = wait;
        let mut has_moved = false;
        while let Some(&Pending {
            batch,
            partition,
            records,
        }) = self.pending.front()
        {
            let answer = match self.connection.is_readable(wait) {
                Ok(false) => break,
                Ok(true) => self.connection.receive::<ProduceRequest>(),
                Err(error) => Err(error),
            };
            wait = Duration::ZERO;
            let outcome = answer.and_then(|response| read_answer(&response, topic, partition));
            has_moved |= outcome
                .as_ref()
                .is_err_and(|error| error.advice() == Advice::Redirect);
            self.pending.pop_front();
            completed.push(Completion {
                batch,
                records,
                outcome,
            });
        }
        has_moved || self.connection.is_ended()
    }
}
