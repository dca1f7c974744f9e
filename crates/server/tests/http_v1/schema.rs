//! As much of JSON Schema as the OpenAPI document uses; a keyword that is not known here fails the test.

use serde_json::{Map, Value};

/// The operation that a request is of.
pub(crate) fn operation<'a>(document: &'a Value, method: &str, path: &str) -> Option<&'a Value> {
    let method = if method == "HEAD" {
        "get".to_owned()
    } else {
        method.to_lowercase()
    };
    let paths = document["paths"].as_object().expect("paths");
    let (_, operations) = paths.iter().find(|(template, _)| {
        let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
        template.len() == path.len()
            && template
                .iter()
                .zip(&path)
                .all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
    })?;
    operations.get(&method)
}

/// Checks a value against a schema. Answers may gain members, but none that is not described.
pub(crate) fn check(document: &Value, schema: &Value, value: &Value, place: &str) {
    let members = schema.as_object().unwrap_or_else(|| panic!("{place}: no schema"));
    if members.contains_key("properties") && !members.contains_key("additionalProperties") {
        check_others(document, members, &Value::Bool(false), value, place);
    }
    for (keyword, rule) in members {
        match keyword.as_str() {
            "$ref" => {
                let name = rule.as_str().expect("a reference");
                let name = name.strip_prefix("#/components/schemas/").expect("one of ours");
                let referred = &document["components"]["schemas"][name];
                assert!(referred.is_object(), "there is no schema {name}");
                check(document, referred, value, place);
            }
            "type" => assert!(is_of_type(rule, value), "{place}: {value} is not {rule}"),
            "enum" => {
                let allowed = rule.as_array().expect("a list");
                assert!(allowed.contains(value), "{place}: {value} is none of {rule}");
            }
            // Of what is no number, these say nothing.
            "minimum" => assert!(
                !value.is_number() || value.as_i64() >= rule.as_i64(),
                "{place}: {value} is less than {rule}"
            ),
            "maximum" => assert!(
                !value.is_number() || value.as_i64() <= rule.as_i64(),
                "{place}: {value} is more than {rule}"
            ),
            "minItems" => {
                let items = value.as_array().map_or(0, Vec::len) as u64;
                assert!(Some(items) >= rule.as_u64(), "{place}: too few items");
            }
            "maxItems" => {
                let items = value.as_array().map_or(0, Vec::len) as u64;
                assert!(Some(items) <= rule.as_u64(), "{place}: too many items");
            }
            "minProperties" | "maxProperties" => {
                let members = value.as_object().map_or(0, Map::len) as u64;
                let bound = rule.as_u64().expect("a number");
                let holds = match keyword.as_str() {
                    "minProperties" => members >= bound,
                    _ => members <= bound,
                };
                assert!(holds, "{place}: {members} members, {keyword} {bound}");
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(document, rule, item, &format!("{place}[{index}]"));
                }
            }
            // Of what is no object, it says nothing.
            "required" if !value.is_object() => {}
            "required" => {
                for name in rule.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    assert!(value.get(name).is_some(), "{place}: no {name} in {value}");
                }
            }
            "properties" => check_members(document, rule, value, place),
            "additionalProperties" => check_others(document, members, rule, value, place),
            "description" | "contentEncoding" | "pattern" | "default" => {}
            other => panic!("{place}: the keyword {other} is not checked by these tests"),
        }
    }
}

fn is_of_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    };
    match rule {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        other => panic!("{other} is no type"),
    }
}

fn check_members(document: &Value, rule: &Value, value: &Value, place: &str) {
    for (name, schema) in rule.as_object().expect("schemas") {
        if let Some(member) = value.get(name) {
            check(document, schema, member, &format!("{place}.{name}"));
        }
    }
}

fn check_others(document: &Value, schema: &Map<String, Value>, rule: &Value, value: &Value, place: &str) {
    let known = |name: &str| {
        schema
            .get("properties")
            .is_some_and(|known| known.get(name).is_some())
    };
    for (name, member) in value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| !known(name))
    {
        match rule {
            Value::Bool(false) => panic!("{place}: {name} is not described"),
            Value::Bool(true) => {}
            schema => check(document, schema, member, &format!("{place}.{name}")),
        }
    }
}
