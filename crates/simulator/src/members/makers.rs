//! Clients that make topics, write to them, trim them, move their replicas, commit offsets, and delete some, until the world ends.

use std::collections::BTreeSet;
use std::io;

use bytes::Bytes;
use platform::random::SeededRandom;
use record::{BatchBuilder, Compression};
use tokio::time::sleep;

use super::requests::{At, TABLE, append, batch_of, create, delete, is_table, read, topics, trim};
use super::{PARTITIONS, REST, Shared, commits, moves};

/// Makes topics, writes to them and deletes some, until the world ends.
pub(super) async fn make(shared: Shared, maker: u64, mut random: SeededRandom) {
    let mut number = 0_u64;
    let mut own: BTreeSet<String> = BTreeSet::new();
    while !shared.ends.get() {
        if shared.rests.get() {
            sleep(REST).await;
            continue;
        }
        let node = random.below(shared.nodes.len() as u64) as usize;
        let done = match random.below(12) {
            11 if !own.is_empty() => {
                let place = random.below(own.len() as u64) as usize;
                let name = own.iter().nth(place).expect("it is below").clone();
                trim_some(&shared, node, &name, &mut random).await.map(|()| true)
            }
            9..11 if !own.is_empty() => {
                let place = random.below(own.len() as u64) as usize;
                let name = own.iter().nth(place).expect("it is below").clone();
                moves::move_some(&shared, node, &name, PARTITIONS, &mut random)
                    .await
                    .map(|()| true)
            }
            7..9 => commits::commit_some(&shared, node, &format!("group-{maker}"))
                .await
                .map(|()| true),
            0 if !own.is_empty() => {
                let place = random.below(own.len() as u64) as usize;
                let name = own.iter().nth(place).expect("it is below").clone();
                own.remove(&name);
                delete(&shared, node, &name).await
            }
            1..=3 if !own.is_empty() => {
                let place = random.below(own.len() as u64) as usize;
                let name = own.iter().nth(place).expect("it is below").clone();
                number += 1;
                let index = random.below(PARTITIONS as u64) as i32;
                let _ = read(&shared, node, &name, index, 0, At::Leader).await;
                read_anywhere(&shared, node, &name, &mut random).await;
                write_all(&shared, node, &name, number, &mut random)
                    .await
                    .map(|()| true)
            }
            _ => {
                number += 1;
                let several = match shared.nodes.len() {
                    5.. if random.below(4) == 0 => 5,
                    nodes => nodes.min(3) as i16,
                };
                let is_lone = random.below(3) == 0 && !shared.is_copied;
                let replicas = if is_lone { 1 } else { several };
                let is_table = shared.has_tables && !is_lone && number.is_multiple_of(2);
                let name = format!("{}-{maker}-{number}", if is_table { TABLE } else { "topic" });
                let insync_min = if replicas == 3 && random.below(4) == 0 {
                    3
                } else {
                    1
                };
                let made = create(&shared, node, &name, replicas, insync_min).await;
                if matches!(made, Ok(true)) {
                    own.insert(name.clone());
                    write_all(&shared, node, &name, number, &mut random)
                        .await
                        .map(|()| true)
                } else {
                    made
                }
            }
        };
        match done {
            Ok(_) => shared.trace.count("makers: answered"),
            Err(error) => shared
                .trace
                .count(format!("makers: connection {:?}", error.kind())),
        }
        sleep(REST).await;
    }
    shared.unfinished.set(shared.unfinished.get() - 1);
}

/// Appends a batch of a few records to each partition, at its leader.
async fn write_all(
    shared: &Shared,
    node: usize,
    name: &str,
    number: u64,
    random: &mut SeededRandom,
) -> io::Result<()> {
    let leaders = topics(shared, node).await?.remove(name);
    let Some(leaders) = leaders else {
        // The node may have been stopped, and another one asked.
        return Ok(());
    };
    for (index, leader) in (0..).zip(leaders) {
        let value = |record: i64| format!("{number}.{record} of {name}-{index}");
        let count = 1 + random.below(3) as i64;
        let values: Vec<String> = (0..count).map(value).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        if is_table(name) {
            // Whole batches of these are compacted away.
            append(shared, leader, name, index, superseded()).await?;
        }
        if let Some(first) = append(shared, leader, name, index, batch_of(name, &values)).await? {
            shared.note_written(name, index, first + count);
            for record in 0..count {
                let place = (name.to_owned(), index, first + record);
                shared.records.borrow_mut().insert(place, value(record));
            }
        }
    }
    Ok(())
}

/// A batch that the next one of its kind supersedes.
fn superseded() -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(0, Some(b"one key"), Some(&[b'.'; 400]), &[]);
    builder.build()
}

/// Has each partition begin at one of the records that were acknowledged, which may be inside a batch.
async fn trim_some(shared: &Shared, node: usize, name: &str, random: &mut SeededRandom) -> io::Result<()> {
    let leaders = topics(shared, node).await?.remove(name).unwrap_or_default();
    for (index, leader) in (0..).zip(leaders) {
        let of_partition = (name.to_owned(), index, 0)..(name.to_owned(), index + 1, 0);
        let offsets: Vec<i64> = {
            let records = shared.records.borrow();
            let known = records.range(of_partition);
            known.map(|((_, _, offset), _)| *offset).collect()
        };
        if let Some(before) = offsets.get(random.below(offsets.len().max(1) as u64) as usize) {
            trim(shared, leader, name, index, *before).await?;
        }
    }
    Ok(())
}

/// Reads something that was acknowledged at any replica: it shows that, or nothing yet.
async fn read_anywhere(shared: &Shared, node: usize, name: &str, random: &mut SeededRandom) {
    let acknowledged = {
        let records = shared.records.borrow();
        let first = (name.to_owned(), 0, 0);
        let of_topic = records
            .range(first..)
            .take_while(|((topic, ..), _)| topic == name);
        let of_topic: Vec<_> = of_topic.collect();
        if of_topic.is_empty() {
            return;
        }
        let (place, value) = of_topic[random.below(of_topic.len() as u64) as usize];
        (place.clone(), value.clone())
    };
    let ((_, index, offset), value) = acknowledged;
    match read(shared, node, name, index, offset, At::Replica).await {
        Ok(Some(found)) if found != value => shared.violate(format!(
            "{value} was acknowledged at {offset} of {name}-{index}, where node {node} shows {found}"
        )),
        Ok(Some(_)) => shared.trace.count("makers: read at a replica"),
        Ok(None) | Err(_) => {}
    }
}
