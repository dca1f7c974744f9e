//! An administrator: topics come and go, logs are trimmed, configs change.

use std::io;

use kafka_wire::create_topics::{CreatableTopic, CreatableTopicConfig};
use kafka_wire::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_wire::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use kafka_wire::{
    ApiKey, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest, ErrorCode,
    IncrementalAlterConfigsRequest, Text,
};
use platform::random::SeededRandom;
use tokio::time::sleep;

use super::{ORDERED, REST, TOPICS, World, places};
use crate::client::Client;

/// The number of a topic as a config resource.
const TOPIC: i8 = 2;
/// The config that gives a topic one order.
const ORDER: &str = "ropewalk.order";

/// Makes the topics that are written to, however long it takes.
pub(crate) async fn create_topics(world: &World) {
    loop {
        let mut client = world.connect().await;
        let mut missing = 0;
        for (topic, (name, partitions)) in TOPICS.into_iter().enumerate() {
            let is_ordered = world.order.is_some() && topic == ORDERED;
            match create(world, &mut client, name, (partitions, is_ordered)).await {
                Ok(None | Some(ErrorCode::TopicAlreadyExists)) => {}
                _ => missing += 1,
            }
        }
        if missing == 0 {
            return;
        }
        sleep(REST).await;
    }
}

async fn create(
    world: &World,
    client: &mut Client,
    name: &str,
    (partitions, is_ordered): (i32, bool),
) -> io::Result<Option<ErrorCode>> {
    let order = || CreatableTopicConfig {
        name: Text::from(ORDER),
        value: Some(Text::from("total")),
    };
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: Text::from(name),
            num_partitions: partitions,
            replication_factor: -1,
            configs: is_ordered.then(order).into_iter().collect(),
            ..CreatableTopic::default()
        }],
        timeout_ms: 3_000,
        ..CreateTopicsRequest::default()
    };
    let answer = client.call(&request).await?;
    Ok(world.reached(ApiKey::CreateTopics, answer.topics[0].error_code))
}

/// Topics that come and go.
const PASSING: u64 = 4;

/// A topic that comes and goes. Nobody else changes it.
#[derive(Debug, Clone, Copy, Default)]
struct Passing {
    /// Part of its name: the topic of a request without an answer is left to itself, as nobody knows when that request is carried out.
    number: u64,
    is_there: bool,
}

/// Administers until the world ends.
pub(crate) async fn administer(world: World, mut random: SeededRandom) {
    let mut passing = [Passing::default(); PASSING as usize];
    while !world.ends.get() {
        let mut client = world.connect().await;
        if let Err(error) = go_on(&world, &mut client, &mut passing, &mut random).await {
            world
                .trace
                .count(format!("administration: connection {:?}", error.kind()));
        }
        sleep(REST).await;
    }
    world.unfinished.set(world.unfinished.get() - 1);
}

async fn go_on(
    world: &World,
    client: &mut Client,
    passing: &mut [Passing; PASSING as usize],
    random: &mut SeededRandom,
) -> io::Result<()> {
    while !world.ends.get() {
        let place = random.below(PASSING);
        match random.below(4) {
            creates @ 0..2 => {
                come_or_go(world, client, place, &mut passing[place as usize], creates == 0).await?
            }
            2 => trim(world, client, random).await?,
            // Often enough that the metadata log gets images.
            _ => {
                for _ in 0..=random.below(30) {
                    configure(world, client, random).await?;
                }
            }
        }
        sleep(REST * 4).await;
    }
    Ok(())
}

/// Creates or deletes a topic, and holds the answer against what is known of it.
async fn come_or_go(
    world: &World,
    client: &mut Client,
    place: u64,
    topic: &mut Passing,
    creates: bool,
) -> io::Result<()> {
    let before = *topic;
    let name = format!("passing-{place}-{}", before.number);
    // Until the answer is here.
    *topic = Passing {
        number: before.number + 1,
        is_there: false,
    };
    let error = match creates {
        true => create(world, client, &name, (1 + place as i32, world.order.is_some())).await?,
        false => delete(world, client, &name).await?,
    };
    let was_there = match error {
        None => !creates,
        Some(ErrorCode::TopicAlreadyExists) => true,
        Some(ErrorCode::UnknownTopicOrPartition) => false,
        // It may have been carried out.
        Some(_) => return Ok(()),
    };
    if was_there != before.is_there {
        let told = if was_there { "there" } else { "not there" };
        world.history.violate(format!(
            "topic {name} is {told}, contrary to what was acknowledged"
        ));
    }
    *topic = Passing {
        is_there: creates,
        ..before
    };
    Ok(())
}

async fn delete(world: &World, client: &mut Client, name: &str) -> io::Result<Option<ErrorCode>> {
    let request = DeleteTopicsRequest {
        topic_names: vec![Text::from(name)],
        timeout_ms: 3_000,
        ..DeleteTopicsRequest::default()
    };
    let answer = client.call(&request).await?;
    Ok(world.reached(ApiKey::DeleteTopics, answer.responses[0].error_code))
}

/// Gives up some of the oldest records that are known.
async fn trim(world: &World, client: &mut Client, random: &mut SeededRandom) -> io::Result<()> {
    let all = places();
    let place = all[random.below(all.len() as u64) as usize];
    let (start, tail) = (world.history.start(place), world.history.tail(place));
    let before = start + random.below((tail - start) as u64 / 2 + 1) as i64;
    world.history.ask_trim(place, before);
    let (topic, index) = place;
    let request = DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: Text::from(TOPICS[topic].0),
            partitions: vec![DeleteRecordsPartition {
                partition_index: index,
                offset: before,
            }],
        }],
        timeout_ms: 3_000,
    };
    let answer = client.call(&request).await?;
    let answer = &answer.topics[0].partitions[0];
    if world.reached(ApiKey::DeleteRecords, answer.error_code).is_none() {
        world.history.acknowledge_trim(place, answer.low_watermark);
        world
            .history
            .hear_start(place, start.max(before), answer.low_watermark);
    }
    Ok(())
}

async fn configure(world: &World, client: &mut Client, random: &mut SeededRandom) -> io::Result<()> {
    let topic = random.below(TOPICS.len() as u64) as usize;
    let (name, _) = TOPICS[topic];
    let bytes: u64 = (1 << 20) << random.below(4);
    // Without effect, and long.
    let replicas: Vec<String> = (0..random.below(150)).map(|index| format!("{index}:1")).collect();
    let set = |name, value: &str| AlterableConfig {
        name: Text::from(name),
        config_operation: 0,
        value: Some(Text::from(value)),
    };
    let mut configs = vec![
        set("segment.bytes", &bytes.to_string()),
        set("leader.replication.throttled.replicas", &replicas.join(",")),
    ];
    if world.order.is_some() && topic != ORDERED && random.chance(1, 4) {
        let order = if random.chance(1, 2) { "total" } else { "partition" };
        configs.push(set(ORDER, order));
    }
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: TOPIC,
            resource_name: Text::from(name),
            configs,
        }],
        validate_only: false,
    };
    let answer = client.call(&request).await?;
    world.reached(ApiKey::IncrementalAlterConfigs, answer.responses[0].error_code);
    Ok(())
}
