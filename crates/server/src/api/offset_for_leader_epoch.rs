//! OffsetForLeaderEpoch: where an epoch ended, so that a consumer finds out whether its log was cut.

use std::rc::Rc;

use kafka_wire::offset_for_leader_epoch::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_wire::{ErrorCode, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use protocol::EpochEnd;
use record::{Epoch, PartitionId};

use crate::budget::SharedRoom;
use crate::core::Core;
use crate::error_codes::read_code;
use crate::owner::{ask_owners, find_partition};
use crate::shard::{ReadRefusal, Shard};

/// The epoch that the client believes in, and the one it asks about.
struct Question {
    current: Option<Epoch>,
    asked: Epoch,
}

pub(super) async fn handle(
    core: Rc<Core>,
    request: OffsetForLeaderEpochRequest,
    _version: i16,
    room: SharedRoom,
) -> OffsetForLeaderEpochResponse {
    let mut questions = Vec::new();
    core.with_metadata(|metadata| {
        for topic in &request.topics {
            for wanted in &topic.partitions {
                let current =
                    (wanted.current_leader_epoch >= 0).then_some(Epoch(wanted.current_leader_epoch));
                let question = Question {
                    current,
                    asked: Epoch(wanted.leader_epoch),
                };
                let found = find_partition(metadata, &topic.topic, wanted.partition);
                questions.push(found.map(|partition| (partition, question)));
            }
        }
    });
    let work = |shard, partition, question| async move {
        epoch_end(&shard, partition, &question).map_err(|refusal| read_code(&refusal))
    };
    let mut ends = ask_owners(&core, &room, questions, work).await.into_iter();
    let topics = request
        .topics
        .into_iter()
        .map(|topic| OffsetForLeaderTopicResult {
            topic: topic.topic,
            partitions: topic
                .partitions
                .iter()
                .zip(&mut ends)
                .map(|(wanted, end)| told(wanted.partition, end))
                .collect(),
        });
    OffsetForLeaderEpochResponse {
        throttle_time_ms: 0,
        topics: topics.collect(),
    }
}

fn epoch_end(
    shard: &Rc<Shard>,
    partition: PartitionId,
    question: &Question,
) -> Result<EpochEnd, ReadRefusal> {
    shard.check_epoch(partition, question.current)?;
    shard
        .with_leader(partition, |leader| leader.epoch_end_offset(question.asked))
        .ok_or(ReadRefusal::UnknownPartition)
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
