//! Counters of the HTTP interface. Its connections run on one thread, but metrics are gathered from anywhere: atomics.

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. Counted since the start.
#[derive(Debug, Default)]
pub(crate) struct HttpCounters {
    connections: AtomicU64,
    followers: AtomicU64,
    requests: AtomicU64,
    gone: AtomicU64,
    client_errors: AtomicU64,
    server_errors: AtomicU64,
    refused_connections: AtomicU64,
    cut_off: AtomicU64,
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HttpFigures {
    /// Open now.
    pub(crate) connections: u64,
    /// Of these, those that follow a partition.
    pub(crate) followers: u64,
    /// Answered or not.
    pub(crate) requests: u64,
    /// Not answered, since the client left.
    pub(crate) gone: u64,
    /// Answered with a status from 400 to 499.
    pub(crate) client_errors: u64,
    /// Answered with a status from 500 on.
    pub(crate) server_errors: u64,
    pub(crate) refused_connections: u64,
    /// Closed because they took their answers too slowly.
    pub(crate) cut_off: u64,
}

/// One more of something while this lives.
pub(super) struct Present<'a>(&'a AtomicU64);

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn enter(gauge: &AtomicU64) -> Present<'_> {
    gauge.fetch_add(1, Ordering::Relaxed);
    Present(gauge)
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl HttpCounters {
    /// The figures now.
    pub(crate) fn figures(&self) -> HttpFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HttpFigures {
            connections: read(&self.connections),
            followers: read(&self.followers),
            requests: read(&self.requests),
            gone: read(&self.gone),
            client_errors: read(&self.client_errors),
            server_errors: read(&self.server_errors),
            refused_connections: read(&self.refused_connections),
            cut_off: read(&self.cut_off),
        }
    }

    /// Counts an open connection.
    pub(super) fn connection(&self) -> Present<'_> {
        enter(&self.connections)
    }

    /// Counts a follower.
    pub(super) fn follower(&self) -> Present<'_> {
        enter(&self.followers)
    }

    /// Counts a request by the status of its answer, if it was answered.
    pub(super) fn ended(&self, status: Option<u16>) {
        add(&self.requests);
        match status {
            None => add(&self.gone),
            Some(400..=499) => add(&self.client_errors),
            Some(500..) => add(&self.server_errors),
            Some(_) => {}
        }
    }

    /// Counts a connection that has no place of its own, or that made way for another.
    pub(super) fn refused_connection(&self) {
        add(&self.refused_connections);
    }

    pub(super) fn cut_off(&self) {
        add(&self.cut_off);
    }
}
