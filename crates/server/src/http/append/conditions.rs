//! The conditions of an append, as a client writes them: in the query, or the tail as `If-Match`.

use axum::http::{HeaderMap, header};
use record::{Offset, Position};
use shard::Conditions;

use super::super::problem::{Kind, Problem};
use super::super::uri::Query;

/// The parameters of an append that goes to one partition.
pub(super) const OF_PARTITION: &[&str] = &["key", IF_TAIL, IF_OFFSET];
/// Of one whose records go where their keys lead.
pub(super) const OF_TOPIC: &[&str] = &["key", IF_TAIL];
const IF_TAIL: &str = "if_tail";
const IF_OFFSET: &str = "if_offset";

/// Reads the conditions.
///
/// # Errors
/// One is no number, or the tail is said twice.
pub(super) fn read(headers: &HeaderMap, query: &Query) -> Result<Conditions, Problem> {
    let number = |name| query.number(name, 0..=i64::MAX);
    let in_query = number(IF_TAIL)?.map(|tail| Position(tail as u64));
    let mut in_header = None;
    for value in headers.get_all(header::IF_MATCH) {
        let tail = tail_of(value.as_bytes())?;
        if in_header.replace(tail).is_some() {
            let detail = "If-Match is one position, and is said twice";
            return Err(Problem::new(Kind::MalformedHeader, detail).with("header", "If-Match"));
        }
    }
    if in_query.is_some() && in_header.is_some() {
        let detail = "the tail is said twice: if_tail in the query, and If-Match";
        return Err(Problem::new(Kind::MalformedQuery, detail).with("parameter", IF_TAIL));
    }
    Ok(Conditions {
        tail: in_query.or(in_header),
        offset: number(IF_OFFSET)?.map(Offset),
    })
}

/// The position in an entity tag (RFC 9110, section 8.8.3), a strong one.
fn tail_of(tag: &[u8]) -> Result<Position, Problem> {
    let text = std::str::from_utf8(tag).ok();
    let digits = text.and_then(|text| text.strip_prefix('"')?.strip_suffix('"'));
    let number = digits.and_then(|digits| digits.parse::<i64>().ok());
    // As it is written, and no other way.
    let number = number.filter(|number| digits == Some(&number.to_string()));
    let position = number.and_then(|number| u64::try_from(number).ok());
    position.map(Position).ok_or_else(|| {
        let detail = "If-Match is the position that the first record is to have, in quotes: \"17\"";
        Problem::new(Kind::MalformedHeader, detail).with("header", "If-Match")
    })
}

/// The query of the same conditions, for the node that leads the partition; empty without any.
pub(super) fn written(conditions: Conditions) -> String {
    let tail = conditions.tail.map(|tail| format!("{IF_TAIL}={}", tail.0));
    let offset = conditions.offset.map(|offset| format!("{IF_OFFSET}={offset}"));
    let all: Vec<String> = tail.into_iter().chain(offset).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("?{}", all.join("&")),
    }
}

/// A condition is of one batch.
///
/// # Errors
/// The records go to several partitions.
pub(super) fn check_one(conditions: Conditions, batches: usize) -> Result<(), Problem> {
    if batches == 1 || conditions == Conditions::default() {
        return Ok(());
    }
    let detail = format!(
        "the keys of these records lead to {batches} partitions, and a condition is of records of one: name it in the path"
    );
    Err(Problem::new(Kind::MalformedQuery, detail).with("parameter", IF_TAIL))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn conditions(query: &str, tag: Option<&'static str>) -> Result<Conditions, Kind> {
        let mut headers = HeaderMap::new();
        if let Some(tag) = tag {
            headers.insert(header::IF_MATCH, HeaderValue::from_static(tag));
        }
        let query = Query::read(Some(query), OF_PARTITION).expect("they are known");
        read(&headers, &query).map_err(|problem| problem.kind)
    }

    #[test]
    fn conditions_are_numbers_that_are_said_once() {
        let both = Conditions {
            tail: Some(Position(17)),
            offset: Some(Offset(3)),
        };
        assert_eq!(conditions("if_tail=17&if_offset=3", None), Ok(both));
        assert_eq!(conditions("if_offset=3", Some("\"17\"")), Ok(both));
        assert_eq!(written(both), "?if_tail=17&if_offset=3");
        assert_eq!(conditions("", None), Ok(Conditions::default()));
        assert_eq!(written(Conditions::default()), "");
        for query in [
            "if_tail=-1",
            "if_tail=",
            "if_offset=x",
            "if_tail=9223372036854775808",
        ] {
            assert_eq!(conditions(query, None), Err(Kind::MalformedQuery), "{query}");
        }
        for tag in [
            "17",
            "W/\"17\"",
            "*",
            "\"\"",
            "\"1\", \"2\"",
            "\"-1\"",
            "\"+17\"",
            "\"017\"",
            "\"9223372036854775808\"",
        ] {
            assert_eq!(conditions("", Some(tag)), Err(Kind::MalformedHeader), "{tag}");
        }
        assert_eq!(
            conditions("if_tail=17", Some("\"17\"")),
            Err(Kind::MalformedQuery)
        );
    }
}
