//! What a piece of the input becomes: a record that has no offset yet.

use std::borrow::Cow;

use anyhow::{Context, Result, bail};
use client::base64;
use serde_json::{Map, Value};

use super::pieces::find;

/// A header's key and value.
pub(super) type Header = (Vec<u8>, Option<Vec<u8>>);

/// A record to be appended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Draft<'a> {
    pub(super) key: Option<Cow<'a, [u8]>>,
    pub(super) value: Option<Cow<'a, [u8]>>,
    /// Keys and values in their order.
    pub(super) headers: Vec<Header>,
    /// `None` is now.
    pub(super) timestamp_ms: Option<i64>,
}

/// How a piece is understood.
#[derive(Debug)]
pub(super) enum Reading {
    /// As a value, under this key.
    Value { key: Option<Vec<u8>> },
    /// As key and value with this between.
    KeyAndValue { separator: String },
    /// As an object of the form that `ropewalk consume --json` prints, and a node over HTTP.
    Json,
}

impl Reading {
    /// Understands a piece.
    ///
    /// # Errors
    /// What it lacks, to be told behind the piece's place in the input.
    pub(super) fn draft<'a>(&'a self, piece: &'a [u8]) -> Result<Draft<'a>> {
        match self {
            Reading::Value { key } => Ok(Draft {
                key: key.as_deref().map(Cow::Borrowed),
                value: Some(Cow::Borrowed(piece)),
                ..Draft::default()
            }),
            Reading::KeyAndValue { separator } => {
                let at = find(piece, separator.as_bytes());
                let at = at.with_context(|| format!("has no key separator {separator:?}"))?;
                Ok(Draft {
                    key: Some(Cow::Borrowed(&piece[..at])),
                    value: Some(Cow::Borrowed(&piece[at + separator.len()..])),
                    ..Draft::default()
                })
            }
            Reading::Json => read_object(piece),
        }
    }
}

/// Where a printed record stood. A copy stands elsewhere, so these are read and left aside.
const OF_THE_ORIGINAL: &[&str] = &["topic", "partition", "offset"];

fn read_object(piece: &[u8]) -> Result<Draft<'static>> {
    let mut object = match serde_json::from_slice(piece) {
        Ok(Value::Object(object)) => object,
        Ok(_) => bail!("is no JSON object; write {{\"value\": \"...\"}}"),
        Err(error) => bail!("is not JSON ({})", fault(&error)),
    };
    for name in OF_THE_ORIGINAL {
        object.remove(*name);
    }
    let has_value = object.contains_key("value") || object.contains_key("value_base64");
    let draft = Draft {
        key: take_bytes(&mut object, "key")?.map(Cow::Owned),
        value: take_bytes(&mut object, "value")?.map(Cow::Owned),
        headers: take_headers(&mut object)?,
        timestamp_ms: match object.remove("timestamp_ms") {
            None | Some(Value::Null) => None,
            Some(ms) => match ms.as_i64() {
                Some(ms) => Some(ms),
                None => bail!("has a timestamp_ms that is no whole number"),
            },
        },
    };
    refuse_rest(&object, "key, value, headers and timestamp_ms")?;
    // A tombstone takes away what compaction kept of its key, so it must have been meant.
    if !has_value {
        bail!("has no value; null makes it a tombstone");
    }
    Ok(draft)
}

fn take_headers(object: &mut Map<String, Value>) -> Result<Vec<Header>> {
    let headers = match object.remove("headers") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(headers)) => headers,
        Some(_) => bail!("has headers that are no array"),
    };
    let header = |header| {
        let Value::Object(mut header) = header else {
            bail!("has a header that is no object; write {{\"key\": \"...\", \"value\": \"...\"}}");
        };
        let Some(key) = take_bytes(&mut header, "key")? else {
            bail!("has a header without a key");
        };
        let value = take_bytes(&mut header, "value")?;
        refuse_rest(&header, "key and value, in a header")?;
        Ok((key, value))
    };
    headers.into_iter().map(header).collect()
}

