//! The model of transactions: what clients were told of each, what readers of committed records saw, and what must be true of both.
//!
//! A value is part of one transaction. Readers see it only if its client has asked for a commit; they see every value of a transaction whose commit was
//! told, and of one whose outcome its client does not know all or none. All that a reader has passed stays as it was seen.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A value: the number of its transaction, and how many that one had before.
pub(super) type Value = u64;

/// The bits of a value that count.
const COUNT_BITS: u32 = 16;

/// A transaction, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nobody has asked for its commit.
    Open,
    /// Its commit was asked for, and its outcome is not known.
    Asked,
    /// Its client was told that it is committed.
    Committed,
    /// Its client was told that it is not, or will never ask.
    Aborted,
}

struct Transaction {
    fate: Fate,
    /// Each with its partition.
    values: BTreeMap<Value, i32>,
}

/// One partition of the topic.
#[derive(Default)]
struct Log {
    /// Where values were acknowledged.
    acknowledged: BTreeMap<i64, Value>,
    /// The places that readers have passed: the value at each offset, `None` where nothing counts.
    passed: BTreeMap<i64, Option<Value>>,
    places: BTreeMap<Value, i64>,
    /// The greatest end of what is stable that each node has told.
    stable: BTreeMap<usize, i64>,
}

struct Inner {
    transactions: BTreeMap<u64, Transaction>,
    logs: BTreeMap<i32, Log>,
    /// Is told each contradiction.
    violate: Box<dyn Fn(String)>,
}

/// Clones are the same ledger.
#[derive(Clone)]
pub(super) struct Ledger(Rc<RefCell<Inner>>);

impl Ledger {
    /// An empty ledger that tells each contradiction.
    pub(super) fn new(violate: impl Fn(String) + 'static) -> Ledger {
        Ledger(Rc::new(RefCell::new(Inner {
            transactions: BTreeMap::new(),
            logs: BTreeMap::new(),
            violate: Box::new(violate),
        })))
    }

    /// Tells a contradiction that somebody else has found.
    pub(super) fn violate(&self, what: String) {
        self.0.borrow().violate(what);
    }

    /// Begins a transaction; returns its number.
    pub(super) fn begin(&self) -> u64 {
        let mut inner = self.0.borrow_mut();
        let number = inner.transactions.len() as u64 + 1;
        let begun = Transaction {
            fate: Fate::Open,
            values: BTreeMap::new(),
        };
        inner.transactions.insert(number, begun);
        number
    }

    /// One more value of a transaction, which goes to a partition.
    pub(super) fn next_value(&self, number: u64, partition: i32) -> Value {
        let mut inner = self.0.borrow_mut();
        let transaction = inner.transactions.get_mut(&number).expect("it was begun");
        let value = (number << COUNT_BITS) + transaction.values.len() as u64;
        transaction.values.insert(value, partition);
        value
    }

    /// A value of the partition that readers have seen; to be superseded by what is aborted.
    pub(super) fn seen_value(&self, partition: i32) -> Option<Value> {
        let mut inner = self.0.borrow_mut();
        let log = inner.logs.entry(partition).or_default();
        log.places.last_key_value().map(|(value, _)| *value)
    }

    /// A batch was acknowledged with this first offset.
    pub(super) fn acknowledge(&self, partition: i32, first: i64, values: &[Value]) {
        let mut inner = self.0.borrow_mut();
        let log = inner.logs.entry(partition).or_default();
        for (offset, value) in (first..).zip(values) {
            let before = *log.acknowledged.entry(offset).or_insert(*value);
            let seen = log.passed.get(&offset).copied().flatten().unwrap_or(*value);
            if before != *value || seen != *value {
                inner.violate(format!(
                    "partition {partition} acknowledges {} at offset {offset}, where {} was acknowledged and {} was seen",
                    name(*value), name(before), name(seen)
                ));
                return;
            }
        }
    }

    /// Something is known of a transaction. The outcome of one is told once.
    pub(super) fn settle(&self, number: u64, fate: Fate) {
        let mut inner = self.0.borrow_mut();
        let transaction = inner.transactions.get_mut(&number).expect("it was begun");
        transaction.fate = fate;
        let values = transaction.values.clone();
        for (value, partition) in values {
            let log = inner.logs.entry(partition).or_default();
            let seen_at = log.places.get(&value).copied();
            let of_it = log.acknowledged.iter().filter(|(_, at)| **at == value);
            let passed_at = of_it
                .filter_map(|(offset, _)| {
                    Some(*offset).filter(|offset| log.passed.get(offset) == Some(&None))
                })
                .next();
            match (fate, seen_at, passed_at) {
                (Fate::Aborted, Some(offset), _) => inner.violate(format!(
                    "{} was shown at offset {offset} of partition {partition}, and its transaction is not committed",
                    name(value)
                )),
                (Fate::Committed, _, Some(offset)) => inner.violate(format!(
                    "{} is committed, and readers have passed it at offset {offset} of partition {partition}",
                    name(value)
                )),
                _ => {}
            }
        }
    }

