//! One pass over one partition, a step at a time: first the keys of the dirty part, then the segments, a group at a time.
//!
//! ```text
//!   map: dirty from ──► until        group | group | group …  each: look whether anything goes, then write what stays
//! ```
//! A pass owns all it needs and runs beside the store; each step reads and writes about as much as one flush of the journal
//! might have to wait for. It never touches the segments that it reads: what it wrote counts when the store says so.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use planted::{Bug, planted};
use platform::disk::Disk;
use record::{KeyedRecord, Limits, PartitionId, batches, visit_digests};

use super::aborted::AbortedBatches;
use super::key_hash::KeyHash;
use super::key_map::KeyMap;
use super::output::{Unwritten, remove_leftovers};
use super::source::{Place, Portion, Source};
use super::verdict::{Judge, Verdict};
use super::writing::{Rules, Writing};
use super::{Cleaned, CompactionStep, Rewritten, StepResult, remember};
use crate::checksum::JournalIdentity;
use crate::fault::Fault;
use crate::segment::{Segment, SegmentName};

/// Bytes that one step reads before it gives others a turn. A run that is written meanwhile comes on top.
const STEP_BYTES: u64 = 512 << 10;

/// The reach of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) log_start: i64,
    /// Below this each key has one record already.
    pub(crate) dirty_from: i64,
    /// Kafka's `segment.bytes`: segments are put together up to this size.
    pub(crate) segment_bytes_max: u64,
}

/// See the module.
pub(crate) struct Pass {
    place: Place,
    reach: Reach,
    limits: Limits,
    /// Those that may be rewritten, in order.
    segments: Vec<Segment>,
    /// Names of files that belong to the partition, or are to be removed: compacted segments of other names are left over.
    known: Vec<SegmentName>,
    /// Free bytes that the disk must keep.
    disk_reserve_bytes: u64,
    /// Held until a segment is rewritten: the journal file that it adopted is not used again before.
    leases: Vec<(SegmentName, Arc<()>)>,
    aborted: AbortedBatches,
    judge: Judge,
    stage: Stage,
    groups: VecDeque<Vec<Segment>>,
    /// Tombstones that stayed, for each pass remembered and this one: of the groups that are done, and of the one under way.
    tombstones: Vec<u64>,
    tombstones_of_group: Vec<u64>,
}

enum Stage {
    /// Files that earlier passes left unfinished are to be removed.
    Sweeping,
    /// The keys of the dirty part are taken note of.
    Mapping(Source),
    /// The next group is to be begun.
    Between,
    /// A segment by itself is looked at: if nothing goes, it stays as it is.
    Looking(Source, Segment),
    Writing(Box<Writing>),
}

/// The means of a pass, beside segments and their reach.
pub(crate) struct Means {
    pub(crate) limits: Limits,
    pub(crate) hash_key: [u64; 2],
    pub(crate) key_map_bytes: usize,
    pub(crate) disk_reserve_bytes: u64,
    pub(crate) delete_retention_ms: i64,
    pub(crate) now_ms: i64,
}

impl Pass {
    /// A pass over `segments`, which follow each other and of which nothing changes any more. Over none it only removes what
    /// others left.
    #[expect(clippy::too_many_arguments, reason = "each is another thing that a pass owns")]
    pub(crate) fn new(
        (disk, journal, partition): (Arc<dyn Disk>, JournalIdentity, PartitionId),
        reach: Reach,
        means: &Means,
        segments: Vec<Segment>,
        leases: Vec<(SegmentName, Arc<()>)>,
        known: Vec<SegmentName>,
        cleaned: Vec<Cleaned>,
        aborted: AbortedBatches,
    ) -> Pass {
        let end = segments.last().map_or(reach.dirty_from, |last| last.next);
        assert!(
            segments.iter().all(|segment| segment.sealed),
            "only what is complete is compacted"
        );
        let dirty_from = reach.dirty_from.max(reach.log_start);
        let keys = u64::try_from(end - dirty_from).unwrap_or(0);
        let place = Place {
            disk,
            journal,
            partition,
        };
        Pass {
            stage: Stage::Sweeping,
            place,
            reach: Reach { dirty_from, ..reach },
            limits: means.limits,
            segments,
            leases,
            known,
            disk_reserve_bytes: means.disk_reserve_bytes,
            groups: VecDeque::new(),
            tombstones: vec![0; cleaned.len() + 1],
            tombstones_of_group: Vec::new(),
            aborted,
            judge: Judge {
                map: KeyMap::new(means.hash_key, means.key_map_bytes, keys),
                until: end,
                cleaned,
                delete_retention_ms: means.delete_retention_ms,
                now_ms: means.now_ms,
            },
        }
    }

