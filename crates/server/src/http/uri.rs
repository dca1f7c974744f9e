//! Paths and queries as clients write them: decoded strictly, so that nothing means one thing here and another elsewhere.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::problem::{Kind, Problem};

/// Checks that a path is percent-encoded UTF-8 that stays where it is: no segment climbs, hides a slash or has control
/// characters.
///
/// # Errors
/// A problem that says which segment.
pub(super) fn check_path(path: &str) -> Result<(), Problem> {
    let malformed = |why: String| Problem::new(Kind::MalformedPath, why);
    for segment in path.split('/').skip(1) {
        let decoded =
            decode(segment, false).map_err(|why| malformed(format!("{segment:?} in the path {why}")))?;
        if decoded == "." || decoded == ".." {
            return Err(malformed(format!("{segment:?} in the path leads elsewhere")));
        }
        if decoded.contains(|character: char| character == '/' || character == '\\' || character.is_control())
        {
            let why = format!("{segment:?} in the path hides a slash or a control character");
            return Err(malformed(why));
        }
    }
    Ok(())
}

/// Undoes percent-encoding (RFC 3986, section 2.1); in queries a plus sign is a blank.
fn decode(text: &str, plus_is_blank: bool) -> Result<String, &'static str> {
    const BAD: &str = "is not percent-encoded properly: % needs two hexadecimal digits";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                let (high, low) = (digit().ok_or(BAD)?, digit().ok_or(BAD)?);
                (high * 16 + low) as u8
            }
            b'+' if plus_is_blank => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8")
}

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Query {
    pairs: Vec<(String, String)>,
}

impl Query {
    /// Reads a query. A parameter that is not `known` is a mistake worth telling: nobody means it to be ignored.
    ///
    /// # Errors
    /// A problem that names the parameter.
    pub(super) fn read(query: Option<&str>, known: &[&str]) -> Result<Query, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in query
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text| {
                decode(text, true)
                    .map_err(|why| Problem::new(Kind::MalformedQuery, format!("{pair:?} in the query {why}")))
            };
            let (name, value) = (decode(name)?, decode(value)?);
            if !known.contains(&name.as_str()) {
                let known = match known {
                    [] => "none is taken here".to_owned(),
                    known => format!("known here: {}", known.join(", ")),
                };
                return Err(bad_parameter(
                    &name,
                    format!("the parameter {name:?} is not known; {known}"),
                ));
            }
            if pairs.iter().any(|(earlier, _)| *earlier == name) {
                return Err(bad_parameter(
                    &name,
                    format!("the parameter {name:?} is given twice"),
                ));
            }
            pairs.push((name, value));
        }
        Ok(Query { pairs })
    }

    /// A parameter's text.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let pair = self.pairs.iter().find(|(known, _)| known == name);
        pair.map(|(_, value)| value.as_str())
    }

    /// A parameter that is `true` or `false`, which it is if it is left out.
    ///
    /// # Errors
    /// It is something else.
    pub(super) fn switch(&self, name: &str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(bad_parameter(
                name,
                format!("{name} must be true or false, not {other:?}"),
            )),
        }
    }

    /// A parameter that is a whole number in a range.
    ///
    /// # Errors
    /// It is another.
    pub(super) fn number<N>(&self, name: &str, range: RangeInclusive<N>) -> Result<Option<N>, Problem>
    where
        N: FromStr + PartialOrd + Display + Copy,
    {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (min, max) = (range.start(), range.end());
            bad_parameter(
                name,
                format!("{name} must be a whole number from {min} to {max}, not {text:?}"),
            )
        })
    }
}

/// The problem of a parameter that cannot have its value.
pub(super) fn bad_parameter(name: &str, detail: String) -> Problem {
    Problem::new(Kind::MalformedQuery, detail).with("parameter", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_climb_hide_or_break_are_refused() {
        for path in [
            "/v1/../x",
            "/v1/%2e%2E/x",
            "/v1/.",
            "/v1/a%2fb",
            "/v1/a%5cb",
            "/v1/a%00",
            "/v1/%",
            "/v1/%4",
            "/v1/%zz",
            "/v1/%ff",
            "/v1/%C3%28",
        ] {
            let problem = check_path(path).expect_err(path);
            assert_eq!(problem.kind, Kind::MalformedPath);
        }
        for path in [
            "/",
            "/v1/topics/a.b",
            "/v1/topics/..a",
            "/v1/topics/%c3%a9",
            "/v1//x",
        ] {
            check_path(path).expect(path);
        }
    }

    #[test]
    fn queries_are_decoded_once_and_strictly() {
        let query = Query::read(Some("key=a%26b+c%252f&wait=5"), &["key", "wait"]).expect("sound");
        assert_eq!(query.get("key"), Some("a&b c%2f"));
        assert_eq!(query.number("wait", 0..=9).expect("in range"), Some(5));
        assert!(query.number("wait", 6..=9).is_err());
        assert!(query.number("key", 0..=9).is_err());
        assert_eq!(query.number("offset", 0..=9).expect("absent"), None::<i32>);
        assert!(!query.switch("dry_run").expect("absent"));
        for (query, said) in [
            ("key=true", Some(true)),
            ("key=false", Some(false)),
            ("key", None),
            ("key=1", None),
        ] {
            let query = Query::read(Some(query), &["key"]).expect("sound");
            assert_eq!(query.switch("key").ok(), said);
        }
        for bad in ["x=1", "key=%", "key=%ff", "key=1&key=2", "ke%79=1&key=2"] {
            assert!(Query::read(Some(bad), &["key"]).is_err(), "{bad}");
        }
    }
}
