//! Appends: one librdkafka producer for each producer of the run, polled on that producer's thread.
//!
//! A unit is a record, as librdkafka makes the batches; a record's number travels with it and comes back with its report. Or a unit is a transaction,
//! which is committed when each of its records is reported.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::contract::driver::Events;
use bench::contract::payload::Payloads;
use bench::contract::producers::{self, Appender, Batches, Completed, Schedule};
use bench::contract::{Append, Done};
use rdkafka::producer::{BaseRecord, Producer};

use crate::reports::ReportingProducer;
use crate::{settings, topics};

/// How long the brokers have to name the partitions' leaders.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);
/// How long a commit may take, or the next report of one of its records.
const COMMIT_PATIENCE: Duration = Duration::from_secs(30);

/// Appends as `append` says.
pub(crate) fn append(address: &str, append: &Append, events: &Events<'_>) -> Result<Done> {
    append_on(address, append, &Schedule::new(append), events)
}

/// The same, on a schedule that others know as well.
pub(crate) fn append_on(
    address: &str,
    append: &Append,
    schedule: &Schedule,
    events: &Events<'_>,
) -> Result<Done> {
    topics::check_existing(address, &append.log, append.shards)?;
    let payloads = Payloads::new(append.record_bytes)?;
    if append.transactional {
        let connect = |number| Transactions::connect(address, append, number, &payloads);
        return producers::run(append, Batches::ByDriver, schedule, connect, events);
    }
    let connect = |number| Partitions::connect(address, append, number, &payloads);
    producers::run(append, Batches::ByClient, schedule, connect, events)
}

/// One producer's way to the partitions of a topic.
struct Partitions<'a> {
    reporting: ReportingProducer,
    topic: &'a str,
    number: u32,
    payloads: &'a Payloads,
    payload: Vec<u8>,
}

impl<'a> Partitions<'a> {
    fn connect(
        address: &str,
        append: &'a Append,
        number: u32,
        payloads: &'a Payloads,
    ) -> Result<Partitions<'a>> {
        let reporting = ReportingProducer::new(&settings::producer(address, append, number))
            .with_context(|| format!("cannot make a producer for {address}"))?;
        reporting
            .producer()
            .client()
            .fetch_metadata(Some(&append.log), CONNECT_PATIENCE)
            .with_context(|| format!("{address} does not tell of the topic {}", append.log))?;
        Ok(Partitions {
            reporting,
            topic: &append.log,
            number,
            payloads,
            payload: vec![0; append.record_bytes],
        })
    }
}

impl Partitions<'_> {
    fn send_one(&mut self, shard: u32, record: u64) -> Result<()> {
        self.payloads.write(self.number, record, &mut self.payload);
        let record: BaseRecord<'_, (), [u8], usize> = BaseRecord::with_opaque_to(self.topic, record as usize)
            .partition(i32::try_from(shard)?)
            .payload(&self.payload);
        self.reporting
            .producer()
            .send(record)
            .map_err(|(error, _)| error)?;
        Ok(())
    }
}

impl Appender for Partitions<'_> {
    fn send(&mut self, shard: u32, records: Range<u64>) -> Result<()> {
        assert_eq!(records.end, records.start + 1, "a unit is a record");
        self.send_one(shard, records.start)
    }

    fn poll(&mut self, wait: Duration, completed: &mut Vec<Completed>) {
        self.reporting.take_reports(wait, completed);
    }
}

/// The same, with a transaction for each unit.
struct Transactions<'a> {
    partitions: Partitions<'a>,
    append: &'a Append,
    /// The number of the next unit.
    unit: u64,
    /// Records of the one that is open and not reported yet.
    open: Option<u64>,
}

impl<'a> Transactions<'a> {
    fn connect(
        address: &str,
        append: &'a Append,
        number: u32,
        payloads: &'a Payloads,
    ) -> Result<Transactions<'a>> {
        let partitions = Partitions::connect(address, append, number, payloads)?;
        partitions
            .reporting
            .producer()
            .init_transactions(CONNECT_PATIENCE)?;
        Ok(Transactions {
            partitions,
            append,
            unit: 0,
            open: None,
        })
    }

    /// Waits for the reports of all records, as a commit itself would: the reports come by a queue that a commit does not read.
    fn commit(&mut self, mut unreported: u64) -> Result<()> {
        let mut reports = Vec::new();
        while unreported > 0 {
            self.partitions
                .reporting
                .take_reports(COMMIT_PATIENCE, &mut reports);
            ensure!(
                !reports.is_empty(),
                "no report of a record for {} s",
                COMMIT_PATIENCE.as_secs()
            );
            for report in reports.drain(..) {
                unreported -= 1;
                if let Some(failure) = report.failure {
                    bail!("a record of the transaction was refused: {failure}");
                }
            }
        }
        self.partitions
            .reporting
            .producer()
            .commit_transaction(COMMIT_PATIENCE)?;
        Ok(())
    }
}

impl Appender for Transactions<'_> {
    fn send(&mut self, _shard: u32, records: Range<u64>) -> Result<()> {
        self.unit += 1;
        self.partitions.reporting.producer().begin_transaction()?;
        self.open = Some(records.end - records.start);
        let (number, producers) = (
            u64::from(self.partitions.number),
            u64::from(self.append.producers),
        );
        for record in records {
            let shard = (number + record * producers) % u64::from(self.append.shards);
            self.partitions.send_one(u32::try_from(shard)?, record)?;
        }
        Ok(())
    }

    fn poll(&mut self, _wait: Duration, completed: &mut Vec<Completed>) {
        let Some(unreported) = self.open.take() else {
            return;
        };
        let failure = self.commit(unreported).err();
        completed.push(Completed {
            unit: self.unit - 1,
            at: Instant::now(),
            failure: failure.map(|error| format!("{error:#}")),
        });
    }
}
