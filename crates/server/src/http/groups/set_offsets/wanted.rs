//! The places that a body names for a group to go on from: partitions, each once, each with one place.

use std::collections::BTreeSet;
use std::fmt;

use record::Offset;
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use super::super::super::json_body::Object;
use super::super::super::problem::{Kind, Problem};
use super::super::super::read::Start;

/// An entry of the body.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    topic: String,
    partition: i32,
    offset: Option<WrittenOffset>,
    timestamp_ms: Option<i64>,
}

/// One partition, and where its reading is to go on.
#[derive(Debug, serde::Deserialize)]
#[serde(try_from = "Object<Written>")]
pub(super) struct Wanted {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) start: Start,
}

impl TryFrom<Object<Written>> for Wanted {
    type Error = &'static str;

    fn try_from(Object(written): Object<Written>) -> Result<Wanted, &'static str> {
        let start = match (written.offset, written.timestamp_ms) {
            (Some(WrittenOffset(start)), None) => start,
            (None, Some(timestamp_ms @ 0..)) => Start::Since(timestamp_ms),
            (None, Some(_)) => return Err("a timestamp_ms cannot lie before 1970"),
            _ => return Err("each entry needs an offset or a timestamp_ms, and not both"),
        };
        Ok(Wanted {
            topic: written.topic,
            partition: written.partition,
            start,
        })
    }
}

/// An offset as a number or a word.
#[derive(Debug)]
struct WrittenOffset(Start);

impl<'de> Deserialize<'de> for WrittenOffset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WrittenOffset, D::Error> {
        deserializer.deserialize_any(OffsetVisitor).map(WrittenOffset)
    }
}

struct OffsetVisitor;

impl Visitor<'_> for OffsetVisitor {
    type Value = Start;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an offset, \"earliest\" or \"latest\"")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Start, E> {
        let offset = i64::try_from(number);
        offset
            .map(|offset| Start::At(Offset(offset)))
            .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Start, E> {
        // One that is not negative comes the other way.
        Err(E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Start, E> {
        match word {
            "earliest" => Ok(Start::Earliest),
            "latest" => Ok(Start::Latest),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }
}

/// Checks that no partition is named twice: which of the places goes is for the client to say.
///
/// # Errors
/// A problem that says which entry is the second.
pub(super) fn check_once(wanted: &[Wanted]) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    let mut entries = wanted.iter().enumerate();
    let twice = entries.find(|(_, wanted)| !seen.insert((wanted.topic.as_str(), wanted.partition)));
    match twice {
        None => Ok(()),
        Some((entry, Wanted { topic, partition, .. })) => {
            let detail = format!("entry {entry} names partition {partition} of {topic:?} a second time");
            Err(Problem::new(Kind::MalformedBody, detail).with("entry", entry))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(place: &str) -> Result<Start, String> {
        let text = format!("{{\"topic\":\"t\",\"partition\":0,{place}}}");
        let wanted: Wanted = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        Ok(wanted.start)
    }

    #[test]
    fn a_place_is_an_offset_a_word_or_a_time() {
        assert_eq!(start("\"offset\":0"), Ok(Start::At(Offset(0))));
        assert_eq!(
            start("\"offset\":9223372036854775807"),
            Ok(Start::At(Offset(i64::MAX)))
        );
        assert_eq!(start("\"offset\":\"earliest\""), Ok(Start::Earliest));
        assert_eq!(
            start("\"offset\":\"latest\",\"timestamp_ms\":null"),
            Ok(Start::Latest)
        );
        assert_eq!(start("\"timestamp_ms\":7"), Ok(Start::Since(7)));
        for (place, word) in [
            ("\"offset\":-1", "integer `-1`, expected an offset"),
            ("\"offset\":9223372036854775808", "expected an offset"),
            ("\"offset\":\"first\"", "\"first\", expected an offset"),
            ("\"offset\":1.5", "expected an offset"),
            ("\"offset\":null", "an offset or a timestamp_ms"),
            ("\"offset\":1,\"timestamp_ms\":1", "not both"),
            ("\"timestamp_ms\":-1", "1970"),
            ("\"offset\":1,\"metadata\":\"x\"", "metadata"),
        ] {
            let error = start(place).expect_err(place);
            assert!(error.contains(word), "{place}: {error}");
        }
    }

    #[test]
    fn a_partition_has_one_place() {
        let of = |topic: &str, partition| Wanted {
            topic: topic.to_owned(),
            partition,
            start: Start::Earliest,
        };
        assert!(check_once(&[of("t", 0), of("t", 1), of("u", 0)]).is_ok());
        let twice = check_once(&[of("t", 0), of("u", 0), of("t", 0)]).expect_err("twice");
        assert_eq!(twice.json()["entry"], 2);
    }
}
