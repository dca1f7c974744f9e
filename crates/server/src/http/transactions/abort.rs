//! Ends transactions that nobody ends: one that a coordinator knows as it would at its timeout, by fencing its producer; one that hangs by a
//! marker that its partition's leader writes by itself.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use kafka_wire::ErrorCode;
use protocol::transactions::{DescribedTransaction, Name, TransactionError, TransactionState};
use record::{Offset, PartitionId};
use serde::Serialize;
use shard::OpenTransaction;
use tokio::time::{sleep, timeout};

use crate::transactions::EndOf;

use super::super::App;
use super::super::body::write_json;
use super::super::connection::Connection;
use super::super::cores::KnownTopic;
use super::super::problem::{Kind, Problem};
use super::super::refusal::outcome_unknown;
use super::super::uri::Query;
use super::coordinator::{self, TransactionRefusal};
use super::describe::Described;
use super::of_partition::{judge, look};

/// The time for which the end of a transaction is waited for, once it is decided. Whoever waits longer looks again.
const ABORT_WAIT: Duration = Duration::from_secs(5);
/// The pause between two looks at it.
const REST: Duration = Duration::from_millis(20);
/// The version of transactions by which a hanging one ends: its marker has the epoch of its records.
const WITHOUT_OWN_EPOCH: u8 = 0;

/// Answers `POST /v1/transactions/{transaction}/abort`.
pub(in super::super) async fn abort(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    if let Some(other) = app.cores.transaction_coordinator_elsewhere(&id, headers).await? {
        return app.hand_on(&other, request).await;
    }
    Query::read(request.uri().query(), &[])?;
    let id = Name::from(id);
    let before = coordinator::describe(&app, &id).await?;
    if !before.state.is_open() {
        return Err(not_open(&before));
    }
    let waited = timeout(ABORT_WAIT, until_aborted(&app, &id, &before)).await;
    let (now, status) = match waited {
        Ok(aborted) => (aborted?, StatusCode::OK),
        // Some partition has not taken its marker yet. It is sent again and again.
        Err(_) => (coordinator::describe(&app, &id).await?, StatusCode::ACCEPTED),
    };
    if status == StatusCode::ACCEPTED && !is_aborted(now.state) {
        return Err(outcome_unknown());
    }
    let answer = write_json(&app, &Described::of(&app, &now))?;
    let mut response = answer.send(&app, &connection);
    *response.status_mut() = status;
    Ok(response)
}

/// Has a transaction aborted, if it is not yet, and waits until all its partitions know.
async fn until_aborted(
    app: &App,
    id: &Name,
    before: &DescribedTransaction,
) -> Result<DescribedTransaction, Problem> {
    let mut is_decided = false;
    loop {
        let now = coordinator::describe(app, id).await?;
        let is_same = now.start_ms == before.start_ms;
        match now.state {
            TransactionState::Ongoing if is_same && !is_decided => {
                match coordinator::abort(app, id, before.start_ms).await {
                    Ok(()) => is_decided = true,
                    // Its end was asked for by somebody else just before.
                    Err(TransactionRefusal::Transaction(
                        TransactionError::ConcurrentTransactions | TransactionError::InvalidTxnState { .. },
                    )) => sleep(REST).await,
                    Err(refusal) => return Err(refusal.into()),
                }
            }
            TransactionState::PrepareAbort if is_same => sleep(REST).await,
            TransactionState::CompleteAbort if is_same => return Ok(now),
            // Its producer has begun something else since.
            _ if is_decided => return Ok(now),
            TransactionState::PrepareCommit | TransactionState::CompleteCommit if is_same => {
                return Err(not_open(&now));
            }
            _ => return Err(ended_meanwhile(id)),
        }
    }
}

fn is_aborted(state: TransactionState) -> bool {
    matches!(
        state,
        TransactionState::PrepareAbort | TransactionState::CompleteAbort
    )
}

fn not_open(now: &DescribedTransaction) -> Problem {
    let (id, state) = (&*now.transactional_id, now.state.name());
    let detail = match now.state {
        TransactionState::PrepareCommit => {
            format!("the transaction of {id:?} is being committed: it cannot be aborted any more")
        }
        _ => format!("{id:?} has no open transaction; its state is {state}"),
    };
    Problem::new(Kind::TransactionNotOpen, detail)
        .with("transaction", id)
        .with("state", state)
}

