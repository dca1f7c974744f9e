//! The cost of calls on objects, beside that of their parts: an append to the log, and a question for its tail.
//!
//! ```text
//!   figures BROKERS SPACE [SECONDS]     rows of one process, then of 1 to 16 that write at the same time
//! ```
//! The space is one that `jobs create` has made, or the twin of a topic with one order. Rows are measured in turn, for so many seconds each (2).

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

use std::error::Error as AnyError;
use std::thread;
use std::time::{Duration, Instant};

use client::{Cluster, ConnectionOptions};
use objects::{Counter, Error, KafkaLog, Log, Map, Queue, Register, Space};

/// Views that write at the same time.
const VIEWS: [usize; 5] = [1, 2, 4, 8, 16];
const VALUE: &str = "a value of fifty bytes, as many small objects have.";

type Shared = Space<KafkaLog>;
type Outcome<T> = Result<T, Box<dyn AnyError + Send + Sync>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, name, rest @ ..] = arguments.as_slice() else {
        return Err("figures BROKERS SPACE [SECONDS]".into());
    };
    let each = Duration::from_secs(rest.first().map_or(Ok(2), |seconds| seconds.parse())?);
    println!("{:<34} {:>9} {:>9} {:>10}", "call", "p50 µs", "p99 µs", "calls/s");
    let mut log = log(brokers, name)?;
    row("append to the log", each, || {
        done(log.append(b"no entry", VALUE.as_bytes()))
    })?;
    row("ask for its tail", each, || done(log.tail()))?;
    let mut space = Space::open(log)?;
    let (map, other) = (Map::<String>::new("map"), Map::<String>::new("other"));
    let (queue, counter) = (Queue::<String>::new("queue"), Counter::new("counter"));
    let lock: Register<u32> = Register::new("lock");
    let value = VALUE.to_owned();
    let mut number = 0_u32;
    let mut key = || {
        number += 1;
        format!("key {}", number % 1_000)
    };
    row("map: put", each, || done(space.put(&map, &key(), &value)))?;
    row("map: get", each, || done(space.get(&map, &key())))?;
    row("counter: add", each, || done(space.add(&counter, 1)))?;
    row("queue: enqueue", each, || done(space.enqueue(&queue, &value)))?;
    row("queue: take", each, || done(space.take(&queue)))?;
    row("register: lock and unlock", each, || {
        let is_mine = space.set_if(&lock, None, Some(&1))?.is_some();
        if is_mine && space.set_if(&lock, Some(&1), None)?.is_some() {
            Ok(())
        } else {
            Err("somebody else has the lock".into())
        }
    })?;
    row("transaction over two maps", each, || {
        done(transact(&mut space, &map, &other, &key()))
    })?;
    drop(space);
    for views in VIEWS {
        let puts = many(brokers, name, views, each)?;
        println!(
            "{:<34} {:>9} {:>9} {puts:>10.0}",
            format!("map: put, {views} views at a time"),
            "",
            ""
        );
    }
    Ok(())
}

fn log(brokers: &str, name: &str) -> Outcome<KafkaLog> {
    let cluster = Cluster::connect(brokers, ConnectionOptions::default())?;
    Ok(KafkaLog::new(cluster, name)?)
}

fn done<T>(outcome: Result<T, Error>) -> Outcome<()> {
    outcome?;
    Ok(())
}

/// Calls something again and again, and prints how long it took.
fn row(name: &str, each: Duration, mut call: impl FnMut() -> Outcome<()>) -> Outcome<()> {
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < each {
        let before = Instant::now();
        call()?;
        took.push(before.elapsed());
    }
    took.sort_unstable();
    let us = |percent: usize| took[took.len() * percent / 100].as_secs_f64() * 1e6;
    let rate = took.len() as f64 / began.elapsed().as_secs_f64();
    println!("{name:<34} {:>9.0} {:>9.0} {rate:>10.0}", us(50), us(99));
    Ok(())
}

/// Reads a key of each of two maps, and writes both.
fn transact(space: &mut Shared, one: &Map<String>, two: &Map<String>, key: &str) -> Result<(), Error> {
    space.transact(|transaction| {
        let (left, right) = (transaction.get(one, key)?, transaction.get(two, key)?);
        transaction.put(one, key, &right.unwrap_or_default())?;
        transaction.put(two, key, &left.unwrap_or_default())
    })?;
    Ok(())
}

/// Puts a second, of so many views, each in a thread of its own.
fn many(brokers: &str, name: &str, views: usize, each: Duration) -> Outcome<f64> {
    let opened: Vec<Shared> = (0..views)
        .map(|_| Ok(Space::open(log(brokers, name)?)?))
        .collect::<Outcome<_>>()?;
    let began = Instant::now();
    let threads = opened.into_iter().enumerate().map(|(view, mut space)| {
        thread::spawn(move || {
            let (map, mut puts) = (Map::<String>::new("map"), 0_u64);
            while began.elapsed() < each {
                space.put(&map, &format!("key {view} {}", puts % 1_000), &VALUE.to_owned())?;
                puts += 1;
            }
            Ok::<u64, Error>(puts)
        })
    });
    let threads: Vec<_> = threads.collect();
    let mut puts = 0;
    for thread in threads {
        puts += thread.join().map_err(|_| "a view has panicked")??;
    }
    Ok(puts as f64 / began.elapsed().as_secs_f64())
}
