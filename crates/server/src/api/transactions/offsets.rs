//! AddOffsetsToTxn and TxnOffsetCommit: where groups are, as part of a transaction (KIP-98, KIP-447).

use std::rc::Rc;

use kafka_wire::txn_offset_commit::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_wire::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, ErrorCode, Text, TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
};
use protocol::ProducerId;
use protocol::groups::{
    Ask, CommitOffsets, CommitPartition, CommitPending, CommittedOffset, GROUPS_TOPIC, Name, OffsetCommitter,
    TopicPartition,
};
use protocol::transactions::AddPartitions;
use record::{Epoch, Offset, TopicId};
use shard::Claim;

use super::super::Envelope;
use super::{fenced_as_known, name};
use crate::caller::Caller;
use crate::core::Core;
use crate::error_codes::{group_code, transaction_code};
use crate::groups::partition_of;
use crate::owner::find_partition;

/// Clients know PRODUCER_FENCED from this version of AddOffsetsToTxn on (KIP-588).
const FIRST_WITH_FENCED: i16 = 2;
/// From these versions of TxnOffsetCommit on: the offsets' partition is added by itself (KIP-890), and clients know TRANSACTION_ABORTABLE.
const FIRST_THAT_ADDS: i16 = 5;
/// Offsets are tried so often while transactions of others end in between.
const ATTEMPTS: u32 = 10;
/// The version of transactions of clients who add their group by themselves.
const OF_CLIENTS: u8 = 0;

pub(in crate::api) async fn add_offsets_to_txn(
    core: Rc<Core>,
    request: AddOffsetsToTxnRequest,
    Envelope { version, .. }: Envelope,
) -> AddOffsetsToTxnResponse {
    let code = match add(&core, &request).await {
        Ok(()) => ErrorCode::None,
        Err(code) => fenced_as_known(code, version, FIRST_WITH_FENCED),
    };
    AddOffsetsToTxnResponse {
        error_code: code.code(),
        ..AddOffsetsToTxnResponse::default()
    }
}

async fn add(core: &Rc<Core>, request: &AddOffsetsToTxnRequest) -> Result<(), ErrorCode> {
    let place = place_of(core, &request.group_id).await?;
    let added = core.ask_transactions(AddPartitions {
        transactional_id: name(&request.transactional_id),
        producer: ProducerId(request.producer_id),
        epoch: request.producer_epoch,
        partitions: vec![place],
        version: OF_CLIENTS,
    });
    added.await?.map_err(|error| transaction_code(&error))
}

/// The partition of the groups' topic that a group's offsets are in.
async fn place_of(core: &Rc<Core>, group: &str) -> Result<TopicPartition, ErrorCode> {
    let (_, count) = core.groups_topic().await?;
    Ok(TopicPartition {
        topic: GROUPS_TOPIC.into(),
        index: partition_of(group, count),
    })
}

pub(in crate::api) async fn txn_offset_commit(
    core: Rc<Core>,
    request: TxnOffsetCommitRequest,
    Envelope { version, caller, .. }: Envelope,
) -> TxnOffsetCommitResponse {
    let found: Vec<Vec<Result<TopicId, ErrorCode>>> = request
        .topics
        .iter()
        .map(|topic| {
            let partitions = topic.partitions.iter();
            partitions
                .map(|partition| find(&core, &topic.name, partition.partition_index))
                .collect()
        })
        .collect();
    let outcomes = commit(&core, &request, &found, version, &caller).await;
    let mut outcomes = outcomes.map(Vec::into_iter);
    let mut topics = Vec::with_capacity(request.topics.len());
    for (topic, found) in request.topics.iter().zip(&found) {
        let partitions = topic.partitions.iter().zip(found);
        let told = partitions.map(|(partition, found)| TxnOffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code: match (found, &mut outcomes) {
                (Err(code), _) => *code,
                (Ok(_), Ok(each)) => each.next().expect("one outcome for each partition asked"),
                (Ok(_), Err(code)) => *code,
            }
            .code(),
        });
        topics.push(TxnOffsetCommitResponseTopic {
            partitions: told.collect(),
            name: topic.name.clone(),
        });
    }
    TxnOffsetCommitResponse {
        throttle_time_ms: 0,
        topics,
    }
}

