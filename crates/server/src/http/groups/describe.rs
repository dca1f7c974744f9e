//! One group as it stands: its state, its members, and how far it is.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use protocol::groups::{CONSUMER_TYPE, GroupType, Name};
use serde::Serialize;

use super::super::App;
use super::super::body::held_json;
use super::super::connection::Connection;
use super::super::paging::Paging;
use super::super::problem::Problem;
use super::super::uri::Query;
use super::coordinator::{self, DescribedGroup};
use super::members::{self, Member};
use super::or_none;
use super::progress::{Page, Progress};

/// A group.
#[derive(Debug, Serialize)]
struct Group {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    state: &'static str,
    protocol_type: Option<String>,
    /// The way in which partitions are assigned: the protocol that the members chose, or the node's assignor.
    protocol: Option<String>,
    /// Of a classic group its generation.
    epoch: i32,
    member_count: usize,
    members: Vec<Member>,
    offsets: Vec<Progress>,
    /// With which the offsets go on.
    next: Option<String>,
}

/// Answers `GET /v1/groups/{group}`.
pub(in super::super) async fn describe(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Extension(connection): Extension<Connection>,
    request: Request,
) -> Result<Response, Problem> {
    if let Some(other) = app.cores.coordinator_elsewhere(&name, request.headers()).await? {
        return app.hand_on(&other, request).await;
    }
    let page = Page::read(&Query::read(request.uri().query(), Paging::PARAMETERS)?)?;
    let name = Name::from(name);
    let mut group = told(&name, coordinator::describe(&app, &name).await?);
    let committed = coordinator::fetch_offsets(&app, &name, None).await?;
    (group.offsets, group.next) = page.find(&app, committed, &group.members).await?;
    held_json(&app, &connection, group).await
}

/// All but how far it is.
fn told(name: &Name, described: DescribedGroup) -> Group {
    let member_count = described.member_count();
    let (kind, state, protocol_type, protocol, epoch, members) = match described {
        DescribedGroup::Classic(group) => (
            GroupType::Classic,
            group.state,
            or_none(group.protocol_type.as_ref()),
            or_none(group.protocol.as_ref()),
            group.generation,
            members::of_classic(&group),
        ),
        DescribedGroup::Consumer(group) => (
            GroupType::Consumer,
            group.state,
            Some(CONSUMER_TYPE.to_owned()),
            or_none(Some(&group.assignor)),
            group.epoch,
            members::of_consumer(&group),
        ),
    };
    Group {
        name: name.to_string(),
        kind: kind.name(),
        state: state.name(),
        protocol_type,
        protocol,
        epoch,
        member_count,
        members,
        offsets: Vec::new(),
        next: None,
    }
}
