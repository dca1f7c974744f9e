//! A connection's unanswered requests: how many bytes there may be, what they take of their core's memory, and which of them
//! may wait for others.
//!
//! A large request has taken room before it was read. A small one takes room if it may take much memory when it is taken apart,
//! or if the connection has other small ones under way: many small ones are as much as a large one. Nobody keeps room behind a
//! request that waits for what others do: that may be long.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::frames::SMALL_FRAME_BYTES;
use crate::budget::{Budget, Room, SharedRoom};

/// More than may be under way at once.
const WAITING_MAX: u32 = 1 << 20;

/// See the module.
pub(super) struct InFlight {
    /// Where the client is.
    from: Option<IpAddr>,
    free: Arc<Semaphore>,
    bytes_max: u32,
    /// Memory for requests that take no room.
    roomless: Arc<Semaphore>,
    /// Requests that may wait take one each.
    still: Arc<Semaphore>,
}

/// The cost of a request under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Its bytes as they came.
    pub(super) size: usize,
    /// Bytes that it takes of its core's memory.
    pub(super) memory_bytes: usize,
    /// For what others do.
    pub(super) may_wait: bool,
}

/// Where the memory of a request comes from.
enum Memory {
    Room(Room),
    Roomless(OwnedSemaphorePermit),
}

/// The permits that a request holds until its answer is written.
pub(super) struct Permits {
    _bytes: OwnedSemaphorePermit,
    _roomless: Option<OwnedSemaphorePermit>,
    _still: Option<OwnedSemaphorePermit>,
    /// The request's part of its core's memory, if it takes much, unless the answer has taken that over.
    pub(super) room: SharedRoom,
}

impl InFlight {
    /// At most `bytes_max`, but one request of any size.
    pub(super) fn new(from: Option<IpAddr>, bytes_max: usize) -> InFlight {
        let bytes_max = u32::try_from(bytes_max).unwrap_or(u32::MAX).max(1);
        InFlight {
            from,
            free: Arc::new(Semaphore::new(bytes_max as usize)),
            bytes_max,
            roomless: Arc::new(Semaphore::new(SMALL_FRAME_BYTES)),
            still: Arc::new(Semaphore::new(WAITING_MAX as usize)),
        }
    }

    /// Returns when no request is under way that may wait for what others do.
    pub(super) async fn until_none_waits(&self) {
        let all = self.still.acquire_many(WAITING_MAX).await;
        drop(all.expect("the semaphore is never closed"));
    }

    /// Waits until a request may be under way, too. `room` is what it has taken already.
    pub(super) async fn admit(&self, core: &Budget, cost: Cost, room: Option<Room>) -> Permits {
        let bytes = u32::try_from(cost.size).unwrap_or(u32::MAX);
        let bytes = bytes.clamp(1, self.bytes_max);
        let permit = Arc::clone(&self.free).acquire_many_owned(bytes).await;
        let permit = permit.expect("the semaphore is never closed");
        let memory = match room {
            Some(room) => Memory::Room(room),
            None => self.memory(core, cost.memory_bytes).await,
        };
        let (room, roomless) = match memory {
            Memory::Room(room) => (Some(room), None),
            Memory::Roomless(permit) => (None, Some(permit)),
        };
        let still = cost.may_wait.then(|| Arc::clone(&self.still).try_acquire_owned());
        Permits {
            _bytes: permit,
            _roomless: roomless,
            _still: still.map(|still| still.expect("fewer are under way")),
            room: room.map(Arc::new),
        }
    }

    /// Memory for a request whose frame is small. A few bytes may name very much: that takes room. One that takes little needs
    /// none as soon as its connection has little under way, so that it does not stand still while others keep the room.
    async fn memory(&self, core: &Budget, memory_bytes: usize) -> Memory {
        if memory_bytes > SMALL_FRAME_BYTES {
            return Memory::Room(self.room_in_turn(core, memory_bytes).await);
        }
        let little = u32::try_from(memory_bytes).expect("it is at most SMALL_FRAME_BYTES");
        if let Ok(permit) = Arc::clone(&self.roomless).try_acquire_many_owned(little) {
            return Memory::Roomless(permit);
        }
        tokio::select! {
            biased;
            permit = Arc::clone(&self.roomless).acquire_many_owned(little) => {
                Memory::Roomless(permit.expect("the semaphore is never closed"))
            }
            room = self.room_in_turn(core, memory_bytes) => Memory::Room(room),
        }
    }

