//! The frames of a connection's input: where a large one is read to, and how long each may take.
//!
//! Memory comes before reading. Who announces much shows some of it first, and nobody keeps room for a trickle while others wait.

use std::rc::Rc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use kafka_wire::lone_batch_position;
use storage::{BatchMemory, SharedMemory};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::timeout;

use super::ConnectionError;
use super::in_flight::InFlight;
use crate::api;
use crate::budget::{Budget, Room};
use crate::core::Core;
use crate::shard::count;

/// A frame's size prefix.
const PREFIX_BYTES: usize = 4;
/// Frames up to this size need no budget before they are read: too small to matter, too frequent to ask. See `InFlight` for
/// many of them.
pub(super) const SMALL_FRAME_BYTES: usize = 64 << 10;
/// Of a large frame, so much is looked at to see whether it is an append of one batch.
const HEAD_BYTES: usize = 1 << 10;
const _: () = assert!(
    SMALL_FRAME_BYTES < BatchMemory::REQUEST_BYTES_MIN,
    "a frame that may be received into a batch's memory has shown its head before it is received"
);
/// While others wait for the room that a frame holds, so much of it has to come each time that they would be let wait.
const ARRIVING_BYTES_MIN: usize = 64 << 10;
/// Made room for beyond what is asked for, at least and at most.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;

/// A request as it came.
pub(super) struct Received {
    /// The frame without its size prefix.
    pub(super) request: Bytes,
    /// What it was received into, if that is worth having back.
    pub(super) memory: Option<SharedMemory>,
    /// What a large one takes of its core's memory.
    pub(super) room: Option<Room>,
}

/// The frames of a connection's input.
pub(super) struct Frames {
    core: Rc<Core>,
    pub(super) input: OwnedReadHalf,
    pub(super) buffer: BytesMut,
    /// How much to make room for, after how much came lately.
    read_bytes: usize,
    /// Whether a whole request has ever come.
    any: bool,
}

impl Frames {
    /// `rest` is what was read already, `any` whether that comes behind a whole request.
    pub(super) fn new(core: Rc<Core>, input: OwnedReadHalf, rest: BytesMut, any: bool) -> Frames {
        Frames {
            core,
            input,
            buffer: rest,
            read_bytes: READ_BYTES_MIN,
            any,
        }
    }

    /// The next request; `None` when the client is done. A large one is not read before those `under_way` that wait for others.
    pub(super) async fn next(&mut self, under_way: &InFlight) -> Result<Option<Received>, ConnectionError> {
        let limits = self.core.facts.config.limits.clone();
        let patience = if self.any {
            limits.connection_idle
        } else {
            limits.handshake
        };
        let filled = timeout(patience, self.fill(PREFIX_BYTES)).await;
        if !filled.map_err(|_| ConnectionError::Idle(patience))?? {
            return Ok(None);
        }
        let announced = i32::from_be_bytes(self.buffer[..PREFIX_BYTES].try_into().expect("four bytes"));
        let size = usize::try_from(announced)
            .ok()
            .filter(|size| *size <= limits.request_bytes)
            .ok_or(ConnectionError::RequestTooLarge {
                size: announced.into(),
                size_max: limits.request_bytes,
            })?;
        let room = match size {
            ..=SMALL_FRAME_BYTES => None,
            _ => {
                // Whoever announces much shows some of it, before room for the rest is kept from others.
                let shown = timeout(limits.handshake, self.fill(PREFIX_BYTES + HEAD_BYTES)).await;
                if !shown.map_err(|_| ConnectionError::TooSlow(limits.handshake))?? {
                    return Ok(None);
                }
                under_way.until_none_waits().await;
                let memory_bytes = api::memory_bytes(&self.buffer[PREFIX_BYTES..], size);
                Some(self.core.requests.room(memory_bytes).await)
            }
        };
        let received = timeout(limits.handshake, self.receive(size, room.is_some())).await;
        let received = received.map_err(|_| ConnectionError::TooSlow(limits.handshake))??;
        self.any = true;
        Ok(received.map(|(request, memory)| Received {
            request,
            memory,
            room,
        }))
    }

