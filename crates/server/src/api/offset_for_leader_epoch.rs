//! OffsetForLeaderEpoch: where an epoch ended, so that a consumer finds out whether its log was cut.

use std::rc::Rc;

use kafka_wire::offset_for_leader_epoch::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_wire::{ErrorCode, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use protocol::EpochEnd;
use record::{Epoch, PartitionId};
use shard::{ReadRefusal, Shard};

use super::Envelope;
use super::gather::gather;
use crate::core::Core;
use crate::error_codes::read_code;
use crate::long::Long;
use crate::owner::{ask_owners, find_partition};

/// The epoch that the client believes in, and the one it asks about.
struct Question {
    current: Option<Epoch>,
    asked: Epoch,
}

pub(super) async fn handle(
    core: Rc<Core>,
    request: OffsetForLeaderEpochRequest,
    Envelope { room, .. }: Envelope,
) -> OffsetForLeaderEpochResponse {
    let topics = Long::of(&core, request.topics, &room);
    let named = topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(move |wanted| (&topic.topic, wanted))
    });
    let questions = named.map(|(topic, wanted)| {
        let found = core.with_metadata(|metadata| find_partition(metadata, topic, wanted.partition));
        let question = Question {
            current: (wanted.current_leader_epoch >= 0).then_some(Epoch(wanted.current_leader_epoch)),
            asked: Epoch(wanted.leader_epoch),
        };
        found.map(|partition| (partition, question))
    });
    let work = |shard, partition, question| async move {
        epoch_end(&shard, partition, &question).map_err(|refusal| read_code(&refusal))
    };
    let mut ends = ask_owners(&core, &room, questions, work).await;
    let topics = gather(
        &core,
        &topics,
        |topic| &topic.partitions,
        |_, wanted| told(wanted.partition, ends.next().expect("one question, one answer")),
        |topic, partitions| OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions,
        },
    );
    OffsetForLeaderEpochResponse {
        throttle_time_ms: 0,
        topics: topics.await,
    }
}

fn epoch_end(
    shard: &Rc<Shard>,
    partition: PartitionId,
    question: &Question,
) -> Result<EpochEnd, ReadRefusal> {
    shard.check_epoch(partition, question.current)?;
    Ok(shard.with_leader(partition, |leader| leader.epoch_end_offset(question.asked))?)
}

fn told(partition: i32, end: Result<EpochEnd, ErrorCode>) -> EpochEndOffset {
    match end {
        Ok(end) => EpochEndOffset {
            error_code: 0,
            partition,
            leader_epoch: end.epoch.0,
            end_offset: end.next_offset.0,
        },
        Err(code) => EpochEndOffset {
            error_code: code.code(),
            partition,
            ..EpochEndOffset::default()
        },
    }
}
