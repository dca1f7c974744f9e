//! ZLog's third layout: no key-value store; Ropewalk's own journal, with its compact index in memory.
//!
//! A shard is a partition, a run of entries one record batch. The committer stages and flushes; a thread in the background
//! keeps journal files ready and lays out what is durable into segments. The store is theirs in turn: neither holds it while
//! it waits for the disk.

mod background;

use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use platform::clock::{Clock, SystemClock};
use platform::disk::{Disk, Lock, RealDisk};
use platform::random::Random;
use record::{BatchBuilder, ClusterId, Compression, Epoch, Limits, Offset, PartitionId, TopicId};
use storage::{
    Append, BatchBytes, DirectoryId, JournalIdentity, JournalSizes, Read, Reserve, SegmentRolling,
    StageError, Store, StoreConfig,
};

use crate::layout::{Layout, Run, Visit};
use background::{Background, Held};

const MIB: usize = 1 << 20;
/// How much a reader takes from the store at a time.
const READ_BYTES: usize = MIB;

/// Sizes as a node of the product has them by default.
const CONFIG: StoreConfig = StoreConfig {
    identity: JournalIdentity {
        cluster: ClusterId(*b"storage layouts\0"),
        directory: DirectoryId([5; 16]),
        node: 1,
        journal: 0,
    },
    journal: JournalSizes {
        file_bytes: 64 << 20,
        files_max: 8,
    },
    layout_trigger_bytes: 32 << 20,
    tail_cache_bytes: 128 * MIB,
    chunk_cache_bytes: 64 * MIB,
    superseded_bytes_max: 64 << 20,
};

pub(crate) struct Journal {
    background: Background,
    clock: SystemClock,
    /// Keeps other processes out.
    _lock: Box<dyn Lock>,
}

impl Journal {
    pub(crate) fn open(directory: &Path) -> Result<Journal> {
        Journal::open_with(directory, CONFIG)
    }

