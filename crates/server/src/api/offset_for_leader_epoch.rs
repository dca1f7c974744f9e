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
use crate::order::{EPOCH, Home, check_epoch, twin_named};
use crate::owner::{ask_cores, find_partition};

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
        let found = core.with_metadata(|metadata| match twin_named(metadata, topic) {
            Some(topic) if wanted.partition == 0 => Ok(core.facts.twin_of(topic.id)),
            _ => find_partition(metadata, topic, wanted.partition),
        });
        let question = Question {
            current: (wanted.current_leader_epoch >= 0).then_some(Epoch(wanted.current_leader_epoch)),
            asked: Epoch(wanted.leader_epoch),
        };
        found.map(|partition| (partition, question))
    });
    let work = |core: Rc<Core>, partition, question: Question| async move {
        let end = match core.home_of_twin(partition) {
            Some(home) => twin_end(&home, &question),
            None if core.is_twin_elsewhere(partition) => Err(ReadRefusal::NotLeader),
            None => epoch_end(core.shard(core.facts.shard_of(partition)), partition, &question),
        };
        end.map_err(|refusal| read_code(&refusal))
    };
    let mut ends = ask_cores(&core, &room, questions, work).await;
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

/// The only epoch of a twin ends at its tail.
fn twin_end(home: &Home, question: &Question) -> Result<EpochEnd, ReadRefusal> {
    check_epoch(question.current)?;
    check_epoch(Some(question.asked))?;
    Ok(EpochEnd {
        epoch: EPOCH,
        next_offset: home.tail(),
    })
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
