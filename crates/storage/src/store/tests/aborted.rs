//! Aborted transactions are listed exactly, wherever their markers are: in the journal, in segments that are open, complete, adopted or
//! compacted, and after a restart. Compaction takes their records, and takes no other record for theirs.

use std::collections::BTreeMap;

use planted::{Bug, with};
use platform::random::SeededRandom;
use record::{BatchBuilder, Compression, Epoch, Marker, Offset, PartitionId};

use super::compaction::{all, log, roomy, run_pass};
use super::rig::{Rig, partition, rolling};
use crate::Reserve;
use crate::batch_bytes::BatchBytes;
use crate::store::{Aborted, AbortedFound, Append, CompactionOrder};

/// A partition whose producers have transactions, and what must be found of them.
struct Bench {
    rig: Rig,
    random: SeededRandom,
    next: i64,
    /// The first offset of each open transaction.
    open: BTreeMap<i64, i64>,
    aborted: Vec<Aborted>,
    /// The last record of each key that counts, and those of open transactions.
    latest: BTreeMap<String, i64>,
    pending: BTreeMap<i64, Vec<(String, i64)>>,
}

const PRODUCERS: u64 = 4;
const KEYS: u64 = 6;

fn id() -> PartitionId {
    partition(0)
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let mut rig = match seed % 2 {
            0 => roomy(),
            _ => Rig::new(),
        };
        rig.store.open_partition(id(), rolling(id()));
        Bench {
            rig,
            random: SeededRandom::new(seed),
            next: 0,
            open: BTreeMap::new(),
            aborted: Vec::new(),
            latest: BTreeMap::new(),
            pending: BTreeMap::new(),
        }
    }

    fn stage(&mut self, bytes: bytes::Bytes, records: i64, aborts: Option<i64>) {
        let append = Append {
            epoch: Epoch(5),
            first: Offset(self.next),
            next: Offset(self.next + records),
            max_timestamp_ms: self.rig.now_ms,
            append_time_ms: None,
            producer_id: None,
            aborts: aborts.map(Offset),
            reserve: Reserve::Keep,
        };
        while self
            .rig
            .store
            .append(id(), &append, &mut BatchBytes::from(bytes.clone()))
            .is_err()
        {
            self.rig.lay_out();
            self.rig.remove();
        }
        self.next += records;
        self.rig.flush();
        self.rig.prepare();
    }

    fn write(&mut self) {
        let producer = 1 + self.random.below(PRODUCERS) as i64;
        self.rig.now_ms += 1;
        if self.open.contains_key(&producer) && self.random.below(3) == 0 {
            return self.end(producer);
        }
        let key = format!("key{}", self.random.below(KEYS));
        // Some write outside of transactions: what a producer did between two of them is nobody else's.
        let is_inside = self.open.contains_key(&producer) || self.random.below(4) > 0;
        let value = vec![7; 200 + self.random.below(900) as usize];
        let mut builder = BatchBuilder::new(Compression::None).with_producer(producer, 0, 0);
        builder.set_transactional(is_inside);
        builder.append(self.rig.now_ms, Some(key.as_bytes()), Some(&value), &[]);
        let offset = self.next;
        self.stage(builder.build(), 1, None);
        match is_inside {
            true => {
                self.open.entry(producer).or_insert(offset);
                self.pending.entry(producer).or_default().push((key, offset));
            }
            false => drop(self.latest.insert(key, offset)),
        }
    }

    fn end(&mut self, producer: i64) {
        let first = self.open.remove(&producer).expect("it is open");
        let commit = self.random.below(2) == 0;
        let marker = Marker {
            producer_id: producer,
            producer_epoch: 0,
            commit,
            coordinator_epoch: 0,
            first: (!commit).then_some(Offset(first)),
        };
        let aborts = (!commit).then_some(first);
        let (offset, bytes) = (self.next, marker.build(self.rig.now_ms));
        self.stage(bytes, 1, aborts);
        let written = self.pending.remove(&producer).unwrap_or_default();
        match commit {
            true => {
                for (key, offset) in written {
                    let latest = self.latest.entry(key).or_insert(offset);
                    *latest = offset.max(*latest);
                }
            }
            false => self.aborted.push(Aborted {
                producer_id: producer,
                first: Offset(first),
                marker: Offset(offset),
            }),
        }
    }

    fn stable(&self) -> i64 {
        self.open.values().copied().min().unwrap_or(self.next)
    }

    fn find(&mut self, from: i64, until: i64) -> Vec<Aborted> {
        let mut found = self.rig.store.aborted(id(), Offset(from), Offset(until));
        loop {
            match found.expect("nothing is damaged") {
                AbortedFound::Ready(aborted) => return aborted,
                AbortedFound::Job(job) => found = self.rig.store.finish_aborted(job.run()),
            }
        }
    }

    fn check(&mut self) {
        let from = self.random.below(self.next as u64 + 1) as i64;
        let until = from + self.random.below((self.next - from) as u64 + 1) as i64;
        for (from, until) in [(from, until), (0, self.next), (0, from), (from, self.next)] {
            let mut expected: Vec<Aborted> = self.aborted.clone();
            expected.retain(|of| of.first.0 < until && from <= of.marker.0);
            expected.sort_by_key(|of| (of.first, of.marker));
            assert_eq!(self.find(from, until), expected, "{from}..{until}");
        }
    }

    fn compact(&mut self) {
        self.rig.lay_out();
        self.rig.remove();
        let stable = self.stable();
        let order = CompactionOrder {
            committed: Offset(stable),
            ..all(&self.rig)
        };
        let aborted = self.find(0, stable);
        if self.rig.store.begin_compaction(id(), &order, &aborted) {
            run_pass(&mut self.rig);
        }
    }

    /// The last record of each key that counts is there, whatever else is.
    fn check_latest(&mut self) {
        let there: Vec<i64> = log(&mut self.rig).iter().map(|record| record.offset.0).collect();
        for (key, offset) in &self.latest {
            assert!(there.contains(offset), "{key} at {offset} is not in {there:?}");
        }
    }

    fn run(&mut self, steps: usize) {
        // A start knows partitions by what is in them.
        self.write();
        for _ in 0..steps {
            match self.random.below(40) {
                0 => {
                    self.rig.lay_out();
                }
                1 => {
                    let rig = std::mem::replace(&mut self.rig, Rig::new());
                    self.rig = rig.restart().0;
                }
                2 => self.compact(),
                _ => self.write(),
            }
            self.check();
        }
        self.compact();
        self.check();
        self.check_latest();
    }
}

