//! Reading: from frames in memory, else from cached chunks, else by a job from the journal or a segment.
//!
//! A read returns whole batches as they were appended. It never returns less than the batch that holds the wanted
//! offset, however large it is, and nothing at or behind `until`, which is the owner's committed tail.

use std::sync::Arc;

use bytes::Bytes;
use platform::disk::Disk;
use record::{BatchHeader, Offset, PartitionId};

use super::Store;
use crate::checksum::JournalIdentity;
use crate::fault::{Doing, Fault};
use crate::journal::FrameBatches;
use crate::journal::RereadError;
use crate::partition::PartitionLog;
use crate::segment::{
    Chunk, Segment, SegmentFile, SegmentName, Table, open_segment, read_chunks, read_table,
};

pub(crate) type SegmentKey = (PartitionId, SegmentName);
/// The position tells the chunk; the name has a generation, so that chunks of before and after a compaction never mix.
pub(crate) type ChunkKey = (PartitionId, SegmentName, u64);

/// Weighs cache entries by their bytes.
#[derive(Clone)]
pub(crate) struct ByteWeight;

impl quick_cache::Weighter<ChunkKey, Bytes> for ByteWeight {
    fn weight(&self, _: &ChunkKey, content: &Bytes) -> u64 {
        content.len() as u64
    }
}

impl quick_cache::Weighter<SegmentKey, Table> for ByteWeight {
    fn weight(&self, _: &SegmentKey, table: &Table) -> u64 {
        (table.len() * size_of::<Chunk>()).max(1) as u64
    }
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store does not have the partition.
    #[error("partition {0} is not here")]
    UnknownPartition(PartitionId),
    /// The offset was trimmed, or is behind the end.
    #[error("offset {wanted} is outside of {log_start}..{next}")]
    OutOfRange {
        /// What was asked for.
        wanted: Offset,
        /// The first offset kept.
        log_start: Offset,
        /// The offset after the last one.
        next: Offset,
    },
    /// The bytes are damaged or unreadable; they are not served.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// The outcome of a read: whole batches in order, possibly none, or a job that will have them.
pub enum Read {
    /// The batches. Each element is one batch or several adjacent ones.
    Ready(Vec<Bytes>),
    /// Run it anywhere, then give its outcome to `finish_read`.
    Job(ReadJob),
}

/// Where the first record with a timestamp of at least the wanted one may be.
pub enum Located {
    /// Not before this offset; read on from here and look at the records.
    From(Offset),
    /// In no batch.
    Nowhere,
    /// The index must be loaded first: run the job, give its outcome to `finish_read`, ask again.
    Job(ReadJob),
}

#[derive(Clone, Copy)]
struct Wanted {
    partition: PartitionId,
    from: i64,
    until: i64,
    bytes_max: usize,
}

/// A read that needs the disk.
pub struct ReadJob {
    wanted: Wanted,
    source: Box<Source>,
}

enum Source {
    Journal {
        frames: Vec<FrameBatches>,
        identity: JournalIdentity,
    },
    Segment(SegmentSource),
}

struct SegmentSource {
    disk: Arc<dyn Disk>,
    segment: Segment,
    journal: JournalIdentity,
    file: Option<SegmentFile>,
    table: Option<Table>,
}

/// What a job brought, for `finish_read`.
pub struct ReadOutcome {
    wanted: Wanted,
    /// What it read, if not the journal.
    segment: Option<SegmentName>,
    result: Result<Loaded, Failed>,
}

enum Loaded {
    Journal(Vec<Bytes>),
    Segment {
        segment: SegmentName,
        file: SegmentFile,
        table: Table,
        chunks: Vec<(Chunk, LoadedChunk)>,
    },
}

/// A chunk for the reader, a slice of all that was read, and a copy of its own for the cache: a slice there would keep
/// the whole read in memory for as long as one chunk is cached.
struct LoadedChunk {
    content: Bytes,
    cached: Bytes,
}

enum Failed {
    Fault(Fault),
    /// The journal file was reused while the job ran: what it held is in a segment now.
    Moved,
}

impl ReadJob {
    /// Does the reading; blocks.
    pub fn run(self) -> ReadOutcome {
        let result = match &*self.source {
            Source::Journal { frames, identity } => read_frames(frames, identity),
            Source::Segment(source) => source.load(&self.wanted).map_err(Failed::Fault),
        };
        let segment = match &*self.source {
            Source::Journal { .. } => None,
            Source::Segment(source) => Some(source.segment.name()),
        };
        ReadOutcome {
            wanted: self.wanted,
            segment,
            result,
        }
    }
}

fn read_frames(frames: &[FrameBatches], identity: &JournalIdentity) -> Result<Loaded, Failed> {
    let mut batches = Vec::new();
    for frame in frames {
        match frame.read(identity) {
            Ok(read) => batches.extend(read),
            Err(RereadError::NotThere) => return Err(Failed::Moved),
            Err(RereadError::Disk(error)) => {
                return Err(Failed::Fault(Fault::Disk {
                    doing: Doing::Reading,
                    file: "the journal".into(),
                    error,
                }));
            }
        }
    }
    Ok(Loaded::Journal(batches))
}

impl SegmentSource {
    fn load(&self, wanted: &Wanted) -> Result<Loaded, Fault> {
        let file = match &self.file {
            Some(file) => file.clone(),
            None => open_segment(&self.disk, &self.journal, &wanted.partition, &self.segment)?,
        };
        let table = match &self.table {
            Some(table) => table.clone(),
            None => Arc::new(read_table(&file, &self.segment)?),
        };
        let chosen = choose_chunks(&table, wanted);
        let loaded = read_chunks(&file, chosen)?
            .into_iter()
            .map(|content| LoadedChunk {
                cached: Bytes::copy_from_slice(&content),
                content,
            });
        let chunks = chosen.iter().copied().zip(loaded).collect();
        Ok(Loaded::Segment {
            segment: self.segment.name(),
            file,
            table,
            chunks,
        })
    }
}

/// The neighbouring chunks that a read wants: the one with its first offset, and as many more as it may take.
fn choose_chunks<'a>(table: &'a [Chunk], wanted: &Wanted) -> &'a [Chunk] {
    if wanted.bytes_max == 0 {
        return &[];
    }
    let first = table.partition_point(|chunk| chunk.next <= wanted.from);
    let mut bytes = 0;
    let chosen = table[first..].iter().enumerate().take_while(|(index, chunk)| {
        bytes += chunk.length as usize;
        *index == 0 || (bytes <= wanted.bytes_max && chunk.first < wanted.until)
    });
    let count = chosen.count();
    &table[first..first + count]
}

