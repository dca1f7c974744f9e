//! A log of a cluster: a topic of one partition, or the twin of a topic with one order; and a topic beside it for checkpoints.
//!
//! Any cluster of Kafka's protocol will do for the first; twins are Ropewalk's.

use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use client::wire::{ListOffsetsRequest, Text};
use client::{
    ClientError, Cluster, Connection, Consumer, ConsumerOptions, ErrorCode, NewTopic, Offset, OffsetQuery,
    Producer, ProducerOptions, Start, TopicId,
};

use crate::checkpoints::{Gathering, Whole, parts};
use crate::error::{Error, Result};
use crate::log::{Log, Record};

/// The only partition of what is read and appended to.
const PARTITION: i32 = 0;
/// The topic of checkpoints has the name of the log's topic, and this.
const CHECKPOINTS: &str = ".checkpoints";
/// The end of a twin's name.
const TWIN: &str = "@total";
/// A checkpoint is written again so often that others have given up parts of.
const SAVES_MAX: usize = 3;
/// Topics that were made are there after so long.
const MAKING: Duration = Duration::from_secs(10);
/// Questions are asked again for so long: another node may have to take over.
const PATIENCE: Duration = Duration::from_secs(30);
/// Before a question is asked again.
const PAUSE: Duration = Duration::from_millis(20);
/// ListOffsets of the end.
const LATEST: i64 = -1;
/// Entries are kept until they are forgotten.
const KEPT: [(&str, &str); 3] = [
    ("cleanup.policy", "delete"),
    ("retention.ms", "-1"),
    ("retention.bytes", "-1"),
];

/// See the module.
#[derive(Debug)]
pub struct KafkaLog {
    cluster: Cluster,
    name: String,
    producer: Producer,
    consumer: Option<Consumer>,
    /// The topic that is read, whatever has its name later.
    topic: Option<TopicId>,
    /// To the leader, for its tail.
    asking: Option<Connection>,
}

/// Makes the topics of a space: one partition for its entries, and one for its checkpoints, each with so many replicas, or with -1 with as many as topics have.
///
/// # Errors
/// `Log`, among others for a topic that is there.
pub fn create(cluster: &mut Cluster, topic: &str, replicas: i16) -> Result<()> {
    make(cluster, topic, replicas)?;
    create_checkpoints(cluster, topic, replicas)
}

/// Makes the topic for the checkpoints of a space alone, if it is not there: without it there are none.
///
/// # Errors
/// `Log`.
pub fn create_checkpoints(cluster: &mut Cluster, name: &str, replicas: i16) -> Result<()> {
    match make(cluster, &checkpoints_of(name), replicas) {
        Err(Error::Log(ClientError::Broker {
            code: ErrorCode::TopicAlreadyExists,
            ..
        })) => Ok(()),
        made => made,
    }
}

fn make(cluster: &mut Cluster, name: &str, replicas: i16) -> Result<()> {
    let wanted = NewTopic {
        replication_factor: replicas,
        configs: KEPT
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..NewTopic::new(name, 1)
    };
    cluster.create_topic(&wanted)?;
    cluster.wait_topic(name, MAKING)?;
    Ok(())
}

fn checkpoints_of(name: &str) -> String {
    format!("{}{CHECKPOINTS}", name.strip_suffix(TWIN).unwrap_or(name))
}

impl KafkaLog {
    /// The log of a topic: its one partition, or its twin if the name ends in `@total`. Retention and compaction are to leave it alone.
    ///
    /// # Errors
    /// `Partitions`; `Log`, among others for a topic that is not there.
    pub fn new(mut cluster: Cluster, name: &str) -> Result<KafkaLog> {
        let partitions = cluster.topic(name)?.partitions.len();
        if partitions != 1 {
            return Err(Error::Partitions {
                topic: name.to_owned(),
                partitions,
            });
        }
        let producer = Producer::new(&mut cluster, name, PARTITION, ProducerOptions::default())?;
        Ok(KafkaLog {
            cluster,
            name: name.to_owned(),
            producer,
            consumer: None,
            topic: None,
            asking: None,
        })
    }

    fn ask_tail(&mut self) -> Result<u64, ClientError> {
        let mut asking = match self.asking.take() {
            Some(asking) => asking,
            None => self.cluster.connect_leader(&self.name, PARTITION)?.0,
        };
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic {
                name: Text::from(self.name.as_str()),
                partitions: vec![ListOffsetsPartition {
                    partition_index: PARTITION,
                    current_leader_epoch: -1,
                    timestamp: LATEST,
                }],
            }],
            ..ListOffsetsRequest::default()
        };
        let answer = asking.call(&request)?;
        let operation = || format!("asking for the end of {}", self.name);
        let told = answer.topics.first().and_then(|topic| topic.partitions.first());
        match told {
            Some(told) if told.error_code == 0 => {
                self.asking = Some(asking);
                Ok(told.offset.unsigned_abs())
            }
            Some(told) => Err(ClientError::broker(operation(), told.error_code, None)),
            None => Err(ClientError::NotAnswered {
                operation: operation(),
            }),
        }
    }

    /// Fetches once. Returns where to go on.
    fn fetch(&mut self, from: u64, show: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<u64> {
        let start = Offset(i64::try_from(from).unwrap_or(i64::MAX));
        let mut consumer = match self.consumer.take() {
            Some(consumer) if consumer.position() == start => consumer,
            _ => {
                let options = ConsumerOptions::default();
                Consumer::new(
                    &mut self.cluster,
                    &self.name,
                    PARTITION,
                    Start::Offset(start),
                    options,
                )?
            }
        };
        if *self.topic.get_or_insert(consumer.topic_id()) != consumer.topic_id() {
            return Err(Error::Log(ClientError::TopicDeleted {
                topic: self.name.clone(),
                made_again: true,
            }));
        }
        let fetched = consumer.fetch()?;
        for record in fetched.records() {
            let record = record?;
            show(Record {
                position: record.offset.0.unsigned_abs(),
                key: record.key.as_deref(),
                value: record.value.as_deref(),
            })?;
        }
        self.consumer = Some(consumer);
        Ok(fetched.next_offset().0.unsigned_abs())
    }

    /// The first position that is left.
    fn first(&mut self) -> Result<u64> {
        let first = self
            .cluster
            .offset(&self.name, PARTITION, OffsetQuery::Earliest)?;
        Ok(first.map_or(0, |first| first.0.unsigned_abs()))
    }
}

