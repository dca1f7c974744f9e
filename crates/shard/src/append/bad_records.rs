//! The records of one batch that its topic does not take. One of them has the whole batch refused, as in Kafka; each is named,
//! so that the producer fails those and sends the others again.
//!
//! The words are Kafka's, because people search for them, followed by the remedy.

use std::fmt;
use std::ops::{ControlFlow, RangeInclusive};

use record::{BatchError, KeyedRecord, Limits};

/// The most records of one batch that are named: the rest is found when the others are sent again.
pub(super) const NAMED_MAX: usize = 1_000;
/// The time of a record whose producer gave it none.
const NO_TIMESTAMP: i64 = -1;

/// The demands of a topic on each record.
pub(super) struct Demands {
    /// The times that a record may have, if its time matters.
    pub(super) times_ms: Option<RangeInclusive<i64>>,
    /// Compaction goes by keys.
    pub(super) keys: bool,
}

/// The records of a batch that its topic does not take. `Display` tells of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRecords {
    named: Box<[BadRecord]>,
    /// The times that were allowed.
    times_ms: RangeInclusive<i64>,
}

/// A record that its topic does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadRecord {
    /// Its place in its batch, counted from 0.
    pub place: i32,
    fault: Fault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    WithoutKey,
    Timestamp(i64),
}

impl Demands {
    /// Looks at each record of a sound batch that has no offset yet.
    ///
    /// # Errors
    /// As [`record::visit_keys`].
    pub(super) fn find_bad(
        &self,
        batch: &[u8],
        limits: &Limits,
        named_max: usize,
    ) -> Result<Option<BadRecords>, BatchError> {
        let mut named = Vec::new();
        record::visit_keys(batch, limits, |record| {
            if let Some(fault) = self.fault_of(record) {
                // The base offset is zero, so an offset is a place.
                let place = record.offset.0 as i32;
                named.push(BadRecord { place, fault });
            }
            match named.len() < named_max.max(1) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        let times_ms = self.times_ms.clone().unwrap_or(i64::MIN..=i64::MAX);
        Ok((!named.is_empty()).then(|| BadRecords {
            named: named.into(),
            times_ms,
        }))
    }

    fn fault_of(&self, record: &KeyedRecord<()>) -> Option<Fault> {
        if self.keys && record.key.is_none() {
            return Some(Fault::WithoutKey);
        }
        let time_ms = record.timestamp_ms;
        let times_ms = self.times_ms.as_ref()?;
        (time_ms != NO_TIMESTAMP && !times_ms.contains(&time_ms)).then_some(Fault::Timestamp(time_ms))
    }
}

impl BadRecords {
    /// The records that are named, in their order: at least one, and not all if there are very many.
    pub fn named(&self) -> &[BadRecord] {
        &self.named
    }

    /// Says if one of them has a wrong time: the whole batch is then refused for that.
    pub fn has_bad_times(&self) -> bool {
        let is_time = |record: &BadRecord| matches!(record.fault, Fault::Timestamp(_));
        self.named.iter().any(is_time)
    }

    /// Returns the sentence about one of them, in Kafka's words, for the partition with this topic and index.
    pub fn message(&self, record: BadRecord, topic: &str, index: i32) -> String {
        match record.fault {
            Fault::WithoutKey => format!(
                "Compacted topic cannot accept message without key in topic partition {topic}-{index}."
            ),
            Fault::Timestamp(timestamp_ms) => format!(
                "Timestamp {timestamp_ms} of message with offset {} is out of range. The timestamp should be within [{}, {}]",
                record.place,
                self.times_ms.start(),
                self.times_ms.end()
            ),
        }
    }
}

impl fmt::Display for BadRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = |is_wanted: fn(&Fault) -> bool| self.named.iter().find(|record| is_wanted(&record.fault));
        if let Some(BadRecord {
            place,
            fault: Fault::Timestamp(timestamp_ms),
        }) = first(|fault| matches!(fault, Fault::Timestamp(_)))
        {
            return write!(
                f,
                "One or more records have been rejected due to invalid timestamp: the record at place {place} has {timestamp_ms}, \
                 and the node's clock allows {} to {} (message.timestamp.before.max.ms, message.timestamp.after.max.ms)",
                self.times_ms.start(),
                self.times_ms.end()
            );
        }
        write!(
            f,
            "One or more records have been rejected due to {} record errors in total: the record at place {} has no key, and the \
             topic is compacted (cleanup.policy)",
            self.named.len(),
            self.named[0].place
        )
    }
}
