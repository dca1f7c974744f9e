//! Batches as text: the records of a read, one after the other, within the limits of an answer.
//!
//! Decompressing and writing may take long, so all but small reads are done off the HTTP thread.

use std::io::Write;

use bytes::Bytes;
use record::{BatchError, BatchHeader, Compression, Offset, Record};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::record_json;
use crate::stands::Stands;

use super::super::cores::Found;

/// Reads up to this are written on the HTTP thread itself, unless they are compressed.
const SMALL_BYTES: usize = 64 << 10;

/// Text around a header's key and value.
const HEADER_TEXT_BYTES: usize = r#"{"key":"","value":""},"#.len();

/// How records stand in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Form {
    /// An object with an array of them.
    Array,
    /// One a line.
    Lines,
    /// Server-sent events (WHATWG HTML, section 9.2); an event's id is the record's offset.
    Events,
}

/// What a page may hold.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Limits {
    pub(in super::super) records_max: usize,
    /// Of text; the first record may pass it.
    pub(in super::super) bytes_max: usize,
    /// Of a record's own bytes, and of what its headers take as text beside theirs.
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
    /// Whether it begins and ends inside one batch, all of which the next page has to unpack again.
    pub(in super::super) inside_batch: bool,
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
    #[error("what is stored from offset {from} on cannot be read: {why}")]
    Damaged { from: Offset, why: String },
}

/// Makes a page of what a read found, and lets go of that.
pub(super) async fn make_page(
    found: Found,
    from: Offset,
    form: Form,
    limits: Limits,
) -> Result<Page, Unpaged> {
    if found.batches.is_empty() {
        return Ok(Page::new(from, form));
    }
    if is_quick(&found.batches) {
        return write_page(&found.batches, from, form, &limits);
    }
    let mut writing = Wanted(tokio::task::spawn_blocking(move || {
        write_page(&found.batches, from, form, &limits)
    }));
    (&mut writing.0).await.expect("writing a page does not panic")
}

/// Work that is not begun if nobody waits for it any more when its turn comes.
struct Wanted<T>(JoinHandle<T>);

impl<T> Drop for Wanted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn is_quick(batches: &[Bytes]) -> bool {
    let bytes: usize = batches.iter().map(Bytes::len).sum();
    let plain =
        |(header, _): (BatchHeader, &[u8])| matches!(header.attributes.compression(), Ok(Compression::None));
    bytes <= SMALL_BYTES
        && batches
            .iter()
            .flat_map(|batches| record::batches(batches))
            .all(|batch| batch.is_ok_and(plain))
}

fn write_page(batches: &[Bytes], from: Offset, form: Form, limits: &Limits) -> Result<Page, Unpaged> {
    let damaged = |error: BatchError| Unpaged::Damaged {
        from,
        why: error.to_string(),
    };
    let mut page = Page::new(from, form);
    for batch in batches.iter().flat_map(|batches| record::batches(batches)) {
        let (header, batch) = batch.map_err(damaged)?;
        if header.next_offset() <= page.next {
            continue;
        }
        // Marks of brokers are not for readers.
        if !header.attributes.is_control() {
            for record in record::records(batch, &limits.decompression).map_err(damaged)? {
                let record = record.map_err(damaged)?;
                if record.offset >= page.next && !page.add(&record, limits)? {
                    page.inside_batch = header.base_offset <= from;
                    return Ok(page);
                }
            }
        }
        page.next = header.next_offset();
    }
    Ok(page)
}

impl Page {
    fn new(from: Offset, form: Form) -> Page {
        Page {
            form,
            text: Vec::new(),
            records: 0,
            next: from,
            inside_batch: false,
        }
    }

