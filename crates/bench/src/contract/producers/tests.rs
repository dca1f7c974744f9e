//! Producers before a system that answers as a test wishes.

mod rates;

use std::sync::Mutex;

use anyhow::bail;

use super::*;
use crate::contract::Event;

/// What producers sent: producer, shard, numbers of the records.
type Log = Mutex<Vec<(u32, u32, Range<u64>)>>;

/// How the system behaves.
#[derive(Clone, Copy)]
struct Behaviour {
    /// How long each unit takes.
    latency: fn(u64) -> Duration,
    is_failing: fn(u64) -> bool,
    is_refused: fn(u64) -> bool,
    /// After this unit it does nothing for so long.
    stall: Option<(u64, Duration)>,
    /// Units that may wait at once.
    window: usize,
}

const PROMPT: Behaviour = Behaviour {
    latency: |_| Duration::ZERO,
    is_failing: |_| false,
    is_refused: |_| false,
    stall: None,
    window: usize::MAX,
};

struct Fake<'a> {
    producer: u32,
    behaviour: Behaviour,
    log: &'a Log,
    sent: u64,
    stalled_until: Instant,
    waiting: Vec<(u64, Instant)>,
}

impl Appender for Fake<'_> {
    fn send(&mut self, shard: u32, records: Range<u64>) -> Result<()> {
        let unit = self.sent;
        self.sent += 1;
        if (self.behaviour.is_refused)(unit) {
            bail!("unit {unit} is not wanted");
        }
        self.log
            .lock()
            .expect("no test panics here")
            .push((self.producer, shard, records));
        let now = Instant::now();
        if let Some((at, stall)) = self.behaviour.stall.filter(|(at, _)| *at == unit) {
            assert_eq!(at, unit);
            self.stalled_until = now + stall;
        }
        let answered = now.max(self.stalled_until) + (self.behaviour.latency)(unit);
        self.waiting.push((unit, answered));
        assert!(self.waiting.len() <= self.behaviour.window, "too many in flight");
        Ok(())
    }

    fn poll(&mut self, wait: Duration, completed: &mut Vec<Completed>) {
        let next = self.waiting.iter().map(|(_, answered)| *answered).min();
        let left = next.map_or(wait, |next| next.saturating_duration_since(Instant::now()));
        std::thread::sleep(left.min(wait));
        let now = Instant::now();
        // The youngest first: nobody may rely on their order.
        let answered: Vec<_> = self.waiting.extract_if(.., |(_, at)| *at <= now).collect();
        for (unit, at) in answered.into_iter().rev() {
            let failure = (self.behaviour.is_failing)(unit).then(|| format!("unit {unit} is lost"));
            completed.push(Completed { unit, at, failure });
        }
    }
}

fn append() -> Append {
    Append {
        log: "log".to_owned(),
        shards: 1,
        producers: 1,
        record_bytes: 100,
        batch_records: 1,
        in_flight: 1,
        warmup_records: 0,
        records: Some(100),
        seconds: None,
        rate: None,
        follow: false,
    }
}

struct Ran {
    done: Result<Done>,
    log: Vec<(u32, u32, Range<u64>)>,
    events: Vec<Event>,
}

fn run_fake(append: &Append, batches: Batches, behaviour: Behaviour) -> Ran {
    let log = Log::default();
    let mut out = Vec::new();
    let connect = |producer| {
        Ok(Fake {
            producer,
            behaviour,
            log: &log,
            sent: 0,
            stalled_until: Instant::now(),
            waiting: Vec::new(),
        })
    };
    let done = run(
        append,
        batches,
        &Schedule::new(append),
        connect,
        &Events::new(&mut out),
    );
    let text = String::from_utf8(out).expect("events are text");
    let events = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"));
    Ran {
        done,
        events: events.collect(),
        log: log.into_inner().expect("no test panics here"),
    }
}

fn done(append: &Append, batches: Batches, behaviour: Behaviour) -> Done {
    run_fake(append, batches, behaviour).done.expect("it runs")
}

fn longer_than(done: &Done, limit: Duration) -> u64 {
    let limit = limit.as_nanos() as u64;
    let longer = done.latency_ns.iter().filter(|(ns, _)| *ns > limit);
    longer.map(|(_, count)| count).sum()
}

fn count(done: &Done) -> u64 {
    longer_than(done, Duration::ZERO)
}

#[test]
fn records_are_shared_out_and_each_is_sent_once_and_in_order() {
    let append = Append {
        shards: 3,
        producers: 4,
        batch_records: 10,
        in_flight: 2,
        warmup_records: 50,
        records: Some(1_001),
        ..append()
    };
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
    let append = Append {
        shards: 2,
        batch_records: 5,
        in_flight: 3,
        ..append()
    };
    let slow = Behaviour {
        latency: |_| Duration::from_millis(1),
        window: 15,
        ..PROMPT
    };
    let ran = run_fake(&append, Batches::ByClient, slow);
    assert_eq!(count(&ran.done.expect("it runs")), 100);
    for (_, shard, records) in ran.log {
        assert_eq!(records.end, records.start + 1);
        assert_eq!(u64::from(shard), records.start / 5 % 2);
    }
}

