//! Reading a topic from its first record: consumers that share out its partitions or read the same ones over again. Who reads says how
//! far what was fetched is taken apart.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use client::{Cluster, ConsumerOptions, Fetched, Offset, OffsetQuery, Stretch, TopicConsumer};

use crate::contract::together;
use crate::contract::watch::Watch;
use crate::latency::LatencyRecorder;

/// Before a partition's end there are records: after so many fetches in a row without one they are lost.
const EMPTY_MAX: usize = 20;

/// The use that one consumer makes of the batches it fetched.
pub(crate) trait Taker: Send {
    /// Takes apart what a fetch brought of a partition; how many records that were, and of how many bytes.
    fn take(&mut self, partition: i32, fetched: &Fetched) -> Result<(u64, u64)>;
}

/// The topic that is read, and the way of reading.
pub(crate) struct Reading<'a> {
    pub(crate) topic: &'a str,
    pub(crate) consumers: u32,
    pub(crate) options: ConsumerOptions,
    /// Says that a consumer has a connection for each partition, so that a server with several cores answers each from the core that owns
    /// it; else one for each broker.
    pub(crate) are_apart: bool,
    /// How many records all consumers together have when it is over.
    pub(crate) records_max: u64,
}

/// The outcome of reading.
pub(crate) struct Had<T> {
    pub(crate) seconds: f64,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) latencies: LatencyRecorder,
    /// Of each consumer.
    pub(crate) takers: Vec<T>,
}

/// All partitions of a topic, each of at most `records_max` records from its first on, to where it ends now.
pub(crate) fn stretches(
    cluster: &mut Cluster,
    topic: &str,
    records_max: Option<u64>,
) -> Result<Vec<Stretch>> {
    let topic = cluster.topic(topic)?;
    let first = cluster.offsets(&topic, OffsetQuery::Earliest)?;
    let end = cluster.offsets(&topic, OffsetQuery::Latest)?;
    let stretch = |((partition, first), (_, end)): ((i32, Option<Offset>), (i32, Option<Offset>))| {
        let (first, end) = (first.unwrap_or(Offset::ZERO), end.unwrap_or(Offset::ZERO));
        let records = records_max.map(|records| i64::try_from(records).unwrap_or(i64::MAX / 2));
        let end = records.map_or(end, |records| end.min(first.advance(records)));
        Stretch {
            partition,
            first,
            end,
        }
    };
    Ok(first.into_iter().zip(end).map(stretch).collect())
}

/// The stretches of each consumer: up to as many as there are stretches share them out, more than that read them over again.
fn share_out(stretches: &[Stretch], consumers: u32) -> Vec<Vec<Stretch>> {
    let (shards, consumers) = (stretches.len(), consumers as usize);
    let share = |consumer| {
        if consumers > shards {
            return vec![stretches[consumer % shards]];
        }
        let own = stretches.iter().copied().skip(consumer);
        own.step_by(consumers).collect()
    };
    (0..consumers).map(share).collect()
}

/// Reads the stretches, each consumer with a `taker` of its own.
pub(crate) fn read<T: Taker>(
    reading: &Reading<'_>,
    stretches: &[Stretch],
    cluster: impl Fn() -> Result<Cluster> + Sync,
    taker: impl Fn() -> T + Sync,
    watch: &mut dyn Watch,
) -> Result<Had<T>> {
    let shares = share_out(stretches, reading.consumers);
    let connect = |consumer: u32| {
        let (share, mut cluster) = (&shares[consumer as usize], cluster()?);
        let at_once = if reading.are_apart { 1 } else { share.len() };
        let open = share.chunks(at_once).map(|stretches| {
            TopicConsumer::new(&mut cluster, reading.topic, stretches, reading.options.clone())
        });
        let open: client::Result<VecDeque<_>> = open.collect();
        open.context("a consumer cannot connect")
    };
    let had = AtomicU64::new(0);
    let (began, outcomes) = together::run(
        reading.consumers,
        "consumer",
        connect,
        |open, _| consume(reading, open, taker(), &had),
        Instant::now,
        &had,
        watch,
    )?;
    let mut all = Had {
        seconds: 0.0,
        records: 0,
        bytes: 0,
        latencies: LatencyRecorder::new(),
        takers: Vec::new(),
    };
    for outcome in outcomes {
        let (one, ended) = outcome?;
        all.seconds = all.seconds.max(ended.duration_since(began).as_secs_f64());
        all.records += one.records;
        all.bytes += one.bytes;
        all.latencies.merge(&one.latencies);
        all.takers.extend(one.takers);
    }
    Ok(all)
}

/// One consumer: a fetch over each of its connections in turn; the others' next answers are under way meanwhile.
fn consume<T: Taker>(
    reading: &Reading<'_>,
    mut open: VecDeque<TopicConsumer>,
    mut taker: T,
    had: &AtomicU64,
) -> Result<(Had<T>, Instant)> {
    let (mut records, mut bytes, mut empty) = (0, 0, 0);
    let mut latencies = LatencyRecorder::new();
    while had.load(Ordering::Relaxed) < reading.records_max {
        let Some(mut consumer) = open.pop_front() else {
            break;
        };
        let asked = Instant::now();
        let Some(all_fetched) = consumer.fetch()? else {
            continue;
        };
        latencies.record(asked.elapsed());
        open.push_back(consumer);
        let before = records;
        for (partition, fetched) in &all_fetched {
            let (more, more_bytes) = taker.take(*partition, fetched)?;
            (records, bytes) = (records + more, bytes + more_bytes);
        }
        empty = if records == before { empty + 1 } else { 0 };
        ensure!(
            empty < EMPTY_MAX * open.len(),
            "topic {} has more records, but {empty} fetches in a row brought none",
            reading.topic
        );
        had.fetch_add(records - before, Ordering::Relaxed);
    }
    let had = Had {
        seconds: 0.0,
        records,
        bytes,
        latencies,
        takers: vec![taker],
    };
    Ok((had, Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumers_share_partitions_or_read_them_over_again() {
        let stretches: Vec<Stretch> = (0..3)
            .map(|partition| Stretch {
                partition,
                first: Offset(0),
                end: Offset(9),
            })
            .collect();
        let read = |consumers| -> Vec<Vec<i32>> {
            share_out(&stretches, consumers)
                .iter()
                .map(|share| share.iter().map(|stretch| stretch.partition).collect())
                .collect()
        };
        assert_eq!(read(1), [vec![0, 1, 2]]);
        assert_eq!(read(2), [vec![0, 2], vec![1]]);
        assert_eq!(read(3), [vec![0], vec![1], vec![2]]);
        assert_eq!(read(4), [vec![0], vec![1], vec![2], vec![0]]);
    }
}
