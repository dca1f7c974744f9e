//! The meters of a run: read when its load begins and ends, and when the system has come to rest.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::driving::Driving;
use super::super::figures::Cost;
use super::super::machine;
use super::super::meter::Meter;
use super::super::server::Server;
use bench::contract::watch::Watch;

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

/// How far a load is, for who does something else meanwhile.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// When its first measured record was sent.
    began: OnceLock<Instant>,
    /// When its last was acknowledged.
    ended: OnceLock<Instant>,
    /// Whether it is over, or nothing comes of it.
    is_over: AtomicBool,
    /// The client that does something else meanwhile, which is none of the others on this machine.
    client_pid: Option<u32>,
}

impl Course {
    /// Of a load beside which this client does something.
    pub(super) fn beside(client_pid: u32) -> Course {
        Course {
            client_pid: Some(client_pid),
            ..Course::default()
        }
    }

    /// From when to when it was measured, once it was.
    pub(super) fn times(&self) -> Option<(Instant, Instant)> {
        Some((*self.began.get()?, *self.ended.get()?))
    }

    /// Whether its first measured record was sent.
    pub(super) fn has_begun(&self) -> bool {
        self.began.get().is_some()
    }

    /// Whether its last was acknowledged, or nothing comes of it.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// However it went.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}

/// Reads the meters when a load begins and ends, and memory all the time between.
pub(super) struct Metering<'a> {
    server: &'a Server,
    driver_pids: Vec<u32>,
    client_before: Duration,
    /// Of a client that does something else meanwhile.
    beside_before: Duration,
    /// Of the whole machine and of this program, then.
    before: Option<(Duration, Duration)>,
    began: Instant,
    memory: Option<MemoryWatch>,
    pub(super) cost: Cost,
    tell: &'a dyn Fn(u64),
    course: Option<&'a Course>,
}

impl<'a> Metering<'a> {
    /// Of a load that all of `drivers` make together.
    pub(super) fn new(server: &'a Server, drivers: &[Driving], tell: &'a dyn Fn(u64)) -> Metering<'a> {
        Metering {
            server,
            driver_pids: drivers.iter().map(Driving::pid).collect(),
            client_before: Duration::ZERO,
            beside_before: Duration::ZERO,
            before: None,
            began: Instant::now(),
            memory: None,
            cost: Cost {
                has_server: !server.is_in_driver(),
                ..Cost::default()
            },
            tell,
            course: None,
        }
    }

    /// One that also tells `course` of it.
    pub(super) fn telling(self, course: &'a Course) -> Metering<'a> {
        Metering {
            course: Some(course),
            ..self
        }
    }

    fn client_cpu(&self) -> Result<Duration> {
        Ok(Meter::read(&self.driver_pids).context("the driver is gone")?.cpu)
    }

    fn beside_cpu(&self) -> Duration {
        let pid = self.course.and_then(|course| course.client_pid);
        Meter::read(pid.as_slice()).map_or(Duration::ZERO, |meter| meter.cpu)
    }
}

impl Watch for Metering<'_> {
    fn started(&mut self) -> Result<()> {
        self.client_before = self.client_cpu()?;
        self.cost.before = self.server.meter()?;
        self.beside_before = self.beside_cpu();
        if let Some(course) = self.course {
            course.began.get_or_init(Instant::now);
        }
        self.memory = self.cost.has_server.then(|| MemoryWatch::start(self.server));
        self.before = machine_and_own();
        self.began = Instant::now();
        Ok(())
    }

    fn progress(&mut self, records: u64) {
        (self.tell)(records);
    }

    fn done(&mut self) -> Result<()> {
        let (before, after) = (self.before, machine_and_own());
        let seconds = self.began.elapsed().as_secs_f64();
        self.cost.seconds = seconds;
        self.cost.after = self.server.meter()?;
        self.cost.client_cpu = self.client_cpu()?.saturating_sub(self.client_before);
        let beside = self.beside_cpu().saturating_sub(self.beside_before);
        if let Some(course) = self.course {
            course.ended.get_or_init(Instant::now);
            course.end();
        }
        self.cost.rss_peak_bytes = self.memory.take().map_or(0, MemoryWatch::end);
        self.cost.load = machine::load();
        let system_cpu = match self.server.is_elsewhere() {
            true => Duration::ZERO,
            false => self.cost.after.cpu.saturating_sub(self.cost.before.cpu),
        };
        self.cost.other_cpus = before.zip(after).map(|(before, after)| {
            let others = after.0.saturating_sub(before.0);
            let ours = after.1.saturating_sub(before.1) + self.cost.client_cpu + system_cpu + beside;
            others.saturating_sub(ours).as_secs_f64() / seconds
        });
        Ok(())
    }
}