    /// Those segments that it has yet to read and has not rewritten.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The segment that it has begun to write and not ended.
    pub(crate) fn unfinished(&self) -> Option<SegmentName> {
        match &self.stage {
            Stage::Writing(writing) => Some(writing.name()),
            _ => None,
        }
    }

    /// The partition that it goes over.
    pub(super) fn partition(&self) -> PartitionId {
        self.place.partition
    }

    /// Makes the next step.
    pub(super) fn step(&mut self) -> Result<StepResult, Fault> {
        let (mut bytes_read, mut bytes_written) = (0, 0);
        let result = loop {
            let written_before = self.written();
            let step = self
                .portion(&mut bytes_read)
                .or_else(|unwritten| match unwritten {
                    Unwritten::NoRoom { bytes } => Ok(CompactionStep::NoRoom { bytes }),
                    Unwritten::Fault(fault) => Err(fault),
                });
            let written = match &step {
                Ok(CompactionStep::Rewritten(rewritten)) => rewritten.new.end,
                _ => self.written(),
            };
            bytes_written += written.saturating_sub(written_before);
            match step {
                Ok(CompactionStep::More) if bytes_read < STEP_BYTES && bytes_written == 0 => {}
                other => break other,
            }
        };
        if matches!(result, Err(_) | Ok(CompactionStep::NoRoom { .. }))
            && let Stage::Writing(writing) = std::mem::replace(&mut self.stage, Stage::Between)
        {
            writing.abandon();
        }
        Ok(StepResult {
            step: result?,
            bytes_read,
            bytes_written,
        })
    }

    fn written(&self) -> u64 {
        match &self.stage {
            Stage::Writing(writing) => writing.written(),
            _ => 0,
        }
    }

    /// Goes on with the next portion of whatever is under way.
    fn portion(&mut self, bytes_read: &mut u64) -> Result<CompactionStep, Unwritten> {
        match &mut self.stage {
            Stage::Sweeping => return Ok(self.sweep()?),
            Stage::Between => return Ok(self.begin_group()?),
            Stage::Mapping(source) => {
                let portion = source.next()?;
                *bytes_read += portion.as_ref().map_or(0, |portion| portion.bytes);
                if !self.map(portion.as_ref())? {
                    self.plan_groups();
                }
            }
            Stage::Looking(source, segment) => {
                let segment = *segment;
                let portion = source.next()?;
                *bytes_read += portion.as_ref().map_or(0, |portion| portion.bytes);
                match portion {
                    Some(portion) if self.anything_goes(&portion)? => self.begin_writing(&[segment])?,
                    Some(_) => {}
                    None => self.end_group(),
                }
            }
            Stage::Writing(writing) => {
                let portion = writing.next()?;
                *bytes_read += portion.as_ref().map_or(0, |portion| portion.bytes);
                let Some(portion) = portion else {
                    let rewritten = writing.finish()?;
                    self.end_writing(&rewritten);
                    return Ok(CompactionStep::Rewritten(rewritten));
                };
                let rules = Rules {
                    judge: &self.judge,
                    aborted: &self.aborted,
                    limits: &self.limits,
                    log_start: self.reach.log_start,
                };
                writing.write(&portion, &rules, &mut self.tombstones_of_group)?;
            }
        }
        Ok(CompactionStep::More)
    }

    fn sweep(&mut self) -> Result<CompactionStep, Fault> {
        remove_leftovers(&self.place, &self.known)?;
        if self.segments.is_empty() {
            return Ok(CompactionStep::Swept);
        }
        let source = Source::new(self.place.clone(), &self.segments, self.reach.dirty_from);
        self.stage = Stage::Mapping(source);
        Ok(CompactionStep::More)
    }

