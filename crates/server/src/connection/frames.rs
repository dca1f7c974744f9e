//! The frames of a connection's input: where a large one is read to, and how long each may take.
//!
//! Memory comes before reading. A client that announces much shows some of it first, and gets room for the rest as `arriving`
//! has it.

use std::net::IpAddr;
use std::rc::Rc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_wire::lone_batch_position;
use platform::net::ReadHalf;
use storage::{BatchMemory, SharedMemory};
use tokio::time::timeout;

use super::ConnectionError;
use super::arriving::Arriving;
use super::in_flight::InFlight;
use super::pieces;
use crate::api;
use crate::budget::Room;
use crate::core::Core;

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
/// Made room for beyond what is asked for, at least and at most.
const READ_BYTES_MIN: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;

/// A request as it came.
pub(super) struct Received {
    /// The frame without its size prefix.
    pub(super) request: Bytes,
    /// The memory that it was received into, if that is worth having back.
    pub(super) memory: Option<SharedMemory>,
    /// The room that a large one takes of its core's memory.
    pub(super) room: Option<Room>,
}

/// The frames of a connection's input.
pub(super) struct Frames {
    core: Rc<Core>,
    /// Where the client is.
    from: IpAddr,
    pub(super) input: ReadHalf,
    pub(super) buffer: BytesMut,
    /// The bytes to make room for, by those that came lately.
    read_bytes: usize,
    /// A whole request has come before.
    any: bool,
}

impl Frames {
    /// `rest` is what was read already, `any` whether that comes behind a whole request.
    pub(super) fn new(core: Rc<Core>, from: IpAddr, input: ReadHalf, rest: BytesMut, any: bool) -> Frames {
        Frames {
            core,
            from,
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
        let received = match size {
            ..=SMALL_FRAME_BYTES => self.receive_small(size).await?,
            _ => {
                // Room is not even asked for before the client has shown some of what it announces.
                let shown = timeout(limits.handshake, self.fill(PREFIX_BYTES + HEAD_BYTES)).await;
                if !shown.map_err(|_| ConnectionError::TooSlow(limits.handshake))?? {
                    return Ok(None);
                }
                under_way.until_none_waits().await;
                self.receive_large(size).await?
            }
        };
        self.any = true;
        Ok(received)
    }

    /// The frame of `size` bytes whose prefix is in the buffer; `None` if the input ends before.
    async fn receive_small(&mut self, size: usize) -> Result<Option<Received>, ConnectionError> {
        let time_max = self.core.facts.config.limits.handshake;
        let filled = timeout(time_max, self.fill(PREFIX_BYTES + size)).await;
        if !filled.map_err(|_| ConnectionError::TooSlow(time_max))?? {
            return Ok(None);
        }
        Ok(Some(Received {
            request: self.take_frame(size),
            memory: None,
            room: None,
        }))
    }

    /// The same of a large one, whose head is in the buffer, too.
    async fn receive_large(&mut self, size: usize) -> Result<Option<Received>, ConnectionError> {
        let core = self.core.clone();
        let head = &self.buffer[PREFIX_BYTES..PREFIX_BYTES + HEAD_BYTES];
        let memory_bytes = api::memory_bytes(head, size);
        let lone_batch = match size >= BatchMemory::REQUEST_BYTES_MIN {
            true => lone_batch_position(head),
            false => None,
        };
        let time_max = core.facts.config.limits.handshake;
        let mut arriving = Arriving::new(&core.requests, self.from, size, memory_bytes, time_max);
        while self.buffer.len() < PREFIX_BYTES + size {
            let here = self.buffer.len() - PREFIX_BYTES;
            let bytes_max = arriving.bytes_max(here).await;
            if let (Some(position), true) = (lone_batch, bytes_max == size) {
                let memory = BatchMemory::for_request(position, size);
                return self.receive_batch(memory, arriving).await;
            }
            if !arriving.wait(self.fill_once(PREFIX_BYTES + bytes_max)).await? {
                return Ok(None);
            }
            arriving.note(self.buffer.len() - PREFIX_BYTES - here);
        }
        let request = self.take_frame(size);
        Ok(Some(Received {
            request,
            memory: None,
            room: Some(arriving.into_room().await),
        }))
    }

    /// An append of one large batch, received where it can stay until it is on the disk.
    async fn receive_batch(
        &mut self,
        mut memory: BatchMemory,
        mut arriving: Arriving<'_>,
    ) -> Result<Option<Received>, ConnectionError> {
        self.buffer.advance(PREFIX_BYTES);
        let here = self.buffer.len().min(memory.missing());
        pieces::copy(&self.buffer.split_to(here), &mut memory.rest()).await;
        // The next one's head is as small as this one's: what is read with it has to be copied.
        self.read_bytes = READ_BYTES_MIN;
        while memory.missing() > 0 {
            let mut rest = memory.rest();
            let read = arriving.wait(pieces::receive(&mut self.input, &mut rest)).await?;
            if read == 0 {
                return Ok(None);
            }
            arriving.note(read);
            self.core.counters.received_bytes.add(read as u64);
        }
        let (request, memory) = memory.share();
        Ok(Some(Received {
            request,
            memory: Some(memory),
            room: Some(arriving.into_room().await),
        }))
    }

    /// The frame of `size` bytes that is in the buffer.
    fn take_frame(&mut self, size: usize) -> Bytes {
        self.buffer.advance(PREFIX_BYTES);
        self.buffer.split_to(size).freeze()
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
        pieces::make_room(&mut self.buffer, room).await;
        let read = pieces::receive(&mut self.input, &mut (&mut self.buffer).limit(room)).await?;
        if read == 0 {
            return Ok(false);
        }
        self.core.counters.received_bytes.add(read as u64);
        let fits_well = if read >= self.read_bytes {
            self.read_bytes * 2
        } else {
            read
        };
        self.read_bytes = fits_well.clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        Ok(true)
    }
}
