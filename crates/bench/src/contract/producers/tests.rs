//! Producers before a system that answers as a test wishes.

mod rates;
mod rig;

use std::sync::{Mutex, mpsc};

use anyhow::bail;
use serde_json::json;

use self::rig::*;
use super::*;
use crate::contract::Event;

#[test]
fn records_are_shared_out_and_each_is_sent_once_and_in_order() {
    let append = append(
        json!({"shards": 3, "producers": 4, "batch_records": 10, "in_flight": 2, "warmup_records": 50, "records": 1_001}),
    );
    let ran = run_fake(&append, Batches::ByDriver, Behaviour { window: 2, ..PROMPT });
    let done = ran.done.expect("it runs");
    assert_eq!((done.records, done.bytes, done.errors), (1_001, 100_100, 0));
    assert_eq!(done.appended, [13 + 251, 13 + 250, 12 + 250, 12 + 250]);
    assert_eq!(
        count(&done),
        26 + 25 + 25 + 25,
        "one latency for each measured batch"
    );
    assert_eq!(ran.events, [Event::Started]);
    for producer in 0..4 {
        let (mut next, mut unit) = (0, 0);
        for (_, shard, records) in ran.log.iter().filter(|(sender, ..)| *sender == producer) {
            assert_eq!(records.start, next);
            assert_eq!(*shard, (producer + unit * 4) % 3);
            (next, unit) = (records.end, unit + 1);
        }
        assert_eq!(next, done.appended[producer as usize]);
    }
}

#[test]
fn a_client_that_batches_is_handed_records_and_a_batch_of_them_goes_to_one_shard() {
    let append = append(json!({"shards": 2, "batch_records": 5, "in_flight": 3}));
    let slow = slow(|_| Duration::from_millis(1), 15);
    let ran = run_fake(&append, Batches::ByClient, slow);
    assert_eq!(count(&ran.done.expect("it runs")), 100);
    for (_, shard, records) in ran.log {
        assert_eq!(records.end, records.start + 1);
        assert_eq!(u64::from(shard), records.start / 5 % 2);
    }
}

#[test]
fn latency_is_that_of_each_unit_and_the_time_that_of_all() {
    let slow = slow(|_| Duration::from_millis(2), 1);
    let done = done(&append(json!({})), slow);
    assert_eq!(longer_than(&done, Duration::from_micros(1_999)), 100);
    // What a histogram rounds by, and no more.
    assert_eq!(longer_than(&done, Duration::from_micros(2_010)), 0);
    assert_eq!(took(&done), Duration::from_millis(200));
}

#[test]
fn units_may_complete_in_any_order() {
    let append = append(json!({"in_flight": 7}));
    let uneven = slow(|unit| Duration::from_millis(unit * 5 % 7), 7);
    let done = done(&append, uneven);
    assert_eq!((done.records, done.appended, done.errors), (100, vec![100], 0));
}

#[test]
fn what_failed_is_counted_and_ends_what_counts_as_appended() {
    let failing = Behaviour {
        is_failing: |unit| unit == 60,
        is_refused: |unit| unit == 70,
        ..PROMPT
    };
    let append = append(json!({"in_flight": 8, "warmup_records": 50}));
    let done = done(&append, failing);
    assert_eq!(
        (done.records, done.errors, &done.appended[..]),
        (98, 2, &[60][..])
    );
    assert_eq!(done.first_error.as_deref(), Some("unit 60 is lost"));
}

#[test]
fn a_system_that_only_fails_is_given_up() {
    let never = append(json!({"records": 1_000_000_000, "in_flight": 4}));
    let failing = Behaviour {
        is_failing: |_| true,
        ..PROMPT
    };
    let refusing = Behaviour {
        is_refused: |_| true,
        ..PROMPT
    };
    for behaviour in [failing, refusing] {
        for warmup_records in [0, 1_000_000_000] {
            let append = Append {
                warmup_records,
                ..never.clone()
            };
            let done = done(&append, behaviour);
            assert!((100..110).contains(&done.errors), "{done:?}");
            assert_eq!((done.records, &done.appended[..]), (0, &[0][..]));
        }
    }
}

#[test]
fn a_system_that_says_nothing_is_given_up_after_two_minutes() {
    let append = append(json!({"in_flight": 4}));
    let silent = slow(|_| Duration::from_secs(3_600), usize::MAX);
    let done = done(&append, silent);
    assert_eq!((done.records, done.errors), (0, 4));
    assert_eq!(done.first_error.as_deref(), Some("not acknowledged in 120 s"));
}

