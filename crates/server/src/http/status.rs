//! The node's reports on itself: to orchestrators (health, readiness), to Prometheus, and to people (status). All of it
//! comes from one snapshot of the node, and none of it waits for a core that hangs.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Value, json};

use crate::metrics::{TextFormat, render};

use super::App;

/// The body of `/health` and `/ready`.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Status {
    status: &'static str,
    /// One sentence each; nothing if all is well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
}

/// Says if the process lives: every core answers. An orchestrator restarts a node that is not healthy.
pub(super) async fn health(State(app): State<Arc<App>>) -> Response {
    answer("ok", "failing", app.gatherer.gather().await.ailments())
}

/// Says if the node serves in full. A load balancer looks elsewhere while it does not; a restart need not help.
pub(super) async fn ready(State(app): State<Arc<App>>) -> Response {
    answer("ready", "not ready", app.gatherer.gather().await.hindrances())
}

fn answer(well: &'static str, unwell: &'static str, reasons: Vec<String>) -> Response {
    let (code, status) = match reasons.is_empty() {
        true => (StatusCode::OK, well),
        false => (StatusCode::SERVICE_UNAVAILABLE, unwell),
    };
    // A cache in between must not repeat what was true a moment ago.
    (
        code,
        [(header::CACHE_CONTROL, "no-store")],
        Json(Status { status, reasons }),
    )
        .into_response()
}

/// The figures for Prometheus.
pub(super) async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let format = TextFormat::for_accept(accept.unwrap_or_default());
    let text = format.translate(render(app.gatherer.gather().await));
    let headers = [
        (header::CONTENT_TYPE, format.media_type()),
        (header::VARY, "accept"),
    ];
    (headers, text).into_response()
}

/// The node at a glance. Figures that are not known, because a core does not answer, are null.
pub(super) async fn status(State(app): State<Arc<App>>) -> Json<Value> {
    let snapshot = app.gatherer.gather().await;
    let facts = &app.cores.facts;
    let hindrances = snapshot.hindrances();
    let image = snapshot.metadata();
    Json(json!({
        "version": facts.version,
        "node": facts.node.0,
        "cluster": facts.cluster.to_string(),
        "cores": snapshot.cores.len(),
        "uptime_ms": u64::try_from(snapshot.uptime.as_millis()).unwrap_or(u64::MAX),
        "topics": image.map(|core| core.topics),
        "partitions": image.map(|core| core.partitions),
        "disk": {
            "free_bytes": snapshot.disk_free_bytes(),
            "reserve_bytes": facts.config.disk.reserve_bytes,
        },
        "ready": hindrances.is_empty(),
        "reasons": hindrances,
    }))
}
