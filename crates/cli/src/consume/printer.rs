//! Records on standard output: as a format says, or as JSON.
//!
//! What is printed stays in the buffer until `flush`: whoever waits for more records has to flush before.

use anyhow::Result;
use client::{Fetched, Offset, Record, base64};
use serde_json::{Map, Value, json};

use super::format::Format;
use super::range::Until;
use crate::output::Output;

/// What each record becomes.
pub(super) enum Shape {
    /// Text, and what ends each record.
    Text { format: Format, delimiter: Vec<u8> },
    /// An object on a line of its own.
    Json,
}

pub(super) struct Printer {
    output: Output,
    shape: Shape,
    topic: String,
    until: Option<Until>,
    /// How many more records are wanted; `None` for all.
    left: Option<u64>,
}

/// What is to be done after a fetch was printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Go on.
    Continue,
    /// Read no more of this partition.
    EndPartition,
    /// Read no more at all.
    End,
}

impl Printer {
    pub(super) fn new(
        output: Output,
        shape: Shape,
        topic: &str,
        until: Option<Until>,
        max: Option<u64>,
    ) -> Printer {
        Printer {
            output,
            shape,
            topic: topic.to_owned(),
            until,
            left: max,
        }
    }

    /// Prints what was fetched, as far as it is wanted: nothing from `end` on, if there is one.
    pub(super) fn print(&mut self, partition: i32, fetched: &Fetched, end: Option<Offset>) -> Result<Then> {
        for record in fetched.records() {
            let record = record?;
            let is_behind_end = end.is_some_and(|end| record.offset >= end);
            if is_behind_end || self.until.is_some_and(|until| until.excludes(&record)) {
                return Ok(Then::EndPartition);
            }
            self.print_one(partition, &record)?;
            self.left = self.left.map(|left| left - 1);
            if self.left == Some(0) {
                return Ok(Then::End);
            }
        }
        match self.until {
            Some(until) if until.is_reached(fetched.next_offset()) => Ok(Then::EndPartition),
            _ => Ok(Then::Continue),
        }
    }

    /// Hands everything printed to the reader.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.output.flush()
    }

    fn print_one(&mut self, partition: i32, record: &Record) -> Result<()> {
        match &self.shape {
            Shape::Json => self.output.json(&as_json(partition, record)),
            Shape::Text { format, delimiter } => {
                format.write(&mut self.output, &self.topic, partition, record)?;
                self.output.bytes(delimiter)
            }
        }
    }
}

/// As a node tells a record over HTTP (`crates/server/src/http/record_json.rs`): what one prints, the other takes.
fn as_json(partition: i32, record: &Record) -> Value {
    let mut object = Map::new();
    object.insert("partition".to_owned(), json!(partition));
    object.insert("offset".to_owned(), json!(record.offset.0));
    // -1 is none.
    let timestamp_ms = (record.timestamp_ms >= 0).then_some(record.timestamp_ms);
    object.insert("timestamp_ms".to_owned(), json!(timestamp_ms));
    insert_bytes(&mut object, "key", record.key.as_deref());
    insert_bytes(&mut object, "value", record.value.as_deref());
    let headers = record.headers.iter().map(|(key, value)| {
        let mut object = Map::new();
        insert_bytes(&mut object, "key", Some(key));
        insert_bytes(&mut object, "value", value.as_deref());
        Value::Object(object)
    });
    let headers = headers.collect();
    object.insert("headers".to_owned(), headers);
    Value::Object(object)
}

/// Bytes under `name` if they are text, else as Base64 under another name, so that nothing is lost or ambiguous.
fn insert_bytes(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    let (name, value) = match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => (name.to_owned(), Value::Null),
        Some((_, Ok(text))) => (name.to_owned(), text.into()),
        Some((bytes, Err(_))) => (format!("{name}_base64"), base64::encode(bytes).into()),
    };
    object.insert(name, value);
}

#[cfg(test)]
mod tests {
    use client::fake_broker::FakeBroker;
    use client::{Cluster, ConnectionOptions, Consumer, ConsumerOptions, Start};

    use super::*;

    /// Prints nothing of a record, and counts it.
    fn counting(wanted: u64) -> Printer {
        let shape = Shape::Text {
            format: Format::of_values(),
            delimiter: Vec::new(),
        };
        Printer::new(Output::open(), shape, "t", None, Some(wanted))
    }

    #[test]
    fn a_fetch_is_printed_as_far_as_the_end() {
        let broker = FakeBroker::start();
        broker.create_topic("t", 1);
        broker.append("t", 0, 5);
        let mut cluster =
            Cluster::connect(&broker.address(), ConnectionOptions::default()).expect("it listens");
        let options = ConsumerOptions::default();
        let mut consumer =
            Consumer::new(&mut cluster, "t", 0, Start::Earliest, options).expect("the topic is there");
        let fetched = consumer.fetch().expect("sound");

        // What was appended since the tail was looked at came with the fetch.
        let mut printer = counting(10);
        let then = printer.print(0, &fetched, Some(Offset(3)));
        assert_eq!(
            (then.expect("printed"), printer.left),
            (Then::EndPartition, Some(7))
        );
        drop(printer);
        let mut printer = counting(10);
        let then = printer.print(0, &fetched, None);
        assert_eq!((then.expect("printed"), printer.left), (Then::Continue, Some(5)));
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_base64() {
        let mut record = Record {
            offset: Offset(7),
            timestamp_ms: 5,
            key: None,
            value: Some(vec![0xff, 0x01].into()),
            headers: vec![("h".into(), Some("v".into()))],
        };
        let shown = as_json(3, &record).to_string();
        let expected = r#"{"headers":[{"key":"h","value":"v"}],"key":null,"offset":7,"partition":3,"timestamp_ms":5,"value_base64":"/wE="}"#;
        assert_eq!(shown, expected);
        record.timestamp_ms = -1;
        assert_eq!(as_json(3, &record)["timestamp_ms"], Value::Null);
    }
}
