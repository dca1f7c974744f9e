//! Says what is wrong with JSON in words of HTTP's users. The parser's own words are of maps, strings and integers of the
//! program.

use serde_json::error::Category;

/// The parser's words for what was found, and for what is expected, with ours.
const FOUND: &[(&str, &str)] = &[
    ("map", "an object"),
    ("sequence", "an array"),
    ("null", "null"),
    ("boolean", "the boolean"),
    ("integer", "the number"),
    ("floating point", "the number"),
    ("string", "the text"),
];
const EXPECTED: &[(&str, &str)] = &[
    (
        "a string",
        "text is expected: put it in quotes, as JSON in a string",
    ),
    ("a boolean", "true or false is expected"),
    ("a map", "an object is expected"),
    ("a sequence", "an array is expected"),
];
const INTEGERS: &[&str] = &["i16", "i32", "i64", "u16", "u32", "u64"];

/// One sentence without the place, which the error tells by itself.
pub(crate) fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what);
    match error.classify() {
        Category::Eof => "the JSON ends too early".to_owned(),
        Category::Syntax => format!("this is no JSON: {what}"),
        Category::Data | Category::Io => in_our_words(what),
    }
}

fn in_our_words(what: &str) -> String {
    let mismatch = what
        .strip_prefix("invalid type: ")
        .or_else(|| what.strip_prefix("invalid value: "));
    if let Some((found, expected)) = mismatch.and_then(|mismatch| mismatch.split_once(", expected ")) {
        return format!(
            "{} stands where {}",
            found_in_words(found),
            expected_in_words(expected)
        );
    }
    if let Some(name) = what.strip_prefix("missing field ") {
        return format!("{name} is missing");
    }
    match what.strip_prefix("duplicate field ") {
        Some(name) => format!("{name} stands there twice"),
        None => what.replace("unknown field ", "there is no field "),
    }
}

fn found_in_words(found: &str) -> String {
    let word = FOUND.iter().find(|(word, _)| found.starts_with(word));
    match word {
        Some((word, ours)) => format!("{ours}{}", &found[word.len()..]),
        None => found.to_owned(),
    }
}

fn expected_in_words(expected: &str) -> String {
    if INTEGERS.contains(&expected) {
        return "a whole number that fits is expected".to_owned();
    }
    let word = EXPECTED.iter().find(|(word, _)| *word == expected);
    word.map_or_else(
        || format!("{expected} is expected"),
        |(_, ours)| (*ours).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::record_json::NewRecord;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        #[serde(rename = "name")]
        _name: String,
        #[serde(rename = "partitions")]
        _partitions: Option<i32>,
    }

    fn told<T: for<'a> Deserialize<'a> + std::fmt::Debug>(text: &str) -> String {
        in_words(&serde_json::from_str::<T>(text).expect_err(text))
    }

    #[test]
    fn what_is_wrong_is_told_without_the_parsers_words_and_place() {
        for (text, expected) in [
            (
                r#"{"value":{"a":1}}"#,
                "an object stands where text is expected: put it in quotes, as JSON in a string",
            ),
            (
                r#"{"value":5}"#,
                "the number `5` stands where text is expected: put it in quotes, as JSON in a string",
            ),
            (
                r#"{"value":"a","timestamp_ms":"x"}"#,
                "the text \"x\" stands where a whole number that fits is expected",
            ),
            ("[1]", "an array stands where an object is expected"),
            (r#"{"value":"a""#, "the JSON ends too early"),
            (r#"{"value":"a","value":"b"}"#, "`value` stands there twice"),
        ] {
            assert_eq!(told::<NewRecord>(text), expected, "{text}");
        }
        assert!(told::<NewRecord>("hello").starts_with("this is no JSON: "));
        assert_eq!(told::<Wanted>(r#"{"partitions":1}"#), "`name` is missing");
        assert_eq!(
            told::<Wanted>(r#"{"nmae":1}"#),
            "there is no field `nmae`, expected `name` or `partitions`"
        );
    }
}
