//! Producers as bytes, for a checkpoint of the partition.
//!
//! Times are written as "silent for so long", because the clock of the next process starts anew; the
//! time between two processes does not count, so a producer is remembered rather too long than too short.

use std::time::Duration;

use record::Offset;

use planted::{Bug, planted};

use super::entry::{Entry, NO_COORDINATOR};
use super::{Open, ProducerId, ProducerLimits, Producers, RECENT_BATCHES_MAX, WrittenBatch};
use crate::encoding::{DecodeError, Reader, Writer};

const FIELD: &str = "producers";
/// Id, epoch, silence, next sequence, what follows, the number of batches.
const ENTRY_BYTES_MIN: usize = 8 + 2 + 8 + 4 + 1 + 1;
/// Of what follows: the tenure of the coordinator that has ended a transaction.
const COORDINATOR_FOLLOWS: u8 = 1;
/// Of what follows: first offset and epoch of the open transaction.
const OPEN_FOLLOWS: u8 = 2;
const COORDINATOR_BYTES: usize = 4;
const OPEN_BYTES: usize = 8 + 2;
const BATCH_BYTES: usize = 4 + 4 + 8 + 8;
/// Bytes that a producer takes in a checkpoint, at most.
pub const PRODUCER_SNAPSHOT_BYTES_MAX: usize =
    ENTRY_BYTES_MIN + COORDINATOR_BYTES + OPEN_BYTES + RECENT_BATCHES_MAX * BATCH_BYTES;
/// Stands where it is not known whose batches are all remembered.
const COMPLETE_FROM_UNKNOWN: i64 = -1;

impl Producers {
    /// Writes the producers as they are without the batches at `next_offset` and above.
    pub(crate) fn write_below(&self, next_offset: Offset, now: Duration, writer: &mut Writer) {
        writer.i64(self.complete_from.map_or(COMPLETE_FROM_UNKNOWN, |id| id.0));
        writer.count(self.len());
        let mut transactions = self.transactions.clone();
        match planted(Bug::LostMarkerKept) {
            true => transactions.settle(Offset(i64::MAX)),
            false => transactions.cut_to(next_offset),
        }
        for (id, entry) in self.in_order() {
            let mut entry = entry.clone();
            entry.cut_to(next_offset);
            let silence_ns = now.saturating_sub(entry.last_used).as_nanos();
            writer.i64(id.0);
            writer.i16(entry.epoch);
            writer.u64(u64::try_from(silence_ns).unwrap_or(u64::MAX));
            writer.i32(entry.next_sequence);
            let coordinator = Some(entry.coordinator_epoch).filter(|epoch| *epoch != NO_COORDINATOR);
            let open = transactions.of(id);
            let follows = |part, is_there| if is_there { part } else { 0 };
            writer
                .u8(follows(COORDINATOR_FOLLOWS, coordinator.is_some())
                    | follows(OPEN_FOLLOWS, open.is_some()));
            coordinator.inspect(|epoch| writer.i32(*epoch));
            if let Some(open) = open {
                writer.i64(open.first.0);
                writer.i16(open.epoch);
            }
            let recent = entry.recent.as_slice();
            writer.u8(u8::try_from(recent.len()).expect("at most five"));
            for batch in recent {
                writer.i32(batch.first_sequence);
                writer.i32(batch.record_count);
                writer.i64(batch.first_offset.0);
                writer.i64(batch.max_timestamp_ms);
            }
        }
    }

    /// Reads what `write` wrote. Should the limits have shrunk, all stay until they cannot retry any more. They belong to no client's address.
    pub(crate) fn read(
        now: Duration,
        limits: ProducerLimits,
        reader: &mut Reader<'_>,
    ) -> Result<Producers, DecodeError> {
        let mut producers = Producers::new(limits);
        producers.latest = now;
        producers.complete_from = match reader.i64(FIELD)? {
            COMPLETE_FROM_UNKNOWN => None,
            id @ 0.. => Some(ProducerId(id)),
            _ => return Err(DecodeError::Impossible { field: FIELD }),
        };
        for _ in 0..reader.count(FIELD, ENTRY_BYTES_MIN)? {
            let id = ProducerId(reader.i64(FIELD)?);
            let (mut entry, open) = read_entry(now, reader)?;
            if !(0..i64::MAX).contains(&id.0) || producers.entries.contains_key(&id) {
                return Err(DecodeError::Impossible { field: FIELD });
            }
            entry.turn = Some(producers.next_turn);
            producers.turns.insert(producers.next_turn, id);
            producers.next_turn = producers.next_turn.saturating_add(1);
            if let Some(open) = open {
                producers.transactions.begin(id, open);
            }
            producers.entries.insert(id, entry);
        }
        Ok(producers)
    }
}

/// A producer, and its open transaction.
fn read_entry(now: Duration, reader: &mut Reader<'_>) -> Result<(Entry, Option<Open>), DecodeError> {
    let mut entry = Entry::new(reader.i16(FIELD)?, None);
    entry.last_used = now.saturating_sub(Duration::from_nanos(reader.u64(FIELD)?));
    entry.next_sequence = reader.i32(FIELD)?;
    let follows = reader.u8(FIELD)?;
    if follows & !(COORDINATOR_FOLLOWS | OPEN_FOLLOWS) != 0 {
        return Err(DecodeError::UnknownKind {
            field: "part of a producer",
            value: follows,
        });
    }
    if follows & COORDINATOR_FOLLOWS != 0 {
        entry.coordinator_epoch = reader.i32(FIELD)?;
    }
    let open = match follows & OPEN_FOLLOWS != 0 {
        true => Some(Open {
            first: Offset(reader.i64(FIELD)?),
            epoch: reader.i16(FIELD)?,
        }),
        false => None,
    };
    let batches = usize::from(reader.u8(FIELD)?);
    let is_possible = entry.epoch >= 0
        && entry.next_sequence >= 0
        && entry.coordinator_epoch >= NO_COORDINATOR
        && open.is_none_or(|open| open.first >= Offset::ZERO && open.epoch >= 0);
    if batches > RECENT_BATCHES_MAX || !is_possible {
        return Err(DecodeError::Impossible { field: FIELD });
    }
    for _ in 0..batches {
        let batch = WrittenBatch {
            first_sequence: reader.i32(FIELD)?,
            record_count: reader.i32(FIELD)?,
            first_offset: Offset(reader.i64(FIELD)?),
            max_timestamp_ms: reader.i64(FIELD)?,
        };
        let follows = entry
            .recent
            .as_slice()
            .last()
            .is_none_or(|before| batch.first_offset >= before.next_offset());
        let fits = batch
            .first_offset
            .0
            .checked_add(i64::from(batch.record_count))
            .is_some();
        if batch.first_sequence < 0
            || batch.record_count < 1
            || batch.first_offset < Offset::ZERO
            || !follows
            || !fits
        {
            return Err(DecodeError::Impossible { field: FIELD });
        }
        entry.recent.push(batch);
    }
    Ok((entry, open))
}
