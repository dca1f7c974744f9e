//! Everything that comes from the operating system: files, connections, clocks, randomness, threads, memory; and the ways in which
//! the tasks of one thread share it (`turns`, `slices`) and count (`counters`). The timers of requests are the runtime's (tokio), in `server`.
//!
//! Each has a real and, where tests need one, a simulated side. `unsafe` is allowed here alone, each block
//! with its reason. Nothing here knows what a record is.

// The workspace denies unsafe code; aligned allocation (`memory`) cannot be written without it, and this is the one
// crate where it may stand, each block with its reason.
#![allow(unsafe_code)]

pub mod clock;
pub mod counters;
pub mod disk;
pub mod memory;
pub mod net;
pub mod process;
pub mod random;
pub mod slices;
pub mod threads;
pub mod turns;
pub mod work;
