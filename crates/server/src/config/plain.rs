//! Values of Kafka's configs as people write them: `retention.ms=7d`, `segment.bytes=1GiB`. What is kept, and told, is Kafka's
//! plain number.

use protocol::metadata::KnownBrokerConfig;
use protocol::metadata::topic_config::{self, ConfigUnit};

use super::values::{read_bytes, read_duration};

const TIME: &str = "a whole number of milliseconds, or a time such as 90s, 12h or 7d";
const SIZE: &str = "a whole number of bytes, or a size such as 64MiB or 1GiB";

/// Returns the value of the config `name` as Kafka writes it. A plain number stays as it is, and so does the value of a config
/// that counts neither milliseconds nor bytes, or that is not known here.
///
/// # Errors
/// Names what the config takes, if the value is neither a number nor one with a known unit.
pub fn plain_value(name: &str, value: &str) -> Result<String, &'static str> {
    if value.parse::<i64>().is_ok() {
        return Ok(value.to_owned());
    }
    let (number, expected) = match unit_of(name) {
        None => return Ok(value.to_owned()),
        Some(ConfigUnit::Milliseconds) => (read_ms(value), TIME),
        Some(ConfigUnit::Bytes) => (read_bytes(value).map(u128::from), SIZE),
    };
    let number = number.and_then(|number| i64::try_from(number).ok());
    number.map(|number| number.to_string()).ok_or(expected)
}

/// The unit that the config of a topic or of nodes is defined with.
fn unit_of(name: &str) -> Option<ConfigUnit> {
    let of_topics = topic_config::find(name).ok();
    let known = of_topics.or_else(|| KnownBrokerConfig::find(name).ok().map(|known| known.rules));
    known?.unit
}

fn read_ms(value: &str) -> Option<u128> {
    let time = read_duration(value)?;
    (time.subsec_nanos() % 1_000_000 == 0).then_some(time.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_become_the_plain_number_that_the_definition_counts() {
        for (name, value, plain) in [
            ("retention.ms", "7d", "604800000"),
            ("retention.ms", "90 s", "90000"),
            ("retention.ms", "-1", "-1"),
            ("retention.ms", "604800000", "604800000"),
            ("log.retention.ms", "12h", "43200000"),
            ("segment.bytes", "1GiB", "1073741824"),
            ("max.message.bytes", "1 MB", "1000000"),
            ("log.cleaner.io.max.bytes.per.second", "64MiB", "67108864"),
            ("log.cleaner.dedupe.buffer.size", "64MiB", "67108864"),
            ("log.cleaner.backoff.ms", "15s", "15000"),
            ("log.index.size.max.bytes", "1MiB", "1048576"),
            ("leader.replication.throttled.rate", "1MiB", "1048576"),
            ("flush.messages", "7d", "7d"),
            ("nobodys.bytes", "64MiB", "64MiB"),
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
