//! A group of segments being written anew: what stays of each batch goes to the one segment that is to take their place.

use record::{BatchError, BatchHeader, Limits, Retained, batches, emptied, retain};

use super::Rewritten;
use super::aborted::AbortedBatches;
use super::output::{Output, Unwritten};
use super::source::{Place, Portion, Source};
use super::verdict::{Judge, Verdict};
use crate::fault::Fault;
use crate::segment::{AbortedRange, Segment, SegmentName};

pub(super) struct Writing {
    source: Source,
    output: Output,
    counts: Rewritten,
}

/// The records that stay, and the limits for unpacking to find out.
pub(super) struct Rules<'a> {
    pub(super) judge: &'a Judge,
    pub(super) aborted: &'a AbortedBatches,
    pub(super) limits: &'a Limits,
    pub(super) log_start: i64,
}

impl Writing {
    /// Begins the segment of this generation in the place of a group's, whose markers abort these transactions. The disk keeps its
    /// reserve whatever is written.
    pub(super) fn begin(
        place: &Place,
        disk_reserve_bytes: u64,
        group: &[Segment],
        generation: u32,
        aborted: Vec<AbortedRange>,
    ) -> Result<Writing, Fault> {
        let (first, last) = (group[0], group[group.len() - 1]);
        let segment = Segment {
            generation,
            next: last.next,
            sparse: true,
            ..first
        };
        Ok(Writing {
            output: Output::create(place, disk_reserve_bytes, segment, aborted)?,
            source: Source::new(place.clone(), group, i64::MIN),
            counts: Rewritten {
                old: group.iter().map(Segment::name).collect(),
                new: segment,
                records_removed: 0,
                tombstones_removed: 0,
            },
        })
    }

    /// The segment being written.
    pub(super) fn name(&self) -> SegmentName {
        self.counts.new.name()
    }

    /// Bytes written so far.
    pub(super) fn written(&self) -> u64 {
        self.output.written()
    }

    /// The next portion of what is read; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<Portion>, Fault> {
        self.source.next()
    }

    /// Writes what stays of a portion. Counts the tombstones among it.
    pub(super) fn write(
        &mut self,
        portion: &Portion,
        rules: &Rules<'_>,
        tombstones: &mut [u64],
    ) -> Result<(), Unwritten> {
        let damaged = |error: BatchError| portion.damaged(error);
        for batch in portion.contents.iter().flat_map(|content| batches(content)) {
            let (header, bytes) = batch.map_err(damaged)?;
            let stays = self.what_stays(&header, bytes, rules, tombstones);
            if let Some(bytes) = stays.map_err(damaged)? {
                let header = BatchHeader::read(&bytes).map_err(damaged)?;
                self.output.push(&header, bytes)?;
            }
        }
        Ok(())
    }

    /// The rest of a batch, if anything stays of it.
    fn what_stays(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        rules: &Rules<'_>,
        tombstones: &mut [u64],
    ) -> Result<Option<Vec<u8>>, BatchError> {
        let next = header.next_offset().0;
        let retained = if header.attributes.is_control() {
            Retained::All
        } else if rules.aborted.have(header) {
            self.counts.records_removed += header.record_count.max(0) as u64;
            Retained::Nothing
        } else if next <= rules.log_start {
            Retained::Nothing
        } else {
            self.judge(batch, rules, tombstones)?
        };
        Ok(match retained {
            Retained::All => Some(batch.to_vec()),
            Retained::Some(fewer) => Some(fewer),
            // The segment's end stays known by its last batch, and with it who wrote that.
            Retained::Nothing if next == self.counts.new.next => Some(emptied(batch)?),
            Retained::Nothing => None,
        })
    }

    fn judge(
        &mut self,
        batch: &[u8],
        rules: &Rules<'_>,
        tombstones: &mut [u64],
    ) -> Result<Retained, BatchError> {
        let (judge, counts) = (rules.judge, &mut self.counts);
        retain(batch, rules.limits, judge.map.empty_hash(), |record| {
            let verdict = judge.judge(record);
            match verdict {
                Verdict::Stays => {}
                Verdict::Tombstone(seen_by) => tombstones[seen_by] += 1,
                Verdict::Superseded | Verdict::Keyless => counts.records_removed += 1,
                Verdict::Expired => {
                    counts.records_removed += 1;
                    counts.tombstones_removed += 1;
                }
            }
            verdict.stays()
        })
    }

    /// Seals the segment; all of it is durable on return.
    pub(super) fn finish(&mut self) -> Result<Rewritten, Unwritten> {
        let new = self.output.finish()?;
        Ok(Rewritten {
            new,
            ..self.counts.clone()
        })
    }

    /// Takes away what was written.
    pub(super) fn abandon(self) {
        self.output.abandon();
    }
}
