//! The bytes of a connection's unanswered requests: how many there may be, and what they take of their core's memory.
//!
//! A large request has taken room before it was read. A small one needs none while the connection has little under way: many
//! small ones are as much as a large one.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::frames::SMALL_FRAME_BYTES;
use super::write::RequestPermits;
use crate::budget::{Budget, Room};

/// See the module.
pub(super) struct InFlight {
    free: Arc<Semaphore>,
    bytes_max: u32,
}

impl InFlight {
    /// At most `bytes_max`, but one request of any size.
    pub(super) fn new(bytes_max: usize) -> InFlight {
        let bytes_max = u32::try_from(bytes_max).unwrap_or(u32::MAX).max(1);
        InFlight {
            free: Arc::new(Semaphore::new(bytes_max as usize)),
            bytes_max,
        }
    }

    /// Waits until a request of `size` bytes may be under way, too. `room` is what it has taken already.
    pub(super) async fn admit(&self, core: &Budget, size: usize, room: Option<Room>) -> RequestPermits {
        let bytes = u32::try_from(size).unwrap_or(u32::MAX).clamp(1, self.bytes_max);
        let permit = Arc::clone(&self.free).acquire_many_owned(bytes).await;
        let permit = permit.expect("the semaphore is never closed");
        let under_way = self.bytes_max as usize - self.free.available_permits();
        let room = match room {
            None if under_way > SMALL_FRAME_BYTES => self.room_while_busy(core, size).await,
            room => room,
        };
        (permit, room)
    }

    /// Room for a small request; none as soon as the connection has little under way. It must not stand still while others
    /// keep the room.
    async fn room_while_busy(&self, core: &Budget, size: usize) -> Option<Room> {
        let free_when_quiet = self.bytes_max.saturating_sub(SMALL_FRAME_BYTES as u32);
        tokio::select! {
            room = core.room(size) => Some(room),
            _quiet = self.free.acquire_many(free_when_quiet) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn many_small_requests_take_room_like_a_large_one() {
        let core = Budget::new(MIB);
        let in_flight = InFlight::new(16 * MIB);
        let half = SMALL_FRAME_BYTES / 2;
        let admit = || in_flight.admit(&core, half, None).now_or_never();
        // The first ones are free.
        let free: Vec<RequestPermits> = (0..2).filter_map(|_| admit()).collect();
        assert!(free.iter().all(|(_, room)| room.is_none()));
        let mut held: Vec<RequestPermits> = std::iter::from_fn(admit).collect();
        assert_eq!((free.len(), held.len()), (2, 2 * MIB / SMALL_FRAME_BYTES));
        assert!(core.room(1).now_or_never().is_none(), "all room is taken");
        held.pop();
        assert!(admit().is_some(), "what is answered gives its room back");
    }

    #[test]
    fn a_connection_with_little_under_way_waits_for_nobody() {
        let core = Budget::new(MIB);
        let all = core.room(MIB).now_or_never();
        assert!(all.is_some());
        let in_flight = InFlight::new(16 * MIB);
        for _ in 0..100 {
            let admitted = in_flight.admit(&core, SMALL_FRAME_BYTES, None).now_or_never();
            let (_, room) = admitted.expect("nothing else is under way");
            assert!(room.is_none());
        }
    }

    #[test]
    fn a_small_request_waits_no_longer_than_its_connection_is_busy() {
        let core = Budget::new(MIB);
        let all = core.room(MIB).now_or_never();
        assert!(all.is_some());
        let in_flight = InFlight::new(16 * MIB);
        let first = in_flight.admit(&core, SMALL_FRAME_BYTES, None).now_or_never();
        assert!(first.is_some());
        let mut second = Box::pin(in_flight.admit(&core, SMALL_FRAME_BYTES, None));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        let (_, room) = second.now_or_never().expect("nothing else is under way");
        assert!(room.is_none());
    }

    #[test]
    fn a_connection_has_so_much_under_way_and_no_more() {
        let core = Budget::new(16 * MIB);
        let in_flight = InFlight::new(2 * MIB);
        let large = core.room(4 * MIB).now_or_never();
        let (permit, room) = in_flight
            .admit(&core, 4 * MIB, large)
            .now_or_never()
            .expect("nothing is under way");
        assert!(room.is_some());
        assert!(in_flight.admit(&core, 1, None).now_or_never().is_none());
        drop((permit, room));
        assert!(in_flight.admit(&core, 1, None).now_or_never().is_some());
    }
}
