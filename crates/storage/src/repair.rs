//! Writes a damaged segment anew: its sound chunks as they are, and what another replica lends in the place of the others.
//!
//! ```text
//!   first offset.generation        | chunk | ##### | chunk | chunk |       read, one after the other
//!   of another replica                     | batch batch |                 what the owner has fetched and looked at
//!   first offset.generation + 1    | chunk | chunk | chunk | chunk |       whole and durable before it is put in place
//! ```
//! The file takes the old one's place as a compacted segment does (`store/repairing.rs`): until a checkpoint names it, nothing counts of
//! it, and the old one stays. It must never hold a batch that was not in the damaged one. Blocks, a step at a time.

use bytes::Bytes;
use record::{Offset, PartitionId, batches};

use crate::compaction::{Output, Place, Rewritten, Unwritten, remove_leftovers};
use crate::damage::{Damage, Lost};
use crate::fault::Fault;
use crate::segment::{Chunk, Segment, SegmentFile, SegmentName, read_piece};

/// Bytes that one step copies before it gives others a turn.
const STEP_BYTES: u64 = 512 << 10;

/// See the module.
pub struct Repair {
    place: Place,
    segment: Segment,
    log_start: i64,
    /// Names of files that are the partition's: others of a generation are left over.
    known: Vec<SegmentName>,
    disk_reserve_bytes: u64,
    _lease: Option<std::sync::Arc<()>>,
    copying: Option<Copying>,
}

struct Copying {
    /// None if the index is lost: all is to be lent then.
    source: Option<(SegmentFile, Vec<Chunk>)>,
    /// Chunks that are done with.
    read: usize,
    /// The end of what was written.
    next: i64,
    output: Output,
    /// The place that was damaged, and the offset from which on batches are to be lent.
    wanted: Option<(Lost, Offset)>,
    /// The batches that were lent, their first offset and the one behind them.
    lent: Option<(Bytes, i64, i64)>,
    lent_ranges: u64,
    has_gap: bool,
    /// The greatest time of what was written.
    newest: i64,
}

/// A segment that was written anew, for [`crate::Store::repaired`].
#[derive(Debug)]
pub struct Rewrite {
    pub(crate) rewritten: Rewritten,
    /// The number of places that were damaged.
    pub ranges: u64,
}

/// The outcome of a step.
#[derive(Debug)]
pub enum RepairStep {
    /// There is more to do.
    More,
    /// Batches from this offset on are to be lent: call `lend`, then go on.
    Wants(Box<Damage>, Offset),
    /// All is written.
    Written(Rewrite),
    /// There is nothing to repair: all of it can be read.
    Sound,
    /// The disk has no room for so many bytes beside its reserve.
    NoRoom(u64),
}

impl Repair {
    pub(crate) fn new(
        place: Place,
        segment: Segment,
        log_start: i64,
        known: Vec<SegmentName>,
        disk_reserve_bytes: u64,
        lease: Option<std::sync::Arc<()>>,
    ) -> Repair {
        assert!(segment.sealed, "only what is complete is written anew");
        Repair {
            place,
            segment,
            log_start,
            known,
            disk_reserve_bytes,
            _lease: lease,
            copying: None,
        }
    }

    /// The partition.
    pub fn partition(&self) -> PartitionId {
        self.place.partition
    }

    /// The offsets of the segment: `[first, next)`.
    pub fn range(&self) -> (Offset, Offset) {
        (Offset(self.segment.first), Offset(self.segment.next))
    }

    /// Goes on. After an error, `abandon` is left to be done.
    ///
    /// # Errors
    /// The disk's, or that the segment is of another version.
    pub fn step(&mut self) -> Result<RepairStep, Fault> {
        let step = match &mut self.copying {
            None => self.begin().map(|()| RepairStep::More).map_err(Unwritten::from),
            Some(_) => self.copy(),
        };
        step.or_else(|unwritten| match unwritten {
            Unwritten::NoRoom { bytes } => Ok(RepairStep::NoRoom(bytes)),
            Unwritten::Fault(fault) => Err(fault),
        })
    }

    fn begin(&mut self) -> Result<(), Fault> {
        remove_leftovers(&self.place, &self.known)?;
        let source = match self.place.open(&self.segment) {
            Ok(source) => Some(source),
            Err(fault) => self.place.damage(self.segment, None, fault).map(|_| None)?,
        };
        let taken = self.known.iter().filter(|name| name.first == self.segment.first);
        let generations = taken.map(|name| name.generation);
        let generation = generations.max().unwrap_or(0).max(self.segment.generation) + 1;
        let segment = Segment {
            generation,
            ..self.segment
        };
        self.copying = Some(Copying {
            source,
            read: 0,
            next: self.segment.first,
            output: Output::create(&self.place, self.disk_reserve_bytes, segment, Vec::new())?,
            wanted: None,
            lent: None,
            lent_ranges: 0,
            has_gap: false,
            newest: i64::MIN,
        });
        Ok(())
    }

