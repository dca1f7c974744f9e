//! The OpenAPI 3.1 document of this interface, made from the table of operations: what is not there is not described.

pub(super) mod operations;
mod schemas;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::App;
use super::media_type::MediaType;
use super::problem::{self, Kind};
use super::read::BYTES;
use super::routes::{OPERATIONS, Operation};

/// Answers `GET /v1/openapi.json`.
pub(super) async fn document(State(app): State<Arc<App>>) -> Json<Value> {
    Json(describe(&app))
}

/// The whole document.
fn describe(app: &App) -> Value {
    let body_bytes_max = app.body_bytes_max();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method.as_str().to_lowercase()] = describe_operation(operation, app);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Ropewalk",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": format!(
                "The log over HTTP. A body may have {body_bytes_max} bytes. Every refusal is a problem (RFC 9457) \
                 whose `type` says of which kind it is; one of the method (405) has `Allow`. Answers may gain members."
            ),
        },
        "paths": paths,
        "components": { "schemas": schemas::schemas() },
    })
}

fn describe_operation(operation: &Operation, app: &App) -> Value {
    let mut described = (operation.describe)();
    let mut parameters = path_parameters(operation.path);
    if let Some(Value::Array(own)) = described.get("parameters") {
        parameters.extend(own.clone());
    }
    set_bytes_max(&mut parameters, app.cores.facts.config.limits.fetch_bytes);
    described["parameters"] = parameters.into();
    let mut kinds: Vec<Kind> = usual_problems(operation);
    if let Some(Value::Array(own)) = described["responses"].get("problems") {
        let own = own.iter().filter_map(Value::as_str);
        kinds.extend(own.filter_map(Kind::named));
    }
    let responses = described["responses"]
        .as_object_mut()
        .expect("every operation has answers");
    responses.remove("problems");
    for (status, response) in problem_responses(&kinds) {
        // An operation that answers with this status itself (readiness) has no problem for it.
        responses.entry(status).or_insert(response);
    }
    described
}

/// The parameters that stand in braces in a path.
fn path_parameters(path: &str) -> Vec<Value> {
    let known = [
        (
            "group",
            "The group's name, percent-encoded. One with a slash cannot be named in a path.",
            json!({ "type": "string" }),
            json!("billing"),
        ),
        (
            "node",
            "The node's number.",
            json!({ "type": "integer", "minimum": 0 }),
            json!(1),
        ),
        (
            "topic",
            "The topic's name.",
            json!({ "type": "string" }),
            json!("orders"),
        ),
        (
            "partition",
            "The partition's index.",
            json!({ "type": "integer", "minimum": 0 }),
            json!(0),
        ),
        (
            "first_offset",
            "The first offset of an open transaction.",
            json!({ "type": "integer", "minimum": 0 }),
            json!(0),
        ),
        (
            "transaction",
            "The transactional id, percent-encoded. One with a slash cannot be named in a path.",
            json!({ "type": "string" }),
            json!("payments-1"),
        ),
    ];
    known
        .into_iter()
        .filter(|(name, ..)| path.contains(&format!("{{{name}}}")))
        .map(|(name, what, schema, example)| {
            json!({
                "name": name, "in": "path", "required": true,
                "description": what, "schema": schema, "example": example,
            })
        })
        .collect()
}

/// Sets the most bytes of an answer, which is the node's own setting.
fn set_bytes_max(parameters: &mut [Value], bytes_max: usize) {
    let of_bytes = |parameter: &&mut Value| parameter["name"] == "bytes";
    for parameter in parameters.iter_mut().filter(of_bytes) {
        parameter["schema"]["maximum"] = bytes_max.into();
        parameter["schema"]["default"] = BYTES.min(bytes_max).into();
    }
}

/// The problems that any request like this one can meet.
fn usual_problems(operation: &Operation) -> Vec<Kind> {
    let mut kinds = vec![Kind::MalformedPath, Kind::BodyTooLarge, Kind::Unavailable];
    if operation.path.starts_with("/v1/") {
        kinds.push(Kind::Busy);
        if !operation.produces.is_empty() {
            kinds.push(Kind::NotAcceptable);
        }
    }
    if !operation.method.is_safe() {
        kinds.push(Kind::CrossOrigin);
    }
    if !operation.takes.is_empty() {
        kinds.extend([Kind::UnsupportedMediaType, Kind::BodyTooSlow, Kind::MalformedBody]);
    }
    kinds
}

/// Responses by status, each with the kinds of problems that have it.
fn problem_responses(kinds: &[Kind]) -> Map<String, Value> {
    let mut kinds = kinds.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let mut responses: Map<String, Value> = Map::new();
    for kind in kinds {
        let status = kind.status().as_u16().to_string();
        let response = responses.entry(status).or_insert_with(|| {
            json!({
                "description": "",
                "content": { problem::MEDIA_TYPE: { "schema": reference("Problem") } },
            })
        });
        if kind.status() == StatusCode::SERVICE_UNAVAILABLE {
            let seconds = json!({ "type": "integer", "minimum": 0 });
            response["headers"] =
                json!({ "Retry-After": always("Seconds to wait before trying again.", seconds) });
        }
        let said = response["description"].as_str().unwrap_or_default();
        let said = if said.is_empty() {
            "Problem: ".to_owned()
        } else {
            format!("{said}, ")
        };
        response["description"] = format!("{said}{}", kind.slug()).into();
    }
    responses
}

/// A header that every such answer has.
fn always(what: &str, schema: Value) -> Value {
    json!({ "description": what, "required": true, "schema": schema })
}

/// A schema by its name.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// An answer with a JSON body, and the kinds of problems of its own that the operation has.
fn answers(status: &str, what: &str, schema: &str, problems: &[Kind]) -> Value {
    let content = json!({ MediaType::Json.name(): { "schema": reference(schema) } });
    let problems: Vec<&str> = problems.iter().map(|kind| kind.slug()).collect();
    json!({ status: { "description": what, "content": content }, "problems": problems })
}

/// An answer without a body, and the operation's own problems.
fn no_content(what: &str, problems: &[Kind]) -> Value {
    let problems: Vec<&str> = problems.iter().map(|kind| kind.slug()).collect();
    json!({ "204": { "description": what }, "problems": problems })
}
