//! ZLog's second layout: entries one after the other in a file, what is to be known of them in the key-value store.
//!
//! The file is flushed before the store says where the entries are. What a crash leaves behind the last such place is never
//! read: appends go on behind it.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use fjall::Slice;

use crate::directory::sync_directory;
use crate::layout::{Layout, Run, Visit};
use crate::lsm::Lsm;

/// How much a reader takes from the file at a time.
const READ_BYTES: usize = 1 << 20;
const PLACE_BYTES: usize = 16;

pub(crate) struct Bytestream {
    store: Lsm,
    file: File,
    /// Only the committer takes it.
    end: Mutex<End>,
}

struct End {
    position: u64,
    /// What is written at once.
    bytes: Vec<u8>,
}

/// The metadata of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    start: u64,
    length: u32,
    crc32: u32,
}

impl Bytestream {
    pub(crate) fn open(directory: &Path) -> Result<Bytestream> {
        let store = Lsm::open(&directory.join("places"))?;
        let path = directory.join("entries");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        // The name must last as long as what the store says of it.
        sync_directory(directory)?;
        let position = file
            .metadata()
            .with_context(|| format!("cannot look at {}", path.display()))?
            .len();
        Ok(Bytestream {
            store,
            file,
            end: Mutex::new(End {
                position,
                bytes: Vec::new(),
            }),
        })
    }
}

impl Layout for Bytestream {
    fn append(&self, runs: &[Run<'_>]) -> Result<()> {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let mut start = end.position;
        end.bytes.clear();
        for run in runs {
            end.bytes.extend_from_slice(run.bytes);
        }
        self.file
            .write_all_at(&end.bytes, start)
            .and_then(|()| self.file.sync_data())
            .context("the file of entries cannot be written")?;
        end.position += end.bytes.len() as u64;
        let entries = runs.iter().flat_map(|run| {
            run.entries()
                .map(|(position, entry)| (run.shard, position, entry))
        });
        self.store.commit(entries.map(|(shard, position, entry)| {
            let place = Place::of(start, entry);
            start += entry.len() as u64;
            (shard, position, Slice::from(place.encode()))
        }))
    }

    fn scan(&self, shard: u32, positions: Range<u64>, visit: &mut Visit<'_>) -> Result<()> {
        let mut left = positions.end - positions.start;
        let mut window = Window {
            file: &self.file,
            start: 0,
            bytes: Vec::new(),
        };
        self.store.scan(shard, positions, |position, value| {
            let place = Place::decode(value).with_context(|| {
                format!("what is known of position {position} of shard {shard} is not sound")
            })?;
            let entry = window.read(&place, left)?;
            left -= 1;
            ensure!(
                crc32(entry) == place.crc32,
                "the entry at position {position} of shard {shard} is damaged"
            );
            Ok(visit(entry))
        })
    }

    fn tail(&self, shard: u32) -> Result<u64> {
        self.store.tail(shard)
    }
}

/// A part of the file in memory: neighbours in a shard are mostly neighbours in the file.
struct Window<'a> {
    file: &'a File,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// The entry at `place`, of at most `left` that are still wanted.
    fn read(&mut self, place: &Place, left: u64) -> Result<&[u8]> {
        let length = place.length as usize;
        let end = self.start + self.bytes.len() as u64;
        if place.start < self.start || place.start + u64::from(place.length) > end {
            let wanted = (u64::from(place.length).saturating_mul(left)).min(READ_BYTES as u64) as usize;
            self.fill(place.start, length, wanted.max(length))?;
        }
        let at = (place.start - self.start) as usize;
        Ok(&self.bytes[at..at + length])
    }

    /// Reads `wanted` bytes from `start` on, or as many as there are, but `least` at least.
    fn fill(&mut self, start: u64, least: usize, wanted: usize) -> Result<()> {
        self.start = start;
        self.bytes.resize(wanted, 0);
        let mut filled = 0;
        while filled < least {
            let read = self
                .file
                .read_at(&mut self.bytes[filled..], start + filled as u64);
            let read = read.context("the file of entries cannot be read")?;
            ensure!(
                read > 0,
                "the file of entries ends before byte {}",
                start + least as u64
            );
            filled += read;
        }
        self.bytes.truncate(filled);
        Ok(())
    }
}

impl Place {
    fn of(start: u64, entry: &[u8]) -> Place {
        Place {
            start,
            length: u32::try_from(entry.len()).expect("an entry is below 4 GiB"),
            crc32: crc32(entry),
        }
    }

    fn encode(&self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        bytes[..8].copy_from_slice(&self.start.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_be_bytes());
        bytes[12..].copy_from_slice(&self.crc32.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Place> {
        let (start, rest) = bytes.split_first_chunk()?;
        let (length, crc32) = rest.split_first_chunk()?;
        Some(Place {
            start: u64::from_be_bytes(*start),
            length: u32::from_be_bytes(*length),
            crc32: u32::from_be_bytes(crc32.try_into().ok()?),
        })
    }
}

fn crc32(entry: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, entry) as u32
}