#[test]
fn what_is_listed_is_what_was_aborted() {
    for seed in 0..12 {
        Bench::new(seed).run(400);
    }
}

#[test]
fn compaction_takes_the_records_of_aborted_transactions() {
    let mut taken = 0;
    for seed in 20..24 {
        let mut bench = Bench::new(seed);
        bench.run(300);
        let there: Vec<i64> = log(&mut bench.rig).iter().map(|record| record.offset.0).collect();
        let cleaned = bench.rig.store.partitions[&id()]
            .cleaned
            .last()
            .map_or(0, |last| last.until);
        let is_aborted = |offset: &i64| {
            let mut aborted = bench.aborted.iter();
            aborted.any(|of| (of.first.0..of.marker.0).contains(offset))
        };
        taken += (0..cleaned)
            .filter(|offset| is_aborted(offset) && !there.contains(offset))
            .count();
    }
    assert!(taken > 20, "{taken}");
}

#[test]
#[should_panic(expected = "is not in")]
fn an_aborted_record_that_supersedes_is_found_out() {
    with(Bug::AbortedSupersedes, || {
        for seed in 0..12 {
            Bench::new(seed).run(400);
        }
    });
}

#[test]
#[should_panic(expected = "assertion")]
fn a_list_that_a_compacted_segment_has_lost_is_found_out() {
    with(Bug::AbortedListLost, || {
        for seed in 0..12 {
            Bench::new(seed).run(400);
        }
    });
}
