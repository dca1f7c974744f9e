//! The log model: records of what clients saw, and what must be true of it.
//!
//! A value is sent once, or again by an idempotent producer with its first sequence. So every value has one place at most, whoever saw
//! it; what was acknowledged has its place for ever, unless it was trimmed; readers see committed records only, so what one has seen all
//! see; and the tail that anyone was told never moves back. A contradiction is a violation: the first one ends the run.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::trace::Trace;

/// A value of the simulation: its producer's number, and how many that one had made before.
pub(crate) type Value = u64;

/// The bits of a value that count.
const COUNT_BITS: u32 = 40;

/// Names a partition of the simulation's topics.
pub(crate) type Place = (usize, i32);

/// Clones are the same history.
#[derive(Clone)]
pub(crate) struct History(Rc<Inner>);

struct Inner {
    partitions: RefCell<BTreeMap<Place, Log>>,
    committed: RefCell<BTreeMap<(usize, Place), Commits>>,
    /// Of the group with members: its latest generation, and who was dealt which partition in which.
    generation: Cell<i32>,
    owners: RefCell<BTreeMap<(i32, i32), String>>,
    next_producer: Cell<Value>,
    violation: RefCell<Option<String>>,
    acknowledged: Cell<u64>,
    trace: Trace,
}

#[derive(Default)]
struct Log {
    /// Values seen at each offset, by an acknowledgement or by a reader.
    values: BTreeMap<i64, Value>,
    offsets: BTreeMap<Value, i64>,
    acknowledged: BTreeSet<Value>,
    /// The highest tail that anyone was told.
    tail: i64,
    /// The highest start that a trim was acknowledged with, and the highest that was asked for.
    start: i64,
    start_asked: i64,
}

/// Offsets of a group for a partition. Each that is sent is higher than those before.
#[derive(Default)]
struct Commits {
    sent: i64,
    /// The highest.
    acknowledged: Option<i64>,
    /// Sent, with an outcome that is not known.
    possible: BTreeSet<i64>,
}

impl History {
    /// An empty history.
    pub(crate) fn new(trace: Trace) -> History {
        History(Rc::new(Inner {
            partitions: RefCell::default(),
            committed: RefCell::default(),
            generation: Cell::new(-1),
            owners: RefCell::default(),
            next_producer: Cell::new(1),
            violation: RefCell::default(),
            acknowledged: Cell::new(0),
            trace,
        }))
    }

    /// The first of the values of one more producer, that others follow one by one: it sends them in their order, and nobody else
    /// does.
    pub(crate) fn first_value(&self) -> Value {
        let producer = self.0.next_producer.get();
        self.0.next_producer.set(producer + 1);
        producer << COUNT_BITS
    }

