//! Appends: a body becomes one batch for each partition that it goes to, and goes the way of a Produce request.
//!
//! A request's records of one partition are one batch: all are appended or none, one behind the other. Answered when they
//! are durable, as for `acks=all`. Conditions go with the one batch that a request is made of.

mod conditions;
mod gather;

use std::sync::Arc;

use axum::{Extension, Json};
use record::Position;
use shard::{AppendAnswer, Conditions};

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::join_all;
use platform::work::Pool;
use record::{BatchHeader, PartitionId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use crate::budget::Room;
use crate::caller::Caller;

use super::App;
use super::body;
use super::cores::KnownTopic;
use super::media_type::{MediaType, of_body};
use super::others::{Other, is_handed_on};
use super::problem::{Kind, Problem};
use super::refusal::outcome_unknown;
use super::uri::Query;
use gather::{Form, Gathered, gather};

/// The forms that a body of records can have.
pub(super) const TAKES: &[MediaType] = &[
    MediaType::Json,
    MediaType::JsonLines,
    MediaType::Text,
    MediaType::Bytes,
];
/// A batch as Kafka's clients send it, and as it stands in the log: what nodes send each other.
const BATCH: &str = "application/vnd.ropewalk.batch";
/// In place of a producer's id.
const NO_PRODUCER: i64 = -1;
/// Bodies up to this are made into batches on the HTTP thread itself.
const SMALL_BYTES: usize = 64 << 10;

/// The records that became durable in one partition.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Appended {
    partition: i32,
    first_offset: i64,
    count: i32,
    /// In a topic with one order.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_position: Option<u64>,
}

/// Appends to the partition that the path names.
pub(super) async fn to_partition(
    State(app): State<Arc<App>>,
    Path((topic, partition)): Path<(String, String)>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let told = |problem: Problem| problem.told_to(headers);
    let topic = app.cores.topic_of_clients(&topic).await.map_err(told)?;
    let partition = topic.partition(&partition).map_err(told)?;
    if is_handed_on(headers) && is_batch(headers) {
        return append_batch(&app, &caller, partition, request).await;
    }
    // Before it is handed on: a node takes more from others than from clients.
    of_body(headers, TAKES)?;
    if let Some(leader) = app.cores.leader_elsewhere(partition, headers).await? {
        return app.hand_on(&leader, request).await;
    }
    let goes = Goes::ToPartition(partition.index);
    let (mut batches, conditions) = take_batches(&app, &caller, &topic, goes, request).await?;
    let batch = batches.remove(0);
    let deadline = Instant::now() + app.limits.append_wait;
    let answer = app
        .cores
        .append(&caller, partition, batch.bytes.clone(), conditions);
    let appended = wait(answer, &batch, deadline).await?;
    Ok(Json(appended).into_response())
}

/// Appends each record to the partition that its key chooses, as Kafka's clients do.
pub(super) async fn to_topic(
    State(app): State<Arc<App>>,
    Path(topic): Path<String>,
    Extension(caller): Extension<Arc<Caller>>,
    request: Request,
) -> Result<Response, Problem> {
    let topic = app.cores.topic_of_clients(&topic).await?;
    let (batches, conditions) = take_batches(&app, &caller, &topic, Goes::ByKeys, request).await?;
    conditions::check_one(conditions, batches.len())?;
    let partition = |batch: &Gathered| PartitionId {
        topic: topic.id,
        index: batch.partition,
    };
    let leaders = app
        .cores
        .leaders_elsewhere(batches.iter().map(partition).collect())
        .await?;
    let deadline = Instant::now() + app.limits.append_wait;
    // All are handed over before any is waited for: they share flushes.
    let answers = batches.iter().zip(leaders).map(|(batch, leader)| {
        let answer = leader.map(|leader| match leader {
            None => Ok(app
                .cores
                .append(&caller, partition(batch), batch.bytes.clone(), conditions)),
            Some(leader) => Err(leader),
        });
        async {
            match answer? {
                Ok(answer) => wait(answer, batch, deadline).await,
                Err(leader) => {
                    append_elsewhere(&app, &leader, &topic.name, (batch, conditions), deadline).await
                }
            }
        }
    });
    let mut appended = Vec::with_capacity(batches.len());
    let mut refused: Option<(i32, Problem)> = None;
    for (answer, batch) in join_all(answers).await.into_iter().zip(&batches) {
        match answer {
            Ok(one) => appended.push(one),
            Err(problem) => refused = refused.or(Some((batch.partition, problem))),
        }
    }
    match refused {
        None => Ok(Json(json!({ "appended": appended })).into_response()),
        // Some partitions may have their records all the same: the client is told which.
        Some((partition, problem)) => Err(problem
            .with("partition", partition)
            .with("appended", json!(appended))),
    }
}

/// Waits until a batch is durable.
async fn wait(answer: AppendAnswer, batch: &Gathered, deadline: Instant) -> Result<Appended, Problem> {
    let answered = timeout_at(deadline, answer)
        .await
        .map_err(|_| outcome_unknown())?;
    // The node stops, and nobody says what became of it any more.
    let outcome = answered.map_err(|_| outcome_unknown())??;
    Ok(Appended {
        partition: batch.partition,
        first_offset: outcome.first_offset.0,
        count: batch.count,
        first_position: outcome.position.map(|Position(first)| first),
    })
}

