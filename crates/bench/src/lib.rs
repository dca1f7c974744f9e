//! Workloads against any broker of Kafka's protocol, and the floors of the machine they run on.
//!
//! Each workload is a struct of options (read from a command line by `clap`), a `run`, and a report that is one flat JSON
//! object or a few lines of text. Nothing here links the server: what is measured stands behind a socket.
//!
//! Units in all reports: microseconds in `_us`, 10^6 bytes in `_mb`, 10^9 bytes in `_gb`, seconds of processor time in
//! `_cpu_s`.

pub mod append;
mod broker;
pub mod commit;
pub mod contract;
pub mod drive;
pub mod floor;
mod latency;
pub mod members;
pub mod number;
mod progress;
pub mod read;
mod reading;
mod report;
mod usage;
pub mod version;

pub use append::{AppendOptions, AppendReport};
pub use broker::Broker;
pub use commit::{CommitOptions, CommitReport};
pub use drive::DriveOptions;
pub use floor::{FloorOptions, FloorReport};
pub use latency::{Latency, LatencyRecorder};
pub use members::{MembersOptions, MembersReport};
pub use read::{Decode, ReadOptions, ReadReport};
pub use report::Report;
pub use usage::Usage;
