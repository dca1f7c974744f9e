//! DescribeQuorum: who holds the metadata's log and how far it goes (KIP-595, KIP-836). A node that is alone is a quorum of one. A member
//! tells of itself how far it is, and of others only that they have a vote, or have none.

use std::rc::Rc;

use kafka_wire::describe_quorum::{Listener, Node, PartitionData, ReplicaState, TopicData, TopicRequest};
use kafka_wire::{DescribeQuorumRequest, DescribeQuorumResponse, ErrorCode, Text};
use metadata_group::Member;
use protocol::Leader;
use protocol::metadata::METADATA_NAME;
use shard::Shard;

use super::Envelope;
use super::gather::gather;
use crate::budget::SharedRoom;
use crate::core::{Core, METADATA_PARTITION};
use crate::error_codes::led_code;
use crate::long::Long;
use crate::owner::ask_owners;

/// The name that every listener of a broker without encryption has in Kafka.
const LISTENER: &str = "PLAINTEXT";

/// The extent of the metadata's log.
struct Extent {
    epoch: i32,
    tail: i64,
    next: i64,
}

pub(super) async fn handle(
    core: Rc<Core>,
    request: DescribeQuorumRequest,
    Envelope { room, .. }: Envelope,
) -> DescribeQuorumResponse {
    if !is_about_metadata(&request.topics) {
        return refused(&core, request.topics, &room).await;
    }
    if core.facts.is_member {
        let told = core
            .facts
            .mailboxes
            .call(0, |core| async move { told_by_member(&core) })
            .await;
        return told.ok().flatten().unwrap_or_else(|| DescribeQuorumResponse {
            error_code: ErrorCode::NotLeaderOrFollower.code(),
            ..DescribeQuorumResponse::default()
        });
    }
    let question = [Ok((METADATA_PARTITION, ()))];
    let work = |shard: Rc<Shard>, id, ()| async move { shard.with_leader(id, extent).map_err(led_code) };
    let answered = ask_owners(&core, &None, question, work).await.next();
    match answered.expect("one question, one answer") {
        Ok(extent) => told(&core, &extent),
        Err(code) => DescribeQuorumResponse {
            error_code: code.code(),
            ..DescribeQuorumResponse::default()
        },
    }
}

fn is_about_metadata(topics: &[TopicRequest]) -> bool {
    match topics {
        [topic] => match topic.partitions.as_slice() {
            [partition] => topic.topic_name == METADATA_NAME && partition.partition_index == 0,
            _ => false,
        },
        _ => false,
    }
}

async fn refused(core: &Rc<Core>, topics: Vec<TopicRequest>, room: &SharedRoom) -> DescribeQuorumResponse {
    let partition = |index: i32| PartitionData {
        partition_index: index,
        error_code: ErrorCode::UnknownTopicOrPartition.code(),
        error_message: Some(Text::from_static(
            "only partition 0 of __cluster_metadata has a quorum",
        )),
        leader_id: -1,
        ..PartitionData::default()
    };
    let topics = Long::of(core, topics, room);
    let topics = gather(
        core,
        &topics,
        |topic| &topic.partitions,
        |_, asked| partition(asked.partition_index),
        |topic, partitions| TopicData {
            topic_name: topic.topic_name.clone(),
            partitions,
        },
    );
    DescribeQuorumResponse {
        topics: topics.await,
        ..DescribeQuorumResponse::default()
    }
}

fn extent(leader: &Leader) -> Extent {
    Extent {
        epoch: leader.epoch().0,
        tail: leader.tail().0,
        next: leader.next_offset().0,
    }
}

fn told(core: &Core, extent: &Extent) -> DescribeQuorumResponse {
    let own = core.facts.node.0;
    let now_ms = core.facts.clock.wall_ms();
    let voter = ReplicaState {
        replica_id: own,
        log_end_offset: extent.next,
        // A leader fetches from nobody, and always has what it has.
        last_fetch_timestamp: now_ms,
        last_caught_up_timestamp: now_ms,
        ..ReplicaState::default()
    };
    answer(
        core,
        PartitionData {
            leader_id: own,
            leader_epoch: extent.epoch,
            high_watermark: extent.tail,
            current_voters: vec![voter],
            ..PartitionData::default()
        },
    )
}

/// On core 0 of a member; `None` before it is one.
fn told_by_member(core: &Core) -> Option<DescribeQuorumResponse> {
    let status = core.metadata_log.as_ref()?.status()?;
    let own = core.facts.node.0;
    let now_ms = core.facts.clock.wall_ms();
    let end = status.applied.map_or(0, |applied| applied.offset.0 + 1);
    let replica = |member: &Member| match member.node == own {
        true => ReplicaState {
            replica_id: own,
            log_end_offset: end,
            last_fetch_timestamp: now_ms,
            last_caught_up_timestamp: now_ms,
            ..ReplicaState::default()
        },
        false => ReplicaState {
            replica_id: member.node,
            log_end_offset: -1,
            ..ReplicaState::default()
        },
    };
    Some(answer(
        core,
        PartitionData {
            leader_id: status.leader.map_or(-1, |leader| leader.node),
            leader_epoch: i32::try_from(status.term).unwrap_or(i32::MAX),
            high_watermark: end,
            current_voters: status.voters.iter().map(replica).collect(),
            observers: status.learners.iter().map(replica).collect(),
            ..PartitionData::default()
        },
    ))
}

fn answer(core: &Core, partition: PartitionData) -> DescribeQuorumResponse {
    DescribeQuorumResponse {
        topics: vec![TopicData {
            topic_name: Text::from_static(METADATA_NAME),
            partitions: vec![partition],
        }],
        nodes: nodes(core),
        ..DescribeQuorumResponse::default()
    }
}

fn nodes(core: &Core) -> Vec<Node> {
    core.with_metadata(|metadata| {
        let nodes = metadata.nodes().map(|(id, node)| Node {
            node_id: id.0,
            listeners: vec![Listener {
                name: Text::from_static(LISTENER),
                host: Text::from(&*node.address.host),
                port: node.address.port,
            }],
        });
        nodes.collect()
    })
}
