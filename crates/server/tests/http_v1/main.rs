//! The log over HTTP: a whole node in this process, asked as curl and browsers ask it. Every answer that comes here is
//! compared with what the OpenAPI document says of it.
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the node: they open sockets and files themselves"
)]

#[path = "../support/mod.rs"]
mod support;

mod appends;
mod budgets;
mod client;
mod conditions;
mod configs;
mod dashboards;
mod documentation;
mod follows;
mod groups;
mod openapi;
mod order;
mod others;
mod places;
mod reads;
mod refusals;
mod schema;
mod topics;
mod transactions;
