//! One record as JSON, in and out, over HTTP and on the command line. Text stays text; what is not UTF-8 goes by `key_base64` and
//! `value_base64`. What is told can be appended again.

use std::fmt;
use std::io;

use bytes::Bytes;
use record::{Position, Record, base64};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::http::{Items, Object, in_words};

/// Headers of a record. One that says nothing takes three bytes of a body, and far more than that in memory.
pub(crate) const HEADERS_MAX: usize = record::HEADERS_MAX as usize;

/// A record as a client sends it.
#[derive(Debug, Deserialize)]
pub struct NewRecord(Object<Written>);

/// No key is none (null). A value of none gives up what the log has of the key: that must be written, and does not come of a value
/// that was forgotten.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    key: Option<String>,
    key_base64: Option<String>,
    #[serde(default, deserialize_with = "even_null")]
    value: Option<Option<String>>,
    #[serde(default, deserialize_with = "even_null")]
    value_base64: Option<Option<String>>,
    headers: Option<Items<Object<NewHeader>, HEADERS_MAX, 0>>,
    timestamp_ms: Option<i64>,
    // Where a record that was read stood. This one will stand elsewhere, so these are left aside.
    #[serde(default, rename = "topic")]
    _topic: IgnoredAny,
    #[serde(default, rename = "partition")]
    _partition: IgnoredAny,
    #[serde(default, rename = "offset")]
    _offset: IgnoredAny,
    #[serde(default, rename = "position")]
    _position: IgnoredAny,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewHeader {
    key: Option<String>,
    key_base64: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
}

/// Says what is wrong with a record's JSON, in one sentence without the place.
#[must_use]
pub fn why(error: &serde_json::Error) -> String {
    in_words(error)
}

/// A header's key and value.
pub type HeaderBytes = (Vec<u8>, Option<Vec<u8>>);

/// The same as bytes.
#[derive(Debug)]
pub struct RecordBytes {
    /// `None` is no key.
    pub key: Option<Vec<u8>>,
    /// `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// In their order.
    pub headers: Vec<HeaderBytes>,
    /// Milliseconds since 1970; `None` is the moment of the append.
    pub timestamp_ms: Option<i64>,
}

impl NewRecord {
    /// The bytes that the record stands for.
    ///
    /// # Errors
    /// A sentence: something is said twice, is not Base64, cannot be, or is missing.
    pub fn into_bytes(self) -> Result<RecordBytes, String> {
        let NewRecord(Object(written)) = self;
        let headers = written.headers.map_or(Vec::new(), |Items(headers)| headers);
        let headers = headers.into_iter().map(|Object(header)| header.into_bytes());
        let headers = headers.collect::<Result<Vec<_>, String>>()?;
        let key = field("key", written.key, written.key_base64)?;
        if written.value.is_none() && written.value_base64.is_none() {
            return Err("a record needs a value; null makes it a tombstone".to_owned());
        }
        let value = field("value", written.value.flatten(), written.value_base64.flatten())?;
        if written.timestamp_ms.is_some_and(|ms| ms < 0) {
            return Err("a timestamp_ms cannot lie before 1970".to_owned());
        }
        Ok(RecordBytes {
            key,
            value,
            headers,
            timestamp_ms: written.timestamp_ms,
        })
    }
}

/// Tells a null that is written from one that is not.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl NewHeader {
    fn into_bytes(self) -> Result<HeaderBytes, String> {
        let key = field("a header's key", self.key, self.key_base64)?;
        let key = key.ok_or("a header needs a key")?;
        Ok((key, field("a header's value", self.value, self.value_base64)?))
    }
}

fn field(name: &str, text: Option<String>, base64: Option<String>) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(format!("{name} is given twice, as text and as Base64")),
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(coded)) => base64::decode(&coded)
            .map(Some)
            .ok_or_else(|| format!("{name} is not Base64")),
        (None, None) => Ok(None),
    }
}

