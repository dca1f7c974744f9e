//! A look at partitions, wherever they are owned: which are meant, what they have, and in slices, so that a fetch of
//! thousands of partitions leaves its core to others in between.

use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use kafka_wire::ErrorCode;
use platform::slices::next_slice;
use platform::turns;
use protocol::leader::NodeId;
use protocol::metadata::Metadata;
use record::{Compression, Epoch, Offset, PartitionId};
use shard::{ReadRefusal, ReadRequest, ReadResult, Shard};
use tokio::task::yield_now;

use super::decision::Sight;
use crate::answer_budget::AnswerBudget;
use crate::core::{Core, NodeFacts};
use crate::error_codes::read_code;
use crate::fetch_session::{FIRST_WITH_TOPIC_IDS, Wanted};
use crate::groups::topic_settings;
use crate::order::{twin_named, twin_with_id};

/// From here on fetches may find batches that are compressed with Zstandard (KIP-110).
const FIRST_WITH_ZSTD: i16 = 10;
/// Partitions that are dealt with in one turn of a core.
pub(super) const SLICE: usize = 256;

/// The answer of one partition.
pub(super) type Outcome = Result<ReadResult, ErrorCode>;

/// A partition to be read, and its place in the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) place: usize,
    pub(super) read: ReadRequest,
}

/// Finds the partitions. For those that are not there, the answer is known already. A reader that says its `rack`
/// may read from any replica, and is sent to the one there (KIP-392); one that says none, an empty one, reads from the leader.
pub(super) async fn plan(
    core: &Core,
    wanted: &[Wanted],
    (version, committed_only): (i16, bool),
    rack: &str,
) -> (Vec<Outcome>, Vec<Planned>) {
    let mut planned = Vec::with_capacity(wanted.len());
    let mut outcomes = Vec::with_capacity(wanted.len());
    for slice in wanted.chunks(SLICE) {
        if !outcomes.is_empty() {
            next_slice().await;
        }
        core.with_metadata(|metadata| {
            for wanted in slice {
                let place = outcomes.len();
                match find((metadata, &core.facts), wanted, version, rack) {
                    Ok(read) => {
                        let read = ReadRequest {
                            committed_only,
                            ..read
                        };
                        planned.push(Planned { place, read });
                        outcomes.push(Ok(ReadResult::default()));
                    }
                    Err(code) => outcomes.push(Err(code)),
                }
            }
        });
    }
    (outcomes, planned)
}

