//! The transactions that are open in a partition, and whether a coordinator knows them. One that no coordinator knows hangs: nobody ends
//! it, and readers of committed records wait for it.
//!
//! ```text
//!   the leader: what is open ─► all coordinators: what has this partition ─► the leader again: what is still open
//! ```
//! In this order: a transaction that is open at both looks was so all the time between, in which its coordinator did not know it. What is
//! being ended meanwhile is not told.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use futures_util::future::join_all;
use protocol::groups::Name;
use protocol::transactions::TopicPartition;
use record::{Offset, PartitionId};
use serde::Serialize;
use shard::{OpenTransaction, OpenTransactions, ReadRefusal, Shard};

use super::super::App;
use super::super::body::held_json;
use super::super::connection::Connection;
use super::super::cores::{KnownTopic, Unread};
use super::super::others::Other;
use super::super::paging::Paging;
use super::super::problem::Problem;
use super::super::uri::{Query, bad_parameter};
use super::filter::Filter;
use super::{Listed, OthersListing};

/// Transactions that another node tells at a time.
const AT_A_TIME: usize = 1_000;

/// A transaction that is open in the partition.
#[derive(Debug, Serialize)]
pub(super) struct Open {
    first_offset: i64,
    producer_id: i64,
    producer_epoch: i16,
    /// The time of the producer's latest record in the partition, if it is remembered and has one.
    last_timestamp_ms: Option<i64>,
    /// `None` if it is not known: not all coordinators have answered.
    pub(super) is_hanging: Option<bool>,
    /// The transaction as its coordinator has it.
    pub(super) transaction: Option<Listed>,
}

/// A part of the answer.
#[derive(Debug, Serialize)]
struct Page {
    partition: i32,
    /// The first offset that readers of committed records do not see yet.
    stable: i64,
    tail: i64,
    transactions: Vec<Open>,
    /// With which the list goes on.
    next: Option<String>,
    /// Nodes whose coordinators were not asked.
    missing_nodes: Vec<i32>,
}

/// Answers `GET …/partitions/{partition}/transactions`: by first offset, so many at a time.
pub(in super::super) async fn of_partition(
    State(app): State<Arc<App>>,
    Path((topic, partition)): Path<(String, String)>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let told = |problem: Problem| problem.told_to(headers);
    let topic = app.cores.topic(&topic).await.map_err(told)?;
    let partition = topic.partition(&partition).map_err(told)?;
    if let Some(leader) = app.cores.leader_elsewhere(partition, headers).await? {
        return app.hand_on(&leader, request).await;
    }
    let paging = Paging::read(&Query::read(request.uri().query(), Paging::PARAMETERS)?)?;
    let from = match &paging.after {
        None => Offset(0),
        Some(after) => Offset(read_offset(after)?.saturating_add(1)),
    };
    let mut open = look(&app, partition, from, paging.wanted()).await?;
    let next = match open.found.len() > paging.limit {
        true => {
            open.found.truncate(paging.limit);
            let last = open.found.last();
            last.map(|last| last.first_offset.to_string())
        }
        false => None,
    };
    let (transactions, missing_nodes) = judge(&app, &topic, partition, &open.found).await?;
    let page = Page {
        partition: partition.index,
        stable: open.stable.0,
        tail: open.tail.0,
        transactions,
        next,
        missing_nodes,
    };
    held_json(&app, &connection, page).await
}

fn read_offset(text: &str) -> Result<i64, Problem> {
    let offset = text.parse().ok().filter(|offset| *offset >= 0);
    offset.ok_or_else(|| {
        bad_parameter(
            "after",
            format!("after must be an offset, as next is, not {text:?}"),
        )
    })
}

/// The transactions that are open in a partition that is led here.
pub(super) async fn look(
    app: &App,
    partition: PartitionId,
    from: Offset,
    max: usize,
) -> Result<OpenTransactions, Problem> {
    let look = move |shard: Rc<Shard>| async move {
        shard.until_lease(partition).await?;
        Ok::<_, ReadRefusal>(shard.open_transactions(partition, from, max)?)
    };
    let found = app.cores.ask_owner(partition, look).await?;
    found.map_err(|refusal| Unread::from(refusal).into())
}

