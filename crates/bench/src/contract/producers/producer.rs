//! One producer: warms up, then sends its units in the closed loop or when they are due, and settles what comes back.
//!
//! ```text
//!   sent:   [ 7: acknowledged too early ] [ 8 ] [ 9 ] ...      the oldest unit that is not settled stands in front
//! ```
//!
//! Each unit is settled once, by its acknowledgement, its failure, or the system's silence.
//!
//! Per unit there is a read of the clock, a place in that queue and a count in the histogram, nothing else; at a rate, there is a
//! count for each of its records, since each was due at a time of its own.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Appender, Batches, Completed, Schedule, UNTIL_SOMETHING, share};
use crate::contract::Append;
use crate::contract::payload::Stamp;
use crate::contract::time::Time;
use crate::latency::LatencyRecorder;

/// How long before a due time a producer stops sleeping and watches the clock: about what waking up takes.
const WATCH: Duration = Duration::from_micros(20);
/// How often a producer that has no reason to wait looks what was acknowledged.
const LOOK_PERIOD: Duration = Duration::from_micros(50);

/// After so many failures in a row there is nothing to measure.
const FAILURES_MAX: u64 = 100;
/// How long a system may be silent while units wait: after that they count as failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// One producer's part of a run.
pub(super) struct Plan<'a> {
    append: &'a Append,
    schedule: &'a Schedule,
    index: u32,
    batches: Batches,
    /// Records of a unit; at a rate, the most.
    unit_records: u64,
    /// Units that may wait for their acknowledgement at once.
    window: u64,
    warmup_records: u64,
    /// Measured records, unless only their time ends them.
    records: Option<u64>,
}

impl<'a> Plan<'a> {
    /// The share of producer `index`.
    pub(super) fn new(append: &'a Append, batches: Batches, index: u32, schedule: &'a Schedule) -> Plan<'a> {
        let share = |records| share(records, index, append.producers);
        let batch_records = u64::from(append.batch_records);
        let in_flight = u64::from(append.in_flight);
        let (unit_records, window) = match batches {
            Batches::ByDriver => (batch_records, in_flight),
            Batches::ByClient => (1, in_flight * batch_records),
        };
        Plan {
            append,
            schedule,
            index,
            batches,
            unit_records,
            window,
            warmup_records: share(append.warmup_records),
            records: append.records.map(share),
        }
    }

    /// Where a unit goes. What a client should put into one batch goes to one shard.
    fn shard(&self, unit: u64, first_record: u64) -> u32 {
        let batch = match self.batches {
            Batches::ByDriver => unit,
            Batches::ByClient => first_record / u64::from(self.append.batch_records),
        };
        let turn = u64::from(self.index) + batch * u64::from(self.append.producers);
        (turn % u64::from(self.append.shards)) as u32
    }
}

#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Of measured units; at a rate, of their records.
    pub(super) latencies: LatencyRecorder,
    /// Measured records that were acknowledged.
    pub(super) records: u64,
    /// So many of its first records were acknowledged, all of them.
    pub(super) appended: u64,
    pub(super) last_acknowledged: Option<Instant>,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
}

/// A unit that was sent, until it and all before it are settled.
struct Sent {
    since: Since,
    records: Range<u64>,
    state: State,
}

/// What latency counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    /// That of a unit, from when it was handed over.
    Sent(Instant),
    /// That of each of its records, from when that one was due.
    Due,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Acknowledged,
    Failed,
}

/// When a producer has sent enough: what comes first.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Before the record with this number.
    record: u64,
    /// With the first unit that would be sent then or later.
    at: Option<Instant>,
}

pub(super) struct Producer<'a, A, T> {
    plan: Plan<'a>,
    time: &'a T,
    appender: A,
    /// Measured records of all producers, for `progress`.
    acknowledged: &'a AtomicU64,
    sent: VecDeque<Sent>,
    /// The number of the first unit of `sent`.
    first_unit: u64,
    next_record: u64,
    in_flight: u64,
    /// What `poll` brought; empty between calls.
    completed: Vec<Completed>,
    looked: Instant,
    /// How long units have waited without a word.
    silent: Duration,
    failures_in_a_row: u64,
    /// Whether a record failed: what is acknowledged after it does not count as appended.
    has_gap: bool,
    is_measuring: bool,
    outcome: Outcome,
}

