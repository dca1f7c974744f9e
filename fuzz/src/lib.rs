//! The bodies of the fuzz targets: plain functions of bytes that panic when a promise is broken.
//!
//! The binaries in `fuzz_targets` hand them to libFuzzer (`make fuzz TARGET=...`); `tests/short_run.rs` hands them a fixed
//! number of inputs made from the seeds, in every test run. So a target can not rot, and a finding becomes a seed.

pub mod batches;
pub mod frames;
pub mod group_log;
pub mod histories;
mod input;
mod messages;
pub mod metadata;
pub mod peers;
pub mod recovery;
pub mod requests;
mod vary;

pub use vary::Vary;

/// A target: its name, its body, and inputs to begin with.
pub struct Target {
    /// The name of its binary and of its folder under `seeds`.
    pub name: &'static str,
    /// Panics if the input breaks a promise.
    pub run: fn(&[u8]),
    /// The inputs that `seeds` is written from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How many inputs the short run makes of each seed.
    pub short_rounds: usize,
    /// The most memory that one input may take, while it is run.
    pub memory_bytes_max: u64,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "frames",
        run: frames::run,
        seeds: frames::seeds,
        short_rounds: 400,
        memory_bytes_max: 8 << 20,
    },
    Target {
        name: "requests",
        run: requests::run,
        seeds: requests::seeds,
        short_rounds: 400,
        memory_bytes_max: 8 << 20,
    },
    Target {
        name: "batches",
        run: batches::run,
        seeds: batches::seeds,
        short_rounds: 1_500,
        memory_bytes_max: 16 << 20,
    },
    Target {
        name: "recovery",
        run: recovery::run,
        seeds: recovery::seeds,
        short_rounds: 150,
        memory_bytes_max: 64 << 20,
    },
    Target {
        name: "histories",
        run: histories::run,
        seeds: histories::seeds,
        short_rounds: 1_500,
        memory_bytes_max: 8 << 20,
    },
    Target {
        name: "metadata",
        run: metadata::run,
        seeds: metadata::seeds,
        short_rounds: 800,
        // A million partitions that are alike stand in a few bytes, and two images are held.
        memory_bytes_max: 96 << 20,
    },
    Target {
        name: "group_log",
        run: group_log::run,
        seeds: group_log::seeds,
        short_rounds: 800,
        // As of the metadata: three images are held.
        memory_bytes_max: 128 << 20,
    },
    Target {
        name: "peers",
        run: peers::run,
        seeds: peers::seeds,
        short_rounds: 400,
        memory_bytes_max: 8 << 20,
    },
];