    /// Copies what can be read, up to the next place that cannot.
    fn copy(&mut self) -> Result<RepairStep, Unwritten> {
        self.write_lent()?;
        let copying = self.copying.as_mut().expect("begun");
        let Some((file, chunks)) = &copying.source else {
            return match copying.next < self.segment.next {
                true => {
                    let from = copying.next;
                    let what = "its index cannot be read".to_owned();
                    let fault = wrong(&self.segment, what);
                    self.want(None, fault, from)
                }
                false => self.finish(),
            };
        };
        let (file, chunks) = (file.clone(), &chunks[copying.read..]);
        let mut bytes = 0;
        let few = chunks.iter().take_while(|chunk| {
            let before = bytes;
            bytes += u64::from(chunk.length);
            before < STEP_BYTES
        });
        let few: Vec<Chunk> = few.copied().collect();
        for chunk in few {
            let piece = match read_piece(&file, &[chunk]) {
                Ok(piece) => piece,
                Err(fault) => return self.miss(chunk, fault),
            };
            let copying = self.copying.as_mut().expect("begun");
            for stretch in piece.stretches_from(i64::MIN) {
                copying.push(&stretch.content)?;
            }
            copying.read += 1;
            copying.next = chunk.next;
        }
        let copying = self.copying.as_ref().expect("begun");
        let all = copying.source.as_ref().map_or(0, |(_, chunks)| chunks.len());
        match copying.read < all {
            true => Ok(RepairStep::More),
            false => self.finish(),
        }
    }

    /// Goes on at a chunk that cannot be read. Below the log's beginning nobody needs it; but the segment's end stays known by its last
    /// batch.
    fn miss(&mut self, chunk: Chunk, fault: Fault) -> Result<RepairStep, Unwritten> {
        if chunk.next > self.log_start || chunk.next == self.segment.next {
            return self.want(Some(chunk), fault, chunk.first);
        }
        self.place.damage(self.segment, Some(chunk), fault)?;
        let copying = self.copying.as_mut().expect("begun");
        copying.read += 1;
        copying.next = chunk.next;
        copying.has_gap = true;
        copying.lent_ranges += 1;
        Ok(RepairStep::More)
    }

    fn want(&mut self, chunk: Option<Chunk>, fault: Fault, from: i64) -> Result<RepairStep, Unwritten> {
        let damage = self.place.damage(self.segment, chunk, fault)?;
        let from = Offset(from.max(self.log_start));
        self.copying.as_mut().expect("begun").wanted = Some((damage.lost, from));
        Ok(RepairStep::Wants(Box::new(damage), from))
    }

    /// Takes what another replica has lent in the place of what `step` wanted: of a chunk all, of a segment as much as there is.
    ///
    /// # Errors
    /// They may not take that place.
    pub fn lend(&mut self, lent: Bytes) -> Result<(), String> {
        let copying = self.copying.as_mut().expect("a step has wanted it");
        let (damage, from) = copying.wanted.as_ref().expect("a step has wanted it");
        let next = damage.accept(*from, &lent)?;
        let first = batches(&lent).next().and_then(Result::ok);
        let first = first.map_or(next.0, |(header, _)| header.base_offset.0);
        if first < copying.next {
            return Err(format!(
                "a batch at offset {first} was lent, and all before {} is there",
                copying.next
            ));
        }
        copying.lent = Some((lent, first, next.0));
        Ok(())
    }

    /// Writes what was lent.
    fn write_lent(&mut self) -> Result<(), Unwritten> {
        let copying = self.copying.as_mut().expect("begun");
        let Some((lent, first, next)) = copying.lent.take() else {
            assert!(
                copying.wanted.is_none(),
                "what is lost is lent before the next step"
            );
            return Ok(());
        };
        copying.wanted = None;
        copying.lent_ranges += 1;
        copying.read += usize::from(copying.source.is_some());
        copying.has_gap |= first > copying.next;
        copying.next = next;
        copying.push(&lent)
    }

    fn finish(&mut self) -> Result<RepairStep, Unwritten> {
        let segment = self.segment;
        let copying = self.copying.as_mut().expect("begun");
        if copying.source.is_some() && copying.lent_ranges == 0 {
            return Ok(RepairStep::Sound);
        }
        if copying.has_gap {
            copying.output.note_gap();
        } else if copying.newest != segment.max_timestamp_ms && !segment.sparse {
            let what = format!(
                "the greatest time of what was lent is {} instead of {}",
                copying.newest, segment.max_timestamp_ms
            );
            return Err(wrong(&segment, what).into());
        }
        let new = copying.output.finish()?;
        Ok(RepairStep::Written(Rewrite {
            rewritten: Rewritten {
                old: vec![segment.name()],
                new,
                records_removed: 0,
                tombstones_removed: 0,
            },
            ranges: copying.lent_ranges.max(1),
        }))
    }

    /// Takes away what was written.
    pub(crate) fn abandon(self) {
        if let Some(copying) = self.copying {
            copying.output.abandon();
        }
    }
}

impl Copying {
    /// Adds batches behind those that were written.
    fn push(&mut self, content: &[u8]) -> Result<(), Unwritten> {
        for batch in batches(content) {
            let (header, bytes) =
                batch.map_err(|error| Unwritten::Fault(self.output.damaged(error.to_string())))?;
            self.newest = self.newest.max(header.max_timestamp_ms);
            self.output.push(&header, bytes.to_vec())?;
        }
        Ok(())
    }
}

fn wrong(segment: &Segment, what: String) -> Fault {
    Fault::Damaged {
        file: segment.name().to_string(),
        position: 0,
        what,
    }
}
