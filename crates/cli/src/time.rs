//! Points in time on the command line: as RFC 3339 writes them, or as milliseconds since 1970.

/// Milliseconds since 1970 of a point in time.
///
/// # Errors
/// What is expected, for the command line.
pub(crate) fn instant_ms(text: &str) -> Result<i64, String> {
    let ms = match text.parse::<i64>() {
        Ok(ms) => Some(ms),
        Err(_) => text
            .parse::<jiff::Timestamp>()
            .ok()
            .map(|time| time.as_millisecond()),
    };
    ms.filter(|ms| *ms >= 0)
        .ok_or_else(|| "expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_nonsense_is_not() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T01:30:00.5+01:30", 500),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("1700000000000", 1_700_000_000_000),
        ] {
            assert_eq!(instant_ms(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "-5",
            "2026-01-31",
            "2026-02-29T00:00:00Z",
            "2026-01-31T12:00:00",
        ] {
            assert!(instant_ms(text).is_err(), "{text}");
        }
    }
}
