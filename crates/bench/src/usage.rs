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

/// What was used during a run, before it is known how much it moved.
#[derive(Debug)]
pub(crate) struct Spent {
    client: Duration,
    /// Processor time of the server's processes, and their memory at the end; none if they were not named.
    server: Option<(Duration, u64)>,
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
    /// Starts measuring.
    pub(crate) fn start(server_pids: &[u32]) -> anyhow::Result<Meter> {
        let (server, _) = server_usage(server_pids)?;
        Ok(Meter {
            server_pids: server_pids.to_vec(),
            client: own_cpu()?,
            server,
        })
    }

    /// What was used since then.
    pub(crate) fn stop(self) -> anyhow::Result<Spent> {
        let client = own_cpu()?.saturating_sub(self.client);
        if self.server_pids.is_empty() {
            return Ok(Spent { client, server: None });
        }
        let (cpu, rss_bytes) = server_usage(&self.server_pids)?;
        Ok(Spent {
            client,
            server: Some((cpu.saturating_sub(self.server), rss_bytes)),
        })
    }
}

impl Spent {
    /// In the words of reports, for a run that moved `bytes` of values.
    pub(crate) fn usage(&self, bytes: u64) -> Usage {
        let client_cpu_s = seconds(self.client);
        let Some((cpu, rss_bytes)) = self.server else {
            return Usage {
                client_cpu_s,
                ..Usage::default()
            };
        };
        let server_cpu_s = seconds(cpu);
        let gb = bytes as f64 / 1e9;
        Usage {
            client_cpu_s,
            server_cpu_s: Some(server_cpu_s),
            server_cpu_s_per_gb: (bytes > 0).then(|| round(server_cpu_s / gb)),
            server_rss_mb: Some(round(rss_bytes as f64 / 1e6)),
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
        let usage = Meter::start(&[])
            .expect("we run")
            .stop()
            .expect("we run")
            .usage(0);
        assert_eq!(usage.server_cpu_s, None);
        let own = Meter::start(&[std::process::id()]).expect("we run");
        let usage = own.stop().expect("we run").usage(1_000_000_000);
        assert_eq!(usage.server_cpu_s, usage.server_cpu_s_per_gb);
        assert!(usage.server_rss_mb > Some(0.1));
        let error = Meter::start(&[u32::MAX]).expect_err("no such process");
        assert!(error.to_string().contains("4294967295"));
    }
}
