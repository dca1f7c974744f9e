//! The places of HTTP connections. Nobody who only holds sockets open, or waits on all of them, keeps others out, and health
//! checks least of all.
//!
//! When all places are taken, or all that one address may have, the connection among them that has waited longest for a
//! request makes way for the next. If none waits, the next comes in as a visitor: it may ask how the node is, and is told
//! why it may do nothing else.

use std::net::IpAddr;

use tokio::task::JoinHandle;

use super::connection::Connection;
use super::limits::HttpLimits;
use super::problem::{Kind, Problem};
use crate::seats::{Full, Seat, SeatLimits, Seats};

/// Paths that visitors may ask for.
const PROBES: [&str; 3] = ["/health", "/metrics", "/ready"];

/// A connection's place, until dropped.
pub(super) struct Place {
    _seat: Option<Seat>,
    /// Why the connection is a visitor, if it is one.
    pub(super) crowded: Option<Crowded>,
}

impl Place {
    fn of_guest(seat: Seat) -> Place {
        Place {
            _seat: Some(seat),
            crowded: None,
        }
    }

    fn of_visitor(crowded: Crowded) -> Place {
        Place {
            _seat: None,
            crowded: Some(crowded),
        }
    }
}

/// Why a connection is a visitor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crowded {
    full: Full,
    limits: SeatLimits,
}

impl Crowded {
    /// Refuses everything but probes.
    pub(super) fn check(self, path: &str) -> Result<(), Problem> {
        if PROBES.contains(&path) {
            return Ok(());
        }
        let taken = match self.full {
            Full::All => format!("{} HTTP connections", self.limits.all),
            Full::Address => format!("{} HTTP connections from this address", self.limits.per_address),
        };
        let detail = format!(
            "{taken} are being answered, which is the most: close some, or try again; {} are answered meanwhile",
            PROBES.join(", ")
        );
        Err(Problem::new(Kind::Busy, detail))
    }
}

/// See the module.
pub(super) struct Places {
    limits: SeatLimits,
    visitors_max: usize,
    seats: Seats,
    guests: Vec<Served>,
    /// In the order in which they came.
    visitors: Vec<Served>,
}

/// A connection and the task that serves it, which has its place.
pub(super) struct Served {
    pub(super) address: IpAddr,
    pub(super) connection: Connection,
    pub(super) is_visitor: bool,
    pub(super) task: JoinHandle<()>,
}

impl Served {
    /// Ends it. Its place is free when the task is gone, not before.
    async fn end(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Places {
    /// All of them free.
    pub(super) fn new(limits: &HttpLimits) -> Places {
        Places {
            limits: limits.connections,
            visitors_max: limits.visitors_max,
            seats: Seats::default(),
            guests: Vec::new(),
            visitors: Vec::new(),
        }
    }

    /// A place for a connection from `address`, and whether another one made way for it.
    pub(super) async fn find(&mut self, address: IpAddr) -> (Place, bool) {
        self.guests.retain(|served| !served.task.is_finished());
        let full = match self.seats.take(address, &self.limits) {
            Ok(seat) => return (Place::of_guest(seat), false),
            Err(full) => full,
        };
        if let Some(waiting) = self.longest_waiting(full, address) {
            self.guests.swap_remove(waiting).end().await;
            if let Ok(seat) = self.seats.take(address, &self.limits) {
                return (Place::of_guest(seat), true);
            }
        }
        self.visitors.retain(|served| !served.task.is_finished());
        let makes_way = self.visitors.len() >= self.visitors_max.max(1);
        if makes_way {
            self.visitors.remove(0).end().await;
        }
        let limits = self.limits;
        (Place::of_visitor(Crowded { full, limits }), makes_way)
    }

    /// The guest that has waited longest for a request, of those whose end helps `address`.
    fn longest_waiting(&self, full: Full, address: IpAddr) -> Option<usize> {
        let helps = |served: &Served| full == Full::All || served.address == address;
        let waits = |(at, served): (usize, &Served)| {
            let since = served.connection.waits_since()?;
            helps(served).then_some((since, at))
        };
        let (_, longest) = self.guests.iter().enumerate().filter_map(waits).min()?;
        Some(longest)
    }

    /// Takes note of a connection that has a place that was found.
    pub(super) fn take(&mut self, served: Served) {
        match served.is_visitor {
            true => self.visitors.push(served),
            false => self.guests.push(served),
        }
    }

    /// Waits until all are free.
    pub(super) async fn all_free(self) {
        for served in self.guests.into_iter().chain(self.visitors) {
            let _ = served.task.await;
        }
    }
}