fn ended_meanwhile(id: &str) -> Problem {
    let detail = format!("the transaction of {id:?} has ended by itself meanwhile");
    Problem::new(Kind::TransactionNotOpen, detail).with("transaction", id)
}

/// A hanging transaction that was ended.
#[derive(Debug, Serialize)]
struct Aborted {
    partition: i32,
    first_offset: i64,
    producer_id: i64,
    producer_epoch: i16,
}

/// Answers `POST …/partitions/{partition}/transactions/{first_offset}/abort`.
pub(in super::super) async fn abort_hanging(
    State(app): State<Arc<App>>,
    Path((topic, partition, first_offset)): Path<(String, String, String)>,
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
    Query::read(request.uri().query(), &[])?;
    let wanted = first_offset.parse().ok().map(Offset);
    let open = match wanted {
        Some(first) => look(&app, partition, first, 1).await?.found,
        None => Vec::new(),
    };
    let open = open.into_iter().find(|open| Some(open.first_offset) == wanted);
    let open = open.ok_or_else(|| {
        let detail = format!(
            "no transaction whose first offset is {first_offset} is open in partition {} of topic {}",
            partition.index, topic.name
        );
        Problem::new(Kind::TransactionNotOpen, detail)
    })?;
    check_hanging(&app, &topic, partition, &open).await?;
    end_hanging(&app, partition, &open).await?;
    let aborted = Aborted {
        partition: partition.index,
        first_offset: open.first_offset.0,
        producer_id: open.producer.0,
        producer_epoch: open.producer_epoch,
    };
    Ok(write_json(&app, &aborted)?.send(&app, &connection))
}

/// Refuses to end behind its coordinator's back what a coordinator knows, or may know.
async fn check_hanging(
    app: &App,
    topic: &KnownTopic,
    partition: PartitionId,
    open: &OpenTransaction,
) -> Result<(), Problem> {
    let (judged, missing_nodes) = judge(app, topic, partition, std::slice::from_ref(open)).await?;
    let Some(judged) = judged.into_iter().next() else {
        let detail = "the transaction has ended by itself meanwhile";
        return Err(Problem::new(Kind::TransactionNotOpen, detail));
    };
    match (judged.is_hanging, judged.transaction) {
        (Some(true), _) => Ok(()),
        (_, Some(transaction)) => {
            let detail = format!(
                "the transaction does not hang: its coordinator, node {}, will end it; abort {:?} instead",
                transaction.coordinator, transaction.id
            );
            Err(Problem::new(Kind::TransactionNotHanging, detail).with("transaction", transaction.id))
        }
        (_, None) => {
            let detail = "it is not known whether the transaction hangs: not all nodes have told which transactions they coordinate";
            Err(Problem::new(Kind::Unavailable, detail).with("missing_nodes", missing_nodes))
        }
    }
}

/// Has a marker written that aborts it, as Kafka's own tool does.
async fn end_hanging(app: &App, partition: PartitionId, open: &OpenTransaction) -> Result<(), Problem> {
    let end = EndOf {
        producer: open.producer,
        producer_epoch: open.producer_epoch,
        coordinator_epoch: open.coordinator_epoch.max(0),
        commit: false,
        version: WITHOUT_OWN_EPOCH,
    };
    let ending = app
        .cores
        .ask_metadata(move |core| async move { core.end_here(partition, end).await });
    let ended = timeout(app.limits.change_wait, ending).await;
    match ended.map_err(|_| outcome_unknown())?? {
        ErrorCode::None => Ok(()),
        ErrorCode::RequestTimedOut => Err(outcome_unknown()),
        ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced => {
            let detail = "the producer has gone on meanwhile: look again";
            Err(Problem::new(Kind::TransactionNotHanging, detail))
        }
        code => {
            let detail = format!(
                "the partition does not take the end of the transaction now: {}",
                code.name()
            );
            Err(Problem::new(Kind::Unavailable, detail))
        }
    }
}
