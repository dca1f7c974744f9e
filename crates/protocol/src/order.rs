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
//! goes on behind them: what stands behind a gap may get other positions then, for nobody was told. Cuts that were shown are gathered from all shards, and
//! put on [`Page`]s: by them a position is found among very many.
//!
//! Nothing here does I/O. It must never show a position that a later generation could give to another record.

mod cutter;
mod entry;
mod gathered;
mod line;
mod page;
mod recover;
mod scribe;
#[cfg(test)]
mod tests;

use record::TopicId;

pub use cutter::{Cutter, Shown};
pub use entry::{Cut, Entry, Generation, Open, Run};
pub use gathered::{Gathered, PAGE_RUNS, SealedPage};
pub use line::{Line, SharedNumber};
pub use page::{Page, Place};
pub use recover::{Contradiction, Recovered, recover};
pub use scribe::{Claim, ClaimRefusal, Committed, LANE, Ordered, Report, Scribe};

/// The bits of each byte in which a topic's id differs from that of its keeper.
const KEEPER: u8 = 0x5a;
/// The bits in which it differs from that of the log of its order.
const ORDER_LOG: u8 = 0xa5;

/// The end of a twin's name, behind the topic's, by which Kafka's consumers read it in its order. No topic can be called so.
pub const TWIN_SUFFIX: &str = "@total";

/// The topic whose partitions keep a topic's order: a strand on each shard, and the pages. No client knows it.
#[must_use]
pub fn keeper_of(topic: TopicId) -> TopicId {
    // Any change will do that comes to nothing when it is made twice. Ids are random, so it meets no other topic.
    TopicId(topic.0.map(|byte| byte ^ KEEPER))
}

/// The topic whose one partition is the log of a topic's order, where several nodes can hold that; and of such a log the topic that it orders.
#[must_use]
pub fn order_log_of(topic: TopicId) -> TopicId {
    TopicId(topic.0.map(|byte| byte ^ ORDER_LOG))
}
