//! Where reading one partition stands: asked for in a fetch, and moved on by what the fetch brought.
//!
//! It moves by whole batches, of which only the headers are read here.

use bytes::Bytes;
use kafka_wire::fetch::{FetchPartition, FetchTopic, PartitionData};
use kafka_wire::{ErrorCode, FetchRequest, FetchResponse, Text};
use record::{BatchError, BatchHeader, Epoch, Offset, TopicId, batches, checksum_holds};

use crate::consumer::{ConsumerOptions, Fetched};
use crate::error::{ClientError, Result};

#[derive(Debug)]
pub(crate) struct Position {
    pub(crate) topic: Text,
    pub(crate) partition: i32,
    pub(crate) next_offset: Offset,
    /// The first offset that readers did not see yet at the last fetch.
    pub(crate) tail: Offset,
    /// The first offset that was still there at the last fetch.
    pub(crate) log_start: Offset,
    /// The leader's epoch of the last batch that was read.
    pub(crate) epoch: Option<Epoch>,
}

/// The request for the next records of all `positions`, which are of one topic and one leader.
///
/// # Panics
/// If there is no position.
pub(crate) fn fetch_request(
    topic_id: TopicId,
    positions: &[&Position],
    options: &ConsumerOptions,
) -> FetchRequest {
    let first = positions.first().expect("a fetch is for some partition");
    let partition = |position: &&Position| FetchPartition {
        partition: position.partition,
        fetch_offset: position.next_offset.0,
        partition_max_bytes: options.bytes_max,
        ..FetchPartition::default()
    };
    FetchRequest {
        max_wait_ms: i32::try_from(options.wait_max.as_millis()).unwrap_or(i32::MAX),
        min_bytes: options.bytes_min,
        max_bytes: options.bytes_max,
        isolation_level: options.isolation.level(),
        topics: vec![FetchTopic {
            topic: first.topic.clone(),
            topic_id,
            partitions: positions.iter().map(partition).collect(),
        }],
        ..FetchRequest::default()
    }
}

/// The answer of a fetch for each partition.
pub(crate) fn partition_answers(
    response: FetchResponse,
    operation: impl Fn() -> String,
) -> Result<Vec<PartitionData>> {
    if response.error_code != ErrorCode::None.code() {
        return Err(ClientError::broker(operation(), response.error_code, None));
    }
    let topics = response.responses.into_iter();
    Ok(topics.flat_map(|topic| topic.partitions).collect())
}

impl Position {
    pub(crate) fn new(topic: Text, partition: i32, next_offset: Offset) -> Position {
        Position {
            topic,
            partition,
            next_offset,
            tail: next_offset,
            log_start: Offset::ZERO,
            epoch: None,
        }
    }

    /// The operation here, for errors.
    pub(crate) fn operation(&self) -> String {
        format!(
            "reading partition {} of topic {} from offset {}",
            self.partition, self.topic, self.next_offset
        )
    }

    /// Takes this partition's answer and moves behind its records. `None` is no answer.
    pub(crate) fn read_answer(
        &mut self,
        answer: Option<&PartitionData>,
        options: &ConsumerOptions,
    ) -> Result<Fetched> {
        let answer = answer.ok_or_else(|| ClientError::NotAnswered {
            operation: self.operation(),
        })?;
        if answer.error_code != ErrorCode::None.code() {
            return Err(ClientError::broker(self.operation(), answer.error_code, None));
        }
        self.tail = options.isolation.tail(answer);
        self.log_start = Offset(answer.log_start_offset);
        let fetched = self.whole_batches(answer, options)?;
        self.next_offset = fetched.next_offset;
        Ok(fetched)
    }

    /// Drops what is before the wanted offset and behind the last whole batch.
    fn whole_batches(&mut self, answer: &PartitionData, options: &ConsumerOptions) -> Result<Fetched> {
        let bytes = answer.records.joined();
        let mut fetched = Fetched {
            bytes: Bytes::new(),
            first_offset: self.next_offset,
            next_offset: self.next_offset,
            tail: self.tail,
            record_count: 0,
            committed: options.isolation.of_answer(answer),
            limits: options.limits,
        };
        let (mut start, mut end) = (0, 0);
        for batch in batches(&bytes) {
            let (header, batch) = match batch {
                Ok(found) => found,
                Err(BatchError::Truncated { .. }) => break,
                Err(source) => return Err(self.bad_batch(source)),
            };
            end += batch.len();
            if header.next_offset() <= self.next_offset {
                start = end;
                continue;
            }
            self.check(&header, fetched.next_offset)?;
            if options.check_checksums {
                self.compare_checksum(&header, batch)?;
            }
            fetched.next_offset = header.next_offset();
            self.epoch = Some(header.leader_epoch);
            fetched.record_count += i64::from(header.record_count);
        }
        if end == 0 && !bytes.is_empty() {
            return Err(ClientError::FetchTooSmall {
                offset: self.next_offset,
                fetch_bytes: options.bytes_max,
            });
        }
        fetched.bytes = bytes.slice(start..end);
        Ok(fetched)
    }

    /// That a batch follows the one before it.
    fn check(&self, header: &BatchHeader, next_offset: Offset) -> Result<()> {
        // Gaps are left by compaction; only the first batch may begin before the wanted offset.
        if header.base_offset < next_offset && next_offset != self.next_offset {
            let record_count = header.record_count;
            let last_offset_delta = header.last_offset_delta;
            return Err(self.bad_batch(BatchError::RecordCount {
                record_count,
                last_offset_delta,
            }));
        }
        Ok(())
    }

    /// That a batch's bytes are those of its producer.
    fn compare_checksum(&self, header: &BatchHeader, batch: &[u8]) -> Result<()> {
        if !checksum_holds(batch) {
            return Err(self.bad_batch(BatchError::ChecksumMismatch {
                stored: header.crc,
                computed: record::checksum(batch),
            }));
        }
        Ok(())
    }

    fn bad_batch(&self, source: BatchError) -> ClientError {
        ClientError::Batch {
            near_offset: self.next_offset,
            source,
        }
    }
}
