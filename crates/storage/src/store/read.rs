//! Reading: from frames in memory, else from cached chunks, else by a job from the journal or a segment.
//!
//! A read returns whole batches as they were appended. It never returns less than the batch that holds the wanted
//! offset, however large it is, and nothing at or behind `until`, which is the owner's committed tail.

use bytes::Bytes;
use record::{Offset, PartitionId};

use super::Store;
use super::caches::SegmentKey;
use super::layout::does_not_match;
use super::load::{Failed, Loaded, SegmentSource, Source};
use super::pieces::{Cut, covers, piece_key};
use super::resident::Resident;
use crate::damage::Damage;
use crate::fault::{Doing, Fault};
use crate::journal::{FrameBatches, MissingFrame, RereadError, SPAN_BYTES_MAX};
use crate::partition::PartitionLog;
use crate::segment::{Segment, Table};

pub use super::load::{ReadJob, ReadOutcome};

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store does not have the partition.
    #[error("partition {0} is not here")]
    UnknownPartition(PartitionId),
    /// The offset was trimmed, or is behind the end.
    #[error("offset {wanted} is outside of {log_start}..{next}")]
    OutOfRange {
        /// The offset that was asked for.
        wanted: Offset,
        /// The first offset kept.
        log_start: Offset,
        /// The offset after the last one.
        next: Offset,
    },
    /// The bytes are damaged or unreadable; they are not served.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The same, of a part of a segment: another replica may have it.
    #[error("{}", .0.fault())]
    Damaged(Box<Damage>),
}

/// The outcome of a read: whole batches in order, possibly none, or a job that will have them.
pub enum Read {
    /// The batches. Each element is one batch or several adjacent ones.
    Ready(Vec<Bytes>),
    /// The same, at least one; but what follows them is elsewhere: another read from there on may find more that fits.
    Part(Vec<Bytes>),
    /// Run it anywhere, then give its outcome to `finish_read`.
    Job(ReadJob),
    /// It is being read ahead: ask again after the next `finish_read_ahead`.
    UnderWay,
}

impl Read {
    fn found(batches: Vec<Bytes>, stopped_short: bool) -> Read {
        match stopped_short {
            true => Read::Part(batches),
            false => Read::Ready(batches),
        }
    }
}

/// Where the first record with a timestamp of at least the wanted one may be.
pub enum Located {
    /// Not before this offset; read on from here and look at the records.
    From(Offset),
    /// In no batch.
    Nowhere,
    /// The index must be loaded first: run the job, give its outcome to `finish_locate`.
    Job(ReadJob),
}

