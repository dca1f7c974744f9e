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

use platform::disk::Disk;
use record::{BatchHeader, KeyedRecord, Limits, PartitionId, Retained, batches, emptied, retain, visit_keys};

use super::key_map::KeyMap;
use super::output::{Output, remove_leftovers};
use super::source::{Place, Portion, Source};
use super::verdict::{Judge, Verdict};
use super::{Cleaned, CompactionStep, Rewritten, StepResult, remember};
use crate::checksum::JournalIdentity;
use crate::fault::Fault;
use crate::segment::{Segment, SegmentName};

/// How much one step reads before it gives others a turn. A run that is written meanwhile comes on top.
const STEP_BYTES: u64 = 512 << 10;

/// What a pass may touch.
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
    /// Compacted segments that belong to the partition: files of others are left over.
    known: Vec<SegmentName>,
    /// Held until a segment is rewritten: the journal file that it adopted is not used again before.
    leases: Vec<(SegmentName, Arc<()>)>,
    judge: Judge,
    stage: Stage,
    groups: VecDeque<Vec<Segment>>,
    /// Tombstones that stayed, for each pass remembered and this one: of the groups that are done, and of the one under way.
    tombstones: Vec<u64>,
    tombstones_of_group: Vec<u64>,
}

enum Stage {
    /// The keys of the dirty part are taken note of.
    Mapping(Source),
    /// The next group is to be begun.
    Between,
    /// A segment by itself is looked at: if nothing goes, it stays as it is.
    Looking(Source, Segment),
    Writing(Box<Writing>),
}

struct Writing {
    source: Source,
    output: Output,
    counts: Rewritten,
}

/// What a pass works with, beside segments and their reach.
pub(crate) struct Means {
    pub(crate) limits: Limits,
    pub(crate) hash_key: [u64; 2],
    pub(crate) key_map_bytes: usize,
    pub(crate) delete_retention_ms: i64,
    pub(crate) now_ms: i64,
}

impl Pass {
    /// A pass over `segments`, which follow each other and of which nothing changes any more.
    pub(crate) fn new(
        (disk, journal, partition): (Arc<dyn Disk>, JournalIdentity, PartitionId),
        reach: Reach,
        means: &Means,
        segments: Vec<Segment>,
        leases: Vec<(SegmentName, Arc<()>)>,
        known: Vec<SegmentName>,
        cleaned: Vec<Cleaned>,
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
            stage: Stage::Mapping(Source::new(place.clone(), &segments, dirty_from)),
            place,
            reach: Reach { dirty_from, ..reach },
            limits: means.limits,
            segments,
            leases,
            known,
            groups: VecDeque::new(),
            tombstones: vec![0; cleaned.len() + 1],
            tombstones_of_group: Vec::new(),
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

    /// The partition that it goes over.
    pub(super) fn partition(&self) -> PartitionId {
        self.place.partition
    }

    /// Makes the next step.
    pub(super) fn step(&mut self) -> Result<StepResult, Fault> {
        let (mut bytes_read, mut bytes_written) = (0, 0);
        let result = loop {
            let written_before = self.written();
            let step = self.portion(&mut bytes_read);
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
        if result.is_err()
            && let Stage::Writing(writing) = std::mem::replace(&mut self.stage, Stage::Between)
        {
            writing.output.abandon();
        }
        Ok(StepResult {
            step: result?,
            bytes_read,
            bytes_written,
        })
    }

    fn written(&self) -> u64 {
        match &self.stage {
            Stage::Writing(writing) => writing.output.written(),
            _ => 0,
        }
    }

    /// Goes on with the next portion of whatever is under way.
    fn portion(&mut self, bytes_read: &mut u64) -> Result<CompactionStep, Fault> {
        match &mut self.stage {
            Stage::Between => return self.begin_group(),
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
                    Some(portion) if self.anything_goes(&portion)? => self.begin_writing(vec![segment])?,
                    Some(_) => {}
                    None => self.end_group(),
                }
            }
            Stage::Writing(writing) => {
                let portion = writing.source.next()?;
                *bytes_read += portion.as_ref().map_or(0, |portion| portion.bytes);
                match portion {
                    Some(portion) => self.write(&portion)?,
                    None => return self.end_writing().map(CompactionStep::Rewritten),
                }
            }
        }
        Ok(CompactionStep::More)
    }

