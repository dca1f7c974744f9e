//! Transactions: list, describe, abort, and what is open in a partition. Questions go to the coordinators and to the leaders of
//! partitions in their own words, as Kafka's requests do once they are understood.

mod abort;
mod coordinator;
mod describe;
mod filter;
mod of_partition;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::Response;
use futures_util::future::join_all;
use protocol::leader::NodeId;
use protocol::transactions::{DescribedTransaction, ListedTransaction};
use serde::{Deserialize, Serialize};

use super::App;
use super::body::held_json;
use super::connection::Connection;
use super::others::is_handed_on;
use super::problem::Problem;
use super::uri::Query;

pub(super) use abort::{abort, abort_hanging};
pub(super) use coordinator::TransactionRefusal;
pub(super) use describe::describe;
pub(super) use of_partition::of_partition;

use filter::Filter;

/// A transactional id and its latest transaction, as the list has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Listed {
    id: String,
    state: String,
    producer_id: i64,
    producer_epoch: i16,
    /// The node that coordinates it.
    coordinator: i32,
    timeout_ms: i32,
    /// The start of the latest transaction, if there was one.
    start_ms: Option<i64>,
    /// The time since then, if it is not completed.
    open_ms: Option<i64>,
    /// Partitions of a transaction that is not completed.
    partition_count: usize,
}

impl Listed {
    /// A transaction as the coordinator on a node has it now.
    fn of(transaction: &ListedTransaction, node: NodeId, now_ms: i64) -> Listed {
        let start_ms = Some(transaction.start_ms).filter(|start_ms| *start_ms >= 0);
        let open = start_ms.filter(|_| transaction.state.is_open());
        Listed {
            id: transaction.transactional_id.to_string(),
            state: transaction.state.name().to_owned(),
            producer_id: transaction.producer.0,
            producer_epoch: transaction.epoch,
            coordinator: node.0,
            timeout_ms: transaction.timeout_ms,
            start_ms,
            open_ms: open.map(|start_ms| now_ms.saturating_sub(start_ms).max(0)),
            partition_count: transaction.partition_count,
        }
    }

    fn of_described(described: &DescribedTransaction, node: NodeId, now_ms: i64) -> Listed {
        let listed = ListedTransaction {
            transactional_id: described.transactional_id.clone(),
            producer: described.producer,
            epoch: described.epoch,
            state: described.state,
            timeout_ms: described.timeout_ms,
            start_ms: described.start_ms,
            partition_count: described.partitions.len(),
        };
        Listed::of(&listed, node, now_ms)
    }
}

/// A part of the list.
#[derive(Debug, Serialize)]
struct Listing {
    transactions: Vec<Listed>,
    /// With which the list goes on.
    next: Option<String>,
    /// Nodes whose transactions are not among them: they are away, do not answer, or have not said where they serve HTTP.
    missing_nodes: Vec<i32>,
}

/// The part of another node's list that is wanted.
#[derive(Debug, Deserialize)]
struct OthersListing {
    transactions: Vec<Listed>,
    next: Option<String>,
}

/// Answers `GET /v1/transactions`: by id, so many at a time.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Result<Response, Problem> {
    let query = Query::read(request.uri().query(), Filter::PARAMETERS)?;
    let filter = Filter::read(&query)?;
    let paging = &filter.paging;
    let is_asked_by_node = is_handed_on(request.headers());
    if !is_asked_by_node && let Some(place) = &filter.asked.partition {
        let topic = app.cores.topic(&place.topic).await?;
        topic.partition(&place.index.to_string())?;
    }
    let mut found = filter.find(&app).await?;
    let (mut missing_nodes, mut are_cut) = (Vec::new(), false);
    if !is_asked_by_node {
        let (others, missing) = app.cores.others().await?;
        missing_nodes = missing;
        let asked = others
            .iter()
            .map(|other| app.cores.page_elsewhere(other, request.uri()));
        for (other, listing) in others.iter().zip(join_all(asked).await) {
            match listing {
                Ok(OthersListing { transactions, next }) => {
                    are_cut |= next.is_some();
                    found.extend(transactions);
                }
                Err(_) => missing_nodes.push(other.node().0),
            }
        }
        missing_nodes.sort_unstable();
        found = paging.first_by_name(found, |transaction| &transaction.id);
        // One that has just got another coordinator may be told by both.
        found.dedup_by(|one, other| one.id == other.id);
    }
    let (transactions, next) = paging.cut(found, |transaction| &transaction.id);
    let last = transactions.last().filter(|_| are_cut);
    let next = next.or_else(|| last.map(|last| last.id.clone()));
    let listing = Listing {
        transactions,
        next,
        missing_nodes,
    };
    held_json(&app, &connection, listing).await
}
