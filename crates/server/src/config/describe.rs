//! The effective configuration as a list, for people and for Kafka's DescribeConfigs.

use protocol::metadata::topic_config::{ConfigKind, KNOWN};

use super::keys::{KEYS, TOPIC_DEFAULTS};
use super::values::{read_bytes, read_duration};
use super::{Config, Source};

/// The units of Kafka's times: most names end with `.ms`, some with `.minutes`.
const MS_IN_US: u128 = 1_000;
const MINUTE_IN_US: u128 = 60_000 * MS_IN_US;

/// The sort of value that a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// A path, an address or a word.
    Text,
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number,
    /// A size, such as `64MiB`.
    Bytes,
    /// A time, such as `100ms`.
    Duration,
}

impl KeyKind {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            KeyKind::Text => "text",
            KeyKind::Switch => "switch",
            KeyKind::Number => "number",
            KeyKind::Bytes => "bytes",
            KeyKind::Duration => "duration",
        }
    }
}

/// One key with its value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDescription {
    /// Its dotted name.
    pub key: String,
    /// The sort of value that it takes.
    pub kind: KeyKind,
    /// The value in force, as it may be written in a file.
    pub value: String,
    /// The built-in value.
    pub default: String,
    /// Its effect, in a sentence.
    pub documentation: &'static str,
    /// Where the value in force comes from.
    pub source: Source,
}

impl KeyDescription {
    /// `value`, as this key shows it, in the way in which Kafka writes it under `kafka_name`: a plain number in the unit of that
    /// name, rounded up lest a short time becomes none. `None` for an address that is not set.
    pub(crate) fn kafka_value(&self, kafka_name: &str, value: &str) -> Option<String> {
        match self.kind {
            KeyKind::Text if kafka_name.ends_with("listeners") => {
                (!value.is_empty()).then(|| format!("PLAINTEXT://{value}"))
            }
            KeyKind::Text | KeyKind::Switch | KeyKind::Number => Some(value.to_owned()),
            KeyKind::Bytes => read_bytes(value).map(|bytes| bytes.to_string()),
            KeyKind::Duration => {
                let unit_us = match kafka_name.ends_with(".minutes") {
                    true => MINUTE_IN_US,
                    false => MS_IN_US,
                };
                read_duration(value).map(|time| time.as_micros().div_ceil(unit_us).to_string())
            }
        }
    }
}

impl Config {
    /// Every key with its value in force, by section; the defaults for topics last.
    #[must_use]
    pub fn describe(&self) -> Vec<KeyDescription> {
        // A slot gives access for reading and for writing, so the one who only reads works on a copy.
        let (mut config, mut default) = (self.clone(), Config::default());
        let keys = KEYS.iter().map(|key| {
            let (slot, default) = ((key.slot)(&mut config), (key.slot)(&mut default));
            KeyDescription {
                key: key.name.to_owned(),
                kind: slot.kind(),
                value: slot.show(),
                default: default.show(),
                documentation: key.documentation,
                source: self.source_of(key.name, slot.show() == default.show()),
            }
        });
        let mut described: Vec<_> = keys.collect();
        described.extend(KNOWN.iter().map(|known| {
            let key = format!("{TOPIC_DEFAULTS}{}", known.name);
            let set = self.topics.defaults.get(known.name);
            let value = set.map_or(known.default, |value| &**value);
            KeyDescription {
                kind: match known.kind {
                    ConfigKind::Boolean => KeyKind::Switch,
                    ConfigKind::Int | ConfigKind::Long => KeyKind::Number,
                    // A share has no kind of its own among the node's keys.
                    ConfigKind::String | ConfigKind::List | ConfigKind::Double => KeyKind::Text,
                },
                value: value.to_owned(),
                default: known.default.to_owned(),
                documentation: known.documentation,
                source: self.source_of(&key, value == known.default),
                key,
            }
        }));
        described
    }

    /// Where the value of `key` comes from.
    pub(super) fn source(&self, key: &str) -> Source {
        self.sources.get(key).cloned().unwrap_or(Source::Default)
    }

    /// The same, also for a value that was changed in the struct, of which nobody kept a note.
    pub(super) fn source_of(&self, key: &str, is_default: bool) -> Source {
        match self.source(key) {
            Source::Default if !is_default => Source::Program,
            source => source,
        }
    }
}