/// The processor time of the whole machine and of this program.
fn machine_and_own() -> Option<(Duration, Duration)> {
    let own = Meter::read(&[std::process::id()]).ok()?;
    Some((machine::busy()?, own.cpu))
}

/// Looks how much memory a system has, until it is asked for the most.
struct MemoryWatch {
    end: Sender<()>,
    peak_bytes: JoinHandle<u64>,
}

impl MemoryWatch {
    fn start(server: &Server) -> MemoryWatch {
        let memory = server.memory();
        let (end, ended) = mpsc::channel::<()>();
        let peak_bytes = thread::spawn(move || {
            let mut peak_bytes = 0;
            // Whoever waits for the most hangs up first; if it went away, nobody wants it.
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                peak_bytes = peak_bytes.max(memory());
            }
            peak_bytes
        });
        MemoryWatch { end, peak_bytes }
    }

    fn end(self) -> u64 {
        drop(self.end);
        self.peak_bytes.join().unwrap_or_default()
    }
}

/// A load that is not measured.
pub(super) struct Unwatched;

impl Watch for Unwatched {}

/// Waits until the system has done with what was appended. Its meters then.
pub(super) fn settle(server: &Server) -> Result<Meter> {
    wait_for_quiet(server, SETTLED_LOOKS)
}

/// Waits until the system has nothing left to do, no files to remove, and the page cache nothing to write out: then somebody
/// else may be measured. The page cache comes last: what was deleted meanwhile need not be written, and what a disk has to
/// forget of it, it is told with that.
pub(super) fn rest(server: &Server) -> Result<()> {
    wait_for_quiet(server, REST_LOOKS)?;
    server.write_out()
}

fn wait_for_quiet(server: &Server, looks: u32) -> Result<Meter> {
    // A store within its driver has done all it will do when the driver has answered.
    if server.is_in_driver() {
        return server.meter();
    }
    let look = || {
        Ok(Look {
            meter: server.meter()?,
            stored_bytes: server.stored_bytes()?,
        })
    };
    Ok(look_until_quiet(look, looks)?.meter)
}

/// What a look at a system finds.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    meter: Meter,
    /// What the disk holds of it.
    stored_bytes: u64,
}

impl Look {
    /// Whether next to nothing was done since the look before.
    fn is_quiet(&self, before: &Look) -> bool {
        let (now, then) = (&self.meter, &before.meter);
        now.cpu.saturating_sub(then.cpu) <= LOOK_CPU
            && now.written_bytes.saturating_sub(then.written_bytes) <= LOOK_BYTES
            && before.stored_bytes.saturating_sub(self.stored_bytes) <= LOOK_BYTES
    }
}

/// Looks until so many looks in a row were quiet, but not for ever. The last one.
fn look_until_quiet(mut look: impl FnMut() -> Result<Look>, looks: u32) -> Result<Look> {
    let end = Instant::now() + REST_WITHIN;
    let mut before = look()?;
    let mut quiet = 0;
    while quiet < looks && Instant::now() < end {
        std::thread::sleep(LOOK);
        let now = look()?;
        quiet = if now.is_quiet(&before) { quiet + 1 } else { 0 };
        before = now;
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many looks it takes until two in a row were quiet, at a system that changes so.
    fn looks(change: impl Fn(u32, &mut Look)) -> u32 {
        let (mut count, mut now) = (0, Look::default());
        now.stored_bytes = 1 << 30;
        let look = || {
            change(count, &mut now);
            count += 1;
            Ok(now)
        };
        look_until_quiet(look, REST_LOOKS).expect("nothing fails here");
        count
    }

    #[test]
    fn a_system_rests_when_it_computes_writes_and_removes_no_more() {
        assert_eq!(looks(|_, _| {}), 3);
        assert_eq!(
            looks(|_, now| now.stored_bytes += 64 << 20),
            3,
            "what is prepared for later"
        );
        let busy = |count| count < 4;
        let ways: [fn(&mut Look); 3] = [
            |now| now.meter.cpu += Duration::from_millis(50),
            |now| now.meter.written_bytes += 64 << 20,
            |now| now.stored_bytes -= 64 << 20,
        ];
        for way in ways {
            let found = looks(|count, now| {
                if busy(count) {
                    way(now)
                }
            });
            assert_eq!(found, 4 + REST_LOOKS);
        }
    }
}
