//! The way of a read: a Fetch request looks at its partitions, wherever they are owned, and waits at their tails until
//! there is enough or its time is up.
//!
//! Batches go to the socket as they lie in memory; nothing is decoded. Only committed records are seen. What is found
//! takes room in the core's answer budget, and a fetch that waits holds neither room nor records.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use kafka_wire::fetch::{
    FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_wire::{ErrorCode, RecordChunks, Text};
use protocol::leader::NodeId;
use protocol::metadata::{Metadata, Node};
use record::{Epoch, Offset, PartitionId};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::answer_budget::Held;
use crate::connection::Connection;
use crate::core::Core;
use crate::error_codes::read_code;
use crate::fetch_session::{FIRST_WITH_TOPIC_IDS, Opened, Told, Wanted};
use crate::shard::{ReadRefusal, ReadRequest, ReadResult};

/// From here on who believes in an epoch that is over is told who leads now (KIP-951).
const FIRST_WITH_CURRENT_LEADER: i16 = 16;

/// How often a fetch that has found too little looks again, at most.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// What a partition answered.
type Outcome = Result<ReadResult, ErrorCode>;

/// A partition to be read, and its place in the request.
#[derive(Clone, Copy)]
struct Planned {
    place: usize,
    read: ReadRequest,
}

/// The answer to a Fetch.
pub(crate) struct Fetched {
    pub(crate) response: FetchResponse,
    /// Whether it waited until there were records. That it waited for the memory to hold them is no such thing.
    pub(crate) waited: bool,
}

/// Answers a Fetch. One whose request `holds_room` waits for records only as long as nobody else waits for that room.
pub(crate) async fn fetch(
    core: Rc<Core>,
    connection: &Connection,
    request: FetchRequest,
    version: i16,
    holds_room: bool,
) -> Fetched {
    let mut deadline = Instant::now() + Duration::from_millis(request.max_wait_ms.max(0) as u64);
    // Zero is one: the first batch always comes (KIP-74), or nobody would get on.
    let bytes_max = (request.max_bytes.max(1) as usize).min(core.facts.config.limits.fetch_bytes);
    let bytes_min = (request.min_bytes.max(0) as usize).min(bytes_max);
    let committed_only = request.isolation_level == 1;
    let opened = core
        .sessions
        .borrow_mut()
        .open(&connection.session, request, version);
    let opened = match opened {
        Ok(opened) => opened,
        Err(code) => {
            let response = FetchResponse {
                error_code: code.code(),
                ..FetchResponse::default()
            };
            let waited = false;
            return Fetched { response, waited };
        }
    };
    let (mut outcomes, planned) = core.with_metadata(|metadata| plan(metadata, &opened.wanted, version));
    for planned in &planned {
        connection.note_owner(core.facts.owner_of(planned.read.partition));
    }
    // What is said of partitions that are not there may be long, too.
    if planned.len() < outcomes.len() {
        core.answers.room().await;
    }
    let bytes_wanted = bytes_max.min(planned.iter().map(|planned| planned.read.bytes_max).sum());
    // Each core that owns some of the partitions reads with all the room: room for as many is asked for.
    let owners = owner_count(&core, &planned);
    let reader = Arc::new(Notify::new());
    let mut waited = false;
    // From the first wait on, whatever comes meanwhile: a trickle is no reason to keep the room for long. Nor is any wait a
    // reason to keep the node from stopping.
    let gives_way = async {
        match holds_room {
            true => tokio::select! {
                () = core.requests.until_wanted() => {}
                () = core.until_draining() => {}
            },
            false => core.until_draining().await,
        }
    };
    tokio::pin!(gives_way);
    loop {
        // Held until the response is made. Whoever writes it holds what it takes from then on: nothing comes between.
        let granted = core.answers.grant(bytes_wanted * owners);
        let room = granted.as_ref().map_or(0, Held::bytes) / owners;
        let room = room.min(bytes_max);
        let found = read_all(&core, &planned, room, &mut outcomes).await;
        // What is not there, or not yet, keeps nobody from waiting for the rest.
        let failed = planned.iter().any(|planned| outcomes[planned.place].is_err());
        // With less room it never finds `bytes_min`: something is better than nothing.
        let cramped = room < bytes_min;
        // And there is no waiting for what is there already, only further on.
        let is_part = outcomes.iter().flatten().any(|result| result.is_part);
        let enough = found >= bytes_min
            || (found > 0 && (cramped || is_part || available(&planned, &outcomes, room) >= bytes_min));
        if enough || failed || planned.is_empty() || Instant::now() >= deadline {
            break;
        }
        let starved = granted.is_none() && lies_ahead(&planned, &outcomes);
        waited |= !starved;
        outcomes.iter_mut().for_each(forget_batches);
        drop(granted);
        let more = async {
            match starved {
                true => core.answers.room().await,
                false => until_more(&core, &planned, &outcomes, &reader, found > 0).await,
            }
        };
        let in_vain = tokio::select! {
            biased;
            () = more => false,
            () = sleep_until(deadline) => true,
            () = &mut gives_way => {
                deadline = Instant::now();
                true
            }
        };
        // If there was nothing, and nothing came, there is no need to look again.
        if in_vain && found == 0 {
            break;
        }
    }
    let mut response = respond(&core, opened, outcomes, committed_only);
    if version >= FIRST_WITH_CURRENT_LEADER {
        core.with_metadata(|metadata| tell_leaders(metadata, &mut response));
    }
    Fetched { response, waited }
}

