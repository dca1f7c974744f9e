//! The paths and what they answer. Everything said here comes from one snapshot of the node.

use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use tokio::time::timeout;

use crate::metrics::{Gatherer, MEDIA_TYPE, render};

use super::limits::HttpLimits;
use super::problem::Problem;

/// What is served.
const PATHS: &[&str] = &["/health", "/metrics", "/ready"];
/// How it may be asked for.
const METHODS: &str = "GET, HEAD";

/// The paths over a node's figures.
pub(super) fn router(gatherer: Arc<Gatherer>, limits: HttpLimits) -> Router {
    let paths = Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(gatherer);
    bounded(paths, limits)
}

/// Gives paths the answers to requests that none of them serves, and the bounds on those that they do.
pub(super) fn bounded(paths: Router, limits: HttpLimits) -> Router {
    paths
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(limits, within_limits))
}

/// The body of `/health` and `/ready`.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Status {
    status: &'static str,
    /// One sentence each; nothing if all is well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
}

/// Whether the process lives: every core answers. An orchestrator restarts a node that is not healthy.
async fn health(State(gatherer): State<Arc<Gatherer>>) -> Response {
    answer("ok", "failing", gatherer.gather().await.ailments())
}

/// Whether the node serves in full. A load balancer looks elsewhere while it does not; a restart need not help.
async fn ready(State(gatherer): State<Arc<Gatherer>>) -> Response {
    answer("ready", "not ready", gatherer.gather().await.hindrances())
}

fn answer(well: &'static str, unwell: &'static str, reasons: Vec<String>) -> Response {
    let (code, status) = match reasons.is_empty() {
        true => (StatusCode::OK, well),
        false => (StatusCode::SERVICE_UNAVAILABLE, unwell),
    };
    // What was true a moment ago must not be told again by a cache in between.
    (
        code,
        [(header::CACHE_CONTROL, "no-store")],
        Json(Status { status, reasons }),
    )
        .into_response()
}

async fn metrics(State(gatherer): State<Arc<Gatherer>>) -> Response {
    (
        [(header::CONTENT_TYPE, MEDIA_TYPE)],
        render(gatherer.gather().await),
    )
        .into_response()
}

async fn unknown_path(uri: Uri) -> Problem {
    let detail = format!("{} is not served here", uri.path());
    Problem::new(StatusCode::NOT_FOUND, detail).with_paths(PATHS)
}

async fn wrong_method(method: Method, uri: Uri) -> Response {
    let detail = format!("{} takes {METHODS}, not {method}", uri.path());
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail);
    ([(header::ALLOW, METHODS)], problem).into_response()
}

/// Refuses a large body before anything of it is read, and a request that takes too long.
async fn within_limits(State(limits): State<HttpLimits>, request: Request, next: Next) -> Response {
    if request.body().size_hint().lower() > limits.body_bytes_max {
        let detail = format!("a body may have {} bytes", limits.body_bytes_max);
        let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail);
        return ([(header::CONNECTION, "close")], problem).into_response();
    }
    match timeout(limits.request_wait, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let detail = format!("no answer was ready within {:?}", limits.request_wait);
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response()
        }
    }
}