    fn open_with(directory: &Path, config: StoreConfig) -> Result<Journal> {
        let directory = directory.join("journal");
        let opening = || format!("cannot open {}", directory.display());
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(&directory).with_context(opening)?);
        let lock = disk.lock().with_context(opening)?;
        let (mut store, recovered) = Store::open(disk, Random::SYSTEM, config)?;
        for partition in &recovered.partitions {
            store.open_partition(partition.id, SegmentRolling::default());
            store.commit_to(partition.id, partition.next);
        }
        Ok(Journal {
            background: Background::start(store)?,
            clock: SystemClock::new(),
            _lock: lock,
        })
    }

    /// The run as one record batch; its numbers are given when it is staged.
    fn batch(&self, run: &Run<'_>, now_ms: i64) -> Bytes {
        let mut builder = BatchBuilder::new(Compression::None);
        for (_, entry) in run.entries() {
            builder.append(now_ms, None, Some(entry), &[]);
        }
        builder.build()
    }

    /// Stages one batch; while the journal has no room, flushes what is staged and waits for the background.
    fn stage<'a>(
        &'a self,
        mut held: Held<'a>,
        id: PartitionId,
        append: &Append,
        mut batch: BatchBytes,
    ) -> Result<Held<'a>> {
        loop {
            if held.store.bounds(id).is_none() {
                held.store.open_partition(id, SegmentRolling::default());
            }
            match held.store.append(id, append, &mut batch) {
                Ok(()) => return Ok(held),
                Err(StageError::Full) => held = self.background.make_room(self.flush(held)?)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Flushes all that is staged, and has the background do what follows from it.
    fn flush<'a>(&'a self, mut held: Held<'a>) -> Result<Held<'a>> {
        while let Some(flush) = held.store.next_flush() {
            drop(held);
            let result = flush.run();
            held = self.background.hold();
            for (id, next) in held.store.flushed(flush, result)? {
                held.store.commit_to(id, next);
            }
        }
        self.background.flushed(&mut held);
        Ok(held)
    }

    /// Whole batches from the one that holds `from` on, from memory or from the disk.
    fn read(&self, id: PartitionId, from: u64, bytes_max: usize) -> Result<Vec<Bytes>> {
        let mut read = {
            let store = &mut self.background.hold().store;
            let (_, next) = store.bounds(id).context("the shard is empty")?;
            store.read(id, offset(from), next, bytes_max)
        };
        loop {
            match read? {
                Read::Ready(batches) | Read::Part(batches) => return Ok(batches),
                Read::UnderWay => unreachable!("nothing is read ahead here"),
                Read::Job(job) => {
                    let outcome = job.run();
                    read = self.background.hold().store.finish_read(outcome);
                }
            }
        }
    }
}

impl Layout for Journal {
    fn append(&self, runs: &[Run<'_>]) -> Result<()> {
        let now_ms = self.clock.wall_ms();
        let mut held = None;
        for run in runs {
            let count = (run.bytes.len() / run.entry_bytes) as u64;
            let append = Append {
                epoch: Epoch(0),
                first: offset(run.position),
                next: offset(run.position + count),
                max_timestamp_ms: now_ms,
                append_time_ms: None,
                producer_id: None,
                aborts: None,
                reserve: Reserve::Keep,
            };
            let batch = self.batch(run, now_ms).into();
            let store = held.take().unwrap_or_else(|| self.background.hold());
            held = Some(self.stage(store, partition(run.shard), &append, batch)?);
        }
        match held {
            Some(held) => self.flush(held).map(drop),
            None => Ok(()),
        }
    }

    fn scan(&self, shard: u32, positions: Range<u64>, visit: &mut Visit<'_>) -> Result<()> {
        let mut left = positions;
        while !left.is_empty() {
            let before = left.start;
            // A single entry needs no more than its own batch, which always comes.
            let bytes_max = if left.end - left.start == 1 { 1 } else { READ_BYTES };
            for batches in self.read(partition(shard), left.start, bytes_max)? {
                if show(&batches, shard, &mut left, visit)?.is_break() {
                    return Ok(());
                }
            }
            ensure!(left.start > before, missing(left.start, shard));
        }
        Ok(())
    }

    fn tail(&self, shard: u32) -> Result<u64> {
        let bounds = self.background.hold().store.bounds(partition(shard));
        Ok(bounds.map_or(0, |(_, next)| next.0 as u64))
    }
}

/// Shows those entries of some batches that are left to be shown.
fn show(batches: &[u8], shard: u32, left: &mut Range<u64>, visit: &mut Visit<'_>) -> Result<ControlFlow<()>> {
    for batch in record::batches(batches) {
        let (_, batch) = batch?;
        for entry in record::records(batch, &Limits::default())? {
            let entry = entry?;
            let position = entry.offset.0 as u64;
            if position < left.start {
                continue;
            }
            if left.is_empty() {
                return Ok(ControlFlow::Break(()));
            }
            ensure!(position == left.start, missing(left.start, shard));
            left.start += 1;
            let value = entry.value.context("an entry has no bytes")?;
            if visit(&value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn missing(position: u64, shard: u32) -> String {
    format!("the entry at position {position} of shard {shard} is missing")
}

fn partition(shard: u32) -> PartitionId {
    PartitionId {
        topic: TopicId(*b"storage layouts\0"),
        index: i32::try_from(shard).expect("there are not that many shards"),
    }
}

fn offset(position: u64) -> Offset {
    Offset(i64::try_from(position).expect("there are not that many entries"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends far more than the journal's files can take: the committer has to wait for the background again and again.
    #[test]
    fn a_full_journal_waits_for_the_background() {
        let directory = tempfile::tempdir().expect("a directory");
        let config = StoreConfig {
            journal: JournalSizes {
                file_bytes: 256 << 10,
                files_max: 3,
            },
            layout_trigger_bytes: 512 << 10,
            tail_cache_bytes: 64 << 10,
            ..CONFIG
        };
        let journal = Journal::open_with(directory.path(), config).expect("nothing is wrong with the disk");
        let entry = |position: u64| vec![position as u8; 50_000];
        for position in 0..200u64 {
            let (shard, bytes) = ((position % 2) as u32, entry(position));
            let run = Run {
                shard,
                position: position / 2,
                entry_bytes: bytes.len(),
                bytes: &bytes,
            };
            journal.append(&[run]).expect("room is made");
        }
        drop(journal);
        let journal = Journal::open_with(directory.path(), config).expect("it was closed");
        for shard in 0..2 {
            assert_eq!(journal.tail(shard).expect("it is open"), 100);
            let mut position = u64::from(shard);
            let mut compare = |found: &[u8]| {
                assert_eq!(found, entry(position));
                position += 2;
                ControlFlow::Continue(())
            };
            journal.scan(shard, 0..100, &mut compare).expect("all is there");
            assert_eq!(position, 200 + u64::from(shard));
        }
    }
}
