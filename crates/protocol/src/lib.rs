//! The protocol cores: a partition's replicas, its leader, producers and epochs, consumer groups, and the cluster's metadata.
//!
//! Everything here is a pure state machine: inputs in (`handle_*`, `apply`), actions out (`next_action`),
//! the next moment that matters by `deadline`. Time is an argument; nothing does I/O, draws random
//! numbers or looks at a clock. `now` is always monotonic time since the process started, so that a
//! wall clock that jumps cannot make a partition forget its producers.

mod encoding;
pub mod epochs;
pub mod groups;
pub mod history;
pub mod leader;
pub mod metadata;
pub mod order;
pub mod peer;
pub mod producers;
pub mod replica;
pub mod transactions;

pub use encoding::DecodeError;
pub use epochs::{EpochEnd, EpochError, Epochs, Run};
pub use history::{BatchFacts, Ending, History, Part, RecoverError, Vows};
pub use leader::{
    AckError, Action, Append, AppendError, Appended, Checked, Durability, EndMarker, Found, Inside, Leader,
    LeaderState, NodeId, Numbered, Permit, Replica, Sealed, TransactionError, TrimError,
};
pub use metadata::{ApplyError, Command, Metadata, PlanError};
pub use producers::{Admission, ProducerId, ProducerLimits, Producers, Remembered, SequenceError, Stamp};
