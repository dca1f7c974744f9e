//! Memory that requests on the HTTP thread may take together: for bodies, and for answers that are not taken yet. Each
//! kind is bounded like that of one core, by the same keys of the configuration.
//!
//! Who holds room never waits for more of the same kind: it gets some at once or gives up. So nobody waits for ever.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Memory is lent out in units of this size.
const UNIT_BYTES: usize = 1024;

/// See the module.
pub(super) struct Budget {
    free: Arc<Semaphore>,
    units_max: u32,
}

/// Memory that somebody holds, until dropped.
pub(super) struct Room {
    permit: OwnedSemaphorePermit,
}

impl Budget {
    /// Room for `bytes_max` bytes, all of it free.
    pub(super) fn new(bytes_max: usize) -> Budget {
        let units = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        let units_max = u32::try_from(units).unwrap_or(u32::MAX);
        Budget {
            free: Arc::new(Semaphore::new(units_max as usize)),
            units_max,
        }
    }

    /// Waits for room for `bytes`, or for all there is if they are more.
    pub(super) async fn room(&self, bytes: usize) -> Room {
        let permit = Arc::clone(&self.free).acquire_many_owned(self.units(bytes)).await;
        Room {
            permit: permit.expect("the budget is never closed"),
        }
    }

    /// Room for nothing yet.
    pub(super) fn no_room(&self) -> Room {
        let permit = Arc::clone(&self.free).try_acquire_many_owned(0);
        Room {
            permit: permit.expect("nothing can always be had"),
        }
    }

    /// Makes `room` one for `bytes`: gives back what it holds beyond that, or takes the rest if it is free now.
    pub(super) fn resize(&self, room: &mut Room, bytes: usize) -> bool {
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
    use super::*;

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