/// How many cores own planned partitions; at least one.
fn owner_count(core: &Core, planned: &[Planned]) -> usize {
    let owner = |planned: &Planned| core.facts.owner_of(planned.read.partition);
    let owners: BTreeSet<usize> = planned.iter().map(owner).collect();
    owners.len().max(1)
}

/// Whether there are records that a read with more room would find.
fn lies_ahead(planned: &[Planned], outcomes: &[Outcome]) -> bool {
    planned.iter().any(|planned| {
        let outcome = &outcomes[planned.place];
        outcome
            .as_ref()
            .is_ok_and(|result| planned.read.from < result.tail)
    })
}

/// What there is for a fetch: of a partition that has more than was found, all that it may bring. Whole batches hardly ever add up to
/// just that.
fn available(planned: &[Planned], outcomes: &[Outcome], room: usize) -> usize {
    let of = |planned: &Planned| {
        let Ok(result) = &outcomes[planned.place] else {
            return 0;
        };
        let end = end_of(&result.batches).unwrap_or(planned.read.from);
        match end < result.tail {
            true => result.bytes.max(planned.read.bytes_max.min(room)),
            false => result.bytes,
        }
    };
    planned.iter().map(of).sum()
}

/// The offset behind batches that lie one behind the other.
fn end_of(found: &[Bytes]) -> Option<Offset> {
    let last = record::batches(found.last()?).last()?;
    last.ok().map(|(header, _)| header.next_offset())
}

/// Lets go of what was found; where the partition stands is kept.
fn forget_batches(outcome: &mut Outcome) {
    if let Ok(result) = outcome {
        result.batches = Vec::new();
        result.bytes = 0;
        result.is_part = false;
    }
}

/// Finds the partitions; of what is not there, the answer is known already.
fn plan(metadata: &Metadata, wanted: &[Wanted], version: i16) -> (Vec<Outcome>, Vec<Planned>) {
    let mut planned = Vec::with_capacity(wanted.len());
    let mut outcomes = Vec::with_capacity(wanted.len());
    for (place, wanted) in wanted.iter().enumerate() {
        let (topic, unknown) = match version {
            ..FIRST_WITH_TOPIC_IDS => (
                metadata.topic_named(&wanted.topic.name),
                ErrorCode::UnknownTopicOrPartition,
            ),
            _ => (metadata.topic(wanted.topic.id), ErrorCode::UnknownTopicId),
        };
        let index = wanted.partition.partition;
        let Some(topic) = topic else {
            outcomes.push(Err(unknown));
            continue;
        };
        if !(0..topic.partition_count()).contains(&index) {
            outcomes.push(Err(ErrorCode::UnknownTopicOrPartition));
            continue;
        }
        let epoch = wanted.partition.current_leader_epoch;
        let read = ReadRequest {
            partition: PartitionId {
                topic: topic.id,
                index,
            },
            from: Offset(wanted.partition.fetch_offset),
            bytes_max: wanted.partition.partition_max_bytes.max(1) as usize,
            epoch: (epoch >= 0).then_some(Epoch(epoch)),
        };
        planned.push(Planned { place, read });
        outcomes.push(Ok(ReadResult::default()));
    }
    (outcomes, planned)
}

