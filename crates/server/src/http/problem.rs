//! Refusals as problem details (RFC 9457): JSON that says what is wrong and what would be right.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A refused request.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    title: &'static str,
    status: u16,
    detail: String,
    /// The paths that there are, where that is the matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<&'static [&'static str]>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: String) -> Problem {
        let title = status.canonical_reason().unwrap_or("Error");
        Problem {
            title,
            status: status.as_u16(),
            detail,
            paths: None,
        }
    }

    pub(super) fn with_paths(self, paths: &'static [&'static str]) -> Problem {
        Problem {
            paths: Some(paths),
            ..self
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let media_type = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, media_type);
        response
    }
}
