//! Whether a topic takes a batch: its size, and the times and keys of its records. Nothing is changed here.
//!
//! One record that the topic does not take has its whole batch refused, as in Kafka.

use std::ops::ControlFlow;

use protocol::metadata::TopicSettings;
use protocol::metadata::topic_config::TimestampType;
use record::{Examined, Offset, whole_ms};

use super::super::waiting_room::Attempt;
use super::super::{Partition, Shard};
use super::contract::{Acks, AppendRefusal, AppendRequest};

/// The time of a record whose producer gave it none.
const NO_TIMESTAMP: i64 = -1;

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
        // Once: how long it then waits for room is no fault of its records.
        if attempt.examined.is_none() && topic.timestamp_type == TimestampType::CreateTime {
            self.check_times(topic, examined.max_timestamp_found_ms, batch)?;
        }
        if topic.compaction.is_some() && !attempt.has_keys {
            self.check_keys(batch)?;
            attempt.has_keys = true;
        }
        Ok(examined)
    }

    fn examine(&self, request: &AppendRequest) -> Result<Examined, AppendRefusal> {
        let limits = &self.settings.batch_limits;
        match &request.allowance {
            Some(allowance) => allowance.examine(&request.batch, limits),
            None => record::examine(&request.batch, limits).map_err(AppendRefusal::Batch),
        }
    }

    /// That each record's own time is near enough to the node's.
    fn check_times(&self, topic: &TopicSettings, newest_ms: i64, batch: &[u8]) -> Result<(), AppendRefusal> {
        let now_ms = self.clock.wall_ms();
        let before_max_ms = whole_ms(topic.timestamp_before_max);
        let latest_ms = now_ms.saturating_add(whole_ms(topic.timestamp_after_max));
        // For most topics nothing is too old, and the newest record stands for all.
        if before_max_ms == i64::MAX && newest_ms <= latest_ms {
            return Ok(());
        }
        let earliest_ms = now_ms.saturating_sub(before_max_ms);
        let is_far = |time_ms: i64| time_ms != NO_TIMESTAMP && !(earliest_ms..=latest_ms).contains(&time_ms);
        let found = record::find_time(batch, &self.settings.batch_limits, is_far);
        match found.map_err(AppendRefusal::Batch)? {
            None => Ok(()),
            Some((place, timestamp_ms)) => Err(AppendRefusal::Timestamp { place, timestamp_ms }),
        }
    }

    /// That compaction will know what each record supersedes.
    fn check_keys(&self, batch: &[u8]) -> Result<(), AppendRefusal> {
        let (mut place, mut has_all) = (0, true);
        let looked = record::visit_keys(batch, &self.settings.batch_limits, |record| match record.key {
            Some(_) => {
                place += 1;
                ControlFlow::Continue(())
            }
            None => {
                has_all = false;
                ControlFlow::Break(())
            }
        });
        looked.map_err(AppendRefusal::Batch)?;
        match has_all {
            true => Ok(()),
            false => Err(AppendRefusal::WithoutKey { place }),
        }
    }
}
