//! How fast one core copies and sums up bytes: what each further copy or checksum of a record would cost.

use std::hint::black_box;
use std::time::{Duration, Instant};

use crc_fast::{CrcAlgorithm, checksum, crc32_iscsi};

use super::FloorRate;
use crate::report::mb_per_s;

/// Bytes that are copied: more than a CPU's inner caches hold, as records are.
const COPY_BYTES: usize = 16 << 20;
/// Bytes that are summed up: a large batch, in the cache because it was just received.
const SUM_BYTES: usize = 64 << 10;
/// How long each is measured.
const TIME: Duration = Duration::from_millis(100);

/// Measures the three rates.
pub(super) fn measure(rates: &mut Vec<FloorRate>) {
    let source = vec![0x5a; COPY_BYTES];
    let mut target = vec![0; COPY_BYTES];
    rates.push(rate("memcpy", COPY_BYTES, || {
        target.copy_from_slice(black_box(&source));
        black_box(&target);
    }));
    let bytes = &source[..SUM_BYTES];
    rates.push(rate("crc32c", SUM_BYTES, || {
        black_box(crc32_iscsi(black_box(bytes)));
    }));
    rates.push(rate("crc64", SUM_BYTES, || {
        black_box(checksum(CrcAlgorithm::Crc64Nvme, black_box(bytes)));
    }));
}

fn rate(operation: &'static str, bytes: usize, mut once: impl FnMut()) -> FloorRate {
    // The first touches memory and picks the CPU's best instructions.
    once();
    let before = Instant::now();
    let mut rounds = 0;
    while before.elapsed() < TIME {
        once();
        rounds += 1;
    }
    FloorRate {
        operation,
        mb_per_s: mb_per_s(bytes as u64 * rounds, before.elapsed().as_secs_f64()),
    }
}
