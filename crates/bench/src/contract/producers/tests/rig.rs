//! A system that answers as a test wishes, by a clock that goes on only when somebody waits.

use std::cell::Cell;

use anyhow::bail;
use serde_json::Value;

use super::*;
use crate::contract::Event;

/// What looking once more takes.
pub(super) const MOMENT: Duration = Duration::from_micros(1);

thread_local! {
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Each thread's clock begins at the same time and then goes by itself: nobody else's waiting moves it, and no machine is too
/// busy for it. Who has warmed up is as late as that took.
#[derive(Clone, Copy)]
pub(super) struct HandTime {
    first: Instant,
}

impl HandTime {
    pub(super) fn new() -> HandTime {
        HandTime {
            first: Instant::now(),
        }
    }
}

impl Time for HandTime {
    fn now(&self) -> Instant {
        self.first + PASSED.get()
    }

    fn sleep(&self, time: Duration) {
        PASSED.set(PASSED.get() + time);
    }

    fn spin(&self) {
        self.sleep(MOMENT);
    }
}

/// What producers sent: producer, shard, numbers of the records.
type Log = Mutex<Vec<(u32, u32, Range<u64>)>>;

/// How the system behaves.
#[derive(Clone, Copy)]
pub(super) struct Behaviour {
    /// How long each unit takes.
    pub(super) latency: fn(u64) -> Duration,
    pub(super) is_failing: fn(u64) -> bool,
    pub(super) is_refused: fn(u64) -> bool,
    /// After this unit it does nothing for so long.
    pub(super) stall: Option<(u64, Duration)>,
    /// Units that may wait at once.
    pub(super) window: usize,
}

pub(super) const PROMPT: Behaviour = Behaviour {
    latency: |_| Duration::ZERO,
    is_failing: |_| false,
    is_refused: |_| false,
    stall: None,
    window: usize::MAX,
};

/// One that takes so long for each unit, and for so many at once.
pub(super) fn slow(latency: fn(u64) -> Duration, window: usize) -> Behaviour {
    Behaviour {
        latency,
        window,
        ..PROMPT
    }
}

struct Fake<'a> {
    producer: u32,
    time: HandTime,
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
        let now = self.time.now();
        if let Some((_, stall)) = self.behaviour.stall.filter(|(at, _)| *at == unit) {
            self.stalled_until = now + stall;
        }
        let answered = now.max(self.stalled_until) + (self.behaviour.latency)(unit);
        self.waiting.push((unit, answered));
        assert!(self.waiting.len() <= self.behaviour.window, "too many in flight");
        Ok(())
    }

    fn poll(&mut self, wait: Duration, completed: &mut Vec<Completed>) {
        let next = self.waiting.iter().map(|(_, answered)| *answered).min();
        let left = next.map_or(wait, |next| next.saturating_duration_since(self.time.now()));
        match wait.is_zero() {
            true => self.time.spin(),
            false => self.time.sleep(left.min(wait)),
        }
        let now = self.time.now();
        // The youngest first: nobody may rely on their order.
        let answered: Vec<_> = self.waiting.extract_if(.., |(_, at)| *at <= now).collect();
        for (unit, at) in answered.into_iter().rev() {
            let failure = (self.behaviour.is_failing)(unit).then(|| format!("unit {unit} is lost"));
            completed.push(Completed { unit, at, failure });
        }
    }
}

/// 100 records one by one, but for what is told.
pub(super) fn append(told: Value) -> Append {
    let mut append = json!({
        "log": "log", "shards": 1, "producers": 1, "record_bytes": 100, "batch_records": 1, "in_flight": 1, "records": 100,
    });
    let Value::Object(told) = told else {
        panic!("{told} is no object");
    };
    append.as_object_mut().expect("an object").extend(told);
    serde_json::from_value(append).expect("what an append has")
}

pub(super) struct Ran {
    pub(super) done: Result<Done>,
    pub(super) log: Vec<(u32, u32, Range<u64>)>,
    pub(super) events: Vec<Event>,
}

pub(super) fn run_fake(append: &Append, batches: Batches, behaviour: Behaviour) -> Ran {
    let (time, log) = (HandTime::new(), Log::default());
    let mut out = Vec::new();
    let connect = |producer| {
        Ok(Fake {
            producer,
            time,
            behaviour,
            log: &log,
            sent: 0,
            stalled_until: time.now(),
            waiting: Vec::new(),
        })
    };
    let produced = produce_by(
        &time,
        append,
        batches,
        &Schedule::new(append),
        connect,
        &mut &Events::new(&mut out),
    );
    Ran {
        done: produced.map(|(done, _)| done),
        events: said(out),
        log: log.into_inner().expect("no test panics here"),
    }
}

/// The events in what was written.
pub(super) fn said(out: Vec<u8>) -> Vec<Event> {
    let text = String::from_utf8(out).expect("events are text");
    let events = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("an event"));
    events.collect()
}

pub(super) fn done(append: &Append, behaviour: Behaviour) -> Done {
    run_fake(append, Batches::ByDriver, behaviour)
        .done
        .expect("it runs")
}

/// How long it took in all.
pub(super) fn took(done: &Done) -> Duration {
    Duration::from_secs_f64(done.seconds)
}

pub(super) fn longer_than(done: &Done, limit: Duration) -> u64 {
    let limit = limit.as_nanos() as u64;
    let longer = done.latency_ns.iter().filter(|(ns, _)| *ns > limit);
    longer.map(|(_, count)| count).sum()
}

pub(super) fn count(done: &Done) -> u64 {
    longer_than(done, Duration::ZERO)
}