fn find(core: &Core, topic: &str, index: i32) -> Result<TopicId, ErrorCode> {
    core.with_metadata(|metadata| find_partition(metadata, topic, index).map(|id| id.topic))
}

/// Leaves the offsets of the partitions that were found to the transaction's end.
async fn commit(
    core: &Rc<Core>,
    request: &TxnOffsetCommitRequest,
    found: &[Vec<Result<TopicId, ErrorCode>>],
    version: i16,
    caller: &Caller,
) -> Result<Vec<ErrorCode>, ErrorCode> {
    let partitions = request.topics.iter().zip(found).flat_map(|(topic, found)| {
        let topic_name = name(&topic.name);
        let found = topic.partitions.iter().zip(found);
        found.filter_map(move |(partition, id)| Some(pending(&topic_name, (*id).ok()?, partition)))
    });
    let partitions: Vec<CommitPartition> = partitions.collect();
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let producer = ProducerId(request.producer_id);
    let commit = CommitPending {
        producer,
        producer_epoch: request.producer_epoch,
        commit: CommitOffsets {
            group: name(&request.group_id),
            client_host: caller.shown_host(),
            committer: OffsetCommitter {
                member: name(&request.member_id),
                instance: request.group_instance_id.as_ref().map(name),
                generation_or_epoch: request.generation_id,
                knows_epochs: true,
            },
            partitions,
        },
    };
    let mut attempts = ATTEMPTS;
    let answer = loop {
        let ends_seen = core.ends_seen(&request.group_id).await?;
        verify(core, request, version).await?;
        match core.commit_pending(commit.clone(), ends_seen).await? {
            Some(answer) => break answer,
            // A transaction has ended since the coordinator was asked: it may be this one.
            None if attempts > 1 => attempts -= 1,
            None => return Err(ErrorCode::CoordinatorLoadInProgress),
        }
    };
    let outcomes = CommitPending::take(answer).expect("an answer is of its request's kind");
    let code = |error| group_code(&error);
    let outcomes = outcomes.map_err(code)?;
    Ok(outcomes
        .into_iter()
        .map(|partition| partition.outcome.err().map_or(ErrorCode::None, code))
        .collect())
}

/// Has the transaction's coordinator say that the group's offsets are part of the transaction: it will end them.
async fn verify(core: &Rc<Core>, request: &TxnOffsetCommitRequest, version: i16) -> Result<(), ErrorCode> {
    let claim = Claim {
        transactional_id: name(&request.transactional_id),
        adds: version >= FIRST_THAT_ADDS,
    };
    let place = place_of(core, &request.group_id).await?;
    let producer = (ProducerId(request.producer_id), request.producer_epoch);
    match core.verify_place(&claim, producer, place).await {
        ErrorCode::None => Ok(()),
        // Its clients know no other word for it.
        ErrorCode::ProducerFenced => Err(ErrorCode::InvalidProducerEpoch),
        ErrorCode::TransactionAbortable if version < FIRST_THAT_ADDS => Err(ErrorCode::InvalidTxnState),
        // Clients try again at this one, and at the others of these not all of them do.
        ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable | ErrorCode::NetworkException => {
            Err(ErrorCode::CoordinatorLoadInProgress)
        }
        ErrorCode::ConcurrentTransactions if version < FIRST_THAT_ADDS => {
            Err(ErrorCode::CoordinatorLoadInProgress)
        }
        code => Err(code),
    }
}

fn pending(topic: &Name, topic_id: TopicId, partition: &TxnOffsetCommitRequestPartition) -> CommitPartition {
    let leader_epoch = partition.committed_leader_epoch;
    CommitPartition {
        partition: TopicPartition {
            topic: Name::clone(topic),
            index: partition.partition_index,
        },
        topic_id,
        committed: CommittedOffset {
            offset: Offset(partition.committed_offset),
            leader_epoch: (leader_epoch >= 0).then_some(Epoch(leader_epoch)),
            metadata: name(partition.committed_metadata.as_ref().unwrap_or(&Text::default())),
        },
    }
}
