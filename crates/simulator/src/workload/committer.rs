//! Offsets that a group commits, and what it is told that it has committed. A group without members may commit any.

use std::io;

use kafka_wire::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_wire::offset_fetch::OffsetFetchRequestTopic;
use kafka_wire::{ApiKey, ErrorCode, OffsetCommitRequest, OffsetFetchRequest, Text};
use platform::random::SeededRandom;
use tokio::time::sleep;

use super::{REST, TOPICS, World};
use crate::client::Client;
use crate::history::Place;

/// Whoever commits for a group.
#[derive(Clone)]
pub(super) struct Committer {
    pub(super) group: usize,
    /// -1 without members.
    pub(super) generation: i32,
    pub(super) member: Text,
}

/// Commits higher and higher offsets of a partition, and asks for them.
pub(crate) async fn commit_offsets(world: World, group: usize, place: Place, mut random: SeededRandom) {
    let committer = Committer::nobody(group);
    let mut is_known = false;
    while !(world.ends.get() && is_known) {
        let mut client = world.connect().await;
        let outcome = committer.go_on(&world, &mut client, place, &mut is_known, &mut random);
        if let Err(error) = outcome.await {
            world
                .trace
                .count(format!("OffsetCommit: connection {:?}", error.kind()));
        }
        sleep(REST).await;
    }
    world.unfinished.set(world.unfinished.get() - 1);
}

impl Committer {
    /// Whoever is no member.
    pub(super) fn nobody(group: usize) -> Committer {
        Committer {
            group,
            generation: -1,
            member: Text::default(),
        }
    }

    async fn go_on(
        &self,
        world: &World,
        client: &mut Client,
        place: Place,
        is_known: &mut bool,
        random: &mut SeededRandom,
    ) -> io::Result<()> {
        loop {
            if !world.ends.get() && random.chance(2, 3) {
                *is_known = false;
                self.commit(world, client, place).await?;
            } else {
                *is_known = self.look(world, client, place).await?;
                if world.ends.get() {
                    return Ok(());
                }
            }
            sleep(REST).await;
        }
    }

    /// Commits a higher offset than ever before; returns why not, if it is refused.
    pub(super) async fn commit(
        &self,
        world: &World,
        client: &mut Client,
        place: Place,
    ) -> io::Result<Option<ErrorCode>> {
        let (topic, index) = place;
        let offset = world.history.try_commit(self.group, place);
        let request = OffsetCommitRequest {
            group_id: name_of(self.group),
            generation_id_or_member_epoch: self.generation,
            member_id: self.member.clone(),
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
        let error = world.reached(ApiKey::OffsetCommit, code);
        if error.is_none() {
            world.history.commit(self.group, place, offset);
        }
        Ok(error)
    }

    /// Asks for what is committed; returns whether it was told.
    pub(super) async fn look(&self, world: &World, client: &mut Client, place: Place) -> io::Result<bool> {
        let (topic, index) = place;
        let floor = world.history.committed(self.group, place);
        let request = OffsetFetchRequest {
            group_id: name_of(self.group),
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
            .hear_committed(self.group, place, floor, partition.committed_offset);
        Ok(true)
    }
}

/// The name of a group.
pub(super) fn name_of(group: usize) -> Text {
    Text::from(format!("group-{group}").as_str())
}
