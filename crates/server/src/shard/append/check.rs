//! Whether a topic takes a batch: its size, and the times and keys of its records. Nothing is changed here.
//!
//! One record that the topic does not take has its whole batch refused, as in Kafka (`bad_records`).

use std::ops::RangeInclusive;

use protocol::metadata::TopicSettings;
use protocol::metadata::topic_config::TimestampType;
use record::{Examined, Offset, whole_ms};

use super::super::waiting_room::Attempt;
use super::super::{Partition, Shard};
use super::allowance::Allowance;
use super::bad_records::{Demands, NAMED_MAX};
use super::contract::{Acks, AppendRefusal, AppendRequest};

/// The earliest time of a topic that takes records of any age.
const NOTHING_TOO_OLD: i64 = i64::MIN;

impl Shard {
    /// What is in the batch, if the topic takes it.
    pub(super) fn check_batch(
        &self,
        partition: &Partition,
        attempt: &mut Attempt,
    ) -> Result<Examined, AppendRefusal> {
        let (batch, topic) = (&*attempt.request.batch, &partition.topic);
        if attempt.request.acks == Acks::Quorum {
            let replicas = partition.leader.check_replicas(topic.insync_replicas_min);
            replicas.map_err(AppendRefusal::Leader)?;
        }
        let bytes_max = topic.batch_bytes_max;
        if batch.len() > bytes_max as usize {
            return Err(AppendRefusal::TooLarge {
                bytes: batch.len(),
                bytes_max,
            });
        }
        let examined = match attempt.examined {
            Some(examined) => examined,
            None => self.examine(&attempt.request)?,
        };
        // Only who stores batches numbers them.
        let base_offset = examined.header.base_offset;
        if base_offset != Offset::ZERO {
            return Err(AppendRefusal::BaseOffset { base_offset });
        }
        self.check_records(topic, attempt, &examined)?;
        Ok(examined)
    }

    fn examine(&self, request: &AppendRequest) -> Result<Examined, AppendRefusal> {
        let limits = &self.settings.batch_limits;
        match &request.allowance {
            Some(allowance) => allowance.examine(&request.batch, limits),
            None => record::examine(&request.batch, limits).map_err(AppendRefusal::Batch),
        }
    }

    /// Checks that the topic takes each record: that its time is near enough to the node's, and that compaction will know
    /// which records it supersedes.
    fn check_records(
        &self,
        topic: &TopicSettings,
        attempt: &mut Attempt,
        examined: &Examined,
    ) -> Result<(), AppendRefusal> {
        // Once: how long it then waits for room is no fault of its records.
        let is_new = attempt.examined.is_none();
        let times_ms = (is_new && topic.timestamp_type == TimestampType::CreateTime)
            .then(|| self.times_allowed(topic))
            // For most topics nothing is too old, and the newest record stands for all.
            .filter(|times_ms| {
                *times_ms.start() > NOTHING_TOO_OLD || examined.max_timestamp_found_ms > *times_ms.end()
            });
        let keys = topic.compaction.is_some() && !attempt.has_keys;
        if times_ms.is_some() || keys {
            self.refuse_bad(&Demands { times_ms, keys }, &attempt.request)?;
        }
        attempt.has_keys |= keys;
        Ok(())
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

    fn refuse_bad(&self, demands: &Demands, request: &AppendRequest) -> Result<(), AppendRefusal> {
        let allowance = request.allowance.as_ref();
        let named_max = allowance.map_or(NAMED_MAX, Allowance::named_max);
        let found = demands.find_bad(&request.batch, &self.settings.batch_limits, named_max);
        let Some(bad) = found.map_err(AppendRefusal::Batch)? else {
            return Ok(());
        };
        if let Some(allowance) = allowance {
            allowance.take_named(bad.named().len());
        }
        Err(AppendRefusal::Records(bad))
    }
}