/// Reads all planned partitions, in order, until `bytes_max` is reached; returns the bytes found.
async fn read_all(core: &Rc<Core>, planned: &[Planned], bytes_max: usize, outcomes: &mut [Outcome]) -> usize {
    let cores = core.facts.mailboxes.cores();
    let owner = |planned: &Planned| core.facts.owner_of(planned.read.partition);
    // Other cores read at the same time, each with the whole budget; what is too much is left out below.
    let remote = (0..cores)
        .filter(|index| *index != core.index)
        .filter_map(|index| {
            let theirs: Vec<Planned> = planned
                .iter()
                .filter(|planned| owner(planned) == index)
                .copied()
                .collect();
            let call = move || {
                core.facts
                    .mailboxes
                    .call(index, move |core| read_here(core, theirs, bytes_max))
            };
            (planned.iter().any(|planned| owner(planned) == index)).then(call)
        });
    let ours: Vec<Planned> = planned
        .iter()
        .filter(|planned| owner(planned) == core.index)
        .copied()
        .collect();
    let (ours, remote) = tokio::join!(read_here(core.clone(), ours, bytes_max), join_all(remote));
    for (place, outcome) in ours.into_iter().chain(remote.into_iter().flatten().flatten()) {
        outcomes[place] = outcome;
    }
    let mut total = 0;
    for outcome in outcomes.iter_mut().filter_map(|outcome| outcome.as_mut().ok()) {
        if total > 0 && total + outcome.bytes > bytes_max {
            outcome.batches.clear();
            outcome.bytes = 0;
        }
        total += outcome.bytes;
    }
    total
}

/// Reads partitions that this core owns, in order, until `bytes_max` is reached.
async fn read_here(core: Rc<Core>, planned: Vec<Planned>, bytes_max: usize) -> Vec<(usize, Outcome)> {
    let mut found = Vec::with_capacity(planned.len());
    let mut rest = bytes_max;
    for Planned { place, read } in planned {
        let shard = core.shard(core.facts.shard_of(read.partition));
        // A budget that is used up still tells where the partition stands.
        let read = ReadRequest {
            bytes_max: read.bytes_max.min(rest),
            ..read
        };
        let outcome = shard.read(read).await;
        shard.read_ahead(&core.answers);
        rest = rest.saturating_sub(outcome.as_ref().map_or(0, |result| result.bytes));
        found.push((place, outcome.map_err(|refusal: ReadRefusal| read_code(&refusal))));
    }
    found
}

/// Returns when there is more than was seen. Whoever has found too little finds all of it again with each look: not at every
/// commit.
async fn until_more(
    core: &Rc<Core>,
    planned: &[Planned],
    seen: &[Outcome],
    reader: &Arc<Notify>,
    found_too_little: bool,
) {
    watch_all(core, planned, seen, reader);
    reader.notified().await;
    if found_too_little {
        sleep(LOOK_INTERVAL).await;
    }
}

