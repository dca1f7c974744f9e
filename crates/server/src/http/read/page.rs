//! Records as text: one after the other, within the limits of an answer. `turns` makes pages of what a read found.

mod turns;

use std::io::Write;

use bytes::Bytes;
use protocol::order::Place;
use record::{Offset, Record};
use serde_json::json;

use super::super::body::ANSWERS_FULL;
use crate::log_bounds::LogBounds;
use crate::record_json;

pub(in super::super) use turns::WORK_BYTES;
pub(in super::super) use turns::{Memory, make_page, make_page_of};

/// A header that is read, and that is written.
const HEADER_MEMORY_BYTES: usize = 128;

/// Text around a header's key and value.
const HEADER_TEXT_BYTES: usize = r#"{"key":"","value":""},"#.len();

/// The form of records in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Form {
    /// An object with an array of them.
    Array,
    /// One a line.
    Lines,
    /// Server-sent events (WHATWG HTML, section 9.2); an event's id is the record's offset.
    Events,
}

/// Bounds of a page.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Limits {
    pub(in super::super) records_max: usize,
    /// The most bytes of text; the first record may pass it.
    pub(in super::super) bytes_max: usize,
    /// The most bytes of a record itself, and of what its headers take as text beside their own.
    pub(in super::super) record_bytes_max: usize,
    pub(in super::super) decompression: record::Limits,
}

/// Some records as text.
#[derive(Debug)]
pub(in super::super) struct Page {
    form: Form,
    pub(in super::super) text: Vec<u8>,
    pub(in super::super) records: usize,
    /// Where the next page begins.
    pub(in super::super) next: Offset,
    /// Says whether it begins and ends inside one batch, all of which the next page has to unpack again.
    pub(in super::super) inside_batch: bool,
    /// All that was found is on it.
    pub(in super::super) has_all: bool,
    /// Where its records stand in the order of their topic, if they are told in that: none beyond is on it.
    place: Option<Place>,
}

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum Unpaged {
    #[error(
        "the record at offset {offset} has {bytes} bytes, an answer over HTTP holds {bytes_max}; read it with a \
         Kafka client, or go on behind it"
    )]
    TooLarge {
        offset: Offset,
        bytes: usize,
        bytes_max: usize,
    },
    #[error(
        "unpacking the record at offset {offset} takes {bytes} bytes of memory, answers over HTTP have {bytes_max} \
         (limits.answer_bytes_per_core); read it with a Kafka client, or go on behind it"
    )]
    TooMuch {
        offset: Offset,
        bytes: usize,
        bytes_max: usize,
    },
    #[error("{}", ANSWERS_FULL)]
    NoRoom,
    #[error("what is stored from offset {from} on cannot be read: {why}")]
    Damaged { from: Offset, why: String },
}

impl Page {
    fn new(from: Offset, form: Form) -> Page {
        Page {
            form,
            text: Vec::new(),
            records: 0,
            next: from,
            inside_batch: false,
            has_all: false,
            place: None,
        }
    }

    /// The first offset that is not to be on it, if one is not.
    fn end(&self) -> Option<Offset> {
        self.place.map(|place| place.next)
    }

    /// Adds a record; says if its text is too long for that.
    fn add(&mut self, record: &Record, bytes_max: usize) -> bool {
        let before = self.text.len();
        let is_first = self.records == 0;
        let stands = (self.form, self.place);
        write_record(&mut self.text, stands, is_first, record).expect("memory takes all that is written");
        if self.text.len() > bytes_max && !is_first {
            self.text.truncate(before);
            return false;
        }
        self.records += 1;
        self.next = record.offset.advance(1);
        true
    }

    /// Bytes of the text of the next record.
    fn text_bytes_of(&self, record: &Record) -> usize {
        let mut counted = Counted(0);
        let stands = (self.form, self.place);
        write_record(&mut counted, stands, self.records == 0, record).expect("counting takes anything");
        counted.0
    }

    /// The whole text, with what stands around the records.
    pub(super) fn finish(self, bounds: LogBounds) -> Vec<u8> {
        if self.form != Form::Array {
            return self.text;
        }
        let around = json!({
            "next_offset": self.next.0,
            "first_offset": bounds.log_start.0,
            "tail": bounds.tail.0,
        });
        let around = around.to_string();
        let (head, tail) = (b"{\"records\":[", [b"],", &around.as_bytes()[1..]].concat());
        // A copy would take as much memory again.
        let mut text = self.text;
        text.reserve_exact(head.len() + tail.len());
        text.splice(..0, *head);
        text.extend(tail);
        text
    }
}

fn write_record(
    out: &mut impl Write,
    (form, place): (Form, Option<Place>),
    is_first: bool,
    record: &Record,
) -> std::io::Result<()> {
    match form {
        Form::Array if !is_first => out.write_all(b",")?,
        Form::Array | Form::Lines => {}
        Form::Events => write!(out, "id: {}\ndata: ", record.offset)?,
    }
    let position = place.map(|place| place.position_of(record.offset));
    record_json::write_in_order(&mut *out, position, place.map(|place| place.partition), record)?;
    match form {
        Form::Array => Ok(()),
        Form::Lines => out.write_all(b"\n"),
        Form::Events => out.write_all(b"\n\n"),
    }
}

/// Takes a text only to count its bytes.
struct Counted(usize);

impl Write for Counted {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0 += text.len();
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Memory that a record takes, with what its headers take once more while they are written.
fn memory_of(record: &Record) -> usize {
    bytes_of(record) + headers_memory(record)
}

fn headers_memory(record: &Record) -> usize {
    record.headers.len() * HEADER_MEMORY_BYTES
}

fn bytes_of(record: &Record) -> usize {
    let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let headers = record
        .headers
        .iter()
        .map(|(key, value)| HEADER_TEXT_BYTES + key.len() + length(value));
    length(&record.key) + length(&record.value) + headers.sum::<usize>()
}