/// Has the leader of a partition, another node, append a batch.
async fn append_elsewhere(
    app: &App,
    leader: &Other,
    topic: &str,
    (batch, conditions): (&Gathered, Conditions),
    deadline: Instant,
) -> Result<Appended, Problem> {
    let query = conditions::written(conditions);
    let path = format!("/v1/topics/{topic}/partitions/{}/records{query}", batch.partition);
    let telling = app.cores.tell_other(leader, &path, BATCH, batch.bytes.clone());
    timeout_at(deadline, telling)
        .await
        .map_err(|_| outcome_unknown())?
}

/// Appends the batch that another node has made of its client's records.
async fn append_batch(
    app: &App,
    caller: &Caller,
    partition: PartitionId,
    request: Request,
) -> Result<Response, Problem> {
    let query = Query::read(request.uri().query(), conditions::OF_PARTITION)?;
    let conditions = conditions::read(request.headers(), &query)?;
    let (body, room) = body::read(app, caller, request, app.body_bytes_max()).await?;
    let header = BatchHeader::read(&body);
    let header = header.map_err(|error| Problem::new(Kind::MalformedBody, error.to_string()))?;
    if header.producer_id != NO_PRODUCER {
        let detail = "a batch that is sent over HTTP has no producer";
        return Err(Problem::new(Kind::MalformedBody, detail));
    }
    let batch = Gathered::of(partition.index, body, header.record_count).holding(Arc::new(room));
    let deadline = Instant::now() + app.limits.append_wait;
    let answer = app
        .cores
        .append(caller, partition, batch.bytes.clone(), conditions);
    Ok(Json(wait(answer, &batch, deadline).await?).into_response())
}

fn is_batch(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE);
    media_type.is_some_and(|media_type| media_type.as_bytes() == BATCH.as_bytes())
}

/// Where records go.
#[derive(Debug, Clone, Copy)]
enum Goes {
    ToPartition(i32),
    ByKeys,
}

/// A request's body as batches, at least one, and its conditions. The batches hold room until they are dropped.
async fn take_batches(
    app: &Arc<App>,
    caller: &Caller,
    topic: &KnownTopic,
    goes: Goes,
    request: Request,
) -> Result<(Vec<Gathered>, Conditions), Problem> {
    let media_type = of_body(request.headers(), TAKES)?;
    let (partition, known) = match goes {
        Goes::ToPartition(partition) => (Some(partition), conditions::OF_PARTITION),
        Goes::ByKeys => (None, conditions::OF_TOPIC),
    };
    let query = Query::read(request.uri().query(), known)?;
    let conditions = conditions::read(request.headers(), &query)?;
    let has_keys = matches!(media_type, MediaType::Json | MediaType::JsonLines);
    if has_keys && query.get("key").is_some() {
        let detail = "JSON records have their keys in them; the parameter is for other bodies";
        return Err(Problem::new(Kind::MalformedQuery, detail).with("parameter", "key"));
    }
    let form = Form {
        media_type,
        key: query.get("key").map(|key| key.as_bytes().to_vec()),
        now_ms: app.cores.facts.clock.wall_ms(),
        partition,
        partition_count: topic.partition_count,
        keyless_draw: u32::from_le_bytes(app.cores.facts.random.bytes()),
        batch_bytes_max: topic.batch_bytes_max,
    };
    let (body, room) = body::read(app, caller, request, app.body_bytes_max()).await?;
    let (batches, mut room) = gather_off_thread(&app.cores.facts.pool, body, room, form).await?;
    let bytes = batches.iter().map(|batch| batch.bytes.len()).sum();
    if bytes > SMALL_BYTES {
        body::resize_room(app, &mut room, bytes)?;
    }
    let room = Arc::new(room);
    let batches = batches.into_iter().map(|batch| batch.holding(Arc::clone(&room)));
    Ok((batches.collect(), conditions))
}

/// Large bodies take long to be understood: not on the thread that answers health. They take their room along, since whoever
/// asked may be gone before a worker comes to them: so the budget bounds what waits for workers, too.
async fn gather_off_thread(
    pool: &Pool,
    body: Bytes,
    room: Room,
    form: Form,
) -> Result<(Vec<Gathered>, Room), Problem> {
    let is_small = body.len() <= SMALL_BYTES;
    let work = move || gather(&body, &form).map(|batches| (batches, room));
    match is_small {
        true => work(),
        false => pool.run(work).await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt;
    use platform::work::Threads;

    use super::*;
    use crate::budget::Budget;

    const FORM: Form = Form {
        media_type: MediaType::Bytes,
        key: None,
        now_ms: 0,
        partition: Some(0),
        partition_count: 1,
        keyless_draw: 0,
        batch_bytes_max: 1 << 20,
    };

    #[test]
    fn a_body_keeps_its_room_until_it_is_gone_whoever_waits_for_it() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_time()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let (release, released) = mpsc::channel::<()>();
            // There is one worker, and it is busy.
            let pool = Pool::of(&Threads);
            let mut busy = Box::pin(pool.run(move || released.recv()));
            assert!(busy.as_mut().now_or_never().is_none());
            let budget = Budget::new(1 << 20);
            let all = budget.room(1 << 20).await;
            let body = Bytes::from(vec![b'x'; SMALL_BYTES + 1]);
            let mut asked = Box::pin(gather_off_thread(&pool, body, all, FORM));
            assert!(asked.as_mut().now_or_never().is_none());
            drop(asked);
            let waiting = budget.room(1);
            tokio::pin!(waiting);
            assert!(
                waiting.as_mut().now_or_never().is_none(),
                "the body is still there"
            );
            drop(release);
            busy.await.expect_err("nothing was sent");
            waiting.await;
        });
    }
}
