//! A producer of one partition: batches pipelined, and sent again in their order if it is idempotent.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use kafka_wire::produce::{PartitionProduceData, TopicProduceData};
use kafka_wire::{ApiKey, ErrorCode, InitProducerIdRequest, ProduceRequest, Text};
use platform::random::SeededRandom;
use protocol::order::TWIN_SUFFIX;
use record::{BatchBuilder, Compression};
use tokio::time::{Instant, sleep};

use super::{ORDERED, REST, TOPICS, World};
use crate::client::Client;
use crate::history::{Place, Value};

/// Requests of an idempotent producer under way, at most: what Kafka's clients have.
const IN_FLIGHT_MAX: usize = 5;

/// Bytes of a large batch.
const LARGE_BYTES: u64 = 300 << 10;

/// How a producer produces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Production {
    /// Where to.
    pub(crate) place: Place,
    /// By the name of the topic's twin: it is told positions.
    pub(crate) to_twin: bool,
    /// Sends again what it does not know the outcome of.
    pub(crate) is_idempotent: bool,
    /// 0, 1 or -1 for all.
    pub(crate) acks: i16,
}

struct Batch {
    first_sequence: i32,
    values: Vec<Value>,
    padding: usize,
    compression: Compression,
    is_done: bool,
    /// When it was sent first.
    began: Instant,
}

struct Producer {
    world: World,
    production: Production,
    random: SeededRandom,
    id: i64,
    next_sequence: i32,
    next_value: Value,
    /// In their order; those that were sent first.
    batches: VecDeque<Batch>,
}

/// Produces until the world ends, and then until the outcome of all that was sent is known.
pub(crate) async fn produce(world: World, production: Production, random: SeededRandom) {
    let mut producer = Producer {
        world: world.clone(),
        production,
        random,
        id: -1,
        next_sequence: 0,
        next_value: world.history.first_value(),
        batches: VecDeque::new(),
    };
    while !(world.ends.get() && producer.batches.is_empty()) {
        let mut client = world.connect().await;
        if let Err(error) = producer.go_on(&mut client).await {
            world
                .trace
                .count(format!("Produce: connection {:?}", error.kind()));
        }
        if !production.is_idempotent {
            // Nobody knows what became of them.
            producer.batches.clear();
        }
        sleep(REST).await;
    }
    world.unfinished.set(world.unfinished.get() - 1);
}

impl Producer {
    async fn go_on(&mut self, client: &mut Client) -> io::Result<()> {
        if self.production.is_idempotent && self.id < 0 {
            let Some(id) = new_id(&self.world, client).await? else {
                return Ok(());
            };
            self.id = id;
        }
        loop {
            // Behind one that was not acknowledged all are sent again: a node knows the last five again, and no more may be under way.
            self.forget_done();
            self.batches.iter_mut().for_each(|batch| batch.is_done = false);
            let mut sent = 0;
            for place in 0..self.batches.len() {
                self.send(client, place).await?;
                sent += 1;
            }
            while sent > 0 || !self.world.ends.get() {
                while sent < IN_FLIGHT_MAX && !self.world.ends.get() && self.random.chance(2, 3) {
                    self.make_batch();
                    self.send(client, self.batches.len() - 1).await?;
                    sent += 1;
                }
                if sent == 0 {
                    sleep(REST).await;
                    continue;
                }
                if self.production.acks == 0 {
                    // Never answered: all of it may be there, or nothing.
                    self.batches.clear();
                    sent = 0;
                    continue;
                }
                let is_done = self.receive(client, self.batches.len() - sent).await?;
                sent -= 1;
                if self.random.chance(1, 2) {
                    sleep(REST / 5).await;
                }
                if !is_done {
                    // Those behind it are answered first, and then sent again with it.
                    while sent > 0 {
                        self.receive(client, self.batches.len() - sent).await?;
                        sent -= 1;
                    }
                    break;
                }
                self.forget_done();
            }
            self.forget_done();
            if !self.production.is_idempotent {
                self.batches.clear();
            }
            if self.batches.is_empty() && self.world.ends.get() {
                return Ok(());
            }
            sleep(REST).await;
        }
    }

    fn forget_done(&mut self) {
        while self.batches.front().is_some_and(|batch| batch.is_done) {
            self.batches.pop_front();
        }
    }

    fn make_batch(&mut self) {
        let count = 1 + self.random.below(4);
        let padding = match self.random.below(8) {
            0 => self.random.below(60_000),
            _ => self.random.below(200),
        };
        let mut compression = self.draw_compression();
        let mut padding = padding;
        if self.world.order.is_some() && self.random.chance(1, 20) {
            // It is received where it can stay, and is a frame of its own.
            (padding, compression) = (LARGE_BYTES / count, Compression::None);
        }
        let values = (self.next_value..self.next_value + count).collect();
        self.next_value += count;
        self.batches.push_back(Batch {
            first_sequence: self.next_sequence,
            values,
            padding: padding as usize,
            compression,
            is_done: false,
            began: Instant::now(),
        });
        self.next_sequence += count as i32;
    }

