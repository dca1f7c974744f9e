//! Reads one partition in order: fetches ahead of its caller, and takes what was fetched apart only as far as asked.
//!
//! The position moves by whole batches, and headers suffice for that: so the next fetch is under way while the caller
//! still reads the last. A fetch may begin with records before the wanted offset and end inside a batch; neither shows.

use std::time::Duration;

use bytes::Bytes;
use kafka_wire::fetch::{FetchPartition, FetchTopic, PartitionData};
use kafka_wire::{ErrorCode, FetchRequest, FetchResponse, Text};
use record::{
    BatchError, BatchHeader, Batches, Limits, Offset, Record, Records, TopicId, batches, checksum_holds,
    records,
};

use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::error::{ClientError, Result};
use crate::offsets::{OffsetQuery, offset_at};

/// How a consumer behaves.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// How long the broker may wait for `bytes_min`.
    pub wait_max: Duration,
    /// Bytes that are worth an answer before `wait_max` is over.
    pub bytes_min: i32,
    /// Bytes that an answer should not exceed. A first batch that is larger comes all the same.
    pub bytes_max: i32,
    /// Whether the next fetch is sent before the last one is handed out.
    pub fetch_ahead: bool,
    /// Whether each batch's checksum is compared.
    pub check_checksums: bool,
    /// What compressed batches may cost.
    pub limits: Limits,
}

impl Default for ConsumerOptions {
    /// Up to 4 MiB as soon as there is a byte, waiting half a second; ahead of the caller; checksums compared.
    fn default() -> ConsumerOptions {
        ConsumerOptions {
            wait_max: Duration::from_millis(500),
            bytes_min: 1,
            bytes_max: 4 << 20,
            fetch_ahead: true,
            check_checksums: true,
            limits: Limits::default(),
        }
    }
}

/// Where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At the first record that is still there.
    Earliest,
    /// Behind the last that readers see.
    Latest,
    /// At an offset.
    Offset(Offset),
    /// At the first record not older than this many milliseconds since 1970; behind the last if there is none.
    Timestamp(i64),
}

/// Reads one partition.
#[derive(Debug)]
pub struct Consumer {
    topic: Text,
    topic_id: TopicId,
    partition: i32,
    options: ConsumerOptions,
    connection: Connection,
    next_offset: Offset,
    tail: Offset,
    log_start: Offset,
    /// Whether the fetch of `next_offset` is under way.
    fetching: bool,
}

impl Consumer {
    /// Connects to the partition's leader and finds where to begin.
    ///
    /// # Errors
    /// As `Cluster::connect_leader`, and `Broker` if the start cannot be told.
    pub fn new(
        cluster: &mut Cluster,
        topic: &str,
        partition: i32,
        start: Start,
        options: ConsumerOptions,
    ) -> Result<Consumer> {
        let (mut connection, leader) = cluster.connect_leader(topic, partition)?;
        let mut ask = |query| offset_at(&mut connection, topic, partition, query);
        let next_offset = match start {
            Start::Offset(offset) => offset,
            Start::Earliest => ask(OffsetQuery::Earliest)?.unwrap_or(Offset::ZERO),
            Start::Latest => ask(OffsetQuery::Latest)?.unwrap_or(Offset::ZERO),
            Start::Timestamp(ms) => match ask(OffsetQuery::Timestamp(ms))? {
                Some(offset) => offset,
                None => ask(OffsetQuery::Latest)?.unwrap_or(Offset::ZERO),
            },
        };
        Ok(Consumer {
            topic: Text::from(topic),
            topic_id: leader.topic_id,
            partition,
            options,
            connection,
            next_offset,
            tail: next_offset,
            log_start: Offset::ZERO,
            fetching: false,
        })
    }

    /// The offset of the next record.
    #[must_use]
    pub fn position(&self) -> Offset {
        self.next_offset
    }

    /// The first offset that readers did not see yet at the last fetch.
    #[must_use]
    pub fn tail(&self) -> Offset {
        self.tail
    }

