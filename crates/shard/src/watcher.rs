//! A reader that waits for partitions to move, and the numbers of those that did. Woken from any thread, without a lock: a core
//! that commits must not wait for readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A reader that waits for any of its partitions, which it numbers from 0, to move.
#[derive(Debug)]
pub struct Watcher {
    woken: Notify,
    /// A bit for each partition.
    moved: Box<[AtomicU64]>,
}

impl Watcher {
    /// A reader of this number of partitions, none of which has moved.
    pub fn new(partitions: usize) -> Arc<Watcher> {
        let words = partitions.div_ceil(64).max(1);
        Arc::new(Watcher {
            woken: Notify::new(),
            moved: (0..words).map(|_| AtomicU64::new(0)).collect(),
        })
    }

    /// Wakes the reader: the partition of this number has moved, or is gone. The number is less than those of `new`.
    pub fn wake(&self, number: u32) {
        let bit = 1 << (number % 64);
        self.moved[number as usize / 64].fetch_or(bit, Ordering::Release);
        self.woken.notify_one();
    }

    /// Returns when a partition has moved since this returned last.
    pub async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Takes the numbers of the partitions that have moved since the last call, in ascending order.
    pub fn take_moved(&self) -> Vec<usize> {
        let mut moved = Vec::new();
        for (at, word) in self.moved.iter().enumerate() {
            let mut bits = word.swap(0, Ordering::Acquire);
            while bits != 0 {
                moved.push(at * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn which_partitions_moved_is_told_once() {
        let watcher = Watcher::new(200);
        assert!(watcher.woken().now_or_never().is_none());
        for number in [199, 0, 64, 0] {
            watcher.wake(number);
        }
        assert!(watcher.woken().now_or_never().is_some());
        assert_eq!(watcher.take_moved(), [0, 64, 199]);
        assert!(watcher.take_moved().is_empty());
        assert!(watcher.woken().now_or_never().is_none());
    }
}