    /// Adds a record, or says that the page is full.
    fn add(&mut self, record: &Record, limits: &Limits) -> Result<bool, Unpaged> {
        if self.records == limits.records_max {
            return Ok(false);
        }
        let bytes = bytes_of(record);
        if bytes > limits.record_bytes_max {
            let too_large = Unpaged::TooLarge {
                offset: record.offset,
                bytes,
                bytes_max: limits.record_bytes_max,
            };
            return if self.records == 0 {
                Err(too_large)
            } else {
                Ok(false)
            };
        }
        let before = self.text.len();
        self.write(record).expect("memory takes all that is written");
        if self.text.len() > limits.bytes_max && self.records > 0 {
            self.text.truncate(before);
            return Ok(false);
        }
        self.records += 1;
        self.next = record.offset.advance(1);
        Ok(true)
    }

    fn write(&mut self, record: &Record) -> std::io::Result<()> {
        let out = &mut self.text;
        match self.form {
            Form::Array if self.records > 0 => out.push(b','),
            Form::Array | Form::Lines => {}
            Form::Events => write!(out, "id: {}\ndata: ", record.offset)?,
        }
        record_json::write(&mut *out, None, record)?;
        match self.form {
            Form::Array => {}
            Form::Lines => out.push(b'\n'),
            Form::Events => out.extend_from_slice(b"\n\n"),
        }
        Ok(())
    }

    /// The whole text, with what stands around the records.
    pub(super) fn finish(self, stands: Stands) -> Vec<u8> {
        if self.form != Form::Array {
            return self.text;
        }
        let around = json!({
            "next_offset": self.next.0,
            "first_offset": stands.log_start.0,
            "tail": stands.tail.0,
        });
        let around = around.to_string();
        let mut text = Vec::with_capacity(self.text.len() + around.len() + 16);
        text.extend_from_slice(b"{\"records\":[");
        text.extend_from_slice(&self.text);
        text.extend_from_slice(b"],");
        text.extend_from_slice(&around.as_bytes()[1..]);
        text
    }
}

