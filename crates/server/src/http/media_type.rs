//! Which form an answer has (Accept) and which form a body claims to have (Content-Type), after RFC 9110, section 12.5.1.

use axum::http::{HeaderMap, HeaderValue, header};

use super::problem::{Kind, Problem};

/// Every form in which something is taken or given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MediaType {
    Json,
    /// One JSON object a line.
    JsonLines,
    EventStream,
    Text,
    Bytes,
    OpenMetrics,
}

impl MediaType {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            MediaType::Json => "application/json",
            MediaType::JsonLines => "application/x-ndjson",
            MediaType::EventStream => "text/event-stream",
            MediaType::Text => "text/plain",
            MediaType::Bytes => "application/octet-stream",
            MediaType::OpenMetrics => "application/openmetrics-text",
        }
    }
}

/// Names one after the other, for people.
pub(super) fn names(types: &[MediaType]) -> String {
    let names: Vec<&str> = types.iter().map(|media_type| media_type.name()).collect();
    names.join(", ")
}

/// The form that a client likes best among those that are produced; of equals, and without an Accept header, the first.
///
/// # Errors
/// It takes none of them.
pub(super) fn choose(headers: &HeaderMap, produced: &[MediaType]) -> Result<MediaType, Problem> {
    let refused = || {
        let detail = format!("only these are given here: {}", names(produced));
        Problem::new(Kind::NotAcceptable, detail).with("produces", names(produced))
    };
    let mut ranges = Vec::new();
    for value in headers.get_all(header::ACCEPT) {
        let value = value.to_str().map_err(|_| refused())?;
        ranges.extend(
            value
                .split(',')
                .map(str::trim)
                .filter(|range| !range.is_empty())
                .map(MediaRange::read),
        );
    }
    if ranges.is_empty() {
        return produced.first().copied().ok_or_else(refused);
    }
    let mut best: Option<(MediaType, u32)> = None;
    for candidate in produced {
        // The most specific range that matches has the say.
        let matching = ranges.iter().filter_map(|range| range.matches(candidate.name()));
        let Some((_, weight)) = matching.max_by_key(|(specific, _)| *specific) else {
            continue;
        };
        if weight > best.map_or(0, |(_, weight)| weight) {
            best = Some((*candidate, weight));
        }
    }
    best.map(|(media_type, _)| media_type).ok_or_else(refused)
}

/// One media range of an Accept header.
struct MediaRange<'a> {
    range: &'a str,
    /// In thousandths.
    weight: u32,
}

impl MediaRange<'_> {
    fn read(text: &str) -> MediaRange<'_> {
        let mut parts = text.split(';').map(str::trim);
        let range = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
        MediaRange {
            range,
            weight: (f32::clamp(weight, 0.0, 1.0) * 1_000.0) as u32,
        }
    }

    /// The range's precision, and its weight, if it covers `name`.
    fn matches(&self, name: &str) -> Option<(u8, u32)> {
        let specific = match self.range.strip_suffix('*') {
            Some("*/") => 0,
            Some(prefix) if prefix.ends_with('/') && starts_alike(name, prefix) => 1,
            _ if self.range.eq_ignore_ascii_case(name) => 2,
            _ => return None,
        };
        Some((specific, self.weight))
    }
}

fn starts_alike(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The form that a body claims to have.
///
/// # Errors
/// It claims none, or none that is taken here; or it is compressed, and would be taken for what it is not (RFC 9110, section 8.4).
pub(super) fn of_body(headers: &HeaderMap, taken: &[MediaType]) -> Result<MediaType, Problem> {
    let is_identity = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(header::CONTENT_ENCODING).iter().all(is_identity) {
        let detail = "no Content-Encoding is taken here; send the body as it is";
        return Err(Problem::new(Kind::UnsupportedMediaType, detail).with("takes", names(taken)));
    }
    let claimed = headers.get(header::CONTENT_TYPE);
    let claimed = claimed.and_then(|value| value.to_str().ok()).unwrap_or_default();
    // Parameters behind the name, such as a charset, change nothing: bytes are taken as they come.
    let name = claimed.split(';').next().unwrap_or_default().trim();
    let found = taken
        .iter()
        .find(|media_type| media_type.name().eq_ignore_ascii_case(name));
    found.copied().ok_or_else(|| {
        let what = match name {
            "" => "the request does not say what its body is".to_owned(),
            name => format!("{name} is not taken here"),
        };
        let detail = format!("{what}; set Content-Type to one of: {}", names(taken));
        Problem::new(Kind::UnsupportedMediaType, detail).with("takes", names(taken))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCED: &[MediaType] = &[MediaType::Json, MediaType::JsonLines, MediaType::EventStream];

    fn chosen(accept: &[&str]) -> Option<MediaType> {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(header::ACCEPT, value.parse().expect("a header's value"));
        }
        choose(&headers, PRODUCED).ok()
    }

    #[test]
    fn the_client_chooses_by_weight_then_we_do() {
        for (accept, expected) in [
            (&[][..], Some(MediaType::Json)),
            (&["*/*"], Some(MediaType::Json)),
            (&["text/event-stream"], Some(MediaType::EventStream)),
            (&["text/*"], Some(MediaType::EventStream)),
            (&["Application/X-NDJSON; q=0.5"], Some(MediaType::JsonLines)),
            (
                &["application/json;q=0.1, application/x-ndjson;q=0.2"],
                Some(MediaType::JsonLines),
            ),
            (
                &["application/json;q=0.1", "application/x-ndjson;q=0.2"],
                Some(MediaType::JsonLines),
            ),
            (&["application/json;q=0, */*;q=0.1"], Some(MediaType::JsonLines)),
            (&["*/*;q=0"], None),
            (&["text/html"], None),
            (&["application/json;q=x"], None),
            (&["é/*"], None),
        ] {
            assert_eq!(chosen(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn a_body_is_what_it_says_whatever_its_charset() {
        let mut headers = HeaderMap::new();
        assert!(of_body(&headers, PRODUCED).is_err());
        headers.insert(
            header::CONTENT_TYPE,
            "application/JSON; charset=utf-8".parse().expect("sound"),
        );
        assert_eq!(of_body(&headers, PRODUCED).expect("taken"), MediaType::Json);
        headers.insert(header::CONTENT_TYPE, "application/jsonx".parse().expect("sound"));
        assert!(of_body(&headers, PRODUCED).is_err());
    }

    #[test]
    fn a_body_is_taken_as_it_is_or_not_at_all() {
        for (coding, is_taken) in [
            ("identity", true),
            (" Identity", true),
            ("gzip", false),
            ("identity, gzip", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, "application/json".parse().expect("sound"));
            headers.insert(header::CONTENT_ENCODING, coding.parse().expect("sound"));
            assert_eq!(of_body(&headers, PRODUCED).is_ok(), is_taken, "{coding}");
        }
    }
}
