//! The node: cores, connections, handlers, and what starts and stops them. Glue only: what is decided is decided in
//! `protocol`, what is stored is stored by `storage`.
//!
//! The story of an append: `connection` → `api` → `append_path` → `shard`'s `append`, then its `flush` → the answer.

mod accept;
mod answer_budget;
mod api;
mod append_path;
mod budget;
mod caller;
mod change_log;
mod clock_guard;
pub mod config;
mod connection;
mod controller;
mod core;
mod core_death;
mod core_life;
mod disk_watch;
mod error_codes;
mod fetch_path;
mod fetch_session;
mod groups;
mod http;
mod idle_poll;
mod leader_hints;
mod log_bounds;
mod long;
mod mailbox;
mod maintenance;
mod metadata_at_rest;
mod metrics;
mod node;
mod order;
mod owner;
mod peers;
mod producer_ids;
pub mod record_json;
mod seats;
mod topic_names;
mod transactions;

pub use core_death::CoreDied;
pub use core_life::CoreLife;
pub use metadata_at_rest::MetadataAtRest;
pub use node::{Assembled, Handle, Node, Opening, Parts, StartError};
pub use platform::turns::Turns;
pub use topic_names::TopicNames;