/// Those of them that stay open, each with what its coordinator knows of it; and the nodes whose coordinators did not answer.
pub(super) async fn judge(
    app: &App,
    topic: &KnownTopic,
    partition: PartitionId,
    found: &[OpenTransaction],
) -> Result<(Vec<Open>, Vec<i32>), Problem> {
    let Some(first) = found.first() else {
        return Ok((Vec::new(), Vec::new()));
    };
    let place = TopicPartition {
        topic: Name::from(&*topic.name),
        index: partition.index,
    };
    let (mut known, missing_nodes) = coordinated(app, place).await?;
    let again = look(app, partition, first.first_offset, found.len()).await?;
    let still: BTreeSet<Offset> = again.found.iter().map(|open| open.first_offset).collect();
    let stay = found.iter().filter(|open| still.contains(&open.first_offset));
    let all_told = missing_nodes.is_empty();
    let judged = stay.map(|open| {
        let transaction = known.remove(&open.producer.0);
        let last_timestamp_ms = open.last.map(|batch| batch.max_timestamp_ms);
        Open {
            first_offset: open.first_offset.0,
            producer_id: open.producer.0,
            producer_epoch: open.producer_epoch,
            last_timestamp_ms: last_timestamp_ms.filter(|timestamp_ms| *timestamp_ms >= 0),
            is_hanging: hangs(transaction.is_some(), all_told),
            transaction,
        }
    });
    Ok((judged.collect(), missing_nodes))
}

/// Says whether a transaction hangs, if that is known.
fn hangs(is_coordinated: bool, all_told: bool) -> Option<bool> {
    match (is_coordinated, all_told) {
        (true, _) => Some(false),
        (false, true) => Some(true),
        (false, false) => None,
    }
}

/// The open transactions of the whole cluster that have a partition, by their producers; and the nodes that did not tell theirs.
async fn coordinated(app: &App, place: TopicPartition) -> Result<(BTreeMap<i64, Listed>, Vec<i32>), Problem> {
    let (others, mut missing_nodes) = app.cores.others().await?;
    let mut told = Vec::new();
    match Filter::of_partition(place.clone()).find(app).await {
        Ok(own) => told.extend(own),
        Err(_) => missing_nodes.push(app.cores.facts.node.0),
    }
    let asked = others.iter().map(|other| coordinated_by(app, other, &place));
    for (other, found) in others.iter().zip(join_all(asked).await) {
        match found {
            Ok(found) => told.extend(found),
            Err(_) => missing_nodes.push(other.node().0),
        }
    }
    missing_nodes.sort_unstable();
    let by_producer = told.into_iter().map(|listed| (listed.producer_id, listed));
    Ok((by_producer.collect(), missing_nodes))
}

/// The same of another node, however many there are.
async fn coordinated_by(app: &App, other: &Other, place: &TopicPartition) -> Result<Vec<Listed>, Problem> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let TopicPartition { topic, index } = place;
        let path = format!("/v1/transactions?partition={topic}:{index}&limit={AT_A_TIME}{after}");
        let OthersListing { transactions, next } = app.cores.ask_other(other, &path).await?;
        found.extend(transactions);
        match next {
            None => return Ok(found),
            Some(next) => after = format!("&after={}", encoded(&next)),
        }
    }
}

/// Text as a query takes it, whatever letters it has.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_coordinator_knows_hangs_and_only_if_all_were_asked() {
        assert_eq!(hangs(true, true), Some(false));
        assert_eq!(hangs(true, false), Some(false));
        assert_eq!(hangs(false, true), Some(true));
        assert_eq!(hangs(false, false), None);
    }

    #[test]
    fn any_id_goes_into_a_query_and_comes_out_of_it() {
        let id = "a b&c=é/%+\u{0}";
        let query = format!("after={}", encoded(id));
        assert_eq!(
            Query::read(Some(&query), &["after"]).expect("sound").get("after"),
            Some(id)
        );
    }
}
