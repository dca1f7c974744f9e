//! Values of Kafka's configs as people write them: `retention.ms=7d`, `segment.bytes=1GiB`. What is kept, and told, is Kafka's
//! plain number.

use super::speech::{read_bytes, read_duration};

const TIME: &str = "a whole number of milliseconds, or a time such as 90s, 12h or 7d";
const SIZE: &str = "a whole number of bytes, or a size such as 64MiB or 1GiB";

/// The value of the config `name` as Kafka writes it. A plain number stays as it is, and so does the value of a config whose name
/// counts neither milliseconds nor bytes.
///
/// # Errors
/// Names what the config takes, if the value is neither a number nor one with a known unit.
pub fn plain_value(name: &str, value: &str) -> Result<String, &'static str> {
    let counts_bytes = name.split('.').any(|word| word == "bytes");
    let counts_ms = name.ends_with(".ms");
    if value.parse::<i64>().is_ok() || !(counts_bytes || counts_ms) {
        return Ok(value.to_owned());
    }
    let number = match counts_ms {
        true => read_duration(value)
            .filter(|time| time.subsec_nanos() % 1_000_000 == 0)
            .and_then(|time| i64::try_from(time.as_millis()).ok()),
        false => read_bytes(value).and_then(|bytes| i64::try_from(bytes).ok()),
    };
    let expected = if counts_ms { TIME } else { SIZE };
    number.map(|number| number.to_string()).ok_or(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_become_the_plain_number_that_the_name_counts() {
        for (name, value, plain) in [
            ("retention.ms", "7d", "604800000"),
            ("retention.ms", "90 s", "90000"),
            ("retention.ms", "-1", "-1"),
            ("retention.ms", "604800000", "604800000"),
            ("log.retention.ms", "12h", "43200000"),
            ("segment.bytes", "1GiB", "1073741824"),
            ("max.message.bytes", "1 MB", "1000000"),
            ("log.cleaner.io.max.bytes.per.second", "64MiB", "67108864"),
            ("cleanup.policy", "compact", "compact"),
            ("min.cleanable.dirty.ratio", "0.5", "0.5"),
        ] {
            assert_eq!(plain_value(name, value).as_deref(), Ok(plain), "{name}={value}");
        }
        for (name, value, expected) in [
            ("retention.ms", "7 days", TIME),
            ("retention.ms", "1.5h", TIME),
            ("retention.ms", "100us", TIME),
            ("retention.ms", "", TIME),
            ("retention.ms", "99999999999999999999", TIME),
            ("segment.bytes", "1G", SIZE),
            ("segment.bytes", "-1GiB", SIZE),
        ] {
            assert_eq!(plain_value(name, value), Err(expected), "{name}={value}");
        }
    }
}
