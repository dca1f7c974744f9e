//! What the two sides of one HTTP connection know of each other: whoever serves it, and the answers on it.
//!
//! hyper waits without bound for a client that does not take its answer, and then asks the answer for nothing. So an
//! answer that is not taken in time has the whole connection cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::counters::HttpCounters;

/// One connection.
#[derive(Clone)]
pub(super) struct Line {
    state: Arc<State>,
}

struct State {
    counters: Arc<HttpCounters>,
    /// It carries an answer that has no end: its age does not matter then.
    follows: AtomicBool,
    cut: Notify,
}

impl Line {
    pub(super) fn new(counters: Arc<HttpCounters>) -> Line {
        let state = State {
            counters,
            follows: AtomicBool::new(false),
            cut: Notify::new(),
        };
        Line {
            state: Arc::new(state),
        }
    }

    /// Whether an answer without end is on it.
    pub(super) fn follows(&self) -> bool {
        self.state.follows.load(Ordering::Relaxed)
    }

    /// An answer without end begins or ends.
    pub(super) fn set_follows(&self, follows: bool) {
        self.state.follows.store(follows, Ordering::Relaxed);
    }

    /// Ends the connection, whatever is on it.
    pub(super) fn cut(&self) {
        self.state.counters.cut_off();
        self.state.cut.notify_one();
    }

    /// Returns when the connection is to end.
    pub(super) async fn until_cut(&self) {
        self.state.cut.notified().await;
    }

    /// Cuts the connection at `deadline`, unless what is returned is dropped before.
    pub(super) fn cut_at(&self, deadline: Instant) -> Overdue {
        let line = self.clone();
        let waiting = tokio::spawn(async move {
            sleep_until(deadline).await;
            line.cut();
        });
        Overdue(waiting.abort_handle())
    }
}

/// A connection that will be cut.
pub(super) struct Overdue(AbortHandle);

impl Drop for Overdue {
    fn drop(&mut self) {
        self.0.abort();
    }
}
