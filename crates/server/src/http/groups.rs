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
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use protocol::groups::{ListedGroup, Name};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::App;
use super::body::held_json;
use super::connection::Connection;
use super::others::is_handed_on;
use super::paging::Paging;
use super::problem::Problem;
use super::refusal::outcome_unknown;
use super::uri::Query;

pub(super) use coordinator::GroupRefusal;
pub(super) use describe::describe;
pub(super) use forget_offsets::forget_offsets;
pub(super) use set_offsets::set_offsets;

/// A group as the list has it.
#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    state: String,
    protocol_type: Option<String>,
}

impl Listed {
    fn of(group: &ListedGroup) -> Listed {
        Listed {
            name: group.group.to_string(),
            kind: group.group_type.name().to_owned(),
            state: group.state.name().to_owned(),
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
    /// Nodes whose groups are not among them: they are away, do not answer, or have not said where they serve HTTP.
    missing_nodes: Vec<i32>,
}

/// The part of another node's list that is wanted.
#[derive(Debug, Deserialize)]
struct OthersListing {
    groups: Vec<Listed>,
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
    let mut found: Vec<Listed> = found.iter().map(Listed::of).collect();
    let (mut missing_nodes, mut are_cut) = (Vec::new(), false);
    if !is_handed_on(request.headers()) {
        let (others, missing) = app.cores.others().await?;
        missing_nodes = missing;
        let asked = others
            .iter()
            .map(|other| app.cores.page_elsewhere(other, request.uri()));
        for (other, listing) in others.iter().zip(join_all(asked).await) {
            match listing {
                Ok(OthersListing { groups, next }) => {
                    are_cut |= next.is_some();
                    found.extend(groups);
                }
                Err(_) => missing_nodes.push(other.node().0),
            }
        }
        missing_nodes.sort_unstable();
        found = paging.first_by_name(found, |group| &group.name);
        // One that has just got another coordinator may be told by both.
        found.dedup_by(|one, other| one.name == other.name);
    }
    let (groups, next) = paging.cut(found, |group| &group.name);
    let last = groups.last().filter(|_| are_cut);
    let next = next.or_else(|| last.map(|last| last.name.clone()));
    let listing = Listing {
        groups,
        next,
        missing_nodes,
    };
    held_json(&app, &connection, listing).await
}

/// Answers `DELETE /v1/groups/{group}`.
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    if let Some(other) = app.cores.coordinator_elsewhere(&name, request.headers()).await? {
        return app.hand_on(&other, request).await;
    }
    Query::read(request.uri().query(), &[])?;
    in_time(&app, coordinator::delete(&app, &Name::from(name))).await??;
    Ok(StatusCode::NO_CONTENT.into_response())
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
