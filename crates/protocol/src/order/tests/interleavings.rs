//! The line under all interleavings of a few threads, as far as they all see one order of its changes: which the line asks the processor for.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

use planted::{Bug, with};
use record::{Offset, Position};
use shuttle::sync::atomic::AtomicU64 as Explored;
use shuttle::thread;

use super::super::*;

const POSITIONS: usize = 4;

/// A line, and what is durable in truth. Nothing is scheduled by a look at the latter.
struct Truth {
    line: Line<Explored>,
    durable: [AtomicBool; POSITIONS],
    told: AtomicU64,
    taken: AtomicU64,
}

impl Truth {
    fn new() -> Arc<Truth> {
        Arc::new(Truth {
            line: Line::new(Position(0), 2),
            durable: std::array::from_fn(|_| AtomicBool::new(false)),
            told: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        })
    }

    fn flush(&self, shard: usize, position: Position, left: Option<Position>) {
        self.durable[usize::try_from(position.0).expect("few")].store(true, SeqCst);
        self.line.made_durable(shard, left);
    }

    fn look(&self) {
        let told = self.told.load(SeqCst);
        let ordered = self.line.ordered();
        assert!(ordered.0 >= told, "what is ordered falls");
        self.told.fetch_max(ordered.0, SeqCst);
        let below = usize::try_from(ordered.0).expect("few");
        let is_durable = |durable: &AtomicBool| durable.load(SeqCst);
        assert!(
            self.durable[..below].iter().all(is_durable),
            "it is shown before it is durable"
        );
    }
}

/// A step of a shard.
#[derive(Clone, Copy)]
enum Deed {
    Take,
    /// Makes the first durable of what it has taken.
    Flush,
    Look,
    /// Takes the position behind all that is ordered, if that is the next one.
    TakeAtTail,
}

use Deed::{Flush, Look, Take, TakeAtTail};

/// Two shards, and one thread that looks, as often as it is told.
fn world(deeds: [&'static [Deed]; 2], looks: usize) -> impl Fn() + Send + Sync + 'static {
    move || {
        let truth = Truth::new();
        let shards = (0..2).map(|shard| {
            let truth = truth.clone();
            thread::spawn(move || act(&truth, shard, deeds[shard]))
        });
        let shards: Vec<_> = shards.collect();
        (0..looks).for_each(|_| truth.look());
        shards
            .into_iter()
            .for_each(|shard| shard.join().expect("it does not panic"));
        let taken = truth.taken.load(SeqCst);
        assert_eq!(truth.line.ordered(), Position(taken), "it is never stuck");
    }
}

fn act(truth: &Truth, shard: usize, deeds: &[Deed]) {
    let mut taken = Vec::new();
    for deed in deeds {
        match deed {
            Take => {
                taken.push(truth.line.take(shard, 1));
                truth.taken.fetch_add(1, SeqCst);
            }
            TakeAtTail => {
                let tail = truth.line.ordered();
                if let Some(first) = truth.line.take_if(shard, tail, 1) {
                    assert_eq!(first, tail, "it is the position that was asked for");
                    taken.push(first);
                    truth.taken.fetch_add(1, SeqCst);
                }
            }
            Flush if taken.is_empty() => {}
            Flush => {
                // It takes its time.
                thread::yield_now();
                let first = taken.remove(0);
                truth.flush(shard, first, taken.first().copied());
            }
            Look => truth.look(),
        }
    }
}

/// Small worlds in all interleavings, and a larger one in some.
fn explore_all() {
    shuttle::check_dfs(world([&[Take, Flush], &[]], 1), None);
    shuttle::check_dfs(world([&[Take, Take, Flush, Flush], &[]], 1), None);
    shuttle::check_random(world([&[Take, Flush], &[Take, Flush, Look, Look]], 1), 3_000);
    shuttle::check_random(world([&[TakeAtTail, Flush], &[Take, Flush]], 1), 1_000);
    shuttle::check_random(
        world([&[Take, Flush, TakeAtTail, Flush], &[TakeAtTail, Flush, Look]], 1),
        3_000,
    );
}

#[test]
fn nothing_is_shown_before_it_is_durable_and_nothing_for_ever_unseen() {
    explore_all();
    for bug in [
        Bug::FloorAfterCounter,
        Bug::FloorsReadFirst,
        Bug::FloorOverwritten,
        Bug::OrderedFalls,
    ] {
        let found = std::panic::catch_unwind(|| with(bug, explore_all)).is_err();
        assert!(found, "{bug:?}");
    }
}

#[test]
#[ignore = "explores hundreds of thousands of interleavings; make soak"]
fn many_interleavings_of_two_shards_and_a_reader_keep_the_order() {
    shuttle::check_dfs(world([&[Take, Flush], &[Take, Flush, Look]], 0), None);
    shuttle::check_random(
        world([&[Take, Take, Flush, Flush], &[Take, Flush, Look, Look]], 2),
        200_000,
    );
    shuttle::check_dfs(wait_and_wake, None);
}

/// Two shards have a cut each, and the second one waits for the first.
fn wait_and_wake() {
    let line: Arc<Line<Explored>> = Arc::new(Line::new(Position(0), 2));
    let cutters = [0, 1].map(|shard| {
        let mut cutter = Cutter::new(line.clone(), shard, Generation(1));
        cutter.note(0, Offset(0)..Offset(1));
        cutter.cut(Offset(0)).expect("something was staged");
        cutter
    });
    let [mut first, mut second] = cutters;
    let other = thread::spawn(move || {
        first.handle_durable(Offset(1));
        let ordered = first.show(|_, _, _| {});
        first.line().take_waiting(ordered).any(|shard| shard == 1)
    });
    second.handle_durable(Offset(1));
    let mut is_shown = false;
    second.show(|_, _, _| is_shown = true);
    let is_woken = other.join().expect("it does not panic");
    assert!(is_shown || is_woken, "it waits for ever");
}

/// One shard has a cut; the other one wants to be first with its own, and is told of the refusal in time or not.
fn be_refused(looks_after: bool) {
    shuttle::check_random(
        move || {
            let line: Arc<Line<Explored>> = Arc::new(Line::new(Position(0), 2));
            let [mut first, mut second] = [0, 1].map(|shard| Cutter::new(line.clone(), shard, Generation(1)));
            let other = thread::spawn(move || {
                let cut = second.cut_with(Offset(0), (1, Offset(0)..Offset(1)), Some(Position(0)));
                if cut.is_some() {
                    second.handle_durable(Offset(1));
                }
                if cut.is_none() && !looks_after {
                    return false;
                }
                let ordered = second.show(|_, _, _| {});
                second.line().take_waiting(ordered).any(|shard| shard == 0)
            });
            first.note(0, Offset(0)..Offset(1));
            first.cut(Offset(0)).expect("something was staged");
            first.handle_durable(Offset(1));
            let mut is_shown = false;
            first.show(|_, _, _| is_shown = true);
            let is_woken = other.join().expect("it does not panic");
            assert!(is_shown || is_woken, "it waits for ever");
        },
        2_000,
    );
}

#[test]
fn who_is_refused_leaves_nobody_waiting() {
    be_refused(true);
    let found = std::panic::catch_unwind(|| be_refused(false));
    assert!(found.is_err(), "it has to look");
}

#[test]
fn a_shard_that_waits_is_woken_or_sees_that_it_need_not_wait() {
    let explore = || shuttle::check_random(wait_and_wake, 10_000);
    explore();
    let found = std::panic::catch_unwind(|| with(Bug::NoSecondLook, explore));
    assert!(found.is_err());
}
