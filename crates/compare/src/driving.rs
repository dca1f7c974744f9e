//! A driver while it runs: commands go in, events come out, each within a limit.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::child::{Running, Start};
use super::fleet::Way;
use super::interrupt::Interrupt;
use super::peer::Driver;
use super::server::Server;
use super::work::SENT_AGAIN_FOR;
use bench::contract::watch::Watch;
use bench::contract::{Append, Command, Create, Described, Done, Event, Read};

/// How long a driver may take to answer what is not a load.
const ANSWERED_WITHIN: Duration = Duration::from_secs(120);
/// How long it may take to remove a log. A system may have gigabytes to go through before it has let go of one.
const DELETED_WITHIN: Duration = Duration::from_secs(300);
/// How long it may take before its first measured record: connecting and warming up.
const STARTED_WITHIN: Duration = Duration::from_secs(180);
const ENDED_WITHIN: Duration = Duration::from_secs(10);
/// A driver's word for how long its load took is held against our clock. So much of that it must tell, less what may pass until its
/// words are heard and until its producers, or its consumers, are closed.
const TOLD_SHARE: f64 = 0.8;
const HEARD_WITHIN: Duration = Duration::from_millis(500);
const CONSUMERS_CLOSED_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Driving {
    process: Running,
    title: String,
    /// Of all that were started, and how many logs it has made: no two logs have one name.
    number: u32,
    logs: u32,
    /// How long it may be silent in the middle of a load: it should tell its progress every second.
    silent_max: Duration,
}

impl Driving {
    pub(super) fn start(
        driver: &Driver,
        server: &Server,
        number: u32,
        log: PathBuf,
        silent_max: Duration,
        interrupt: &Interrupt,
    ) -> Result<Driving> {
        let mut arguments = vec![server.ready().address.clone()];
        if driver.peer.file.serve.is_empty() && !driver.peer.file.variants.is_empty() {
            // The store lives in the driver, so the settings are its.
            arguments.extend(server.settings_as_arguments());
        }
        let start = Start {
            name: &driver.file.title,
            command: &driver.file.command,
            arguments: &arguments,
            environment: &BTreeMap::new(),
            folder: &driver.peer.folder,
            log,
        };
        Ok(Driving {
            process: start.start(interrupt)?,
            title: driver.file.title.clone(),
            number,
            logs: 0,
            silent_max,
        })
    }

    /// Who it is.
    ///
    /// # Errors
    /// As for all of these: if it fails, ends, says something else or nothing in time.
    pub(super) fn describe(&mut self) -> Result<Described> {
        self.say(&Command::Describe)?;
        match self.event(ANSWERED_WITHIN)? {
            Event::Described(described) => Ok(described),
            other => self.unexpected(&other),
        }
    }

    /// Makes a log for a system; its name.
    pub(super) fn create(&mut self, shards: u32, way: &Way, server: &Server) -> Result<String> {
        self.logs += 1;
        let log = format!("compare-{}-{}-{}", std::process::id(), self.number, self.logs);
        let create = Create {
            log: log.clone(),
            shards,
            nodes: server.nodes(),
            settings: way.system.variant.log_settings.clone(),
        };
        self.carry_out(&Command::Create(create), ANSWERED_WITHIN, &Event::Created)?;
        Ok(log)
    }

    pub(super) fn delete(&mut self, log: &str) -> Result<()> {
        let delete = Command::Delete { log: log.to_owned() };
        self.carry_out(&delete, DELETED_WITHIN, &Event::Deleted)
    }

    /// The node that leads a log's first shard, from 1 on; none where no node leads.
    pub(super) fn leader(&mut self, log: &str) -> Result<Option<u32>> {
        self.say(&Command::Leader { log: log.to_owned() })?;
        match self.event(ANSWERED_WITHIN)? {
            Event::Leader { node } => Ok(node),
            other => self.unexpected(&other),
        }
    }

    /// Appends, watched.
    pub(super) fn append(&mut self, append: &Append, limit: Duration, watch: &mut dyn Watch) -> Result<Done> {
        self.say(&Command::Append(append.clone()))?;
        let again = if append.retry {
            SENT_AGAIN_FOR
        } else {
            Duration::ZERO
        };
        let (done, took) = self.load(limit, self.silent_max + again, watch)?;
        // Those who follow have what they are to have later than the last acknowledgement, however much later.
        check_time(&done, took, (!append.follow).then_some(HEARD_WITHIN))?;
        Ok(done)
    }

