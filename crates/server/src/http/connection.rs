//! State that the two sides of one HTTP connection share: the task that serves it, and the answers on it.
//!
//! hyper waits without bound for a client that does not take its answer, and then asks the answer for nothing. So an
//! answer that is not taken in time has the whole connection cut.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::counters::HttpCounters;

/// One connection.
#[derive(Clone)]
pub(super) struct Connection {
    state: Arc<State>,
}

struct State {
    counters: Arc<HttpCounters>,
    /// It carries an answer that has no end: its age does not matter then.
    follows: AtomicBool,
    load: Mutex<Load>,
    cut: Notify,
}

/// The requests and answers under way on a connection.
struct Load {
    /// Requests that are not answered yet, and answers that are not taken yet.
    under_way: usize,
    /// Since when there are none, if there are none.
    since: Instant,
}

impl Connection {
    pub(super) fn new(counters: Arc<HttpCounters>) -> Connection {
        let load = Load {
            under_way: 0,
            since: Instant::now(),
        };
        let state = State {
            counters,
            follows: AtomicBool::new(false),
            load: Mutex::new(load),
            cut: Notify::new(),
        };
        Connection {
            state: Arc::new(state),
        }
    }

    /// Says if an answer without end is on it.
    pub(super) fn follows(&self) -> bool {
        self.state.follows.load(Ordering::Relaxed)
    }

    /// An answer without end begins or ends.
    pub(super) fn set_follows(&self, follows: bool) {
        self.state.follows.store(follows, Ordering::Relaxed);
    }

    /// A request, or an answer, is under way until what is returned is dropped.
    pub(super) fn begin(&self) -> UnderWay {
        self.load().under_way += 1;
        UnderWay(self.clone())
    }

    /// Since when it waits for a request; `None` if it does not.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let load = self.load();
        (load.under_way == 0 && !self.follows()).then_some(load.since)
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        self.state.load.lock().unwrap_or_else(PoisonError::into_inner)
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
        let connection = self.clone();
        let waiting = tokio::spawn(async move {
            sleep_until(deadline).await;
            connection.cut();
        });
        Overdue {
            waiting: waiting.abort_handle(),
            _answer: self.begin(),
        }
    }
}

/// Something that is under way on a connection.
pub(super) struct UnderWay(Connection);

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut load = self.0.load();
        load.under_way -= 1;
        load.since = Instant::now();
    }
}

/// A connection that will be cut, for an answer that is under way.
pub(super) struct Overdue {
    waiting: AbortHandle,
    _answer: UnderWay,
}

impl Drop for Overdue {
    fn drop(&mut self) {
        self.waiting.abort();
    }
}
