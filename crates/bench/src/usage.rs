//! What a run cost: processor time of this process and of the server's processes, and the server's memory.

use std::time::Duration;

use anyhow::Context;
use platform::process::process_usage;
use serde::Serialize;

/// What was used before a run.
#[derive(Debug)]
pub(crate) struct Meter {
    server_pids: Vec<u32>,
    client: Duration,
    server: Duration,
}

/// What a run used.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Processor time of this process.
    pub client_cpu_s: f64,
    /// Processor time of the server's processes together, if they were named.
    pub server_cpu_s: Option<f64>,
    /// The same for each 10^9 bytes of values.
    pub server_cpu_s_per_gb: Option<f64>,
    /// Resident memory of the server's processes together at the end, in 10^6 bytes.
    pub server_rss_mb: Option<f64>,
}

impl Meter {
    pub(crate) fn start(server_pids: &[u32]) -> anyhow::Result<Meter> {
        let (server, _) = server_usage(server_pids)?;
        Ok(Meter {
            server_pids: server_pids.to_vec(),
            client: own_cpu()?,
            server,
        })
    }

    /// What was used since then, before it is known how much that moved.
    pub(crate) fn stop(self) -> anyhow::Result<Usage> {
        let client_cpu_s = seconds(own_cpu()?.saturating_sub(self.client));
        let (cpu, rss_bytes) = server_usage(&self.server_pids)?;
        let is_named = !self.server_pids.is_empty();
        Ok(Usage {
            client_cpu_s,
            server_cpu_s: is_named.then(|| seconds(cpu.saturating_sub(self.server))),
            server_cpu_s_per_gb: None,
            server_rss_mb: is_named.then(|| round(rss_bytes as f64 / 1e6)),
        })
    }
}

impl Usage {
    /// Of a run that moved `bytes` of values.
    pub(crate) fn of_bytes(self, bytes: u64) -> Usage {
        let per_gb = |cpu_s: f64| round(cpu_s / (bytes as f64 / 1e9));
        Usage {
            server_cpu_s_per_gb: self.server_cpu_s.filter(|_| bytes > 0).map(per_gb),
            ..self
        }
    }
}

fn own_cpu() -> anyhow::Result<Duration> {
    let usage = process_usage(std::process::id()).context("cannot read this process's usage")?;
    Ok(usage.cpu_user + usage.cpu_system)
}

fn server_usage(pids: &[u32]) -> anyhow::Result<(Duration, u64)> {
    let mut cpu = Duration::ZERO;
    let mut rss_bytes = 0;
    for pid in pids {
        let usage = process_usage(*pid).with_context(|| format!("cannot read the usage of process {pid}"))?;
        cpu += usage.cpu_user + usage.cpu_system;
        rss_bytes += usage.rss_bytes;
    }
    Ok((cpu, rss_bytes))
}

fn seconds(cpu: Duration) -> f64 {
    round(cpu.as_secs_f64())
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_measured_only_if_it_is_named() {
        let usage = Meter::start(&[]).and_then(Meter::stop).expect("we run");
        assert_eq!(usage.server_cpu_s, None);
        let own = Meter::start(&[std::process::id()]).expect("we run");
        let usage = own.stop().expect("we run").of_bytes(1_000_000_000);
        assert_eq!(usage.server_cpu_s, usage.server_cpu_s_per_gb);
        assert!(usage.server_rss_mb > Some(0.1));
        let error = Meter::start(&[u32::MAX]).expect_err("no such process");
        assert!(error.to_string().contains("4294967295"));
    }
}
