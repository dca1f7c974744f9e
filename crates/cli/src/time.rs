//! Points in time on the command line: as RFC 3339 writes them, as milliseconds since 1970, or as an age: `15m` is a quarter
//! of an hour ago.

use std::time::{SystemTime, UNIX_EPOCH};

/// The units of an age, with milliseconds of each.
const UNITS: &[(char, i64)] = &[('s', 1_000), ('m', 60_000), ('h', 3_600_000), ('d', 86_400_000)];

/// Now, in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds since 1970 of a point in time, where a plain number is one.
///
/// # Errors
/// The expected form, for the command line.
pub(crate) fn instant_ms(text: &str) -> Result<i64, String> {
    let ms = text.parse::<i64>().ok().or_else(|| written_ms(text, now_ms()));
    ms.filter(|ms| *ms >= 0).ok_or_else(|| {
        "expected a time such as 2026-01-31T12:00:00Z, an age such as 15m, or @ and milliseconds since 1970"
            .to_owned()
    })
}

/// Milliseconds since 1970 of a point in time, where a plain number would be an offset: `@` stands before milliseconds.
pub(crate) fn written_ms(text: &str, now_ms: i64) -> Option<i64> {
    let ms = match text.strip_prefix('@') {
        Some(ms) => ms.parse().ok(),
        None => age_ms(text)
            .map(|age| now_ms.saturating_sub(age).max(0))
            .or_else(|| {
                let time = text.parse::<jiff::Timestamp>().ok()?;
                Some(time.as_millisecond())
            }),
    };
    ms.filter(|ms| *ms >= 0)
}

/// Milliseconds of a time span such as `15m`.
///
/// # Errors
/// The expected form, for the command line.
pub(crate) fn span_ms(text: &str) -> Result<i64, String> {
    age_ms(text).ok_or_else(|| "expected a time span such as 90s, 15m, 2h or 1d".to_owned())
}

/// A time span for people: its two largest units.
pub(crate) fn shown_span(ms: i64) -> String {
    let (seconds, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match (hours / 24, hours, minutes, seconds) {
        (0, 0, 0, 0) => format!("{ms}ms"),
        (0, 0, 0, _) => format!("{seconds}s"),
        (0, 0, _, _) => format!("{minutes}m{}s", seconds % 60),
        (0, _, _, _) => format!("{hours}h{}m", minutes % 60),
        (days, _, _, _) => format!("{days}d{}h", hours % 24),
    }
}

/// `15m` in milliseconds.
fn age_ms(text: &str) -> Option<i64> {
    let (unit, ms) = UNITS.iter().find(|(unit, _)| text.ends_with(*unit))?;
    let count = text.strip_suffix(*unit)?;
    let is_number = !count.is_empty() && count.bytes().all(|digit| digit.is_ascii_digit());
    count.parse::<i64>().ok().filter(|_| is_number)?.checked_mul(*ms)
}

/// A time of a record as RFC 3339 writes it; as milliseconds if it is none.
pub(crate) fn shown(ms: i64) -> String {
    match jiff::Timestamp::from_millisecond(ms) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => ms.to_string(),
    }
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
            ("@1700000000000", 1_700_000_000_000),
        ] {
            assert_eq!(instant_ms(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            "@",
            "@-1",
            "yesterday",
            "-5",
            "m",
            "-5m",
            "+5m",
            "9999999999999999d",
            "2026-01-31",
            "2026-02-29T00:00:00Z",
            "2026-01-31T12:00:00",
        ] {
            assert!(instant_ms(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_age_counts_back_from_now_and_not_beyond_1970() {
        let now_ms = 100_000_000;
        for (text, expected) in [
            ("0s", now_ms),
            ("90s", 99_910_000),
            ("2m", 99_880_000),
            ("3h", 89_200_000),
            ("1d", 13_600_000),
            ("2d", 0),
        ] {
            assert_eq!(written_ms(text, now_ms), Some(expected), "{text}");
        }
        assert_eq!(written_ms("17", now_ms), None, "a plain number is an offset");
    }

    #[test]
    fn a_span_is_told_in_its_two_largest_units() {
        for (ms, expected) in [
            (0, "0ms"),
            (59_999, "59s"),
            (90_000, "1m30s"),
            (3_600_000, "1h0m"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(shown_span(ms), expected);
        }
        assert_eq!(span_ms("15m"), Ok(900_000));
        assert!(span_ms("15").is_err() && span_ms("soon").is_err());
    }

    #[test]
    fn a_time_is_shown_as_it_is_read() {
        assert_eq!(shown(951_825_600_123), "2000-02-29T12:00:00.123Z");
        assert_eq!(written_ms(&shown(951_825_600_000), 0), Some(951_825_600_000));
        assert_eq!(shown(i64::MAX), i64::MAX.to_string());
    }
}
