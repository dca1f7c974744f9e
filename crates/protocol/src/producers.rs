//! The memory that a partition has of its idempotent producers, so that a batch sent twice is written once.
//!
//! Stands between the handler and the journal: a batch is checked here before it is numbered and noted here
//! once the store has taken it. The rules are those of Kafka's brokers (KIP-98, KIP-360, KIP-890), and stricter where Kafka could
//! write a batch twice or out of order. It must never accept a sequence twice while it remembers the producer, and never forget a
//! producer that may still retry or has a transaction open. `admission` says which producers are taken on, `shares` how many of them for
//! one client's address, `transactions` which of them keep readers of committed records waiting.

mod admission;
mod entry;
mod shares;
mod snapshot;
#[cfg(test)]
mod tests;
mod transactions;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::time::Duration;

use indexmap::IndexMap;
use indexmap::map::Entry as Place;
use record::{BatchHeader, Offset};
use thiserror::Error;

use crate::history::Ending;

pub use admission::Admission;
use entry::Entry;
pub use shares::{Client, ShareChange, Shares};
pub use snapshot::PRODUCER_SNAPSHOT_BYTES_MAX;
pub use transactions::Open;
use transactions::Transactions;

/// The number of a producer's batches that are remembered: Kafka's clients keep at most this many under way.
pub const RECENT_BATCHES_MAX: usize = 5;

/// A producer's identity, handed out by the cluster in blocks. Never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProducerId(pub i64);

/// Is in the ids of producers on twins, and in no id that is handed out.
const ON_TWIN: i64 = 1 << 62;

impl ProducerId {
    /// The same producer as it appends to the twin of a topic: its sequences there are not those that it has on the partition that the records go to.
    #[must_use]
    pub fn on_twin(self) -> ProducerId {
        ProducerId(self.0 | ON_TWIN)
    }

    /// Says whether it is one of a twin.
    #[must_use]
    pub fn is_on_twin(self) -> bool {
        self.0 & ON_TWIN != 0
    }

    /// The id that was handed out.
    pub(super) fn handed_out(self) -> ProducerId {
        ProducerId(self.0 & !ON_TWIN)
    }
}

/// The mark of an idempotent producer in the header of each batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The producer.
    pub id: ProducerId,
    /// The tenure of that producer; a higher one fences the lower ones.
    pub epoch: i16,
    /// The sequence of the batch's first record. After `i32::MAX` follows 0.
    pub first_sequence: i32,
}

impl Stamp {
    /// The stamp in a batch's header, if it has one.
    #[must_use]
    pub fn of(header: &BatchHeader) -> Option<Stamp> {
        (header.producer_id >= 0).then_some(Stamp {
            id: ProducerId(header.producer_id),
            epoch: header.producer_epoch,
            first_sequence: header.base_sequence,
        })
    }
}

/// A batch that a producer has written, as far as the partition remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenBatch {
    /// The sequence of its first record.
    pub first_sequence: i32,
    /// The number of its records, and offsets; at least one.
    pub record_count: i32,
    /// The offset of its first record.
    pub first_offset: Offset,
    /// The largest timestamp in it, milliseconds since 1970.
    pub max_timestamp_ms: i64,
}

impl WrittenBatch {
    /// The sequence of its last record.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        sequence_after(self.first_sequence, self.record_count - 1)
    }

    /// The first offset after it.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.first_offset.advance(i64::from(self.record_count))
    }
}

/// Batches that are remembered with their producers, in the order of their offsets.
#[derive(Debug, Clone, Default)]
pub struct Remembered {
    batches: Vec<(Stamp, WrittenBatch)>,
    /// The number of producers that were looked at for them.
    pub looked_at: usize,
}

impl Remembered {
    /// Those that lie between two offsets.
    pub(crate) fn between(&self, first: Offset, next_offset: Offset) -> &[(Stamp, WrittenBatch)] {
        let from = self
            .batches
            .partition_point(|(_, batch)| batch.first_offset < first);
        let until = self
            .batches
            .partition_point(|(_, batch)| batch.next_offset() <= next_offset);
        self.batches.get(from..until).unwrap_or_default()
    }
}

/// Memory that a remembered producer takes at most: its entry, its turn, and its address's count in the partition and in the
/// journal, each in a table that may be half empty.
pub const PRODUCER_BYTES: usize = 512;
const _: () = assert!(
    PRODUCER_BYTES
        >= 16 * 7 / 3
            + 4
            + 2 * (12 * 7 / 3 + 4)
            + 2 * (8 + size_of::<(ProducerId, Entry)>())
            + 2 * (8 + 1) * 8 / 7,
    "entries have their hash beside them, and their list doubles; the table of their places is filled to seven eighths, and doubles; \
     nodes of trees are half full at least"
);

