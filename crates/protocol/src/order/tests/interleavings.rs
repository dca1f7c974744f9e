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
}

impl Truth {
    fn new() -> Arc<Truth> {
        Arc::new(Truth {
            line: Line::new(Position(0), 2),
            durable: std::array::from_fn(|_| AtomicBool::new(false)),
            told: AtomicU64::new(0),
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
}

use Deed::{Flush, Look, Take};

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
        let takes = deeds.into_iter().flatten().filter(|deed| matches!(deed, Take));
        let all = Position(takes.count() as u64);
        assert_eq!(truth.line.ordered(), all, "it is never stuck");
    }
}

fn act(truth: &Truth, shard: usize, deeds: &[Deed]) {
    let mut taken = Vec::new();
    for deed in deeds {
        match deed {
            Take => taken.push(truth.line.take(shard, 1)),
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
}

/// Two shards have a cut each, and the second one waits for the first.
fn wait_and_wake() {
    shuttle::check_dfs(
        || {
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
                let ordered = first.show(|_, _| {});
                first.line().take_waiting(ordered).any(|shard| shard == 1)
            });
            second.handle_durable(Offset(1));
            let mut is_shown = false;
            second.show(|_, _| is_shown = true);
            let is_woken = other.join().expect("it does not panic");
            assert!(is_shown || is_woken, "it waits for ever");
        },
        None,
    );
}

#[test]
fn a_shard_that_waits_is_woken_or_sees_that_it_need_not_wait() {
    wait_and_wake();
    let found = std::panic::catch_unwind(|| with(Bug::NoSecondLook, wait_and_wake));
    assert!(found.is_err());
}
