//! Tests of the built binary, as a user runs it: single commands, and sessions with a node.

mod command_line;
mod configuration;
mod embedded;
mod live;
mod log;
mod operating;
mod records;
mod reports;
mod session;
mod shell;
mod support;
mod top;
mod transactions;
