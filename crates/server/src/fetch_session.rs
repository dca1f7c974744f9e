//! Fetch sessions (KIP-227): a consumer names its partitions once, and after that only what changes.
//!
//! A session belongs to one connection, which has one at most; it lives on the connection's core and moves with it. A
//! consumer that reconnects begins anew with a full fetch. A bounded cache, in sessions and in bytes (`shares`): when it is full,
//! sessions that nobody has used for long make way, as in Kafka; else further consumers fetch without a session, and so
//! does one that wants more partitions than a session keeps.

mod session;
mod shares;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use kafka_wire::ErrorCode;
use kafka_wire::fetch::ForgottenTopic;
use tokio::time::Instant;

use crate::seats::Full;
use shares::Shares;

pub(crate) use session::{FetchSession, Told, Wanted, list};
pub(crate) use shares::SessionRoom;

/// A session that has not been used for so long makes way for another (Kafka's
/// `min.incremental.fetch.session.eviction.ms`).
const IDLE_MIN: Duration = Duration::from_secs(120);

/// The bits of an id from this one on name its core, so that no two cores give out the same id. The others number its sessions.
const CORE_SHIFT: u32 = 21;
const OF_CORE: i32 = (1 << CORE_SHIFT) - 1;

/// From here on topics are named by their ids.
pub(crate) const FIRST_WITH_TOPIC_IDS: i16 = 13;

/// The request names no session, or ends one.
const FINAL_EPOCH: i32 = -1;
/// The request begins a session.
const INITIAL_EPOCH: i32 = 0;

/// A request with its session taken into account.
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

/// The demands of a request, and the session that it belongs to.
pub(crate) struct Asked {
    /// The session that it names, and the step of that.
    pub(crate) session: i32,
    pub(crate) epoch: i32,
    /// Says whether its topics are named by their ids.
    pub(crate) names_ids: bool,
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) forgotten: Vec<ForgottenTopic>,
}

pub(crate) struct FetchSessions {
    sessions: BTreeMap<i32, FetchSession>,
    shares: Shares,
    next_id: i32,
}

impl FetchSessions {
    /// Sessions of one core. Cores number theirs apart, so that a consumer that comes to another core is not mistaken.
    pub(crate) fn new(core: usize, most: SessionRoom) -> FetchSessions {
        FetchSessions {
            sessions: BTreeMap::new(),
            shares: Shares::new(most),
            next_id: ((core as i32 & 0x3ff) << CORE_SHIFT) + 1,
        }
    }

    /// The number of sessions.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the number of a session's partitions; zero if there is no such session.
    pub(crate) fn partition_count(&self, session: i32) -> usize {
        self.sessions
            .get(&session)
            .map_or(0, |session| session.wanted.len())
    }

    /// Returns the partitions that the request wants, its session taken into account. The consumer's own session is kept up to
    /// date here, and no other is found.
    ///
    /// # Errors
    /// There is no such session, or not in this state, or it names its topics in the other way: the consumer begins anew.
    pub(crate) fn open(
        &mut self,
        consumer: Consumer<'_>,
        asked: Asked,
        now: Instant,
    ) -> Result<Opened, ErrorCode> {
        let own = consumer.session;
        let Asked {
            session: id,
            epoch,
            names_ids,
            ..
        } = asked;
        if epoch == FINAL_EPOCH || epoch == INITIAL_EPOCH {
            // A new one takes the place of whichever there was.
            if epoch == INITIAL_EPOCH || id == own.get() {
                self.take(own.take());
            }
            let wanted = asked.wanted;
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
        session.step(epoch, names_ids, now)?;
        if !self.update(id, asked, now) {
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
        Ok(Opened {
            session: id,
            incremental: true,
            wanted: session.in_order(),
        })
    }

    /// Begins a session; none (0) if it has no room, or there is nothing for it to keep.
    fn begin(&mut self, wanted: &[Wanted], address: IpAddr, names_ids: bool, now: Instant) -> i32 {
        let Some(room) = FetchSession::room_for(wanted) else {
            return 0;
        };
        if !self.make_room(address, room, now) {
            return 0;
        }
        // Ids come round; there are far more of them than sessions.
        while self.sessions.contains_key(&self.next_id) {
            self.next_id = after(self.next_id);
        }
        let id = self.next_id;
        self.next_id = after(id);
        let session = FetchSession::new(id, address, names_ids, wanted, now);
        assert_eq!(
            session.bytes, room.bytes,
            "a session takes the room that was made for it"
        );
        self.sessions.insert(id, session);
        id
    }

    /// Takes over what a request changes of a session; false if that is more than it may keep.
    fn update(&mut self, id: i32, asked: Asked, now: Instant) -> bool {
        let session = self.sessions.get_mut(&id).expect("the caller has found it");
        let (address, before) = (session.address, session.bytes);
        let fits = session.update(&asked.forgotten, asked.wanted);
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
            let Some(longest) = idle.min_by_key(|session| (session.used_at, session.id)) else {
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
            session.note(told);
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

/// The id behind this one, of the same core.
fn after(id: i32) -> i32 {
    (id & !OF_CORE) | (id.wrapping_add(1) & OF_CORE).max(1)
}

#[cfg(test)]
mod tests;
