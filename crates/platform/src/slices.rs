//! Long work on a core in slices: whoever does it says how much is done, and after a while others of the core have their turn.
//!
//! Between two slices anything may happen that may happen while a task waits: what must be seen whole or not at all is one slice.
//!
//! **However many do long work, others wait for a slice or two.** All long works that clients have a thread do stand in one line, and between two slices
//! everything else that is ready has its turn, and what has arrived meanwhile is looked at. Nobody keeps the place at the head while waiting for
//! anything else, so nobody waits for ever.
//!
//! **However much one client wants, each other client waits for one slice of it at most.** The clients in the line take turns. Of each client the oldest work goes
//! first: the works end one after the other, and what they hold is free as soon as may be, instead of all of it when the last one ends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem;
use std::net::IpAddr;
use std::ops::Bound;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::sync::oneshot;
use tokio::task::yield_now;

/// The first slice is so much shorter, for it waits in no line: a short work needs no other.
const FIRST: usize = 8;

thread_local! {
    static LINE: RefCell<Line> = const { RefCell::new(Line::new()) };
    /// The place at the head of the line, while its slice is done.
    static HEAD: RefCell<Option<Place>> = const { RefCell::new(None) };
    /// Says that `end_of_turn` comes when the task that is polled gives way.
    static IN_TURN: Cell<bool> = const { Cell::new(false) };
    /// The origin of the future that is polled.
    static ORIGIN: Cell<Option<Origin>> = const { Cell::new(None) };
}

/// The request that work is done for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The address of the client.
    pub client: IpAddr,
    /// The time by the clock of the node at which it was there.
    pub since: Duration,
}

impl Origin {
    /// The request that the present turn works for; `None` where nobody said.
    pub fn current() -> Option<Origin> {
        ORIGIN.get()
    }
}

pin_project! {
    /// A future that works for a request.
    pub struct WorkFor<F> {
        #[pin]
        future: F,
        origin: Option<Origin>,
    }
}

/// Has a future work for a request, with all tasks that it begins.
pub fn work_for<F: Future>(origin: Option<Origin>, future: F) -> WorkFor<F> {
    WorkFor { future, origin }
}

impl<F: Future> Future for WorkFor<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let around = ORIGIN.replace(*this.origin);
        let polled = this.future.poll(context);
        ORIGIN.set(around);
        polled
    }
}

/// Works of one client, by age and then in the order of their asking. Each is told when it has the place.
type Works = BTreeMap<(Duration, u64), oneshot::Sender<Place>>;

/// The works that wait for their next slice, while one is at the head.
struct Line {
    head_is_taken: bool,
    /// The client whose work was at the head last.
    last: Option<IpAddr>,
    /// Works of which nobody said the client, as the node's own, count as one client's.
    waiting: BTreeMap<Option<IpAddr>, Works>,
    next_number: u64,
}

impl Line {
    const fn new() -> Line {
        Line {
            head_is_taken: false,
            last: None,
            waiting: BTreeMap::new(),
            next_number: 0,
        }
    }

    fn queue(&mut self, origin: Option<Origin>) -> oneshot::Receiver<Place> {
        let (told, tells) = oneshot::channel();
        let number = self.next_number;
        self.next_number += 1;
        let since = origin.map_or(Duration::ZERO, |origin| origin.since);
        let client = origin.map(|origin| origin.client);
        self.waiting
            .entry(client)
            .or_default()
            .insert((since, number), told);
        if !self.head_is_taken {
            self.pass_on();
        }
        tells
    }

    /// Gives the place at the head to the next one that still waits for it.
    fn pass_on(&mut self) {
        self.head_is_taken = false;
        while let Some((client, told)) = self.next() {
            match told.send(Place) {
                Ok(()) => {
                    self.head_is_taken = true;
                    self.last = client;
                    return;
                }
                // A work that was given up never had it.
                Err(place) => mem::forget(place),
            }
        }
    }

    /// The oldest work of the client behind the last one, in the circle of those that wait.
    fn next(&mut self) -> Option<(Option<IpAddr>, oneshot::Sender<Place>)> {
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let client = *self
            .waiting
            .range(behind)
            .next()
            .or(self.waiting.iter().next())?
            .0;
        let works = self.waiting.get_mut(&client).expect("it was found just now");
        let (_, told) = works
            .pop_first()
            .expect("a client without works is not in the line");
        if works.is_empty() {
            self.waiting.remove(&client);
        }
        Some((client, told))
    }
}

/// The place at the head of the line, until dropped.
struct Place;

impl Drop for Place {
    fn drop(&mut self) {
        // At the end of a thread there may be no line any more.
        let _ = LINE.try_with(|line| line.borrow_mut().pass_on());
    }
}

/// Ends a slice, and returns when it is time for the next. Not for a future that its task may leave unpolled for long: when its time has
/// come, the others wait until it is polled.
pub async fn next_slice() {
    let reached = LINE.with_borrow_mut(|line| line.queue(ORIGIN.get()));
    let place = reached.await.expect("a place comes to whoever waits for it");
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
    drop(HEAD.take());
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

    /// A request of a client that has been there since that second.
    fn of(client: u8, since: u64) -> Option<Origin> {
        Some(Origin {
            client: IpAddr::from([127, 0, 0, client]),
            since: Duration::from_secs(since),
        })
    }

    #[test]
    fn clients_take_turns_and_of_each_the_oldest_work_goes_first() {
        run(|| async {
            let told = Rc::new(RefCell::new(Vec::new()));
            let works = [(of(1, 5), 'c'), (of(1, 3), 'a'), (of(1, 4), 'b'), (of(2, 9), 'z')];
            let begun = works.map(|(origin, name)| {
                let told = Rc::clone(&told);
                let slices = async move {
                    // Tasks that it begins work for the same request.
                    let rest = turns::spawn(async move {
                        for _ in 0..2 {
                            next_slice().await;
                            told.borrow_mut().push(name);
                        }
                    });
                    rest.await.expect("no panic");
                };
                turns::spawn(work_for(origin, slices))
            });
            for work in begun {
                work.await.expect("no panic");
            }
            let told: String = told.take().into_iter().collect();
            // The first one had the place before any other waited.
            assert_eq!(told, "czazabbc");
        });
    }

    #[test]
    fn tasks_work_for_the_request_of_the_turn_that_begins_them_but_for_the_nodes_own() {
        run(|| async {
            let begun = work_for(of(1, 2), async {
                let theirs = turns::spawn(async { Origin::current() });
                let own = turns::spawn_own(async { Origin::current() });
                (theirs.await.expect("no panic"), own.await.expect("no panic"))
            });
            assert_eq!(begun.await, (of(1, 2), None));
            assert_eq!(Origin::current(), None);
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