/// A record as it is told. `key` and `value` are there unless their Base64 is: null is none.
#[derive(Serialize)]
struct ToldRecord<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<i32>,
    offset: i64,
    timestamp_ms: Option<i64>,
    #[serde(flatten)]
    key: ToldKey<'a>,
    #[serde(flatten)]
    value: ToldValue<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<ToldHeader<'a>>,
}

#[derive(Serialize)]
struct ToldHeader<'a> {
    #[serde(flatten)]
    key: ToldKey<'a>,
    #[serde(flatten)]
    value: ToldValue<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ToldKey<'a> {
    Key(Option<&'a str>),
    KeyBase64(Base64<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum ToldValue<'a> {
    Value(Option<&'a str>),
    ValueBase64(Base64<'a>),
}

/// Bytes whose Base64 is written piece by piece: it is never in memory beside what it is written to.
struct Base64<'a>(&'a [u8]);

/// The bytes of a piece: whole groups of three, so that the texts of all pieces are the text of all bytes.
const BASE64_PIECE_BYTES: usize = 3 << 10;

impl fmt::Display for Base64<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pieces = self.0.chunks(BASE64_PIECE_BYTES);
        pieces.try_for_each(|piece| out.write_str(&base64::encode(piece)))
    }
}

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text if the bytes are, else their Base64.
fn text_or_base64<'a, T>(
    bytes: Option<&'a Bytes>,
    text: impl Fn(Option<&'a str>) -> T,
    coded: impl Fn(Base64<'a>) -> T,
) -> T {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => text(None),
        Some((_, Ok(plain))) => text(Some(plain)),
        Some((bytes, Err(_))) => coded(Base64(bytes)),
    }
}

impl<'a> ToldKey<'a> {
    fn of(bytes: Option<&'a Bytes>) -> ToldKey<'a> {
        text_or_base64(bytes, ToldKey::Key, ToldKey::KeyBase64)
    }
}

impl<'a> ToldValue<'a> {
    fn of(bytes: Option<&'a Bytes>) -> ToldValue<'a> {
        text_or_base64(bytes, ToldValue::Value, ToldValue::ValueBase64)
    }
}

/// Writes a record as one JSON object, without a line break in it; with its partition, where records of several are told.
///
/// # Errors
/// `out` does not take it.
pub fn write(out: impl io::Write, partition: Option<i32>, record: &Record) -> serde_json::Result<()> {
    write_in_order(out, None, partition, record)
}

/// The same with its position, where records are told in the order of their topic.
///
/// # Errors
/// As `write`.
pub(crate) fn write_in_order(
    out: impl io::Write,
    position: Option<Position>,
    partition: Option<i32>,
    record: &Record,
) -> serde_json::Result<()> {
    let headers = record.headers.iter().map(|(key, value)| ToldHeader {
        key: ToldKey::of(Some(key)),
        value: ToldValue::of(value.as_ref()),
    });
    let told = ToldRecord {
        position: position.map(|position| position.0),
        partition,
        offset: record.offset.0,
        // A time before 1970 is none.
        timestamp_ms: (record.timestamp_ms >= 0).then_some(record.timestamp_ms),
        key: ToldKey::of(record.key.as_ref()),
        value: ToldValue::of(record.value.as_ref()),
        headers: headers.collect(),
    };
    serde_json::to_writer(out, &told)
}

#[cfg(test)]
mod tests {
    use record::Offset;

    use super::*;

