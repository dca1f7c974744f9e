//! Long work on a core in slices: whoever does it says how much is done, and after a while others of the core have their turn.
//!
//! Between two slices anything may happen that may happen while a task waits: what must be seen whole or not at all is one slice.
//!
//! **However many do long work, others wait for a slice or two.** All long works that clients have a thread do stand in one line, and between two slices
//! everything else that is ready has its turn, and what has arrived meanwhile is looked at. Nobody keeps the place at the head while waiting for
//! anything else, so nobody waits for ever.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;

/// The first slice is so much shorter, for it waits in no line: a short work needs no other.
const FIRST: usize = 8;

thread_local! {
    /// Whoever has its one place is at the head of the line.
    static LINE: Arc<Semaphore> = Arc::new(Semaphore::new(1));
    /// The place, while its slice is done.
    static HEAD: RefCell<Option<OwnedSemaphorePermit>> = const { RefCell::new(None) };
    /// Says that `end_of_turn` comes when the task that is polled gives way.
    static IN_TURN: Cell<bool> = const { Cell::new(false) };
}

/// Ends a slice, and returns when it is time for the next. Not for a future that its task may leave unpolled for long: when its time has
/// come, the others wait until it is polled.
pub async fn next_slice() {
    let line = LINE.with(Arc::clone);
    let place = line.acquire_owned().await.expect("the line is never closed");
    yield_now().await;
    // Elsewhere nobody would give it back.
    if IN_TURN.get() {
        HEAD.set(Some(place));
    }
}

/// A turn begins, at whose end comes `end_of_turn`.
pub(crate) fn begin_of_turn() {
    IN_TURN.set(true);
}

/// A turn has ended, and with it the slice that was done in it.
pub(crate) fn end_of_turn() {
    IN_TURN.set(false);
    HEAD.take();
}

/// See the module. Its user decides how much a unit of work is: some microseconds are a good measure.
pub struct Slices {
    work_max: usize,
    work: usize,
    is_in_line: bool,
}

impl Slices {
    /// Slices of so much work, of which there may be as many at once as clients like: they wait in the line.
    pub fn of(work_max: usize) -> Slices {
        Slices {
            work_max,
            work: work_max - work_max / FIRST,
            is_in_line: true,
        }
    }

    /// Slices of work that a node does for itself, one at a time: they only give way. Clients cannot keep it waiting.
    pub fn of_own(work_max: usize) -> Slices {
        Slices {
            work_max,
            work: 0,
            is_in_line: false,
        }
    }

    /// Counts work that is done, and ends the slice if it was enough.
    pub async fn did(&mut self, work: usize) {
        self.work += work;
        if self.work >= self.work_max {
            self.work = 0;
            match self.is_in_line {
                true => next_slice().await,
                false => yield_now().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    use tokio::task::LocalSet;

    use super::*;
    use crate::turns;

    #[test]
    fn a_slice_ends_when_its_work_is_done() {
        let mut slices = Slices::of(10);
        let mut work = pin!(async move {
            // The first slice ends with the first step.
            for _ in 0..26 {
                slices.did(3).await;
            }
        });
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = 1;
        while work.as_mut().poll(&mut context) == Poll::Pending {
            turns += 1;
        }
        // Four steps of three end a slice; the last step is the only one of its own.
        assert_eq!(turns, 8);
    }

    /// Runs tasks of a core on a thread of their own.
    fn run<F: Future<Output = ()> + 'static>(tasks: impl FnOnce() -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        LocalSet::new().block_on(&runtime, tasks());
    }

    /// A work of so many slices, each of which is told.
    async fn work(slices: usize, told: Rc<RefCell<Vec<char>>>) {
        let mut sliced = Slices::of(FIRST);
        for _ in 0..=slices * FIRST {
            told.borrow_mut().push('s');
            sliced.did(1).await;
        }
    }

    #[test]
    fn others_wait_for_two_slices_at_most_however_many_there_are() {
        const WORKS: usize = 50;
        run(|| async {
            let told = Rc::default();
            let works: Vec<_> = (0..WORKS)
                .map(|_| turns::spawn(work(4, Rc::clone(&told))))
                .collect();
            let other = turns::spawn({
                let told = Rc::clone(&told);
                async move {
                    for _ in 0..20 {
                        told.borrow_mut().push('o');
                        yield_now().await;
                    }
                }
            });
            other.await.expect("no panic");
            for work in works {
                work.await.expect("no panic");
            }
            let told: String = told.take().into_iter().collect();
            // All begin at once; then there are two slices at most between two turns of the other, for turns that were given way in
            // are taken up in any order.
            let (_, rest) = told.split_once('o').expect("it had its turns");
            let (waited, rest) = rest.rsplit_once('o').expect("it had its turns");
            let longest = waited.split('o').map(str::len).max();
            assert!(longest.is_some_and(|longest| longest <= 2 * FIRST), "{told}");
            assert!(rest.len() > WORKS, "long work was still there: {told}");
        });
    }

    #[test]
    fn a_work_that_is_given_up_or_waits_for_something_else_keeps_nobody_waiting() {
        run(|| async {
            let at_the_head = turns::spawn(async {
                next_slice().await;
                std::future::pending::<()>().await;
            });
            turns::spawn(next_slice()).await.expect("no panic");
            at_the_head.abort();
            let in_line: Vec<_> = (0..3).map(|_| turns::spawn(next_slice())).collect();
            yield_now().await;
            in_line.iter().for_each(|task| task.abort());
            turns::spawn(next_slice()).await.expect("no panic");
            // Outside of a turn.
            next_slice().await;
            turns::spawn(next_slice()).await.expect("no panic");
        });
    }
}
