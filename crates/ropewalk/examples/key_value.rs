//! A small key-value store whose write-ahead log is a Ropewalk log. What it has answered `ok` to survives kill -9.
//!
//!     key_value DIRECTORY [SNAPSHOT_EVERY]
//!
//! Commands come in on standard input, one a line, and are answered in their order, one line each:
//!
//!     set KEY VALUE     ok                  durable
//!     delete KEY        ok                  durable
//!     get KEY           VALUE, or a line with a single "-"
//!     count             how many keys there are
//!
//! Each change is a record of the log `changes`: its key, and its value or none. Every SNAPSHOT_EVERY changes all pairs go into
//! the log `snapshots` as one batch, which is there whole or not at all, and what came before is trimmed in both logs. After a
//! start the newest snapshot is read, then the changes behind it.
//!
//! Pairs that do not fit into one batch (`batch_bytes_max`, 8 MiB) cannot be a snapshot: then all changes stay, and a start
//! reads them. A store that is to grow so large would write its snapshots in parts, and say which is the last.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};

use ropewalk::{AppendError, Log, Logs, NewRecord, Offset};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Store {
    changes: Log,
    snapshots: Log,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    snapshot_every: i64,
    /// The snapshot reflects the changes before this offset.
    reflected: Offset,
}

impl Store {
    fn open(directory: &str, snapshot_every: i64) -> Result<Store> {
        let logs = Logs::open(directory)?;
        let mut store = Store {
            changes: logs.log("changes")?,
            snapshots: logs.log("snapshots")?,
            pairs: BTreeMap::new(),
            snapshot_every,
            reflected: Offset(0),
        };
        store.load_snapshot()?;
        store.replay_changes()?;
        Ok(store)
    }

    /// A snapshot begins with a record without a key: the offset that it reaches to. The last one counts.
    fn load_snapshot(&mut self) -> Result<()> {
        for record in self.snapshots.read(self.snapshots.start())? {
            let record = record?;
            let value = record.value.unwrap_or_default();
            match record.key {
                None => {
                    self.pairs.clear();
                    self.reflected = Offset(i64::from_le_bytes(value[..].try_into()?));
                }
                Some(key) => {
                    self.pairs.insert(key.to_vec(), value.to_vec());
                }
            }
        }
        Ok(())
    }

    fn replay_changes(&mut self) -> Result<()> {
        for record in self.changes.read(self.reflected)? {
            let record = record?;
            let key = record.key.unwrap_or_default();
            self.apply(&key, record.value.as_deref());
        }
        Ok(())
    }

    fn apply(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.pairs.insert(key.to_vec(), value.to_vec()),
            None => self.pairs.remove(key),
        };
    }

    /// Journals a change, then makes it.
    fn change(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let record = match value {
            Some(value) => NewRecord::keyed(key, value),
            None => NewRecord::tombstone(key),
        };
        let offset = self.changes.append(record)?;
        self.apply(key, value);
        if offset.0 + 1 - self.reflected.0 >= self.snapshot_every {
            self.take_snapshot()?;
        }
        Ok(())
    }

    /// In this order: the snapshot is durable before anything is given up that it stands for.
    fn take_snapshot(&mut self) -> Result<()> {
        let reflected = self.changes.tail();
        let place = reflected.0.to_le_bytes();
        let head = NewRecord::from(&place);
        let pairs = self.pairs.iter();
        let pairs = pairs.map(|(key, value)| NewRecord::keyed(key, value));
        let written = match self.snapshots.append_batch(std::iter::once(head).chain(pairs)) {
            Err(AppendError::TooLarge { .. }) => {
                // Most likely it will be again, and each time all pairs are gone through.
                self.snapshot_every = self.snapshot_every.saturating_mul(2);
                return Ok(());
            }
            written => written?,
        };
        self.reflected = reflected;
        self.snapshots.trim(written.start)?;
        self.changes.trim(reflected)?;
        Ok(())
    }

    fn answer(&mut self, line: &str) -> Result<String> {
        let mut words = line.splitn(3, ' ');
        let answer = match (words.next(), words.next(), words.next()) {
            (Some("set"), Some(key), Some(value)) => {
                self.change(key.as_bytes(), Some(value.as_bytes()))?;
                "ok".to_owned()
            }
            (Some("delete"), Some(key), None) => {
                self.change(key.as_bytes(), None)?;
                "ok".to_owned()
            }
            (Some("get"), Some(key), None) => {
                let value = self.pairs.get(key.as_bytes());
                value.map_or("-".into(), |value| String::from_utf8_lossy(value).into_owned())
            }
            (Some("count"), None, None) => self.pairs.len().to_string(),
            _ => format!("what is {line:?}? set KEY VALUE, delete KEY, get KEY or count"),
        };
        Ok(answer)
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (directory, snapshot_every) = match arguments.as_slice() {
        [directory] => (directory, 1_000),
        [directory, every] => (directory, every.parse()?),
        _ => return Err("key_value DIRECTORY [SNAPSHOT_EVERY]".into()),
    };
    let mut store = Store::open(directory, snapshot_every)?;
    let mut out = stdout().lock();
    for line in stdin().lock().lines() {
        let answer = store.answer(&line?)?;
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
