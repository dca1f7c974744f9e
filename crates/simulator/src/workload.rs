//! The clients of a simulation: they produce, read, commit offsets and change topics. Each runs for ever and survives every error that a
//! client may meet; at the end it finishes what it has begun.

mod admin;
mod committer;
mod member;
mod producer;
mod reader;
mod trespasser;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kafka_wire::{ApiKey, ErrorCode, Text};
use platform::net::Net;
use tokio::time::sleep;

use crate::client::Client;
use crate::history::{History, Place};
use crate::order::OrderBook;
use crate::trace::Trace;

pub(crate) use admin::{administer, create_topics};
pub(crate) use committer::commit_offsets;
pub(crate) use member::{CREW, take_part};
pub(crate) use producer::{Production, produce};
pub(crate) use reader::{read_all, read_on};
pub(crate) use trespasser::trespass;

/// The topics that are written to, and how many partitions each has.
pub(crate) const TOPICS: [(&str, i32); 2] = [("north", 3), ("south", 1)];
/// The topic that always has one order where topics have orders. The others have one now and then.
pub(crate) const ORDERED: usize = 0;
/// How long a client rests after an error.
const REST: Duration = Duration::from_millis(50);

/// All partitions that are written to.
pub(crate) fn places() -> Vec<Place> {
    let of_topic =
        |(topic, (_, partitions)): (usize, &(&str, i32))| (0..*partitions).map(move |index| (topic, index));
    TOPICS.iter().enumerate().flat_map(of_topic).collect()
}

/// A reason with `#` for each number.
fn without_numbers(reason: &str) -> String {
    let mut all = String::new();
    for letter in reason.chars() {
        match letter.is_ascii_digit() {
            false => all.push(letter),
            true if all.ends_with('#') => {}
            true => all.push('#'),
        }
    }
    all
}

/// State that all clients share.
#[derive(Clone)]
pub(crate) struct World {
    /// The network as the clients' host sees it.
    pub(crate) net: Arc<dyn Net>,
    /// Where the node is.
    pub(crate) node: SocketAddr,
    /// The history that they write.
    pub(crate) history: History,
    /// The trace of the run.
    pub(crate) trace: Trace,
    /// Nothing new is begun any more.
    pub(crate) ends: Rc<Cell<bool>>,
    /// Clients that have not finished.
    pub(crate) unfinished: Rc<Cell<usize>>,
    /// The order of the topic that always has one, if topics have orders.
    pub(crate) order: Option<OrderBook>,
}

impl World {
    /// A connection, however long it takes.
    async fn connect(&self) -> Client {
        loop {
            match Client::connect(&self.net, self.node).await {
                Ok(client) => return client,
                Err(error) => {
                    self.trace.count(format!("connect: {:?}", error.kind()));
                    sleep(REST).await;
                }
            }
        }
    }

    /// Counts the outcome of a request, for the table of what was reached.
    fn reached(&self, api: ApiKey, code: i16) -> Option<ErrorCode> {
        self.told(api, code, None)
    }

    /// Counts an outcome that is told with its reason: several may have one code.
    fn told(&self, api: ApiKey, code: i16, reason: Option<&Text>) -> Option<ErrorCode> {
        let error = ErrorCode::from_code(code);
        match (code, error) {
            (0, _) => self.trace.count(format!("{api:?}: ok")),
            (_, Some(error)) => {
                let reason =
                    reason.map_or_else(String::new, |reason| format!(": {}", without_numbers(reason)));
                self.trace.count(format!("{api:?}: {error:?}{reason}"));
            }
            (_, None) => self
                .history
                .violate(format!("{api:?} answered the unknown error {code}")),
        }
        if code == 0 { None } else { error }
    }
}