    /// Reads, watched.
    pub(super) fn read(&mut self, read: &Read, limit: Duration, watch: &mut dyn Watch) -> Result<Done> {
        self.say(&Command::Read(read.clone()))?;
        // Readers need not tell how far they are.
        let (done, took) = self.load(limit, limit, watch)?;
        if !read.verify {
            check_time(&done, took, Some(CONSUMERS_CLOSED_WITHIN))?;
        }
        Ok(done)
    }

    /// What came of a load, and how long it took by our clock.
    fn load(
        &mut self,
        limit: Duration,
        patience_max: Duration,
        watch: &mut dyn Watch,
    ) -> Result<(Done, Duration)> {
        let began = match self.event(STARTED_WITHIN)? {
            Event::Started => Instant::now(),
            other => return self.unexpected(&other),
        };
        watch.started()?;
        let end = Instant::now() + limit;
        let (mut records, mut advanced) = (0, Instant::now());
        loop {
            let now = Instant::now();
            ensure!(
                now < end,
                "{} was not done within {} s",
                self.title,
                limit.as_secs()
            );
            let patience = (advanced + patience_max).saturating_duration_since(now);
            ensure!(
                !patience.is_zero(),
                "{} did not get on for {} s",
                self.title,
                patience_max.as_secs_f64()
            );
            match self.event(patience.min(end - now))? {
                Event::Progress { records: so_far } => {
                    if so_far > records {
                        (records, advanced) = (so_far, Instant::now());
                    }
                    watch.progress(so_far);
                }
                Event::Done(done) => {
                    let took = began.elapsed();
                    watch.done()?;
                    return Ok((*done, took));
                }
                other => return self.unexpected(&other),
            }
        }
    }

    /// Requests that are answered with no more than that they were done.
    fn carry_out(&mut self, command: &Command, limit: Duration, done: &Event) -> Result<()> {
        self.say(command)?;
        match self.event(limit)? {
            event if event == *done => Ok(()),
            other => self.unexpected(&other),
        }
    }

    fn say(&mut self, command: &Command) -> Result<()> {
        let line = serde_json::to_string(command).expect("a command is plain data");
        self.process.say(&line)
    }

    fn event(&mut self, limit: Duration) -> Result<Event> {
        let line = self.process.line(limit)?;
        serde_json::from_str(&line).with_context(|| format!("{} says what is no event: {line}", self.title))
    }

    fn unexpected<T>(&self, event: &Event) -> Result<T> {
        match event {
            Event::Failed { why } => bail!("{}: {why}", self.title),
            other => bail!("{} says at the wrong time: {other:?}", self.title),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Ends it in order.
    pub(super) fn end(mut self) {
        if self.process.wait(ENDED_WITHIN).is_err() {
            self.process.kill();
        }
    }
}

/// That a load which took so long by our clock took about as long by its driver's word: with less it would look faster than it is.
/// How much less it may be is left open where there is nothing to `spare`.
fn check_time(done: &Done, took: Duration, spare: Option<Duration>) -> Result<()> {
    if done.errors > 0 || done.records == 0 {
        // Something else is wrong with it, and says so.
        return Ok(());
    }
    let took = took.as_secs_f64();
    let least = spare.map_or(0.0, |spare| took * TOLD_SHARE - spare.as_secs_f64());
    ensure!(
        (least..=took + HEARD_WITHIN.as_secs_f64()).contains(&done.seconds),
        "the driver says that its load took {} s, but {took:.3} s passed between its words",
        done.seconds
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_tells_less_time_than_passed_is_not_believed() {
        let is_believed = |seconds: f64, took_ms: u64, spare: Option<Duration>| {
            let done = Done {
                seconds,
                records: 9,
                ..Done::default()
            };
            check_time(&done, Duration::from_millis(took_ms), spare).is_ok()
        };
        let appends = Some(HEARD_WITHIN);
        assert!(is_believed(3.0, 3_000, appends) && is_believed(3.0, 3_400, appends));
        assert!(is_believed(0.05, 300, appends), "a short load, and a slow word");
        assert!(!is_believed(0.3, 3_000, appends), "a tenth");
        assert!(!is_believed(1.5, 3_000, appends) && !is_believed(4.0, 3_000, appends));
        assert!(is_believed(3.0, 9_000, None), "consumers that follow took longer");
        assert!(!is_believed(f64::NAN, 3_000, None));
    }
}
