//! Merging what was given: defaults, then the file, then the environment, then `--set`, then flags. The later wins.
//!
//! A key that nobody knows is refused wherever it stands: a setting that is silently ignored is worse than a node that
//! does not start.

use std::collections::BTreeSet;

use protocol::metadata::topic_config::{ConfigChange, ConfigError as TopicConfigError};
use storage::JournalSizes;

use super::keys::{KEYS, TOPIC_DEFAULTS, find};
use super::plain::plain_value;
use super::suggest::suggest;
use super::values::{read_host_port, show_bytes, show_duration};
use super::{Config, ConfigError, Source};

/// A configuration file that the caller has read.
#[derive(Debug, Clone, Copy)]
pub struct FileText<'a> {
    /// The name for it in errors.
    pub name: &'a str,
    /// Its content, TOML.
    pub text: &'a str,
}

/// A command line's flag that stands for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag, such as `--data`.
    pub flag: &'static str,
    /// The key, such as `data`.
    pub key: &'static str,
    /// The value that was given.
    pub value: String,
}

/// An environment variable that stands for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// The variable, such as `ROPEWALK_DATA`.
    pub name: &'static str,
    /// The key, such as `data`.
    pub key: &'static str,
    /// The value that was given.
    pub value: String,
}

impl Config {
    /// The effective configuration of defaults < `file` < `sets` (key, value) < `flags`.
    ///
    /// # Errors
    /// The first key, value or combination that cannot be; see [`ConfigError`].
    pub fn load(
        file: Option<FileText<'_>>,
        sets: &[(String, String)],
        flags: &[Flag],
    ) -> Result<Config, ConfigError> {
        Config::load_in(&[], file, sets, flags)
    }

    /// The same with an environment: defaults < `file` < `variables` < `sets` < `flags`.
    ///
    /// # Errors
    /// As `load`.
    pub fn load_in(
        variables: &[Variable],
        file: Option<FileText<'_>>,
        sets: &[(String, String)],
        flags: &[Flag],
    ) -> Result<Config, ConfigError> {
        let mut config = Config::default();
        if let Some(file) = file {
            config.take_file(file)?;
        }
        for Variable { name, key, value } in variables {
            config.set(key, value, Source::Variable(name))?;
        }
        for (key, value) in sets {
            config.set(key, value, Source::Set)?;
        }
        for Flag { flag, key, value } in flags {
            config.set(key, value, Source::Flag(flag))?;
        }
        config.check()?;
        Ok(config)
    }

