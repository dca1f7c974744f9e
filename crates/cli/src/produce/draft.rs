//! Pieces of the input, made into records that have no offset yet.

use std::borrow::Cow;

use anyhow::{Context, Result, anyhow};
use server::record_json::{HeaderBytes, NewRecord, why};

use super::pieces::find;

/// A record to be appended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Draft<'a> {
    pub(super) key: Option<Cow<'a, [u8]>>,
    pub(super) value: Option<Cow<'a, [u8]>>,
    /// Keys and values in their order.
    pub(super) headers: Vec<HeaderBytes>,
    /// `None` is now.
    pub(super) timestamp_ms: Option<i64>,
}

/// The reading of a piece.
#[derive(Debug)]
pub(super) enum Reading {
    /// As a value, under this key.
    Value { key: Option<Vec<u8>> },
    /// As key and value with this between.
    KeyAndValue { separator: Vec<u8> },
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
                let at = find(piece, separator);
                let at =
                    at.with_context(|| format!("has no key separator \"{}\"", separator.escape_ascii()))?;
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

fn read_object(piece: &[u8]) -> Result<Draft<'static>> {
    let record: NewRecord =
        serde_json::from_slice(piece).map_err(|error| anyhow!("is no record ({})", fault(&error)))?;
    let record = record
        .into_bytes()
        .map_err(|why| anyhow!("is no record ({why})"))?;
    Ok(Draft {
        key: record.key.map(Cow::Owned),
        value: record.value.map(Cow::Owned),
        headers: record.headers,
        timestamp_ms: record.timestamp_ms,
    })
}

/// The error without the line: a piece is one.
fn fault(error: &serde_json::Error) -> String {
    format!("{}, column {}", why(error), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_the_first_separator() {
        let reading = Reading::KeyAndValue {
            separator: b"::".to_vec(),
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
            ("", "the JSON ends too early, column 0"),
            (r#"{"value": }"#, "this is no JSON: expected value, column 11"),
            ("[5]", "an array stands where an object is expected"),
            (
                r#"{"vlaue": "x"}"#,
                "there is no field `vlaue`, expected one of `key`",
            ),
            (r#"{"value": "x", "value": "y"}"#, "`value` stands there twice"),
            (
                r#"{"key": "a"}"#,
                "a record needs a value; null makes it a tombstone",
            ),
            (r#"{"value": 5}"#, "the number `5` stands where text is expected"),
            (r#"{"value": "x", "timestamp_ms": -5}"#, "cannot lie before 1970"),
            (r#"{"value": "x", "headers": ["x"]}"#, "an object is expected"),
        ] {
            let refused = Reading::Json.draft(text.as_bytes()).expect_err(text).to_string();
            let is_told = refused.starts_with("is no record (") && refused.contains(expected);
            assert!(is_told, "{text}: {refused}");
        }
    }
}
