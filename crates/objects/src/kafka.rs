//! A log of a cluster: a topic of one partition, or the twin of a topic with one order; and a topic beside it for checkpoints.
//!
//! Any cluster of Kafka's protocol will do for the first; twins are Ropewalk's.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use client::wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use client::wire::{ListOffsetsRequest, Text};
use client::{
    ClientError, Cluster, Connection, Consumer, ConsumerOptions, ErrorCode, NewTopic, Offset, OffsetQuery,
    Producer, ProducerOptions, Start,
};

use crate::error::{Error, Result};
use crate::log::{Log, Record};

/// The only partition of what is read and appended to.
const PARTITION: i32 = 0;
/// The topic of checkpoints has the name of the log's topic, and this.
const CHECKPOINTS: &str = ".checkpoints";
/// The end of a twin's name.
const TWIN: &str = "@total";
/// The bytes of one part of a checkpoint.
const PART_BYTES: usize = 512 << 10;
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
    /// To the leader, for its tail.
    asking: Option<Connection>,
}

/// Makes the topics of a space: one partition for its entries, and one for its checkpoints, each with so many replicas, or with -1 with as many as topics have.
///
/// # Errors
/// `Log`, among others for a topic that is there.
pub fn create(cluster: &mut Cluster, topic: &str, replicas: i16) -> Result<()> {
    for name in [topic.to_owned(), checkpoints_of(topic)] {
        let wanted = NewTopic {
            replication_factor: replicas,
            configs: KEPT
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..NewTopic::new(name.as_str(), 1)
        };
        cluster.create_topic(&wanted)?;
        cluster.wait_topic(&name, MAKING)?;
    }
    Ok(())
}

fn checkpoints_of(name: &str) -> String {
    format!("{}{CHECKPOINTS}", name.strip_suffix(TWIN).unwrap_or(name))
}

/// A part of a checkpoint, as its record's key has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Part {
    position: u64,
    part: usize,
    parts: usize,
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

fn is_out_of_range(error: &Error) -> bool {
    let code = match error {
        Error::Log(ClientError::Broker { code, .. }) => Some(*code),
        _ => None,
    };
    code == Some(ErrorCode::OffsetOutOfRange)
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
            if is_out_of_range(&error) {
                let log_start = self.first()?;
                if log_start > from {
                    return Err(Error::Trimmed {
                        log_start,
                        next: from,
                    });
                }
            }
            // A leader that has just begun may not have heard of all that another one has shown.
            let passes = is_out_of_range(&error) || matches!(&error, Error::Log(error) if may_pass(error));
            if !passes || until < Instant::now() {
                return Err(error);
            }
            sleep(PAUSE);
        }
    }

    fn trim(&mut self, before: u64) -> Result<()> {
        let before = Offset(i64::try_from(before).unwrap_or(i64::MAX));
        patiently(|| self.cluster.delete_records(&self.name, PARTITION, before))?;
        Ok(())
    }

    fn save(&mut self, position: u64, state: &[u8]) -> Result<()> {
        let name = checkpoints_of(&self.name);
        let cluster = &mut self.cluster;
        let mut producer = Producer::new(cluster, &name, PARTITION, ProducerOptions::default())?;
        let parts = state.len().div_ceil(PART_BYTES).max(1);
        let mut first = None;
        for part in 0..parts {
            let key = Part {
                position,
                part,
                parts,
            };
            let key = serde_json::to_vec(&key).expect("numbers have a form in JSON");
            let bytes = &state[part * PART_BYTES..state.len().min((part + 1) * PART_BYTES)];
            producer.append(now_ms(), Some(&key), Some(bytes), &[]);
            let at = send(&mut producer, cluster)?;
            first = first.or(at);
        }
        // It is whole: those before it are of no more use.
        if let Some(first) = first {
            patiently(|| cluster.delete_records(&name, PARTITION, first))?;
        }
        Ok(())
    }

    fn load(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let name = checkpoints_of(&self.name);
        let cluster = &mut self.cluster;
        match cluster.topic(&name) {
            Ok(_) => {}
            Err(ClientError::Broker {
                code: ErrorCode::UnknownTopicOrPartition,
                ..
            }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let end = patiently(|| cluster.offset(&name, PARTITION, OffsetQuery::Latest))?;
        let end = end.unwrap_or(Offset(0));
        let mut consumer = Consumer::new(
            cluster,
            &name,
            PARTITION,
            Start::Earliest,
            ConsumerOptions::default(),
        )?;
        // Two processes may have kept checkpoints at the same time.
        let mut gathered: BTreeMap<(u64, usize), Vec<u8>> = BTreeMap::new();
        let mut have: BTreeMap<(u64, usize), usize> = BTreeMap::new();
        let mut newest = None;
        while consumer.position() < end {
            for record in consumer.fetch()?.records() {
                let record = record?;
                let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
                let Ok(Part {
                    position,
                    part,
                    parts,
                }) = serde_json::from_slice(&key)
                else {
                    continue;
                };
                let of = (position, parts);
                if part == 0 {
                    gathered.insert(of, Vec::new());
                    have.insert(of, 0);
                }
                let Some(count) = have.get_mut(&of).filter(|count| **count == part) else {
                    continue;
                };
                *count += 1;
                gathered.entry(of).or_default().extend_from_slice(&value);
                if *count == parts {
                    have.remove(&of);
                    newest = gathered.remove(&of).map(|state| (position, state));
                }
            }
        }
        Ok(newest)
    }
}