    /// A reader of committed records has passed an offset.
    pub(super) fn pass(&self, partition: i32, offset: i64, seen: Option<Value>) {
        let mut inner = self.0.borrow_mut();
        let place = format!("offset {offset} of partition {partition}");
        let log = inner.logs.entry(partition).or_default();
        let before = *log.passed.entry(offset).or_insert(seen);
        if before != seen {
            let (before, seen) = (before.map(name), seen.map(name));
            return inner.violate(format!(
                "{seen:?} is at {place}, where a reader has seen {before:?}"
            ));
        }
        let acknowledged = log.acknowledged.get(&offset).copied();
        let Some(value) = seen else {
            if let Some(value) = acknowledged
                && inner.fate(value) == Some(Fate::Committed)
            {
                inner.violate(format!(
                    "{} is committed, and is not shown at {place}",
                    name(value)
                ));
            }
            return;
        };
        let elsewhere = *log.places.entry(value).or_insert(offset);
        let told = match inner.fate(value) {
            None => "nobody has sent it",
            Some(Fate::Open) => "its commit was not asked for",
            Some(Fate::Aborted) => "its transaction is not committed",
            Some(_) if acknowledged.is_some_and(|at| at != value) => "another one was acknowledged there",
            Some(_) if elsewhere != offset => "it was seen elsewhere",
            Some(_) => return,
        };
        inner.violate(format!("{} is shown at {place}: {told}", name(value)));
    }

    /// The end of what is stable that a node must tell from now on at least.
    pub(super) fn stable(&self, node: usize, partition: i32) -> i64 {
        let mut inner = self.0.borrow_mut();
        let log = inner.logs.entry(partition).or_default();
        log.stable.get(&node).copied().unwrap_or(0)
    }

    /// A node has told the end of what is stable, asked when it had told `floor`.
    pub(super) fn hear_stable(
        &self,
        (node, partition): (usize, i32),
        floor: i64,
        (stable, tail): (i64, i64),
    ) {
        let mut inner = self.0.borrow_mut();
        if stable < floor {
            inner.violate(format!(
                "node {node} has told that partition {partition} is stable up to {floor}, and tells {stable}"
            ));
        }
        if stable > tail {
            inner.violate(format!(
                "node {node} tells that partition {partition} is stable up to {stable}, with a tail of {tail}"
            ));
        }
        let log = inner.logs.entry(partition).or_default();
        let known = log.stable.entry(node).or_default();
        *known = stable.max(*known);
    }

    /// At the end, when readers have passed everything: each transaction is there as it was told, or whole, or not at all.
    pub(super) fn check_complete(&self) {
        let inner = self.0.borrow();
        let mut all = Vec::new();
        for (number, transaction) in &inner.transactions {
            let is_seen = |(value, partition): (&Value, &i32)| {
                let log = inner.logs.get(partition);
                log.is_some_and(|log| log.places.contains_key(value))
            };
            let missing: Vec<String> = transaction
                .values
                .iter()
                .filter(|of| !is_seen(*of))
                .map(|(value, partition)| format!("{} of partition {partition}", name(*value)))
                .collect();
            let is_whole = missing.is_empty();
            let is_absent = missing.len() == transaction.values.len();
            let is_right = match transaction.fate {
                Fate::Committed => is_whole,
                Fate::Asked => is_whole || is_absent,
                Fate::Open | Fate::Aborted => is_absent,
            };
            if !is_right {
                let (fate, of) = (transaction.fate, transaction.values.len());
                all.push(format!(
                    "transaction {number} ({fate:?}) is torn: of {of} values are missing {missing:?}"
                ));
            }
        }
        all.into_iter().for_each(|what| inner.violate(what));
    }

    /// How many transactions have each fate.
    pub(super) fn tally(&self) -> Vec<(String, u64)> {
        let inner = self.0.borrow();
        let fates = [Fate::Open, Fate::Asked, Fate::Committed, Fate::Aborted];
        let count = |fate| inner.transactions.values().filter(|of| of.fate == fate).count() as u64;
        let counted = fates.map(|fate| (format!("transactions: {fate:?}"), count(fate)));
        let seen: BTreeSet<u64> = inner
            .logs
            .values()
            .flat_map(|log| log.places.keys().map(|value| value >> COUNT_BITS))
            .collect();
        let is_late = |number: &&u64| inner.transactions[number].fate == Fate::Asked;
        let late = seen.iter().filter(is_late).count() as u64;
        let late = ("transactions: Asked, and committed".to_owned(), late);
        counted.into_iter().chain([late]).collect()
    }
}

