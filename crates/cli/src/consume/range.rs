//! Where reading begins and where it ends, as it stands on the command line.

use anyhow::Result;
use client::{Cluster, Offset, OffsetQuery, Record, Start};

use crate::failure::Senseless;
use crate::time::{now_ms, shown, written_ms};

/// `--from`: where to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    Earliest,
    Latest,
    Offset(i64),
    /// Milliseconds since 1970.
    Time(i64),
}

/// `--until`: what is not printed any more, with all that stands behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    Offset(i64),
    /// Milliseconds since 1970.
    Time(i64),
}

/// Reads `--from`.
pub(super) fn from(text: &str) -> Result<Begin, String> {
    match (text, place(text)) {
        ("earliest", _) => Ok(Begin::Earliest),
        ("latest", _) => Ok(Begin::Latest),
        (_, Some(Until::Offset(offset))) => Ok(Begin::Offset(offset)),
        (_, Some(Until::Time(ms))) => Ok(Begin::Time(ms)),
        _ => Err(format!("expected earliest, latest, {PLACE}")),
    }
}

/// Reads `--until`.
pub(super) fn until(text: &str) -> Result<Until, String> {
    place(text).ok_or_else(|| format!("expected {PLACE}"))
}

const PLACE: &str =
    "an offset, a time such as 2026-01-31T12:00:00Z, @ and milliseconds since 1970, or an age such as 15m";

fn place(text: &str) -> Option<Until> {
    match text.parse::<i64>() {
        Ok(offset) => (offset >= 0).then_some(Until::Offset(offset)),
        Err(_) => written_ms(text, now_ms()).map(Until::Time),
    }
}

/// Refuses ends between which there can be nothing.
pub(super) fn check(from: Begin, until: Option<Until>) -> Result<()> {
    let crossed = match (from, until) {
        (Begin::Offset(first), Some(Until::Offset(next))) if next <= first => {
            format!("nothing lies between --from {first} and --until {next}; --until must be greater")
        }
        (Begin::Time(first), Some(Until::Time(next))) if next <= first => {
            let (first, next) = (shown(first), shown(next));
            format!("nothing lies between --from {first} and --until {next}; --until must be later")
        }
        _ => return Ok(()),
    };
    Err(Senseless(crossed).into())
}

impl Begin {
    /// The same for a consumer.
    pub(super) fn start(self) -> Start {
        match self {
            Begin::Earliest => Start::Earliest,
            Begin::Latest => Start::Latest,
            Begin::Offset(offset) => Start::Offset(Offset(offset)),
            Begin::Time(ms) => Start::Timestamp(ms),
        }
    }
}

impl Until {
    /// Says if a record is not to be printed any more.
    pub(super) fn excludes(self, record: &Record) -> bool {
        match self {
            Until::Offset(next) => record.offset.0 >= next,
            Until::Time(ms) => record.timestamp_ms >= ms,
        }
    }

    /// Says if nothing from `position` on is to be printed, as far as that can be told without a record.
    pub(super) fn is_reached(self, position: Offset) -> bool {
        matches!(self, Until::Offset(next) if position.0 >= next)
    }
}

/// Where the last `count` offsets of a partition begin.
pub(super) fn last(
    cluster: &mut Cluster,
    topic: &str,
    partition: i32,
    latest: OffsetQuery,
    count: u64,
) -> Result<Start> {
    let mut ask = |query| cluster.offset(topic, partition, query);
    let first = ask(OffsetQuery::Earliest)?.unwrap_or(Offset::ZERO);
    let tail = ask(latest)?.unwrap_or(Offset::ZERO);
    Ok(Start::Offset(before_tail(first, tail, count)))
}

/// The offset `count` before `tail`, or `first` if there are fewer.
pub(super) fn before_tail(first: Offset, tail: Offset, count: u64) -> Offset {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Offset(tail.0.saturating_sub(count).max(first.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_word_an_offset_or_a_time() {
        assert_eq!(from("earliest"), Ok(Begin::Earliest));
        assert_eq!(from("latest"), Ok(Begin::Latest));
        assert_eq!(from("17"), Ok(Begin::Offset(17)));
        assert_eq!(from("@17"), Ok(Begin::Time(17)));
        assert_eq!(from("1970-01-01T00:00:02Z"), Ok(Begin::Time(2_000)));
        assert!(matches!(from("15m"), Ok(Begin::Time(_))));
        assert_eq!(until("17"), Ok(Until::Offset(17)));
        for text in ["-1", "oldest", "", "@", "2026-01-31", "9999999999999999999"] {
            assert!(from(text).is_err() && until(text).is_err(), "{text}");
        }
        assert!(until("latest").is_err(), "where the command ends by itself");
    }

    #[test]
    fn ends_that_cross_are_refused() {
        let refused = |from, until| check(from, Some(until)).is_err();
        assert!(refused(Begin::Offset(5), Until::Offset(5)));
        assert!(refused(Begin::Time(5), Until::Time(4)));
        assert!(!refused(Begin::Offset(5), Until::Offset(6)));
        assert!(!refused(Begin::Earliest, Until::Offset(1)));
        assert!(!refused(Begin::Offset(5), Until::Time(1)), "not comparable");
        assert!(check(Begin::Latest, None).is_ok());
    }
}
