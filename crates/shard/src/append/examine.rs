//! Examines a batch before it has its turn: whether it is sound, and whether its topic takes it: its size, and the times and
//! keys of its records. One record that the topic does not take has its whole batch refused, as in Kafka (`bad_records`).
//!
//! The sender chooses how long that takes: a few bytes may unpack to very many records. So a core itself examines only batches
//! that take little time, and leaves the others to `examinations`. Nothing is changed here, and each batch is examined once:
//! its records are not to blame for the time that it then waits for room.
//!
//! A topic may want its batches compressed in another way than they came (`compression.type`). Compressing them anew always
//! takes long: those batches are examined elsewhere, and get their new form there once they are approved.

use std::ops::RangeInclusive;

use bytes::Bytes;
use platform::turns::{self, TURN_BYTES};
use protocol::metadata::TopicSettings;
use protocol::metadata::topic_config::TimestampType;
use record::{
    BatchError, BatchHeader, Compression, Examined, Limits, Offset, Packing, RecompressError, whole_ms,
};

use super::super::{Role, Shard};
use super::allowance::Allowance;
use super::bad_records::{Demands, NAMED_MAX};
use super::contract::{AppendRefusal, AppendRequest};

/// Bytes of a batch that a core examines itself, if they are not compressed.
const PLAIN_BYTES_MAX: usize = TURN_BYTES;
/// The same of compressed ones, as they are once unpacked. That takes longer, and is done again if they turn out to be more.
const UNPACKED_BYTES_MAX: u64 = 256 << 10;
/// An append takes a turn as long as so many bytes of its batch, however small it is.
const APPEND_BYTES: usize = 2 << 10;
/// The earliest time of a topic that takes records of any age.
const NOTHING_TOO_OLD: i64 = i64::MIN;

/// A sound batch that its topic takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Approved {
    pub(crate) examined: Examined,
    /// Its records were found to have keys, each of them.
    pub(crate) has_keys: bool,
    /// Bytes that it has beside those that were sent: compressed anew, it may have become longer.
    pub(crate) grown_bytes: usize,
}

/// Examines batches as a topic wants them to be now. May do so on any thread.
pub(crate) struct Examiner {
    limits: Limits,
    demands: Demands,
    /// The form that the topic wants its batches in, if it does not leave them as they come.
    packing: Option<Packing>,
    /// The longest batch of the topic.
    bytes_max: usize,
}

/// The longest batch of a partition with several replicas: it has to fit a message between nodes.
const REPLICATED_BYTES_MAX: u32 = 15 << 20;

impl Shard {
    /// Examines a batch if that does not take longer than a core has time for.
    pub(super) fn examine_here(&self, request: &AppendRequest) -> Option<Result<Approved, AppendRefusal>> {
        turns::spend(APPEND_BYTES + request.batch.len());
        match self.examiner(request) {
            Ok(examiner) => examiner.examine_briefly(request),
            Err(refusal) => Some(Err(refusal)),
        }
    }

    /// The examiner for the batch of a request, unless that is refused already.
    pub(crate) fn examiner(&self, request: &AppendRequest) -> Result<Examiner, AppendRefusal> {
        let partitions = self.partitions.borrow();
        let partition = partitions.get(&request.partition);
        let partition = partition.ok_or_else(|| self.absence(request.partition))?;
        let topic = &partition.topic;
        let bytes_max = match partition.role {
            Role::Lone(_) => topic.batch_bytes_max,
            Role::Member(_) => topic.batch_bytes_max.min(REPLICATED_BYTES_MAX),
        };
        if request.batch.len() > bytes_max as usize {
            return Err(AppendRefusal::TooLarge {
                bytes: request.batch.len(),
                bytes_max,
            });
        }
        Ok(Examiner {
            limits: self.settings.batch_limits,
            demands: self.demands(topic),
            packing: topic.packing,
            bytes_max: bytes_max as usize,
        })
    }

    /// The demands of a topic on each record: that its time is near enough to the node's, and that compaction will know which
    /// records it supersedes.
    fn demands(&self, topic: &TopicSettings) -> Demands {
        let has_times = topic.timestamp_type == TimestampType::CreateTime;
        Demands {
            times_ms: has_times.then(|| self.times_allowed(topic)),
            keys: topic.compaction.is_some(),
        }
    }

    /// The times that records of this topic may have now.
    fn times_allowed(&self, topic: &TopicSettings) -> RangeInclusive<i64> {
        let now_ms = self.clock.wall_ms();
        let earliest_ms = match whole_ms(topic.timestamp_before_max) {
            i64::MAX => NOTHING_TOO_OLD,
            before_max_ms => now_ms.saturating_sub(before_max_ms),
        };
        earliest_ms..=now_ms.saturating_add(whole_ms(topic.timestamp_after_max))
    }
}

impl Examiner {
    /// Examines a batch, however long that takes, and gives it the form that its topic wants.
    pub(crate) fn examine(&self, request: &mut AppendRequest) -> Result<Approved, AppendRefusal> {
        let allowed = self.allowed(request);
        let approved = self.approve(request, &allowed, record::examine(&request.batch, &allowed))?;
        match self.new_form(&request.batch) {
            Some(packing) => self.recompress(request, approved, packing),
            None => Ok(approved),
        }
    }

