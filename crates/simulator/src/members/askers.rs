//! A client that asks nodes for the latest offsets of partitions: none may tell less than was acknowledged before it was asked, however long it was cut off or
//! stood still meanwhile.

use std::io;
use std::time::Duration;

use kafka_wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_wire::{ErrorCode, ListOffsetsRequest, Text};
use platform::random::SeededRandom;
use tokio::time::{sleep, timeout};

use super::{REST, Shared};
use crate::client::Client;

/// Another node is asked then. A node that stands still must not keep all askers.
const PATIENCE: Duration = Duration::from_millis(500);
/// Stands for the latest offset.
const LATEST: i64 = -1;

/// Asks any node for a partition that was written to, until the world ends.
pub(super) async fn ask(shared: Shared, mut random: SeededRandom) {
    while !shared.ends.get() {
        sleep(REST).await;
        let node = random.below(shared.nodes.len() as u64) as usize;
        let place = {
            let written = shared.written_last.borrow();
            let among = written.len().max(1) as u64;
            written.get(random.below(among) as usize).cloned()
        };
        let Some((topic, index)) = place else { continue };
        let told = timeout(PATIENCE, latest(&shared, node, &topic, index)).await;
        let outcome = match told {
            Ok(Ok(code)) => format!("latest: {code:?}"),
            Ok(Err(error)) => format!("latest: connection {:?}", error.kind()),
            Err(_) => "latest: nothing is answered".to_owned(),
        };
        shared.trace.count(outcome);
    }
}

async fn latest(shared: &Shared, node: usize, topic: &str, index: i32) -> io::Result<Option<ErrorCode>> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let acknowledged = shared
        .ends_written
        .borrow()
        .get(&(topic.to_owned(), index))
        .copied();
    let request = ListOffsetsRequest {
        topics: vec![ListOffsetsTopic {
            name: Text::from(topic),
            partitions: vec![ListOffsetsPartition {
                partition_index: index,
                current_leader_epoch: -1,
                timestamp: LATEST,
            }],
        }],
        ..ListOffsetsRequest::default()
    };
    let answer = client.call(&request).await?;
    let told = &answer.topics[0].partitions[0];
    if let Some(end) = acknowledged.filter(|end| told.error_code == 0 && told.offset < *end) {
        shared.violate(format!(
            "node {node} tells that {topic}-{index} ends at {}, and was asked when all below {end} was acknowledged",
            told.offset
        ));
    }
    Ok(ErrorCode::from_code(told.error_code))
}