/// The batches that a read is to find: from the one that holds `from` on, all before `until`.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) partition: PartitionId,
    pub(super) from: i64,
    pub(super) until: i64,
    /// Zero asks for the segment's index only.
    pub(super) bytes_max: usize,
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
        let mut found = Resident::default();
        let mut bytes = 0;
        for batch in log.tail.range(index..) {
            bytes += batch.length as usize;
            if batch.next > wanted.until || (bytes > wanted.bytes_max && !found.is_empty()) {
                break;
            }
            let staged = crate::journal::Staged {
                frame: batch.frame,
                start: batch.start,
            };
            let resident = self
                .journal
                .resident(staged, batch.length as usize)
                .expect("frames from resident_from on are in memory");
            found.push(resident, self.journal.memory_of(batch.frame));
        }
        found.into_batches()
    }

    /// Frames are read whole, whoever else has a part in them: so it is their bytes that are limited, too.
    fn plan_frames(&self, log: &PartitionLog, index: usize, wanted: Wanted) -> ReadJob {
        let read_bytes_max = wanted.bytes_max.max(SPAN_BYTES_MAX);
        let mut frames: Vec<FrameBatches> = Vec::new();
        let (mut bytes, mut read_bytes, mut stopped_short) = (0, 0, false);
        for batch in log.tail.range(index..) {
            bytes += batch.length as usize;
            if batch.next > wanted.until || (bytes > wanted.bytes_max && !frames.is_empty()) {
                break;
            }
            let range = (batch.start, batch.length);
            let last = frames.last_mut();
            if let Some(last) = last.filter(|last| last.location.frame_sequence == batch.frame) {
                last.ranges.push(range);
                continue;
            }
            if batch.frame >= self.journal.resident_from() {
                stopped_short = true;
                break;
            }
            let location = self
                .journal
                .location(batch.frame)
                .expect("a frame that is not laid out is kept");
            read_bytes += location.total_bytes as usize;
            if read_bytes > read_bytes_max && !frames.is_empty() {
                stopped_short = true;
                break;
            }
            frames.push(FrameBatches {
                location,
                ranges: vec![range],
            });
        }
        let identity = self.config.identity;
        let source = Source::Journal {
            frames,
            identity,
            stopped_short,
        };
        ReadJob::new(wanted, source)
    }

    fn read_segment(&mut self, wanted: Wanted) -> Result<Read, ReadError> {
        let log = self.partitions.get(&wanted.partition).expect("asked for above");
        let index = log
            .segment_index(wanted.from)
            .expect("what is not in the tail is in a segment");
        let segment = log.segments[index];
        let wanted = Wanted {
            from: wanted.from.max(segment.first),
            ..wanted
        };
        if let Some(table) = self
            .caches
            .tables
            .get(&(wanted.partition, segment.name()))
            .cloned()
            && let Some(read) = self.read_cached(&table, &segment, &wanted)
        {
            return Ok(read);
        }
        if self.caches.ahead.is_loading(wanted.partition, wanted.from) {
            return Ok(Read::UnderWay);
        }
        Ok(Read::Job(self.plan_segment(segment, wanted)))
    }

    /// The part of a read that the cache has, up to the first gap; `None` if that is nothing.
    fn read_cached(&mut self, table: &Table, segment: &Segment, wanted: &Wanted) -> Option<Read> {
        let mut cut = Cut::new(wanted);
        while let Some(key) = piece_key((wanted.partition, segment.name()), table, cut.next())
            && let Some(piece) = self
                .caches
                .pieces
                .get(&key)
                .filter(|piece| piece.holds(cut.next()))
            && cut.take(piece)
        {}
        self.finish_cut(cut, wanted)
    }

    /// The batches found, if any; the reader goes on behind them.
    fn finish_cut(&mut self, cut: Cut<'_>, wanted: &Wanted) -> Option<Read> {
        let (next, stopped_short) = (cut.next(), cut.stopped_short());
        let batches = cut.into_batches();
        let bytes = batches.iter().map(Bytes::len).sum();
        (next > wanted.from).then(|| {
            self.caches
                .ahead
                .note_read(wanted.partition, wanted.from, next, bytes);
            Read::found(batches, stopped_short)
        })
    }

    pub(super) fn plan_segment(&mut self, segment: Segment, wanted: Wanted) -> ReadJob {
        let key: SegmentKey = (wanted.partition, segment.name());
        let source = SegmentSource {
            disk: self.disk.clone(),
            segment,
            journal: self.config.identity,
            file: self.caches.files.get(&key).cloned(),
            table: self
                .caches
                .tables
                .get(&key)
                .filter(|table| covers(table, &segment))
                .cloned(),
            _lease: self.lease(&segment),
            whole_pieces: false,
        };
        ReadJob::new(wanted, Source::Segment(Box::new(source)))
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
            .is_some_and(|segment| !self.has_segment((wanted.partition, segment)));
        match outcome.result {
            Ok(Loaded::Journal {
                batches,
                stopped_short,
            }) => Ok(Read::found(batches, stopped_short)),
            Ok(Loaded::Segment {
                segment,
                file,
                table,
                pieces,
            }) => {
                let mut cut = Cut::new(&wanted);
                for piece in &pieces {
                    cut.take(piece);
                }
                let found = self.finish_cut(cut, &wanted);
                self.keep_loaded((wanted.partition, segment), file, table, pieces);
                Ok(found.unwrap_or(Read::Ready(Vec::new())))
            }
            Err(Failed::Fault(_) | Failed::Damaged(_))
                if self.was_given_up(&wanted) && wanted.bytes_max == 0 =>
            {
                Ok(Read::Ready(Vec::new()))
            }
            // Trimmed or deleted while the job ran: that the file is gone is no damage.
            Err(Failed::Fault(_) | Failed::Damaged(_)) if self.was_given_up(&wanted) => {
                self.read_again(&wanted)
            }
            // Compacted while the job ran: the records are in another segment. An index is asked for again by who wants it.
            Err(Failed::Fault(_) | Failed::Damaged(_)) if gone && wanted.bytes_max == 0 => {
                Ok(Read::Ready(Vec::new()))
            }
            Err(Failed::Fault(_) | Failed::Damaged(_)) if gone => self.read_again(&wanted),
            Err(Failed::Fault(fault)) => Err(fault.into()),
            Err(Failed::Damaged(damage)) => Err(ReadError::Damaged(damage)),
            Err(Failed::Reread(RereadError::NotThere(missing))) => self.read_moved(wanted, missing),
            Err(Failed::Reread(RereadError::Disk { file, error })) => {
                let fault = Doing::Reading.failed(error).at(self.journal_file(file));
                match self.was_given_up(&wanted) {
                    true => self.read_again(&wanted),
                    false => Err(fault.into()),
                }
            }
        }
    }

    fn read_moved(&mut self, wanted: Wanted, missing: MissingFrame) -> Result<Read, ReadError> {
        let still_there = self
            .partitions
            .get(&wanted.partition)
            .is_some_and(|log| wanted.from >= log.log_start && wanted.from >= log.laid_out);
        if still_there {
            return Err(Fault::Damaged {
                file: self.journal_file(missing.file),
                position: missing.position,
                what: format!(
                    "{}; it is to have offset {} of {}",
                    does_not_match(&missing),
                    wanted.from,
                    wanted.partition
                ),
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
            .caches
            .tables
            .get(&(id, segment.name()))
            .filter(|table| covers(table, &segment))
        {
            let first = locate_in(table, &segment, timestamp_ms);
            return Ok(Located::From(Offset(first.max(log_start))));
        }
        let wanted = Wanted {
            partition: id,
            // Not below: what fails there would pass for trimmed meanwhile, and be asked for again.
            from: segment.first.max(log_start),
            until: segment.next,
            bytes_max: 0,
        };
        Ok(Located::Job(self.plan_segment(segment, wanted)))
    }

    /// Takes the outcome of a job of `locate_timestamp` for the same time. Answers from what the job read, as the cache may
    /// not have room for it. If the data moved meanwhile, another job may follow.
    ///
    /// # Errors
    /// As `finish_read`.
    pub fn finish_locate(&mut self, outcome: ReadOutcome, timestamp_ms: i64) -> Result<Located, ReadError> {
        let id = outcome.wanted.partition;
        let loaded = match &outcome.result {
            Ok(Loaded::Segment { segment, table, .. }) => Some((*segment, table.clone())),
            _ => None,
        };
        self.finish_read(outcome)?;
        if let Some((name, table)) = loaded
            && let Some(log) = self.partitions.get(&id)
            && let Some(segment) = log.segments.iter().find(|segment| segment.name() == name)
        {
            let first = locate_in(&table, segment, timestamp_ms);
            return Ok(Located::From(Offset(first.max(log.log_start))));
        }
        self.locate_timestamp(id, timestamp_ms)
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

/// Where in a segment to look for a time, by its index.
fn locate_in(table: &Table, segment: &Segment, timestamp_ms: i64) -> i64 {
    let chunk = table.iter().find(|chunk| chunk.max_timestamp_ms >= timestamp_ms);
    chunk.map_or(segment.first, |chunk| chunk.first)
}
