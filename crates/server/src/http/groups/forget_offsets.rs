//! Takes away what a group has committed of one topic: OffsetDelete over HTTP.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use protocol::groups::{DeleteOffsets, FetchTopic, Name, TopicPartition};
use serde::Serialize;

use super::super::App;
use super::super::problem::Problem;
use super::super::uri::{Query, bad_parameter};
use super::{coordinator, in_time};

/// The offsets that are gone.
#[derive(Debug, Serialize)]
struct ForgottenOffsets {
    topic: String,
    forgotten: Vec<Forgotten>,
}

/// The offset that was committed.
#[derive(Debug, Serialize)]
struct Forgotten {
    partition: i32,
    offset: i64,
}

/// Answers `DELETE /v1/groups/{group}/offsets`.
pub(in super::super) async fn forget_offsets(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    if let Some(other) = app.cores.coordinator_elsewhere(&name, request.headers()).await? {
        return app.hand_on(&other, request).await;
    }
    let query = Query::read(request.uri().query(), &["topic"])?;
    let Some(topic) = query.get("topic") else {
        let detail = "say of which topic: topic=NAME";
        return Err(bad_parameter("topic", detail.to_owned()));
    };
    let topic = app.cores.topic(topic).await?;
    let group = Name::from(name);
    let all = FetchTopic {
        topic: Name::clone(&topic.name),
        partitions: (0..topic.partition_count).collect(),
    };
    let committed = coordinator::fetch_offsets(&app, &group, Some(vec![all])).await?;
    let partitions = committed.iter().flat_map(|topic| &topic.partitions);
    let forgotten: Vec<Forgotten> = partitions
        .filter_map(|partition| {
            let offset = partition.committed.as_ref().ok()?.as_ref()?.offset.0;
            Some(Forgotten {
                partition: partition.index,
                offset,
            })
        })
        .collect();
    let partitions = forgotten.iter().map(|forgotten| TopicPartition {
        topic: Name::clone(&topic.name),
        index: forgotten.partition,
    });
    // Also if there are none: whether the group is there is for its coordinator to say.
    let delete = DeleteOffsets {
        group,
        partitions: partitions.collect(),
    };
    for done in in_time(&app, coordinator::delete_offsets(&app, delete)).await?? {
        // Of one topic all go, or none.
        done.outcome?;
    }
    let answer = ForgottenOffsets {
        topic: topic.name.to_string(),
        forgotten,
    };
    Ok(Json(answer).into_response())
}