    /// Notes the keys of a portion. False when that was the last, or the map is full.
    fn map(&mut self, portion: Option<&Portion>) -> Result<bool, Fault> {
        let Some(portion) = portion else {
            return Ok(false);
        };
        let Judge { map, until, .. } = &mut self.judge;
        let no_key = map.empty_hash().clone();
        let dirty_from = self.reach.dirty_from;
        for content in &portion.contents {
            for batch in batches(content) {
                let (header, bytes) = batch.map_err(|error| portion.damaged(error))?;
                let is_aborted = self.aborted.have(&header) && !planted(Bug::AbortedSupersedes);
                let is_of_no_key = header.attributes.is_control() || is_aborted;
                if is_of_no_key || header.next_offset().0 <= dirty_from {
                    continue;
                }
                let mut full_at = None;
                let mut note = |record: &KeyedRecord<KeyHash>| {
                    let offset = record.offset.0;
                    match record.key.as_ref().filter(|_| offset >= dirty_from) {
                        Some(key) if !map.put(key, offset) => {
                            full_at = Some(offset);
                            ControlFlow::Break(())
                        }
                        _ => ControlFlow::Continue(()),
                    }
                };
                visit_digests(bytes, &self.limits, &no_key, &mut note)
                    .map_err(|error| portion.damaged(error))?;
                if let Some(offset) = full_at {
                    *until = offset;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Puts segments together that fit into one.
    fn plan_groups(&mut self) {
        tracing::debug!(
            partition = %self.place.partition,
            keys = self.judge.map.len(),
            from = self.reach.dirty_from,
            until = self.judge.until,
            "keys of the dirty part are mapped"
        );
        let until = self.judge.until;
        let mut bytes = 0;
        for segment in self.segments.iter().filter(|segment| segment.first < until) {
            bytes += segment.stored_bytes();
            match self.groups.back_mut() {
                Some(group) if bytes <= self.reach.segment_bytes_max => group.push(*segment),
                _ => {
                    bytes = segment.stored_bytes();
                    self.groups.push_back(vec![*segment]);
                }
            }
        }
        self.stage = Stage::Between;
    }

    fn begin_group(&mut self) -> Result<CompactionStep, Fault> {
        self.tombstones_of_group = vec![0; self.tombstones.len()];
        let Some(group) = self.groups.pop_front() else {
            let Judge {
                cleaned,
                until,
                now_ms,
                ..
            } = &self.judge;
            let remembered = remember(cleaned, &self.tombstones, *until, *now_ms);
            return Ok(CompactionStep::Done(remembered));
        };
        if let [segment] = &group[..] {
            let source = Source::new(self.place.clone(), &group, i64::MIN);
            self.stage = Stage::Looking(source, *segment);
        } else {
            self.begin_writing(&group)?;
        }
        Ok(CompactionStep::More)
    }

    /// Says whether anything of a portion goes. Counts the tombstones that stay.
    fn anything_goes(&mut self, portion: &Portion) -> Result<bool, Fault> {
        let (judge, tombstones) = (&self.judge, &mut self.tombstones_of_group);
        for content in &portion.contents {
            for batch in batches(content) {
                let (header, bytes) = batch.map_err(|error| portion.damaged(error))?;
                if header.attributes.is_control() {
                    continue;
                }
                if self.aborted.have(&header) && header.record_count > 0 {
                    return Ok(true);
                }
                let mut goes = false;
                let mut look = |record: &KeyedRecord<KeyHash>| match judge.judge(record) {
                    Verdict::Tombstone(seen_by) => {
                        tombstones[seen_by] += 1;
                        ControlFlow::Continue(())
                    }
                    Verdict::Stays => ControlFlow::Continue(()),
                    Verdict::Superseded | Verdict::Keyless | Verdict::Expired => {
                        goes = true;
                        ControlFlow::Break(())
                    }
                };
                visit_digests(bytes, &self.limits, judge.map.empty_hash(), &mut look)
                    .map_err(|error| portion.damaged(error))?;
                if goes {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn end_group(&mut self) {
        for (all, of_group) in self.tombstones.iter_mut().zip(&self.tombstones_of_group) {
            *all += of_group;
        }
        self.stage = Stage::Between;
    }

    fn begin_writing(&mut self, group: &[Segment]) -> Result<(), Fault> {
        // Counted again while they are written.
        self.tombstones_of_group = vec![0; self.tombstones.len()];
        // A name that waits for its removal is not used again: the file would go with it.
        let taken = self.known.iter().filter(|name| name.first == group[0].first);
        let taken = taken.map(|name| name.generation);
        let generations = group.iter().map(|segment| segment.generation).chain(taken);
        let generation = generations.max().unwrap_or(0) + 1;
        let (first, next) = (group[0].first, group[group.len() - 1].next);
        let aborted = match planted(Bug::AbortedListLost) {
            true => Vec::new(),
            false => self.aborted.ended_in(first, next),
        };
        let writing = Writing::begin(&self.place, self.disk_reserve_bytes, group, generation, aborted)?;
        self.stage = Stage::Writing(Box::new(writing));
        Ok(())
    }

    fn end_writing(&mut self, Rewritten { old, .. }: &Rewritten) {
        self.segments.retain(|segment| !old.contains(&segment.name()));
        self.leases.retain(|(name, _)| !old.contains(name));
        self.end_group();
    }
}
