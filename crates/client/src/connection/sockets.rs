//! A connection's socket: opens it, writes frames whole, and waits for bytes on one or many.
//!
//! Nothing here knows what the bytes say.

use std::io::{self, IoSlice, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use kafka_wire::Frame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Connection, ConnectionOptions};
use crate::error::{ClientError, Result};

/// Says if bytes of an answer are here on any of `connections`, waiting for them at most `wait`. The end of a stream
/// counts as one.
pub(crate) fn wait_readable(connections: &[&Connection], wait: Duration) -> io::Result<bool> {
    let is_ready = |connection: &&Connection| connection.is_ended() || connection.inbound.has_bytes();
    if connections.iter().any(is_ready) {
        return Ok(true);
    }
    let deadline = Instant::now() + wait;
    let mut left = wait;
    loop {
        let timeout = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut watched: Vec<PollFd<'_>> = connections
            .iter()
            .map(|connection| PollFd::new(&connection.stream, PollFlags::IN))
            .collect();
        match poll(&mut watched, Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => left = deadline.saturating_duration_since(Instant::now()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Tries every address that the name stands for.
pub(super) fn open_stream(address: &str, options: &ConnectionOptions) -> Result<TcpStream> {
    let unknown = |reason: String| ClientError::Address {
        address: address.to_owned(),
        reason,
    };
    let candidates: Vec<SocketAddr> = address
        .to_socket_addrs()
        .map_err(|error| unknown(error.to_string()))?
        .collect();
    let mut last = None;
    for candidate in candidates {
        match TcpStream::connect_timeout(&candidate, options.connect_timeout).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(options.request_timeout))?;
            stream.set_write_timeout(Some(options.request_timeout))?;
            Ok(stream)
        }) {
            Ok(stream) => return Ok(stream),
            Err(source) => last = Some(source),
        }
    }
    Err(match last {
        Some(source) => ClientError::Connect {
            address: address.to_owned(),
            source,
        },
        None => unknown("the name has no address".to_owned()),
    })
}

/// Writes all chunks of a frame, usually in one call.
pub(super) fn write_frame(stream: &mut TcpStream, frame: &Frame) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = frame.chunks.iter().map(|chunk| IoSlice::new(chunk)).collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        match stream.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut rest, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
