//! The memory that large requests of one core may take while they arrive and until they are answered.
//!
//! Asked before the memory is reserved, in the order of asking. Never a reason to read less of what is small.

use std::cell::Cell;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory is lent out in units of this size.
const UNIT_BYTES: usize = 1024;

/// See the module.
pub(crate) struct RequestBudget {
    room: Arc<Semaphore>,
    units: u32,
    waiting: Cell<usize>,
}

/// Counts whoever waits, even if the wait is given up.
struct Waiting<'a>(&'a Cell<usize>);

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a Cell<usize>) -> Waiting<'a> {
        waiting.set(waiting.get() + 1);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl RequestBudget {
    pub(crate) fn new(bytes: usize) -> RequestBudget {
        let units = (bytes / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        RequestBudget {
            room: Arc::new(Semaphore::new(units as usize)),
            units,
            waiting: Cell::new(0),
        }
    }

    /// Waits for room for `bytes`, or for all there is; it is free again when what is returned is dropped.
    pub(crate) async fn acquire(&self, bytes: usize) -> OwnedSemaphorePermit {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES))
            .unwrap_or(u32::MAX)
            .min(self.units);
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_many_owned(units) {
            return permit;
        }
        let _waiting = Waiting::begin(&self.waiting);
        let permit = Arc::clone(&self.room).acquire_many_owned(units).await;
        permit.expect("the budget is never closed")
    }

    /// Whether somebody waits for room.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.get() > 0
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn room_is_bounded_and_who_waits_is_known() {
        let budget = RequestBudget::new(4 * UNIT_BYTES);
        let three = budget
            .acquire(3 * UNIT_BYTES)
            .now_or_never()
            .expect("there is room");
        let small = budget.acquire(1).now_or_never().expect("there is still room");
        let mut more = Box::pin(budget.acquire(usize::MAX));
        assert!(
            more.as_mut().now_or_never().is_none(),
            "more than all is all, and all is taken"
        );
        assert!(budget.is_wanted());
        drop(three);
        assert!(more.as_mut().now_or_never().is_none());
        drop(small);
        drop(more.now_or_never().expect("all is free"));
        assert!(!budget.is_wanted());
    }

    #[test]
    fn who_gives_up_waits_no_more() {
        let budget = RequestBudget::new(UNIT_BYTES);
        let all = budget.acquire(1).now_or_never().expect("there is room");
        let mut waiting = Box::pin(budget.acquire(1));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        assert!(!budget.is_wanted());
        drop(all);
        assert!(budget.acquire(1).now_or_never().is_some());
    }
}
