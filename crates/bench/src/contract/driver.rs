//! A driver in Rust: reads commands, has a system carry them out, writes events.

use std::io::{BufRead, Write};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use super::watch::Watch;
use super::{Append, Command, Create, Described, Done, Event, Read};

/// What a driver must be able to do with its system. The methods may start threads of their own.
pub trait System {
    /// Names the client.
    ///
    /// # Errors
    /// In a sentence, as for all of these: it becomes `failed`.
    fn describe(&mut self) -> Result<Described>;
    /// Makes a log.
    ///
    /// # Errors
    /// If the system says so.
    fn create(&mut self, create: &Create) -> Result<()>;
    /// Removes a log.
    ///
    /// # Errors
    /// If the system says so.
    fn delete(&mut self, log: &str) -> Result<()>;
    /// The node that leads a log's first shard, from 1 on; none where no node leads.
    ///
    /// # Errors
    /// If the system does not say.
    fn leader(&mut self, _log: &str) -> Result<Option<u32>> {
        Ok(None)
    }
    /// Says whether `append` may be `transactional`.
    fn makes_transactions(&self) -> bool {
        false
    }
    /// Appends. Says `started` and `progress` itself.
    ///
    /// # Errors
    /// If it could not begin; failed records are counted instead.
    fn append(&mut self, append: &Append, events: &Events) -> Result<Done>;
    /// Reads. Says `started` itself.
    ///
    /// # Errors
    /// If the records cannot be had.
    fn read(&mut self, read: &Read, events: &Events) -> Result<Done>;
}

/// Where events go; any thread may write one.
pub struct Events<'a> {
    out: Mutex<&'a mut (dyn Write + Send)>,
}

impl<'a> Events<'a> {
    /// To `out`, one a line.
    pub fn new(out: &'a mut (dyn Write + Send)) -> Events<'a> {
        Events { out: Mutex::new(out) }
    }

    /// Writes one, at once.
    ///
    /// # Panics
    /// If another thread died while it wrote.
    pub fn say(&self, event: &Event) {
        let line = serde_json::to_string(event).expect("an event is plain data");
        let mut out = self.out.lock().expect("nobody dies while writing");
        // If nobody listens any more, the next read ends the driver.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

impl Watch for &Events<'_> {
    fn started(&mut self) -> Result<()> {
        self.say(&Event::Started);
        Ok(())
    }

    fn progress(&mut self, records: u64) {
        self.say(&Event::Progress { records });
    }
}

/// Serves commands until `commands` ends.
///
/// # Errors
/// If a line cannot be read. A command that cannot be understood or fails is answered with `failed`.
pub fn serve(system: &mut dyn System, commands: impl BufRead, out: &mut (dyn Write + Send)) -> Result<()> {
    let events = Events::new(out);
    for line in commands.lines() {
        let line = line.context("cannot read the next command")?;
        if line.trim().is_empty() {
            continue;
        }
        let event = carry_out(system, &line, &events).unwrap_or_else(|error| Event::Failed {
            why: format!("{error:#}"),
        });
        events.say(&event);
    }
    Ok(())
}

fn carry_out(system: &mut dyn System, line: &str, events: &Events) -> Result<Event> {
    let command: Command = serde_json::from_str(line).context("this is no command")?;
    Ok(match command {
        Command::Describe => Event::Described(system.describe()?),
        Command::Create(create) => {
            system.create(&create)?;
            Event::Created
        }
        Command::Delete { log } => {
            system.delete(&log)?;
            Event::Deleted
        }
        Command::Leader { log } => Event::Leader {
            node: system.leader(&log)?,
        },
        Command::Append(append) if append.transactional && !system.makes_transactions() => {
            bail!("append with \"transactional\": this driver makes no transactions")
        }
        Command::Append(append) => Event::Done(Box::new(system.append(&append, events)?)),
        Command::Read(read) => Event::Done(Box::new(system.read(&read, events)?)),
    })
}
