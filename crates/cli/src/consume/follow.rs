//! Partitions read for ever, each on a thread of its own: a fetch waits at the broker, and partitions must not wait for
//! each other.
//!
//! What came is printed and handed on at once unless more waits already: a followed record never waits for the next one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use client::{Cluster, Consumer, ConsumerOptions, Fetched};

use super::printer::{Printer, Then};
use super::{ConsumeArguments, start_of};
use crate::failure::note;

/// How long a follower waits before it looks for a lost leader again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(500);
/// What followers have fetched and is not printed yet, in fetches.
const FETCHES_WAITING: usize = 4;

/// What a follower brings: its partition, and what it fetched or why it cannot go on.
type News = (i32, Result<Fetched>);

/// Prints all partitions as records come, until all ends are reached or the process is ended.
pub(super) fn run(arguments: &ConsumeArguments, partitions: &[i32], printer: &mut Printer) -> Result<()> {
    let (give, take) = sync_channel(FETCHES_WAITING);
    let mut open = BTreeMap::new();
    for partition in partitions.iter().copied() {
        let ended = Arc::new(AtomicBool::new(false));
        let mut cluster = arguments.remote.connect()?;
        let start = start_of(arguments, &mut cluster, partition)?;
        let options = ConsumerOptions::default();
        let consumer = Consumer::new(&mut cluster, &arguments.topic, partition, start, options)?;
        // No record that comes would be printed; waiting for one that says so could take for ever.
        if arguments
            .until
            .is_some_and(|until| until.is_reached(consumer.position()))
        {
            continue;
        }
        let follower = Follower {
            cluster,
            consumer,
            partition,
            ended: ended.clone(),
        };
        let give = give.clone();
        let thread = thread::Builder::new().name(format!("partition-{partition}"));
        let started = thread.spawn(move || follower.run(&give));
        started.context("a thread for a partition could not be started")?;
        open.insert(partition, ended);
    }
    drop(give);
    while !open.is_empty() {
        let Some((partition, news)) = next(&take, printer)? else {
            break;
        };
        // What an ended partition still had fetched is behind its end.
        if !open.contains_key(&partition) {
            continue;
        }
        match printer.print(partition, &news?, None)? {
            Then::Continue => {}
            Then::EndPartition => {
                let ended = open.remove(&partition).expect("looked up just now");
                ended.store(true, Ordering::Relaxed);
            }
            Then::End => break,
        }
    }
    printer.flush()
}

/// The next news, for which nothing printed is held back. `None` when all followers are gone.
fn next(take: &Receiver<News>, printer: &mut Printer) -> Result<Option<News>> {
    match take.try_recv() {
        Ok(news) => Ok(Some(news)),
        Err(TryRecvError::Disconnected) => Ok(None),
        Err(TryRecvError::Empty) => {
            printer.flush()?;
            Ok(take.recv().ok())
        }
    }
}

struct Follower {
    cluster: Cluster,
    consumer: Consumer,
    partition: i32,
    /// Set when nothing more of this partition is wanted.
    ended: Arc<AtomicBool>,
}

impl Follower {
    fn run(mut self, give: &SyncSender<News>) {
        if let Err(error) = self.follow(give) {
            // If nobody takes it, the command is over.
            let _ = give.send((self.partition, Err(error)));
        }
    }

    fn follow(&mut self, give: &SyncSender<News>) -> Result<()> {
        while !self.ended.load(Ordering::Relaxed) {
            let fetched = match self.consumer.fetch() {
                Ok(fetched) => fetched,
                Err(error) if error.is_retriable() => {
                    note(&format!("partition {}: {error}; trying again", self.partition));
                    self.reconnect()?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if !fetched.is_empty() && give.send((self.partition, Ok(fetched))).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn reconnect(&mut self) -> Result<()> {
        loop {
            thread::sleep(RECONNECT_PAUSE);
            match self.consumer.reconnect(&mut self.cluster) {
                Ok(()) => return Ok(()),
                Err(error) if error.is_retriable() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
