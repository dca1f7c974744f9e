//! Consumer groups: list, describe, put elsewhere, delete. What is asked goes to the groups' coordinators in their own words,
//! as Kafka's requests do once they are understood; nothing is decided here.

mod coordinator;
mod describe;
mod forget_offsets;
mod members;
mod progress;
mod set_offsets;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use protocol::groups::{ListedGroup, Name};
use serde::Serialize;
use tokio::time::timeout;

use super::App;
use super::body::held_json;
use super::connection::Connection;
use super::paging::Paging;
use super::problem::Problem;
use super::refusal::outcome_unknown;
use super::uri::Query;

pub(super) use coordinator::GroupRefusal;
pub(super) use describe::describe;
pub(super) use forget_offsets::forget_offsets;
pub(super) use set_offsets::set_offsets;

/// A group as the list has it.
#[derive(Debug, Serialize)]
struct Listed {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    state: &'static str,
    protocol_type: Option<String>,
}

impl Listed {
    fn of(group: &ListedGroup) -> Listed {
        Listed {
            name: group.group.to_string(),
            kind: group.group_type.name(),
            state: group.state.name(),
            protocol_type: or_none(Some(&group.protocol_type)),
        }
    }
}

/// A part of the list.
#[derive(Debug, Serialize)]
struct Listing {
    groups: Vec<Listed>,
    /// With which the list goes on.
    next: Option<String>,
}

/// Answers `GET /v1/groups`: by name, so many at a time.
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Result<Response, Problem> {
    let paging = Paging::read(&Query::read(request.uri().query(), Paging::PARAMETERS)?)?;
    let found = coordinator::list(&app, &paging).await?;
    let (groups, next) = paging.cut(found, |group| &group.group);
    let groups = groups.iter().map(Listed::of).collect();
    held_json(&app, &connection, Listing { groups, next }).await
}

/// Answers `DELETE /v1/groups/{group}`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<StatusCode, Problem> {
    Query::read(request.uri().query(), &[])?;
    in_time(&app, coordinator::delete(&app, &Name::from(name))).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Waits for a change as long as one may take.
async fn in_time<T>(app: &App, change: impl Future<Output = T>) -> Result<T, Problem> {
    timeout(app.limits.change_wait, change)
        .await
        .map_err(|_| outcome_unknown())
}

/// A name, or none where a coordinator keeps an empty one.
fn or_none(name: Option<&Name>) -> Option<String> {
    name.filter(|name| !name.is_empty()).map(ToString::to_string)
}