fn bytes_of(record: &Record) -> usize {
    let length = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let headers = record
        .headers
        .iter()
        .map(|(key, value)| HEADER_TEXT_BYTES + key.len() + length(value));
    length(&record.key) + length(&record.value) + headers.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use record::BatchBuilder;

    use super::*;

    const LIMITS: Limits = Limits {
        records_max: 100,
        bytes_max: 1_000,
        record_bytes_max: 500,
        decompression: record::Limits {
            decompressed_bytes_max: 1 << 20,
            snappy_block_bytes_max: 1 << 20,
            zstd_window_log_max: 20,
        },
    };

    fn batch(compression: Compression, first: i64, values: &[&str]) -> Bytes {
        let mut builder = BatchBuilder::new(compression);
        for value in values {
            builder.append(1, None, Some(value.as_bytes()), &[]);
        }
        let mut batch = builder.build().to_vec();
        record::set_base_offset(&mut batch, Offset(first));
        batch.into()
    }

    fn lines(page: &Page) -> usize {
        page.text.split(|byte| *byte == b'\n').count() - 1
    }

    #[test]
    fn a_page_begins_inside_a_batch_and_ends_where_it_is_full() {
        let batches = [
            batch(Compression::None, 0, &["a", "b"]),
            batch(Compression::Gzip, 2, &["c", "d"]),
        ];
        let write = |from, records_max| {
            let limits = Limits {
                records_max,
                ..LIMITS
            };
            write_page(&batches, Offset(from), Form::Lines, &limits).expect("a page")
        };
        for (from, records_max, records, next) in [(0, 9, 4, 4), (1, 2, 2, 3), (3, 9, 1, 4), (1, 1, 1, 2)] {
            let page = write(from, records_max);
            assert_eq!(
                (page.records, lines(&page), page.next),
                (records, records, Offset(next))
            );
            assert!(page.text.starts_with(format!("{{\"offset\":{from},").as_bytes()));
        }
    }

    #[test]
    fn a_page_that_ends_inside_the_batch_it_begins_in_says_so() {
        let batches = [
            batch(Compression::None, 0, &["a", "b"]),
            batch(Compression::Gzip, 2, &["c", "d", "e"]),
        ];
        for (from, records_max, inside) in [
            (0, 1, true),
            (1, 1, false),
            (0, 3, false),
            (2, 1, true),
            (3, 1, true),
            (3, 2, false),
        ] {
            let limits = Limits {
                records_max,
                ..LIMITS
            };
            let page = write_page(&batches, Offset(from), Form::Lines, &limits).expect("a page");
            assert_eq!(page.inside_batch, inside, "{records_max} from {from} on");
        }
    }

    #[test]
    fn the_first_record_may_pass_the_limit_and_no_other() {
        let batches = [batch(Compression::None, 0, &["a", "b"])];
        let limits = Limits {
            bytes_max: 1,
            ..LIMITS
        };
        let page = write_page(&batches, Offset(0), Form::Lines, &limits).expect("a page");
        assert_eq!((page.records, lines(&page), page.next), (1, 1, Offset(1)));
    }

    #[test]
    fn a_record_that_no_answer_holds_is_named_when_it_comes_first() {
        let long = "x".repeat(501);
        let batches = [batch(Compression::None, 0, &["a", &long, "b"])];
        let page = write_page(&batches, Offset(0), Form::Lines, &LIMITS).expect("a page");
        assert_eq!((page.records, page.next), (1, Offset(1)));
        let refused = write_page(&batches, Offset(1), Form::Lines, &LIMITS).expect_err("too large");
        let expected = Unpaged::TooLarge {
            offset: Offset(1),
            bytes: 501,
            bytes_max: 500,
        };
        assert_eq!(refused, expected);
        let page = write_page(&batches, Offset(2), Form::Lines, &LIMITS).expect("a page");
        assert_eq!((page.records, page.next), (1, Offset(3)));
    }

    #[test]
    fn headers_count_with_what_they_take_as_text() {
        let mut builder = BatchBuilder::new(Compression::Gzip);
        for count in [2, 30] {
            builder.append(1, None, None, &vec![(&b""[..], None); count]);
        }
        let batches = [builder.build()];
        let page = write_page(&batches, Offset(0), Form::Lines, &LIMITS).expect("a page");
        assert_eq!((page.records, page.next), (1, Offset(1)));
        let refused = write_page(&batches, Offset(1), Form::Lines, &LIMITS).expect_err("too large");
        assert!(
            matches!(refused, Unpaged::TooLarge { bytes: 660, .. }),
            "{refused:?}"
        );
    }

    #[test]
    fn what_unpacks_to_too_much_is_not_unpacked() {
        let batches = [batch(Compression::Gzip, 0, &["x".repeat(2 << 20).as_str()])];
        let refused = write_page(&batches, Offset(0), Form::Lines, &LIMITS).expect_err("too large");
        assert!(matches!(refused, Unpaged::Damaged { .. }), "{refused}");
    }

    #[test]
    fn the_whole_is_json_and_each_event_is_one_line_of_data() {
        let batches = [batch(Compression::None, 0, &["a\nb", "c"])];
        let page = write_page(&batches, Offset(0), Form::Array, &LIMITS).expect("a page");
        let stands = Stands {
            log_start: Offset(0),
            tail: Offset(9),
        };
        let whole: serde_json::Value = serde_json::from_slice(&page.finish(stands)).expect("JSON");
        assert_eq!(whole["records"][0]["value"], "a\nb");
        assert_eq!((&whole["next_offset"], &whole["tail"]), (&2.into(), &9.into()));
        let page = write_page(&batches, Offset(0), Form::Events, &LIMITS).expect("a page");
        let text = String::from_utf8(page.text).expect("text");
        assert!(text.starts_with("id: 0\ndata: {\"offset\":0,"), "{text}");
        assert!(text.ends_with("}\n\n") && text.lines().count() == 6, "{text}");
    }
}
