//! Nodes of the cluster: drained of what they hold, let in again, removed; and what all of them may be told.

use std::rc::Rc;
use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use protocol::leader::NodeId;
use protocol::metadata::{ApplyError, Command, Drain, Metadata, PlanError};
use serde::Deserialize;
use serde_json::Value;

use crate::caller::Caller;
use crate::controller::{ChangeError, RemovalError};
use crate::core::Core;
use crate::error_codes::change_code;

use super::App;
use super::cluster::look;
use super::json_body::{Object, take_json};
use super::problem::{Kind, Problem};
use super::refusal::change_problem;
use super::uri::Query;

/// The longest description of a drain.
const BODY_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    to: Option<i32>,
}

/// Answers `PUT /v1/cluster/nodes/{node}/drain`.
pub(super) async fn drain(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Arc<Caller>>,
    Path(node): Path<String>,
    request: Request,
) -> Result<Json<Value>, Problem> {
    Query::read(request.uri().query(), &[])?;
    let node = node_of(&node)?;
    let (Object(wanted), _room) = take_json::<Object<Wanted>>(&app, &caller, request, BODY_BYTES_MAX).await?;
    let drain = Drain {
        to: wanted.to.map(NodeId),
    };
    change(&app, move |metadata| metadata.plan_drain(node, Some(drain))).await?;
    Ok(Json(app.cores.ask(0, look).await?))
}

/// Answers `DELETE /v1/cluster/nodes/{node}/drain`.
pub(super) async fn undrain(
    State(app): State<Arc<App>>,
    Path(node): Path<String>,
    request: Request,
) -> Result<Json<Value>, Problem> {
    Query::read(request.uri().query(), &[])?;
    let node = node_of(&node)?;
    change(&app, move |metadata| metadata.plan_drain(node, None)).await?;
    Ok(Json(app.cores.ask(0, look).await?))
}

/// Answers `DELETE /v1/cluster/nodes/{node}`.
pub(super) async fn remove(
    State(app): State<Arc<App>>,
    Path(node): Path<String>,
    request: Request,
) -> Result<StatusCode, Problem> {
    Query::read(request.uri().query(), &[])?;
    let node = node_of(&node)?;
    let removed = app
        .cores
        .ask(0, move |core| async move { core.remove_node(node).await });
    match removed.await? {
        Ok(()) => {}
        Err(RemovalError::Change(error)) => return Err(refused(&error)),
        Err(running @ RemovalError::Running(_)) => {
            return Err(Problem::new(Kind::NodeInUse, running.to_string()).with("node", node.0));
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Answers `POST /v1/cluster/upgrade`.
pub(super) async fn upgrade(State(app): State<Arc<App>>, request: Request) -> Result<Json<Value>, Problem> {
    Query::read(request.uri().query(), &[])?;
    let raised = app.cores.ask(0, |core| async move { core.raise_level().await });
    match raised.await? {
        Err(ChangeError::Plan(away @ PlanError::LevelUnknown { node })) => {
            return Err(Problem::new(Kind::NodeAway, away.to_string()).with("node", node.0));
        }
        raised => raised.map_err(|error| refused(&error))?,
    }
    Ok(Json(app.cores.ask(0, look).await?))
}

fn node_of(text: &str) -> Result<NodeId, Problem> {
    let node = text.parse::<i32>().ok().filter(|node| *node >= 0);
    node.map(NodeId)
        .ok_or_else(|| Problem::new(Kind::UnknownNode, format!("{text:?} is no node's number")))
}

async fn change(
    app: &App,
    plan: impl FnOnce(&Metadata) -> Result<Command, PlanError> + Send + 'static,
) -> Result<(), Problem> {
    let change = |core: Rc<Core>| async move { core.change(plan).await };
    let changed = app.cores.ask(0, change).await??;
    changed.map(drop).map_err(|error| refused(&error))
}

fn refused(error: &ChangeError) -> Problem {
    let told = error.to_string();
    let ChangeError::Plan(PlanError::Refused(refused)) = error else {
        return change_problem(change_code(error).code(), Some(&told), Kind::InvalidNode);
    };
    match refused {
        ApplyError::UnknownNode { node } => Problem::new(Kind::UnknownNode, told).with("node", node.0),
        ApplyError::NodeHolds { node, partitions } => Problem::new(Kind::NodeInUse, told)
            .with("node", node.0)
            .with("partitions", *partitions),
        _ => Problem::new(Kind::InvalidNode, told),
    }
}
