//! Fetch sessions (KIP-227): a consumer names its partitions once, and after that only what changes.
//!
//! A session belongs to one connection, which has one at most; it lives on the connection's core and moves with it. A
//! consumer that reconnects begins anew with a full fetch. A bounded cache, in sessions and in bytes (`shares`): when it is full,
//! sessions that nobody has used for long make way, as in Kafka; else further consumers fetch without a session, and so
//! does one that wants more partitions than a session keeps.

mod shares;

use std::cell::Cell;
use std::collections::{HashMap, hash_map::Entry};
use std::net::IpAddr;
use std::time::Duration;

use kafka_wire::fetch::{FetchPartition, FetchRequest};
use kafka_wire::{ErrorCode, Text};
use protocol::metadata::TOPIC_NAME_BYTES_MAX;
use record::TopicId;
use tokio::time::Instant;

use crate::seats::Full;
use shares::Shares;

pub(crate) use shares::SessionRoom;

/// Partitions that one session keeps at most, whether they exist or not.
const PARTITIONS_MAX: usize = 10_000;

/// A session that has not been used for so long makes way for another (Kafka's
/// `min.incremental.fetch.session.eviction.ms`).
const IDLE_MIN: Duration = Duration::from_secs(120);

/// Bytes that a session takes beside its partitions.
const SESSION_BYTES: usize = size_of::<FetchSession>() + 128;
/// Bytes that each partition takes beside its topic's name: in the list, which may be half empty, in the table of places,
/// likewise, and for the name's allocation.
const PARTITION_BYTES: usize = 2 * size_of::<Wanted>() + 2 * size_of::<((TopicKey, i32), usize)>() + 48;

/// What of an id says of which core it is, so that no two cores give out the same; the rest numbers the core's sessions.
const CORE_SHIFT: u32 = 21;
const OF_CORE: i32 = (1 << CORE_SHIFT) - 1;

/// From here on topics are named by their ids.
pub(crate) const FIRST_WITH_TOPIC_IDS: i16 = 13;

/// The request names no session, or ends one.
const FINAL_EPOCH: i32 = -1;
/// The request begins a session.
const INITIAL_EPOCH: i32 = 0;

/// A topic as the request names it: by its name, from version 13 on by its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TopicKey {
    pub(crate) name: Text,
    pub(crate) id: TopicId,
}

/// What a fetch wants of one partition.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) topic: TopicKey,
    pub(crate) partition: FetchPartition,
    /// What the session told its consumer last: (tail, log start). `None` before the first answer, and after an error: what
    /// comes behind that is news.
    pub(crate) told: Option<(i64, i64)>,
}

/// What an answer says of one partition.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) topic: TopicKey,
    pub(crate) partition: i32,
    /// (tail, log start); `None` with an error.
    pub(crate) stands: Option<(i64, i64)>,
    /// Whether it brings records.
    pub(crate) brings_records: bool,
}

/// One consumer's session.
#[derive(Debug)]
pub(crate) struct FetchSession {
    id: i32,
    address: IpAddr,
    used_at: Instant,
    /// What it takes of its core's memory.
    bytes: usize,
    epoch: i32,
    /// Whether its topics are named by their ids.
    names_ids: bool,
    wanted: Vec<Wanted>,
    places: HashMap<(TopicKey, i32), usize>,
    /// Where the next answer begins: behind the last partition that brought records. Else those that always have some would
    /// fill every answer, and the others never come.
    begin: usize,
}

/// What a request turned out to want.
pub(crate) struct Opened {
    /// Zero without a session.
    pub(crate) session: i32,
    /// Only partitions with something new are answered.
    pub(crate) incremental: bool,
    pub(crate) wanted: Vec<Wanted>,
}

/// A connection that fetches.
#[derive(Clone, Copy)]
pub(crate) struct Consumer<'a> {
    /// Its session, or zero.
    pub(crate) session: &'a Cell<i32>,
    pub(crate) address: IpAddr,
}

pub(crate) struct FetchSessions {
    sessions: HashMap<i32, FetchSession>,
    shares: Shares,
    next_id: i32,
}