#[test]
fn latency_is_that_of_each_unit_and_the_time_that_of_all() {
    let slow = Behaviour {
        latency: |_| Duration::from_millis(2),
        window: 1,
        ..PROMPT
    };
    let done = done(&append(), Batches::ByDriver, slow);
    assert_eq!(longer_than(&done, Duration::from_micros(1_999)), 100);
    assert!(longer_than(&done, Duration::from_millis(4)) < 50, "{done:?}");
    assert!(done.seconds >= 0.2, "{done:?}");
}

#[test]
fn units_may_complete_in_any_order() {
    let append = Append {
        in_flight: 7,
        ..append()
    };
    let uneven = Behaviour {
        latency: |unit| Duration::from_millis(unit * 5 % 7),
        window: 7,
        ..PROMPT
    };
    let done = done(&append, Batches::ByDriver, uneven);
    assert_eq!((done.records, done.appended, done.errors), (100, vec![100], 0));
}

#[test]
fn what_failed_is_counted_and_ends_what_counts_as_appended() {
    let failing = Behaviour {
        is_failing: |unit| unit == 60,
        is_refused: |unit| unit == 70,
        ..PROMPT
    };
    let append = Append {
        in_flight: 8,
        warmup_records: 50,
        ..append()
    };
    let done = done(&append, Batches::ByDriver, failing);
    assert_eq!(
        (done.records, done.errors, &done.appended[..]),
        (98, 2, &[60][..])
    );
    assert_eq!(done.first_error.as_deref(), Some("unit 60 is lost"));
}

#[test]
fn a_system_that_only_fails_is_given_up() {
    let never = Append {
        records: Some(1_000_000_000),
        in_flight: 4,
        ..append()
    };
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
            let done = done(&append, Batches::ByDriver, behaviour);
            assert!((100..110).contains(&done.errors), "{done:?}");
            assert_eq!((done.records, &done.appended[..]), (0, &[0][..]));
        }
    }
}

#[test]
fn a_producer_that_cannot_connect_stops_all() {
    let append = Append {
        producers: 3,
        ..append()
    };
    let mut out = Vec::new();
    let connect = |producer| -> Result<Fake<'_>> {
        static LOG: Log = Log::new(Vec::new());
        if producer == 1 {
            bail!("nobody listens");
        }
        Ok(Fake {
            producer,
            behaviour: PROMPT,
            log: &LOG,
            sent: 0,
            stalled_until: Instant::now(),
            waiting: Vec::new(),
        })
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

#[test]
fn progress_is_said_once_a_second() {
    let append = Append {
        records: None,
        seconds: Some(1.3),
        rate: Some(100.0),
        ..append()
    };
    let ran = run_fake(&append, Batches::ByDriver, PROMPT);
    assert_eq!(ran.done.expect("it runs").records, 130);
    let [Event::Started, Event::Progress { records }] = ran.events[..] else {
        panic!("{:?}", ran.events);
    };
    assert!((90..=101).contains(&records), "{records}");
}

#[test]
fn a_time_that_is_over_at_once_is_enough_for_a_batch_of_each() {
    let append = Append {
        producers: 2,
        batch_records: 10,
        in_flight: 3,
        records: None,
        seconds: Some(1e-9),
        ..append()
    };
    let done = done(&append, Batches::ByDriver, PROMPT);
    assert_eq!(done.appended, [10, 10]);
}

#[test]
fn of_a_number_and_a_time_what_comes_first_ends_it() {
    for rate in [None, Some(1_000.0)] {
        let number = Append {
            seconds: Some(3_600.0),
            rate,
            ..append()
        };
        assert_eq!(done(&number, Batches::ByDriver, PROMPT).records, 100);
        let time = Append {
            records: Some(u64::MAX / 2),
            seconds: Some(0.1),
            rate,
            ..append()
        };
        let done = done(&time, Batches::ByDriver, PROMPT);
        assert!(
            done.records > 0 && (0.05..3.0).contains(&done.seconds),
            "{done:?}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let wrong = [
        Append {
            producers: 0,
            ..append()
        },
        Append {
            in_flight: 0,
            ..append()
        },
        Append {
            rate: Some(0.0),
            ..append()
        },
        Append {
            records: None,
            ..append()
        },
        Append {
            records: None,
            seconds: Some(f64::NAN),
            ..append()
        },
    ];
    for append in wrong {
        let ran = run_fake(&append, Batches::ByDriver, PROMPT);
        assert!(ran.done.is_err(), "{append:?}");
        assert_eq!(ran.events, []);
    }
}
