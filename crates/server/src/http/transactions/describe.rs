//! One transactional id as it stands, with the partitions of its open transaction.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use protocol::transactions::{DescribedTransaction, Name, TopicPartition};
use serde::Serialize;

use super::super::App;
use super::super::body::held_json;
use super::super::connection::Connection;
use super::super::problem::Problem;
use super::super::uri::Query;
use super::{Listed, coordinator};

/// See the module.
#[derive(Debug, Serialize)]
pub(super) struct Described {
    #[serde(flatten)]
    listed: Listed,
    partitions: Vec<Place>,
}

#[derive(Debug, Serialize)]
struct Place {
    topic: String,
    partition: i32,
}

impl Described {
    /// An id as its coordinator, which is here, describes it.
    pub(super) fn of(app: &App, described: &DescribedTransaction) -> Described {
        let (node, now_ms) = (app.cores.facts.node, app.cores.facts.clock.wall_ms());
        let places = described.partitions.iter();
        Described {
            listed: Listed::of_described(described, node, now_ms),
            partitions: places
                .map(|TopicPartition { topic, index }| Place {
                    topic: topic.to_string(),
                    partition: *index,
                })
                .collect(),
        }
    }
}

/// Answers `GET /v1/transactions/{transaction}`.
pub(in super::super) async fn describe(
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
    let described = coordinator::describe(&app, &Name::from(id)).await?;
    held_json(&app, &connection, Described::of(&app, &described)).await
}
