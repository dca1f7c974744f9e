//! A large request while it comes: how much of it may be here, and how long it may take.
//!
//! A small one beside the free memory of its core gets all that it will need at once, before it is read. Any other gets room
//! as it comes, in steps that are a few times what came: a client that announces much and sends little holds little. While it
//! waits for room nothing is read, and its time does not run. While others wait it has to come fast, the faster the more room
//! it holds.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use tokio::time::{Instant, timeout_at};

use super::ConnectionError;
use super::frames::SMALL_FRAME_BYTES;
use crate::budget::{Budget, Room};

/// A request that comes bit by bit holds at most so many times what came of it.
const STEP: usize = 4;
/// While others wait for the room that a request holds, so much of it has to come each time that they would be let wait.
const ARRIVING_BYTES_MIN: usize = 64 << 10;
/// And at least this part of the room.
const ARRIVING_PART: usize = 16;

/// See the module.
pub(super) struct Arriving<'a> {
    requests: &'a Budget,
    room: Room,
    /// Bytes of the frame.
    size: usize,
    /// Memory that the request takes, with all that is made of it when it is taken apart.
    memory_bytes: usize,
    time_max: Duration,
    deadline: Instant,
    /// Ends when others have waited for long enough.
    wanted: LocalBoxFuture<'a, ()>,
    /// Bytes that have come since `wanted` was begun.
    came_bytes: usize,
}

impl<'a> Arriving<'a> {
    /// A request of `size` bytes that will take `memory_bytes` and may take so long to come.
    pub(super) fn new(
        requests: &'a Budget,
        from: IpAddr,
        size: usize,
        memory_bytes: usize,
        time_max: Duration,
    ) -> Arriving<'a> {
        let room = requests.claim(Some(from), memory_bytes);
        room.take_if_small();
        Arriving {
            requests,
            room,
            size,
            memory_bytes,
            time_max,
            deadline: Instant::now() + time_max,
            wanted: requests.until_wanted().boxed_local(),
            came_bytes: 0,
        }
    }

    /// Says how much of the request may be here, where `here_bytes` are: waits for room for more if it has to.
    pub(super) async fn bytes_max(&mut self, here_bytes: usize) -> usize {
        if here_bytes < SMALL_FRAME_BYTES && !self.room.is_whole() {
            return self.size.min(SMALL_FRAME_BYTES);
        }
        if here_bytes >= self.room.held_bytes().min(self.size) {
            self.grow(here_bytes * STEP).await;
        }
        match self.room.is_whole() {
            // There may be less room than it needs: it is all there is.
            true => self.size,
            false => self.size.min(self.room.held_bytes()),
        }
    }

    /// The room of the whole request, which is here, for all that is made of it.
    pub(super) async fn into_room(mut self) -> Room {
        self.grow(self.memory_bytes).await;
        self.room
    }

    async fn grow(&mut self, bytes: usize) {
        let asked = Instant::now();
        self.room.grow(bytes).await;
        self.deadline += asked.elapsed();
        self.begin_anew();
    }

    /// Waits for some of the request.
    pub(super) async fn wait<T, E: Into<ConnectionError>>(
        &mut self,
        input: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ConnectionError> {
        let input = async {
            tokio::select! {
                biased;
                read = input => read.map_err(Into::into),
                () = &mut self.wanted => Err(ConnectionError::Silent),
            }
        };
        match timeout_at(self.deadline, input).await {
            Ok(read) => read,
            Err(_) => Err(ConnectionError::TooSlow(self.time_max)),
        }
    }

    /// Takes note of what came.
    pub(super) fn note(&mut self, bytes: usize) {
        self.came_bytes += bytes;
        if self.came_bytes >= ARRIVING_BYTES_MIN.max(self.room.held_bytes() / ARRIVING_PART) {
            self.begin_anew();
        }
    }

    fn begin_anew(&mut self) {
        self.wanted = self.requests.until_wanted().boxed_local();
        self.came_bytes = 0;
    }
}
