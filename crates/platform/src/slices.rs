//! Long work on a core in slices: whoever does it says how much is done, and after a while others of the core have their turn.
//!
//! Between two slices anything may happen that may happen while a task waits: what must be seen whole or not at all is one slice.

use tokio::task::yield_now;

/// See the module. Its user decides how much a unit of work is: some microseconds are a good measure.
pub struct Slices {
    work_max: usize,
    work: usize,
}

impl Slices {
    /// Slices of so much work.
    pub fn of(work_max: usize) -> Slices {
        Slices { work_max, work: 0 }
    }

    /// Counts work that is done, and ends the slice if it was enough.
    pub async fn did(&mut self, work: usize) {
        self.work += work;
        if self.work >= self.work_max {
            self.work = 0;
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_slice_ends_when_its_work_is_done() {
        let mut slices = Slices::of(10);
        let mut work = pin!(async move {
            for _ in 0..25 {
                slices.did(3).await;
            }
        });
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = 1;
        while work.as_mut().poll(&mut context) == Poll::Pending {
            turns += 1;
        }
        // Four steps of three end a slice; the last step is the only one of its own.
        assert_eq!(turns, 7);
    }
}