    fn draw_compression(&mut self) -> Compression {
        match self.random.below(20) {
            0 => Compression::Gzip,
            1 => Compression::Snappy,
            2 => Compression::Lz4,
            3 => Compression::Zstd,
            _ => Compression::None,
        }
    }

    async fn send(&mut self, client: &mut Client, place: usize) -> io::Result<()> {
        let batch = &self.batches[place];
        let writer = self
            .production
            .is_idempotent
            .then_some((self.id, batch.first_sequence));
        let records = records(writer, &batch.values, batch.padding, batch.compression);
        let mut request = request(self.production.place, self.production.acks, records);
        if self.production.to_twin {
            let topic = &mut request.topic_data[0];
            topic.name = Text::from(format!("{}{TWIN_SUFFIX}", topic.name));
        }
        client.send(&request).await?;
        if self.production.acks == 0 {
            client.expect_no_answer();
        }
        Ok(())
    }

    /// Takes note of an append whose answer waits for its position.
    fn note_order(&self, batch: &Batch, first: i64) {
        let (topic, partition) = self.production.place;
        if let Some(order) = self.world.order.as_ref()
            && topic == ORDERED
            && self.production.acks == -1
        {
            order.acknowledge(batch.began, partition, first);
        }
    }

    fn note_of_twin(&self, batch: &Batch, position: i64) {
        let order = self.world.order.as_ref().expect("there is a twin");
        order.acknowledge_of_twin(batch.began, position, &batch.values);
    }

    /// Takes the answer to a batch; returns whether it is in the log.
    async fn receive(&mut self, client: &mut Client, place: usize) -> io::Result<bool> {
        let answer = client.receive::<ProduceRequest>().await?;
        let answer = &answer.responses[0].partition_responses[0];
        let Some(error) = self
            .world
            .told(ApiKey::Produce, answer.error_code, answer.error_message.as_ref())
        else {
            if self.production.to_twin {
                self.note_of_twin(&self.batches[place], answer.base_offset);
                self.batches[place].is_done = true;
                return Ok(true);
            }
            let history = &self.world.history;
            let (to, values) = (self.production.place, &self.batches[place].values);
            // One that waits for the leader's flush alone is told before its position is known.
            match self.production.acks == -1 || self.world.order.is_none() {
                true => history.acknowledge(to, answer.base_offset, values),
                false => history.acknowledge_unshown(to, answer.base_offset, values),
            }
            self.note_order(&self.batches[place], answer.base_offset);
            self.batches[place].is_done = true;
            return Ok(true);
        };
        let all_before_are_done = self.batches.iter().take(place).all(|batch| batch.is_done);
        let is_told_to_stop = match error {
            // Behind one that was refused.
            ErrorCode::OutOfOrderSequenceNumber => all_before_are_done,
            ErrorCode::DuplicateSequenceNumber
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::UnknownProducerId => true,
            _ => false,
        };
        if is_told_to_stop && self.production.is_idempotent {
            let batch = &self.batches[place];
            self.world.history.violate(format!(
                "{:?} is told {error:?} of sequence {} of producer {}",
                self.production.place, batch.first_sequence, self.id
            ));
        }
        Ok(false)
    }
}

/// Asks for a producer id; `None` if it is refused.
pub(super) async fn new_id(world: &World, client: &mut Client) -> io::Result<Option<i64>> {
    let request = InitProducerIdRequest {
        transactional_id: None,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    let answer = client.call(&request).await?;
    let error = world.reached(ApiKey::InitProducerId, answer.error_code);
    Ok(error.is_none().then_some(answer.producer_id))
}

/// Makes a batch of values, each with so many bytes behind it; of an idempotent producer with its id and its first sequence.
pub(super) fn records(
    writer: Option<(i64, i32)>,
    values: &[Value],
    padding: usize,
    compression: Compression,
) -> Bytes {
    let mut builder = BatchBuilder::new(compression);
    if let Some((id, first_sequence)) = writer {
        builder.set_producer(id, 0, first_sequence);
    }
    for value in values {
        let mut bytes = value.to_le_bytes().to_vec();
        bytes.resize(8 + padding, 0);
        builder.append(0, None, Some(&bytes), &[]);
    }
    builder.build()
}

/// Makes a request that appends a batch.
pub(super) fn request((topic, index): Place, acks: i16, records: Bytes) -> ProduceRequest {
    ProduceRequest {
        acks,
        timeout_ms: [500, 3_000][index as usize % 2],
        topic_data: vec![TopicProduceData {
            name: Text::from(TOPICS[topic].0),
            partition_data: vec![PartitionProduceData {
                index,
                records: Some(records),
                ..PartitionProduceData::default()
            }],
            ..TopicProduceData::default()
        }],
        ..ProduceRequest::default()
    }
}
