//! ZLog's first layout: the entry and what is to be known of it, together in the key-value store.
//!
//! Every byte is written to the store's journal, then to its first level, and again when levels are merged.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, ensure};
use fjall::Slice;

use crate::layout::{Layout, Run, Visit};
use crate::lsm::Lsm;

/// The metadata: a byte before the entry that says what the position holds. Entries are never junk or trimmed here.
const WRITTEN: u8 = 1;

pub(crate) struct KeyValue {
    store: Lsm,
}

impl KeyValue {
    pub(crate) fn open(directory: &Path) -> Result<KeyValue> {
        Ok(KeyValue {
            store: Lsm::open(&directory.join("entries"))?,
        })
    }
}

impl Layout for KeyValue {
    fn append(&self, runs: &[Run<'_>]) -> Result<()> {
        let pair = |run: &Run<'_>, position, entry| (run.shard, position, value(entry));
        let pairs = runs.iter().flat_map(|run| {
            run.entries()
                .map(move |(position, entry)| pair(run, position, entry))
        });
        self.store.commit(pairs)
    }

    fn scan(&self, shard: u32, positions: Range<u64>, visit: &mut Visit<'_>) -> Result<()> {
        self.store.scan(shard, positions, |position, value| {
            ensure!(
                value.first() == Some(&WRITTEN),
                "position {position} of shard {shard} holds no entry"
            );
            Ok(visit(&value[1..]))
        })
    }

    fn tail(&self, shard: u32) -> Result<u64> {
        self.store.tail(shard)
    }
}

fn value(entry: &[u8]) -> Slice {
    let mut value = Vec::with_capacity(1 + entry.len());
    value.push(WRITTEN);
    value.extend_from_slice(entry);
    value.into()
}
