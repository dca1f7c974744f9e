//! One order over the partitions of a topic: each record gets a position, and every reader sees the same sequence of them.
//!
//! ```text
//!   shard 0   cut [0,5): partition 0, offsets 0..3; partition 2, offsets 0..2
//!   shard 1   cut [5,9): partition 1, offsets 0..4
//!   shard 0   cut [9,10): partition 2, offset 2             position 7 is partition 1, offset 2
//! ```
//! A shard takes positions for all that it has staged when it seals a flush, and says in the same frame which they are: a *cut*, whose *runs*
//! are whole batches. Cuts of all shards take their positions from one counter, the [`Line`]. A position is *ordered* when it and all below
//! are durable: no other one is told to anybody. After a crash, [`recover`] finds the cuts that count, and a new *generation*
//! goes on behind them: what stands behind a gap may get other positions then, for nobody was told.
//!
//! Nothing here does I/O. It must never show a position that a later generation could give to another record.

mod cutter;
mod entry;
mod line;
mod recover;
#[cfg(test)]
mod tests;

pub use cutter::Cutter;
pub use entry::{Cut, Entry, Generation, Open, Run};
pub use line::{Line, SharedNumber};
pub use recover::{Contradiction, Recovered, recover};
