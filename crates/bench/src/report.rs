//! Reports: one JSON object, or as text aligned lines of a name and a figure.

use std::fmt;

use serde::Serialize;

use crate::latency::Latency;
use crate::usage::Usage;

/// What a workload reports.
pub trait Report: Serialize + fmt::Display {
    /// The report as `--json` asks: one JSON object on one line, or text.
    ///
    /// # Panics
    /// Never: a report is plain data.
    fn render(&self, json: bool) -> String {
        if json {
            serde_json::to_string(self).expect("a report is plain data")
        } else {
            self.to_string()
        }
    }
}

impl<R: Serialize + fmt::Display> Report for R {}

/// Bytes of 10^6 a second.
pub(crate) fn mb_per_s(bytes: u64, seconds: f64) -> f64 {
    per_s(bytes as f64 / 1e6, seconds)
}

/// How many a second, to two places; zero in no time.
pub(crate) fn per_s(count: f64, seconds: f64) -> f64 {
    if seconds <= 0.0 {
        return 0.0;
    }
    (count / seconds * 100.0).round() / 100.0
}

/// One line of percentiles.
pub(crate) fn write_latency(f: &mut fmt::Formatter<'_>, latency: &Latency) -> fmt::Result {
    writeln!(
        f,
        "latency µs   p50 {}  p90 {}  p99 {}  p99.9 {}  p99.99 {}  max {}  mean {}",
        latency.p50_us,
        latency.p90_us,
        latency.p99_us,
        latency.p999_us,
        latency.p9999_us,
        latency.max_us,
        latency.mean_us
    )
}

/// One line of what a run cost.
pub(crate) fn write_usage(f: &mut fmt::Formatter<'_>, usage: &Usage) -> fmt::Result {
    write!(f, "cpu s        client {}", usage.client_cpu_s)?;
    if let Some(cpu) = usage.server_cpu_s {
        write!(f, "  server {cpu}")?;
    }
    if let Some(cpu) = usage.server_cpu_s_per_gb {
        write!(f, " ({cpu} per GB)")?;
    }
    if let Some(rss) = usage.server_rss_mb {
        write!(f, ", {rss} MB resident")?;
    }
    writeln!(f)
}