fn find(
    (metadata, facts): (&Metadata, &NodeFacts),
    wanted: &Wanted,
    version: i16,
    rack: &str,
) -> Result<ReadRequest, ErrorCode> {
    let twin = match version {
        ..FIRST_WITH_TOPIC_IDS => twin_named(metadata, &wanted.topic.name),
        _ => twin_with_id(metadata, wanted.topic.id),
    };
    if let Some(topic) = twin.filter(|_| wanted.partition.partition == 0) {
        return Ok(request(facts.twin_of(topic.id), wanted));
    }
    let (topic, unknown) = match version {
        ..FIRST_WITH_TOPIC_IDS => (
            metadata.topic_named(&wanted.topic.name),
            ErrorCode::UnknownTopicOrPartition,
        ),
        _ => (metadata.topic(wanted.topic.id), ErrorCode::UnknownTopicId),
    };
    let topic = topic.ok_or(unknown)?;
    let index = wanted.partition.partition;
    if !(0..topic.partition_count()).contains(&index) {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    // As Kafka: of a topic whose batches all are, it says so; else they may be anything.
    if version < FIRST_WITH_ZSTD
        && let Some(packing) = topic_settings(metadata, topic).packing
        && packing.compression == Compression::Zstd
    {
        return Err(ErrorCode::UnsupportedCompressionType);
    }
    let partition = PartitionId {
        topic: topic.id,
        index,
    };
    Ok(ReadRequest {
        from_any: !rack.is_empty(),
        near: near(metadata, partition, rack),
        ..request(partition, wanted)
    })
}

fn request(partition: PartitionId, wanted: &Wanted) -> ReadRequest {
    let epoch = wanted.partition.current_leader_epoch;
    ReadRequest {
        partition,
        from: Offset(wanted.partition.fetch_offset),
        bytes_max: wanted.partition.partition_max_bytes.max(1) as usize,
        epoch: (epoch >= 0).then_some(Epoch(epoch)),
        from_any: false,
        near: None,
        ordered_until: None,
        committed_only: false,
    }
}

/// The first replica in a reader's rack, unless the leader is there, too.
fn near(metadata: &Metadata, partition: PartitionId, rack: &str) -> Option<NodeId> {
    if rack.is_empty() {
        return None;
    }
    let is_there = |node: &NodeId| metadata.node(*node).and_then(|node| node.rack.as_deref()) == Some(rack);
    let state = metadata.partition(partition)?;
    let is_needed = !is_there(&state.leader);
    state.certain().find(|node| is_needed && is_there(node))
}

/// Returns the number of cores that own planned partitions; at least one.
pub(super) fn owner_count(core: &Core, planned: &[Planned]) -> usize {
    let owner = |planned: &Planned| core.facts.owner_of(planned.read.partition);
    let owners: BTreeSet<usize> = planned.iter().map(owner).collect();
    owners.len().max(1)
}

/// Reads planned partitions, in order, until `bytes_max` is reached.
pub(super) async fn read_all(
    core: &Rc<Core>,
    planned: &[Planned],
    bytes_max: usize,
    outcomes: &mut [Outcome],
) {
    let cores = core.facts.mailboxes.cores();
    let of_core = |index: usize| -> Vec<Planned> {
        let theirs = planned
            .iter()
            .filter(|planned| core.facts.owner_of(planned.read.partition) == index);
        theirs.copied().collect()
    };
    // Other cores read at the same time, each with the whole budget; what is too much is left out below.
    let remote = (0..cores).filter(|index| *index != core.index);
    let remote = remote.map(|index| (index, of_core(index)));
    let remote = remote.filter(|(_, theirs)| !theirs.is_empty());
    let remote = remote.map(|(index, theirs)| {
        let read = move |core| read_here(core, theirs, bytes_max);
        core.facts.mailboxes.call(index, read)
    });
    let ours = read_here(core.clone(), of_core(core.index), bytes_max);
    let (ours, remote) = tokio::join!(ours, join_all(remote));
    for (place, outcome) in ours.into_iter().chain(remote.into_iter().flatten().flatten()) {
        outcomes[place] = outcome;
    }
    let mut total = 0;
    for planned in planned {
        let Ok(outcome) = &mut outcomes[planned.place] else {
            continue;
        };
        if total > 0 && total + outcome.bytes > bytes_max {
            outcome.batches.clear();
            outcome.bytes = 0;
            outcome.aborted.clear();
        }
        total += outcome.bytes;
    }
}

/// Reads partitions that this core owns, in order, until `bytes_max` is reached.
async fn read_here(core: Rc<Core>, planned: Vec<Planned>, bytes_max: usize) -> Vec<(usize, Outcome)> {
    let mut found = Vec::with_capacity(planned.len());
    let mut rest = bytes_max;
    for (at, Planned { place, read }) in planned.into_iter().enumerate() {
        if at > 0 && (at % SLICE == 0 || turns::is_spent()) {
            yield_now().await;
        }
        let shard = core.shard(core.facts.shard_of(read.partition));
        // A budget that is used up still tells where the partition stands.
        let read = ReadRequest {
            bytes_max: read.bytes_max.min(rest),
            ..read
        };
        let outcome = match core.home_of_twin(read.partition) {
            Some(home) => home.read(&core, read).await,
            None if core.is_twin_elsewhere(read.partition) => Err(ReadRefusal::NotLeader),
            None => shard.read(read).await,
        };
        read_ahead(shard, &core.answers);
        let bytes = outcome.as_ref().map_or(0, |result| result.bytes);
        // They may be very many small batches.
        turns::spend(bytes);
        rest = rest.saturating_sub(bytes);
        found.push((place, outcome.map_err(|refusal: ReadRefusal| read_code(&refusal))));
    }
    found
}

/// Loads what readers of a shard will want next, as long as the memory of answers is not scarce.
fn read_ahead(shard: &Rc<Shard>, answers: &Rc<AnswerBudget>) {
    while !answers.is_scarce() {
        let Some(job) = shard.next_read_ahead() else {
            return;
        };
        // Counted as if it was answered already, until the cache has it.
        let held = answers.hold(job.bytes());
        let (shard, answers) = (shard.clone(), answers.clone());
        turns::spawn_own(async move {
            shard.load_ahead(job).await;
            drop(held);
            read_ahead(&shard, &answers);
        });
    }
}

/// Sums up a look at partitions that had room for `room_bytes`.
pub(super) fn sight(looked_at: &[Planned], outcomes: &[Outcome], room_bytes: Option<usize>) -> Sight {
    let mut sight = Sight {
        room_bytes,
        ..Sight::default()
    };
    for Planned { place, read } in looked_at {
        let Ok(result) = &outcomes[*place] else {
            sight.has_failed = true;
            continue;
        };
        sight.is_elsewhere |= result.nearer.is_some();
        sight.found_bytes += result.bytes;
        sight.available_bytes += match end_of(&result.batches).unwrap_or(read.from) < result.until {
            true => result.bytes.max(read.bytes_max.min(room_bytes.unwrap_or(0))),
            false => result.bytes,
        };
        sight.is_part |= result.is_part;
        sight.lies_ahead |= read.from < result.until;
    }
    sight
}

/// The offset behind batches that lie one behind the other.
pub(super) fn end_of(found: &[Bytes]) -> Option<Offset> {
    let last = record::batches(found.last()?).last()?;
    last.ok().map(|(header, _)| header.next_offset())
}

/// Lets go of what was found; where the partition stands is kept.
pub(super) fn forget_batches(outcome: &mut Outcome) {
    if let Ok(result) = outcome {
        result.batches = Vec::new();
        result.bytes = 0;
        result.aborted = Vec::new();
        result.is_part = false;
    }
}
