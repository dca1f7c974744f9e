//! Replicas in a cluster: makers have partitions get other ones while all goes on, also fewer and then more again. At the end every partition has
//! three, and nothing is left to be done.

use std::collections::BTreeMap;
use std::io;

use kafka_wire::alter_partition_reassignments::{ReassignablePartition, ReassignableTopic};
use kafka_wire::{
    AlterPartitionReassignmentsRequest, ErrorCode, ListPartitionReassignmentsRequest, MetadataRequest, Text,
};
use platform::random::SeededRandom;
use std::time::Duration;
use tokio::time::sleep;

use super::{REST, Shared};
use crate::client::Client;

/// Replicas that each partition has in the end, if there are so many nodes.
const REPLICAS: usize = 3;
/// Every change is settled so long after nothing is moved any more.
const SETTLED: Duration = Duration::from_secs(5);

/// Has some of a topic's partitions get other replicas, by way of a node.
pub(super) async fn move_some(
    shared: &Shared,
    node: usize,
    topic: &str,
    partitions: i32,
    random: &mut SeededRandom,
) -> io::Result<()> {
    let mut wanted = Vec::new();
    for index in 0..partitions {
        if random.below(2) == 0 {
            let count = if random.below(3) == 0 { 2 } else { REPLICAS };
            wanted.push((index, some_nodes(shared, count, random)));
        }
    }
    alter(shared, node, topic, wanted).await
}

fn some_nodes(shared: &Shared, count: usize, random: &mut SeededRandom) -> Vec<i32> {
    let mut all: Vec<i32> = (1..).take(shared.nodes.len()).collect();
    let count = count.min(all.len());
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let place = random.below(all.len() as u64) as usize;
        chosen.push(all.swap_remove(place));
    }
    chosen
}

async fn alter(shared: &Shared, node: usize, topic: &str, wanted: Vec<(i32, Vec<i32>)>) -> io::Result<()> {
    let mut client = Client::connect(&shared.net, shared.nodes[node]).await?;
    let partition = |(partition_index, replicas)| ReassignablePartition {
        partition_index,
        replicas: Some(replicas),
    };
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: 3_000,
        topics: vec![ReassignableTopic {
            name: Text::from(topic),
            partitions: wanted.into_iter().map(partition).collect(),
        }],
        ..AlterPartitionReassignmentsRequest::default()
    };
    let answer = client.call(&request).await?;
    for partition in answer.responses.iter().flat_map(|topic| &topic.partitions) {
        let code = ErrorCode::from_code(partition.error_code);
        shared.trace.count(format!("move: {code:?}"));
    }
    Ok(())
}

/// Waits until every partition of these topics has three replicas, none of them in doubt, and nothing is left to be done.
pub(super) async fn settle(shared: &Shared, topics: &[String]) {
    let all = REPLICAS.min(shared.nodes.len());
    let mut was_done = false;
    loop {
        match fill_up(shared, topics, all).await {
            // A node that was away may have answered before it had heard of what is to be done.
            Ok(None) if was_done => break,
            Ok(None) => {
                was_done = true;
                sleep(SETTLED).await;
                continue;
            }
            Ok(Some(left)) => *shared.awaited.borrow_mut() = format!("{left} does not get {all} replicas"),
            Err(error) => *shared.awaited.borrow_mut() = format!("nobody tells of replicas: {error}"),
        }
        was_done = false;
        sleep(REST).await;
    }
}

/// Has partitions with fewer replicas get as many. Returns one that is not done.
async fn fill_up(shared: &Shared, topics: &[String], all: usize) -> io::Result<Option<String>> {
    let moving = moving(shared).await?;
    let first = moving.first_key_value();
    let mut left =
        first.map(|((topic, index), adding)| format!("{topic}-{index}, to which {adding:?} are added,"));
    for (topic, sets) in replicas(shared).await? {
        if !topics.contains(&topic) {
            continue;
        }
        if let Some(doubted) = sets.iter().find(|held| held.certain < held.replicas.len()) {
            let (index, of) = (doubted.index, &doubted.replicas);
            left = Some(format!(
                "{topic}-{index}, of which {} of {of:?} are certain,",
                doubted.certain
            ));
        }
        let short = sets
            .into_iter()
            .filter(|held| held.replicas.len() < all && !moving.contains_key(&(topic.clone(), held.index)));
        let wanted: Vec<(i32, Vec<i32>)> = short
            .map(
                |Held {
                     index,
                     replicas: mut set,
                     ..
                 }| {
                    let missing = (1..).take(shared.nodes.len());
                    let missing: Vec<i32> = missing.filter(|node| !set.contains(node)).collect();
                    set.extend(missing.into_iter().take(all - set.len()));
                    (index, set)
                },
            )
            .collect();
        if let Some((index, _)) = wanted.first() {
            left = Some(format!("{topic}-{index}"));
            alter(shared, 0, &topic, wanted).await?;
        }
    }
    Ok(left)
}

/// The partitions whose replicas change, with the nodes that join, as the first node knows them.
async fn moving(shared: &Shared) -> io::Result<BTreeMap<(String, i32), Vec<i32>>> {
    let mut client = Client::connect(&shared.net, shared.nodes[0]).await?;
    let answer = client.call(&ListPartitionReassignmentsRequest::default()).await?;
    let each = answer.topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|partition| {
            let place = (topic.name.to_string(), partition.partition_index);
            (place, partition.adding_replicas.clone())
        })
    });
    Ok(each.collect())
}

/// The replicas of a partition, and how many of them are not in doubt.
struct Held {
    index: i32,
    replicas: Vec<i32>,
    certain: usize,
}

/// The nodes that have each partition, as the first node knows them.
pub(super) async fn replica_sets(shared: &Shared) -> io::Result<Vec<(String, i32, Vec<i32>)>> {
    let all = replicas(shared).await?.into_iter();
    let of_topic = |(topic, sets): (String, Vec<Held>)| {
        sets.into_iter()
            .map(move |held| (topic.clone(), held.index, held.replicas))
    };
    Ok(all.flat_map(of_topic).collect())
}

/// The replicas of all topics' partitions, as the first node knows them.
async fn replicas(shared: &Shared) -> io::Result<BTreeMap<String, Vec<Held>>> {
    let mut client = Client::connect(&shared.net, shared.nodes[0]).await?;
    let all = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    let answer = client.call(&all).await?;
    let of_topic = |topic: kafka_wire::metadata::MetadataResponseTopic| {
        let sets = topic.partitions.into_iter();
        let sets = sets.map(|partition| Held {
            index: partition.partition_index,
            certain: partition.isr_nodes.len(),
            replicas: partition.replica_nodes,
        });
        (topic.name.unwrap_or_default().to_string(), sets.collect())
    };
    Ok(answer.topics.into_iter().map(of_topic).collect())
}
