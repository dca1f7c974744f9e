//! Damage in a segment: the place, and the bytes that may stand there instead.
//!
//! A read or the scrubber meets it, and another replica may lend what is lost. The index of a segment remembers the checksum of each
//! chunk, so that nothing but the bytes that were laid out here can take their place. Where it cannot tell, they are taken only if no offset
//! is missing: never in the place of something that was compacted. Pure.

use planted::{Bug, planted};
use record::{Offset, PartitionId, batches};

use crate::checksum::SegmentIdentity;
use crate::fault::Fault;
use crate::segment::{Chunk, Segment, SegmentName, check_batch};

/// See the module.
#[derive(Debug)]
pub struct Damage {
    pub(crate) lost: Lost,
    fault: Fault,
}

/// The place of a damage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lost {
    pub(crate) partition: PartitionId,
    pub(crate) segment: Segment,
    pub(crate) identity: SegmentIdentity,
    /// None: the index is damaged, or one of the segment's files is missing.
    pub(crate) chunk: Option<Chunk>,
}

/// Tells one damage from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    partition: PartitionId,
    segment: SegmentName,
    /// Where the chunk begins; `None` for the index.
    first: Option<i64>,
}

impl Mark {
    /// Says whether the two are of one segment.
    pub fn is_of_same_segment(&self, other: &Mark) -> bool {
        (self.partition, self.segment) == (other.partition, other.segment)
    }
}

impl Damage {
    /// The damage that `fault` tells of, unless it says nothing of the bytes: that the file is of another version, or cannot be opened.
    pub(crate) fn of(lost: Lost, fault: Fault) -> Result<Damage, Fault> {
        use crate::fault::Doing::Reading;
        let is_damage = match &fault {
            Fault::Damaged { .. } => true,
            // A sector that the disk cannot read any more.
            Fault::Disk { doing: Reading, .. } => !fault.is_denied(),
            Fault::Disk { .. } | Fault::UnknownVersion { .. } => false,
        };
        match is_damage {
            true => Ok(Damage { lost, fault }),
            false => Err(fault),
        }
    }

    /// The partition.
    pub fn partition(&self) -> PartitionId {
        self.lost.partition
    }

    /// The file, where in it, and what is wrong.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// The same, for a caller that cannot mend it.
    pub fn into_fault(self) -> Fault {
        self.fault
    }

    /// The offsets that cannot be read for it: `[first, next)`.
    pub fn range(&self) -> (Offset, Offset) {
        self.lost.range()
    }

    /// Says whether it is the index that is damaged: nothing of the segment can be found then.
    pub fn is_of_index(&self) -> bool {
        self.lost.chunk.is_none()
    }

    /// Says whether offsets may be missing there: what was compacted on another node may not be what was compacted here.
    pub fn may_have_gaps(&self) -> bool {
        self.lost.segment.sparse
    }

    /// Its mark.
    pub fn mark(&self) -> Mark {
        Mark {
            partition: self.lost.partition,
            segment: self.lost.segment.name(),
            first: self.lost.chunk.map(|chunk| chunk.first),
        }
    }

    /// Looks at batches that another replica lends from offset `from` on, in the place of the damaged ones, and returns the offset behind
    /// them.
    ///
    /// # Errors
    /// The reason why these may not take the place of the damaged ones.
    pub fn accept(&self, from: Offset, lent: &[u8]) -> Result<Offset, String> {
        self.lost.accept(from, lent)
    }
}

impl Lost {
    fn range(&self) -> (Offset, Offset) {
        match &self.chunk {
            Some(chunk) => (Offset(chunk.first), Offset(chunk.next)),
            None => (Offset(self.segment.first), Offset(self.segment.next)),
        }
    }

    /// Looks at what is lent. Its batches must be sound. Of a chunk they must be all that was not trimmed, and match its checksum; where
    /// nothing is remembered that says so (of the index, of batches that stand in a journal file, of the rest of a chunk), they must have
    /// every offset with its record, as nothing has that was compacted.
    ///
    /// # Errors
    /// The reason why these may not take the place of the damaged ones.
    pub(crate) fn accept(&self, from: Offset, lent: &[u8]) -> Result<Offset, String> {
        let lent_range = Lent::read(lent)?;
        let (first, next) = self.range();
        let is_whole = lent_range.first == first.0 && lent_range.next == next.0;
        let is_known = self.segment.adopted.is_none() && (is_whole || (self.segment.sparse && from == first));
        match &self.chunk {
            Some(chunk) if is_known => {
                let holds = self.identity.checksum(chunk.position, lent) == chunk.checksum;
                if !holds && !planted(Bug::LentRangeUnchecked) {
                    return Err("they are not the bytes that were stored here".into());
                }
                return Ok(next);
            }
            _ if self.segment.sparse => {
                return Err("offsets may be missing here, and nothing tells which".into());
            }
            Some(chunk) if is_whole && lent_range.newest != chunk.max_timestamp_ms => {
                return Err(format!("their greatest time is not {}", chunk.max_timestamp_ms));
            }
            _ => {}
        }
        let ends = match self.chunk {
            Some(_) => lent_range.next == next.0,
            None => lent_range.next <= next.0,
        };
        let begins = lent_range.first >= first.0 && (lent_range.first..lent_range.next).contains(&from.0);
        match begins && ends && lent_range.is_complete {
            true => Ok(Offset(lent_range.next)),
            false => Err(format!(
                "they are of offsets {}..{}{}, and {from}..{next} are wanted",
                lent_range.first,
                lent_range.next,
                if lent_range.is_complete {
                    ""
                } else {
                    ", not all of them"
                },
            )),
        }
    }
}

/// The extent of batches of another replica.
struct Lent {
    first: i64,
    next: i64,
    newest: i64,
    /// No offset is missing, between batches or in one.
    is_complete: bool,
}

impl Lent {
    fn read(lent: &[u8]) -> Result<Lent, String> {
        let mut all: Option<Lent> = None;
        for batch in batches(lent) {
            let (_, bytes) = batch.map_err(|error| error.to_string())?;
            let header = check_batch(bytes)?;
            let (first, next) = (header.base_offset.0, header.next_offset().0);
            let has_all = i64::from(header.record_count) == next.wrapping_sub(first);
            all = Some(match all {
                None if first < 0 || next <= first => {
                    return Err(format!("a batch cannot begin at offset {first}"));
                }
                None => Lent {
                    first,
                    next,
                    newest: header.max_timestamp_ms,
                    is_complete: has_all,
                },
                Some(before) if first < before.next || next <= first => {
                    return Err(format!(
                        "a batch at offset {first} follows one that ends at {}",
                        before.next
                    ));
                }
                Some(before) => Lent {
                    first: before.first,
                    next,
                    newest: before.newest.max(header.max_timestamp_ms),
                    is_complete: before.is_complete && has_all && first == before.next,
                },
            });
        }
        all.ok_or_else(|| "there is no batch".to_owned())
    }
}
