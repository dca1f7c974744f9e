//! Why a configuration is refused. Each is one sentence that names the key, the value and what is expected.

use protocol::metadata::topic_config;

use super::Source;

/// Why there is no effective configuration. All of them are the operator's to fix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file is not TOML.
    #[error("{file} line {line} is not TOML: {reason}")]
    Syntax {
        /// The file's name.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The parser's words.
        reason: String,
    },
    /// No such key.
    #[error("there is no key {key} ({origin}); {}", advice(.suggestion.as_deref()))]
    UnknownKey {
        /// The key as it was written.
        key: String,
        /// The source that it came from.
        origin: Source,
        /// The key that was probably meant.
        suggestion: Option<String>,
    },
    /// One file gives a key two values.
    #[error("{key} is set twice ({origin}); keep one of them")]
    SetTwice {
        /// The key.
        key: String,
        /// Which file.
        origin: Source,
    },
    /// A value that the key cannot have.
    #[error("{key} must be {expected}, not {value:?} ({origin})")]
    Value {
        /// The key.
        key: String,
        /// The value as it was written.
        value: String,
        /// The values that the key takes.
        expected: String,
        /// The source that it came from.
        origin: Source,
    },
    /// A topic config that no topic could have.
    #[error("topics.defaults: {reason} ({origin})")]
    TopicDefault {
        /// The rule that it breaks.
        reason: topic_config::ConfigError,
        /// The source that it came from.
        origin: Source,
    },
    /// Two values that do not go together.
    #[error("{key} = {value} does not go with {other_key} = {other_value}: {reason}")]
    Combination {
        /// The key that should change.
        key: &'static str,
        /// Its value.
        value: String,
        /// The key that it is measured against.
        other_key: &'static str,
        /// Its value.
        other_value: String,
        /// The rule.
        reason: &'static str,
    },
}

fn advice(suggestion: Option<&str>) -> String {
    match suggestion {
        Some(key) => format!("did you mean {key}?"),
        None => "`ropewalk config` lists all keys".to_owned(),
    }
}
