//! Appends: one librdkafka producer for each producer of the run, polled on that producer's thread.
//!
//! A unit is a record, as librdkafka makes the batches; a record's number travels with it and comes back with its report.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result};
use bench::contract::driver::Events;
use bench::contract::payload::Payloads;
use bench::contract::producers::{self, Appender, Batches, Completed, Schedule};
use bench::contract::{Append, Done};
use rdkafka::producer::{BaseRecord, Producer};

use crate::reports::ReportingProducer;
use crate::{settings, topics};

/// How long the brokers have to name the partitions' leaders.
const CONNECT_PATIENCE: Duration = Duration::from_secs(30);

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
        let reporting = ReportingProducer::new(&settings::producer(address, append))
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

impl Appender for Partitions<'_> {
    fn send(&mut self, shard: u32, records: Range<u64>) -> Result<()> {
        assert_eq!(records.end, records.start + 1, "a unit is a record");
        self.payloads.write(self.number, records.start, &mut self.payload);
        let record: BaseRecord<'_, (), [u8], usize> =
            BaseRecord::with_opaque_to(self.topic, records.start as usize)
                .partition(i32::try_from(shard)?)
                .payload(&self.payload);
        self.reporting
            .producer()
            .send(record)
            .map_err(|(error, _)| error)?;
        Ok(())
    }

    fn poll(&mut self, wait: Duration, completed: &mut Vec<Completed>) {
        self.reporting.take_reports(wait, completed);
    }
}
