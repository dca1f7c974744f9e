//! What a system's processes have used: processor time, memory, bytes sent to the disk.

use std::time::Duration;

use anyhow::{Context, Result};
use platform::process::{process_usage, written_bytes};

/// What several processes together have used since they began; memory: now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Meter {
    /// Processor time, user and kernel.
    pub(super) cpu: Duration,
    /// Resident bytes.
    pub(super) rss_bytes: u64,
    /// Bytes that went or will go to the disk.
    pub(super) written_bytes: u64,
}

impl Meter {
    /// Reads it.
    ///
    /// # Errors
    /// If a process is gone.
    pub(super) fn read(pids: &[u32]) -> Result<Meter> {
        let mut meter = Meter::default();
        for &pid in pids {
            let usage = process_usage(pid).with_context(|| format!("process {pid}"))?;
            meter.cpu += usage.cpu_user + usage.cpu_system;
            meter.rss_bytes += usage.rss_bytes;
            meter.written_bytes += written_bytes(pid).with_context(|| format!("process {pid}"))?;
        }
        Ok(meter)
    }
}
