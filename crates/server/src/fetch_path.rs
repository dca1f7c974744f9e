//! The way of a read: a Fetch request looks at its partitions, wherever they are owned (`look`), and waits at their tails
//! (`waiting`) until there is enough (`decision`) or its time is up; then it is answered (`answer`).
//!
//! Batches go to the socket as they lie in memory; nothing is decoded. Only committed records are seen. What is found
//! takes room in the core's answer budget, and a fetch that waits holds neither that room nor records.

mod answer;
mod decision;
mod look;
mod tally;
mod waiting;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use kafka_wire::ErrorCode;
use kafka_wire::fetch::{FetchRequest, FetchResponse};
use platform::slices::next_slice;
use tokio::time::{Instant, sleep_until};

use crate::answer_budget::Held;
use crate::caller::Caller;
use crate::config::LimitSettings;
use crate::connection::Connection;
use crate::core::Core;
use crate::fetch_session::{Asked, Consumer, FIRST_WITH_TOPIC_IDS, list};

use answer::{respond, tell_leaders};
use decision::{Decision, decide};
use look::{Outcome, Planned, owner_count, plan, read_all, sight};
use waiting::Waiting;

/// The first version whose answer names the leader to a client that asked another node (KIP-951).
const FIRST_WITH_CURRENT_LEADER: i16 = 16;
/// A fetch may name so many partitions, however few all topics may have.
const PARTITIONS_MIN: usize = 10_000;
/// From so many partitions on others have their turn between the steps of a fetch.
const OPENED_IN_ONE_TURN: usize = 5_000;
/// Memory that a fetch takes for each partition of its session while it waits.
const WAITING_PARTITION_BYTES: usize = 384;

/// The answer to a Fetch.
pub(crate) struct Fetched {
    pub(crate) response: FetchResponse,
    /// It waited until there were records; a wait for the memory to hold them does not count.
    pub(crate) waited: bool,
}

/// Bytes that a fetch takes for what its session says and the request does not, from now until it is answered.
pub(crate) fn session_bytes(core: &Core, connection: &Connection) -> usize {
    match connection.session.get() {
        0 => 0,
        session => core.sessions.borrow().partition_count(session) * WAITING_PARTITION_BYTES,
    }
}

/// Answers a Fetch. One whose request `holds_room` waits for records only as long as nobody else waits for that room.
pub(crate) async fn fetch(
    core: Rc<Core>,
    connection: &Connection,
    caller: &Caller,
    request: FetchRequest,
    version: i16,
    holds_room: bool,
) -> Fetched {
    let limits = &core.facts.config.limits;
    let now = Instant::now();
    let wanted = request.topics.iter().map(|topic| topic.partitions.len());
    let forgotten = request.forgotten_topics_data.iter();
    let forgotten = forgotten.map(|topic| topic.partitions.len());
    // Not all of them can be there.
    if wanted.sum::<usize>().max(forgotten.sum()) > limits.partitions.max(PARTITIONS_MIN) {
        return refused(ErrorCode::InvalidRequest);
    }
    let bounds = FetchBounds::of(&request, limits, now);
    let committed_only = request.isolation_level == 1;
    let rack = request.rack_id.clone();
    let consumer = Consumer {
        session: &connection.session,
        address: caller.address(),
    };
    let asked = Asked {
        session: request.session_id,
        epoch: request.session_epoch,
        names_ids: version >= FIRST_WITH_TOPIC_IDS,
        wanted: list(request.topics).await,
        forgotten: request.forgotten_topics_data,
    };
    let is_long = asked.wanted.len() > OPENED_IN_ONE_TURN;
    let opened = core.sessions.borrow_mut().open(consumer, asked, now);
    let opened = match opened {
        Ok(opened) => opened,
        Err(code) => return refused(code),
    };
    if is_long {
        next_slice().await;
    }
    let (outcomes, planned) = plan(&core, &opened.wanted, (version, committed_only), &rack).await;
    for planned in &planned {
        connection.note_owner(core.facts.owner_of(planned.read.partition));
    }
    // Answers for partitions that are not there may be long, too.
    if planned.len() < outcomes.len() {
        core.answers.room().await;
    }
    let fetch = Fetch::new(&core, bounds, planned);
    let found = fetch.find(outcomes, gives_way(&core, holds_room)).await;
    let mut response = respond(&core, opened, found.outcomes, committed_only).await;
    if version >= FIRST_WITH_CURRENT_LEADER {
        core.with_metadata(|metadata| tell_leaders(metadata, core.facts.node, &mut response));
    }
    Fetched {
        response,
        waited: found.waited,
    }
}

fn refused(code: ErrorCode) -> Fetched {
    let response = FetchResponse {
        error_code: code.code(),
        ..FetchResponse::default()
    };
    let waited = false;
    Fetched { response, waited }
}

/// Returns when a fetch should wait no longer, whatever its client wants: when others wait for the room that its request
/// holds, and when the node stops.
async fn gives_way(core: &Core, holds_room: bool) {
    match holds_room {
        true => tokio::select! {
            biased;
            () = core.requests.until_wanted() => {}
            () = core.until_draining() => {}
        },
        false => core.until_draining().await,
    }
}

