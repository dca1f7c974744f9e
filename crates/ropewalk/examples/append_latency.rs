//! Measures an append and the flush in it, in turns, in one run, on one disk: the difference is the library's share.
//!
//!     append_latency [DIRECTORY [SAMPLES [THREADS]]]
//!
//! The flush is what the journal does at the least: 4 KiB to a file of written zeros, O_DIRECT with RWF_DSYNC. The append is of
//! one record of 100 bytes, by one thread; with THREADS above 1, then also by so many at once, who share flushes. A folder is
//! made in DIRECTORY and removed again.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use platform::clock::{Clock, SystemClock};
use platform::disk::{Disk, DurableWriteMode, File, RealDisk};
use platform::memory::AlignedBuffer;
use platform::threads;
use ropewalk::{Log, Logs};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const RECORD_BYTES: usize = 100;
const FLUSH_BYTES: usize = 4 << 10;
const FILE_BYTES: u64 = 16 << 20;
/// Of each kind, before anything counts.
const WARMUP: usize = 200;

/// A directory for the run. What cannot be removed is named after what it is.
struct Folder(Arc<RealDisk>, PathBuf);

impl Folder {
    fn create(parent: &str) -> Result<Folder> {
        let name = PathBuf::from(format!("ropewalk-append-latency-{}", std::process::id()));
        Ok(Folder(Arc::new(RealDisk::open(Path::new(parent))?), name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.root().join(&self.1).join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = self.0.remove_directory(&self.1);
    }
}

/// Flushes one behind the other, from the file's start again when its end is reached.
struct RawFlush {
    file: Arc<dyn File>,
    bytes: AlignedBuffer,
    count: u64,
}

impl RawFlush {
    fn open(directory: &Path) -> Result<(RawFlush, DurableWriteMode)> {
        let disk = RealDisk::open(directory)?;
        let file = disk.create(Path::new("filled"))?;
        file.fill_with_zeros(FILE_BYTES)?;
        let bytes = AlignedBuffer::zeroed(FLUSH_BYTES);
        Ok((
            RawFlush {
                file,
                bytes,
                count: 0,
            },
            disk.durable_write_mode(),
        ))
    }

    fn run(&mut self) -> std::io::Result<()> {
        self.count += 1;
        // Bytes that differ from what is there: some disks notice when they do not.
        self.bytes.as_mut_slice().fill(self.count as u8 | 1);
        let position = self.count * FLUSH_BYTES as u64 % FILE_BYTES;
        self.file.write_durable(position, self.bytes.as_slice())
    }
}

fn time<T>(clock: &SystemClock, work: impl FnOnce() -> T) -> (Duration, T) {
    let began = clock.monotonic();
    let outcome = work();
    (clock.monotonic() - began, outcome)
}

/// A flush and an append in turns.
fn alternate(flush: &mut RawFlush, log: &Log, samples: usize) -> Result<[Vec<Duration>; 2]> {
    let clock = SystemClock::new();
    let record = [7_u8; RECORD_BYTES];
    let (mut flushes, mut appends) = (Vec::new(), Vec::new());
    for sample in 0..WARMUP + samples {
        let (flush_took, flushed) = time(&clock, || flush.run());
        let (append_took, appended) = time(&clock, || log.append(&record));
        flushed?;
        appended?;
        if sample >= WARMUP {
            flushes.push(flush_took);
            appends.push(append_took);
        }
    }
    Ok([flushes, appends])
}

/// Appends of several threads at once: their latencies, and how many there were in a second.
fn together(log: &Log, samples: usize, count: usize) -> Result<(Vec<Duration>, f64)> {
    let each = samples.div_ceil(count);
    let appender = |_| {
        let log = log.clone();
        threads::spawn("appender", move || -> Result<Vec<Duration>> {
            let clock = SystemClock::new();
            let record = [7_u8; RECORD_BYTES];
            let append = |_| {
                let (took, appended) = time(&clock, || log.append(&record));
                appended?;
                Ok(took)
            };
            (0..each).map(append).collect()
        })
    };
    let (took, latencies) = time(&SystemClock::new(), || -> Result<Vec<Duration>> {
        let appenders: std::io::Result<Vec<_>> = (0..count).map(appender).collect();
        let mut latencies = Vec::new();
        for appender in appenders? {
            latencies.extend(appender.join().map_err(|_| "an appender panicked")??);
        }
        Ok(latencies)
    });
    let rate = (each * count) as f64 / took.as_secs_f64();
    Ok((latencies?, rate))
}

/// The latency that this share of the samples does not exceed, in microseconds.
fn percentile(samples: &mut [Duration], share: f64) -> f64 {
    samples.sort_unstable();
    let index = (samples.len() as f64 * share).ceil() as usize;
    samples[index.clamp(1, samples.len()) - 1].as_secs_f64() * 1e6
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize| arguments.get(index).map(String::as_str);
    let samples: usize = argument(1).unwrap_or("5000").parse()?;
    let count: usize = argument(2).unwrap_or("1").parse()?;
    if samples == 0 || count == 0 || arguments.len() > 3 {
        return Err("append_latency [DIRECTORY [SAMPLES [THREADS]]]".into());
    }
    let folder = Folder::create(argument(0).unwrap_or("."))?;
    let (mut flush, mode) = RawFlush::open(&folder.path("raw"))?;
    let logs = Logs::open(folder.path("logs"))?;
    let log = logs.log("latency")?;

    let mut out = std::io::stdout().lock();
    if mode != DurableWriteMode::Direct {
        writeln!(
            out,
            "this file system refuses O_DIRECT: flushes go through the page cache"
        )?;
    }
    let [mut flushes, mut appends] = alternate(&mut flush, &log, samples)?;
    writeln!(out, "{:<32} {:>9} {:>9} {:>9}", "µs", "p50", "p99", "p99.9")?;
    let mut row = |name: &str, samples: &mut [Duration]| {
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| percentile(samples, share));
        writeln!(out, "{name:<32} {p50:>9.1} {p99:>9.1} {p999:>9.1}")
    };
    row("raw flush of 4 KiB", &mut flushes)?;
    row("append of 100 B, one thread", &mut appends)?;
    if count > 1 {
        let (mut latencies, rate) = together(&log, samples, count)?;
        row(&format!("append of 100 B, {count} threads"), &mut latencies)?;
        writeln!(out, "{count} threads append {rate:.0} records a second")?;
    }
    let added = percentile(&mut appends, 0.5) - percentile(&mut flushes, 0.5);
    writeln!(out, "an append takes {added:.1} µs longer than the flush (p50)")?;
    logs.close();
    Ok(())
}