    /// The frame of `size` bytes whose prefix is in the buffer, and of a large one its head too; `None` if the input ends
    /// before. Only a frame that holds room may not trickle while others wait.
    async fn receive(
        &mut self,
        size: usize,
        holds_room: bool,
    ) -> Result<Option<(Bytes, Option<SharedMemory>)>, ConnectionError> {
        if size >= BatchMemory::REQUEST_BYTES_MIN {
            let head = &self.buffer[PREFIX_BYTES..PREFIX_BYTES + HEAD_BYTES];
            if let Some(position) = lone_batch_position(head) {
                return self.receive_batch(BatchMemory::for_request(position, size)).await;
            }
        }
        let core = self.core.clone();
        let mut patience = holds_room.then(|| Patience::new(&core.requests));
        while self.buffer.len() < PREFIX_BYTES + size {
            let here = self.buffer.len();
            let filling = self.fill_once(PREFIX_BYTES + size);
            let filled = match &mut patience {
                Some(patience) => patience.wait(filling).await?,
                None => filling.await?,
            };
            if !filled {
                return Ok(None);
            }
            if let Some(patience) = &mut patience {
                patience.note(self.buffer.len() - here);
            }
        }
        self.buffer.advance(PREFIX_BYTES);
        Ok(Some((self.buffer.split_to(size).freeze(), None)))
    }

    /// An append of one large batch, received where it can stay until it is on the disk.
    async fn receive_batch(
        &mut self,
        mut memory: BatchMemory,
    ) -> Result<Option<(Bytes, Option<SharedMemory>)>, ConnectionError> {
        self.buffer.advance(PREFIX_BYTES);
        let here = self.buffer.len().min(memory.missing());
        memory.rest().put_slice(&self.buffer.split_to(here));
        // The next one's head is as small as this one's: what is read with it has to be copied.
        self.read_bytes = READ_BYTES_MIN;
        let core = self.core.clone();
        let mut patience = Patience::new(&core.requests);
        while memory.missing() > 0 {
            let read = patience.wait(self.input.read_buf(&mut memory.rest())).await?;
            if read == 0 {
                return Ok(None);
            }
            patience.note(read);
            count(&self.core.counters.received_bytes, read as u64);
        }
        let (request, memory) = memory.share();
        Ok(Some((request, Some(memory))))
    }

    /// Reads until the buffer holds `length` bytes; false if the input ends before.
    async fn fill(&mut self, length: usize) -> Result<bool, ConnectionError> {
        while self.buffer.len() < length {
            if !self.fill_once(length).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads once towards `length` bytes; false if the input has ended. Nothing is lost if it is dropped while it waits.
    ///
    /// A large frame is read up to its own end and into memory of just its size, so that nothing of it, and little of the
    /// next one, is ever moved.
    async fn fill_once(&mut self, length: usize) -> Result<bool, ConnectionError> {
        if self.buffer.is_empty() {
            // An idle connection holds no buffer.
            self.buffer = BytesMut::new();
            self.input.readable().await?;
        }
        let missing = length - self.buffer.len();
        let room = missing.max(self.read_bytes);
        self.buffer.reserve(room);
        let read = self.input.read_buf(&mut (&mut self.buffer).limit(room)).await?;
        if read == 0 {
            return Ok(false);
        }
        count(&self.core.counters.received_bytes, read as u64);
        let fits_well = if read >= self.read_bytes {
            self.read_bytes * 2
        } else {
            read
        };
        self.read_bytes = fits_well.clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        Ok(true)
    }
}

/// How long a request is waited for that holds room: not while it trickles and others wait for that.
struct Patience<'a> {
    requests: &'a Budget,
    over: LocalBoxFuture<'a, ()>,
    /// Of what came since the patience was new.
    came_bytes: usize,
}

impl Patience<'_> {
    fn new(requests: &Budget) -> Patience<'_> {
        Patience {
            requests,
            over: requests.until_wanted().boxed_local(),
            came_bytes: 0,
        }
    }

    async fn wait<T, E: Into<ConnectionError>>(
        &mut self,
        input: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ConnectionError> {
        tokio::select! {
            biased;
            read = input => read.map_err(Into::into),
            () = &mut self.over => Err(ConnectionError::Silent),
        }
    }

    /// Takes note of what came.
    fn note(&mut self, bytes: usize) {
        self.came_bytes += bytes;
        if self.came_bytes >= ARRIVING_BYTES_MIN {
            *self = Patience::new(self.requests);
        }
    }
}