impl FetchSessions {
    /// Sessions of one core. Cores number theirs apart, so that a consumer that comes to another core is not mistaken.
    pub(crate) fn new(core: usize, most: SessionRoom) -> FetchSessions {
        FetchSessions {
            sessions: HashMap::new(),
            shares: Shares::new(most),
            next_id: ((core as i32 & 0x3ff) << CORE_SHIFT) + 1,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// How many partitions a session has; none if there is no such session.
    pub(crate) fn partition_count(&self, session: i32) -> usize {
        self.sessions
            .get(&session)
            .map_or(0, |session| session.wanted.len())
    }

    /// What the request wants, its session taken into account. The consumer's own session is kept up to date here, and no
    /// other is found.
    ///
    /// # Errors
    /// There is no such session, or not in this state, or it names its topics in the other way: the consumer begins anew.
    pub(crate) fn open(
        &mut self,
        consumer: Consumer<'_>,
        request: FetchRequest,
        version: i16,
        now: Instant,
    ) -> Result<Opened, ErrorCode> {
        let own = consumer.session;
        let names_ids = version >= FIRST_WITH_TOPIC_IDS;
        let (id, epoch) = (request.session_id, request.session_epoch);
        if epoch == FINAL_EPOCH || epoch == INITIAL_EPOCH {
            // A new one takes the place of whichever there was.
            if epoch == INITIAL_EPOCH || id == own.get() {
                self.take(own.take());
            }
            let wanted = list(request);
            let mut session = 0;
            if epoch == INITIAL_EPOCH {
                session = self.begin(&wanted, consumer.address, names_ids, now);
                own.set(session);
            }
            return Ok(Opened {
                session,
                incremental: false,
                wanted,
            });
        }
        let session = self
            .sessions
            .get_mut(&id)
            .filter(|_| id == own.get())
            .ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.names_ids != names_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        session.used_at = now;
        if !self.update(id, request, now) {
            self.take(own.take());
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        let session = &self.sessions[&id];
        if session.wanted.is_empty() {
            self.take(own.take());
            return Ok(Opened {
                session: 0,
                incremental: true,
                wanted: Vec::new(),
            });
        }
        let (before, rest) = session.wanted.split_at(session.begin.min(session.wanted.len()));
        Ok(Opened {
            session: id,
            incremental: true,
            wanted: [rest, before].concat(),
        })
    }

    /// Begins a session; none (0) if it has no room, or there is nothing for it to keep.
    fn begin(&mut self, wanted: &[Wanted], address: IpAddr, names_ids: bool, now: Instant) -> i32 {
        let room = SessionRoom {
            sessions: 1,
            bytes: SESSION_BYTES + wanted.iter().map(bytes_of).sum::<usize>(),
        };
        if wanted.is_empty() || !wanted_is_bounded(wanted) || !self.make_room(address, room, now) {
            return 0;
        }
        // Ids come round; there are far more of them than sessions.
        while self.sessions.contains_key(&self.next_id) {
            self.next_id = after(self.next_id);
        }
        let id = self.next_id;
        self.next_id = after(id);
        let mut session = FetchSession {
            id,
            address,
            used_at: now,
            bytes: SESSION_BYTES,
            epoch: 1,
            names_ids,
            wanted: Vec::with_capacity(wanted.len()),
            places: HashMap::with_capacity(wanted.len()),
            begin: 0,
        };
        for wanted in wanted {
            session.put(wanted.clone());
        }
        assert_eq!(
            session.bytes, room.bytes,
            "a session takes the room that was made for it"
        );
        self.sessions.insert(id, session);
        id
    }

    /// Takes over what a request changes of a session; false if that is more than it may keep.
    fn update(&mut self, id: i32, request: FetchRequest, now: Instant) -> bool {
        let session = self.sessions.get_mut(&id).expect("the caller has found it");
        let (address, before) = (session.address, session.bytes);
        let fits = session.update(request);
        let after = session.bytes;
        let of_bytes = |bytes| SessionRoom { sessions: 0, bytes };
        if after <= before {
            self.shares.give_back(address, of_bytes(before - after));
            return fits;
        }
        let has_room = self.make_room(address, of_bytes(after - before), now);
        if !has_room && let Some(session) = self.sessions.get_mut(&id) {
            // It ends; what it has taken is what it had.
            session.bytes = before;
        }
        fits && has_room
    }

    /// Takes room for an address. Sessions that nobody has used for long make way, those of an address for its own only.
    fn make_room(&mut self, address: IpAddr, room: SessionRoom, now: Instant) -> bool {
        loop {
            let full = match self.shares.take(address, room) {
                Ok(()) => return true,
                Err(full) => full,
            };
            let may_go = |session: &&FetchSession| {
                let helps = full == Full::All || session.address == address;
                helps && now.saturating_duration_since(session.used_at) >= IDLE_MIN
            };
            let idle = self.sessions.values().filter(may_go);
            let Some(longest) = idle.min_by_key(|session| session.used_at) else {
                return false;
            };
            let longest = longest.id;
            self.take(longest);
        }
    }

    /// Notes what a session's consumer was told of each partition.
    pub(crate) fn told(&mut self, session: i32, answered: Vec<Told>) {
        let Some(session) = self.sessions.get_mut(&session) else {
            return;
        };
        for told in answered {
            if let Some(place) = session.places.get(&(told.topic, told.partition)) {
                session.wanted[*place].told = told.stands;
                if told.brings_records {
                    session.begin = place + 1;
                }
            }
        }
    }

    /// Takes a session out: its connection is gone, or goes to another core.
    pub(crate) fn take(&mut self, session: i32) -> Option<FetchSession> {
        let session = self.sessions.remove(&session)?;
        self.shares.give_back(session.address, session.room());
        Some(session)
    }

    /// Takes a session over from another core; its consumer goes on naming it as before. Returns its id; none (0) if another one
    /// has that here, or it has no room: its consumer is told so, and begins anew.
    pub(crate) fn adopt(&mut self, session: FetchSession, now: Instant) -> i32 {
        let id = session.id;
        if self.sessions.contains_key(&id) || !self.make_room(session.address, session.room(), now) {
            return 0;
        }
        self.sessions.insert(id, session);
        id
    }
}

impl FetchSession {
    fn room(&self) -> SessionRoom {
        SessionRoom {
            sessions: 1,
            bytes: self.bytes,
        }
    }

    /// Takes over what a request changes; false if that is more than a session keeps.
    fn update(&mut self, request: FetchRequest) -> bool {
        for topic in &request.forgotten_topics_data {
            for index in &topic.partitions {
                self.forget(
                    &TopicKey {
                        name: topic.topic.clone(),
                        id: topic.topic_id,
                    },
                    *index,
                );
            }
        }
        list(request).into_iter().all(|wanted| self.put(wanted))
    }

    /// Adds or changes a partition; false if the session has no place for it.
    fn put(&mut self, wanted: Wanted) -> bool {
        let key = (wanted.topic.clone(), wanted.partition.partition);
        if let Some(place) = self.places.get(&key) {
            self.wanted[*place].partition = wanted.partition;
            return true;
        }
        if self.wanted.len() >= PARTITIONS_MAX || is_overlong(&wanted) {
            return false;
        }
        self.bytes += bytes_of(&wanted);
        // Stored for long: the names must not keep the request's whole frame alive. Neighbours are mostly of one topic.
        let topic = match self.wanted.last() {
            Some(last) if last.topic == wanted.topic => last.topic.clone(),
            _ => TopicKey {
                name: wanted.topic.name.detached(),
                id: wanted.topic.id,
            },
        };
        self.places
            .insert((topic.clone(), wanted.partition.partition), self.wanted.len());
        self.wanted.push(Wanted { topic, ..wanted });
        true
    }

    fn forget(&mut self, topic: &TopicKey, index: i32) {
        let Some(place) = self.places.remove(&(topic.clone(), index)) else {
            return;
        };
        let forgotten = self.wanted.swap_remove(place);
        self.bytes -= bytes_of(&forgotten);
        if let Some(moved) = self.wanted.get(place) {
            self.places
                .insert((moved.topic.clone(), moved.partition.partition), place);
        }
    }
}

/// What a partition takes of a session's memory.
fn bytes_of(wanted: &Wanted) -> usize {
    PARTITION_BYTES + wanted.topic.name.as_bytes().len()
}

/// No topic has such a name.
fn is_overlong(wanted: &Wanted) -> bool {
    wanted.topic.name.as_bytes().len() > TOPIC_NAME_BYTES_MAX
}

/// Says whether a session may keep all of these.
fn wanted_is_bounded(wanted: &[Wanted]) -> bool {
    wanted.len() <= PARTITIONS_MAX && !wanted.iter().any(is_overlong)
}

/// The id behind this one, of the same core.
fn after(id: i32) -> i32 {
    (id & !OF_CORE) | (id.wrapping_add(1) & OF_CORE).max(1)
}

/// The partitions that a request names, each once: of what it says of one several times the last holds, as in Kafka.
fn list(request: FetchRequest) -> Vec<Wanted> {
    let partitions = request.topics.into_iter().flat_map(|topic| {
        let key = TopicKey {
            name: topic.topic,
            id: topic.topic_id,
        };
        topic
            .partitions
            .into_iter()
            .map(move |partition| (key.clone(), partition))
    });
    let mut places: HashMap<(TopicKey, i32), usize> = HashMap::new();
    let mut wanted: Vec<Wanted> = Vec::new();
    for (topic, partition) in partitions {
        match places.entry((topic.clone(), partition.partition)) {
            Entry::Occupied(place) => wanted[*place.get()].partition = partition,
            Entry::Vacant(place) => {
                place.insert(wanted.len());
                wanted.push(Wanted {
                    topic,
                    partition,
                    told: None,
                });
            }
        }
    }
    wanted
}

#[cfg(test)]
mod tests;
