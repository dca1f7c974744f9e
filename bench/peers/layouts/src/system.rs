//! The driver's commands: logs are made, opened when they are first used, and removed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bench::contract::driver::{Events, System};
use bench::contract::payload::Payloads;
use bench::contract::producers::{self, Batches, Schedule};
use bench::contract::{Append, Create, Described, Done, Read};

use crate::consume;
use crate::directory::{self, Note};
use crate::follow::follow;
use crate::layout::LayoutName;
use crate::log::Log;
use crate::produce::Producer;

/// The logs of one directory, all of one layout.
pub(crate) struct Layouts {
    directory: PathBuf,
    layout: LayoutName,
    open: BTreeMap<String, Log>,
}

impl Layouts {
    pub(crate) fn open(directory: PathBuf, layout: LayoutName) -> Result<Layouts> {
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let directory = directory.canonicalize()?;
        Ok(Layouts {
            directory,
            layout,
            open: BTreeMap::new(),
        })
    }

    /// A log that is open, or can be.
    fn log(&mut self, name: &str, shards: u32) -> Result<&Log> {
        let log: &Log = match self.open.entry(name.to_owned()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(place) => {
                let folder = directory::folder(&self.directory, name)?;
                let note = directory::read_note(&folder)?;
                let note = note.with_context(|| format!("there is no log {name}: create it first"))?;
                let layout: LayoutName = note.layout.parse()?;
                ensure!(
                    layout == self.layout,
                    "the log {name} has the layout {layout}, not {}",
                    self.layout
                );
                place.insert(Log::open(&folder, layout, note.shards)?)
            }
        };
        log.check_shards(shards)?;
        Ok(log)
    }
}

impl System for Layouts {
    fn describe(&mut self) -> Result<Described> {
        let mut settings = BTreeMap::from([("layout".to_owned(), self.layout.to_string())]);
        if self.layout != LayoutName::Journal {
            settings.insert("store".to_owned(), format!("fjall {}", fjall_version()));
            settings.insert("persist".to_owned(), "SyncData for each commit".to_owned());
            settings.insert("cache_size".to_owned(), crate::lsm::CACHE_BYTES.to_string());
        }
        Ok(Described {
            client: "layouts".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings,
        })
    }

    fn create(&mut self, create: &Create) -> Result<()> {
        let folder = directory::folder(&self.directory, &create.log)?;
        ensure!(
            create.nodes <= 1,
            "there is one node, {} were asked for",
            create.nodes
        );
        ensure!(
            create.settings.is_empty(),
            "logs have no settings, {:?} were given",
            create.settings
        );
        ensure!(
            directory::read_note(&folder)?.is_none(),
            "the log {} exists",
            create.log
        );
        directory::make(&folder)?;
        let log = Log::open(&folder, self.layout, create.shards)?;
        let note = Note {
            layout: self.layout.to_string(),
            shards: create.shards,
        };
        directory::write_note(&folder, &note)?;
        self.open.insert(create.log.clone(), log);
        Ok(())
    }

    fn delete(&mut self, log: &str) -> Result<()> {
        let folder = directory::folder(&self.directory, log)?;
        ensure!(directory::read_note(&folder)?.is_some(), "there is no log {log}");
        self.open.remove(log);
        directory::remove(&folder)
    }

    fn append(&mut self, append: &Append, events: &Events<'_>) -> Result<Done> {
        let log = self.log(&append.log, append.shards)?;
        let payloads = Payloads::new(append.record_bytes)?;
        let schedule = Schedule::new(append);
        let connect = |producer| Ok(Producer::new(producer, &payloads, log));
        let produce = || producers::run(append, Batches::ByDriver, &schedule, connect, events);
        if !append.follow {
            return produce();
        }
        let (mut done, deliveries) = follow(log, &schedule, produce)?;
        done.delivery_ns = Some(deliveries.pairs());
        Ok(done)
    }

    fn read(&mut self, read: &Read, events: &Events<'_>) -> Result<Done> {
        consume::read(self.log(&read.log, read.shards)?, read, events)
    }
}

/// The version that was built in.
fn fjall_version() -> &'static str {
    let locked = include_str!("../Cargo.lock")
        .split("name = \"fjall\"\nversion = \"")
        .nth(1);
    locked
        .and_then(|rest| rest.split('"').next())
        .expect("it is a dependency")
}
