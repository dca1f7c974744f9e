//! Records on standard output: as a format says, or as JSON.
//!
//! Printed records stay in the buffer until `flush`: code that waits for more records has to flush before.

use anyhow::Result;
use client::{Fetched, Offset, Record};
use server::record_json;

use super::format::Format;
use super::range::Until;
use crate::output::Output;

/// The forms that records are printed in.
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
    /// The number of records that are still wanted; `None` for all.
    left: Option<u64>,
    /// One record as JSON.
    json: Vec<u8>,
}

/// The next step after a fetch was printed.
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
            json: Vec::new(),
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
            Shape::Json => {
                self.json.clear();
                record_json::write(&mut self.json, Some(partition), record)?;
                self.json.push(b'\n');
                self.output.bytes(&self.json)
            }
            Shape::Text { format, delimiter } => {
                format.write(&mut self.output, &self.topic, partition, record)?;
                self.output.bytes(delimiter)
            }
        }
    }
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

        // Records appended since the look at the tail came with the fetch.
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
}