    /// The first offset that was still there at the last fetch.
    #[must_use]
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// Goes on elsewhere. What was fetched ahead is thrown away.
    ///
    /// # Errors
    /// As `fetch`.
    pub fn seek(&mut self, offset: Offset) -> Result<()> {
        if self.fetching {
            self.fetching = false;
            self.connection.receive::<FetchRequest>()?;
        }
        self.next_offset = offset;
        Ok(())
    }

    /// Waits for records from the position on, at most `wait_max` at the broker, and moves the position behind them.
    /// No records are no error: there was nothing new.
    ///
    /// # Errors
    /// `Broker`, with `OffsetOutOfRange` if the position is trimmed or beyond the tail; `Batch`, `FetchTooSmall`; those of
    /// the connection. After one of the connection or a `Redirect`, call `reconnect`: the position stays.
    pub fn fetch(&mut self) -> Result<Fetched> {
        if !self.fetching {
            self.ask()?;
        }
        self.fetching = false;
        let response = self.connection.receive::<FetchRequest>()?;
        let fetched = self.read_answer(response)?;
        self.next_offset = fetched.next_offset;
        if self.options.fetch_ahead {
            self.ask()?;
        }
        Ok(fetched)
    }

    /// Finds the partition's leader again and goes on at the same position.
    ///
    /// # Errors
    /// As `Cluster::connect_leader`.
    pub fn reconnect(&mut self, cluster: &mut Cluster) -> Result<()> {
        let (connection, leader) = cluster.connect_leader(&self.topic, self.partition)?;
        self.connection = connection;
        self.topic_id = leader.topic_id;
        self.fetching = false;
        Ok(())
    }

    fn ask(&mut self) -> Result<()> {
        let request = FetchRequest {
            max_wait_ms: i32::try_from(self.options.wait_max.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.options.bytes_min,
            max_bytes: self.options.bytes_max,
            topics: vec![FetchTopic {
                topic: self.topic.clone(),
                topic_id: self.topic_id,
                partitions: vec![FetchPartition {
                    partition: self.partition,
                    fetch_offset: self.next_offset.0,
                    partition_max_bytes: self.options.bytes_max,
                    ..FetchPartition::default()
                }],
            }],
            ..FetchRequest::default()
        };
        self.connection.send(&request)?;
        self.fetching = true;
        Ok(())
    }

    fn operation(&self) -> String {
        format!(
            "reading partition {} of topic {} from offset {}",
            self.partition, self.topic, self.next_offset
        )
    }

    fn read_answer(&mut self, response: FetchResponse) -> Result<Fetched> {
        if response.error_code != ErrorCode::None.code() {
            return Err(ClientError::broker(self.operation(), response.error_code, None));
        }
        let answer = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partitions)
            .find(|answer| answer.partition_index == self.partition)
            .ok_or_else(|| ClientError::NotAnswered {
                operation: self.operation(),
            })?;
        if answer.error_code != ErrorCode::None.code() {
            return Err(ClientError::broker(self.operation(), answer.error_code, None));
        }
        self.tail = Offset(answer.high_watermark);
        self.log_start = Offset(answer.log_start_offset);
        self.whole_batches(&answer)
    }

    /// Drops what is before the wanted offset and behind the last whole batch.
    fn whole_batches(&self, answer: &PartitionData) -> Result<Fetched> {
        let bytes = answer.records.joined();
        let mut fetched = Fetched {
            bytes: Bytes::new(),
            first_offset: self.next_offset,
            next_offset: self.next_offset,
            tail: self.tail,
            record_count: 0,
            limits: self.options.limits,
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
            self.check(&header, batch, fetched.next_offset)?;
            fetched.next_offset = header.next_offset();
            fetched.record_count += i64::from(header.record_count);
        }
        if end == 0 && !bytes.is_empty() {
            return Err(ClientError::FetchTooSmall {
                offset: self.next_offset,
                fetch_bytes: self.options.bytes_max,
            });
        }
        fetched.bytes = bytes.slice(start..end);
        Ok(fetched)
    }

