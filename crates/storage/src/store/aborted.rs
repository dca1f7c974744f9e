//! The transactions that were aborted, for readers of committed records: from memory what the journal alone has, from the indexes
//! of segments the rest.
//!
//! Whoever leaves out a transaction of this list that is not aborted loses committed records, and whoever misses one shows records that never
//! counted: the list is exact, or there is none.

use std::sync::Arc;

use platform::disk::Disk;
use record::{Offset, PartitionId};

use super::Store;
use super::caches::{Listed, SegmentKey};
use super::read::ReadError;
use super::returning::Lease;
use crate::checksum::JournalIdentity;
use crate::fault::Fault;
use crate::segment::{AbortedRange, Segment, SegmentFile, SegmentName, open_segment, read_index};

/// A transaction that was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted {
    /// Its producer.
    pub producer_id: i64,
    /// The offset of its first record.
    pub first: Offset,
    /// The offset of the marker that aborts it.
    pub marker: Offset,
}

impl From<AbortedRange> for Aborted {
    fn from(range: AbortedRange) -> Aborted {
        Aborted {
            producer_id: range.producer_id,
            first: Offset(range.first),
            marker: Offset(range.marker),
        }
    }
}

/// The outcome of a look for aborted transactions.
pub enum AbortedFound {
    /// All of them.
    Ready(Vec<Aborted>),
    /// Indexes must be loaded first: run the job, give its outcome to [`Store::finish_aborted`].
    Job(AbortedJob),
}

/// A part of a log, by offsets: aborted transactions are wanted that begin before its end and end in it or behind it.
#[derive(Debug, Clone, Copy)]
struct Part {
    partition: PartitionId,
    from: i64,
    until: i64,
}

impl Part {
    fn overlaps(&self, range: &AbortedRange) -> bool {
        range.first < self.until && self.from <= range.marker
    }
}

/// Loads the lists of segments; owns all it needs.
pub struct AbortedJob {
    part: Part,
    disk: Arc<dyn Disk>,
    journal: JournalIdentity,
    /// Lists that are in memory already: the cache may not have room for all.
    known: Vec<(Segment, Listed)>,
    missing: Vec<Missing>,
}

/// A segment whose list is to be loaded.
struct Missing {
    segment: Segment,
    file: Option<SegmentFile>,
    /// Until the job has read, or is dropped.
    _lease: Lease,
}

/// The result of an [`AbortedJob`].
pub struct AbortedOutcome {
    part: Part,
    loaded: Result<Vec<(Segment, Listed)>, (SegmentName, Fault)>,
}

impl AbortedJob {
    /// Does the reading; blocks.
    pub fn run(self) -> AbortedOutcome {
        let part = self.part;
        let loaded = self.missing.iter().map(|missing| {
            let listed = self.load(missing);
            listed.map_err(|fault| (missing.segment.name(), fault))
        });
        let loaded: Result<Vec<_>, _> = loaded.collect();
        AbortedOutcome {
            part,
            loaded: loaded.map(|mut loaded| {
                loaded.extend(self.known);
                loaded
            }),
        }
    }

    fn load(&self, missing: &Missing) -> Result<(Segment, Listed), Fault> {
        let segment = &missing.segment;
        let file = match &missing.file {
            Some(file) => file.clone(),
            None => open_segment(&self.disk, &self.journal, &self.part.partition, segment)?,
        };
        let index = read_index(&file, segment)?;
        Ok((*segment, Listed::of(index.aborted)))
    }
}

impl Store {
    /// Finds the aborted transactions of which a record may be among the offsets `[from, until)`, by their first offsets: those that begin
    /// before `until` and whose markers are at `from` or behind it.
    ///
    /// # Errors
    /// `UnknownPartition`.
    pub fn aborted(
        &mut self,
        id: PartitionId,
        from: Offset,
        until: Offset,
    ) -> Result<AbortedFound, ReadError> {
        let part = Part {
            partition: id,
            from: from.0,
            until: until.0,
        };
        self.find_aborted(part, &[])
    }

    /// Takes what a job has loaded. If the segments changed meanwhile, another job may follow.
    ///
    /// # Errors
    /// `Fault` if an index is damaged or unreadable; `UnknownPartition`.
    pub fn finish_aborted(&mut self, outcome: AbortedOutcome) -> Result<AbortedFound, ReadError> {
        let AbortedOutcome { part, loaded } = outcome;
        match loaded {
            Ok(loaded) => {
                for (segment, listed) in &loaded {
                    self.keep_listed((part.partition, segment.name()), listed);
                }
                self.find_aborted(part, &loaded)
            }
            // Trimmed or compacted while the job ran.
            Err((name, _)) if !self.has_segment((part.partition, name)) => self.find_aborted(part, &[]),
            Err((_, fault)) => Err(fault.into()),
        }
    }

    fn find_aborted(&mut self, part: Part, loaded: &[(Segment, Listed)]) -> Result<AbortedFound, ReadError> {
        let log = self.partitions.get(&part.partition);
        let log = log.ok_or(ReadError::UnknownPartition(part.partition))?;
        let in_journal = log.aborted.iter().filter(|range| range.marker >= log.laid_out);
        let mut found: Vec<AbortedRange> = in_journal.filter(|range| part.overlaps(range)).copied().collect();
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        let from = log.segments.partition_point(|segment| segment.next <= part.from);
        for segment in log.segments[from..].iter().filter(|segment| segment.aborted > 0) {
            let key = (part.partition, segment.name());
            let just_loaded = loaded.iter().find(|(of, _)| of == segment);
            let listed = match just_loaded {
                Some((_, listed)) => Some(listed.clone()),
                None => self.caches.aborted.get(&key).cloned(),
            };
            match listed.filter(|listed| listed.ranges.len() == segment.aborted as usize) {
                Some(listed) => known.push((*segment, listed)),
                None => missing.push(*segment),
            }
        }
        if missing.is_empty() {
            for (_, listed) in known.iter().filter(|(_, listed)| listed.begins_at < part.until) {
                found.extend(listed.ranges.iter().filter(|range| part.overlaps(range)));
            }
            found.sort_unstable_by_key(|range| (range.first, range.marker));
            return Ok(AbortedFound::Ready(
                found.into_iter().map(Aborted::from).collect(),
            ));
        }
        let missing = missing.into_iter().map(|segment| Missing {
            segment,
            file: self.caches.files.get(&(part.partition, segment.name())).cloned(),
            _lease: self.lease(&segment),
        });
        Ok(AbortedFound::Job(AbortedJob {
            part,
            known,
            missing: missing.collect(),
            disk: self.disk.clone(),
            journal: self.config.identity,
        }))
    }

    fn keep_listed(&mut self, key: SegmentKey, listed: &Listed) {
        if self.has_segment(key) {
            self.caches.aborted.insert(key, listed.clone());
        }
    }
}
