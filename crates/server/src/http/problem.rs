//! Refusals as problem details (RFC 9457): JSON that says what is wrong and what would be right.
//!
//! Every refusal is of one of the kinds listed here; a client tells them apart by `type`, never by the sentence.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// The media type of a problem.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";
/// The beginning of every problem's `type`.
const TYPE_PREFIX: &str = "urn:ropewalk:problem:";
/// Seconds after which what may pass by itself is worth another try.
const RETRY_AFTER: &str = "1";

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $slug:literal, $status:ident;)*) => {
        /// The sort of refusal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(super) enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All there are.
            pub(super) const ALL: &[Kind] = &[$(Kind::$kind),*];

            /// The kind of a name.
            pub(super) fn named(slug: &str) -> Option<Kind> {
                Kind::ALL.iter().copied().find(|kind| kind.slug() == slug)
            }

            /// Its name, as `type` ends with it.
            pub(super) fn slug(self) -> &'static str {
                match self {
                    $(Kind::$kind => $slug,)*
                }
            }

            pub(super) fn status(self) -> StatusCode {
                match self {
                    $(Kind::$kind => StatusCode::$status,)*
                }
            }
        }
    };
}

kinds! {
    /// Not UTF-8, not properly percent-encoded, or climbing.
    MalformedPath = "malformed-path", BAD_REQUEST;
    /// An unknown parameter, one given twice, or a value that it cannot have.
    MalformedQuery = "malformed-query", BAD_REQUEST;
    /// A header that this request depends on has a value that it cannot have.
    MalformedHeader = "malformed-header", BAD_REQUEST;
    /// Not what the content type says.
    MalformedBody = "malformed-body", BAD_REQUEST;
    /// A browser sends it for a page of another origin.
    CrossOrigin = "cross-origin", FORBIDDEN;
    /// The node keeps this topic for itself; clients may read it.
    InternalTopic = "internal-topic", FORBIDDEN;
    UnknownPath = "unknown-path", NOT_FOUND;
    UnknownTopic = "unknown-topic", NOT_FOUND;
    UnknownPartition = "unknown-partition", NOT_FOUND;
    UnknownGroup = "unknown-group", NOT_FOUND;
    UnknownNode = "unknown-node", NOT_FOUND;
    UnknownTransaction = "unknown-transaction", NOT_FOUND;
    MethodNotAllowed = "method-not-allowed", METHOD_NOT_ALLOWED;
    NotAcceptable = "not-acceptable", NOT_ACCEPTABLE;
    BodyTooSlow = "body-too-slow", REQUEST_TIMEOUT;
    TopicExists = "topic-exists", CONFLICT;
    /// A group has members that would be in the way.
    GroupNotEmpty = "group-not-empty", CONFLICT;
    /// A node that is there, or holds something.
    NodeInUse = "node-in-use", CONFLICT;
    NodeAway = "node-away", CONFLICT;
    /// There is no open transaction that could be aborted, or it is being committed.
    TransactionNotOpen = "transaction-not-open", CONFLICT;
    /// A transaction whose coordinator will end it.
    TransactionNotHanging = "transaction-not-hanging", CONFLICT;
    /// The topic's records go by their keys, not by their offsets.
    OnlyCompacted = "only-compacted", CONFLICT;
    /// A condition of the append does not hold; nothing was appended.
    ConditionFailed = "condition-failed", PRECONDITION_FAILED;
    /// Beyond the limit of requests, or of the topic's batches.
    BodyTooLarge = "body-too-large", PAYLOAD_TOO_LARGE;
    UnsupportedMediaType = "unsupported-media-type", UNSUPPORTED_MEDIA_TYPE;
    /// The topic's records have no positions: no order over all of them, or none that this could depend on.
    NoOrder = "no-order", CONFLICT;
    OffsetOutOfRange = "offset-out-of-range", RANGE_NOT_SATISFIABLE;
    PositionOutOfRange = "position-out-of-range", RANGE_NOT_SATISFIABLE;
    /// A name, count or config that no topic here can have.
    InvalidTopic = "invalid-topic", UNPROCESSABLE_ENTITY;
    /// A config that there is not, that only a restart changes, or a value that it cannot have.
    InvalidConfig = "invalid-config", UNPROCESSABLE_ENTITY;
    /// A name that no group can have, or more than a group's coordinator keeps.
    InvalidGroup = "invalid-group", UNPROCESSABLE_ENTITY;
    /// A change of a node that cannot be.
    InvalidNode = "invalid-node", UNPROCESSABLE_ENTITY;
    /// A record that cannot be appended to this topic.
    InvalidRecord = "invalid-record", UNPROCESSABLE_ENTITY;
    /// A stored record that no answer over HTTP can hold.
    RecordTooLarge = "record-too-large", UNPROCESSABLE_ENTITY;
    /// Stored bytes are damaged; they are not served.
    StorageFault = "storage-fault", INTERNAL_SERVER_ERROR;
    Internal = "internal", INTERNAL_SERVER_ERROR;
    /// There is no room, or no place, for this request now.
    Busy = "busy", SERVICE_UNAVAILABLE;
    /// The node cannot do this now: it starts or stops, its disk is full, a journal is dead, a core does not answer.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE;
    /// Not known to be done in time; it may be done yet.
    OutcomeUnknown = "outcome-unknown", GATEWAY_TIMEOUT;
}

