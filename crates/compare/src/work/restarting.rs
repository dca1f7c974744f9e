//! Runs that kill a system and start it again on what it has.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::super::plan::Load;
use super::super::record::Run;
use super::check::{check, verify};
use super::metering::Unwatched;
use super::{RECORDS_WITHIN, Running, Stored, command, limit, remove};
use bench::contract::Append;

impl Running<'_> {
    /// Appends, kills everything at once, starts it again, and appends one record more. All of them must be there.
    pub(super) fn restart(&mut self, load: &Load) -> Result<Run> {
        let (server, driving) = self.fleet.have(self.way)?;
        let log = driving.create(load.shards, self.way, server)?;
        let append = command(&log, load, self.manner);
        let done = driving.append(&append, limit(load, self.manner), &mut Unwatched)?;
        check(&done, load)?;
        let kept = Stored::new(&log, load, &done, server);
        self.fleet.crash(self.way);
        let ready = self.fleet.start_again(self.way)?;
        let (_, driving) = self.fleet.have(self.way)?;
        driving.describe()?;
        let one = Append {
            producers: 1,
            batch_records: 1,
            in_flight: 1,
            warmup_records: 0,
            records: Some(1),
            seconds: None,
            ..append
        };
        let began = Instant::now();
        let first = driving.append(&one, RECORDS_WITHIN, &mut Unwatched)?;
        let first_ack = ready + began.elapsed();
        ensure!(
            first.errors == 0,
            "the first append after the start failed: {:?}",
            first.first_error
        );
        // Killed processes lose nothing that the kernel has: a system that does not flush has it all, too.
        let verified = verify(&kept, &[(0, 0)], driving)?;
        remove(&kept, self.way, self.fleet);
        let figures = [("ready_s", ready), ("first_ack_s", first_ack)];
        let figures = figures.map(|(name, time)| (name.to_owned(), (time.as_secs_f64() * 1e3).round() / 1e3));
        Ok(Run {
            figures: figures.into(),
            verified_records: Some(verified),
            ..Run::default()
        })
    }
}
