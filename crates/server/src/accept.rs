//! Lets clients in: bounds how many there are, altogether and from one address, and spreads them over the cores.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use platform::net::{Listener, Stream};
use protocol::metadata::broker_config::{MAX_CONNECTIONS, MAX_CONNECTIONS_PER_IP};
use tokio::sync::Semaphore;

use crate::caller::{self, Caller};
use crate::connection::{Arrival, welcome};
use crate::core::Core;
use crate::seats::{SeatLimits, Seats};

/// A rest when the system has no descriptor left, so that the loop does not spin.
const OUT_OF_DESCRIPTORS_REST: Duration = Duration::from_millis(100);

/// Accepts until the node drains. Never more than `connections_max` at once, whatever limits are set.
pub(crate) async fn accept_clients(
    core: Rc<Core>,
    listener: Listener,
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
            biased;
            _ = draining.acquire() => return,
            accepted = listener.accept() => accepted,
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

/// The limits on connections: those that clients have set for this node, or else those that it was started with, and never
/// more than it can bear.
fn limits_in_force(core: &Core, connections_max: usize) -> SeatLimits {
    let started = &core.facts.config.limits;
    let number = |name, started: usize| {
        let number = core.number_in_force(name, started as u64);
        usize::try_from(number).unwrap_or(usize::MAX)
    };
    SeatLimits {
        all: number(MAX_CONNECTIONS, started.connections).min(connections_max),
        per_address: number(MAX_CONNECTIONS_PER_IP, started.connections_per_address),
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
    fn let_in(&mut self, stream: Stream, peer: SocketAddr) {
        let limits = limits_in_force(&self.core, self.connections_max);
        let Ok(seat) = self.seats.take(peer.ip(), &limits) else {
            self.core.counters.connections_refused.add(1);
            tracing::debug!(%peer, "a connection was refused: max.connections, max.connections.per.ip or open files");
            return;
        };
        self.core.counters.connections_opened.add(1);
        let stream = match stream.detach() {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%error, "a connection was lost while it was accepted"),
        };
        let core = self.next_core;
        self.next_core = (self.next_core + 1) % self.core.facts.mailboxes.cores();
        let arrival = Arrival {
            stream,
            caller: Arc::new(Caller::at(peer, caller::Listener::Kafka)),
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