/// Bounds on what a partition remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerLimits {
    /// Producers remembered per partition. While all of them may still retry, a new one is refused; else the one
    /// that has been silent longest makes way.
    pub producers_max: usize,
    /// The time after its last batch in which a producer may still send one again (Kafka's clients: `delivery.timeout.ms`).
    pub retry_horizon: Duration,
    /// The time for which a silent producer is remembered (`producer.id.expiration.ms`).
    pub expiration: Duration,
}

impl Default for ProducerLimits {
    fn default() -> Self {
        ProducerLimits {
            producers_max: 10_000,
            retry_horizon: Duration::from_secs(10 * 60),
            expiration: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// Why a producer's batch was not accepted. The producer must settle this; sending the same again is futile, except where
/// there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SequenceError {
    /// A newer tenure of this producer has written here (Kafka: INVALID_PRODUCER_EPOCH).
    #[error("producer epoch {got} is below the current epoch {current}")]
    StaleEpoch {
        /// The newest epoch seen.
        current: i16,
        /// The batch's epoch.
        got: i16,
    },
    /// The batch does not follow the last one, and is not one of the last ones either (Kafka:
    /// OUT_OF_ORDER_SEQUENCE_NUMBER).
    #[error("sequence {got} where {expected} is next")]
    OutOfOrder {
        /// The sequence that is next.
        expected: i32,
        /// The batch's first sequence.
        got: i32,
    },
    /// A stamp that no client may send: an id, epoch or sequence below zero.
    #[error("producer id {id}, epoch {epoch} and sequence {first_sequence} must not be negative")]
    Malformed {
        /// The batch's producer id.
        id: i64,
        /// The batch's producer epoch.
        epoch: i16,
        /// The batch's first sequence.
        first_sequence: i32,
    },
    /// Nobody was given this id: whoever uses it has it from another cluster, or from a directory that is gone (Kafka:
    /// INVALID_PRODUCER_ID_MAPPING). To accept it would have a later owner's first batch taken for a duplicate.
    #[error("producer id {id} was not handed out here; start the producer again, so that it asks for one")]
    NotHandedOut {
        /// The batch's producer id.
        id: i64,
    },
    /// The partition remembers as many producers as it may, and all of them may still retry.
    #[error(
        "the partition remembers {producers_max} producers (producers.per_partition_max), all of which have written within \
         producers.retry_horizon; a new one is accepted as soon as one has been silent for so long"
    )]
    PartitionFull {
        /// The most.
        producers_max: usize,
    },
    /// The same for the node's memory for producers.
    #[error(
        "the partition's journal remembers as many producers as fit producers.bytes_per_journal; a new one is accepted as soon \
         as others have been silent for producers.retry_horizon"
    )]
    NodeFull,
    /// The partition remembers as many producers that were taken on for the client's address as it may.
    #[error(
        "the partition remembers {share_max} producers that it took on for this client's address, half of \
         producers.per_partition_max; a new one from there is accepted soon after one of these has been silent for \
         producers.retry_horizon"
    )]
    PartitionShareTaken {
        /// The most for one address.
        share_max: usize,
    },
    /// The same for the node's memory for producers.
    #[error(
        "producers that were taken on for this client's address fill half of producers.bytes_per_journal in the partition's \
         journal; a new one from there is accepted soon after others of these have been silent for producers.retry_horizon"
    )]
    NodeShareTaken,
}

/// The outcome of checking a batch's sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequence {
    /// It comes next.
    Next,
    /// Its producer is not remembered, and may begin.
    First,
    /// It was written already, here.
    Duplicate(WrittenBatch),
}

/// The producers of one partition. Empty ones take no memory on the heap.
#[derive(Debug, Clone)]
pub struct Producers {
    limits: ProducerLimits,
    entries: IndexMap<ProducerId, Entry>,
    /// The producers by the turn in which they wrote: the first is the one silent longest.
    turns: BTreeMap<NonZeroU64, ProducerId>,
    next_turn: NonZeroU64,
    /// The latest moment seen: a clock that steps back must not reorder the turns.
    latest: Duration,
    /// Every producer with this id, or one above it, that has ever written here is remembered. `None`: of no id is that known.
    complete_from: Option<ProducerId>,
    /// Counts the entries by the address that each was taken on for.
    shares: Shares,
    /// Changes of its shares that the journal has not been told of yet.
    share_changes: Vec<ShareChange>,
    transactions: Transactions,
}

/// Two are equal when they remember the same of the same producers in the same order of silence; how turns
/// are numbered does not matter, nor for whom they were taken on.
impl PartialEq for Producers {
    fn eq(&self, other: &Self) -> bool {
        self.limits == other.limits
            && self.complete_from == other.complete_from
            && self.transactions == other.transactions
            && self.in_order().eq(other.in_order())
    }
}

