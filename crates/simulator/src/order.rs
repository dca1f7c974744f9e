//! The order of a topic as the node tells it: one list of positions, of which nothing ever changes.
//!
//! It is asked again and again while faults go on, after each start from the first position on. An offset has one position, which rises with the offsets of
//! its partition; positions have no holes; and what was acknowledged before another append began has the lower one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::order::Place;
use tokio::time::Instant;

/// Positions that are asked for at a time.
pub(crate) const ASKED: u64 = 2_000;

/// An append that was acknowledged when all held it.
#[derive(Debug, Clone, Copy)]
struct Ended {
    began: Instant,
    ended: Instant,
    partition: i32,
    first: i64,
}

/// See the module. Clones are the same book.
#[derive(Clone, Default)]
pub(crate) struct OrderBook(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    /// Of each position its partition and offset.
    known: Vec<(i32, i64)>,
    /// The next offset of each partition.
    next: BTreeMap<i32, i64>,
    /// Positions that the node has told since its start.
    told: u64,
    ended: Vec<Ended>,
    violation: Option<String>,
}

impl OrderBook {
    fn book<T>(&self, look: impl FnOnce(&mut Book) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A node starts: it is to tell everything again.
    pub(crate) fn begin(&self) {
        self.book(|book| book.told = 0);
    }

    /// The position that is to be told next.
    pub(crate) fn wanted(&self) -> u64 {
        self.book(|book| book.told)
    }

    /// Takes note of what the node told.
    pub(crate) fn take(&self, places: &[Place]) {
        self.book(|book| places.iter().for_each(|place| book.take(place)));
    }

    /// Takes note of an append that was acknowledged.
    pub(crate) fn acknowledge(&self, began: Instant, partition: i32, first: i64) {
        let ended = Instant::now();
        self.book(|book| {
            book.ended.push(Ended {
                began,
                ended,
                partition,
                first,
            });
        });
    }

    /// A contradiction to the order, if there was one.
    pub(crate) fn violation(&self) -> Option<String> {
        self.book(|book| book.violation.take())
    }

    /// Holds all that was acknowledged against the positions that it has.
    pub(crate) fn check_complete(&self) -> Option<String> {
        self.book(|book| book.check_complete())
    }
}

impl Book {
    fn take(&mut self, place: &Place) {
        if place.position.0 > self.known.len() as u64 {
            let told = format!(
                "position {} is told, and {} is missing",
                place.position.0,
                self.known.len()
            );
            self.violation.get_or_insert(told);
            return;
        }
        for (position, offset) in (place.position.0..).zip(place.first.0..place.next.0) {
            let told = (place.partition, offset);
            match self.known.get(position as usize) {
                Some(known) if *known == told => {}
                Some(known) => {
                    let told = format!("position {position} was {known:?} and is {told:?}");
                    self.violation.get_or_insert(told);
                }
                None => {
                    self.known.push(told);
                    let next = self.next.entry(place.partition).or_default();
                    if *next != offset {
                        let told = format!("position {position} is {told:?}, where offset {next} is next");
                        self.violation.get_or_insert(told);
                    }
                    *next = offset + 1;
                }
            }
        }
        self.told = self.told.max(place.end().0);
    }

    fn check_complete(&mut self) -> Option<String> {
        let positions: BTreeMap<(i32, i64), u64> = (0..)
            .zip(&self.known)
            .map(|(position, known)| (*known, position))
            .collect();
        let mut ended = std::mem::take(&mut self.ended);
        ended.sort_by_key(|ended| ended.ended);
        let mut placed = Vec::with_capacity(ended.len());
        for append in &ended {
            match positions.get(&(append.partition, append.first)) {
                Some(position) => placed.push(*position),
                None => return Some(format!("{append:?} was acknowledged, and has no position")),
            }
        }
        // The greatest position of those that had ended by each.
        let greatest: Vec<u64> = placed
            .iter()
            .scan(0, |greatest, position| {
                *greatest = (*greatest).max(*position);
                Some(*greatest)
            })
            .collect();
        for (append, position) in ended.iter().zip(&placed) {
            let before = ended.partition_point(|other| other.ended < append.began);
            if before > 0 && greatest[before - 1] > *position {
                return Some(format!(
                    "{append:?} has position {position}, and one that had ended before it began has {}",
                    greatest[before - 1]
                ));
            }
        }
        None
    }
}
