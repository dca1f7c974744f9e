//! Truncation detection (KIP-320): a leader that came back without its last records goes on with others at the same offsets, so a
//! reader asks if the leader still has all that was read.

use std::collections::HashMap;

use kafka_wire::offset_for_leader_epoch::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_wire::{OffsetForLeaderEpochRequest, Text};
use record::Offset;

use crate::cluster::Cluster;
use crate::error::{ClientError, Result};
use crate::position::Position;

/// The replica id of a consumer.
const CONSUMER: i32 = -1;

/// Checks that the leader at `address` has all that was read at these positions, which are of one topic.
///
/// # Errors
/// `RecordsLost`; and what a connection meets. A broker that cannot tell is believed.
pub(crate) fn check_truncation(cluster: &mut Cluster, address: &str, positions: &[Position]) -> Result<()> {
    let asked = |position: &Position| {
        let epoch = position.epoch.filter(|epoch| epoch.0 >= 0)?;
        Some(OffsetForLeaderPartition {
            partition: position.partition,
            leader_epoch: epoch.0,
            ..OffsetForLeaderPartition::default()
        })
    };
    let partitions: Vec<_> = positions.iter().filter_map(asked).collect();
    let Some(first) = positions.first().filter(|_| !partitions.is_empty()) else {
        return Ok(());
    };
    let request = OffsetForLeaderEpochRequest {
        replica_id: CONSUMER,
        topics: vec![OffsetForLeaderTopic {
            topic: Text::clone(&first.topic),
            partitions,
        }],
    };
    let response = match cluster.ask_at(address, |connection| connection.call(&request)) {
        Err(ClientError::Versions { .. }) => return Ok(()),
        answered => answered?,
    };
    let read_to: HashMap<i32, Offset> = positions
        .iter()
        .map(|position| (position.partition, position.next_offset))
        .collect();
    for answer in response.topics.iter().flat_map(|topic| &topic.partitions) {
        let Some(read_to) = read_to.get(&answer.partition) else {
            continue;
        };
        if answer.error_code == 0 && (0..read_to.0).contains(&answer.end_offset) {
            return Err(ClientError::RecordsLost {
                topic: first.topic.to_string(),
                partition: answer.partition,
                read_to: *read_to,
                kept_to: Offset(answer.end_offset),
            });
        }
    }
    Ok(())
}
