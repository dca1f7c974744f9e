//! A producer that breaks the rules on purpose: it begins in the middle, and leaves sequences out. It must be refused.

use std::io;

use kafka_wire::{ApiKey, ErrorCode, ProduceRequest};
use platform::random::SeededRandom;
use record::Compression;
use tokio::time::sleep;

use super::producer::{new_id, records, request};
use super::{REST, World, places};
use crate::client::Client;
use crate::history::{Place, Value};

/// More than any producer has under way.
const GAP: i32 = 7;
/// How long it rests between two tries, in rests of others.
const RESTS: u32 = 10;

/// Tries until the world ends.
pub(crate) async fn trespass(world: World, mut random: SeededRandom) {
    let mut next_value = world.history.first_value();
    while !world.ends.get() {
        let mut client = world.connect().await;
        let all = places();
        let place = all[random.below(all.len() as u64) as usize];
        if let Err(error) = go_on(&world, &mut client, place, &mut next_value).await {
            world
                .trace
                .count(format!("Produce: connection {:?}", error.kind()));
        }
        sleep(REST * RESTS).await;
    }
    world.unfinished.set(world.unfinished.get() - 1);
}

async fn go_on(world: &World, client: &mut Client, place: Place, next_value: &mut Value) -> io::Result<()> {
    let Some(id) = new_id(world, client).await? else {
        return Ok(());
    };
    for (first_sequence, is_allowed) in [(GAP, false), (0, true), (1 + GAP, false), (1, true)] {
        let value = *next_value;
        *next_value += 1;
        let batch = records(Some((id, first_sequence)), &[value], 0, Compression::None);
        let answer = client.call::<ProduceRequest>(&request(place, -1, batch)).await?;
        let answer = &answer.responses[0].partition_responses[0];
        match (world.reached(ApiKey::Produce, answer.error_code), is_allowed) {
            (None, true) => world.history.acknowledge(place, answer.base_offset, &[value]),
            (None, false) => world.history.violate(format!(
                "{place:?} took sequence {first_sequence} of producer {id}, though what comes before it is missing"
            )),
            (Some(ErrorCode::OutOfOrderSequenceNumber), false) => {}
            (Some(_), _) => return Ok(()),
        }
    }
    Ok(())
}