    /// That a batch follows the one before it and its bytes are those of its producer.
    fn check(&self, header: &BatchHeader, batch: &[u8], next_offset: Offset) -> Result<()> {
        // Gaps are left by compaction; only the first batch may begin before the wanted offset.
        if header.base_offset < next_offset && next_offset != self.next_offset {
            let record_count = header.record_count;
            let last_offset_delta = header.last_offset_delta;
            return Err(self.bad_batch(BatchError::RecordCount {
                record_count,
                last_offset_delta,
            }));
        }
        if self.options.check_checksums && !checksum_holds(batch) {
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

/// What one fetch brought: whole batches, in order, without those before the wanted offset.
#[derive(Debug, Clone)]
pub struct Fetched {
    bytes: Bytes,
    first_offset: Offset,
    next_offset: Offset,
    tail: Offset,
    record_count: i64,
    limits: Limits,
}

impl Fetched {
    /// The offset that was asked for.
    #[must_use]
    pub fn first_offset(&self) -> Offset {
        self.first_offset
    }

    /// The offset behind the last record here; the one asked for if there is none.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// The first offset that readers did not see yet.
    #[must_use]
    pub fn tail(&self) -> Offset {
        self.tail
    }

    /// Whether there is no batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of all batches, as they came.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Records by the headers' word, with those of the first batch that are before the wanted offset.
    #[must_use]
    pub fn record_count(&self) -> i64 {
        self.record_count
    }

    /// The batches, headers only: cheap.
    #[must_use]
    pub fn batches(&self) -> FetchedBatches<'_> {
        FetchedBatches {
            batches: batches(&self.bytes),
            near_offset: self.first_offset,
        }
    }

    /// The records from the wanted offset on, decompressed; control batches are left out.
    #[must_use]
    pub fn records(&self) -> FetchedRecords<'_> {
        FetchedRecords {
            batches: batches(&self.bytes),
            open: None,
            first_offset: self.first_offset,
            limits: self.limits,
        }
    }
}

/// The batches of one fetch: header and bytes of each.
#[derive(Debug, Clone)]
pub struct FetchedBatches<'a> {
    batches: Batches<'a>,
    near_offset: Offset,
}

impl<'a> Iterator for FetchedBatches<'a> {
    type Item = Result<(BatchHeader, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let near_offset = self.near_offset;
        let batch = self.batches.next()?;
        Some(batch.map_err(|source| ClientError::Batch { near_offset, source }))
    }
}

/// The records of one fetch. Ends after the first error.
#[derive(Debug, Clone)]
pub struct FetchedRecords<'a> {
    batches: Batches<'a>,
    open: Option<Records>,
    first_offset: Offset,
    limits: Limits,
}

impl FetchedRecords<'_> {
    /// Opens the next batch that is not of control records; `None` behind the last.
    fn open_next(&mut self) -> Result<Option<Records>, BatchError> {
        for batch in self.batches.by_ref() {
            let (header, bytes) = batch?;
            if !header.attributes.is_control() {
                return records(bytes, &self.limits).map(Some);
            }
        }
        Ok(None)
    }

    fn failed(&mut self, source: BatchError) -> ClientError {
        self.open = None;
        self.batches = batches(&[]);
        ClientError::Batch {
            near_offset: self.first_offset,
            source,
        }
    }
}

impl Iterator for FetchedRecords<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.open.as_mut().and_then(Iterator::next) {
                Some(Ok(record)) if record.offset < self.first_offset => {}
                Some(Ok(record)) => return Some(Ok(record)),
                Some(Err(source)) => return Some(Err(self.failed(source))),
                None => match self.open_next() {
                    Ok(Some(next)) => self.open = Some(next),
                    Ok(None) => return None,
                    Err(source) => return Some(Err(self.failed(source))),
                },
            }
        }
    }
}
