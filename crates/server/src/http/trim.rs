//! Giving up the beginning of a partition, durably: DeleteRecords over HTTP.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use record::Offset;
use serde_json::json;
use tokio::time::timeout;

use super::App;
use super::problem::Problem;
use super::refusal::outcome_unknown;
use super::uri::{Query, bad_parameter};

/// Stands for the tail: all that is committed is given up.
const UP_TO_TAIL: &str = "tail";

/// Answers `DELETE …/records`.
pub(super) async fn before(
    State(app): State<Arc<App>>,
    Path((topic, partition)): Path<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let told = |problem: Problem| problem.told_to(headers);
    let topic = app.cores.topic_of_clients(&topic).await.map_err(told)?;
    let partition = topic.partition(&partition).map_err(told)?;
    if let Some(leader) = app.cores.leader_elsewhere(partition, headers).await? {
        return app.hand_on(&leader, request).await;
    }
    let query = Query::read(request.uri().query(), &["before"])?;
    let first_kept = match query.get("before") {
        Some(UP_TO_TAIL) => app.cores.bounds(partition).await?.tail,
        Some(_) => {
            let offset = query.number("before", 0..=i64::MAX)?;
            Offset(offset.expect("the parameter is there"))
        }
        None => {
            let detail = "say what is given up: before=OFFSET keeps that record, before=tail keeps none";
            return Err(bad_parameter("before", detail.to_owned()));
        }
    };
    let trimmed = timeout(app.limits.change_wait, app.cores.trim(partition, first_kept)).await;
    let trimmed = trimmed.map_err(|_| outcome_unknown())??;
    let facts = &app.cores.facts;
    let now = facts.clock.monotonic();
    facts
        .change_log
        .tell_trim(now, &topic.name, partition.index, trimmed);
    let answer = json!({ "partition": partition.index, "first_offset": trimmed.next.0 });
    Ok(Json(answer).into_response())
}
