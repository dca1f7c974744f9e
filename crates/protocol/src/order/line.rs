//! The line: the counter from which the shards of a node take positions, and how far all that was taken is durable.
//!
//! The one structure on the path of an append that several cores change: a cache line for each shard, and one for the counter. Three rules keep it
//! right, in any order of the threads' steps.
//! - A shard lowers its *floor*, the least position that it has taken and not made durable, before it moves the counter: a position that the counter has passed
//!   is never without a floor below it until it is durable.
//! - A reader reads the counter before the floors: positions that were taken later are above the one that it finds.
//! - The greatest position that was found is kept: a floor may be published late, and too low, when readers have been shown more already.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use planted::{Bug, planted};
use record::Position;

/// Stands where there is no position.
const NONE: u64 = u64::MAX;

/// A number that threads share. All of them see its changes, and those of others, in one order.
pub trait SharedNumber {
    /// A number.
    fn of(value: u64) -> Self;
    /// The number now.
    fn get(&self) -> u64;
    /// Puts another in its place.
    fn set(&self, value: u64);
    /// Adds to it; gives what it was.
    fn add(&self, count: u64) -> u64;
    /// Raises it to no less than this; gives what it was.
    fn raise(&self, value: u64) -> u64;
    /// Puts another in its place if it is this; says whether it was.
    fn replace(&self, current: u64, value: u64) -> bool;
}

macro_rules! shared_number {
    ($number:ty) => {
        impl SharedNumber for $number {
            fn of(value: u64) -> Self {
                Self::new(value)
            }

            fn get(&self) -> u64 {
                self.load(SeqCst)
            }

            fn set(&self, value: u64) {
                self.store(value, SeqCst);
            }

            fn add(&self, count: u64) -> u64 {
                self.fetch_add(count, SeqCst)
            }

            fn raise(&self, value: u64) -> u64 {
                self.fetch_max(value, SeqCst)
            }

            fn replace(&self, current: u64, value: u64) -> bool {
                self.compare_exchange(current, value, SeqCst, SeqCst)
                    .is_ok()
            }
        }
    };
}

shared_number!(AtomicU64);
#[cfg(test)]
shared_number!(shuttle::sync::atomic::AtomicU64);

/// The positions of one topic on one node.
#[derive(Debug)]
pub struct Line<Number = AtomicU64> {
    next: Apart<Number>,
    ordered: Apart<Number>,
    shards: Box<[Places<Number>]>,
}

/// A number in a cache line of its own; processors fetch two at a time.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<Number>(Number);

/// The places of one shard. It alone changes its floor.
#[derive(Debug)]
#[repr(align(128))]
struct Places<Number> {
    /// The least position that it has taken and not made durable.
    floor: Number,
    /// It is to hear when everything below this is ordered.
    waits: Number,
}

impl<Number: SharedNumber> Line<Number> {
    /// The line of so many shards, on which all below `first` is ordered. The number behind theirs is that of one that takes nothing, and waits only.
    #[must_use]
    pub fn new(first: Position, shards: usize) -> Line<Number> {
        let places = || Places {
            floor: Number::of(NONE),
            waits: Number::of(NONE),
        };
        Line {
            next: Apart(Number::of(first.0)),
            ordered: Apart(Number::of(first.0)),
            shards: (0..=shards).map(|_| places()).collect(),
        }
    }

    /// Takes positions for a shard's cut; gives the first of them. They hold up all others until [`Line::made_durable`]: take none for a batch
    /// that has no place in the journal.
    ///
    /// # Panics
    /// There is no such shard, or `count` is 0.
    pub fn take(&self, shard: usize, count: u64) -> Position {
        assert!(count > 0, "a cut has records");
        let floor = &self.shards[shard].floor;
        let has_none = floor.get() == NONE;
        if has_none && !planted(Bug::FloorAfterCounter) {
            floor.set(self.next.0.get());
        }
        let first = self.next.0.add(count);
        if has_none || planted(Bug::FloorOverwritten) {
            // The counter may have moved in between.
            floor.set(first);
        }
        Position(first)
    }

    /// Takes positions as [`Line::take`] does, if the next one is `tail` and all below is ordered; `None` if not. Others may have seen a lower end of what is
    /// ordered in between: look at [`Line::take_waiting`] afterwards.
    ///
    /// # Panics
    /// As [`Line::take`].
    pub fn take_if(&self, shard: usize, tail: Position, count: u64) -> Option<Position> {
        assert!(count > 0, "a cut has records");
        let floor = &self.shards[shard].floor;
        if !planted(Bug::TailNotOrdered) && (floor.get() != NONE || self.ordered() != tail) {
            return None;
        }
        floor.set(tail.0);
        if self.next.0.replace(tail.0, tail.0 + count) {
            return Some(tail);
        }
        floor.set(NONE);
        None
    }

    /// Takes note that a shard has made durable what it had taken below `floor`, or all of it.
    ///
    /// # Panics
    /// There is no such shard.
    pub fn made_durable(&self, shard: usize, floor: Option<Position>) {
        let floor = floor.map_or(NONE, |floor| floor.0);
        self.shards[shard].floor.set(floor);
    }

    /// The first position that is not ordered. It never falls.
    #[must_use]
    pub fn ordered(&self) -> Position {
        let floors = || {
            let floors = self.shards.iter().map(|places| places.floor.get());
            floors.min().unwrap_or(NONE)
        };
        let early = planted(Bug::FloorsReadFirst).then(floors);
        let next = self.next.0.get();
        let found = early.unwrap_or_else(floors).min(next);
        if planted(Bug::OrderedFalls) {
            return Position(found);
        }
        let before = self.ordered.0.raise(found);
        Position(found.max(before))
    }

    /// The number of the one that takes nothing.
    #[must_use]
    pub fn waiter(&self) -> usize {
        self.shards.len() - 1
    }

    /// Has a shard hear when everything below a position is ordered, or nothing more. Look at [`Line::ordered`] once more after it.
    ///
    /// # Panics
    /// There is no such shard.
    pub fn wait(&self, shard: usize, below: Option<Position>) {
        let below = below.map_or(NONE, |below| below.0);
        self.shards[shard].waits.set(below);
    }

    /// The shards that wait for no more than `ordered`. Each is given once: it waits for nothing afterwards.
    pub fn take_waiting(&self, ordered: Position) -> impl Iterator<Item = usize> + '_ {
        let shards = self.shards.iter().enumerate();
        shards.filter_map(move |(shard, places)| {
            let waits = places.waits.get();
            let is_taken = waits <= ordered.0 && places.waits.replace(waits, NONE);
            is_taken.then_some(shard)
        })
    }
}