/// The text under `name`, or the bytes as Base64 under `NAME_base64`. Null is none under either.
fn take_bytes(object: &mut Map<String, Value>, name: &str) -> Result<Option<Vec<u8>>> {
    let coded_name = format!("{name}_base64");
    let written = |value: &Value| !value.is_null();
    let text = object.remove(name).filter(written);
    let coded = object.remove(&coded_name).filter(written);
    match (text, coded) {
        (None, None) => Ok(None),
        (Some(Value::String(text)), None) => Ok(Some(text.into_bytes())),
        (None, Some(Value::String(coded))) => match base64::decode(&coded) {
            Some(bytes) => Ok(Some(bytes)),
            None => bail!("has a {coded_name} that is not Base64"),
        },
        (Some(_), Some(_)) => bail!("has both {name} and {coded_name}"),
        (Some(_), None) => bail!("has a {name} that is no text; put it in quotes"),
        (None, Some(_)) => bail!("has a {coded_name} that is no text; put it in quotes"),
    }
}

fn refuse_rest(object: &Map<String, Value>, known: &str) -> Result<()> {
    match object.keys().next() {
        None => Ok(()),
        Some(name) => bail!("has a field {name:?}; there are {known}"),
    }
}

/// What is wrong, without the line: a piece is one.
fn fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    format!("{what}, column {}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_the_first_separator() {
        let reading = Reading::KeyAndValue {
            separator: "::".to_owned(),
        };
        let split = |line: &str| {
            let draft = reading.draft(line.as_bytes()).expect("a separator");
            let text = |bytes: Option<Cow<'_, [u8]>>| {
                String::from_utf8(bytes.expect("both").to_vec()).expect("text")
            };
            (text(draft.key), text(draft.value))
        };
        assert_eq!(split("a::b::c"), ("a".to_owned(), "b::c".to_owned()));
        assert_eq!(split("::b"), (String::new(), "b".to_owned()));
        let refused = reading.draft(b"a:b").expect_err("no separator");
        assert_eq!(refused.to_string(), "has no key separator \"::\"");
        assert!(reading.draft(b"").is_err());
    }

    #[test]
    fn what_consume_prints_is_read_again() {
        let printed = r#"{"headers":[{"key":"h","value":"v"},{"key_base64":"/w==","value":null}],
            "key":null,"offset":7,"partition":3,"timestamp_ms":5,"value_base64":"/wE="}"#;
        let draft = Reading::Json.draft(printed.as_bytes()).expect("an object");
        let expected = Draft {
            key: None,
            value: Some(Cow::Owned(vec![0xff, 0x01])),
            headers: vec![(b"h".to_vec(), Some(b"v".to_vec())), (vec![0xff], None)],
            timestamp_ms: Some(5),
        };
        assert_eq!(draft, expected);
        for tombstone in [
            r#"{"value":null}"#,
            r#"{"value_base64":null,"timestamp_ms":null}"#,
        ] {
            let draft = Reading::Json.draft(tombstone.as_bytes());
            assert_eq!(draft.expect("an object"), Draft::default(), "{tombstone}");
        }
    }

    #[test]
    fn what_is_no_record_is_told_in_a_sentence() {
        for (text, expected) in [
            ("", "is not JSON (EOF while parsing a value, column 0)"),
            (r#"{"value": }"#, "is not JSON (expected value, column 11)"),
            ("[]", r#"is no JSON object; write {"value": "..."}"#),
            (
                r#"{"vlaue": "x"}"#,
                r#"has a field "vlaue"; there are key, value, headers and timestamp_ms"#,
            ),
            ("{}", "has no value; null makes it a tombstone"),
            (r#"{"key": "a"}"#, "has no value; null makes it a tombstone"),
            (r#"{"value": 5}"#, "has a value that is no text; put it in quotes"),
            (
                r#"{"value": "a", "value_base64": "AA=="}"#,
                "has both value and value_base64",
            ),
            (r#"{"key_base64": "A"}"#, "has a key_base64 that is not Base64"),
            (
                r#"{"key_base64": 5}"#,
                "has a key_base64 that is no text; put it in quotes",
            ),
            (
                r#"{"timestamp_ms": "5"}"#,
                "has a timestamp_ms that is no whole number",
            ),
            (r#"{"headers": {}}"#, "has headers that are no array"),
            (r#"{"headers": [{"value": "x"}]}"#, "has a header without a key"),
            (
                r#"{"headers": ["x"]}"#,
                r#"has a header that is no object; write {"key": "...", "value": "..."}"#,
            ),
        ] {
            let refused = Reading::Json.draft(text.as_bytes()).expect_err(text);
            assert_eq!(refused.to_string(), expected, "{text}");
        }
    }
}
