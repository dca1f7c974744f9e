//! The places of HTTP connections. When all are taken, the connection that has waited longest for a request makes way for the
//! next: whoever only holds sockets open keeps nobody out, health checks least of all.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::line::Line;

/// A connection's place, until dropped.
pub(super) type Place = OwnedSemaphorePermit;

/// See the module.
pub(super) struct Places {
    free: Arc<Semaphore>,
    count: u32,
    taken: Vec<Served>,
}

/// A connection and the task that serves it, which has its place.
struct Served {
    line: Line,
    task: JoinHandle<()>,
}

impl Places {
    /// So many, all of them free.
    pub(super) fn new(count: u32) -> Places {
        Places {
            free: Arc::new(Semaphore::new(count as usize)),
            count,
            taken: Vec::new(),
        }
    }

    /// A free place, if there is one.
    pub(super) fn find(&mut self) -> Option<Place> {
        self.taken.retain(|served| !served.task.is_finished());
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// Ends the connection that has waited longest for a request, and says whether there was one.
    pub(super) async fn clear_one(&mut self) -> bool {
        let waits = |(at, served): (usize, &Served)| Some((served.line.waits_since()?, at));
        let Some((_, longest)) = self.taken.iter().enumerate().filter_map(waits).min() else {
            return false;
        };
        let served = self.taken.swap_remove(longest);
        served.task.abort();
        // Its place is free when the task is gone, not before.
        let _ = served.task.await;
        true
    }

    /// Takes note of who has a place that was found.
    pub(super) fn take(&mut self, line: Line, task: JoinHandle<()>) {
        self.taken.push(Served { line, task });
    }

    /// Waits until all are free.
    pub(super) async fn all_free(&self) {
        let all = self.free.acquire_many(self.count).await;
        drop(all.expect("the places are never closed"));
    }
}
