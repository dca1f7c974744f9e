//! A lock and a job queue that processes share over one log, and that survive the death of any of them, and of any node.
//!
//! ```text
//!   jobs create  BROKERS SPACE          makes the topics
//!   jobs submit  BROKERS SPACE COUNT    enqueues jobs
//!   jobs work    BROKERS SPACE NAME     does jobs until all are done; start as many as you like
//!   jobs result  BROKERS SPACE COUNT    waits until so many are done, and checks that each is done once
//!   jobs forget  BROKERS SPACE          keeps a checkpoint, and gives up the entries before it
//! ```
//! A worker takes a job and notes that it has it, in one transaction; when it is done, it notes that in another one, which comes to nothing if the job was given to somebody else
//! meanwhile. One worker holds the lock: it gives back the jobs of workers that show no sign of life. Whoever sees none of the holder's takes the lock from it.

#![expect(clippy::print_stdout, reason = "an example tells what it does")]

use std::collections::BTreeMap;
use std::error::Error as AnyError;
use std::thread::sleep;
use std::time::{Duration, Instant};

use client::{Cluster, ConnectionOptions};
use objects::{Counter, Error, ItemId, KafkaLog, Map, Queue, Register, Space, create};
use serde::{Deserialize, Serialize};

/// A worker that shows no sign of life for so long is given up.
const PATIENCE: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Running {
    worker: String,
    job: u64,
}

/// The objects of the space.
struct Jobs {
    queue: Queue<u64>,
    running: Map<Running>,
    /// The worker that has done each job.
    done: Map<String>,
    finished: Counter,
    /// The same, as a value that each worker reads and writes: what a transaction is for.
    sum: Register<u64>,
    /// Signs of life.
    beats: Map<u64>,
    holder: Register<String>,
}

impl Jobs {
    fn new() -> Jobs {
        Jobs {
            queue: Queue::new("jobs"),
            running: Map::new("running"),
            done: Map::new("done"),
            finished: Counter::new("finished"),
            sum: Register::new("sum"),
            beats: Map::new("beats"),
            holder: Register::new("holder"),
        }
    }
}

type Shared = Space<KafkaLog>;

fn main() -> Result<(), Box<dyn AnyError>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, brokers, space, rest @ ..] = arguments.as_slice() else {
        return Err("jobs create|submit|work|result|forget BROKERS SPACE [COUNT|NAME]".into());
    };
    let connect = || Cluster::connect(brokers, ConnectionOptions::default());
    let open = || Ok::<_, Box<dyn AnyError>>(Space::open(KafkaLog::new(connect()?, space)?)?);
    let jobs = Jobs::new();
    match (what.as_str(), rest) {
        ("create", []) => create(&mut connect()?, space, -1)?,
        ("submit", [count]) => {
            let mut space = open()?;
            let count: u64 = count.parse()?;
            // All of them, or none.
            space.transact(|transaction| {
                (0..count).try_for_each(|job| transaction.enqueue(&jobs.queue, &job))
            })?;
        }
        ("work", [name]) => work(&mut open()?, &jobs, name)?,
        ("forget", []) => {
            let mut space = open()?;
            let position = space.checkpoint()?;
            space.forget()?;
            println!("entries before {position} are forgotten");
        }
        ("result", [count]) => result(&mut open()?, &jobs, count.parse()?)?,
        _ => {
            return Err("create and forget take nothing more, submit and result a count, work a name".into());
        }
    }
    Ok(())
}

/// The signs of life of another worker, as one has seen them.
struct Seen {
    beat: u64,
    since: Instant,
}

fn work(space: &mut Shared, jobs: &Jobs, name: &str) -> Result<(), Box<dyn AnyError>> {
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let mut beat = 0;
    loop {
        beat += 1;
        space.put(&jobs.beats, name, &beat)?;
        look_after_others(space, jobs, name, &mut seen)?;
        let Some((id, running)) = take(space, jobs, name)? else {
            sleep(REST);
            continue;
        };
        // Here it would be carried out.
        sleep(REST);
        if finish(space, jobs, &id, &running)? {
            println!("{name} has done job {}", running.job);
        }
    }
}

fn key_of(ItemId(position, step): ItemId) -> String {
    format!("{position}.{step}")
}

