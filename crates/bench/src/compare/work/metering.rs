//! The meters of a run: read when its load begins and ends, and when the system has come to rest.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use platform::process::process_usage;

use super::super::driving::{Driving, Watch};
use super::super::figures::Cost;
use super::super::machine;
use super::super::meter::Meter;
use super::super::server::Server;

/// How long a system may take to come to rest after a run.
const REST_WITHIN: Duration = Duration::from_secs(10);
const REST_LOOK: Duration = Duration::from_millis(200);
/// What a system at rest may use within one look.
const REST_CPU: Duration = Duration::from_millis(20);
const REST_BYTES: u64 = 1 << 20;
/// Reads the meters when a load begins and ends.
pub(super) struct Metering<'a> {
    server: &'a Server,
    driver_pid: u32,
    client_before: Duration,
    pub(super) cost: Cost,
    tell: &'a dyn Fn(u64),
}

impl<'a> Metering<'a> {
    pub(super) fn new(server: &'a Server, driving: &Driving, tell: &'a dyn Fn(u64)) -> Metering<'a> {
        Metering {
            server,
            driver_pid: driving.pid(),
            client_before: Duration::ZERO,
            cost: Cost {
                has_server: !server.is_in_driver(),
                ..Cost::default()
            },
            tell,
        }
    }

    fn client_cpu(&self) -> Result<Duration> {
        let usage = process_usage(self.driver_pid).context("the driver is gone")?;
        Ok(usage.cpu_user + usage.cpu_system)
    }
}

impl Watch for Metering<'_> {
    fn started(&mut self) -> Result<()> {
        self.client_before = self.client_cpu()?;
        self.cost.before = self.server.meter()?;
        Ok(())
    }

    fn progress(&mut self, records: u64) {
        (self.tell)(records);
    }

    fn done(&mut self) -> Result<()> {
        self.cost.after = self.server.meter()?;
        self.cost.client_cpu = self.client_cpu()?.saturating_sub(self.client_before);
        Ok(())
    }
}

/// A load that is not measured.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    fn started(&mut self) -> Result<()> {
        Ok(())
    }

    fn progress(&mut self, _records: u64) {}

    fn done(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Waits until the system has nothing left to do, and the page cache nothing to write out. Its meters then.
pub(super) fn rest(server: &Server) -> Result<Meter> {
    machine::write_out();
    let end = Instant::now() + REST_WITHIN;
    let mut before = server.meter()?;
    loop {
        if server.is_in_driver() {
            return Ok(before);
        }
        std::thread::sleep(REST_LOOK);
        let now = server.meter()?;
        let is_idle = now.cpu.saturating_sub(before.cpu) <= REST_CPU
            && now.written_bytes.saturating_sub(before.written_bytes) <= REST_BYTES;
        if is_idle || Instant::now() >= end {
            machine::write_out();
            return Ok(now);
        }
        before = now;
    }
}