/// Cuts the wanted batches out of chunks, in order, into `found`. Chunks hold whole batches, whose headers were checked.
fn cut(content: &Bytes, wanted: &Wanted, bytes: &mut usize, found: &mut Vec<Bytes>) {
    let (mut start, mut at) = (None, 0);
    while at < content.len() {
        let Ok(header) = BatchHeader::read(&content[at..]) else {
            break;
        };
        let next = header.next_offset().0;
        let end = at + header.length_bytes;
        if next > wanted.from {
            let first_of_all = start.is_none() && found.is_empty();
            if next > wanted.until || (!first_of_all && *bytes + header.length_bytes > wanted.bytes_max) {
                break;
            }
            *bytes += header.length_bytes;
            start.get_or_insert(at);
        }
        at = end;
    }
    if let Some(start) = start {
        found.push(content.slice(start..at));
    }
}

impl Store {
    /// Reads whole batches from the one that holds `from` on, all before `until`, together at most `bytes_max` bytes
    /// but at least one batch.
    ///
    /// # Errors
    /// `OutOfRange` below the log's start or behind its end.
    pub fn read(
        &mut self,
        id: PartitionId,
        from: Offset,
        until: Offset,
        bytes_max: usize,
    ) -> Result<Read, ReadError> {
        let log = self.partitions.get(&id).ok_or(ReadError::UnknownPartition(id))?;
        if from.0 < log.log_start || from.0 > log.next {
            let (log_start, next) = (Offset(log.log_start), Offset(log.next));
            return Err(ReadError::OutOfRange {
                wanted: from,
                log_start,
                next,
            });
        }
        let wanted = Wanted {
            partition: id,
            from: from.0,
            until: until.0.min(log.next),
            // Zero asks for an index only, as `locate_timestamp` does.
            bytes_max: bytes_max.max(1),
        };
        if wanted.from >= wanted.until {
            return Ok(Read::Ready(Vec::new()));
        }
        if let Some(index) = log.tail_index(wanted.from) {
            if log.tail[index].frame >= self.journal.resident_from() {
                return Ok(Read::Ready(self.read_resident(log, index, &wanted)));
            }
            if wanted.from >= log.laid_out {
                return Ok(Read::Job(self.plan_frames(log, index, wanted)));
            }
        }
        self.read_segment(wanted)
    }

