//! A group that commits offsets without members, and looks at what is committed.

use std::io;

use kafka_wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_wire::offset_fetch::OffsetFetchRequestTopic;
use kafka_wire::{ApiKey, OffsetCommitRequest, OffsetFetchRequest, Text};
use platform::random::SeededRandom;
use tokio::time::sleep;

use super::{REST, TOPICS, World};
use crate::client::Client;
use crate::history::Place;

/// Commits higher and higher offsets of a partition, and asks for them.
pub(crate) async fn commit_offsets(world: World, group: usize, place: Place, mut random: SeededRandom) {
    let mut offset = 0;
    let mut is_known = false;
    while !(world.ends.get() && is_known) {
        let mut client = world.connect().await;
        if let Err(error) = go_on(
            &world,
            &mut client,
            group,
            place,
            &mut offset,
            &mut is_known,
            &mut random,
        )
        .await
        {
            world
                .trace
                .count(format!("OffsetCommit: connection {:?}", error.kind()));
        }
        sleep(REST).await;
    }
    world.unfinished.set(world.unfinished.get() - 1);
}

async fn go_on(
    world: &World,
    client: &mut Client,
    group: usize,
    place: Place,
    offset: &mut i64,
    is_known: &mut bool,
    random: &mut SeededRandom,
) -> io::Result<()> {
    loop {
        if !world.ends.get() && random.chance(2, 3) {
            *is_known = false;
            *offset += 1;
            world.history.try_commit(group, place, *offset);
            commit(world, client, group, place, *offset).await?;
        } else {
            *is_known = look(world, client, group, place).await?;
            if world.ends.get() {
                return Ok(());
            }
        }
        sleep(REST).await;
    }
}

fn name(group: usize) -> Text {
    Text::from(format!("group-{group}").as_str())
}

async fn commit(
    world: &World,
    client: &mut Client,
    group: usize,
    place: Place,
    offset: i64,
) -> io::Result<()> {
    let (topic, index) = place;
    let request = OffsetCommitRequest {
        group_id: name(group),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: Text::from(TOPICS[topic].0),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: index,
                committed_offset: offset,
                committed_leader_epoch: -1,
                ..OffsetCommitRequestPartition::default()
            }],
            ..OffsetCommitRequestTopic::default()
        }],
        ..OffsetCommitRequest::default()
    };
    let answer = client.call(&request).await?;
    let code = answer.topics[0].partitions[0].error_code;
    if world.reached(ApiKey::OffsetCommit, code).is_none() {
        world.history.commit(group, place, offset);
    }
    Ok(())
}

async fn look(world: &World, client: &mut Client, group: usize, place: Place) -> io::Result<bool> {
    let (topic, index) = place;
    let request = OffsetFetchRequest {
        group_id: name(group),
        topics: Some(vec![OffsetFetchRequestTopic {
            name: Text::from(TOPICS[topic].0),
            partition_indexes: vec![index],
        }]),
        ..OffsetFetchRequest::default()
    };
    let answer = client.call(&request).await?;
    if world.reached(ApiKey::OffsetFetch, answer.error_code).is_some() {
        return Ok(false);
    }
    let partition = &answer.topics[0].partitions[0];
    if world.reached(ApiKey::OffsetFetch, partition.error_code).is_some() {
        return Ok(false);
    }
    world
        .history
        .hear_committed(group, place, partition.committed_offset);
    Ok(true)
}
