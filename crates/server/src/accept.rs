//! Lets clients in: bounds how many there are, altogether and from one address, and spreads them over the cores.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use protocol::metadata::broker_config::{MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::Semaphore;

use crate::connection::{Arrival, welcome};
use crate::core::Core;
use crate::shard::count;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 1024;
/// A rest when the system has no descriptor left, so that the loop does not spin.
const OUT_OF_DESCRIPTORS_REST: Duration = Duration::from_millis(100);

/// Binds an address given as `host:port`.
pub(crate) fn bind(address: &str) -> io::Result<TcpListener> {
    let address: SocketAddr = address
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the name has no address"))?;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Restarting must not wait for connections of the last run to time out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Counted while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Counted {
        counter.fetch_add(1, Ordering::Relaxed);
        Counted(counter.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection's place among those allowed altogether and from its address; free again when dropped.
pub(crate) struct Seat {
    _all: Counted,
    _from_address: Counted,
}

/// The places that are taken.
#[derive(Default)]
struct Seats {
    all: Arc<AtomicUsize>,
    /// Of addresses that have connections, and of some that had.
    by_address: HashMap<IpAddr, Arc<AtomicUsize>>,
}

impl Seats {
    /// A place for a connection from `address`; `None` if there is none left. Whoever is refused leaves nothing behind.
    fn take(&mut self, address: IpAddr, limits: &ConnectionLimits) -> Option<Seat> {
        let known = self.by_address.get(&address);
        let from_address = known.map_or(0, |counter| counter.load(Ordering::Relaxed));
        if self.all.load(Ordering::Relaxed) >= limits.all || from_address >= limits.per_address {
            return None;
        }
        if self.by_address.len() >= limits.all {
            self.by_address
                .retain(|_, counter| counter.load(Ordering::Relaxed) > 0);
        }
        Some(Seat {
            _all: Counted::new(&self.all),
            _from_address: Counted::new(self.by_address.entry(address).or_default()),
        })
    }
}

/// Accepts until the node drains. Never more than `connections_max` at once, whatever limits are set.
pub(crate) async fn accept_clients(
    core: Rc<Core>,
    listener: tokio::net::TcpListener,
    connections_max: usize,
    draining: Arc<Semaphore>,
) {
    let mut doorman = Doorman {
        core,
        connections_max,
        seats: Seats::default(),
        next_core: 0,
        draining,
    };
    let draining = doorman.draining.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = draining.acquire() => return,
        };
        match accepted {
            Ok((stream, peer)) => doorman.let_in(stream, peer),
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(OUT_OF_DESCRIPTORS_REST).await;
            }
        }
    }
}

/// How many connections there may be. Those that came before a limit was lowered stay.
struct ConnectionLimits {
    all: usize,
    per_address: usize,
}

impl ConnectionLimits {
    /// What clients have set for this node, or what it was started with; and what it can bear.
    fn in_force(core: &Core, connections_max: usize) -> ConnectionLimits {
        let started = &core.facts.config.limits;
        let number = |name, started: usize| {
            let number = core.number_in_force(name, started as u64);
            usize::try_from(number).unwrap_or(usize::MAX)
        };
        ConnectionLimits {
            all: number(MAX_CONNECTIONS, started.connections).min(connections_max),
            per_address: number(MAX_CONNECTIONS_PER_IP, started.connections_per_address),
        }
    }
}

struct Doorman {
    core: Rc<Core>,
    /// More would take the open files that the log needs.
    connections_max: usize,
    seats: Seats,
    next_core: usize,
    draining: Arc<Semaphore>,
}

impl Doorman {
    fn let_in(&mut self, stream: tokio::net::TcpStream, peer: SocketAddr) {
        let limits = ConnectionLimits::in_force(&self.core, self.connections_max);
        let Some(seat) = self.seats.take(peer.ip(), &limits) else {
            count(&self.core.counters.connections_refused, 1);
            tracing::debug!(%peer, "a connection was refused: max.connections, max.connections.per.ip or open files");
            return;
        };
        count(&self.core.counters.connections_opened, 1);
        let stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%error, "a connection was lost while it was accepted"),
        };
        let core = self.next_core;
        self.next_core = (self.next_core + 1) % self.core.facts.mailboxes.cores();
        let arrival = Arrival {
            stream,
            peer,
            rest: BytesMut::new(),
            session: None,
            has_asked: false,
            seat,
            draining: self.draining.clone(),
        };
        self.core
            .facts
            .mailboxes
            .send(core, move |core| welcome(core, arrival));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits {
        all: 3,
        per_address: 2,
    };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn there_are_so_many_places_altogether_and_for_one_address() {
        let mut seats = Seats::default();
        let first = seats.take(address(1), &LIMITS);
        let second = seats.take(address(1), &LIMITS);
        assert!(first.is_some() && second.is_some());
        assert!(seats.take(address(1), &LIMITS).is_none(), "one address has two");
        let third = seats.take(address(2), &LIMITS);
        assert!(third.is_some());
        assert!(seats.take(address(2), &LIMITS).is_none(), "there are three");
        drop(first);
        assert!(seats.take(address(1), &LIMITS).is_some(), "a place is free again");
    }

    #[test]
    fn neither_who_is_refused_nor_who_has_gone_is_remembered() {
        let mut seats = Seats::default();
        for last in 0..100 {
            assert!(seats.take(address(last), &LIMITS).is_some());
        }
        assert!(seats.by_address.len() <= LIMITS.all);
        let held: Vec<Seat> = (0..3)
            .filter_map(|last| seats.take(address(last), &LIMITS))
            .collect();
        assert_eq!(held.len(), 3);
        for last in 3..100 {
            assert!(seats.take(address(last), &LIMITS).is_none());
        }
        assert_eq!(seats.by_address.len(), LIMITS.all);
    }
}