    /// Room that is not kept behind a request that waits.
    async fn room_in_turn(&self, core: &Budget, memory_bytes: usize) -> Room {
        self.until_none_waits().await;
        core.room_of(self.from, memory_bytes).await
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1 << 20;

    fn cost(size: usize, may_wait: bool) -> Cost {
        Cost {
            size,
            memory_bytes: size,
            may_wait,
        }
    }

    #[tokio::test]
    async fn many_small_requests_take_room_like_a_large_one() {
        let core = Budget::new(MIB);
        let in_flight = InFlight::new(None, 16 * MIB);
        let half = SMALL_FRAME_BYTES / 2;
        let admit = || in_flight.admit(&core, cost(half, false), None).now_or_never();
        // The first ones are free.
        let free: Vec<Permits> = (0..2).filter_map(|_| admit()).collect();
        assert!(free.iter().all(|permits| permits.room.is_none()));
        let mut held: Vec<Permits> = std::iter::from_fn(admit).collect();
        assert_eq!((free.len(), held.len()), (2, 2 * MIB / SMALL_FRAME_BYTES));
        assert!(core.room(1).now_or_never().is_none(), "all room is taken");
        held.pop();
        assert!(admit().is_some(), "what is answered gives its room back");
    }

    #[tokio::test]
    async fn a_connection_with_little_under_way_waits_for_nobody() {
        let core = Budget::new(MIB);
        let all = core.room(MIB).now_or_never();
        assert!(all.is_some());
        let in_flight = InFlight::new(None, 16 * MIB);
        for _ in 0..100 {
            let admitted = in_flight
                .admit(&core, cost(SMALL_FRAME_BYTES, false), None)
                .now_or_never();
            assert!(admitted.expect("nothing else is under way").room.is_none());
        }
    }

    #[tokio::test]
    async fn a_small_request_waits_no_longer_than_its_connection_is_busy() {
        let core = Budget::new(MIB);
        let all = core.room(MIB).now_or_never();
        assert!(all.is_some());
        let in_flight = InFlight::new(None, 16 * MIB);
        let first = in_flight
            .admit(&core, cost(SMALL_FRAME_BYTES, false), None)
            .now_or_never();
        assert!(first.is_some());
        let mut second = Box::pin(in_flight.admit(&core, cost(SMALL_FRAME_BYTES, false), None));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let second = second.now_or_never().expect("nothing else is under way");
        assert!(second.room.is_none());
    }

    #[tokio::test]
    async fn a_connection_has_so_much_under_way_and_no_more() {
        let core = Budget::new(16 * MIB);
        let in_flight = InFlight::new(None, 2 * MIB);
        let large = core.room(4 * MIB).now_or_never();
        let permits = in_flight
            .admit(&core, cost(4 * MIB, false), large)
            .now_or_never()
            .expect("nothing is under way");
        assert!(permits.room.is_some());
        assert!(
            in_flight
                .admit(&core, cost(1, false), None)
                .now_or_never()
                .is_none()
        );
        drop(permits);
        assert!(
            in_flight
                .admit(&core, cost(1, false), None)
                .now_or_never()
                .is_some()
        );
    }

    #[tokio::test]
    async fn a_request_that_takes_much_memory_takes_room_however_small_it_is() {
        let core = Budget::new(MIB);
        let in_flight = InFlight::new(None, 16 * MIB);
        let admit = |memory_bytes| {
            let cost = Cost {
                memory_bytes,
                ..cost(1, false)
            };
            in_flight.admit(&core, cost, None).now_or_never()
        };
        let narrow = admit(SMALL_FRAME_BYTES).expect("it needs no room");
        assert!(narrow.room.is_none());
        drop(narrow);
        let wide = admit(MIB).expect("there is room");
        assert!(wide.room.is_some() && core.room(1).now_or_never().is_none());
        assert!(admit(SMALL_FRAME_BYTES + 1).is_none(), "all room is taken");
    }

    #[tokio::test]
    async fn requests_without_room_take_little_memory_together() {
        let core = Budget::new(MIB);
        let in_flight = InFlight::new(None, 16 * MIB);
        let part = Cost {
            memory_bytes: SMALL_FRAME_BYTES / 4,
            ..cost(1, false)
        };
        let admit = || in_flight.admit(&core, part, None).now_or_never();
        let held: Vec<Permits> = (0..8).filter_map(|_| admit()).collect();
        let roomless = held.iter().filter(|permits| permits.room.is_none());
        assert_eq!((held.len(), roomless.count()), (8, 4));
        assert_eq!(core.held_bytes(), SMALL_FRAME_BYTES);
    }

    #[tokio::test]
    async fn no_room_is_kept_behind_a_request_that_waits() {
        let core = Budget::new(MIB);
        let in_flight = InFlight::new(None, 16 * MIB);
        let admit = |may_wait| in_flight.admit(&core, cost(SMALL_FRAME_BYTES, may_wait), None);
        let (waits, next) = (admit(true).now_or_never(), admit(false).now_or_never());
        assert!(next.is_none(), "it needs room, and would keep it");
        assert!(in_flight.until_none_waits().now_or_never().is_none());
        drop(waits);
        assert!(in_flight.until_none_waits().now_or_never().is_some());
        assert!(admit(false).now_or_never().is_some());
    }
}
