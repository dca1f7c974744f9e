//! The order of a topic as the node tells it: one list of positions, of which nothing ever changes.
//!
//! It is asked again and again while faults go on, after each start from the first position on. An offset has one position, which rises with the offsets of
//! its partition; positions have no holes; and what was acknowledged before another append began has the lower one. Appends to the twin are answered with their
//! positions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use protocol::order::Place;
use tokio::time::Instant;

use crate::history::Value;

/// Positions that are asked for at a time.
pub(crate) const ASKED: u64 = 2_000;

/// An append that was acknowledged when all held it.
#[derive(Debug, Clone, Copy)]
struct Ended {
    began: Instant,
    ended: Instant,
    first: First,
}

/// The place of a batch's first record, as it was told.
#[derive(Debug, Clone, Copy)]
enum First {
    Offset { partition: i32, offset: i64 },
    Position(u64),
}

/// Values that were appended to the twin, and where they stand.
pub(crate) struct OfTwin {
    /// Offsets of one partition, one after the other.
    pub(crate) first_offset: i64,
    pub(crate) partition: i32,
    pub(crate) values: Vec<Value>,
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
    /// Values that were appended to the twin, with the position that was told.
    of_twin: Vec<(u64, Vec<Value>)>,
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
        let first = First::Offset {
            partition,
            offset: first,
        };
        self.book(|book| book.end(began, first));
    }

    /// Takes note of values that were appended to the twin, and of the position that was told.
    pub(crate) fn acknowledge_of_twin(&self, began: Instant, position: i64, values: &[Value]) {
        let position = position as u64;
        self.book(|book| {
            book.end(began, First::Position(position));
            book.of_twin.push((position, values.to_vec()));
        });
    }

    /// All that was appended to the twin and acknowledged, once all positions are told.
    ///
    /// # Errors
    /// Some of it has no position, or offsets that do not follow each other.
    pub(crate) fn of_twin(&self) -> Result<Vec<OfTwin>, String> {
        self.book(|book| {
            let all = std::mem::take(&mut book.of_twin).into_iter();
            all.map(|(position, values)| book.find(position, values))
                .collect()
        })
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
    fn end(&mut self, began: Instant, first: First) {
        let ended = Instant::now();
        self.ended.push(Ended { began, ended, first });
    }

    fn find(&self, position: u64, values: Vec<Value>) -> Result<OfTwin, String> {
        let places = self
            .known
            .get(position as usize..position as usize + values.len());
        let told = || format!("position {position} was told of {} records", values.len());
        let places = places.ok_or_else(|| format!("{}, and they are not there", told()))?;
        let (partition, first_offset) = places[0];
        let follow = (first_offset..).map(|offset| (partition, offset));
        match places.iter().copied().eq(follow.take(places.len())) {
            true => Ok(OfTwin {
                first_offset,
                partition,
                values,
            }),
            false => Err(format!("{}, which are {places:?}", told())),
        }
    }

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
            let position = match append.first {
                First::Offset { partition, offset } => positions.get(&(partition, offset)).copied(),
                First::Position(position) => Some(position),
            };
            match position {
                Some(position) => placed.push(position),
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