#[test]
fn a_producer_that_cannot_connect_stops_all() {
    let append = append(json!({"producers": 3}));
    let mut out = Vec::new();
    let connect = |producer| match producer {
        1 => bail!("nobody listens"),
        _ => Ok(Held::by(mpsc::channel().1)),
    };
    let schedule = Schedule::new(&append);
    let error = run(
        &append,
        Batches::ByDriver,
        &schedule,
        connect,
        &Events::new(&mut out),
    );
    let error = format!("{:#}", error.expect_err("one cannot connect"));
    assert_eq!(error, "producer 1 cannot connect: nobody listens");
    assert_eq!(out, b"", "it never started");
}

/// A system that answers at once, but to its 60th unit only when it may go on.
struct Held {
    sent: u64,
    go_on: mpsc::Receiver<()>,
}

impl Held {
    fn by(go_on: mpsc::Receiver<()>) -> Held {
        Held { sent: 0, go_on }
    }
}

impl Appender for Held {
    fn send(&mut self, _shard: u32, _records: Range<u64>) -> Result<()> {
        self.sent += 1;
        Ok(())
    }

    fn poll(&mut self, _wait: Duration, completed: &mut Vec<Completed>) {
        if self.sent == 60 {
            let patience = Duration::from_secs(60);
            self.go_on.recv_timeout(patience).expect("progress is told");
        }
        completed.push(Completed {
            unit: self.sent - 1,
            at: Instant::now(),
            failure: None,
        });
    }
}

/// Lets go on when so many records are told.
struct Waiting {
    records: u64,
    go_on: mpsc::Sender<()>,
}

impl Watch for Waiting {
    fn period(&self) -> Duration {
        Duration::from_millis(1)
    }

    fn progress(&mut self, records: u64) {
        assert!(records <= self.records + 1, "{records}");
        if records == self.records {
            // Nobody waits for it the second time.
            let _ = self.go_on.send(());
        }
    }
}

#[test]
fn what_was_acknowledged_is_told_while_the_rest_is_under_way() {
    let append = append(json!({"warmup_records": 10, "records": 50}));
    let (go_on, may_go_on) = mpsc::channel();
    let held = Mutex::new(Some(Held::by(may_go_on)));
    let connect = |_| {
        let held = held.lock().expect("nobody else has it").take();
        Ok(held.expect("there is one producer"))
    };
    // All but the last one, which waits for that, and none of the warm-up.
    let mut watch = Waiting { records: 49, go_on };
    let schedule = Schedule::new(&append);
    let produced = produce_by(
        &MachineTime,
        &append,
        Batches::ByDriver,
        &schedule,
        connect,
        &mut watch,
    );
    assert_eq!(produced.expect("it runs").0.records, 50);
}

#[test]
fn progress_is_said_once_a_second() {
    let mut out = Vec::new();
    {
        let mut watch = &Events::new(&mut out);
        assert_eq!(watch.period(), Duration::from_secs(1));
        watch.progress(7);
    }
    assert_eq!(said(out), [Event::Progress { records: 7 }]);
}

#[test]
fn a_time_that_is_over_at_once_is_enough_for_a_batch_of_each() {
    let append = append(
        json!({"producers": 2, "batch_records": 10, "in_flight": 3, "warmup_records": 2, "records": null, "seconds": 0.001}),
    );
    // As if the machine had been busy: both begin when the time is over.
    let slow = slow(|_| Duration::from_millis(3), usize::MAX);
    let done = done(&append, slow);
    assert_eq!(done.appended, [11, 11]);
}

#[test]
fn of_a_number_and_a_time_what_comes_first_ends_it() {
    let slow = slow(|_| Duration::from_millis(1), usize::MAX);
    for rate in [None, Some(1_000.0)] {
        let number = append(json!({"seconds": 3_600.0, "rate": rate}));
        assert_eq!(done(&number, PROMPT).records, 100);
        let time = append(json!({"records": u64::MAX / 2, "seconds": 0.1, "rate": rate}));
        let done = done(&time, slow);
        assert_eq!((done.records, took(&done)), (100, Duration::from_millis(100)));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let wrong = [
        append(json!({"producers": 0})),
        append(json!({"in_flight": 0})),
        append(json!({"rate": 0.0})),
        append(json!({"records": null})),
        Append {
            records: None,
            seconds: Some(f64::NAN),
            ..append(json!({}))
        },
    ];
    for append in wrong {
        let ran = run_fake(&append, Batches::ByDriver, PROMPT);
        assert!(ran.done.is_err(), "{append:?}");
        assert_eq!(ran.events, []);
    }
}
