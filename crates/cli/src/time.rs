//! Points in time on the command line: as RFC 3339 writes them in UTC or with an offset, or as milliseconds since 1970.

/// Days from 1970-01-01 to a day of the Gregorian calendar, by counting from a year that begins in March: then the leap day
/// is a year's last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Milliseconds since 1970 of a point in time.
///
/// # Errors
/// What is expected, for the command line.
pub(crate) fn instant_ms(text: &str) -> Result<i64, String> {
    if let Ok(ms) = text.parse::<i64>() {
        return match ms {
            0.. => Ok(ms),
            _ => Err("milliseconds since 1970 are not negative".to_owned()),
        };
    }
    parse(text).ok_or_else(|| "expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970".to_owned())
}

fn parse(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let zone_at = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(zone_at);
    let (clock, fraction) = time.split_once('.').map_or((time, None), |(clock, fraction)| (clock, Some(fraction)));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let ms = match fraction {
        None => 0,
        Some(digits) => milliseconds(digits)?,
    };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some((seconds - zone_seconds(zone)?) * 1_000 + ms)
}

/// `N` numbers of so many digits each.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut found = [0; N];
    for (place, length) in found.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit());
        *place = is_number.then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(found)
}

fn milliseconds(digits: &str) -> Option<i64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let padded: String = digits.chars().chain("00".chars()).take(3).collect();
    is_number.then(|| padded.parse().ok())?
}

fn zone_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, clock) = match zone.split_at_checked(1)? {
        ("+", clock) => (1, clock),
        ("-", clock) => (-1, clock),
        _ => return None,
    };
    let [hours, minutes] = numbers(clock, ':', [2, 2])?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_rfc_3339_has_them() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.5Z", 500),
            ("1970-01-01t00:00:00.1239z", 123),
            ("1970-01-02 00:00:01+00:00", 86_401_000),
            ("1970-01-01T01:30:00+01:30", 0),
            ("1969-12-31T23:00:00-01:00", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000),
            ("2026-11-21T18:22:49Z", 1_795_285_369_000),
            ("1700000000000", 1_700_000_000_000),
        ] {
            assert_eq!(instant_ms(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "", "yesterday", "-5", "2026-01-31", "2026-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
            "2026-01-31T24:00:00Z", "2026-01-31T12:00Z", "2026-01-31T12:00:00", "2026-01-31T12:00:00+1:00",
            "2026-01-31T12:00:00.Z", "2026-1-31T12:00:00Z", "+026-01-31T12:00:00Z",
        ] {
            assert!(instant_ms(text).is_err(), "{text}");
        }
    }
}