/// Takes a job, and notes that this worker has it.
fn take(space: &mut Shared, jobs: &Jobs, name: &str) -> Result<Option<(String, Running)>, Error> {
    let (taken, _) = space.transact(|transaction| {
        // Whoever is given up must not take anything: nobody would give it back.
        if transaction.get(&jobs.beats, name)?.is_none() {
            return Ok::<_, Error>(None);
        }
        let Some((id, job)) = transaction.first(&jobs.queue)? else {
            return Ok(None);
        };
        let worker = name.to_owned();
        let (key, running) = (key_of(id), Running { worker, job });
        transaction.discard(&jobs.queue, id);
        transaction.put(&jobs.running, &key, &running)?;
        Ok(Some((key, running)))
    })?;
    Ok(taken)
}

/// Notes that a job is done, if it is this worker's still.
fn finish(space: &mut Shared, jobs: &Jobs, key: &str, own: &Running) -> Result<bool, Error> {
    let (is_own, _) = space.transact(|transaction| {
        let is_own = transaction.get(&jobs.running, key)?.as_ref() == Some(own);
        if is_own {
            transaction.remove(&jobs.running, key);
            transaction.put(&jobs.done, &own.job.to_string(), &own.worker)?;
            transaction.add(&jobs.finished, 1);
            let sum = transaction.value(&jobs.sum)?.unwrap_or(0);
            transaction.set(&jobs.sum, Some(&(sum + 1)))?;
        }
        Ok::<bool, Error>(is_own)
    })?;
    Ok(is_own)
}

/// Sees who shows no sign of life any more. The holder of the lock gives back their jobs.
fn look_after_others(
    space: &mut Shared,
    jobs: &Jobs,
    name: &str,
    seen: &mut BTreeMap<String, Seen>,
) -> Result<(), Error> {
    let beats = space.view().entries(&jobs.beats, "", usize::MAX)?;
    let mut dead = Vec::new();
    for (worker, beat) in beats {
        let now = Instant::now();
        let known = seen.entry(worker.clone()).or_insert(Seen { beat, since: now });
        if known.beat != beat {
            *known = Seen { beat, since: now };
        }
        if worker != name && known.since.elapsed() > PATIENCE {
            dead.push(worker);
        }
    }
    let holder = space.view().value(&jobs.holder)?;
    if holder.as_ref().is_none_or(|holder| dead.contains(holder)) {
        let own = name.to_owned();
        if space.set_if(&jobs.holder, holder.as_ref(), Some(&own))?.is_some() {
            println!("{name} holds the lock");
        }
    }
    if space.view().value(&jobs.holder)?.as_deref() != Some(name) {
        return Ok(());
    }
    for worker in dead {
        let seen = seen.get(&worker).map(|seen| seen.beat);
        give_back(space, jobs, name, (&worker, seen))?;
    }
    Ok(())
}

/// Gives back the jobs of a worker that has shown no sign of life since this one, if `name` holds the lock still.
fn give_back(
    space: &mut Shared,
    jobs: &Jobs,
    name: &str,
    (gone, seen): (&str, Option<u64>),
) -> Result<(), Error> {
    let (given_back, _) = space.transact(|transaction| {
        let holds = transaction.value(&jobs.holder)?.as_deref() == Some(name);
        if !holds || transaction.get(&jobs.beats, gone)? != seen {
            return Ok::<usize, Error>(0);
        }
        let mut given_back = 0;
        for (key, running) in transaction.entries(&jobs.running)? {
            if running.worker == gone {
                transaction.remove(&jobs.running, &key);
                transaction.enqueue(&jobs.queue, &running.job)?;
                given_back += 1;
            }
        }
        transaction.remove(&jobs.beats, gone);
        Ok(given_back)
    })?;
    if given_back > 0 {
        println!("{name} has given back {given_back} jobs of {gone}");
    }
    Ok(())
}

fn result(space: &mut Shared, jobs: &Jobs, count: u64) -> Result<(), Box<dyn AnyError>> {
    while (space.count(&jobs.finished)? as u64) < count {
        sleep(REST);
    }
    let view = space.sync()?;
    let done = view.entries(&jobs.done, "", usize::MAX)?.len();
    let finished = view.count(&jobs.finished)?;
    let left = view.queue_len(&jobs.queue)?;
    let sum = view.value(&jobs.sum)?.unwrap_or(0);
    println!(
        "{finished} jobs were finished, {done} different ones, {left} are left; counted one by one they are {sum}"
    );
    match ([done as u64, finished as u64, sum], left) {
        (counts, 0) if counts == [count; 3] => Ok(()),
        _ => Err("a job was lost, or done twice".into()),
    }
}
