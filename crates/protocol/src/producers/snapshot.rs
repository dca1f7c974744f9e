//! Producers as bytes, for a checkpoint of the partition.
//!
//! Times are written as "silent for so long", because the clock of the next process starts anew; the
//! time between two processes does not count, so a producer is remembered rather too long than too short.

use std::time::Duration;

use record::Offset;

use super::entry::Entry;
use super::{ProducerId, ProducerLimits, Producers, RECENT_BATCHES_MAX, WrittenBatch};
use crate::encoding::{DecodeError, Reader, Writer};

const FIELD: &str = "producers";
/// Id, epoch, silence, next sequence, the number of batches.
const ENTRY_BYTES_MIN: usize = 8 + 2 + 8 + 4 + 1;

impl Producers {
    pub(crate) fn write(&self, now: Duration, writer: &mut Writer) {
        writer.count(self.len());
        for (id, entry) in self.in_order() {
            let silence_ns = now.saturating_sub(entry.last_used).as_nanos();
            writer.i64(id.0);
            writer.i16(entry.epoch);
            writer.u64(u64::try_from(silence_ns).unwrap_or(u64::MAX));
            writer.i32(entry.next_sequence);
            writer.u8(u8::try_from(entry.recent.len()).expect("at most five"));
            for batch in &entry.recent {
                writer.i32(batch.first_sequence);
                writer.i32(batch.record_count);
                writer.i64(batch.first_offset.0);
                writer.i64(batch.max_timestamp_ms);
            }
        }
    }

    /// Reads what `write` wrote. Should the limits have shrunk, those silent longest are left out.
    pub(crate) fn read(
        now: Duration,
        limits: ProducerLimits,
        reader: &mut Reader<'_>,
    ) -> Result<Producers, DecodeError> {
        let mut producers = Producers::new(limits);
        producers.latest = now;
        for _ in 0..reader.count(FIELD, ENTRY_BYTES_MIN)? {
            let id = ProducerId(reader.i64(FIELD)?);
            let mut entry = read_entry(now, reader)?;
            if id.0 < 0 || producers.entries.contains_key(&id) {
                return Err(DecodeError::Impossible { field: FIELD });
            }
            producers.make_room();
            entry.turn = Some(producers.next_turn);
            producers.turns.insert(producers.next_turn, id);
            producers.next_turn += 1;
            producers.entries.insert(id, entry);
        }
        Ok(producers)
    }
}

fn read_entry(now: Duration, reader: &mut Reader<'_>) -> Result<Entry, DecodeError> {
    let mut entry = Entry::new(reader.i16(FIELD)?);
    entry.last_used = now.saturating_sub(Duration::from_nanos(reader.u64(FIELD)?));
    entry.next_sequence = reader.i32(FIELD)?;
    let batches = usize::from(reader.u8(FIELD)?);
    if batches > RECENT_BATCHES_MAX || entry.epoch < 0 || entry.next_sequence < 0 {
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
    Ok(entry)
}
