//! Bytes that one read asks of a disk at once: few while durable writes come, for these wait behind what was asked
//! for before them; else all, which is read faster.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes that one call reads beside durable writes: whole blocks, or a direct read would be refused. With twice as much they wait
/// twice as long, and no more is read.
pub(super) const STEP_BYTES: usize = 128 << 10;
/// So long after a durable write the next one is expected.
const EXPECTED_WITHIN: Duration = Duration::from_millis(100);

/// Of one disk; shared by its files.
#[derive(Debug)]
pub(super) struct ReadPace {
    origin: Instant,
    /// Up to when a durable write is expected, in milliseconds since the origin.
    expected_until_ms: AtomicU64,
}

impl Default for ReadPace {
    fn default() -> ReadPace {
        ReadPace {
            origin: Instant::now(),
            expected_until_ms: AtomicU64::new(0),
        }
    }
}

impl ReadPace {
    pub(super) fn note_durable_write(&self) {
        let until = self.now_ms() + EXPECTED_WITHIN.as_millis() as u64;
        self.expected_until_ms.store(until, Ordering::Relaxed);
    }

    /// The part of `wanted` bytes to ask for now; whole blocks, if it is not all.
    pub(super) fn step_bytes(&self, wanted: usize) -> usize {
        match self.now_ms() < self.expected_until_ms.load(Ordering::Relaxed) {
            true => wanted.min(STEP_BYTES),
            false => wanted,
        }
    }

    fn now_ms(&self) -> u64 {
        self.origin.elapsed().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_beside_durable_writes_reads_go_step_by_step() {
        let pace = ReadPace::default();
        assert_eq!(pace.step_bytes(4 * STEP_BYTES), 4 * STEP_BYTES);
        pace.expected_until_ms.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(pace.step_bytes(4 * STEP_BYTES), STEP_BYTES);
        assert_eq!(pace.step_bytes(100), 100);
        pace.expected_until_ms.store(0, Ordering::Relaxed);
        pace.note_durable_write();
        assert!(pace.expected_until_ms.load(Ordering::Relaxed) >= 100);
    }
}