    /// The form in which a batch is to be compressed anew. One that is compressed as its topic wants stays as it is, at
    /// whatever level, as in Kafka. Bytes that are no batch are refused before that.
    pub(crate) fn new_form(&self, batch: &[u8]) -> Option<Packing> {
        let packing = self.packing?;
        let codec = BatchHeader::read(batch).and_then(|header| header.attributes.compression());
        (codec.ok()? != packing.compression).then_some(packing)
    }

    /// Replaces an approved batch by its new form, which also has to be as short as the topic allows.
    fn recompress(
        &self,
        request: &mut AppendRequest,
        approved: Approved,
        packing: Packing,
    ) -> Result<Approved, AppendRefusal> {
        let before = approved.examined;
        let new = record::recompress(&request.batch, &before, packing, &self.limits, self.bytes_max)
            .map_err(|error| match error {
                RecompressError::Batch(error) => AppendRefusal::Batch(error),
                RecompressError::TooLarge { .. } => AppendRefusal::TooLargeRecompressed(error),
            })?;
        let header = BatchHeader::read(&new).map_err(AppendRefusal::Batch)?;
        let grown_bytes = new.len().saturating_sub(request.batch.len());
        request.batch = Bytes::from(new).into();
        let examined = Examined { header, ..before };
        Ok(Approved {
            examined,
            grown_bytes,
            ..approved
        })
    }

    /// Examines a batch if that is done soon; nothing has been taken of what its request may unpack to if it is not.
    fn examine_briefly(&self, request: &AppendRequest) -> Option<Result<Approved, AppendRefusal>> {
        if self.new_form(&request.batch).is_some() {
            return None;
        }
        let bytes_max = match is_compressed(&request.batch) {
            true => UNPACKED_BYTES_MAX as usize,
            false => PLAIN_BYTES_MAX,
        };
        if request.batch.len() > bytes_max {
            return None;
        }
        let allowed = self.allowed(request);
        let brief = Limits {
            decompressed_bytes_max: allowed.decompressed_bytes_max.min(UNPACKED_BYTES_MAX),
            ..allowed
        };
        let examined = record::examine(&request.batch, &brief);
        if matches!(examined, Err(BatchError::DecompressedTooLarge { .. })) && brief != allowed {
            // The bytes unpacked in vain may have come in large blocks.
            turns::spend(TURN_BYTES);
            return None;
        }
        turns::spend(self.cost_bytes(request, &examined));
        Some(self.approve(request, &allowed, examined))
    }

    /// The time that a batch takes beside one look at its bytes as they came, in such bytes: unpacking one takes as long as two.
    fn cost_bytes(&self, request: &AppendRequest, examined: &Result<Examined, BatchError>) -> usize {
        match examined {
            Ok(batch) => {
                let unpacking = 2 * batch.decompressed_bytes as usize;
                match self.must_look_at_each(batch) {
                    true => request.batch.len() + 2 * unpacking,
                    false => unpacking,
                }
            }
            Err(_) => 2 * UNPACKED_BYTES_MAX as usize,
        }
    }

    /// The limits of a batch, beside others of its request.
    fn allowed(&self, request: &AppendRequest) -> Limits {
        let allowance = request.allowance.as_ref();
        allowance.map_or(self.limits, |allowance| allowance.limits(&self.limits))
    }

    /// Settles what was unpacked, and looks at the records of a sound batch.
    fn approve(
        &self,
        request: &AppendRequest,
        allowed: &Limits,
        examined: Result<Examined, BatchError>,
    ) -> Result<Approved, AppendRefusal> {
        let examined = match &request.allowance {
            Some(allowance) => allowance.settle(examined, allowed, &self.limits)?,
            None => examined.map_err(AppendRefusal::Batch)?,
        };
        // Only who stores batches numbers them.
        let base_offset = examined.header.base_offset;
        if base_offset != Offset::ZERO {
            return Err(AppendRefusal::BaseOffset { base_offset });
        }
        if self.must_look_at_each(&examined) {
            self.refuse_bad(request)?;
        }
        Ok(Approved {
            examined,
            has_keys: self.demands.keys,
            grown_bytes: 0,
        })
    }

    /// For most topics nothing is too old, and the newest record stands for all.
    fn must_look_at_each(&self, examined: &Examined) -> bool {
        let times_ms = self.demands.times_ms.as_ref();
        let times_matter = times_ms.is_some_and(|times_ms| {
            *times_ms.start() > NOTHING_TOO_OLD || examined.max_timestamp_found_ms > *times_ms.end()
        });
        times_matter || self.demands.keys
    }

    fn refuse_bad(&self, request: &AppendRequest) -> Result<(), AppendRefusal> {
        let allowance = request.allowance.as_ref();
        let named_max = allowance.map_or(NAMED_MAX, Allowance::named_max);
        let found = self.demands.find_bad(&request.batch, &self.limits, named_max);
        let Some(bad) = found.map_err(AppendRefusal::Batch)? else {
            return Ok(());
        };
        if let Some(allowance) = allowance {
            allowance.take_named(bad.named().len());
        }
        Err(AppendRefusal::Records(bad))
    }
}

/// Says whether a batch is compressed. Bytes that are no batch at all are refused before they would be unpacked.
fn is_compressed(batch: &[u8]) -> bool {
    let codec = BatchHeader::read(batch).and_then(|header| header.attributes.compression());
    codec.is_ok_and(|codec| codec != Compression::None)
}
