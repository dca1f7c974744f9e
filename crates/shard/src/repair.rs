//! Damage in segments: told once, read around with the help of another replica, and written anew.
//!
//! A read that meets damage is answered in the same request with batches that another replica lends (`ranges`). The segment is then put
//! in a queue; one at a time is written anew from its sound chunks and lent batches, beside everything else. Nothing that is lent is
//! believed before it was compared with all that is known here of what was lost: never may a reader see, nor a segment hold, something
//! else than what was committed.

mod mending;
mod ranges;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::counters::Counter;
use record::{Epoch, Offset, PartitionId};
use storage::{Damage, Mark, ReadError};
use tokio::sync::Notify;

pub use ranges::RangeLetter;
pub(super) use ranges::Ranges;

use super::role::Role;
use super::{ReadRefusal, Shard};

/// Damages that are remembered as told. With more than that, some are told again.
const TOLD_MAX: usize = 1_000;
/// Segments that wait to be written anew. With more, the next read or scrub that meets the damage brings it back.
const QUEUE_MAX: usize = 1_000;
/// The most that a reader is lent at once where the index is lost.
const READER_BYTES_MAX: usize = 1 << 20;

/// Counters of damage and repair in one shard since the start.
#[derive(Default)]
pub struct RepairCounters {
    /// Damages that were found in segments, each counted once.
    pub damages: Counter,
    /// Reads that were answered with batches of another replica.
    pub lent_reads: Counter,
    /// Segments that were written anew.
    pub repairs: Counter,
    /// Attempts at that which came to nothing.
    pub failures: Counter,
}

/// The state of repair in one shard.
#[derive(Default)]
pub(super) struct Repairs {
    told: RefCell<BTreeSet<Mark>>,
    queue: RefCell<Vec<Queued>>,
    /// The damage whose segment is being written anew.
    mending: Cell<Option<Mark>>,
    news: Notify,
}

/// A segment that is to be written anew.
struct Queued {
    damage: Damage,
    not_before: Duration,
}

impl Shard {
    /// Takes note of damage in a segment: tells of it once, and has the segment written anew if others hold it too.
    pub(super) fn note_damage(&self, damage: Damage) {
        if !self.store.borrow().has_damaged(&damage) {
            return;
        }
        let lenders = self.lenders(damage.partition());
        let has_others = lenders.is_none_or(|lenders| !lenders.is_empty());
        {
            let mut told = self.repairs.told.borrow_mut();
            if told.insert(damage.mark()) {
                self.counters.repair.damages.add(1);
                self.counters.faults.add(1);
                self.tell_damage(&damage, has_others);
            }
            if told.len() > TOLD_MAX {
                told.pop_first();
            }
        }
        let mut queue = self.repairs.queue.borrow_mut();
        let mark = damage.mark();
        let is_same = |other: Mark| other.is_of_same_segment(&mark);
        let is_known = self.repairs.mending.get().is_some_and(is_same)
            || queue.iter().any(|queued| is_same(queued.damage.mark()));
        if has_others && queue.len() < QUEUE_MAX && !is_known {
            let not_before = Duration::ZERO;
            queue.push(Queued { damage, not_before });
            self.repairs.news.notify_one();
        }
    }

    fn tell_damage(&self, damage: &Damage, has_others: bool) {
        let (first, next) = damage.range();
        let remedy = match has_others {
            true => {
                "readers are lent what is lost by another replica, and the segment is written anew; \
                 examine the disk before it damages more"
            }
            false => {
                "no other replica has what is lost, and reads of it are refused: restore a backup, or give up \
                 everything before it with `ropewalk topic trim`; examine the disk before it damages more"
            }
        };
        tracing::error!(
            shard = self.index,
            partition = %damage.partition(),
            first = first.0,
            last = next.0 - 1,
            fault = %damage.fault(),
            "stored records are damaged; {remedy}"
        );
    }

    /// Answers a read that met damage with batches that another replica lends: from the one that holds `from` on.
    ///
    /// # Errors
    /// Nobody lends them.
    pub(super) async fn read_lent(
        &self,
        damage: Damage,
        from: Offset,
        until: Offset,
        bytes_max: usize,
    ) -> Result<Vec<Bytes>, ReadRefusal> {
        let refusal = ReadRefusal::Fault(damage.fault().to_string());
        let lent = match damage.is_of_index() {
            true => {
                let bytes_max = bytes_max.clamp(1, READER_BYTES_MAX);
                let lent = self.borrow(&damage, from, until, bytes_max);
                lent.await
            }
            // All of the chunk: by its checksum the bytes are known again.
            false => self.borrow_all(&damage).await,
        };
        self.note_damage(damage);
        match lent {
            Some(lent) => {
                self.counters.repair.lent_reads.add(1);
                Ok(cut(&lent, from, until, bytes_max))
            }
            None => {
                self.counters.faults.add(1);
                Err(refusal)
            }
        }
    }

    /// Gets all that is lost of a chunk.
    async fn borrow_all(&self, damage: &Damage) -> Option<Bytes> {
        let (first, next) = damage.range();
        let from = first.max(self.log_start_of(damage.partition())?);
        self.borrow(damage, from, next, usize::MAX).await
    }

    /// The same of any offsets, for tests.
    #[cfg(test)]
    pub(super) async fn borrow_range(&self, damage: &Damage, from: Offset, until: Offset) -> Option<Bytes> {
        self.borrow(damage, from, until, usize::MAX).await
    }

    pub(super) fn log_start_of(&self, id: PartitionId) -> Option<Offset> {
        let partitions = self.partitions.borrow();
        partitions.get(&id).map(|partition| partition.role.log_start())
    }

