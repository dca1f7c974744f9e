//! Memory that requests may take together: those of one core while they arrive and until they are answered; and on the
//! HTTP thread bodies, and answers that are not taken yet. Asked before the memory is reserved, in the order of asking.
//!
//! Never a reason to read less of what is small. Nobody keeps room in silence, or for a trickle, while others wait for it: who
//! holds some gets more of it at once or gives up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory is lent out in units of this size.
const UNIT_BYTES: usize = 1024;

/// How long nothing may come of what room is kept for while others wait for it.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Budget {
    free: Arc<Semaphore>,
    units_max: u32,
    waiting: AtomicUsize,
}

/// Memory that somebody holds, until dropped.
pub(crate) struct Room {
    permit: OwnedSemaphorePermit,
}

/// Counts whoever waits, even if the wait is given up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Waiting<'a> {
        waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Budget {
    /// Room for `bytes_max` bytes, all of it free.
    pub(crate) fn new(bytes_max: usize) -> Budget {
        let units = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let units_max = u32::try_from(units).unwrap_or(u32::MAX);
        Budget {
            free: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for room for `bytes`, or for all there is if they are more.
    pub(crate) async fn room(&self, bytes: usize) -> Room {
        let units = self.units(bytes);
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_many_owned(units) {
            return Room { permit };
        }
        let _waiting = Waiting::begin(&self.waiting);
        let permit = Arc::clone(&self.free).acquire_many_owned(units).await;
        Room {
            permit: permit.expect("the budget is never closed"),
        }
    }

    /// Whether somebody waits for room.
    fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Returns when there was silence for long enough, and somebody waits for room.
    pub(crate) async fn until_wanted(&self) {
        loop {
            tokio::time::sleep(SILENCE_MAX).await;
            if self.is_wanted() {
                return;
            }
        }
    }

    /// Room for nothing yet.
    pub(crate) fn no_room(&self) -> Room {
        let permit = Arc::clone(&self.free).try_acquire_many_owned(0);
        Room {
            permit: permit.expect("nothing can always be had"),
        }
    }

    /// Makes `room` one for `bytes`: gives back what it holds beyond that, or takes the rest if it is free now.
    pub(crate) fn resize(&self, room: &mut Room, bytes: usize) -> bool {
        let units = self.units(bytes);
        let held = room.permit.num_permits() as u32;
        if units <= held {
            drop(room.permit.split((held - units) as usize));
            return true;
        }
        match Arc::clone(&self.free).try_acquire_many_owned(units - held) {
            Ok(more) => {
                room.permit.merge(more);
                true
            }
            Err(_) => false,
        }
    }

    fn units(&self, bytes: usize) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES))
            .unwrap_or(u32::MAX)
            .min(self.units_max)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn room_is_bounded_and_who_waits_is_known() {
        let budget = Budget::new(4 * UNIT_BYTES);
        let three = budget.room(3 * UNIT_BYTES).now_or_never().expect("there is room");
        let small = budget.room(1).now_or_never().expect("there is still room");
        let mut more = Box::pin(budget.room(usize::MAX));
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
        let budget = Budget::new(UNIT_BYTES);
        let all = budget.room(1).now_or_never().expect("there is room");
        let mut waiting = Box::pin(budget.room(1));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(waiting);
        assert!(!budget.is_wanted());
        drop(all);
        assert!(budget.room(1).now_or_never().is_some());
    }

    #[test]
    fn room_grows_only_by_what_is_free_and_comes_back() {
        let budget = Budget::new(4 * UNIT_BYTES);
        let mut one = budget.no_room();
        assert!(budget.resize(&mut one, 3 * UNIT_BYTES));
        let mut other = budget.no_room();
        assert!(budget.resize(&mut other, 1));
        assert!(!budget.resize(&mut other, UNIT_BYTES + 1), "all is taken");
        assert!(budget.resize(&mut one, UNIT_BYTES));
        assert!(budget.resize(&mut other, 3 * UNIT_BYTES));
        drop((one, other));
        let mut all = budget.no_room();
        assert!(budget.resize(&mut all, usize::MAX), "more than all is all");
    }
}
