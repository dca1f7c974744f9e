//! Readers of committed records: they sort out what is aborted by the list that comes with each answer, as Kafka's consumers do.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use kafka_wire::fetch::{FetchPartition, FetchTopic, PartitionData};
use kafka_wire::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_wire::{ApiKey, FetchRequest, ListOffsetsRequest, Text};
use platform::random::SeededRandom;
use record::{CommittedBatches, Limits, Offset};

use super::ledger::Value;
use super::{Bank, Caller, PARTITIONS, TOPIC};

const READ_COMMITTED: i8 = 1;
const FETCH: i16 = 12;
const LIST_OFFSETS: i16 = 6;
const LATEST: i64 = -1;

/// Where a partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Leader,
    /// It may know of less than it knew before it started anew.
    Replica,
}

/// The content of one answer.
struct Shown {
    /// The offset to go on with.
    next: i64,
    stable: i64,
    tail: i64,
    aborted: Vec<(i64, i64)>,
}

/// Reads a partition on and on, now and then from somewhere else.
pub(super) async fn read_on(bank: Bank, partition: i32, random: SeededRandom) {
    let mut caller = Caller::new(&bank, random);
    let (mut position, mut leader) = (0, None);
    while !bank.ends.get() {
        if caller.random.chance(1, 50) {
            position = caller.random.below(position as u64 + 1) as i64;
        }
        match follow(&mut caller, &mut leader, partition, position).await {
            Ok(next) => position = next,
            Err(_) => {
                leader = None;
                caller.rest().await;
            }
        }
    }
    bank.finish();
}

async fn follow(
    caller: &mut Caller,
    leader: &mut Option<usize>,
    partition: i32,
    position: i64,
) -> io::Result<i64> {
    let node = match *leader {
        Some(node) => node,
        None => *leader.insert(caller.partitions().await?[partition as usize].leader),
    };
    if caller.random.chance(1, 30) {
        list_stable(caller, node, partition).await?;
    }
    Ok(read(caller, (node, At::Leader), partition, position).await?.next)
}

/// Reads every partition at its leader and at all replicas, until each has shown all that there is and nothing is open any more.
pub(super) async fn read_everything(bank: &Bank, away: Option<usize>) {
    let mut caller = Caller::new(bank, SeededRandom::new(0));
    caller.away = away;
    for partition in 0..PARTITIONS {
        let (tail, of_leader) = read_all(&mut caller, partition, None).await;
        for node in 0..bank.nodes.len() {
            if Some(node) == away || bank.nodes.len() == 1 {
                continue;
            }
            let (_, of_replica) = read_all(&mut caller, partition, Some((node, tail))).await;
            // Each compacts for itself, and what is gone is listed no more.
            if of_replica
                .as_ref()
                .is_some_and(|aborted| Some(aborted) != of_leader.as_ref())
                && !bank.is_table
            {
                bank.ledger.violate(format!(
                    "node {node} tells that {of_replica:?} are aborted in partition {partition}, and its leader that {of_leader:?} are"
                ));
            }
        }
    }
}