    fn read_resident(&self, log: &PartitionLog, index: usize, wanted: &Wanted) -> Vec<Bytes> {
        let mut batches = Vec::new();
        let mut bytes = 0;
        for batch in log.tail.range(index..) {
            bytes += batch.length as usize;
            if batch.next > wanted.until || (bytes > wanted.bytes_max && !batches.is_empty()) {
                break;
            }
            let staged = crate::journal::Staged {
                frame: batch.frame,
                start: batch.start,
            };
            batches.push(
                self.journal
                    .resident(staged, batch.length as usize)
                    .expect("frames from resident_from on are in memory"),
            );
        }
        batches
    }

    fn plan_frames(&self, log: &PartitionLog, index: usize, wanted: Wanted) -> ReadJob {
        let mut frames: Vec<FrameBatches> = Vec::new();
        let mut bytes = 0;
        for batch in log.tail.range(index..) {
            bytes += batch.length as usize;
            let enough = batch.next > wanted.until || (bytes > wanted.bytes_max && !frames.is_empty());
            if enough || batch.frame >= self.journal.resident_from() {
                break;
            }
            let range = (batch.start, batch.length);
            match frames.last_mut() {
                Some(last) if last.location.frame_sequence == batch.frame => last.ranges.push(range),
                _ => {
                    let location = self
                        .journal
                        .location(batch.frame)
                        .expect("a frame that is not laid out is kept");
                    frames.push(FrameBatches {
                        location,
                        ranges: vec![range],
                    });
                }
            }
        }
        ReadJob {
            wanted,
            source: Box::new(Source::Journal {
                frames,
                identity: self.config.identity,
            }),
        }
    }

    fn read_segment(&mut self, wanted: Wanted) -> Result<Read, ReadError> {
        let log = self.partitions.get(&wanted.partition).expect("asked for above");
        let index = log
            .segment_index(wanted.from)
            .expect("what is not in the tail is in a segment");
        let segment = log.segments[index];
        let wanted = Wanted {
            until: wanted.until.min(segment.next),
            from: wanted.from.max(segment.first),
            ..wanted
        };
        if let Some(table) = self.tables.get(&(wanted.partition, segment.name())).cloned() {
            let batches = self.read_cached(&table, &segment, &wanted);
            if !batches.is_empty() {
                return Ok(Read::Ready(batches));
            }
        }
        Ok(Read::Job(self.plan_segment(segment, wanted)))
    }

    fn read_cached(&mut self, table: &Table, segment: &Segment, wanted: &Wanted) -> Vec<Bytes> {
        let mut batches = Vec::new();
        let mut bytes = 0;
        for chunk in choose_chunks(table, wanted) {
            let Some(content) = self
                .chunks
                .get(&(wanted.partition, segment.name(), chunk.position))
            else {
                break;
            };
            cut(content, wanted, &mut bytes, &mut batches);
        }
        batches
    }

    fn plan_segment(&mut self, segment: Segment, wanted: Wanted) -> ReadJob {
        let key = (wanted.partition, segment.name());
        let source = SegmentSource {
            disk: self.disk.clone(),
            segment,
            journal: self.config.identity,
            file: self.files.get(&key).cloned(),
            table: self
                .tables
                .get(&key)
                .filter(|table| covers(table, &segment))
                .cloned(),
        };
        ReadJob {
            wanted,
            source: Box::new(Source::Segment(source)),
        }
    }