    /// How many batches were acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.0.acknowledged.get()
    }

    /// The first violation, if there was one.
    pub(crate) fn violation(&self) -> Option<String> {
        self.0.violation.borrow().clone()
    }

    /// Takes note of a violation.
    pub(crate) fn violate(&self, what: String) {
        self.0.trace.note(format_args!("VIOLATION: {what}"));
        self.0.violation.borrow_mut().get_or_insert(what);
    }

    fn log<T>(&self, place: Place, look: impl FnOnce(&mut Log) -> T) -> T {
        look(self.0.partitions.borrow_mut().entry(place).or_default())
    }

    fn see(&self, place: Place, offset: i64, value: Value, by: &str) {
        let contradiction = self.log(place, |log| {
            let before = *log.values.entry(offset).or_insert(value);
            let elsewhere = *log.offsets.entry(value).or_insert(offset);
            (before != value || elsewhere != offset).then_some((before, elsewhere))
        });
        if let Some((before, elsewhere)) = contradiction {
            self.violate(format!(
                "{by}: {place:?} has value {value} at offset {offset}; value {before} was seen there, and value {value} at {elsewhere}"
            ));
        }
    }

    /// A batch was acknowledged with this first offset. A single node acknowledges what is committed.
    pub(crate) fn acknowledge(&self, place: Place, first: i64, values: &[Value]) {
        self.acknowledge_unshown(place, first, values);
        let next = first + values.len() as i64;
        self.log(place, |log| log.tail = log.tail.max(next));
    }

    /// The same before readers need see it.
    pub(crate) fn acknowledge_unshown(&self, place: Place, first: i64, values: &[Value]) {
        self.0.acknowledged.set(self.0.acknowledged.get() + 1);
        for (offset, value) in (first..).zip(values) {
            self.see(place, offset, *value, "an acknowledgement");
            self.log(place, |log| log.acknowledged.insert(*value));
        }
    }

    /// A reader saw a record.
    pub(crate) fn read(&self, place: Place, offset: i64, value: Value) {
        self.see(place, offset, value, "a reader");
    }

    /// The tail that a question sent from now on must be answered with at least.
    pub(crate) fn tail(&self, place: Place) -> i64 {
        self.log(place, |log| log.tail)
    }

    /// A tail was told in answer to a question that was sent when the tail was `floor` at least.
    pub(crate) fn hear_tail(&self, place: Place, floor: i64, tail: i64) {
        if tail < floor {
            self.violate(format!("the tail of {place:?} moved back from {floor} to {tail}"));
        }
        self.log(place, |log| log.tail = log.tail.max(tail));
    }

    /// The start of a log that a question sent from now on must be answered with at least.
    pub(crate) fn start(&self, place: Place) -> i64 {
        self.log(place, |log| log.start)
    }

    /// Somebody asks for everything before this to be given up.
    pub(crate) fn ask_trim(&self, place: Place, before: i64) {
        self.log(place, |log| log.start_asked = log.start_asked.max(before));
    }

    /// A trim was acknowledged. Before that its start may be seen, and be gone after a crash.
    pub(crate) fn acknowledge_trim(&self, place: Place, start: i64) {
        self.log(place, |log| log.start = log.start.max(start));
    }

    /// A start was told in answer to a question that was sent when it was `floor` at least.
    pub(crate) fn hear_start(&self, place: Place, floor: i64, start: i64) {
        let asked = self.log(place, |log| log.start_asked);
        if start < floor {
            self.violate(format!(
                "the start of {place:?} moved back from {floor} to {start}"
            ));
        }
        if start > asked {
            self.violate(format!(
                "{place:?} starts at {start}; nobody asked for more than {asked} to be given up"
            ));
        }
    }

    fn commits<T>(&self, group: usize, place: Place, look: impl FnOnce(&mut Commits) -> T) -> T {
        look(self.0.committed.borrow_mut().entry((group, place)).or_default())
    }

    /// The offset that a group is about to commit.
    pub(crate) fn try_commit(&self, group: usize, place: Place) -> i64 {
        self.commits(group, place, |commits| {
            commits.sent += 1;
            commits.possible.insert(commits.sent);
            commits.sent
        })
    }

    /// A commit was acknowledged.
    pub(crate) fn commit(&self, group: usize, place: Place, offset: i64) {
        self.commits(group, place, |commits| {
            commits.acknowledged = commits.acknowledged.max(Some(offset));
            commits.possible.remove(&offset);
        });
    }

    /// The offset that a question sent from now on must be answered with at least, if it is none whose outcome is not known.
    pub(crate) fn committed(&self, group: usize, place: Place) -> Option<i64> {
        self.commits(group, place, |commits| commits.acknowledged)
    }

    /// A group's offset was told in answer to a question that was sent when `floor` was acknowledged; -1 is none. It is that one, one
    /// that was acknowledged since, or one of those whose outcome is not known: a request that a cut holds back may come after later
    /// ones.
    pub(crate) fn hear_committed(&self, group: usize, place: Place, floor: Option<i64>, offset: i64) {
        let (acknowledged, is_possible) = self.commits(group, place, |commits| {
            (commits.acknowledged, commits.possible.contains(&offset))
        });
        let known = floor.unwrap_or(-1)..=acknowledged.unwrap_or(-1);
        if !known.contains(&offset) && !is_possible {
            self.violate(format!(
                "group {group} has offset {offset} of {place:?}; {floor:?} was acknowledged"
            ));
        }
    }

    /// A member was dealt partitions in a generation, which is durable.
    pub(crate) fn deal(&self, generation: i32, member: &str, dealt: &[i32]) {
        self.0.generation.set(self.0.generation.get().max(generation));
        for index in dealt {
            let mut owners = self.0.owners.borrow_mut();
            let owner = owners
                .entry((generation, *index))
                .or_insert_with(|| member.to_owned());
            if owner != member {
                let told = format!(
                    "in generation {generation} partition {index} was dealt to {owner} and to {member}"
                );
                drop(owners);
                self.violate(told);
            }
        }
    }

    /// The latest generation of the group that has members: whoever is of an earlier one does not commit any more.
    pub(crate) fn generation(&self) -> i32 {
        self.0.generation.get()
    }

    /// At the end, when the whole log was read: everything acknowledged must have been there, and each producer's values in their
    /// order.
    pub(crate) fn check_complete(&self, place: Place, read: &BTreeMap<i64, Value>, start: i64) {
        self.check_order(place, read);
        let missing = self.log(place, |log| {
            let at = |value: &Value| log.offsets.get(value).copied();
            let kept = log
                .acknowledged
                .iter()
                .filter_map(|value| Some((*value, at(value)?)));
            kept.filter(|(value, offset)| *offset >= start && read.get(offset) != Some(value))
                .collect::<Vec<_>>()
        });
        if let Some((value, offset)) = missing.first() {
            let count = missing.len();
            self.violate(format!(
                "{count} acknowledged values are missing from {place:?}: first value {value} at offset {offset}"
            ));
        }
    }

    /// When the whole log was read: these values must have been there.
    pub(crate) fn check_there(&self, place: Place, first: i64, values: &[Value]) {
        for (offset, value) in (first..).zip(values) {
            let found = self.log(place, |log| match offset < log.start_asked {
                // It may have been given up before anybody read it.
                true => Some(*log.values.get(&offset).unwrap_or(value)),
                false => log.values.get(&offset).copied(),
            });
            if found != Some(*value) {
                self.violate(format!(
                    "{place:?} has {found:?} at offset {offset}, where value {value} was acknowledged"
                ));
            }
        }
    }

    fn check_order(&self, place: Place, read: &BTreeMap<i64, Value>) {
        let mut latest = BTreeMap::new();
        for (offset, value) in read {
            let before = latest.insert(value >> COUNT_BITS, *value);
            if let Some(before) = before.filter(|before| before > value) {
                self.violate(format!(
                    "{place:?} has value {value} at offset {offset}, behind value {before} that its producer sent later"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (0, 1);

    /// What is violated by a story; it must be nothing before its last step.
    fn violated(before: impl FnOnce(&History), step: impl FnOnce(&History)) -> String {
        let history = History::new(Trace::new(false));
        before(&history);
        assert_eq!(history.violation(), None);
        step(&history);
        history.violation().expect("it is no history of a log")
    }

    #[test]
    fn an_acknowledged_value_that_is_missing_at_the_end_is_found() {
        let told = violated(
            |history| history.acknowledge(PLACE, 5, &[7, 8]),
            |history| history.check_complete(PLACE, &BTreeMap::from([(5, 7)]), 0),
        );
        assert!(told.contains("value 8 at offset 6"), "{told}");
        let history = History::new(Trace::new(false));
        history.acknowledge(PLACE, 5, &[7, 8]);
        history.check_complete(PLACE, &BTreeMap::from([(6, 8)]), 6);
        assert_eq!(history.violation(), None, "what was trimmed need not be there");
    }

    #[test]
    fn two_places_of_a_value_and_two_values_of_a_place_are_found() {
        violated(
            |history| history.acknowledge(PLACE, 5, &[7]),
            |history| history.read(PLACE, 9, 7),
        );
        violated(
            |history| history.read(PLACE, 5, 7),
            |history| history.acknowledge(PLACE, 5, &[8]),
        );
    }

    #[test]
    fn values_of_a_producer_out_of_order_are_found() {
        let read = BTreeMap::from([(0, 7), (1, 1 << COUNT_BITS), (2, 6)]);
        violated(|_| {}, |history| history.check_complete(PLACE, &read, 0));
    }

    #[test]
    fn tails_and_starts_that_move_back_are_found() {
        violated(
            |history| history.acknowledge(PLACE, 5, &[7]),
            |history| history.hear_tail(PLACE, history.tail(PLACE), 5),
        );
        violated(
            |history| {
                history.ask_trim(PLACE, 3);
                history.acknowledge_trim(PLACE, 3);
            },
            |history| history.hear_start(PLACE, history.start(PLACE), 2),
        );
        violated(
            |history| history.ask_trim(PLACE, 3),
            |history| history.hear_start(PLACE, 0, 4),
        );
    }

    #[test]
    fn a_commit_that_is_gone_is_found() {
        let committed = |history: &History| {
            for _ in 1..=3 {
                history.try_commit(0, PLACE);
            }
            history.commit(0, PLACE, 3);
        };
        let told = |history: &History, offset| {
            history.hear_committed(0, PLACE, history.committed(0, PLACE), offset);
        };
        violated(committed, |history| told(history, -1));
        violated(committed, |history| told(history, 4));
        let history = History::new(Trace::new(false));
        committed(&history);
        // A request that was held back may come late.
        told(&history, 2);
        assert_eq!(history.violation(), None);
    }

    #[test]
    fn a_partition_that_two_members_have_is_found() {
        violated(
            |history| {
                history.deal(4, "one", &[0, 1]);
                history.deal(5, "two", &[0]);
            },
            |history| history.deal(5, "one", &[0]),
        );
    }
}