/// Reads a partition from its start to the end of what it has, all of which must come to be stable; at its leader, or at a replica up to a tail. Returns
/// that end and the transactions that were said to be aborted: `None` if the node has no replica.
async fn read_all(
    caller: &mut Caller,
    partition: i32,
    replica: Option<(usize, i64)>,
) -> (i64, Option<BTreeSet<(i64, i64)>>) {
    let (mut position, mut aborted) = (0, BTreeSet::new());
    loop {
        let outcome = match caller.partitions().await {
            Ok(known) => {
                let known = &known[partition as usize];
                let (node, at) = match replica {
                    Some((node, _)) if !known.replicas.contains(&node) => return (0, None),
                    Some((node, _)) => (node, At::Replica),
                    None => (known.leader, At::Leader),
                };
                read(caller, (node, at), partition, position).await
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(shown) => {
                position = shown.next;
                aborted.extend(shown.aborted);
                let end = replica.map_or(shown.tail, |(_, tail)| tail);
                if shown.stable >= end && position >= end {
                    return (end, Some(aborted));
                }
                caller.bank.await_still(format!(
                    "partition {partition} is read up to {position}, and stable up to {} of {end}, at {replica:?}",
                    shown.stable
                ));
            }
            Err(error) => {
                caller.bank.await_still(format!(
                    "partition {partition} cannot be read at {replica:?}: {error}"
                ));
                caller.rest().await;
            }
        }
    }
}

async fn list_stable(caller: &mut Caller, node: usize, partition: i32) -> io::Result<()> {
    let ledger = caller.bank.ledger.clone();
    let floor = ledger.stable(node, partition);
    let request = ListOffsetsRequest {
        isolation_level: READ_COMMITTED,
        topics: vec![ListOffsetsTopic {
            name: Text::from(TOPIC),
            partitions: vec![ListOffsetsPartition {
                partition_index: partition,
                current_leader_epoch: -1,
                timestamp: LATEST,
            }],
        }],
        ..ListOffsetsRequest::default()
    };
    let answer = caller.call(node, LIST_OFFSETS, &request).await?;
    let answer = &answer.topics[0].partitions[0];
    match caller.bank.reached(ApiKey::ListOffsets, answer.error_code) {
        None => ledger.hear_stable((node, partition), floor, (answer.offset, i64::MAX)),
        Some(error) => return Err(io::Error::other(format!("{error:?}"))),
    }
    Ok(())
}

/// Reads on at a position, and tells the ledger what it has passed.
async fn read(
    caller: &mut Caller,
    (node, at): (usize, At),
    partition: i32,
    position: i64,
) -> io::Result<Shown> {
    let ledger = caller.bank.ledger.clone();
    let floor = ledger.stable(node, partition);
    let request = FetchRequest {
        max_wait_ms: 300,
        min_bytes: 1,
        max_bytes: 1 << 20,
        isolation_level: READ_COMMITTED,
        // A rack without nodes: whoever says one may read anywhere.
        rack_id: Text::from(if at == At::Replica { "elsewhere" } else { "" }),
        topics: vec![FetchTopic {
            topic: Text::from(TOPIC),
            partitions: vec![FetchPartition {
                partition,
                current_leader_epoch: -1,
                fetch_offset: position,
                partition_max_bytes: 64 << 10,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    let answer = caller.call(node, FETCH, &request).await?;
    let answer = &answer.responses[0].partitions[0];
    if let Some(error) = caller.bank.reached(ApiKey::Fetch, answer.error_code) {
        return Err(io::Error::other(format!("{error:?}")));
    }
    let (stable, tail) = (answer.last_stable_offset, answer.high_watermark);
    if at == At::Leader {
        ledger.hear_stable((node, partition), floor, (stable, tail));
    }
    let aborted: Vec<(i64, i64)> = answer
        .aborted_transactions
        .iter()
        .flatten()
        .map(|of| (of.producer_id, of.first_offset))
        .collect();
    let mut next = position;
    for (offset, value) in committed(answer, &aborted, position) {
        if offset >= stable {
            ledger.violate(format!(
                "node {node} shows offset {offset} of partition {partition}, and says that it is stable up to {stable}"
            ));
        }
        // Where compaction has taken records away nothing counts.
        (next..offset).for_each(|gap| ledger.pass(partition, gap, None));
        ledger.pass(partition, offset, value);
        next = offset + 1;
    }
    Ok(Shown {
        next,
        stable,
        tail,
        aborted,
    })
}

/// The offsets of an answer from a position on, with the values that count.
fn committed(answer: &PartitionData, aborted: &[(i64, i64)], position: i64) -> BTreeMap<i64, Option<Value>> {
    let aborted = aborted
        .iter()
        .map(|(producer, first)| (*producer, Offset(*first)));
    let mut committed = CommittedBatches::new(aborted);
    let mut found = BTreeMap::new();
    let bytes = answer.records.chunks.concat();
    for batch in record::batches(&bytes) {
        // The last one may be cut, as Kafka cuts it.
        let Ok((header, batch)) = batch else { break };
        let counts = committed.take(&header, batch).expect("it is sound");
        let first = header.base_offset.0.max(position);
        found.extend((first..header.next_offset().0).map(|offset| (offset, None)));
        if !counts {
            continue;
        }
        for record in record::records(batch, &Limits::default()).expect("it is sound") {
            let record = record.expect("it is sound");
            let value = record.value.expect("each has one");
            let value = Value::from_le_bytes(value[..8].try_into().expect("eight bytes"));
            if record.offset.0 >= position {
                found.insert(record.offset.0, Some(value));
            }
        }
    }
    found
}
