//! The key that someone probably meant: by its last part, by Kafka's name for it, or by its spelling.

use protocol::metadata::KnownBrokerConfig;
use protocol::metadata::broker_config::name_in_ms;
use protocol::metadata::topic_config::KNOWN;

use super::keys::{KEYS, TOPIC_DEFAULTS};

/// Kafka's names of some of the keys, for people who come with its configuration.
const KAFKA_NAMES: &[(&str, &str)] = &[
    ("advertised.listeners", "kafka.advertised"),
    ("auto.create.topics.enable", "topics.auto_create"),
    ("broker.id", "node.id"),
    ("broker.rack", "node.rack"),
    ("connections.max.idle.ms", "limits.connection_idle"),
    ("fetch.max.bytes", "limits.fetch_bytes"),
    (
        "group.consumer.heartbeat.interval.ms",
        "groups.consumer_heartbeat_interval",
    ),
    ("group.consumer.max.size", "groups.members_max"),
    (
        "group.consumer.session.timeout.ms",
        "groups.consumer_session_timeout",
    ),
    (
        "group.initial.rebalance.delay.ms",
        "groups.initial_rebalance_delay",
    ),
    ("group.max.session.timeout.ms", "groups.session_timeout_max"),
    ("group.max.size", "groups.members_max"),
    ("group.min.session.timeout.ms", "groups.session_timeout_min"),
    ("listeners", "kafka.listen"),
    ("log.cleaner.backoff.ms", "compaction.check_interval"),
    ("log.cleaner.dedupe.buffer.size", "compaction.key_map_bytes"),
    ("log.cleaner.io.max.bytes.per.second", "compaction.rate"),
    ("log.dir", "data"),
    ("log.dirs", "data"),
    ("log.retention.bytes", "topics.defaults.retention.bytes"),
    ("log.retention.check.interval.ms", "retention.check_interval"),
    ("log.retention.ms", "topics.defaults.retention.ms"),
    ("log.segment.bytes", "topics.defaults.segment.bytes"),
    ("max.connections", "limits.connections"),
    ("max.connections.per.ip", "limits.connections_per_address"),
    ("message.max.bytes", "topics.defaults.max.message.bytes"),
    ("num.partitions", "topics.default_partitions"),
    (
        "offsets.retention.check.interval.ms",
        "groups.offsets_check_interval",
    ),
    ("offsets.retention.minutes", "groups.offsets_retention"),
    ("producer.id.expiration.ms", "producers.expiration"),
    ("socket.request.max.bytes", "limits.request_bytes"),
];

/// The key that a name stands for: a key's own, or Kafka's for it.
pub(crate) fn key_of(name: &str) -> Option<String> {
    let is_topic_default = |name: &str| {
        name.strip_prefix(TOPIC_DEFAULTS)
            .is_some_and(|config| KNOWN.iter().any(|known| known.name == config))
    };
    if KEYS.iter().any(|key| key.name == name) || is_topic_default(name) {
        return Some(name.to_owned());
    }
    let mut kafka_names = KAFKA_NAMES.iter();
    kafka_names
        .find(|(kafka, _)| *kafka == name)
        .map(|(_, ours)| (*ours).to_owned())
}

/// Kafka's names for what `key` sets.
pub(crate) fn kafka_names(key: &str) -> impl Iterator<Item = &'static str> {
    let of_key = KAFKA_NAMES.iter().filter(move |(_, ours)| *ours == key);
    of_key.map(|(kafka, _)| *kafka)
}

/// Kafka's name under which what `key` sets is changed while the node runs, if it is.
pub(crate) fn name_while_running(key: &str) -> Option<&'static str> {
    let known = match key.strip_prefix(TOPIC_DEFAULTS) {
        Some(config) => KnownBrokerConfig::of_topic_config(config),
        None => KnownBrokerConfig::all().find(|known| key_of(known.name).as_deref() == Some(key)),
    };
    known.map(|known| known.name)
}

/// The key that `unknown` resembles, if one does.
pub fn suggest(unknown: &str) -> Option<String> {
    // Anything longer is no slip of the pen, and the comparison takes the product of both lengths.
    if unknown.len() > 100 {
        return None;
    }
    let wanted = unknown.to_ascii_lowercase().replace('-', "_");
    let in_ms = name_in_ms(&wanted).and_then(|name| KnownBrokerConfig::find(name).ok());
    if let Some(topic_config) = in_ms.and_then(|known| known.topic_config) {
        return Some(format!("{TOPIC_DEFAULTS}{topic_config}"));
    }
    if let Some((_, ours)) = KAFKA_NAMES.iter().find(|(kafka, _)| *kafka == wanted) {
        return Some((*ours).to_owned());
    }
    let all: Vec<String> = KEYS
        .iter()
        .map(|key| key.name.to_owned())
        .chain(
            KNOWN
                .iter()
                .map(|config| format!("{TOPIC_DEFAULTS}{}", config.name)),
        )
        .collect();
    let is_part = |key: &&String| {
        **key == wanted || key.ends_with(&format!(".{wanted}")) || key.starts_with(&format!("{wanted}."))
    };
    // The one with the least besides: `retention.ms` is not `delete.retention.ms`.
    if let Some(key) = all.iter().filter(is_part).min_by_key(|key| key.len()) {
        return Some(key.clone());
    }
    let last = last_part(&wanted);
    // A short word has fewer letters to get wrong before it is another word.
    let whole = |key: &String| edits(key, &wanted) <= (wanted.len() / 5).clamp(1, 3);
    let part = |key: &String| edits(last_part(key), last) <= (last.len() / 3).min(2);
    let distance = |key: &String| {
        let of_whole = edits(key, &wanted);
        (of_whole.min(1 + edits(last_part(key), last)), of_whole)
    };
    let alike = all.into_iter().filter(|key| whole(key) || part(key));
    alike.min_by_key(distance)
}

fn last_part(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// The number of letters that must be added, dropped, replaced or swapped with their neighbour to turn one word into the other
/// (optimal string alignment).
fn edits(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (row, letter) in one.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, opposite) in other.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != opposite);
            let mut least = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && one[row - 1] == *opposite && *letter == other[column - 1];
            if swapped {
                least = least.min(before_last[column - 1] + 1);
            }
            current.push(least);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised() {
        let meant = [
            ("kafka.lisen", "kafka.listen"),
            ("kafak.listen", "kafka.listen"),
            ("journal.file-bytes", "journal.file_bytes"),
            ("file_bytes", "journal.file_bytes"),
            ("limits.conections", "limits.connections"),
            ("retention.ms", "topics.defaults.retention.ms"),
            ("topics.defaults.retention.msec", "topics.defaults.retention.ms"),
            ("journal.size", "none"),
            ("log.dirs", "data"),
            ("log.retention.hours", "topics.defaults.retention.ms"),
            ("log.roll.hours", "topics.defaults.segment.ms"),
            ("Data", "data"),
            ("kafka", "kafka.listen"),
            ("colour", "none"),
        ];
        for (written, key) in meant {
            assert_eq!(suggest(written).as_deref().unwrap_or("none"), key, "{written}");
        }
    }

    #[test]
    fn kafkas_names_lead_to_keys_that_exist() {
        for (kafka, ours) in KAFKA_NAMES {
            let topic_config = ours.strip_prefix(TOPIC_DEFAULTS);
            let exists = match topic_config {
                Some(name) => KNOWN.iter().any(|config| config.name == name),
                None => KEYS.iter().any(|key| key.name == *ours),
            };
            assert!(exists, "{kafka} leads to {ours}");
        }
    }

    #[test]
    fn edits_are_counted() {
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", "acb"), 1);
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
