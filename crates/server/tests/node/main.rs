//! A whole node in this process, driven over sockets: every API in several versions, and what nobody should send.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the node: they open sockets and files themselves"
)]

#[path = "../support/mod.rs"]
mod support;

mod administration;
mod altering;
mod ask;
mod batches;
mod compaction;
mod configs;
mod creation;
mod directories;
mod faults;
mod fetches;
mod figures;
mod frames;
mod full_disks;
mod groups;
mod heavy_batches;
mod insync_replicas;
mod internal_topics;
mod latencies;
mod members;
mod memory_topics;
mod metadata_room;
mod offsets;
mod producers;
mod readiness;
mod reading_back;
mod recompression;
mod restarts;
mod retention;
mod room;
mod security;
mod slow_readers;
mod topic_pages;
mod topics;
mod transactions;
mod twins;
mod unsound_batches;
mod wide;
