//! Appends batches to one partition: a window of produce requests in flight to its leader, answered in order.
//!
//! `append` gathers records, `send` ships them as one batch, `poll` and `flush` bring back what became of each. What is in
//! flight is kept until it is answered, so that a new leader can be sent the same bytes with the same sequence numbers.

mod options;
mod repeat;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_wire::produce::{PartitionProduceData, PartitionProduceResponse, TopicProduceData};
use kafka_wire::{ErrorCode, ProduceRequest, ProduceResponse, Text};
use record::{BatchBuilder, Offset, TopicId};

use self::options::check_options;
pub use self::options::{Acks, IDEMPOTENT_IN_FLIGHT_MAX, ProducerOptions};
use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::error::{Advice, ClientError, Result};

/// A batch's number at its producer, from zero in the order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BatchId(pub u64);

/// The outcome of a batch.
#[derive(Debug)]
pub struct Completion {
    /// Which batch.
    pub batch: BatchId,
    /// The number of its records.
    pub records: i32,
    /// The first record's offset. `Ok(None)` where the broker does not tell: `acks=0`, and a repeated batch that it has
    /// had for long.
    pub outcome: Result<Option<Offset>>,
}

/// A batch that was sent and not yet answered.
#[derive(Debug)]
struct Pending {
    id: BatchId,
    records: i32,
    bytes: Bytes,
    sent_at: Instant,
}

/// The identity that batches are sent under.
#[derive(Debug, Clone, Copy)]
struct Identity {
    id: i64,
    epoch: i16,
    next_sequence: i32,
}

impl Identity {
    fn new(cluster: &mut Cluster) -> Result<Identity> {
        let (id, epoch) = cluster.init_producer_id()?;
        Ok(Identity {
            id,
            epoch,
            next_sequence: 0,
        })
    }
}

/// Appends to one partition.
#[derive(Debug)]
pub struct Producer {
    topic: Text,
    topic_id: TopicId,
    partition: i32,
    options: ProducerOptions,
    connection: Connection,
    builder: BatchBuilder,
    identity: Option<Identity>,
    pending: VecDeque<Pending>,
    completed: VecDeque<Completion>,
    next_batch: u64,
    /// A batch was lost: then the broker takes no later sequence number of this identity.
    identity_spent: bool,
    /// A broker said that it does not lead the partition.
    leader_moved: bool,
    /// The pause before the next attempt; longer each time, until one succeeds.
    repeat_pause: Duration,
    /// The cluster's time limit for a request, as the broker is told it.
    timeout_ms: i32,
}

impl Producer {
    /// Connects to the partition's leader.
    ///
    /// # Errors
    /// `Options` for a window of none, or too wide a window with sequence numbers; as `Cluster::connect_leader`.
    pub fn new(
        cluster: &mut Cluster,
        topic: &str,
        partition: i32,
        options: ProducerOptions,
    ) -> Result<Producer> {
        check_options(&options)?;
        let (connection, leader) = cluster.connect_leader(topic, partition)?;
        let identity = match options.idempotent {
            true => Some(Identity::new(cluster)?),
            false => None,
        };
        Ok(Producer {
            topic: Text::from(topic),
            topic_id: leader.topic_id,
            partition,
            connection,
            builder: BatchBuilder::new(options.compression),
            identity,
            pending: VecDeque::with_capacity(options.in_flight_max),
            completed: VecDeque::new(),
            next_batch: 0,
            identity_spent: false,
            leader_moved: false,
            repeat_pause: repeat::REPEAT_PAUSE,
            timeout_ms: cluster.timeout_ms(),
            options,
        })
    }

    /// Adds a record to the batch that `send` will ship.
    pub fn append(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        self.builder.append(timestamp_ms, key, value, headers);
    }

    /// Bytes gathered for the next batch, before compression.
    #[must_use]
    pub fn gathered_bytes(&self) -> usize {
        self.builder.length_bytes()
    }

    /// Records gathered for the next batch.
    #[must_use]
    pub fn gathered_records(&self) -> i32 {
        self.builder.record_count()
    }