    fn written(record: &Record) -> String {
        let mut out = Vec::new();
        write(&mut out, None, record).expect("memory takes it");
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn text_is_told_as_text_and_bytes_as_base64() {
        let mut record = Record {
            offset: Offset(7),
            timestamp_ms: 5,
            key: Some(Bytes::from_static(b"k")),
            value: Some(Bytes::from_static("li\nne \"é\"".as_bytes())),
            headers: Vec::new(),
        };
        assert_eq!(
            written(&record),
            r#"{"offset":7,"timestamp_ms":5,"key":"k","value":"li\nne \"é\""}"#
        );
        record.key = Some(Bytes::from_static(b"\xff"));
        record.value = None;
        record.timestamp_ms = -1;
        record.headers = vec![(Bytes::from_static(b"h"), Some(Bytes::from_static(b"\xfe")))];
        assert_eq!(
            written(&record),
            r#"{"offset":7,"timestamp_ms":null,"key_base64":"/w==","value":null,"headers":[{"key":"h","value_base64":"/g=="}]}"#
        );
    }

    #[test]
    fn long_bytes_are_told_as_one_base64() {
        for length in [3_071, 3_072, 3_073, 10_000] {
            let bytes = vec![0xff; length];
            assert_eq!(Base64(&bytes).to_string(), base64::encode(&bytes), "{length}");
        }
    }

    #[test]
    fn what_is_told_can_be_appended_again() {
        let record = Record {
            offset: Offset(7),
            timestamp_ms: 5,
            key: Some(Bytes::from_static(b"\xff")),
            value: Some(Bytes::from_static(b"v")),
            headers: vec![(Bytes::from_static(b"h"), None)],
        };
        let read: NewRecord = serde_json::from_str(&written(&record)).expect("its own words");
        let bytes = read.into_bytes().expect("a record");
        assert_eq!(bytes.timestamp_ms, Some(5));
        assert_eq!(
            (bytes.key, bytes.value),
            (Some(b"\xff".to_vec()), Some(b"v".to_vec()))
        );
        assert_eq!(bytes.headers, [(b"h".to_vec(), None)]);
    }

    #[test]
    fn a_record_with_nothing_in_it_is_told_and_read() {
        let nothing = Record {
            offset: Offset(7),
            timestamp_ms: -5,
            key: None,
            value: None,
            headers: Vec::new(),
        };
        let mut told = Vec::new();
        write(&mut told, Some(3), &nothing).expect("memory takes it");
        let expected = br#"{"partition":3,"offset":7,"timestamp_ms":null,"key":null,"value":null}"#;
        assert_eq!(told, expected);
        let read: NewRecord = serde_json::from_slice(&told).expect("its own words");
        let bytes = read.into_bytes().expect("a record");
        assert_eq!((bytes.key, bytes.value, bytes.timestamp_ms), (None, None, None));
        let read: NewRecord = serde_json::from_str(r#"{"value":"v","headers":null}"#).expect("none");
        assert!(read.into_bytes().expect("a record").headers.is_empty());
    }

    #[test]
    fn what_contradicts_itself_is_refused_in_words() {
        for (text, why) in [
            (r#"{"key":"a","key_base64":"YQ=="}"#, "key is given twice"),
            (r#"{"value_base64":"?"}"#, "value is not Base64"),
            (r#"{"headers":[{"key":"h"}]}"#, "needs a value"),
            (r#"{"key":"k"}"#, "null makes it a tombstone"),
            (r#"{"value":"v","timestamp_ms":-1}"#, "before 1970"),
            (
                r#"{"value":"v","headers":[{"value":"x"}]}"#,
                "a header needs a key",
            ),
        ] {
            let record: NewRecord = serde_json::from_str(text).expect("JSON");
            let told = record.into_bytes().expect_err(text);
            assert!(told.contains(why), "{text}: {told}");
        }
        for text in [
            r#"{"valeu":"v"}"#,
            r#"{"value":"v","timestamp":5}"#,
            r#"{"value":"v","value":"w"}"#,
            r#"["k",null,"v"]"#,
            r#"{"value":"v","headers":[["h"]]}"#,
        ] {
            assert!(serde_json::from_str::<NewRecord>(text).is_err(), "{text}");
        }
        for tombstone in [
            r#"{"key":"k","value":null}"#,
            r#"{"key":"k","value_base64":null}"#,
        ] {
            let record: NewRecord = serde_json::from_str(tombstone).expect("JSON");
            assert_eq!(record.into_bytes().expect("a record").value, None);
        }
    }
}
