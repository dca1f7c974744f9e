//! Objects that several processes share over one log: maps, queues, counters, registers, and transactions over them.
//!
//! ```text
//!   put, take, transact ──► Space ── an entry ──► Log: one partition of a topic, or the twin of a topic with one order
//!                             │ plays                 │
//!                             └─ View ◄── all entries, in their order ◄──┘
//! ```
//! A *space* is a log and what its entries amount to. An *entry* says what a transaction has read and what it does; every process that plays the same entries has
//! the same *view*. Nothing decides but the log: a transaction took effect if nothing that it has read was changed before its entry, and everybody who plays it
//! finds the same (Tango, SOSP 2013). Every process reads from then on what one has written: reads ask for the tail and play up to it.
//!
//! An entry that cannot be read must stop a view, never be passed over: views that passed over different entries would differ for ever. docs/objects.md has each
//! call's promise.

mod checkpoints;
mod entry;
mod error;
mod handles;
mod kafka;
mod log;
mod space;
mod transaction;
mod view;

pub use entry::{Entry, ItemId, Read, Step};
pub use error::{Error, Refusal, Result};
pub use handles::{Counter, Map, Queue, Register};
pub use kafka::{KafkaLog, create, create_checkpoints};
pub use log::{Log, MemoryLog, Record};
pub use space::Space;
pub use transaction::Transaction;
pub use view::{Done, Outcome, View};
