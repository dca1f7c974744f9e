//! What a way to store a log must be able to do.
//!
//! A log has shards, each with positions from 0 without a gap. The committer gives positions and calls `append`, one call at
//! a time, with all that waits; so no position is ever written twice, as CORFU wants it.

use std::fmt;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Result, bail};

use crate::bytestream::Bytestream;
use crate::journal::Journal;
use crate::key_value::KeyValue;

/// Entries of one length that are to stand one after the other in a shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) shard: u32,
    /// Of the first of them.
    pub(crate) position: u64,
    pub(crate) entry_bytes: usize,
    /// All of them, without anything between.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Run<'a> {
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        (self.position..).zip(self.bytes.chunks_exact(self.entry_bytes))
    }
}

/// Is shown one entry after the other; breaks when it wants no more.
pub(crate) type Visit<'a> = dyn FnMut(&[u8]) -> ControlFlow<()> + 'a;

/// One log on the disk.
pub(crate) trait Layout: Send + Sync {
    /// Makes the runs durable, with what is needed to find them again. Never called again after an error: it is then unknown
    /// what is on the disk.
    fn append(&self, runs: &[Run<'_>]) -> Result<()>;

    /// Shows the entries of these positions in their order. All of them must be durable.
    fn scan(&self, shard: u32, positions: Range<u64>, visit: &mut Visit<'_>) -> Result<()>;

    /// The position after a shard's last entry, as found on the disk.
    fn tail(&self, shard: u32) -> Result<u64>;
}

/// Which of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayoutName {
    /// Entry and metadata in the key-value store.
    KeyValue,
    /// Entries in a file, metadata in the key-value store.
    Bytestream,
    /// Entries in a journal, an index in memory.
    Journal,
}

impl LayoutName {
    pub(crate) const ALL: [LayoutName; 3] =
        [LayoutName::KeyValue, LayoutName::Bytestream, LayoutName::Journal];

    /// Opens the log in `directory`; an empty one if nothing is there.
    pub(crate) fn open(self, directory: &Path) -> Result<Arc<dyn Layout>> {
        Ok(match self {
            LayoutName::KeyValue => Arc::new(KeyValue::open(directory)?),
            LayoutName::Bytestream => Arc::new(Bytestream::open(directory)?),
            LayoutName::Journal => Arc::new(Journal::open(directory)?),
        })
    }
}

impl fmt::Display for LayoutName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            LayoutName::KeyValue => "key-value",
            LayoutName::Bytestream => "bytestream",
            LayoutName::Journal => "journal",
        })
    }
}

impl FromStr for LayoutName {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<LayoutName> {
        let found = LayoutName::ALL
            .into_iter()
            .find(|layout| layout.to_string() == name);
        match found {
            Some(layout) => Ok(layout),
            None => bail!("there is no layout {name:?}: take key-value, bytestream or journal"),
        }
    }
}
