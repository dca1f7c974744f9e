//! The OpenAPI document is true: all that it describes is there and answers as described, and nothing else is there.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::client::Http;
use crate::schema;
use crate::support::TestNode;
use crate::transactions::open_transaction;

/// Every method that a path could take.
const METHODS: &[&str] = &["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// A path with its parameters filled in by the document's examples.
fn example_path(template: &str, operation: &Value) -> String {
    let mut path = template.to_owned();
    let mut query = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let (name, example) = (parameter["name"].as_str().expect("a name"), &parameter["example"]);
        let example = match example {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match parameter["in"].as_str() {
            Some("path") => path = path.replace(&format!("{{{name}}}"), &example),
            // Not every parameter goes with the others; those that do have an example.
            _ if parameter["example"].is_null() => {}
            _ => query.push(format!("{name}={example}")),
        }
    }
    assert!(
        !path.contains('{'),
        "{path} has a parameter that is not described"
    );
    match query.is_empty() {
        true => path,
        false => format!("{path}?{}", query.join("&")),
    }
}

/// All operations, what deletes behind everything else.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            operations.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    let order = |method: &str| {
        ["POST", "PATCH", "GET", "PUT", "DELETE"]
            .iter()
            .position(|known| *known == method)
    };
    operations.sort_by_key(|(method, path, _)| (order(method), std::cmp::Reverse(path.len())));
    operations
}

#[test]
fn all_that_is_described_can_be_called_and_answers_as_it_says() {
    let node = TestNode::start();
    let http = Http::of(&node);
    let topic = r#"{"name":"orders","partitions":3,"configs":{"ropewalk.order":"total"}}"#;
    assert_eq!(http.post("/v1/topics", "application/json", topic).status, 201);
    http.create("ledger", 1);
    open_transaction(&mut node.connect(), "payments-1", "ledger");
    let mut called = BTreeSet::new();
    for (method, template, operation) in operations(http.document()) {
        let path = example_path(&template, &operation);
        let bodies = operation["requestBody"]["content"].as_object();
        let answers: Vec<_> = match bodies {
            Some(bodies) => bodies
                .iter()
                .map(|(media_type, body)| {
                    let example = match &body["example"] {
                        Value::String(text) => text.clone(),
                        json => {
                            schema::check(http.document(), &body["schema"], json, media_type);
                            json.to_string()
                        }
                    };
                    http.send(
                        &method,
                        &path,
                        &[("content-type", media_type)],
                        example.as_bytes(),
                    )
                })
                .collect(),
            None => {
                let produced = operation["responses"]["200"]["content"].as_object();
                let follows = |media_type: &&String| *media_type == "text/event-stream";
                match produced {
                    None => vec![http.send(&method, &path, &[], b"")],
                    Some(produced) => produced
                        .keys()
                        .filter(|media_type| !follows(media_type))
                        .map(|media_type| http.send(&method, &path, &[("accept", media_type)], b""))
                        .collect(),
                }
            }
        };
        for answer in answers {
            // The only node there is cannot be removed, and no transaction hangs.
            let cannot_be = ["removeNode", "abortHangingTransaction"];
            let id = operation["operationId"].as_str().expect("an id");
            let is_refused = cannot_be.contains(&id) && answer.status == 409;
            assert!(
                is_refused || (200..300).contains(&answer.status),
                "{method} {path}: {}",
                answer.text()
            );
            called.insert(id.to_owned());
        }
    }
    assert_eq!(called.len(), 40, "{called:?}");
}

#[test]
fn nothing_is_served_that_is_not_described() {
    let node = TestNode::start();
    let http = Http::of(&node);
    let paths = http.document()["paths"].as_object().expect("paths");
    for (template, described) in paths {
        let path = template
            .replace("{topic}", "none")
            .replace("{node}", "9")
            .replace("{partition}", "0")
            .replace("{group}", "none")
            .replace("{transaction}", "none")
            .replace("{first_offset}", "0");
        for method in METHODS {
            let answer = http.send(method, &path, &[], b"");
            let is_described = described.get(method.to_lowercase()).is_some();
            assert_eq!(
                answer.status != 405,
                is_described,
                "{method} {path}: {}",
                answer.status
            );
        }
    }
    for path in [
        "/",
        "/v1",
        "/v1/groups/",
        "/v1/groups/none/members",
        "/v1/topics/none/partitions",
        "/v1/topics/",
    ] {
        assert_eq!(http.get(path).kind(), "unknown-path", "{path}");
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let node = TestNode::start();
    let http = Http::of(&node);
    let text = http.document().to_string();
    for name in http.document()["components"]["schemas"]
        .as_object()
        .expect("schemas")
        .keys()
    {
        assert!(
            text.contains(&format!("\"#/components/schemas/{name}\"")),
            "{name} is not used"
        );
    }
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().expect("a name");
        assert!(
            http.document()["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
}

#[test]
fn what_is_configured_is_described_as_it_is() {
    let node = TestNode::start_with(&[("limits.fetch_bytes", "128KiB")]);
    let http = Http::of(&node);
    let path = "/v1/topics/{topic}/partitions/{partition}/records";
    let parameters = &http.document()["paths"][path]["get"]["parameters"];
    let mut parameters = parameters.as_array().expect("parameters").iter();
    let bytes = parameters.find(|parameter| parameter["name"] == "bytes");
    let schema = &bytes.expect("one of them")["schema"];
    assert_eq!(schema["maximum"], 128 << 10);
    assert_eq!(schema["default"], 128 << 10);
}

#[test]
fn answers_may_gain_members_and_bodies_may_not() {
    let node = TestNode::start();
    let http = Http::of(&node);
    let schemas = http.document()["components"]["schemas"].as_object();
    for (name, schema) in schemas.expect("schemas") {
        // The members of `NewConfigs` are names of configs.
        let is_closed_body = name.starts_with("New") && name != "NewConfigs";
        assert_eq!(schema["additionalProperties"] == false, is_closed_body, "{name}");
    }
}
