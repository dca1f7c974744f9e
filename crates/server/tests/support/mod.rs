//! A node over a directory of its own, and a client that sends exactly the bytes it is told to.
//!
//! Nothing here is clever on the client's side: frames go out as they are given and come back whole, so that a test can
//! send what no sound client would.
#![allow(
    dead_code,
    unused_imports,
    reason = "what tests share is more than what each of them needs"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "tests stand outside of the node: they open sockets themselves"
)]

mod batches;
mod flushes;
pub(crate) mod groups;
mod node;
mod patience;
mod requests;
mod wire;

pub(crate) use batches::{batch, compressed_batch, now_ms, records_of, stamped_batch};
pub(crate) use flushes::Flushes;
pub(crate) use node::{TestNode, config, http_get};
pub(crate) use patience::{PATIENCE, eventually};
pub(crate) use requests::{creatable, fetch_request, produce_request};
pub(crate) use wire::Wire;
