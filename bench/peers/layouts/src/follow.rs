//! Consumers that read at the tail while producers append: how long after it was due a record is had.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use bench::LatencyRecorder;
use bench::contract::payload::Stamp;
use bench::contract::producers::Schedule;

use crate::log::Log;

/// How long a consumer waits before it looks whether the producers are done.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Runs `produce` with a consumer for each shard; returns its outcome and the delivery times, when everything that it appended
/// was had.
pub(crate) fn follow<T>(
    log: &Log,
    schedule: &Schedule,
    produce: impl FnOnce() -> Result<T>,
) -> Result<(T, LatencyRecorder)> {
    let produced = AtomicBool::new(false);
    let starts: Vec<u64> = (0..log.tails().shards())
        .map(|shard| log.tails().of(shard))
        .collect();
    std::thread::scope(|scope| {
        let produced = &produced;
        let consumers: Vec<_> = (0u32..)
            .zip(starts)
            .map(|(shard, start)| scope.spawn(move || follow_shard(log, shard, start, schedule, produced)))
            .collect();
        let outcome = produce();
        produced.store(true, Ordering::Release);
        let mut deliveries = LatencyRecorder::new();
        for consumer in consumers {
            deliveries.merge(&consumer.join().expect("a consumer does not panic")?);
        }
        Ok((outcome?, deliveries))
    })
}

fn follow_shard(
    log: &Log,
    shard: u32,
    start: u64,
    schedule: &Schedule,
    produced: &AtomicBool,
) -> Result<LatencyRecorder> {
    let mut deliveries = LatencyRecorder::new();
    let mut next = start;
    loop {
        // In this order: everything was appended before it is said to be.
        let over = produced.load(Ordering::Acquire);
        let tail = log
            .tails()
            .beyond(shard, next, if over { Duration::ZERO } else { LOOK_AGAIN });
        if tail == next && over {
            return Ok(deliveries);
        }
        log.scan(shard, next..tail, &mut |record| {
            if let Some(due) = Stamp::parse(record).and_then(|stamp| schedule.due(stamp)) {
                deliveries.record(Instant::now().saturating_duration_since(due));
            }
            ControlFlow::Continue(())
        })?;
        next = tail;
    }
}