/// Has `reader` woken as soon as the tail of one of the partitions moves beyond what was seen of it.
fn watch_all(core: &Rc<Core>, planned: &[Planned], seen: &[Outcome], reader: &Arc<Notify>) {
    let tail_seen = |planned: &Planned| {
        seen[planned.place]
            .as_ref()
            .map_or(planned.read.from, |result| result.tail)
    };
    for shard in 0..core.facts.shards {
        let theirs: Vec<(PartitionId, Offset)> = planned
            .iter()
            .filter(|planned| core.facts.shard_of(planned.read.partition) == shard)
            .map(|planned| (planned.read.partition, tail_seen(planned)))
            .collect();
        if theirs.is_empty() {
            continue;
        }
        match core.facts.core_of(shard) {
            owner if owner == core.index => core.shard(shard).watch(&theirs, reader),
            owner => {
                let reader = reader.clone();
                core.facts
                    .mailboxes
                    .send(owner, move |core| core.shard(shard).watch(&theirs, &reader));
            }
        }
    }
}

fn respond(core: &Core, opened: Opened, outcomes: Vec<Outcome>, committed_only: bool) -> FetchResponse {
    let mut responses: Vec<FetchableTopicResponse> = Vec::new();
    let mut told: Vec<Told> = Vec::new();
    for (wanted, outcome) in opened.wanted.into_iter().zip(outcomes) {
        let stands = outcome
            .as_ref()
            .map(|result| (result.tail.0, result.log_start.0))
            .ok();
        let new = match (&outcome, stands) {
            (Ok(result), _) => result.bytes > 0 || wanted.told != stands,
            (Err(_), _) => true,
        };
        if opened.incremental && !new {
            continue;
        }
        if opened.session != 0 {
            told.push(Told {
                topic: wanted.topic.clone(),
                partition: wanted.partition.partition,
                stands,
                brings_records: outcome.as_ref().is_ok_and(|result| result.bytes > 0),
            });
        }
        let partition = partition_data(wanted.partition.partition, outcome, committed_only);
        match responses.last_mut() {
            Some(last) if last.topic == wanted.topic.name && last.topic_id == wanted.topic.id => {
                last.partitions.push(partition);
            }
            _ => responses.push(FetchableTopicResponse {
                topic: wanted.topic.name,
                topic_id: wanted.topic.id,
                partitions: vec![partition],
            }),
        }
    }
    core.sessions.borrow_mut().told(opened.session, told);
    FetchResponse {
        session_id: opened.session,
        responses,
        ..FetchResponse::default()
    }
}

/// Says who leads the partitions whose epoch the client believes in is over, and where.
fn tell_leaders(metadata: &Metadata, response: &mut FetchResponse) {
    let mut leaders = BTreeSet::new();
    for topic in &mut response.responses {
        for partition in &mut topic.partitions {
            if partition.error_code != ErrorCode::FencedLeaderEpoch.code() {
                continue;
            }
            let id = PartitionId {
                topic: topic.topic_id,
                index: partition.partition_index,
            };
            let Some(state) = metadata.partition(id) else {
                continue;
            };
            partition.current_leader = LeaderIdAndEpoch {
                leader_id: state.leader.0,
                leader_epoch: state.epoch.0,
            };
            leaders.insert(state.leader);
        }
    }
    let leaders = metadata.nodes().filter(|(id, _)| leaders.contains(id));
    let endpoint = |(id, node): (NodeId, &Node)| NodeEndpoint {
        node_id: id.0,
        host: Text::from(&*node.address.host),
        port: node.address.port.into(),
        rack: None,
    };
    response.node_endpoints = leaders.map(endpoint).collect();
}

fn partition_data(partition_index: i32, outcome: Outcome, committed_only: bool) -> PartitionData {
    let (error_code, result) = match outcome {
        Ok(result) => (ErrorCode::None, result),
        Err(code) => (
            code,
            ReadResult {
                log_start: Offset(-1),
                tail: Offset(-1),
                ..ReadResult::default()
            },
        ),
    };
    PartitionData {
        partition_index,
        error_code: error_code.code(),
        high_watermark: result.tail.0,
        last_stable_offset: result.tail.0,
        log_start_offset: result.log_start.0,
        current_leader: LeaderIdAndEpoch::default(),
        aborted_transactions: committed_only.then(Vec::new),
        preferred_read_replica: -1,
        records: RecordChunks {
            chunks: result.batches,
        },
        ..PartitionData::default()
    }
}
