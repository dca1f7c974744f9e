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

/// Accepts until the node drains.
pub(crate) async fn accept_clients(
    core: Rc<Core>,
    listener: tokio::net::TcpListener,
    draining: Arc<Semaphore>,
) {
    let mut doorman = Doorman {
        core,
        all: Arc::default(),
        by_address: HashMap::new(),
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
    /// What clients have set for this node, or what it was started with.
    fn in_force(core: &Core) -> ConnectionLimits {
        let started = &core.facts.config.limits;
        core.with_metadata(|metadata| {
            let number = |name, started| {
                let set = metadata.own_broker_number(name);
                set.and_then(|number| usize::try_from(number).ok())
                    .unwrap_or(started)
            };
            ConnectionLimits {
                all: number(MAX_CONNECTIONS, started.connections),
                per_address: number(MAX_CONNECTIONS_PER_IP, started.connections_per_address),
            }
        })
    }
}

struct Doorman {
    core: Rc<Core>,
    all: Arc<AtomicUsize>,
    by_address: HashMap<IpAddr, Arc<AtomicUsize>>,
    next_core: usize,
    draining: Arc<Semaphore>,
}

impl Doorman {
    fn let_in(&mut self, stream: tokio::net::TcpStream, peer: SocketAddr) {
        let limits = ConnectionLimits::in_force(&self.core);
        let from_address = self.by_address.entry(peer.ip()).or_default();
        let crowded = self.all.load(Ordering::Relaxed) >= limits.all
            || from_address.load(Ordering::Relaxed) >= limits.per_address;
        if crowded {
            count(&self.core.counters.connections_refused, 1);
            tracing::debug!(%peer, "a connection was refused: max.connections or max.connections.per.ip");
            return;
        }
        let seat = Seat {
            _all: Counted::new(&self.all),
            _from_address: Counted::new(from_address),
        };
        count(&self.core.counters.connections_opened, 1);
        if self.by_address.len() > limits.all {
            self.by_address
                .retain(|_, counter| counter.load(Ordering::Relaxed) > 0);
        }
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
            seat,
            draining: self.draining.clone(),
        };
        self.core
            .facts
            .mailboxes
            .send(core, move |core| welcome(core, arrival));
    }
}
