//! Checks of a cluster once nothing fails any more: all nodes know the same topics, acknowledged records stand where they were told, and all goes
//! on without one node.

use std::io;

use tokio::time::sleep;

use super::requests::{At, append, batch_of, create, read, topics};
use super::{Fate, PARTITIONS, REST, Shared};

/// Waits until each partition of the topics that are there, with three replicas, takes a record at its leader.
pub(super) async fn write_everywhere(shared: &Shared, away: usize) {
    for name in topics_there(shared) {
        // While one is away these refuse.
        if !shared.wide.borrow().contains(&name) {
            write_to(shared, &name, Some(away)).await;
        }
    }
}

/// The same for the topics that want every replica to hold a record; none is away.
pub(super) async fn write_where_all_are_wanted(shared: &Shared) {
    for name in topics_there(shared) {
        if shared.wide.borrow().contains(&name) {
            write_to(shared, &name, None).await;
        }
    }
}

async fn write_to(shared: &Shared, name: &str, away: Option<usize>) {
    for index in 0..PARTITIONS {
        loop {
            match try_to_write(shared, name, index, away).await {
                Ok(true) => break,
                Ok(false) => *shared.awaited.borrow_mut() = format!("{name}-{index} takes nothing"),
                Err(error) => {
                    *shared.awaited.borrow_mut() = format!("{name}-{index} takes nothing: {error}");
                }
            }
            sleep(REST).await;
        }
    }
}

/// The topics that may be there, and that of the groups.
pub(super) fn all_topics(shared: &Shared) -> Vec<String> {
    let fates = shared.fates.borrow();
    let named = fates.keys().cloned();
    named.chain(["__consumer_offsets".to_owned()]).collect()
}

/// The topics whose making was answered.
pub(super) fn topics_there(shared: &Shared) -> Vec<String> {
    let fates = shared.fates.borrow();
    let there = fates.iter().filter(|(_, fate)| **fate == Fate::There);
    there.map(|(name, _)| name.clone()).collect()
}

/// Waits until a topic was made by way of a node that is there.
pub(super) async fn make_one_more(shared: &Shared, away: usize) {
    let node = usize::from(away == 0);
    while !matches!(create(shared, node, "one-more", 1, 1).await, Ok(true)) {
        "no topic can be made".clone_into(&mut shared.awaited.borrow_mut());
        sleep(REST).await;
    }
}

/// Says whether the partition has taken a record, or has one replica, which is away.
async fn try_to_write(shared: &Shared, name: &str, index: i32, away: Option<usize>) -> io::Result<bool> {
    let node = usize::from(away == Some(0));
    let leaders = topics(shared, node).await?.remove(name).unwrap_or_default();
    let Some(leader) = leaders.get(index as usize) else {
        return Ok(true);
    };
    if Some(*leader) == away && shared.lone.borrow().contains(name) {
        return Ok(true);
    }
    let batch = batch_of(name, &["without one"]);
    Ok(append(shared, *leader, name, index, batch).await?.is_some())
}

/// Waits until all nodes know the same topics, and holds them against what clients were told.
pub(super) async fn check(shared: &Shared) {
    let first = loop {
        let mut all = Vec::new();
        for node in 0..shared.nodes.len() {
            all.push(topics(shared, node).await);
        }
        match all.iter().all(|topics| {
            topics.is_ok() && Some(topics.as_ref().ok()) == all.first().map(|first| first.as_ref().ok())
        }) {
            true => break all.remove(0).expect("it was seen"),
            false => {
                *shared.awaited.borrow_mut() = format!("they know {all:?}");
                sleep(REST).await;
            }
        }
    };
    for (name, fate) in shared.fates.borrow().iter() {
        match (fate, first.contains_key(name)) {
            (Fate::There, false) => shared.violate(format!("topic {name} was made, and is not there")),
            (Fate::Gone, true) => shared.violate(format!("topic {name} was deleted, and is there")),
            _ => {}
        }
    }
    let records = shared.records.borrow().clone();
    for ((name, index, offset), value) in records {
        // A deletion that nobody waits for any more may come yet.
        if shared.fates.borrow().get(&name) != Some(&Fate::There) {
            continue;
        }
        let found = loop {
            match read_at_leader(shared, &name, index, offset).await {
                Ok(found) => break found,
                Err(error) => {
                    *shared.awaited.borrow_mut() = format!("{value} is not to be had: {error}");
                    sleep(REST).await;
                }
            }
        };
        let trims = shared.trims.borrow();
        let is_given_up = found.is_none()
            && trims
                .get(&(name.clone(), index))
                .is_some_and(|from| offset < *from);
        if found.as_ref() != Some(&value) && !is_given_up {
            shared.violate(format!(
                "{value} was acknowledged at {offset} of {name}-{index}, where there is {found:?}"
            ));
        }
    }
}

/// The value at an offset, at the node that leads the partition now.
pub(super) async fn read_at_leader(
    shared: &Shared,
    topic: &str,
    index: i32,
    offset: i64,
) -> io::Result<Option<String>> {
    let leaders = topics(shared, 0).await?.remove(topic).unwrap_or_default();
    match leaders.get(index as usize) {
        Some(leader) => {
            let read = read(shared, *leader, topic, index, offset, At::Leader).await;
            read.map_err(|error| io::Error::new(error.kind(), format!("node {leader}, which leads: {error}")))
        }
        None => Ok(None),
    }
}