    /// Looks at what was lent before it is believed: it must be what was lost, as far as the index says what that was; committed; and of
    /// the epochs that wrote there.
    fn check_lent(&self, damage: &Damage, from: Offset, lent: &[u8]) -> Result<(), String> {
        let next = damage.accept(from, lent)?;
        let partitions = self.partitions.borrow();
        let partition = partitions.get(&damage.partition());
        let Some(Role::Member(member)) = partition.map(|partition| &partition.role) else {
            return Err("this node does not hold the partition with others any more".into());
        };
        let (log_start, tail) = (member.replica.log_start(), member.replica.tail());
        if next > tail {
            return Err(format!(
                "they reach to {next}, and only what is before {tail} is known to be committed"
            ));
        }
        for batch in record::batches(lent) {
            let (header, _) = batch.map_err(|error| error.to_string())?;
            let first = header.base_offset;
            // Of what was trimmed only the batch that holds the log's beginning is left.
            check_epoch(
                member.replica.writer_at(first.max(log_start)),
                header.leader_epoch,
                first,
            )?;
        }
        Ok(())
    }

    /// The refusal of a read whose damage cannot be read around.
    pub(super) fn damage_refusal(&self, error: ReadError) -> ReadRefusal {
        let ReadError::Damaged(damage) = error else {
            return self.refusal(error);
        };
        let refusal = ReadRefusal::Fault(damage.fault().to_string());
        self.counters.faults.add(1);
        self.note_damage(*damage);
        refusal
    }
}

fn check_epoch(known: Option<Epoch>, lent: Epoch, first: Offset) -> Result<(), String> {
    match known == Some(lent) {
        true => Ok(()),
        false => Err(format!(
            "the batch at offset {first} is of epoch {}, and epoch {} wrote there",
            lent.0,
            known.map_or(-1, |known| known.0)
        )),
    }
}

/// Of batches that lie one behind the other, those from the one that holds `from` on, before `until` and together at most `bytes_max`
/// bytes, but at least one.
fn cut(lent: &Bytes, from: Offset, until: Offset, bytes_max: usize) -> Vec<Bytes> {
    let (mut bytes, mut found) = (0, Vec::new());
    for batch in record::batches(lent).map_while(Result::ok) {
        let (header, batch) = batch;
        if header.next_offset() <= from {
            continue;
        }
        bytes += batch.len();
        if header.next_offset() > until || (bytes > bytes_max && !found.is_empty()) {
            break;
        }
        found.push(lent.slice_ref(batch));
    }
    // Else a reader who is slow to take a few bytes would keep all of them in memory.
    let taken: usize = found.iter().map(Bytes::len).sum();
    match taken < lent.len() / 2 && !found.is_empty() {
        true => vec![found.concat().into()],
        false => found,
    }
}

impl Repairs {
    /// Takes the next segment that may be tried now; or says how long to wait for one.
    fn take(&self, now: Duration) -> Result<Damage, Option<Duration>> {
        let mut queue = self.queue.borrow_mut();
        let soonest = queue.iter().map(|queued| queued.not_before).enumerate();
        match soonest.min_by_key(|(_, not_before)| *not_before) {
            None => Err(None),
            Some((place, not_before)) if not_before <= now => Ok(queue.remove(place).damage),
            Some((_, not_before)) => Err(Some(not_before - now)),
        }
    }

    fn put_back(&self, damage: Damage, not_before: Duration) {
        let mut queue = self.queue.borrow_mut();
        let mark = damage.mark();
        queue.retain(|queued| !queued.damage.mark().is_of_same_segment(&mark));
        queue.push(Queued { damage, not_before });
    }

    /// Forgets that damages of a segment were told: it is gone.
    fn forget(&self, mark: &Mark) {
        self.told
            .borrow_mut()
            .retain(|told| !told.is_of_same_segment(mark));
    }
}

/// Starts what repair does by itself, on the core that calls.
pub(super) fn start(shard: &Rc<Shard>) {
    platform::turns::spawn(shard.clone().mend_for_ever());
}

#[cfg(test)]
mod tests {
    use record::{BatchBuilder, Compression};

    use super::*;

    #[test]
    fn what_is_lent_is_cut_to_what_a_reader_wants() {
        let batch = |first: i64| {
            let mut builder = BatchBuilder::new(Compression::None);
            builder.append(1_000, None, Some(b"a"), &[]);
            builder.append(1_000, None, Some(b"b"), &[]);
            let mut batch = builder.build().to_vec();
            record::set_base_offset(&mut batch, Offset(first));
            batch
        };
        let length = batch(0).len();
        let lent = Bytes::from([batch(10), batch(12), batch(14)].concat());
        let firsts = |from: i64, until: i64, bytes_max: usize| -> Vec<i64> {
            let found = cut(&lent, Offset(from), Offset(until), bytes_max);
            let each = found.iter().flat_map(|bytes| record::batches(bytes));
            each.map(|batch| batch.expect("whole").0.base_offset.0).collect()
        };
        assert_eq!(firsts(10, 16, usize::MAX), [10, 12, 14]);
        assert_eq!(firsts(13, 16, usize::MAX), [12, 14]);
        assert_eq!(
            firsts(13, 15, usize::MAX),
            [12],
            "the last is not committed for it"
        );
        assert_eq!(firsts(10, 16, 2 * length), [10, 12]);
        assert_eq!(firsts(10, 16, 1), [10], "one comes whatever its size");
        assert!(firsts(10, 11, usize::MAX).is_empty());
    }
}
