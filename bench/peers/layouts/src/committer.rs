//! Group commit: one thread takes all units that wait, has the layout make them durable at once, and answers each.
//!
//! It is the log's sequencer as well: it alone gives positions. A log whose append failed takes nothing any more, for it is
//! unknown what of that is on the disk.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::layout::{Layout, Run};

/// No more is taken at once: what comes later would wait for too long.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// Entries that are acknowledged together.
pub(crate) struct Unit {
    pub(crate) number: u64,
    pub(crate) shard: u32,
    pub(crate) entry_bytes: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) reply: Sender<Answer>,
}

/// What came of a unit.
pub(crate) struct Answer {
    pub(crate) number: u64,
    pub(crate) failure: Option<String>,
    /// The unit's, to be filled again.
    pub(crate) bytes: Vec<u8>,
}

/// The position after the last durable entry of each shard; readers wait for them to move.
pub(crate) struct Tails {
    positions: Mutex<Vec<u64>>,
    moved: Condvar,
}

impl Tails {
    pub(crate) fn new(positions: Vec<u64>) -> Tails {
        Tails {
            positions: Mutex::new(positions),
            moved: Condvar::new(),
        }
    }

    pub(crate) fn shards(&self) -> u32 {
        self.hold().len() as u32
    }

    pub(crate) fn of(&self, shard: u32) -> u64 {
        self.hold()[shard as usize]
    }

    /// As `of`, but waits for at most `wait` while that is not beyond `position`.
    pub(crate) fn beyond(&self, shard: u32, position: u64, wait: Duration) -> u64 {
        let shard = shard as usize;
        let waited = self
            .moved
            .wait_timeout_while(self.hold(), wait, |tails| tails[shard] <= position);
        waited.unwrap_or_else(PoisonError::into_inner).0[shard]
    }

    fn hold(&self) -> MutexGuard<'_, Vec<u64>> {
        self.positions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn move_to(&self, positions: &[u64]) {
        self.hold().copy_from_slice(positions);
        self.moved.notify_all();
    }
}

/// Commits until nobody can send any more.
pub(crate) fn commit_all(layout: &dyn Layout, tails: &Arc<Tails>, queue: &Receiver<Unit>) {
    let mut next: Vec<u64> = tails.hold().clone();
    let mut failure = None;
    let mut group = Vec::new();
    while let Ok(first) = queue.recv() {
        gather(first, queue, &mut group);
        if failure.is_none() {
            match layout.append(&place(&group, &mut next)) {
                Ok(()) => tails.move_to(&next),
                Err(error) => failure = Some(format!("{error:#}")),
            }
        }
        for unit in group.drain(..) {
            // A producer that is gone waits for nothing.
            let _ = unit.reply.send(Answer {
                number: unit.number,
                failure: failure.clone(),
                bytes: unit.bytes,
            });
        }
    }
}

/// All that waits, or as much as may go at once.
fn gather(first: Unit, queue: &Receiver<Unit>, group: &mut Vec<Unit>) {
    let mut bytes = first.bytes.len();
    group.push(first);
    while bytes < GROUP_BYTES_MAX
        && let Ok(unit) = queue.try_recv()
    {
        bytes += unit.bytes.len();
        group.push(unit);
    }
}

/// Gives each unit the next positions of its shard.
fn place<'a>(group: &'a [Unit], next: &mut [u64]) -> Vec<Run<'a>> {
    let place = |unit: &'a Unit| {
        let tail = &mut next[unit.shard as usize];
        let run = Run {
            shard: unit.shard,
            position: *tail,
            entry_bytes: unit.entry_bytes,
            bytes: &unit.bytes,
        };
        *tail += (unit.bytes.len() / unit.entry_bytes) as u64;
        run
    };
    group.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use anyhow::{Result, bail};

    use super::*;
    use crate::layout::Visit;

    /// Remembers what was appended together; fails from the n-th append on.
    struct Fake {
        groups: Mutex<Vec<Vec<(u32, u64)>>>,
        failing_from: usize,
        appends: AtomicUsize,
    }

    impl Fake {
        fn new(failing_from: usize) -> Fake {
            Fake {
                groups: Mutex::new(Vec::new()),
                failing_from,
                appends: AtomicUsize::new(0),
            }
        }
    }

    impl Layout for Fake {
        fn append(&self, runs: &[Run<'_>]) -> Result<()> {
            if self.appends.fetch_add(1, Ordering::Relaxed) >= self.failing_from {
                bail!("the disk is gone");
            }
            let group = runs.iter().map(|run| (run.shard, run.position)).collect();
            self.groups.lock().expect("no panic").push(group);
            Ok(())
        }

        fn scan(&self, _: u32, _: Range<u64>, _: &mut Visit<'_>) -> Result<()> {
            bail!("nothing is kept")
        }

        fn tail(&self, _: u32) -> Result<u64> {
            Ok(0)
        }
    }

    /// Commits units of these shards and sizes, all of which wait; the failures in the order of the answers.
    fn commit(fake: &Fake, tails: &Arc<Tails>, units: &[(u32, usize)]) -> Vec<Option<String>> {
        let (queue, received) = mpsc::channel();
        let (reply, answers) = mpsc::channel();
        for (number, (shard, entries)) in (0..).zip(units) {
            let bytes = vec![0; entries * 10];
            let unit = Unit {
                number,
                shard: *shard,
                entry_bytes: 10,
                bytes,
                reply: reply.clone(),
            };
            queue.send(unit).expect("it is received");
        }
        drop((queue, reply));
        commit_all(fake, tails, &received);
        answers.iter().map(|answer| answer.failure).collect()
    }

    #[test]
    fn all_that_waits_is_committed_at_once_and_in_order() {
        let (fake, tails) = (Fake::new(9), Arc::new(Tails::new(vec![5, 0])));
        let answers = commit(&fake, &tails, &[(0, 1), (1, 3), (0, 2), (1, 1)]);
        assert_eq!(answers, vec![None; 4]);
        assert_eq!(
            *fake.groups.lock().expect("no panic"),
            [[(0, 5), (1, 0), (0, 6), (1, 3)]]
        );
        assert_eq!((tails.of(0), tails.of(1)), (8, 4));
    }

    #[test]
    fn a_group_has_its_bounds() {
        let (fake, tails) = (Fake::new(9), Arc::new(Tails::new(vec![0])));
        commit(&fake, &tails, &[(0, GROUP_BYTES_MAX / 10); 3]);
        assert_eq!(
            fake.groups
                .lock()
                .expect("no panic")
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>(),
            [2, 1]
        );
    }

    #[test]
    fn nothing_is_appended_after_a_failure() {
        let (fake, tails) = (Fake::new(1), Arc::new(Tails::new(vec![0])));
        let units = [(0, GROUP_BYTES_MAX / 5); 3];
        let answers = commit(&fake, &tails, &units);
        let failure = Some("the disk is gone".to_owned());
        assert_eq!(answers, [None, failure.clone(), failure]);
        assert_eq!(fake.appends.load(Ordering::Relaxed), 2);
        assert_eq!(tails.of(0), (GROUP_BYTES_MAX / 5) as u64);
    }
}
