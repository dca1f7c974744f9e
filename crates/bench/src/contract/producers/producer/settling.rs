//! What became of units: each is settled once, by its acknowledgement, its failure, or the system's silence.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::{Appender, Completed};
use super::{Producer, Since, State};
use crate::contract::time::Time;

/// After so many failures in a row there is nothing to measure.
const FAILURES_MAX: u64 = 100;
/// How long a system may be silent while units wait: after that they count as failed.
const PATIENCE: Duration = Duration::from_secs(120);

impl<A: Appender, T: Time> Producer<'_, A, T> {
    /// Takes what was acknowledged or failed, waiting for it at most `wait`.
    pub(super) fn take(&mut self, wait: Duration) {
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

    pub(super) fn settle(&mut self, completed: Completed) {
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
    pub(super) fn forget_settled(&mut self) {
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

    pub(super) fn is_hopeless(&self) -> bool {
        self.failures_in_a_row >= FAILURES_MAX
    }
}