/// The bytes that a fetch wants, and the time until which it waits for them.
#[derive(Debug, Clone, Copy)]
struct FetchBounds {
    bytes_min: usize,
    bytes_max: usize,
    deadline: Instant,
}

impl FetchBounds {
    fn of(request: &FetchRequest, limits: &LimitSettings, now: Instant) -> FetchBounds {
        // Zero is one: the first batch always comes (KIP-74), or nobody would get on.
        let bytes_max = (request.max_bytes.max(1) as usize).min(limits.fetch_bytes);
        // A connection that is silent for longer than it may be is closed: its client hears something well before.
        let wait = Duration::from_millis(request.max_wait_ms.max(0) as u64).min(limits.connection_idle / 2);
        FetchBounds {
            bytes_min: (request.min_bytes.max(0) as usize).min(bytes_max),
            bytes_max,
            deadline: now + wait,
        }
    }
}

/// A fetch on its way.
struct Fetch<'a> {
    core: &'a Rc<Core>,
    bounds: FetchBounds,
    planned: Vec<Planned>,
    /// Bytes that all planned partitions may bring.
    bytes_wanted: usize,
    /// Cores that own planned partitions. Each reads with all the room: room for as many is asked for.
    owners: usize,
}

/// The outcome of a fetch's looks.
struct Found {
    outcomes: Vec<Outcome>,
    waited: bool,
    /// Held until the response is made. Whoever writes it holds what it takes from then on: nothing comes between.
    _granted: Option<Held>,
}

impl<'a> Fetch<'a> {
    fn new(core: &'a Rc<Core>, bounds: FetchBounds, planned: Vec<Planned>) -> Fetch<'a> {
        let bytes_wanted: usize = planned.iter().map(|planned| planned.read.bytes_max).sum();
        Fetch {
            core,
            bounds,
            bytes_wanted: bytes_wanted.min(bounds.bytes_max),
            owners: owner_count(core, &planned),
            planned,
        }
    }

    /// Room for what a look finds, and how many bytes of that it may find; `None` if there is no room.
    fn grant(&self) -> (Option<Held>, Option<usize>) {
        let granted = self.core.answers.grant(self.bytes_wanted * self.owners);
        let room = granted.as_ref().map(|granted| granted.bytes() / self.owners);
        (granted, room.map(|room| room.min(self.bounds.bytes_max)))
    }

    /// Finds enough, or what there is when the time is up or `gives_way` returns.
    async fn find(mut self, mut outcomes: Vec<Outcome>, gives_way: impl Future<Output = ()>) -> Found {
        tokio::pin!(gives_way);
        let mut waiting: Option<Waiting> = None;
        let mut waited = false;
        loop {
            let (granted, room) = self.grant();
            let numbers = waiting.as_ref().map(Waiting::numbers);
            let decision = self.look(numbers.as_ref(), room, &mut outcomes).await;
            let is_over = self.planned.is_empty() || Instant::now() >= self.bounds.deadline;
            if decision == Decision::Answer || is_over {
                return Found::new(outcomes, waited, granted);
            }
            let waiting = waiting.get_or_insert_with(|| Waiting::at(&self.planned));
            waiting.begin(&self.planned, numbers, &mut outcomes);
            drop(granted);
            waited |= decision == Decision::WaitForRecords;
            let more = async {
                match decision {
                    Decision::WaitForRoom => self.core.answers.room().await,
                    _ => waiting.until_more(&self, &mut outcomes).await,
                }
            };
            // From the first wait on, whatever comes meanwhile: a trickle is no reason to keep the room for long. Nor is any wait
            // a reason to keep the node from stopping.
            let in_vain = tokio::select! {
                biased;
                () = more => false,
                () = sleep_until(self.bounds.deadline) => true,
                () = &mut gives_way => true,
            };
            if in_vain {
                self.bounds.deadline = Instant::now();
                // If there was nothing, and nothing came, there is no need to look again.
                if decision == Decision::WaitForRoom || waiting.has_nothing() {
                    return Found::new(outcomes, waited, None);
                }
            }
        }
    }

    /// Reads the partitions of these numbers, or all, and decides what to do then.
    async fn look(
        &self,
        numbers: Option<&BTreeSet<usize>>,
        room: Option<usize>,
        outcomes: &mut [Outcome],
    ) -> Decision {
        let some: Option<Vec<Planned>> =
            numbers.map(|numbers| numbers.iter().map(|number| self.planned[*number]).collect());
        let looked_at = some.as_deref().unwrap_or(&self.planned);
        read_all(self.core, looked_at, room.unwrap_or(0), outcomes).await;
        decide(&sight(looked_at, outcomes, room), self.bounds.bytes_min)
    }
}

impl Found {
    fn new(outcomes: Vec<Outcome>, waited: bool, granted: Option<Held>) -> Found {
        Found {
            outcomes,
            waited,
            _granted: granted,
        }
    }
}