    fn take_file(&mut self, file: FileText<'_>) -> Result<(), ConfigError> {
        let table: toml::Table = file.text.parse().map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start.min(file.text.len()));
            let line = 1 + file.text.as_bytes()[..start]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count();
            let reason = error.message().lines().collect::<Vec<_>>().join(" ");
            ConfigError::Syntax {
                file: file.name.to_owned(),
                line,
                reason,
            }
        })?;
        let origin = Source::File(file.name.to_owned());
        let mut values = Vec::new();
        flatten("", table, &origin, &mut values)?;
        // `[journal] file_bytes` and `"journal.file_bytes"` are two keys to TOML and one to us.
        let mut seen = BTreeSet::new();
        for (key, value) in values {
            if !seen.insert(key.clone()) {
                return Err(ConfigError::SetTwice { key, origin });
            }
            self.set(&key, &value, origin.clone())?;
        }
        Ok(())
    }

    /// Gives one key its value.
    fn set(&mut self, name: &str, value: &str, origin: Source) -> Result<(), ConfigError> {
        if let Some(topic_config) = name.strip_prefix(TOPIC_DEFAULTS) {
            self.set_topic_default(topic_config, value, &origin)?;
        } else if let Some(key) = find(name) {
            (key.slot)(self)
                .read(value, key.range)
                .map_err(|expected| ConfigError::Value {
                    key: name.to_owned(),
                    value: value.to_owned(),
                    expected,
                    origin: origin.clone(),
                })?;
        } else {
            return Err(unknown(name, origin));
        }
        self.sources.insert(name.to_owned(), origin);
        Ok(())
    }

    fn set_topic_default(&mut self, name: &str, value: &str, origin: &Source) -> Result<(), ConfigError> {
        let value = plain_value(name, value).map_err(|expected| ConfigError::Value {
            key: format!("{TOPIC_DEFAULTS}{name}"),
            value: value.to_owned(),
            expected: expected.to_owned(),
            origin: origin.clone(),
        })?;
        let change = ConfigChange::set(name, &value);
        let defaults = &mut self.topics.defaults;
        let changed = defaults.change(&[change]);
        changed
            .and_then(|()| defaults.check_as_default())
            .map_err(|reason| match reason {
                TopicConfigError::Unknown { .. } => {
                    unknown(&format!("{TOPIC_DEFAULTS}{name}"), origin.clone())
                }
                reason => ConfigError::TopicDefault {
                    reason,
                    origin: origin.clone(),
                },
            })
    }

    /// Checks each key's range, and the rules between keys. Without them the node would start and then stand still, or lead its
    /// clients astray. `load` and the start of a node call it: a program may have changed values in the struct.
    ///
    /// # Errors
    /// `Value` for a value that the key cannot have, or for a journal file that is not whole blocks; `Combination`.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_values()?;
        let journal = &self.journal;
        let file_bytes = journal.file_bytes;
        let sizes = |key, bytes, reason| ConfigError::Combination {
            key,
            value: show_bytes(bytes),
            other_key: "journal.file_bytes",
            other_value: show_bytes(file_bytes),
            reason,
        };
        if !file_bytes.is_multiple_of(BLOCK_BYTES) {
            return Err(ConfigError::Value {
                key: "journal.file_bytes".to_owned(),
                value: show_bytes(file_bytes),
                expected: "a multiple of 4KiB".to_owned(),
                origin: self.source("journal.file_bytes"),
            });
        }
        if journal.bytes_max / file_bytes < JournalSizes::FILES_MIN as u64 {
            let reason = "a journal needs room for three files";
            return Err(sizes("journal.bytes_max", journal.bytes_max, reason));
        }
        if journal.layout_trigger > journal.bytes_max - file_bytes {
            return Err(ConfigError::Combination {
                key: "journal.layout_trigger",
                value: show_bytes(journal.layout_trigger),
                other_key: "journal.bytes_max",
                other_value: show_bytes(journal.bytes_max),
                reason: "layout must begin while the journal has a file left to go on with",
            });
        }
        // All that a journal file holds must find room in segments.
        if (1..file_bytes).contains(&self.disk.reserve_bytes) {
            let reason = "the disk must have room left for what a journal file holds (0B keeps no reserve)";
            return Err(sizes("disk.reserve_bytes", self.disk.reserve_bytes, reason));
        }
        self.check_groups()?;
        self.check_advertised()
    }

    fn check_values(&self) -> Result<(), ConfigError> {
        // Each value is read again, on a copy, as it would be written: values set in code obey the rules of those in a file.
        let mut copy = self.clone();
        for key in KEYS {
            let shown = (key.slot)(&mut copy).show();
            (key.slot)(&mut copy)
                .read(&shown, key.range)
                .map_err(|expected| ConfigError::Value {
                    key: key.name.to_owned(),
                    value: shown,
                    expected,
                    origin: self.source_of(key.name, false),
                })?;
        }
        Ok(())
    }

    /// A member is given up when it is silent for its session: it must be able to choose one, and to speak before it is over.
    fn check_groups(&self) -> Result<(), ConfigError> {
        let groups = &self.groups;
        let times = |(key, time), (other_key, other_time), reason| ConfigError::Combination {
            key,
            value: show_duration(time),
            other_key,
            other_value: show_duration(other_time),
            reason,
        };
        let min = ("groups.session_timeout_min", groups.session_timeout_min);
        let max = ("groups.session_timeout_max", groups.session_timeout_max);
        if min.1 > max.1 {
            let reason = "no member of a classic group could choose a session timeout";
            return Err(times(min, max, reason));
        }
        let interval = (
            "groups.consumer_heartbeat_interval",
            groups.consumer_heartbeat_interval,
        );
        let session = ("groups.consumer_session_timeout", groups.consumer_session_timeout);
        if interval.1 >= session.1 {
            let reason = "every member would be put out between two heartbeats";
            return Err(times(interval, session, reason));
        }
        Ok(())
    }

    /// "Every address" can be listened on, and cannot be connected to from elsewhere.
    fn check_advertised(&self) -> Result<(), ConfigError> {
        let is_everywhere = |listen: &str| {
            read_host_port(listen)
                .and_then(|address| address.host.parse::<std::net::IpAddr>().ok())
                .is_some_and(|address| address.is_unspecified())
        };
        if let Some(listen) = self.peer.listen.as_deref().filter(|listen| is_everywhere(listen))
            && self.peer.advertised.is_none()
        {
            return Err(ConfigError::Combination {
                key: "peer.advertised",
                value: "\"\"".to_owned(),
                other_key: "peer.listen",
                other_value: listen.to_owned(),
                reason: "a node that listens on every address must say which one other nodes shall use",
            });
        }
        if is_everywhere(&self.kafka.listen) && self.kafka.advertised.is_none() {
            return Err(ConfigError::Combination {
                key: "kafka.advertised",
                value: "\"\"".to_owned(),
                other_key: "kafka.listen",
                other_value: self.kafka.listen.clone(),
                reason: "a node that listens on every address must say which one its clients shall use",
            });
        }
        Ok(())
    }
}

/// The unit of direct I/O, and so of journal files.
const BLOCK_BYTES: u64 = platform::disk::BLOCK_BYTES as u64;

fn unknown(key: &str, origin: Source) -> ConfigError {
    ConfigError::UnknownKey {
        key: key.to_owned(),
        origin,
        suggestion: suggest(key),
    }
}

/// A file's tables as dotted keys with their values as text.
fn flatten(
    path: &str,
    table: toml::Table,
    origin: &Source,
    values: &mut Vec<(String, String)>,
) -> Result<(), ConfigError> {
    for (name, value) in table {
        let key = if path.is_empty() {
            name
        } else {
            format!("{path}.{name}")
        };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, origin, values)?,
            toml::Value::String(text) => values.push((key, text)),
            toml::Value::Integer(number) => values.push((key, number.to_string())),
            toml::Value::Boolean(on) => values.push((key, on.to_string())),
            other => {
                let expected = "a text, a whole number, true or false".to_owned();
                return Err(ConfigError::Value {
                    key,
                    value: other.to_string(),
                    expected,
                    origin: origin.clone(),
                });
            }
        }
    }
    Ok(())
}
