//! Giving up the beginning of a partition, or of a topic with one order, durably: DeleteRecords over HTTP.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use record::{Offset, Position};
use serde_json::json;
use tokio::time::timeout;

use crate::order::Untrimmed;

use super::App;
use super::in_order::{ask_home, keeper_elsewhere, out_of_range};
use super::problem::{Kind, Problem};
use super::refusal::outcome_unknown;
use super::uri::{Query, bad_parameter};

/// Stands for the tail: all that is committed is given up.
const UP_TO_TAIL: &str = "tail";
/// Stands for the first position that is not ordered.
const ALL_ORDERED: &str = "ordered";

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

/// Answers `DELETE …/records` of a topic.
pub(super) async fn in_order(
    State(app): State<Arc<App>>,
    Path(topic): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let told = |problem: Problem| problem.told_to(headers);
    let topic = app.cores.topic_of_clients(&topic).await.map_err(told)?;
    if let Some(keeper) = keeper_elsewhere(&app, &topic, headers).await? {
        return app.hand_on(&keeper, request).await;
    }
    let query = Query::read(request.uri().query(), &["before_position"])?;
    let before = match query.get("before_position") {
        Some(ALL_ORDERED) => None,
        Some(_) => {
            let position = query.number("before_position", 0..=i64::MAX)?;
            position.map(|position| Position(position as u64))
        }
        None => {
            let detail = "say what is given up: before_position=POSITION keeps that record, before_position=ordered keeps none";
            return Err(bad_parameter("before_position", detail.to_owned()));
        }
    };
    let trim = ask_home(&app, &topic, move |home, core| async move {
        home.trim(&core, before).await
    });
    let trimmed = timeout(app.limits.change_wait, trim).await;
    let Position(first) = trimmed.map_err(|_| outcome_unknown())??;
    Ok(Json(json!({ "first_position": first })).into_response())
}

impl From<Untrimmed> for Problem {
    fn from(untrimmed: Untrimmed) -> Problem {
        match untrimmed {
            Untrimmed::OutOfRange { wanted, ordered } => out_of_range(wanted, ordered),
            Untrimmed::Unfound(unfound) => unfound.into(),
            Untrimmed::Elsewhere { .. } => Problem::new(Kind::NoOrder, untrimmed.to_string()),
            Untrimmed::Refused(refusal) => refusal.into(),
        }
    }
}
