//! Two of five nodes go and do not come back, and with them two of the three disks of some partitions. These stay closed until an
//! operator says that they are to be opened with what is left; then they have all that this had, and go on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;

use kafka_wire::elect_leaders::TopicPartitions;
use kafka_wire::{ElectLeadersRequest, ErrorCode, Text};
use tokio::time::{Instant, sleep};

use super::requests::{At, append, batch_of, place_of, read, topics};
use super::{Cluster, HEARD, PEACE, REST, Shared, checks, moves};
use crate::client::Client;

/// Kafka's number for an election of whoever is left.
const UNCLEAN: i8 = 1;
/// Records that are written while the one that will be left does not hear of them.
const UNHEARD: i64 = 3;
/// The first nodes are those that the metadata needs most of.
const VOTERS: usize = 3;

/// A partition of which one replica will be left.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Closed {
    topic: String,
    index: i32,
    left: usize,
}

impl Closed {
    fn name(&self) -> String {
        format!("{}-{}", self.topic, self.index)
    }
}

impl Cluster {
    pub(super) async fn go_on_with_one_left(&mut self, shared: &Shared) {
        // Until then every replica has all.
        self.engine.run_until(Instant::now() + HEARD).await;
        let Some((gone, closed)) = self.choose(shared).await else {
            return;
        };
        let left = closed[0].left;
        let unheard: Rc<RefCell<Vec<(Closed, i64, String)>>> = Rc::default();
        if self.random.below(2) == 0 {
            self.machines[left].stop(&mut self.engine, true);
            let (writing, all, told) = (shared.clone(), closed.clone(), unheard.clone());
            let asked = gone[0];
            let done = self.until(async move {
                for partition in &all {
                    write_unheard(&writing, asked, partition, &told).await;
                }
            });
            if !done.await {
                return shared.violate("two of three replicas do not take records".to_owned());
            }
        }
        for node in &gone {
            self.machines[*node].kill(&mut self.engine);
        }
        self.machines[left].stop(&mut self.engine, false);
        *self.faults.entry("two of three disks lost").or_default() += 1;
        let (opening, all) = (shared.clone(), closed.clone());
        let done = self.until(async move {
            stay_closed(&opening, &all).await;
            open(&opening, &all).await;
            for partition in &all {
                let known = unheard.borrow().clone();
                go_on(&opening, partition, &known).await;
            }
        });
        if !done.await {
            let awaited = shared.awaited.borrow().clone();
            shared.violate(format!(
                "nodes {gone:?} are lost, and the others do not go on: {awaited}"
            ));
        }
    }

    /// Says that something that clients do comes to its end.
    async fn until(&mut self, work: impl Future<Output = ()> + 'static) -> bool {
        let is_done = Rc::new(Cell::new(false));
        let done = is_done.clone();
        self.engine.add(async move {
            work.await;
            done.set(true);
        });
        self.engine
            .run(Instant::now() + 2 * PEACE, || is_done.get())
            .await
    }

    /// Two nodes that share a partition with a third, and the partitions of which only that will be left. None if there is no such
    /// partition.
    async fn choose(&mut self, shared: &Shared) -> Option<(Vec<usize>, Vec<Closed>)> {
        let known = Rc::new(RefCell::new(None));
        let (told, asking) = (known.clone(), shared.clone());
        let done = self.until(async move {
            let sets = loop {
                match moves::replica_sets(&asking).await {
                    Ok(sets) => break sets,
                    Err(_) => sleep(REST).await,
                }
            };
            *told.borrow_mut() = Some(sets);
        });
        if !done.await {
            shared.violate("nobody tells of replicas".to_owned());
            return None;
        }
        let mut there = checks::topics_there(shared);
        // These need the log of their order, too, which others may hold.
        there.retain(|topic| !shared.orders.borrow().contains_key(topic));
        let sets = known.borrow_mut().take().unwrap_or_default();
        let sets: Vec<(String, i32, Vec<usize>)> = sets
            .into_iter()
            .filter(|(topic, _, set)| there.contains(topic) && set.len() == 3)
            .map(|(topic, index, set)| (topic, index, set.into_iter().map(place_of).collect()))
            .collect();
        let ways: Vec<(usize, Vec<usize>)> = sets.iter().flat_map(|(_, _, set)| ways_to_lose(set)).collect();
        let (left, gone) = ways
            .get(self.random.below(ways.len().max(1) as u64) as usize)?
            .clone();
        let is_closed = |set: &[usize]| set.contains(&left) && gone.iter().all(|node| set.contains(node));
        let closed = sets.iter().filter(|(_, _, set)| is_closed(set));
        let closed = closed.map(|(topic, index, _)| Closed {
            topic: topic.clone(),
            index: *index,
            left,
        });
        Some((gone.clone(), closed.collect()))
    }
}

/// Which of these may be left, and the others; the metadata keeps most of its voters.
fn ways_to_lose(set: &[usize]) -> Vec<(usize, Vec<usize>)> {
    let without = |left: &usize| {
        let gone: Vec<usize> = set.iter().copied().filter(|node| node != left).collect();
        (*left, gone)
    };
    let ways = set.iter().map(without);
    ways.filter(|(_, gone)| gone.iter().filter(|node| **node < VOTERS).count() < VOTERS.div_ceil(2))
        .collect()
}

/// Writes records to a partition by way of a node, one after the other, until each is acknowledged.
async fn write_unheard(
    shared: &Shared,
    asked: usize,
    partition: &Closed,
    told: &RefCell<Vec<(Closed, i64, String)>>,
) {
    if shared.wide.borrow().contains(&partition.topic) {
        return;
    }
    let mut written = 0;
    while written < UNHEARD {
        let value = format!("unheard {written} of {}", partition.name());
        match write(shared, asked, partition, &value).await {
            Ok(Some(offset)) => {
                told.borrow_mut().push((partition.clone(), offset, value));
                written += 1;
            }
            Ok(None) | Err(_) => sleep(REST).await,
        }
    }
}

