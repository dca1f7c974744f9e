//! Records on standard output: values as they are, one a line, or JSON.

use anyhow::Result;
use client::{Fetched, Record};
use serde_json::{Map, Value, json};

use crate::output::Output;

pub(super) struct Printer {
    output: Output,
    json: bool,
    key_separator: Option<String>,
    /// How many more records are wanted; `None` for all.
    left: Option<u64>,
}

impl Printer {
    pub(super) fn new(
        output: Output,
        json: bool,
        key_separator: Option<String>,
        max: Option<u64>,
    ) -> Printer {
        Printer {
            output,
            json,
            key_separator,
            left: max,
        }
    }

    /// Prints what was fetched, and tells whether more is wanted.
    pub(super) fn print(&mut self, partition: i32, fetched: &Fetched) -> Result<bool> {
        for record in fetched.records() {
            if self.left == Some(0) {
                break;
            }
            self.print_one(partition, &record?)?;
            self.left = self.left.map(|left| left - 1);
        }
        self.output.flush()?;
        Ok(self.left != Some(0))
    }

    fn print_one(&mut self, partition: i32, record: &Record) -> Result<()> {
        if self.json {
            return self.output.json(&as_json(partition, record));
        }
        if let Some(separator) = &self.key_separator {
            self.output.bytes(record.key.as_deref().unwrap_or_default())?;
            self.output.bytes(separator.as_bytes())?;
        }
        self.output.bytes(record.value.as_deref().unwrap_or_default())?;
        self.output.bytes(b"\n")
    }
}

fn as_json(partition: i32, record: &Record) -> Value {
    let mut object = Map::new();
    object.insert("partition".to_owned(), json!(partition));
    object.insert("offset".to_owned(), json!(record.offset.0));
    object.insert("timestamp_ms".to_owned(), json!(record.timestamp_ms));
    insert_bytes(&mut object, "key", record.key.as_deref());
    insert_bytes(&mut object, "value", record.value.as_deref());
    let headers = record.headers.iter().map(|(name, value)| {
        let mut object = Map::new();
        insert_bytes(&mut object, "name", Some(name));
        insert_bytes(&mut object, "value", value.as_deref());
        Value::Object(object)
    });
    let headers = headers.collect();
    object.insert("headers".to_owned(), headers);
    Value::Object(object)
}

/// Bytes under `name` if they are text, else in hexadecimal under another name, so that nothing is lost or ambiguous.
fn insert_bytes(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    let (name, value) = match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => (name.to_owned(), Value::Null),
        Some((_, Ok(text))) => (name.to_owned(), text.into()),
        Some((bytes, Err(_))) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            (format!("{name}_hex"), hex.into())
        }
    };
    object.insert(name, value);
}

#[cfg(test)]
mod tests {
    use client::Offset;

    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_shown_in_hexadecimal() {
        let record = Record {
            offset: Offset(7),
            timestamp_ms: 5,
            key: None,
            value: Some(vec![0xff, 0x01].into()),
            headers: vec![("h".into(), Some("v".into()))],
        };
        let shown = as_json(3, &record).to_string();
        let expected = r#"{"headers":[{"name":"h","value":"v"}],"key":null,"offset":7,"partition":3,"timestamp_ms":5,"value_hex":"ff01"}"#;
        assert_eq!(shown, expected);
    }
}