impl Eq for Producers {}

impl Producers {
    /// No producers yet.
    #[must_use]
    pub fn new(limits: ProducerLimits) -> Producers {
        assert!(
            limits.producers_max > 0,
            "a partition must be able to remember a producer"
        );
        Producers {
            limits,
            entries: IndexMap::new(),
            turns: BTreeMap::new(),
            next_turn: NonZeroU64::MIN,
            latest: Duration::ZERO,
            complete_from: None,
            shares: Shares::of(limits.producers_max),
            share_changes: Vec::new(),
            transactions: Transactions::default(),
        }
    }

    /// The bounds on what is remembered.
    #[must_use]
    pub fn limits(&self) -> ProducerLimits {
        self.limits
    }

    /// Returns the number of producers that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Says that none is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The places that each client's address has taken here.
    #[must_use]
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Takes the changes of shares since this was called last.
    pub fn take_share_changes(&mut self) -> Vec<ShareChange> {
        std::mem::take(&mut self.share_changes)
    }

    /// The epoch and the last batch of each producer, the one silent longest first (Kafka's DescribeProducers).
    /// There is no batch where only the epoch is known.
    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, i16, Option<WrittenBatch>)> + '_ {
        self.in_order()
            .map(|(id, entry)| (id, entry.epoch, entry.recent.as_slice().last().copied()))
    }

    /// The batches that are remembered and lie between two offsets, in their order. Looks at all producers.
    #[must_use]
    pub fn written_between(&self, first: Offset, next_offset: Offset) -> Remembered {
        let mut between = Vec::new();
        for (id, entry) in &self.entries {
            for batch in entry.recent.as_slice() {
                if first <= batch.first_offset && batch.next_offset() <= next_offset {
                    let stamp = Stamp {
                        id: *id,
                        epoch: entry.epoch,
                        first_sequence: batch.first_sequence,
                    };
                    between.push((stamp, *batch));
                }
            }
        }
        between.sort_unstable_by_key(|(_, batch)| batch.first_offset);
        Remembered {
            batches: between,
            looked_at: self.entries.len(),
        }
    }

    /// Finds that a batch comes next, or was written already, or must be refused. Changes nothing.
    ///
    /// # Errors
    /// See [`SequenceError`].
    pub fn check(
        &self,
        stamp: Stamp,
        record_count: i32,
        admission: &Admission,
    ) -> Result<Sequence, SequenceError> {
        let Stamp {
            id,
            epoch,
            first_sequence,
        } = stamp;
        if id.0 < 0 || epoch < 0 || first_sequence < 0 {
            return Err(SequenceError::Malformed {
                id: id.0,
                epoch,
                first_sequence,
            });
        }
        match self.entries.get(&id) {
            None => self.admit(stamp, admission),
            Some(entry) => entry.check(epoch, first_sequence, record_count),
        }
    }

    /// Notes a batch that was found in the log during recovery. It is not doubted: it was checked when it was written.
    pub fn note(&mut self, now: Duration, stamp: Stamp, batch: WrittenBatch) {
        self.note_from(None, now, stamp, batch);
    }

    /// Notes a batch that has been checked and numbered. A producer that is not remembered yet is taken on for the address that
    /// it writes from; one that is stays with its own, wherever it writes from now.
    pub fn note_from(&mut self, from: Option<IpAddr>, now: Duration, stamp: Stamp, batch: WrittenBatch) {
        assert!(batch.record_count > 0, "a batch has records");
        self.latest = self.latest.max(now);
        let entry = match self.entries.entry(stamp.id) {
            Place::Occupied(known) => known.into_mut(),
            Place::Vacant(place) => {
                let client = from.map(Client::from);
                if let Some(client) = client {
                    let change = ShareChange::TakenOn(client);
                    self.shares.note(change);
                    self.share_changes.push(change);
                }
                place.insert(Entry::new(stamp.epoch, client))
            }
        };
        entry.note(stamp.epoch, batch);
        self.note_used(stamp.id);
    }

    /// Gives a producer the last turn.
    fn note_used(&mut self, id: ProducerId) {
        let entry = self.entries.get_mut(&id).expect("the producer is remembered");
        entry.last_used = self.latest;
        // The usual case, one producer writing on and on, must not touch the tree.
        if entry
            .turn
            .is_none_or(|turn| turn.saturating_add(1) != self.next_turn)
        {
            if let Some(turn) = entry.turn {
                self.turns.remove(&turn);
            }
            entry.turn = Some(self.next_turn);
            self.turns.insert(self.next_turn, id);
            self.next_turn = self.next_turn.saturating_add(1);
        }
        assert_eq!(
            self.entries.len(),
            self.turns.len(),
            "every producer has one turn"
        );
    }

    /// Notes a batch inside a transaction, which it opens if none is.
    pub fn note_inside(&mut self, now: Duration, stamp: Stamp, batch: WrittenBatch) {
        self.note_inside_from(None, now, stamp, batch);
    }

    /// The same of a batch that has been checked and numbered.
    pub fn note_inside_from(
        &mut self,
        from: Option<IpAddr>,
        now: Duration,
        stamp: Stamp,
        batch: WrittenBatch,
    ) {
        self.note_from(from, now, stamp, batch);
        self.note_opened(stamp, batch.first_offset);
    }

    /// Notes no more than that a transaction is open from an offset on, unless it was before: of a batch that the producers are known to
    /// have gone beyond.
    pub(crate) fn note_opened(&mut self, stamp: Stamp, first: Offset) {
        let epoch = stamp.epoch;
        self.transactions.begin(stamp.id, Open { first, epoch });
    }

    /// The same of a marker.
    pub(crate) fn note_ended(&mut self, stamp: Stamp, marker: Offset) {
        self.transactions.end(stamp.id, marker);
    }

    /// Has the log begin at an offset that lies before much of what is known here.
    pub(crate) fn begin_log_at(&mut self, first: Offset) {
        self.transactions.begin_at(first);
    }

    /// Says whether a producer is remembered.
    pub(crate) fn has(&self, id: ProducerId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Notes a marker: it ends the producer's transaction, and fences its earlier tenures. A producer that is not remembered has nothing here
    /// that could end.
    pub fn note_end(&mut self, now: Duration, stamp: Stamp, ending: &Ending, marker: Offset) {
        let Some(entry) = self.entries.get_mut(&stamp.id) else {
            return;
        };
        entry.note_end(stamp.epoch, ending.coordinator_epoch);
        self.latest = self.latest.max(now);
        self.note_used(stamp.id);
        self.transactions.end(stamp.id, marker);
    }

    /// A producer's transaction, if one is open.
    #[must_use]
    pub fn transaction_of(&self, id: ProducerId) -> Option<Open> {
        self.transactions.of(id)
    }

    /// The open transactions whose first offset is at `from` or behind it, in that order.
    pub fn transactions_from(&self, from: Offset) -> impl Iterator<Item = (Offset, ProducerId)> + '_ {
        self.transactions.open_from(from)
    }

    /// The latest batch of a producer that is remembered.
    #[must_use]
    pub fn last_of(&self, id: ProducerId) -> Option<WrittenBatch> {
        self.entries.get(&id)?.recent.as_slice().last().copied()
    }

    /// The epoch and the coordinator's epoch of a producer that is remembered.
    #[must_use]
    pub fn fences_of(&self, id: ProducerId) -> Option<(i16, i32)> {
        let entry = self.entries.get(&id)?;
        Some((entry.epoch, entry.coordinator_epoch))
    }

    /// The marker of a producer's last transaction, if that is not below `tail`.
    #[must_use]
    pub(crate) fn marker_behind(&self, id: ProducerId, tail: Offset) -> Option<Offset> {
        self.transactions.ends_behind(id, tail)
    }

    /// The end of what is decided: no record below it is in a transaction that is open, or whose marker is not below `tail`. At most
    /// `tail` (Kafka's last stable offset).
    #[must_use]
    pub fn stable(&self, tail: Offset) -> Offset {
        self.transactions.stable(tail)
    }

    /// Takes note that all below `tail` is committed.
    pub fn settle(&mut self, tail: Offset) {
        self.transactions.settle(tail);
    }

    /// The moment at which the producer that has been silent longest is to be forgotten.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        Some(self.longest_silent()?.saturating_add(self.limits.expiration))
    }

    /// Forgets the producers whose time is over.
    pub fn handle_time(&mut self, now: Duration) {
        self.forget_silent(now, self.limits.expiration);
    }

    /// Forgets batches at `next_offset` and above it: that end of the log is gone, or was never there. The producers
    /// of these batches stay, and may send them again.
    pub fn cut_to(&mut self, next_offset: Offset) {
        self.entries
            .values_mut()
            .for_each(|entry| entry.cut_to(next_offset));
        self.transactions.cut_to(next_offset);
    }

    fn in_order(&self) -> impl Iterator<Item = (ProducerId, &Entry)> + '_ {
        self.turns.values().map(|id| {
            (
                *id,
                self.entries.get(id).expect("every turn belongs to a producer"),
            )
        })
    }
}

/// The sequence `count` records after `sequence`; after `i32::MAX` follows 0. Neither may be negative.
pub(crate) fn sequence_after(sequence: i32, count: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(count);
    let wrapped = if sum > i64::from(i32::MAX) {
        sum - i64::from(i32::MAX) - 1
    } else {
        sum
    };
    i32::try_from(wrapped).expect("the sum of two i32 wraps at most once")
}