/// Appends a record at whoever leads, as `asked` knows; the offset if it was acknowledged.
async fn write(shared: &Shared, asked: usize, partition: &Closed, value: &str) -> io::Result<Option<i64>> {
    let leaders = topics(shared, asked)
        .await?
        .remove(&partition.topic)
        .unwrap_or_default();
    let Some(leader) = leaders.get(partition.index as usize) else {
        return Ok(None);
    };
    append(
        shared,
        *leader,
        &partition.topic,
        partition.index,
        batch_of(&partition.topic, &[value]),
    )
    .await
}

/// One replica of three acknowledges nothing, whatever it is asked.
async fn stay_closed(shared: &Shared, all: &[Closed]) {
    for partition in all {
        let written = append(
            shared,
            partition.left,
            &partition.topic,
            partition.index,
            batch_of(&partition.topic, &["too few"]),
        )
        .await;
        if let Ok(Some(offset)) = written {
            shared.violate(format!(
                "{} took a record at {offset} with one of three replicas",
                partition.name()
            ));
        }
    }
}

/// Has an operator open them with what is left, as often as it takes: at first the others have not been given up.
async fn open(shared: &Shared, all: &[Closed]) {
    let mut closed = all.to_vec();
    while !closed.is_empty() {
        if let Err(error) = elect(shared, &mut closed).await {
            *shared.awaited.borrow_mut() = format!("nobody opens what is left: {error}");
        }
        sleep(REST).await;
    }
}

/// Asks once; those that are opened are no longer among them.
async fn elect(shared: &Shared, all: &mut Vec<Closed>) -> io::Result<()> {
    let names: BTreeSet<&String> = all.iter().map(|partition| &partition.topic).collect();
    let wanted = names.into_iter().map(|topic| TopicPartitions {
        topic: Text::from(topic.as_str()),
        partitions: all
            .iter()
            .filter(|partition| partition.topic == *topic)
            .map(|partition| partition.index)
            .collect(),
    });
    let request = ElectLeadersRequest {
        election_type: UNCLEAN,
        topic_partitions: Some(wanted.collect()),
        timeout_ms: 3_000,
    };
    let mut client = Client::connect(&shared.net, shared.nodes[all[0].left]).await?;
    let answer = client.call(&request).await?;
    if answer.error_code != 0 {
        let code = ErrorCode::from_code(answer.error_code);
        return Err(io::Error::other(format!("{code:?}")));
    }
    for topic in &answer.replica_election_results {
        for partition in &topic.partition_result {
            let code = ErrorCode::from_code(partition.error_code);
            shared.trace.count(format!("open with what is left: {code:?}"));
            let is_it =
                |closed: &Closed| closed.topic == *topic.topic && closed.index == partition.partition_id;
            match code {
                Some(ErrorCode::None) => all.retain(|closed| !is_it(closed)),
                _ => {
                    *shared.awaited.borrow_mut() = format!(
                        "{}-{} is not opened: {code:?} ({:?})",
                        topic.topic, partition.partition_id, partition.error_message
                    );
                }
            }
        }
    }
    Ok(())
}

/// A partition that was opened so takes a record, behind all that its last replica had, and has that where it was.
async fn go_on(shared: &Shared, partition: &Closed, unheard: &[(Closed, i64, String)]) {
    if shared.wide.borrow().contains(&partition.topic) {
        // It waits for more replicas than are left.
        return;
    }
    let next = loop {
        match write(shared, partition.left, partition, "with what is left").await {
            Ok(Some(offset)) => break offset,
            Ok(None) => *shared.awaited.borrow_mut() = format!("{} takes nothing", partition.name()),
            Err(error) => {
                *shared.awaited.borrow_mut() = format!("{} takes nothing: {error}", partition.name())
            }
        }
        sleep(REST).await;
    };
    let place = |offset| (partition.topic.clone(), partition.index, offset);
    let trimmed = shared
        .trims
        .borrow()
        .get(&(partition.topic.clone(), partition.index))
        .copied();
    let known: Vec<(i64, String)> = {
        let records = shared.records.borrow();
        let known = records.range(place(trimmed.unwrap_or(0))..place(i64::MAX));
        known
            .map(|((_, _, offset), value)| (*offset, value.clone()))
            .collect()
    };
    for (offset, value) in known {
        if offset >= next {
            return shared.violate(format!(
                "{value} was acknowledged at {offset} of {}, and all of its replicas had it; it goes on at {next}",
                partition.name()
            ));
        }
        must_be(shared, partition, offset, &value).await;
    }
    // Of the others there is the beginning that it had heard of.
    for (_, offset, value) in unheard
        .iter()
        .filter(|(of, offset, _)| of == partition && *offset < next)
    {
        must_be(shared, partition, *offset, value).await;
    }
}

async fn must_be(shared: &Shared, partition: &Closed, offset: i64, value: &str) {
    let found = loop {
        match read(
            shared,
            partition.left,
            &partition.topic,
            partition.index,
            offset,
            At::Leader,
        )
        .await
        {
            Ok(found) => break found,
            Err(error) => *shared.awaited.borrow_mut() = format!("{value} is not to be had: {error}"),
        }
        sleep(REST).await;
    };
    if found.as_deref() != Some(value) {
        shared.violate(format!(
            "{value} was acknowledged at {offset} of {}, where there is {found:?} after it was opened with what was left",
            partition.name()
        ));
    }
}
