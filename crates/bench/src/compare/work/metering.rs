//! The meters of a run: read when its load begins and ends, and when the system has come to rest.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use platform::process::process_usage;

use super::super::driving::Driving;
use super::super::figures::Cost;
use super::super::machine;
use super::super::meter::Meter;
use super::super::server::Server;
use crate::contract::watch::Watch;

/// How long a system may take to come to rest after a run.
const REST_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);
/// What a system at rest may use within one look; processor time is told in steps of this.
const LOOK_CPU: Duration = Duration::from_millis(10);
const LOOK_BYTES: u64 = 512 << 10;
/// So many quiet looks in a row mean that all that was appended has gone its way.
const SETTLED_LOOKS: u32 = 1;
/// The same before somebody else's turn: also that what was deleted is gone, which a system may do a little later.
const REST_LOOKS: u32 = 2;

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

/// Waits until the system has done with what was appended. Its meters then.
pub(super) fn settle(server: &Server) -> Result<Meter> {
    wait_for_quiet(server, SETTLED_LOOKS)
}

/// Waits until the system has nothing left to do, no files to remove, and the page cache nothing to write out: then somebody
/// else may be measured. The page cache comes last: what was deleted meanwhile need not be written, and what a disk has to
/// forget of it, it is told with that.
pub(super) fn rest(server: &Server) -> Result<()> {
    wait_for_quiet(server, REST_LOOKS)?;
    machine::write_out();
    Ok(())
}

/// Waits for so many looks in a row in which the system did next to nothing, but not for ever.
fn wait_for_quiet(server: &Server, looks: u32) -> Result<Meter> {
    let end = Instant::now() + REST_WITHIN;
    let (mut before, mut stored_before) = (server.meter()?, server.stored_bytes());
    let mut quiet = 0;
    while quiet < looks && Instant::now() < end && !server.is_in_driver() {
        std::thread::sleep(LOOK);
        let (now, stored) = (server.meter()?, server.stored_bytes());
        let is_quiet = now.cpu.saturating_sub(before.cpu) <= LOOK_CPU
            && now.written_bytes.saturating_sub(before.written_bytes) <= LOOK_BYTES
            && stored_before.saturating_sub(stored) <= LOOK_BYTES;
        quiet = if is_quiet { quiet + 1 } else { 0 };
        (before, stored_before) = (now, stored);
    }
    Ok(before)
}
