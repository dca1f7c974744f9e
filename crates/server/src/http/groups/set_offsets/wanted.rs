//! The places that a body names for a group to go on from: partitions, each once, each with one place; or topics with one order, each at a cut.

use std::collections::BTreeSet;
use std::fmt;

use record::{Offset, Position};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

use super::super::super::json_body::Object;
use super::super::super::problem::{Kind, Problem};
use super::super::super::read::Start;

/// An entry of the body.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    topic: String,
    partition: Option<i32>,
    offset: Option<WrittenOffset>,
    timestamp_ms: Option<i64>,
    position: Option<i64>,
}

/// An entry as it is meant.
#[derive(Debug, serde::Deserialize)]
#[serde(try_from = "Object<Written>")]
pub(super) enum Entry {
    Place(Wanted),
    Cut(Cut),
}

/// A topic with one order, all of whose partitions are to go on at a position.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) topic: String,
    pub(super) position: Position,
}

/// One partition, and where its reading is to go on.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) topic: String,
    pub(super) partition: i32,
    pub(super) start: Start,
    /// It may lie before the first offset that is kept, and is that one then.
    pub(super) may_be_gone: bool,
}

impl TryFrom<Object<Written>> for Entry {
    type Error = &'static str;

    fn try_from(Object(written): Object<Written>) -> Result<Entry, &'static str> {
        let Written {
            topic,
            partition,
            offset,
            timestamp_ms,
            position,
        } = written;
        if let Some(position) = position {
            let position = u64::try_from(position).map_err(|_| "a position cannot be negative")?;
            return match (partition, offset, timestamp_ms) {
                (None, None, None) => Ok(Entry::Cut(Cut {
                    topic,
                    position: Position(position),
                })),
                _ => Err("a position is one of all partitions: it has no partition, offset or timestamp_ms"),
            };
        }
        let start = match (offset, timestamp_ms) {
            (Some(WrittenOffset(start)), None) => start,
            (None, Some(timestamp_ms @ 0..)) => Start::Since(timestamp_ms),
            (None, Some(_)) => return Err("a timestamp_ms cannot lie before 1970"),
            _ => return Err("each entry needs an offset or a timestamp_ms, and not both"),
        };
        Ok(Entry::Place(Wanted {
            topic,
            partition: partition.ok_or("each entry needs a partition, or a position")?,
            start,
            may_be_gone: false,
        }))
    }
}

/// The entries of a body, all of one kind.
#[derive(Debug)]
pub(super) enum Entries {
    /// No partition twice.
    Places(Vec<Wanted>),
    /// No topic twice.
    Cuts(Vec<Cut>),
}

/// Sorts the entries of a body.
///
/// # Errors
/// A problem that says which entry is of another kind, or a second one for its place.
pub(super) fn sort(entries: Vec<Entry>) -> Result<Entries, Problem> {
    let is_cut = |entry: &Entry| matches!(entry, Entry::Cut(_));
    let of_cuts = entries.first().is_some_and(is_cut);
    if let Some(entry) = entries.iter().position(|entry| is_cut(entry) != of_cuts) {
        let detail = format!("entry {entry} is of another kind: either all have positions, or none has");
        return Err(Problem::new(Kind::MalformedBody, detail).with("entry", entry));
    }
    let (mut places, mut cuts) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            Entry::Place(wanted) => places.push(wanted),
            Entry::Cut(cut) => cuts.push(cut),
        }
    }
    if !of_cuts {
        check_once(&places)?;
        return Ok(Entries::Places(places));
    }
    let mut seen = BTreeSet::new();
    if let Some(entry) = cuts.iter().position(|cut| !seen.insert(&cut.topic)) {
        let detail = format!("entry {entry} names topic {:?} a second time", cuts[entry].topic);
        return Err(Problem::new(Kind::MalformedBody, detail).with("entry", entry));
    }
    Ok(Entries::Cuts(cuts))
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
fn check_once(wanted: &[Wanted]) -> Result<(), Problem> {
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
        match serde_json::from_str(&text).map_err(|error| error.to_string())? {
            Entry::Place(wanted) => Ok(wanted.start),
            Entry::Cut(cut) => Err(format!("{cut:?}")),
        }
    }

    #[test]
    fn a_position_is_of_all_partitions() {
        let read = |text: &str| serde_json::from_str::<Entry>(text).map_err(|error| error.to_string());
        let cut = |topic: &str, position| {
            let text = format!("{{\"topic\":\"{topic}\",\"position\":{position}}}");
            read(&text).expect("it is a cut")
        };
        let place = || read("{\"topic\":\"t\",\"partition\":0,\"offset\":7}").expect("it is a place");
        let Ok(Entries::Cuts(cuts)) = sort(vec![cut("t", 7), cut("u", 0)]) else {
            panic!("both are cuts")
        };
        assert_eq!(cuts[0].position, Position(7));
        for entries in [
            vec![cut("t", 7), place()],
            vec![place(), cut("t", 7)],
            vec![cut("t", 1), cut("t", 2)],
        ] {
            assert_eq!(sort(entries).expect_err("the second is wrong").json()["entry"], 1);
        }
        assert!(matches!(sort(vec![place()]), Ok(Entries::Places(_))));
        for (text, word) in [
            ("{\"topic\":\"t\",\"position\":-1}", "negative"),
            (
                "{\"topic\":\"t\",\"partition\":0,\"position\":1}",
                "of all partitions",
            ),
            (
                "{\"topic\":\"t\",\"position\":1,\"offset\":1}",
                "of all partitions",
            ),
            ("{\"topic\":\"t\",\"offset\":1}", "needs a partition"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(word), "{text}: {error}");
        }
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
            may_be_gone: false,
        };
        assert!(check_once(&[of("t", 0), of("t", 1), of("u", 0)]).is_ok());
        let twice = check_once(&[of("t", 0), of("u", 0), of("t", 0)]).expect_err("twice");
        assert_eq!(twice.json()["entry"], 2);
    }
}
