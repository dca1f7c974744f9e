//! Whether what a driver says can be so, and whether everything that was acknowledged is there.

use anyhow::{Result, ensure};

use super::super::driving::Driving;
use super::super::interrupt::Interrupted;
use super::super::plan::{Load, request_bytes};
use super::metering::Unwatched;
use super::{RECORDS_WITHIN, Stored};
use crate::results::Acknowledges;
use bench::contract::payload::Payloads;
use bench::contract::{Append, Done, Read};

/// One by one, a producer waits for acknowledgements nearly all of its time: so much of that its latencies must make, and no more
/// than all of it, as far as a clock tells. (Clients here come to 0.98 and more, even 64 producers on two CPUs.) A busy machine
/// may also keep a client from running for so long, between two records.
const LATENCIES_MIN: f64 = 0.5;
const AWAY_S: f64 = 0.2;
const LATENCIES_MAX: f64 = 1.05;

/// Acknowledged records that are not there, or are not those that were sent. Whatever the same system did before is not believed
/// either.
#[derive(Debug, thiserror::Error)]
pub(in super::super) enum BrokenPromise {
    #[error("{acknowledged} records were acknowledged, but {read} were read back")]
    Missing { acknowledged: u64, read: u64 },
    #[error(
        "{records} records were read back, but they are not those that were acknowledged (their sum is {found:?}, not {sum})"
    )]
    Others {
        records: u64,
        found: Option<u64>,
        sum: u64,
    },
    #[error("{out_of_order} of {records} records came back out of their order")]
    OutOfOrder { records: u64, out_of_order: u64 },
}

/// That what a driver says of its appends can be so.
pub(super) fn check(done: &Done, load: &Load) -> Result<()> {
    check_whole("appends", done, load.record_bytes)?;
    ensure!(done.records > 0, "not one record was acknowledged");
    let appended: u64 = done.appended.iter().sum();
    ensure!(
        done.appended.len() == load.producers as usize && appended >= done.records,
        "the driver says that {} records were acknowledged, but {appended} of its {} producers",
        done.records,
        done.appended.len()
    );
    Ok(())
}

/// That nothing failed, and that as many bytes are told as the records have.
fn check_whole(what: &str, done: &Done, record_bytes: usize) -> Result<()> {
    ensure!(
        done.errors == 0,
        "{} {what} failed; the first: {}",
        done.errors,
        done.first_error.as_deref().unwrap_or("no reason given")
    );
    ensure!(
        done.bytes == done.records * record_bytes as u64,
        "the driver says that {} records of {record_bytes} B have {} bytes",
        done.records,
        done.bytes
    );
    Ok(())
}

/// That a driver tells as many latencies as its load must have: each record's own at a rate, and in the closed loop where the system
/// acknowledges each; else each record's or each batch's. Who leaves out the late ones has none. And that one by one, where
/// latencies fill the time of each producer, theirs do.
pub(super) fn check_samples(done: &Done, append: &Append, acknowledges: Option<Acknowledges>) -> Result<()> {
    let samples: u64 = done.latency_ns.iter().map(|(_, times)| times).sum();
    let least = match (append.rate, acknowledges) {
        (Some(_), _) | (None, Some(Acknowledges::Record)) => done.records,
        (None, _) => done.records / u64::from(append.batch_records.max(1)),
    };
    ensure!(
        (least..=done.records).contains(&samples),
        "the driver tells {samples} latencies of {} records in batches of up to {}",
        done.records,
        append.batch_records
    );
    if append.rate.is_some() || (append.batch_records, append.in_flight) != (1, 1) {
        return Ok(());
    }
    let pairs = done.latency_ns.iter();
    let told_s: f64 = pairs.map(|&(ns, times)| ns as f64 / 1e9 * times as f64).sum();
    let all_s = done.seconds * f64::from(append.producers);
    let least_s = (done.seconds - AWAY_S) * f64::from(append.producers) * LATENCIES_MIN;
    ensure!(
        (least_s..=all_s * LATENCIES_MAX).contains(&told_s),
        "the latencies that the driver tells make {told_s:.3} s, but its producers had {all_s:.3} s together, one record after the other"
    );
    Ok(())
}

/// That a driver has read what it should, and says what can be so.
pub(super) fn check_read(done: &Done, read: &Read) -> Result<()> {
    check_whole("reads", done, read.record_bytes)?;
    ensure!(
        done.records >= read.records,
        "only {} of {} records were read",
        done.records,
        read.records
    );
    Ok(())
}

/// Reads back everything that was acknowledged, and `besides` (records of a producer by their number), and compares it; how many
/// records that were.
pub(super) fn verify(stored: &Stored, besides: &[(u32, u64)], driving: &mut Driving) -> Result<u64> {
    let load = &stored.load;
    let records = stored.records() + besides.len() as u64;
    let read = Read {
        log: stored.log.clone(),
        shards: load.shards,
        consumers: load.shards.min(4),
        record_bytes: load.record_bytes,
        request_bytes: request_bytes(load.record_bytes),
        records,
        verify: true,
    };
    // Reading back is not measured: what the sum must be is found meanwhile.
    let (done, sum) = std::thread::scope(|scope| {
        let sum = scope.spawn(|| sum_of(stored, besides));
        let done = driving.read(&read, RECORDS_WITHIN, &mut Unwatched);
        (done, sum.join().expect("a panic is a bug here"))
    });
    // Who cannot tell what is there has not shown that something is missing: it may be asked again.
    let done = done.map_err(|error| match error.is::<Interrupted>() {
        true => error,
        false => error.context(format!(
            "{records} records were acknowledged and could not be read back"
        )),
    })?;
    let sum = sum?;
    let (read, found) = (done.records, done.crc32_sum);
    ensure!(
        read == records,
        BrokenPromise::Missing {
            acknowledged: records,
            read
        }
    );
    ensure!(found == Some(sum), BrokenPromise::Others { records, found, sum });
    // What comes besides begins at a producer's first number again.
    let out_of_order = done.out_of_order.unwrap_or(u64::MAX);
    ensure!(
        out_of_order <= besides.len() as u64,
        BrokenPromise::OutOfOrder {
            records,
            out_of_order
        }
    );
    Ok(records)
}

/// The sum of CRC-32 that a reader of everything must find.
fn sum_of(stored: &Stored, besides: &[(u32, u64)]) -> Result<u64> {
    let payloads = Payloads::new(stored.load.record_bytes)?;
    let acknowledged = stored.appended.iter().enumerate();
    let of_producers = acknowledged.map(|(producer, count)| payloads.crc32_sum(producer as u32, 0..*count));
    let of_others = besides
        .iter()
        .map(|&(producer, sequence)| payloads.crc32_sum(producer, sequence..sequence + 1));
    Ok(of_producers.chain(of_others).sum())
}
