//! Runs that kill a node while records are appended, one after the other: how long a client waits for its next acknowledgement.
//!
//! First the node dies that leads, then, of another system, one that does not. Each system was started for it: none may have been
//! through a death before. Killed nodes stay dead. Each acknowledged record must be there, once.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::figures;
use super::super::plan::Load;
use super::super::record::Run;
use super::check::{check, check_samples, verify};
use super::{Running, Stored, command, limit};
use bench::contract::watch::Watch;
use bench::contract::{Append, Done};

/// Appended before it counts: what a client and a system do for the first time takes longer than the death of some nodes.
const WARMUP_RECORDS: u64 = 1_000;
/// How long drivers send again what is not acknowledged.
pub(in super::super) const SENT_AGAIN_FOR: Duration = Duration::from_secs(120);
/// When a node is killed, as a share of the time for which records are appended.
const KILLED_AT: f64 = 0.5;

/// The node that dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Death {
    Leader,
    Other,
}

impl Death {
    /// The victim's place among so many nodes, where this one leads, from 1 on; where none does, all are alike.
    fn place(self, leader: Option<u32>, nodes: u32) -> usize {
        let leader = leader.map_or(0, |node| node.saturating_sub(1));
        let place = match self {
            Death::Leader => leader,
            Death::Other => (leader + 1) % nodes,
        };
        place as usize
    }
}

impl Running<'_> {
    /// Appends to two new systems, and kills the leader of one and another node of the other.
    pub(super) fn fail_over(&mut self, load: &Load) -> Result<Run> {
        let mut run = Run::default();
        let mut latencies = Vec::new();
        let mut verified_records = 0;
        for (death, name) in [(Death::Leader, "stall_leader_s"), (Death::Other, "stall_other_s")] {
            self.fleet.discard(self.way);
            let (done, verified) = self.lose(death, load)?;
            let longest_s = done.latency_ns.last().map_or(0.0, |(ns, _)| *ns as f64 / 1e9);
            run.figures
                .insert(name.to_owned(), (longest_s * 1e4).round() / 1e4);
            latencies.push(done.latency_ns);
            verified_records += verified;
        }
        self.fleet.discard(self.way);
        run.latency_ns = figures::merged(latencies.iter());
        if let Some(ns) = figures::median_ns(&run.latency_ns) {
            run.figures.insert("p50_us".to_owned(), ns as f64 / 1e3);
        }
        run.verified_records = Some(verified_records);
        Ok(run)
    }

    /// Appends to a new system and kills a node of it meanwhile; what came of that, and how many records were read back.
    fn lose(&mut self, death: Death, load: &Load) -> Result<(Done, u64)> {
        let (server, driving) = self.fleet.have(self.way)?;
        let log = driving.create(load.shards, self.way, server)?;
        let node = death.place(driving.leader(&log)?, server.nodes());
        let append = Append {
            warmup_records: WARMUP_RECORDS,
            retry: true,
            ..command(&log, load, self.manner)
        };
        let after = Duration::from_secs_f64(append.seconds.unwrap_or(self.manner.seconds) * KILLED_AT);
        let mut blow = Blow::new(server.killing(node)?, after, self.tell);
        let done = driving.append(&append, limit(load, self.manner) + SENT_AGAIN_FOR, &mut blow);
        // However the load went: nobody is killed later than now.
        let struck = blow.wait()?;
        let done = done?;
        check(&done, load)?;
        check_samples(&done, &append, self.way.system.peer.file.acknowledges)?;
        ensure!(
            struck.is_some_and(|struck| struck.as_secs_f64() < done.seconds),
            "it was over after {} s, before a node was dead ({struck:?})",
            done.seconds
        );
        let stored = Stored::new(&log, load, &done, server);
        let verified = verify(&stored, &[], driving)?;
        Ok((done, verified))
    }
}

/// Strikes once, some time after a load began.
struct Blow<'a> {
    /// The deed, until it is on its way.
    strike: Option<Box<dyn FnOnce() -> Result<()> + Send>>,
    after: Duration,
    /// How long after the load's beginning it had struck.
    coming: Option<JoinHandle<Result<Duration>>>,
    tell: &'a dyn Fn(u64),
}

impl Blow<'_> {
    fn new(
        strike: impl FnOnce() -> Result<()> + Send + 'static,
        after: Duration,
        tell: &dyn Fn(u64),
    ) -> Blow<'_> {
        Blow {
            strike: Some(Box::new(strike)),
            after,
            coming: None,
            tell,
        }
    }

    /// Returns when it has struck, if it ever was on its way: how long after the load's beginning that was.
    fn wait(self) -> Result<Option<Duration>> {
        let coming = self
            .coming
            .map(|coming| coming.join().expect("a panic is a bug here"));
        coming.transpose()
    }
}

impl Watch for Blow<'_> {
    fn started(&mut self) -> Result<()> {
        let (after, began) = (self.after, Instant::now());
        self.coming = self.strike.take().map(|strike| {
            thread::spawn(move || {
                thread::sleep(after);
                strike()?;
                Ok(began.elapsed())
            })
        });
        Ok(())
    }

    fn progress(&mut self, records: u64) {
        (self.tell)(records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_is_never_the_leader() {
        for (leader, nodes, dies, other) in [(Some(1), 3, 0, 1), (Some(3), 3, 2, 0), (None, 3, 0, 1)] {
            assert_eq!(Death::Leader.place(leader, nodes), dies);
            assert_eq!(Death::Other.place(leader, nodes), other);
        }
    }
}