impl Inner {
    fn fate(&self, value: Value) -> Option<Fate> {
        let transaction = self.transactions.get(&(value >> COUNT_BITS))?;
        transaction
            .values
            .contains_key(&value)
            .then_some(transaction.fate)
    }

    fn violate(&self, what: String) {
        (self.violate)(what);
    }
}

fn name(value: Value) -> String {
    format!(
        "value {}.{}",
        value >> COUNT_BITS,
        value & ((1 << COUNT_BITS) - 1)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger, and the first contradiction that it has told.
    struct Told {
        ledger: Ledger,
        told: Rc<RefCell<Option<String>>>,
    }

    impl std::ops::Deref for Told {
        type Target = Ledger;

        fn deref(&self) -> &Ledger {
            &self.ledger
        }
    }

    impl Told {
        fn violation(&self) -> Option<String> {
            self.told.borrow().clone()
        }
    }

    /// A ledger with a transaction of two values, in partitions 0 and 1, acknowledged at offset 5 of both.
    fn begun() -> (Told, u64, [Value; 2]) {
        let told = Rc::new(RefCell::new(None));
        let first = told.clone();
        let ledger = Ledger::new(move |what| {
            first.borrow_mut().get_or_insert(what);
        });
        let ledger = Told { ledger, told };
        let number = ledger.begin();
        let values = [ledger.next_value(number, 0), ledger.next_value(number, 1)];
        for (partition, value) in (0..).zip(values) {
            ledger.acknowledge(partition, 5, &[value]);
        }
        (ledger, number, values)
    }

    #[track_caller]
    fn violated(ledger: &Told, what: &str) {
        let told = ledger.violation().expect("it is no history of transactions");
        assert!(told.contains(what), "{told}");
    }

    #[test]
    fn a_value_whose_commit_nobody_has_asked_for_is_found() {
        let (ledger, _, [value, _]) = begun();
        ledger.pass(0, 5, Some(value));
        violated(&ledger, "was not asked for");
    }

    #[test]
    fn an_aborted_value_that_is_shown_is_found_before_and_after_it_is_told() {
        let (ledger, number, [value, _]) = begun();
        ledger.settle(number, Fate::Aborted);
        ledger.pass(0, 5, Some(value));
        violated(&ledger, "is not committed");
        let (ledger, number, [value, _]) = begun();
        ledger.settle(number, Fate::Asked);
        ledger.pass(0, 5, Some(value));
        assert_eq!(ledger.violation(), None);
        ledger.settle(number, Fate::Aborted);
        violated(&ledger, "is not committed");
    }

    #[test]
    fn a_committed_value_that_readers_pass_is_found_before_and_after_it_is_told() {
        let (ledger, number, _) = begun();
        ledger.settle(number, Fate::Committed);
        ledger.pass(1, 5, None);
        violated(&ledger, "is not shown");
        let (ledger, number, _) = begun();
        ledger.pass(1, 5, None);
        ledger.settle(number, Fate::Committed);
        violated(&ledger, "readers have passed it");
    }

    #[test]
    fn a_torn_transaction_is_found() {
        let (ledger, number, [one, other]) = begun();
        ledger.settle(number, Fate::Asked);
        ledger.check_complete();
        assert_eq!(ledger.violation(), None, "nothing of it is there");
        ledger.pass(0, 5, Some(one));
        ledger.pass(1, 5, Some(other));
        ledger.check_complete();
        assert_eq!(ledger.violation(), None, "all of it is there");
        let (ledger, number, [one, _]) = begun();
        ledger.settle(number, Fate::Asked);
        ledger.pass(0, 5, Some(one));
        ledger.check_complete();
        violated(&ledger, "is torn");
    }

    #[test]
    fn what_readers_have_passed_stays() {
        let (ledger, number, [value, _]) = begun();
        ledger.settle(number, Fate::Asked);
        ledger.pass(0, 5, None);
        ledger.pass(0, 5, Some(value));
        violated(&ledger, "a reader has seen None");
    }

    #[test]
    fn an_end_of_what_is_stable_that_goes_back_is_found() {
        let (ledger, ..) = begun();
        ledger.hear_stable((0, 1), 0, (7, 7));
        ledger.hear_stable((1, 1), ledger.stable(1, 1), (6, 7));
        assert_eq!(ledger.violation(), None, "another node may know less");
        ledger.hear_stable((0, 1), ledger.stable(0, 1), (6, 7));
        violated(&ledger, "stable up to 7, and tells 6");
    }
}
