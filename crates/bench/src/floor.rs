//! What the machine itself costs: no log can be faster than its disk's flush and its loopback's round trip.
//!
//! Every comparison begins with this, on the machine and in the minute of the comparison: absolute figures move from machine
//! to machine, and ratios to these do not.

mod beside;
mod disk;
mod loopback;
mod memory;

use std::path::PathBuf;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

pub use self::beside::Beside;
use crate::latency::{Latency, LatencyRecorder};
use crate::report::Report;

/// Where to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct FloorOptions {
    /// Directory on the disk to measure; a folder is made in it and removed again
    #[arg(long, default_value = ".")]
    pub dir: PathBuf,
    /// How often each small operation is timed; large ones less often
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub samples: u32,
    /// Report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// One operation's latencies.
#[derive(Debug, Clone, PartialEq)]
pub struct FloorTimes {
    /// What was done: a name made of letters and underscores, the same from run to run.
    pub operation: &'static str,
    /// With how many bytes.
    pub bytes: usize,
    /// How long it took.
    pub latency: Latency,
}

/// How much something does a second.
#[derive(Debug, Clone, PartialEq)]
pub struct FloorRate {
    /// What was done.
    pub operation: &'static str,
    /// 10^6 bytes a second.
    pub mb_per_s: f64,
}

/// The floors of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct FloorReport {
    /// Where the disk was measured.
    pub dir: PathBuf,
    /// Whether durable writes go round the page cache there.
    pub direct: bool,
    /// Latencies by operation and size.
    pub times: Vec<FloorTimes>,
    /// Rates.
    pub rates: Vec<FloorRate>,
}

/// Measures the machine: some seconds.
///
/// # Errors
/// If the directory cannot be written, or the loopback not be used.
pub fn run(options: &FloorOptions) -> anyhow::Result<FloorReport> {
    let mut times = Vec::new();
    let mut rates = Vec::new();
    let direct = disk::measure(options, &mut times, &mut rates)?;
    loopback::measure(options.samples, &mut times)?;
    memory::measure(&mut rates);
    Ok(FloorReport {
        dir: options.dir.clone(),
        direct,
        times,
        rates,
    })
}

/// How often an operation on `bytes` is timed: large ones take longer and vary less.
fn samples_of(samples: u32, bytes: usize) -> u32 {
    match bytes {
        0..=65_536 => samples,
        65_537..=262_144 => samples.div_ceil(4),
        _ => samples.div_ceil(10),
    }
}

fn times(operation: &'static str, bytes: usize, recorder: &LatencyRecorder) -> FloorTimes {
    FloorTimes {
        operation,
        bytes,
        latency: recorder.summary(),
    }
}

impl Serialize for FloorReport {
    /// One flat object: `disk_filled_4096_p50_us` and so on.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("workload", "floor")?;
        map.serialize_entry("dir", &self.dir)?;
        map.serialize_entry("direct", &self.direct)?;
        for row in &self.times {
            let name = format!("{}_{}", row.operation, row.bytes);
            map.serialize_entry(&format!("{name}_p50_us"), &row.latency.p50_us)?;
            map.serialize_entry(&format!("{name}_p99_us"), &row.latency.p99_us)?;
            map.serialize_entry(&format!("{name}_p999_us"), &row.latency.p999_us)?;
            map.serialize_entry(&format!("{name}_max_us"), &row.latency.max_us)?;
        }
        for row in &self.rates {
            map.serialize_entry(&format!("{}_mb_per_s", row.operation), &row.mb_per_s)?;
        }
        map.end()
    }
}

impl Report for FloorReport {
    fn text(&self) -> String {
        let mode = if self.direct {
            "O_DIRECT with RWF_DSYNC"
        } else {
            "through the page cache, then fdatasync: this file system refuses O_DIRECT"
        };
        let mut text = format!("floor of {} (durable writes: {mode})\n", self.dir.display());
        text += &format!(
            "{:<24} {:>9} {:>10} {:>10} {:>10} {:>10}\n",
            "µs", "bytes", "p50", "p99", "p99.9", "max"
        );
        for row in &self.times {
            let of = row.latency;
            text += &format!(
                "{:<24} {:>9} {:>10.1} {:>10.1} {:>10.1} {:>10.1}\n",
                row.operation, row.bytes, of.p50_us, of.p99_us, of.p999_us, of.max_us
            );
        }
        for row in &self.rates {
            text += &format!("{:<24} {:>20.0} MB/s\n", row.operation, row.mb_per_s);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_not_there_is_not_made() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = FloorOptions {
            dir: dir.path().join("nope"),
            samples: 1,
            json: false,
        };
        let error = run(&options).expect_err("nothing can be measured").to_string();
        assert!(error.starts_with("there is no directory "), "{error}");
        assert!(!options.dir.exists());
    }

    #[test]
    fn a_small_run_measures_everything_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = FloorOptions {
            dir: dir.path().to_owned(),
            samples: 2,
            json: true,
        };
        let report = run(&options).expect("it can be written");
        assert_eq!(std::fs::read_dir(dir.path()).expect("it is there").count(), 0);
        let json: serde_json::Value = serde_json::from_str(&report.render(true)).expect("JSON");
        let object = json.as_object().expect("one object");
        assert!(
            object
                .values()
                .all(|value| !value.is_object() && !value.is_array()),
            "flat"
        );
        for name in [
            "disk_filled_4096_p50_us",
            "disk_fallocated_65536_p99_us",
            "disk_growing_1048576_max_us",
            "disk_fdatasync_16384_p50_us",
            "loopback_100_p50_us",
            "memcpy_mb_per_s",
            "crc32c_mb_per_s",
            "crc64_mb_per_s",
            "disk_sequential_mb_per_s",
        ] {
            assert!(object[name].as_f64() > Some(0.0), "{name}");
        }
        assert!(report.render(false).contains("loopback"));
    }
}