/// Asks again while another node may be about to take over.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Err(error) if may_pass(&error) && Instant::now() < until => sleep(PAUSE),
            answer => return answer,
        }
    }
}

fn may_pass(error: &ClientError) -> bool {
    use client::Advice::{Corrupt, Fix, Reconnect, Redirect, Retry};
    match error.advice() {
        Retry | Reconnect | Redirect => true,
        Fix | Corrupt => false,
    }
}

fn is_out_of_range(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::OffsetOutOfRange)
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Sends what was gathered, and waits for it. Returns the offset of its first record.
fn send(producer: &mut Producer, cluster: &mut Cluster) -> Result<Option<Offset>, ClientError> {
    producer.send(cluster);
    let mut sent = producer.flush(cluster).into_iter();
    sent.next_back().expect("one batch was sent").outcome
}

impl Log for KafkaLog {
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<u64> {
        self.producer.append(now_ms(), Some(key), Some(value), &[]);
        let first = send(&mut self.producer, &mut self.cluster)?;
        first.map(|first| first.0.unsigned_abs()).ok_or(Error::Unplaced)
    }

    fn tail(&mut self) -> Result<u64> {
        Ok(patiently(|| self.ask_tail())?)
    }

    fn read(&mut self, from: u64, show: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<u64> {
        let until = Instant::now() + PATIENCE;
        loop {
            let error = match self.fetch(from, show) {
                Ok(next) => return Ok(next),
                Err(error) => error,
            };
            let is_outside = matches!(&error, Error::Log(error) if is_out_of_range(error));
            if is_outside {
                let log_start = self.first()?;
                if log_start > from {
                    return Err(Error::Trimmed {
                        log_start,
                        next: from,
                    });
                }
            }
            // A leader that has just begun may not have heard of all that another one has shown.
            let passes = is_outside || matches!(&error, Error::Log(error) if may_pass(error));
            if !passes || until < Instant::now() {
                return Err(error);
            }
            sleep(PAUSE);
        }
    }

    fn trim(&mut self, before: u64) -> Result<()> {
        if self.name.ends_with(TWIN) {
            return Err(Error::Twin {
                name: self.name.clone(),
            });
        }
        let before = Offset(i64::try_from(before).unwrap_or(i64::MAX));
        patiently(|| self.cluster.delete_records(&self.name, PARTITION, before))?;
        Ok(())
    }

    fn save(&mut self, position: u64, state: &[u8]) -> Result<()> {
        let name = checkpoints_of(&self.name);
        for _ in 0..SAVES_MAX {
            let cluster = &mut self.cluster;
            let mut producer = Producer::new(cluster, &name, PARTITION, ProducerOptions::default())?;
            for (key, part) in parts(position, state) {
                producer.append(now_ms(), Some(&key), Some(part), &[]);
                send(&mut producer, cluster)?;
            }
            let best = self.gather()?.filter(|best| best.position >= position);
            // Another process may have given up the first part before this one was whole.
            let Some(best) = best else { continue };
            let first = Offset(i64::try_from(best.first).unwrap_or(i64::MAX));
            patiently(|| self.cluster.delete_records(&name, PARTITION, first))?;
            return Ok(());
        }
        Err(Error::Checkpoint {
            position,
            why: format!("it was written {SAVES_MAX} times, and others have given up parts of it each time"),
        })
    }

    fn load(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        Ok(self.gather()?.map(|whole| (whole.position, whole.state)))
    }
}

impl KafkaLog {
    /// The checkpoint that counts, if there is a topic for them and a whole one in it.
    fn gather(&mut self) -> Result<Option<Whole>> {
        let name = checkpoints_of(&self.name);
        match self.cluster.topic(&name) {
            Ok(_) => {}
            Err(ClientError::Broker {
                code: ErrorCode::UnknownTopicOrPartition,
                ..
            }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let until = Instant::now() + PATIENCE;
        loop {
            match gather_once(&mut self.cluster, &name) {
                Ok(found) => return Ok(found),
                // Somebody gives up earlier ones, or another node is about to take over.
                Err(error) if (may_pass(&error) || is_out_of_range(&error)) && Instant::now() < until => {
                    sleep(PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn gather_once(cluster: &mut Cluster, name: &str) -> Result<Option<Whole>, ClientError> {
    let end = cluster
        .offset(name, PARTITION, OffsetQuery::Latest)?
        .unwrap_or(Offset(0));
    let options = ConsumerOptions::default();
    let mut consumer = Consumer::new(cluster, name, PARTITION, Start::Earliest, options)?;
    let mut gathering = Gathering::default();
    while consumer.position() < end {
        for record in consumer.fetch()?.records() {
            let record = record?;
            let key = record.key.as_deref().unwrap_or_default();
            let value = record.value.as_deref().unwrap_or_default();
            gathering.take(record.offset.0.unsigned_abs(), key, value);
        }
    }
    Ok(gathering.best())
}