    /// Notes the keys of a portion. False when that was the last, or the map is full.
    fn map(&mut self, portion: Option<&Portion>) -> Result<bool, Fault> {
        let Some(portion) = portion else {
            return Ok(false);
        };
        let Judge { map, until, .. } = &mut self.judge;
        let dirty_from = self.reach.dirty_from;
        for content in &portion.contents {
            for batch in batches(content) {
                let (header, bytes) = batch.map_err(|error| portion.damaged(error))?;
                if header.attributes.is_control() || header.next_offset().0 <= dirty_from {
                    continue;
                }
                let mut full_at = None;
                let mut note = |record: &KeyedRecord<'_>| {
                    let offset = record.offset.0;
                    match record.key.filter(|_| offset >= dirty_from) {
                        Some(key) if !map.put(key, offset) => {
                            full_at = Some(offset);
                            ControlFlow::Break(())
                        }
                        _ => ControlFlow::Continue(()),
                    }
                };
                visit_keys(bytes, &self.limits, &mut note).map_err(|error| portion.damaged(error))?;
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
            let until = (*until).max(cleaned.last().map_or(0, |last| last.until));
            let remembered = remember(cleaned, &self.tombstones, until, *now_ms);
            return Ok(CompactionStep::Done(remembered));
        };
        if let [segment] = &group[..] {
            let source = Source::new(self.place.clone(), &group, i64::MIN);
            self.stage = Stage::Looking(source, *segment);
        } else {
            self.begin_writing(group)?;
        }
        Ok(CompactionStep::More)
    }

    /// Whether anything of a portion goes. Counts the tombstones that stay.
    fn anything_goes(&mut self, portion: &Portion) -> Result<bool, Fault> {
        let (judge, tombstones) = (&self.judge, &mut self.tombstones_of_group);
        for content in &portion.contents {
            for batch in batches(content) {
                let (header, bytes) = batch.map_err(|error| portion.damaged(error))?;
                if header.attributes.is_control() {
                    continue;
                }
                let mut goes = false;
                let mut look = |record: &KeyedRecord<'_>| match judge.judge(record) {
                    Verdict::Tombstone(seen_by) => {
                        tombstones[seen_by] += 1;
                        ControlFlow::Continue(())
                    }
                    Verdict::Stays => ControlFlow::Continue(()),
                    Verdict::Superseded | Verdict::Expired => {
                        goes = true;
                        ControlFlow::Break(())
                    }
                };
                visit_keys(bytes, &self.limits, &mut look).map_err(|error| portion.damaged(error))?;
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

    fn begin_writing(&mut self, group: Vec<Segment>) -> Result<(), Fault> {
        // Counted again while they are written.
        self.tombstones_of_group = vec![0; self.tombstones.len()];
        remove_leftovers(&self.place, &self.known)?;
        let (first, last) = (group[0], group[group.len() - 1]);
        let generation = group.iter().map(|segment| segment.generation).max().unwrap_or(0);
        let segment = Segment {
            generation: generation + 1,
            next: last.next,
            ..first
        };
        let output = Output::create(&self.place, segment)?;
        self.stage = Stage::Writing(Box::new(Writing {
            source: Source::new(self.place.clone(), &group, i64::MIN),
            counts: Rewritten {
                old: group.iter().map(Segment::name).collect(),
                new: segment,
                records_removed: 0,
                tombstones_removed: 0,
            },
            output,
        }));
        Ok(())
    }

    /// Writes what stays of a portion.
    fn write(&mut self, portion: &Portion) -> Result<(), Fault> {
        let Stage::Writing(writing) = &mut self.stage else {
            unreachable!("asked for while a group is written");
        };
        let Writing { output, counts, .. } = &mut **writing;
        let (judge, tombstones) = (&self.judge, &mut self.tombstones_of_group);
        for content in &portion.contents {
            for batch in batches(content) {
                let (header, bytes) = batch.map_err(|error| portion.damaged(error))?;
                let mut keep = |record: &KeyedRecord<'_>| {
                    let verdict = judge.judge(record);
                    match verdict {
                        Verdict::Stays => {}
                        Verdict::Tombstone(seen_by) => tombstones[seen_by] += 1,
                        Verdict::Superseded => counts.records_removed += 1,
                        Verdict::Expired => {
                            counts.records_removed += 1;
                            counts.tombstones_removed += 1;
                        }
                    }
                    verdict.stays()
                };
                let retained = if header.attributes.is_control() {
                    Retained::All
                } else if header.next_offset().0 <= self.reach.log_start {
                    Retained::Nothing
                } else {
                    retain(bytes, &self.limits, &mut keep).map_err(|error| portion.damaged(error))?
                };
                let stays = match retained {
                    Retained::All => Some(bytes.to_vec()),
                    Retained::Some(fewer) => Some(fewer),
                    // The segment's end stays known by its last batch, and with it who wrote that.
                    Retained::Nothing if header.next_offset().0 == counts.new.next => {
                        Some(emptied(bytes).map_err(|error| portion.damaged(error))?)
                    }
                    Retained::Nothing => None,
                };
                if let Some(bytes) = stays {
                    let header = BatchHeader::read(&bytes).map_err(|error| portion.damaged(error))?;
                    output.push(&header, bytes)?;
                }
            }
        }
        Ok(())
    }

    fn end_writing(&mut self) -> Result<Rewritten, Fault> {
        let Stage::Writing(writing) = &mut self.stage else {
            unreachable!("asked for while a group is written");
        };
        let new = writing.output.finish()?;
        let counts = writing.counts.clone();
        self.known.push(new.name());
        self.segments
            .retain(|segment| !counts.old.contains(&segment.name()));
        self.leases.retain(|(name, _)| !counts.old.contains(name));
        self.end_group();
        Ok(Rewritten { new, ..counts })
    }
}
