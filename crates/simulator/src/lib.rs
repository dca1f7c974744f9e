//! Whole nodes of the real code in one thread, from one seed.
//!
//! A seed decides what runs next, how long the network and blocking jobs take, what fails and when, and what clients do. The same seed
//! gives the same run, step by step: a failure is followed by running its seed again. The code that runs is the node's own, from its
//! sockets' side down; only the parts that it is handed are simulated. Nothing here may read a real clock or draw from anything but
//! the seed, but for the report of how long a run took.
//!
//! ```text
//!   run (one seed)
//!     engine: which unit goes on ── units: the cores of each machine, the clients
//!     machine: disk, clock, node ── faults: kills, power cuts, cuts, resets, disk errors …
//!     workload: what clients do ─► history: what they saw, and what must be true of it; order: the same of positions;
//!                                                     transactions: clients and a ledger of their own
//! ```

mod client;
mod damage;
mod engine;
mod faults;
mod history;
mod machine;
mod members;
mod order;
mod panics;
mod parts;
mod run;
mod trace;
mod transactions;
mod workload;

pub use faults::FaultCounts;
pub use run::{Options, Report, run};
