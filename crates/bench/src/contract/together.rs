//! Threads that begin a load together: each gets ready, all wait until everyone is, and then they work.
//!
//! A thread that cannot get ready ends the load before it has begun; one that dies ends it, too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{OnceLock, RwLock};
use std::thread::Builder;
use std::time::Instant;

use anyhow::{Context, Result, anyhow};

use super::watch::Watch;

/// Runs `count` threads called `name`. On its thread, each calls `get_ready` with its number, and `work` with what that gave
/// once everyone is ready. When that is, `begin` says, once and before anybody works. The beginning, and what each did, by its number.
///
/// `records` is what the threads count in for `watch`.
///
/// # Errors
/// The first of `get_ready`, and those of `watch`.
///
/// # Panics
/// If a thread does, after all others have ended.
pub(crate) fn run<R, O: Send>(
    count: u32,
    name: &str,
    get_ready: impl Fn(u32) -> Result<R> + Sync,
    work: impl Fn(R, Instant) -> O + Sync,
    begin: impl FnOnce() -> Instant,
    records: &AtomicU64,
    watch: &mut dyn Watch,
) -> Result<(Instant, Vec<O>)> {
    // Closed for as long as it is held for writing.
    let (gate, began) = (RwLock::new(()), OnceLock::new());
    std::thread::scope(|scope| {
        let closed = gate.write().expect("nobody else has it yet");
        let (arrive, arrivals) = mpsc::channel();
        let (finish, finished) = mpsc::channel();
        for index in 0..count {
            let (arrive, finish) = (arrive.clone(), finish.clone());
            let (gate, began, get_ready, work) = (&gate, &began, &get_ready, &work);
            let life = move || {
                let (ready, arrived) = match get_ready(index) {
                    Ok(ready) => (Some(ready), Ok(())),
                    Err(error) => (None, Err(error)),
                };
                // Whoever dies before this is missed when nobody is left who could still arrive.
                let _ = arrive.send(arrived);
                drop(arrive);
                drop(gate.read());
                // Without a beginning another one was not ready.
                if let (Some(ready), Some(began)) = (ready, began.get()) {
                    let _ = finish.send((index, work(ready, *began)));
                }
            };
            let thread = Builder::new().name(format!("{name}-{index}"));
            thread
                .spawn_scoped(scope, life)
                .with_context(|| format!("cannot start a thread for {name} {index}"))?;
        }
        drop((arrive, finish));
        for _ in 0..count {
            let arrived = arrivals.recv();
            arrived.map_err(|_| anyhow!("a {name} died before it began"))??;
        }
        watch.started()?;
        let begins = *began.get_or_init(begin);
        drop(closed);
        let outcomes = wait_for_outcomes(&finished, records, watch);
        watch.done()?;
        Ok((begins, outcomes))
    })
}

/// Tells `watch` how it goes until every thread has finished.
fn wait_for_outcomes<O>(finished: &Receiver<(u32, O)>, records: &AtomicU64, watch: &mut dyn Watch) -> Vec<O> {
    let mut outcomes = Vec::new();
    let period = watch.period();
    let mut next = Instant::now() + period;
    loop {
        match finished.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(outcome) => outcomes.push(outcome),
            Err(RecvTimeoutError::Timeout) => {
                next += period;
                watch.progress(records.load(Ordering::Relaxed));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