    /// Says if another batch may be sent without waiting for an answer first.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.pending.len() < self.options.in_flight_max
    }

    /// Batches sent and not yet answered.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Ships the gathered records as one batch, waiting first for an answer if the window is full. What becomes of it is
    /// told by `poll` or `flush`, also if it cannot be sent.
    ///
    /// # Panics
    /// If no record was gathered.
    pub fn send(&mut self, cluster: &mut Cluster) -> BatchId {
        let prepared = self.start_anew(cluster);
        if let Some(identity) = &mut self.identity {
            let Identity {
                id,
                epoch,
                next_sequence,
            } = *identity;
            self.builder.set_producer(id, epoch, next_sequence);
            // After the largest sequence number comes zero.
            identity.next_sequence = next_sequence.wrapping_add(self.builder.record_count()) & i32::MAX;
        }
        let records = self.builder.record_count();
        let bytes = self.builder.build();
        while !self.has_room() {
            self.complete_oldest(cluster);
        }
        let batch = BatchId(self.next_batch);
        self.next_batch += 1;
        match prepared {
            Ok(()) => self.ship(cluster, batch, records, bytes),
            Err(error) => self.completed.push_back(Completion {
                batch,
                records,
                outcome: Err(error),
            }),
        }
        batch
    }

    fn ship(&mut self, cluster: &mut Cluster, id: BatchId, records: i32, bytes: Bytes) {
        let sent = self.transmit(&bytes);
        if self.options.acks == Acks::None {
            self.leader_moved |= sent.is_err();
            self.completed.push_back(Completion {
                batch: id,
                records,
                outcome: sent.map(|()| None),
            });
            return;
        }
        self.pending.push_back(Pending {
            id,
            records,
            bytes,
            sent_at: Instant::now(),
        });
        if let Err(error) = sent {
            self.recover(cluster, error);
        }
    }

    /// The outcomes of batches, without waiting longer than `wait` for an answer to begin. Empty if none is known yet.
    pub fn poll(&mut self, cluster: &mut Cluster, wait: Duration) -> Vec<Completion> {
        let mut wait = wait;
        while !self.pending.is_empty() {
            match self.connection.is_readable(wait) {
                Ok(false) => break,
                Ok(true) => self.complete_oldest(cluster),
                Err(error) => self.recover(cluster, error),
            }
            wait = Duration::ZERO;
        }
        self.completed.drain(..).collect()
    }

    /// Waits for the oldest batch in flight, if there is one, and gives what is known of it and those before it.
    pub fn wait(&mut self, cluster: &mut Cluster) -> Vec<Completion> {
        if self.completed.is_empty() && !self.pending.is_empty() {
            self.complete_oldest(cluster);
        }
        self.completed.drain(..).collect()
    }

    /// Waits for everything in flight. Gathered records that were not sent stay gathered.
    pub fn flush(&mut self, cluster: &mut Cluster) -> Vec<Completion> {
        while !self.pending.is_empty() {
            self.complete_oldest(cluster);
        }
        self.completed.drain(..).collect()
    }

    fn transmit(&mut self, bytes: &Bytes) -> Result<()> {
        let batch = Batch {
            topic: &self.topic,
            topic_id: self.topic_id,
            partition: self.partition,
            bytes,
        };
        let request = batch.request(self.options.acks, self.timeout_ms);
        match self.options.acks {
            Acks::None => self.connection.send_unanswered(&request),
            Acks::Leader | Acks::All => self.connection.send(&request).map(|_| ()),
        }
    }

    /// Waits for the oldest batch's answer. A failure that may pass is tried again with all that is in flight.
    fn complete_oldest(&mut self, cluster: &mut Cluster) {
        let answer = self.connection.receive::<ProduceRequest>();
        match answer.and_then(|response| read_answer(&response, &self.topic, self.partition)) {
            Ok(offset) => {
                self.repeat_pause = repeat::REPEAT_PAUSE;
                cluster.waiting.is_over();
                self.complete(Ok(offset));
            }
            Err(error) if self.may_repeat(&error) => self.recover(cluster, error),
            // The broker's word on this one batch leaves the connection usable for the next.
            Err(error @ ClientError::Broker { .. }) => self.complete(Err(error)),
            Err(error) => self.recover(cluster, error),
        }
    }

    fn complete(&mut self, outcome: Result<Option<Offset>>) {
        let pending = self
            .pending
            .pop_front()
            .expect("only answered batches are completed");
        if let Err(error) = &outcome {
            self.identity_spent = self.identity.is_some();
            self.leader_moved |= error.advice() == Advice::Redirect;
        }
        self.completed.push_back(Completion {
            batch: pending.id,
            records: pending.records,
            outcome,
        });
    }
}

/// A batch on its way to a partition.
pub(crate) struct Batch<'a> {
    pub(crate) topic: &'a Text,
    pub(crate) topic_id: TopicId,
    pub(crate) partition: i32,
    pub(crate) bytes: &'a Bytes,
}

impl Batch<'_> {
    /// The request that appends it, alone.
    pub(crate) fn request(&self, acks: Acks, timeout_ms: i32) -> ProduceRequest {
        ProduceRequest {
            transactional_id: None,
            acks: acks.code(),
            timeout_ms,
            topic_data: vec![TopicProduceData {
                name: self.topic.clone(),
                topic_id: self.topic_id,
                partition_data: vec![PartitionProduceData {
                    index: self.partition,
                    records: Some(self.bytes.clone()),
                    ..PartitionProduceData::default()
                }],
            }],
        }
    }
}

/// A broker's answer about the one batch of a request: its first offset, if it tells.
pub(crate) fn read_answer(
    response: &ProduceResponse,
    topic: &Text,
    partition: i32,
) -> Result<Option<Offset>> {
    let operation = || format!("appending to partition {partition} of topic {topic}");
    let answer = response
        .responses
        .first()
        .and_then(|topic| topic.partition_responses.first())
        .filter(|answer| answer.index == partition)
        .ok_or_else(|| ClientError::NotAnswered {
            operation: operation(),
        })?;
    match ErrorCode::from_code(answer.error_code) {
        Some(ErrorCode::None) => Ok((answer.base_offset >= 0).then_some(Offset(answer.base_offset))),
        // It is there from an earlier attempt, too long ago for the broker to say where.
        Some(ErrorCode::DuplicateSequenceNumber) => Ok(None),
        _ => Err(refusal(operation(), answer)),
    }
}

fn refusal(operation: String, answer: &PartitionProduceResponse) -> ClientError {
    let message = answer.error_message.as_ref().or_else(|| {
        answer
            .record_errors
            .first()
            .and_then(|error| error.batch_index_error_message.as_ref())
    });
    ClientError::broker(operation, answer.error_code, message.map(Text::as_str))
}