impl<'a, A: Appender, T: Time> Producer<'a, A, T> {
    /// A producer that has sent its warm-up, and heard what became of it.
    pub(super) fn warmed_up(
        plan: Plan<'a>,
        time: &'a T,
        appender: A,
        acknowledged: &'a AtomicU64,
    ) -> Producer<'a, A, T> {
        // Timers that are late by less than the default 50 µs; where the system refuses, the rate is a little less even.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
        let end = End {
            record: plan.warmup_records,
            at: None,
        };
        let mut producer = Producer {
            plan,
            time,
            appender,
            acknowledged,
            sent: VecDeque::new(),
            first_unit: 0,
            next_record: 0,
            in_flight: 0,
            completed: Vec::new(),
            looked: time.now(),
            silent: Duration::ZERO,
            failures_in_a_row: 0,
            has_gap: false,
            is_measuring: false,
            outcome: Outcome::default(),
        };
        producer.send_closed(end);
        producer
    }

    /// Sends its share of what is measured, until all of it is settled.
    pub(super) fn measure(mut self, began: Instant) -> Outcome {
        self.is_measuring = true;
        let end = End {
            record: (self.plan.records).map_or(u64::MAX, |records| self.plan.warmup_records + records),
            at: (self.plan.append.seconds).map(|seconds| began + Duration::from_secs_f64(seconds)),
        };
        if self.plan.append.rate.is_some() {
            self.send_paced(end);
        } else {
            self.send_closed(end);
        }
        self.outcome
    }

    /// Sends the next unit as soon as there is room for it. A thread that was woken when its time was over still sends one: a
    /// busy machine does not look like a system that acknowledges nothing.
    fn send_closed(&mut self, end: End) {
        let first = self.next_record;
        loop {
            self.wait_for_room();
            let now = self.time.now();
            let records = self.next_unit(end);
            let is_late = end.is_reached(now) && self.next_record > first;
            if records.is_empty() || is_late || self.is_hopeless() {
                break;
            }
            self.send(records, Since::Sent(now));
            self.look(now);
        }
        self.drain();
    }

    /// Sends the next record when it is due, or as soon after that as there is room, and with it in one unit those behind it that
    /// are due by then: who falls behind makes larger units, and nobody waits for a unit to fill.
    fn send_paced(&mut self, end: End) {
        while !self.next_unit(end).is_empty() && !self.is_hopeless() {
            let due = self.due(self.next_record);
            if end.is_reached(due) {
                break;
            }
            self.wait_until(due);
            self.wait_for_room();
            let records = self.due_unit(end, self.time.now());
            self.send(records, Since::Due);
        }
        self.drain();
    }

    fn due(&self, sequence: u64) -> Instant {
        let stamp = Stamp {
            producer: self.plan.index,
            sequence,
        };
        let due = self.plan.schedule.due(stamp);
        due.expect("what is measured at a rate is due at a time")
    }

    /// The part of the next unit that is due at `now`; its first record is.
    fn due_unit(&self, end: End, now: Instant) -> Range<u64> {
        let most = self.next_unit(end);
        let is_due = |&sequence: &u64| {
            let due = self.due(sequence);
            due <= now && !end.is_reached(due)
        };
        let others = (most.start + 1..most.end).take_while(is_due).count() as u64;
        most.start..most.start + 1 + others
    }

    /// The numbers of the next unit's records, if it is a whole one; none behind the last.
    fn next_unit(&self, end: End) -> Range<u64> {
        let next = self.next_record + self.plan.unit_records;
        self.next_record..next.min(end.record)
    }

    /// Takes acknowledgements until `due`: asleep for most of the time, awake for the last of it.
    fn wait_until(&mut self, due: Instant) {
        let mut now = self.time.now();
        if now >= due {
            self.look(now);
        }
        while now < due {
            let asleep = (due - now).saturating_sub(WATCH);
            if self.in_flight > 0 {
                self.take(asleep);
            } else if !asleep.is_zero() {
                self.time.sleep(asleep);
            } else {
                self.time.spin();
            }
            now = self.time.now();
        }
    }

    fn wait_for_room(&mut self) {
        while self.in_flight >= self.plan.window && !self.is_hopeless() {
            self.take(UNTIL_SOMETHING);
        }
    }

    fn drain(&mut self) {
        while self.in_flight > 0 {
            self.take(UNTIL_SOMETHING);
        }
    }

    /// Takes what is there if that was long ago: systems whose appender tells the time only when it is asked would look
    /// slower than they are.
    fn look(&mut self, now: Instant) {
        let has_room = self.in_flight < self.plan.window;
        let is_time = now.saturating_duration_since(self.looked) >= LOOK_PERIOD;
        if self.in_flight > 0 && has_room && is_time {
            self.take(Duration::ZERO);
        }
    }

    fn send(&mut self, records: Range<u64>, since: Since) {
        let unit = self.first_unit + self.sent.len() as u64;
        let shard = self.plan.shard(unit, records.start);
        self.next_record = records.end;
        self.sent.push_back(Sent {
            since,
            records: records.clone(),
            state: State::Waiting,
        });
        self.in_flight += 1;
        if let Err(error) = self.appender.send(shard, records) {
            self.settle(Completed {
                unit,
                at: self.time.now(),
                failure: Some(format!("{error:#}")),
            });
            self.forget_settled();
        }
    }

    /// Takes what was acknowledged or failed, waiting for it at most `wait`.
    fn take(&mut self, wait: Duration) {
        let asked = self.time.now();
        self.looked = asked;
        self.appender.poll(wait, &mut self.completed);
        if self.completed.is_empty() {
            if !wait.is_zero() {
                self.silent += self.time.now().saturating_duration_since(asked);
            }
            if self.silent >= PATIENCE {
                self.give_up();
            }
            return;
        }
        self.silent = Duration::ZERO;
        let before = self.outcome.records;
        let mut completed = std::mem::take(&mut self.completed);
        for unit in completed.drain(..) {
            self.settle(unit);
        }
        self.completed = completed;
        self.forget_settled();
        self.acknowledged
            .fetch_add(self.outcome.records - before, Ordering::Relaxed);
    }

    fn settle(&mut self, completed: Completed) {
        let index = completed.unit.checked_sub(self.first_unit);
        let sent = index.and_then(|index| self.sent.get_mut(index as usize));
        let sent = sent
            .filter(|sent| sent.state == State::Waiting)
            .expect("an appender tells of each unit that was sent, once");
        self.in_flight -= 1;
        if let Some(why) = completed.failure {
            sent.state = State::Failed;
            self.failures_in_a_row += 1;
            self.outcome.errors += 1;
            self.outcome.first_error.get_or_insert(why);
            return;
        }
        sent.state = State::Acknowledged;
        self.failures_in_a_row = 0;
        if self.is_measuring {
            let (since, records) = (sent.since, sent.records.clone());
            self.outcome.records += records.end - records.start;
            self.outcome.last_acknowledged = self.outcome.last_acknowledged.max(Some(completed.at));
            self.record_latency(since, records, completed.at);
        }
    }

    fn record_latency(&mut self, since: Since, records: Range<u64>, at: Instant) {
        match since {
            Since::Sent(sent) => {
                let latency = at.saturating_duration_since(sent);
                self.outcome.latencies.record(latency);
            }
            Since::Due => {
                for sequence in records {
                    let latency = at.saturating_duration_since(self.due(sequence));
                    self.outcome.latencies.record(latency);
                }
            }
        }
    }

    /// Drops units from the front that are settled, and counts the records that were appended without a gap.
    fn forget_settled(&mut self) {
        while let Some(sent) = self.sent.front().filter(|sent| sent.state != State::Waiting) {
            self.has_gap |= sent.state == State::Failed;
            if !self.has_gap {
                self.outcome.appended = sent.records.end;
            }
            self.sent.pop_front();
            self.first_unit += 1;
        }
    }

    /// Counts all that still waits as failed.
    fn give_up(&mut self) {
        for unit in self.first_unit..self.first_unit + self.sent.len() as u64 {
            if self.sent[(unit - self.first_unit) as usize].state == State::Waiting {
                self.settle(Completed {
                    unit,
                    at: self.time.now(),
                    failure: Some(format!("not acknowledged in {} s", PATIENCE.as_secs())),
                });
            }
        }
        self.failures_in_a_row = FAILURES_MAX;
        self.forget_settled();
    }

    fn is_hopeless(&self) -> bool {
        self.failures_in_a_row >= FAILURES_MAX
    }
}

impl End {
    /// Whether nothing is sent at `at` any more.
    fn is_reached(self, at: Instant) -> bool {
        self.at.is_some_and(|end| at >= end)
    }
}
