//! Reports: one JSON object, or as text aligned lines of a name and a figure.

use std::fmt;

use serde::Serialize;

pub(crate) use crate::number::plain;

use crate::latency::Latency;
use crate::number;
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

/// A count and what is counted, in the singular or the plural.
pub(crate) fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    let ending = match noun {
        _ if count == 1 => "",
        _ if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {noun}{ending}", number::count(count))
}

/// Bytes in the unit that leaves few digits: B, KB, MB or GB, of 10^3 each.
pub(crate) fn bytes(bytes: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "KB")];
    let (unit, name) = units
        .into_iter()
        .find(|(unit, _)| bytes >= *unit)
        .unwrap_or((1.0, "B"));
    format!("{} {name}", plain(bytes / unit))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_bytes_read_as_people_write_them() {
        assert_eq!(counted(1_u32, "producer"), "1 producer");
        assert_eq!(counted(0_u32, "partition"), "0 partitions");
        assert_eq!(counted(1_234_u32, "fetch"), "1,234 fetches");
        for (value, text) in [
            (0.0, "0 B"),
            (100.0, "100 B"),
            (38_400.0, "38.4 KB"),
            (500_000.0, "500 KB"),
            (9_900_000.0, "9.90 MB"),
            (1_103_411_200.0, "1.10 GB"),
        ] {
            assert_eq!(bytes(value), text);
        }
    }
}