/// A refused request.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) kind: Kind,
    detail: String,
    /// Members of its own.
    more: Map<String, Value>,
    allow: Option<HeaderValue>,
}

impl Problem {
    pub(super) fn new(kind: Kind, detail: impl Into<String>) -> Problem {
        Problem {
            kind,
            detail: detail.into(),
            more: Map::new(),
            allow: None,
        }
    }

    /// The same with one more member.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// The same with the methods that would be right.
    pub(super) fn allowing(mut self, methods: &str) -> Problem {
        self.allow = HeaderValue::from_str(methods).ok();
        self
    }

    /// The problem in the body of another node's answer, if there is one.
    pub(super) fn read(body: &[u8]) -> Option<Problem> {
        let mut more: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let kind = more.remove("type")?;
        let kind = Kind::named(kind.as_str()?.strip_prefix(TYPE_PREFIX)?)?;
        let detail = more.remove("detail")?.as_str()?.to_owned();
        more.remove("title");
        more.remove("status");
        Some(Problem {
            more,
            ..Problem::new(kind, detail)
        })
    }

    /// The body.
    pub(super) fn json(&self) -> Value {
        let status = self.kind.status();
        let mut members = Map::new();
        members.insert("type".into(), self.type_name().into());
        members.insert("title".into(), self.kind.slug().replace('-', " ").into());
        members.insert("status".into(), json!(status.as_u16()));
        members.insert("detail".into(), self.detail.as_str().into());
        members.extend(self.more.clone());
        Value::Object(members)
    }

    fn type_name(&self) -> String {
        format!("{TYPE_PREFIX}{}", self.kind.slug())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.json().to_string()));
        *response.status_mut() = self.kind.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self.kind {
            Kind::Busy | Kind::Unavailable => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
            }
            // The rest of the body is not waited for.
            Kind::BodyTooLarge | Kind::BodyTooSlow => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, allow);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_every_kind_with_its_status() {
        const PAGE: &str = include_str!("../../../../docs/http.md");
        for kind in Kind::ALL {
            let row = format!("\n| `{}` | {} |", kind.slug(), kind.status().as_u16());
            assert_eq!(PAGE.matches(&row).count(), 1, "{row}");
        }
        let rows = PAGE.split("\n| `type` ends with").nth(1).expect("the table");
        let rows = rows.lines().skip(2).take_while(|line| line.starts_with('|'));
        assert_eq!(rows.count(), Kind::ALL.len());
    }
}