    /// Takes a job's outcome: caches what it read and returns the batches. If the data moved meanwhile, another
    /// `Read` follows.
    ///
    /// # Errors
    /// `Fault` if the bytes are damaged or unreadable; as `read` if they were given up meanwhile.
    pub fn finish_read(&mut self, outcome: ReadOutcome) -> Result<Read, ReadError> {
        let wanted = outcome.wanted;
        let gone = outcome
            .segment
            .is_some_and(|segment| !self.has_segment(wanted.partition, segment));
        match outcome.result {
            Ok(Loaded::Journal(batches)) => Ok(Read::Ready(batches)),
            Ok(Loaded::Segment {
                segment,
                file,
                table,
                chunks,
            }) => {
                let mut batches = Vec::new();
                let mut bytes = 0;
                // What was trimmed or compacted away meanwhile was still right to read, but is not to be cached: an open
                // file that was removed takes its space for as long as the handle is kept.
                let is_kept = self.has_segment(wanted.partition, segment);
                for (chunk, LoadedChunk { content, cached }) in chunks {
                    cut(&content, &wanted, &mut bytes, &mut batches);
                    if is_kept {
                        self.chunks
                            .insert((wanted.partition, segment, chunk.position), cached);
                    }
                }
                if is_kept {
                    self.files.insert((wanted.partition, segment), file);
                    self.tables.insert((wanted.partition, segment), table);
                }
                Ok(Read::Ready(batches))
            }
            Err(Failed::Fault(_)) if self.was_given_up(&wanted) && wanted.bytes_max == 0 => {
                Ok(Read::Ready(Vec::new()))
            }
            // Trimmed or deleted while the job ran: that the file is gone is no damage.
            Err(Failed::Fault(_)) if self.was_given_up(&wanted) => self.read_again(&wanted),
            // Compacted while the job ran: the records are in another segment. An index is asked for again by who wants it.
            Err(Failed::Fault(_)) if gone && wanted.bytes_max == 0 => Ok(Read::Ready(Vec::new())),
            Err(Failed::Fault(_)) if gone => self.read_again(&wanted),
            Err(Failed::Fault(fault)) => Err(fault.into()),
            Err(Failed::Moved) => self.read_moved(wanted),
        }
    }

    fn read_moved(&mut self, wanted: Wanted) -> Result<Read, ReadError> {
        let still_there = self
            .partitions
            .get(&wanted.partition)
            .is_some_and(|log| wanted.from >= log.log_start && wanted.from >= log.laid_out);
        if still_there {
            let file = self.disk.root().join("journals").display().to_string();
            let what = format!(
                "the frame with offset {} of {} does not match its checksum",
                wanted.from, wanted.partition
            );
            return Err(Fault::Damaged {
                file,
                position: 0,
                what,
            }
            .into());
        }
        self.read_again(&wanted)
    }

    fn read_again(&mut self, wanted: &Wanted) -> Result<Read, ReadError> {
        self.read(
            wanted.partition,
            Offset(wanted.from),
            Offset(wanted.until),
            wanted.bytes_max,
        )
    }

    pub(super) fn has_segment(&self, partition: PartitionId, name: SegmentName) -> bool {
        let log = self.partitions.get(&partition);
        log.is_some_and(|log| log.has_segment(name))
    }

    fn was_given_up(&self, wanted: &Wanted) -> bool {
        let log = self.partitions.get(&wanted.partition);
        log.is_none_or(|log| wanted.from < log.log_start)
    }

    /// Finds where to look for the first record with a timestamp of at least `timestamp_ms`.
    ///
    /// # Errors
    /// As `read`.
    pub fn locate_timestamp(&mut self, id: PartitionId, timestamp_ms: i64) -> Result<Located, ReadError> {
        let log = self.partitions.get(&id).ok_or(ReadError::UnknownPartition(id))?;
        let segment = log
            .segments
            .iter()
            .find(|segment| segment.max_timestamp_ms >= timestamp_ms)
            .copied();
        let Some(segment) = segment else {
            let in_tail = log
                .tail
                .iter()
                .find(|batch| batch.max_timestamp_ms >= timestamp_ms);
            return Ok(in_tail.map_or(Located::Nowhere, |batch| {
                Located::From(Offset(batch.first.max(log.log_start)))
            }));
        };
        let log_start = log.log_start;
        if let Some(table) = self
            .tables
            .get(&(id, segment.name()))
            .filter(|table| covers(table, &segment))
        {
            let chunk = table.iter().find(|chunk| chunk.max_timestamp_ms >= timestamp_ms);
            let first = chunk.map_or(segment.first, |chunk| chunk.first);
            return Ok(Located::From(Offset(first.max(log_start))));
        }
        let wanted = Wanted {
            partition: id,
            from: segment.first,
            until: segment.next,
            bytes_max: 0,
        };
        Ok(Located::Job(self.plan_segment(segment, wanted)))
    }

    /// The greatest timestamp of any batch kept; `None` if there is none.
    pub fn max_timestamp(&self, id: PartitionId) -> Option<i64> {
        let log = self.partitions.get(&id)?;
        let segments = log.segments.iter().map(|segment| segment.max_timestamp_ms);
        segments
            .chain(log.tail.iter().map(|batch| batch.max_timestamp_ms))
            .max()
    }
}

/// Whether a cached index reaches the segment's end: it may have been loaded before the last run was appended.
fn covers(table: &Table, segment: &Segment) -> bool {
    table.last().is_some_and(|chunk| chunk.next == segment.next)
}
