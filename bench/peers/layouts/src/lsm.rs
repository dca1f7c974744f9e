//! The key-value store that two of the layouts use: a log-structured merge tree, one pair for each position.
//!
//! Keys are the shard and the position, in big endian, so that a shard's entries stand in the order of their positions.

use std::ops::{ControlFlow, Range};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Slice};

/// Memory for blocks that were read lately: what the product's node has.
pub(crate) const CACHE_BYTES: u64 = 64 << 20;

const KEY_BYTES: usize = 12;

pub(crate) struct Lsm {
    database: Database,
    entries: Keyspace,
}

impl Lsm {
    pub(crate) fn open(directory: &Path) -> Result<Lsm> {
        let opened = || {
            let database = Database::builder(directory).cache_size(CACHE_BYTES).open()?;
            let entries = database.keyspace("entries", KeyspaceCreateOptions::default)?;
            Ok::<_, fjall::Error>(Lsm { database, entries })
        };
        opened().with_context(|| format!("cannot open the key-value store in {}", directory.display()))
    }

    /// Writes all of `pairs` or none. They are on the disk when this returns: the store appends them to its journal and calls
    /// fdatasync before they can be seen.
    pub(crate) fn commit(&self, pairs: impl Iterator<Item = (u32, u64, Slice)>) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (shard, position, value) in pairs {
            batch.insert(&self.entries, key(shard, position), value);
        }
        batch.commit().context("the key-value store refused a commit")
    }

    /// Shows the values of these positions in their order.
    pub(crate) fn scan(
        &self,
        shard: u32,
        positions: Range<u64>,
        mut visit: impl FnMut(u64, &[u8]) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut wanted = positions.clone();
        let pairs = self
            .entries
            .range(key(shard, positions.start)..key(shard, positions.end));
        for pair in pairs {
            let (found, value) = pair.into_inner().context("the key-value store cannot be read")?;
            let position = wanted
                .next()
                .context("the key-value store gives more than was asked for")?;
            ensure!(
                *found == key(shard, position),
                "the entry at position {position} of shard {shard} is missing"
            );
            if visit(position, &value)?.is_break() {
                return Ok(());
            }
        }
        match wanted.next() {
            Some(position) => anyhow::bail!("the entry at position {position} of shard {shard} is missing"),
            None => Ok(()),
        }
    }

    /// The position after the last one of a shard.
    pub(crate) fn tail(&self, shard: u32) -> Result<u64> {
        let Some(last) = self.entries.prefix(shard.to_be_bytes()).next_back() else {
            return Ok(0);
        };
        let key = last.key().context("the key-value store cannot be read")?;
        let position = key.get(4..).and_then(|position| position.try_into().ok());
        let position = position.with_context(|| format!("{key:?} is no key of an entry"))?;
        Ok(u64::from_be_bytes(position) + 1)
    }
}

fn key(shard: u32, position: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..4].copy_from_slice(&shard.to_be_bytes());
    key[4..].copy_from_slice(&position.to_be_bytes());
    key
}
