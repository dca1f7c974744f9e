//! Reads one partition in order: fetches ahead of its caller, and takes what was fetched apart only as far as asked.
//!
//! The position moves by whole batches, and headers suffice for that: so the next fetch is under way while the caller
//! still reads the last. A fetch may begin with records before the wanted offset and end inside a batch; neither shows.

use std::time::Duration;

use bytes::Bytes;
use kafka_wire::{FetchRequest, Text};
use record::{
    BatchError, BatchHeader, Batches, CommittedBatches, Limits, Offset, Record, Records, TopicId, batches,
    records,
};

use crate::cluster::Cluster;
use crate::connection::Connection;
use crate::error::{ClientError, Result};
use crate::isolation::Isolation;
use crate::offsets::{OffsetQuery, offset_at};
use crate::position::{Position, fetch_request, partition_answers};
use crate::truncation::check_truncation;

/// Options of a consumer.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// The time that the broker may wait for `bytes_min`.
    pub wait_max: Duration,
    /// Bytes that are worth an answer before `wait_max` is over.
    pub bytes_min: i32,
    /// Bytes that an answer should not exceed. A first batch that is larger comes all the same.
    pub bytes_max: i32,
    /// The next fetch is sent before the last one is handed out.
    pub fetch_ahead: bool,
    /// Each batch's checksum is compared.
    pub check_checksums: bool,
    /// The records of transactions that are read.
    pub isolation: Isolation,
    /// Bounds on the cost of compressed batches.
    pub limits: Limits,
}

impl Default for ConsumerOptions {
    /// Up to 4 MiB as soon as there is a byte, waiting half a second; ahead of the caller; checksums compared; what is committed.
    fn default() -> ConsumerOptions {
        ConsumerOptions {
            wait_max: Duration::from_millis(500),
            bytes_min: 1,
            bytes_max: 4 << 20,
            fetch_ahead: true,
            check_checksums: true,
            isolation: Isolation::Committed,
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
    topic_id: TopicId,
    options: ConsumerOptions,
    connection: Connection,
    position: Position,
    /// The fetch of `next_offset` is under way.
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
        let latest = options.isolation.latest();
        let mut ask = |query| offset_at(&mut connection, topic, partition, query);
        let next_offset = match start {
            Start::Offset(offset) => offset,
            Start::Earliest => ask(OffsetQuery::Earliest)?.unwrap_or(Offset::ZERO),
            Start::Latest => ask(latest)?.unwrap_or(Offset::ZERO),
            Start::Timestamp(ms) => match ask(OffsetQuery::Timestamp(ms))? {
                Some(offset) => offset,
                None => ask(latest)?.unwrap_or(Offset::ZERO),
            },
        };
        Ok(Consumer {
            topic_id: leader.topic_id,
            options,
            connection,
            position: Position::new(Text::from(topic), partition, next_offset),
            fetching: false,
        })
    }

    /// The topic that is read, whatever has its name by now.
    #[must_use]
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// The offset of the next record.
    #[must_use]
    pub fn position(&self) -> Offset {
        self.position.next_offset
    }

    /// The first offset that readers did not see yet at the last fetch.
    #[must_use]
    pub fn tail(&self) -> Offset {
        self.position.tail
    }

    /// The first offset that was still there at the last fetch.
    #[must_use]
    pub fn log_start(&self) -> Offset {
        self.position.log_start
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
        let answers = partition_answers(response, || self.position.operation())?;
        let partition = self.position.partition;
        let answer = answers.iter().find(|answer| answer.partition_index == partition);
        let fetched = self.position.read_answer(answer, &self.options)?;
        if self.options.fetch_ahead {
            // The position is behind what came, so that must be handed out: the next fetch asks anew and meets the error.
            let _ = self.ask();
        }
        Ok(fetched)
    }

    /// Finds the partition's leader again and goes on at the same position.
    ///
    /// # Errors
    /// `TopicDeleted` if another topic has its name by now; `RecordsLost` if the leader has not all that was read; as
    /// `Cluster::connect_leader`.
    pub fn reconnect(&mut self, cluster: &mut Cluster) -> Result<()> {
        let (connection, leader) = cluster.connect_leader(&self.position.topic, self.position.partition)?;
        if leader.topic_id != self.topic_id {
            return Err(ClientError::TopicDeleted {
                topic: self.position.topic.to_string(),
                made_again: true,
            });
        }
        let address = connection.address().to_owned();
        check_truncation(cluster, &address, std::slice::from_ref(&self.position))?;
        self.connection = connection;
        self.fetching = false;
        Ok(())
    }

    fn ask(&mut self) -> Result<()> {
        let request = fetch_request(self.topic_id, &[&self.position], &self.options);
        self.connection.send(&request)?;
        self.fetching = true;
        Ok(())
    }
}

/// The outcome of one fetch: whole batches, in order, without those before the wanted offset.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub(crate) bytes: Bytes,
    pub(crate) first_offset: Offset,
    pub(crate) next_offset: Offset,
    pub(crate) tail: Offset,
    pub(crate) record_count: i64,
    /// Tells which batches count, if not all do.
    pub(crate) committed: Option<CommittedBatches>,
    pub(crate) limits: Limits,
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

    /// Says if there is no batch.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes of all batches, as they came.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Records by the headers' word, with those of the first batch that are before the wanted offset, those of control batches, and
    /// those of aborted transactions.
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

    /// The records from the wanted offset on, decompressed. Control batches are left out, as are aborted transactions if only what is
    /// committed is read.
    #[must_use]
    pub fn records(&self) -> FetchedRecords<'_> {
        FetchedRecords {
            batches: batches(&self.bytes),
            committed: self.committed.clone(),
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
    committed: Option<CommittedBatches>,
    open: Option<Records>,
    first_offset: Offset,
    limits: Limits,
}

impl FetchedRecords<'_> {
    /// Opens the next batch that counts; `None` behind the last.
    fn open_next(&mut self) -> Result<Option<Records>, BatchError> {
        for batch in self.batches.by_ref() {
            let (header, bytes) = batch?;
            let counts = match &mut self.committed {
                Some(committed) => committed.take(&header, bytes)?,
                None => !header.attributes.is_control(),
            };
            if counts {
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
