//! Groups in a cluster: each maker commits ever greater offsets for a group of its own, at whichever node coordinates it.

use std::io;

use kafka_wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_wire::offset_fetch::OffsetFetchRequestTopic;
use kafka_wire::{OffsetCommitRequest, OffsetFetchRequest, Text};
use tokio::time::sleep;

use super::requests::create;
use super::{REST, Shared};
use crate::client::Client;

/// The topic whose offsets are committed.
const TOPIC: &str = "read";
/// Commits one after the other.
const COMMITS: i64 = 12;

/// The commits of a group, as its client knows them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Commits {
    begun: i64,
    acknowledged: i64,
}

/// Commits some offsets, each greater than those before. The topic is made first, by way of a node.
pub(super) async fn commit_some(shared: &Shared, node: usize, group: &str) -> io::Result<()> {
    if !shared.commits.borrow().contains_key(group) {
        let replicas = shared.nodes.len().min(3) as i16;
        create(shared, node, TOPIC, replicas, 1).await?;
    }
    for _ in 0..COMMITS {
        let offset = {
            let mut commits = shared.commits.borrow_mut();
            let commits = commits.entry(group.to_owned()).or_default();
            commits.begun += 1;
            commits.begun
        };
        if !commit(shared, group, offset).await? {
            return Ok(());
        }
        let mut commits = shared.commits.borrow_mut();
        let commits = commits.get_mut(group).expect("it was begun");
        commits.acknowledged = offset;
        shared.trace.count("makers: offsets committed");
    }
    Ok(())
}

/// Says whether some node has acknowledged the commit.
async fn commit(shared: &Shared, group: &str, offset: i64) -> io::Result<bool> {
    let request = OffsetCommitRequest {
        group_id: Text::from(group),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: Text::from(TOPIC),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: offset,
                ..OffsetCommitRequestPartition::default()
            }],
            ..OffsetCommitRequestTopic::default()
        }],
        ..OffsetCommitRequest::default()
    };
    for node in shared.nodes.iter() {
        let Ok(mut client) = Client::connect(&shared.net, *node).await else {
            continue;
        };
        let answer = client.call(&request).await?;
        if answer.topics[0].partitions[0].error_code == 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Holds what the coordinators have of all groups against what they have acknowledged.
pub(super) async fn check_commits(shared: &Shared) {
    let commits = shared.commits.borrow().clone();
    for (group, Commits { begun, acknowledged }) in commits {
        let committed = loop {
            if let Some(committed) = committed(shared, &group).await {
                break committed;
            }
            *shared.awaited.borrow_mut() = format!("nobody tells what {group} has committed");
            sleep(REST).await;
        };
        if !(acknowledged..=begun).contains(&committed) {
            shared.violate(format!(
                "{group} has committed {committed}, was told so of {acknowledged}, and has tried up to {begun}"
            ));
        }
    }
}

/// The offset that a group has committed, by the node that coordinates it; 0 for none.
async fn committed(shared: &Shared, group: &str) -> Option<i64> {
    let request = OffsetFetchRequest {
        group_id: Text::from(group),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: Text::from(TOPIC),
            partition_indexes: vec![0],
        }]),
        ..OffsetFetchRequest::default()
    };
    for node in shared.nodes.iter() {
        let Ok(mut client) = Client::connect(&shared.net, *node).await else {
            continue;
        };
        match client.call(&request).await {
            Ok(answer) if answer.error_code == 0 => {
                return Some(answer.topics[0].partitions[0].committed_offset.max(0));
            }
            _ => {}
        }
    }
    None
}
