//! The description of a known config, and the rules that its values obey. The configs themselves are in `table`.

use super::ConfigError;
use super::table::KNOWN;

/// The longest value, in bytes: far more than any number or list of words needs.
pub const CONFIG_VALUE_BYTES_MAX: usize = 255;
/// The longest list of replicas: a string of Kafka's protocol is no longer.
pub const REPLICAS_BYTES_MAX: usize = i16::MAX as usize;
/// The most characters of a word that are told when it is refused.
const TOLD_CHARS_MAX: usize = 64;

/// The type that Kafka's tools show for a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigKind {
    /// `true` or `false`.
    Boolean,
    /// One word of several.
    String,
    /// A 32-bit number.
    Int,
    /// A 64-bit number.
    Long,
    /// A number with a fraction.
    Double,
    /// Words with commas between.
    List,
}

/// The unit that a number counts. People may write such a value with a unit of their own, as `7d` or `64MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigUnit {
    /// Thousandths of a second.
    Milliseconds,
    /// Bytes, or bytes a second.
    Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Range {
        min: i64,
        max: i64,
    },
    OneOf(&'static [&'static str]),
    /// Some of these words, each once, with commas between; or none.
    SomeOf(&'static [&'static str]),
    /// From 0 to 1.
    Share,
    /// Kafka's lists of throttled replicas: `*`, or pairs of a partition and a broker, such as `0:1,1:1`; or nothing.
    Replicas,
}

/// A config that a topic can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownConfig {
    /// Its name.
    pub name: &'static str,
    /// The built-in value.
    pub default: &'static str,
    /// The type of its value.
    pub kind: ConfigKind,
    /// A sentence that says what it does.
    pub documentation: &'static str,
    /// The unit of its value, if that is a number of something.
    pub unit: Option<ConfigUnit>,
    pub(super) rule: Rule,
}

impl KnownConfig {
    /// Says whether the config is ours and not Kafka's.
    #[must_use]
    pub fn is_ropewalk(&self) -> bool {
        self.name.starts_with("ropewalk.")
    }

    /// The same for numbers up to `max` only.
    pub(in crate::metadata) const fn at_most(self, max: i64) -> KnownConfig {
        let rule = match self.rule {
            Rule::Range { min, .. } => Rule::Range { min, max },
            other => other,
        };
        KnownConfig { rule, ..self }
    }

    /// The same as a value of another type.
    pub(in crate::metadata) const fn of_kind(self, kind: ConfigKind) -> KnownConfig {
        KnownConfig { kind, ..self }
    }

    /// Checks that `value` may be set. Blanks around it are not allowed: the value is checked as it is kept.
    ///
    /// # Errors
    /// The value is too long or breaks the config's rule.
    pub fn check(&self, value: &str) -> Result<(), ConfigError> {
        check_length(self.name, value, self.value_bytes_max())?;
        match self.rule {
            Rule::Range { min, max } => {
                let fits = value
                    .parse::<i64>()
                    .is_ok_and(|number| (min..=max).contains(&number));
                let refused = || ConfigError::OutOfRange {
                    name: self.name,
                    min,
                    max,
                    value: value.to_owned(),
                };
                fits.then_some(()).ok_or_else(refused)
            }
            Rule::OneOf(allowed) => {
                let refused = || ConfigError::NotAllowed {
                    name: self.name,
                    allowed,
                    value: value.to_owned(),
                };
                // As Kafka reads them.
                let is_same = |word: &&str| match self.kind {
                    ConfigKind::Boolean => word.eq_ignore_ascii_case(value),
                    _ => **word == *value,
                };
                allowed.iter().any(is_same).then_some(()).ok_or_else(refused)
            }
            Rule::SomeOf(allowed) => {
                let refused = || ConfigError::NotAmong {
                    name: self.name,
                    allowed,
                    value: value.to_owned(),
                };
                let named: Vec<&str> = words(value).collect();
                let is_new = |(index, word): (usize, &&str)| !named[..index].contains(word);
                let fits =
                    named.iter().all(|word| allowed.contains(word)) && named.iter().enumerate().all(is_new);
                (fits || value.is_empty()).then_some(()).ok_or_else(refused)
            }
            Rule::Share => {
                let refused = || ConfigError::NoShare {
                    name: self.name,
                    value: value.to_owned(),
                };
                let fits = value
                    .parse::<f64>()
                    .is_ok_and(|share| (0.0..=1.0).contains(&share));
                fits.then_some(()).ok_or_else(refused)
            }
            Rule::Replicas => {
                let refused = |word: &str| ConfigError::NoReplicas {
                    name: self.name,
                    word: word.chars().take(TOLD_CHARS_MAX).collect(),
                };
                let is_whole = matches!(value, "" | "*");
                let wrong = words(value).find(|word| !is_whole && !is_replica(word));
                wrong.map_or(Ok(()), |word| Err(refused(word)))
            }
        }
    }

    /// Bytes that a value may have.
    pub(in crate::metadata) fn value_bytes_max(&self) -> usize {
        match self.rule {
            Rule::Replicas => REPLICAS_BYTES_MAX,
            _ => CONFIG_VALUE_BYTES_MAX,
        }
    }

    /// A valid value as it is kept: a number without zeros in front, a list without spaces. What clients send may be
    /// two hundred bytes for one digit, and the metadata keeps it for ever. Another value is left as it is, to be refused.
    pub(in crate::metadata) fn canonical(&self, value: &str) -> String {
        let value = value.trim();
        if self.check(value).is_err() {
            return value.to_owned();
        }
        match self.rule {
            Rule::Range { .. } => value
                .parse::<i64>()
                .map_or_else(|_| value.to_owned(), |number| number.to_string()),
            Rule::OneOf(_) if self.kind == ConfigKind::Boolean => value.to_ascii_lowercase(),
            Rule::OneOf(_) | Rule::Replicas => value.to_owned(),
            Rule::SomeOf(_) => words(value).collect::<Vec<_>>().join(","),
            Rule::Share => value
                .parse::<f64>()
                .map_or_else(|_| value.to_owned(), shortest_share),
        }
    }
}

/// A share to the millionth, which is what is used of it.
fn shortest_share(share: f64) -> String {
    let digits = format!("{share:.6}");
    digits.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Says whether a word is `PARTITION:BROKER`.
fn is_replica(word: &str) -> bool {
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    word.split_once(':')
        .is_some_and(|(partition, broker)| is_number(partition) && is_number(broker))
}

/// Checks that a value is short enough to be kept, or to be taken apart.
///
/// # Errors
/// `TooLong`.
pub(in crate::metadata) fn check_length(
    name: &str,
    value: &str,
    bytes_max: usize,
) -> Result<(), ConfigError> {
    match value.len() {
        bytes if bytes <= bytes_max => Ok(()),
        bytes => Err(ConfigError::TooLong {
            name: name.to_owned(),
            bytes,
            bytes_max,
        }),
    }
}

/// The words of a list.
pub(super) fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}

/// The config called `name`.
///
/// # Errors
/// There is none.
pub fn find(name: &str) -> Result<&'static KnownConfig, ConfigError> {
    let index = KNOWN.binary_search_by(|known| known.name.cmp(name));
    index
        .map(|index| &KNOWN[index])
        .map_err(|_| ConfigError::Unknown {
            name: name.to_owned(),
        })
}

pub(in crate::metadata) const fn number(
    name: &'static str,
    kind: ConfigKind,
    default: &'static str,
    min: i64,
    documentation: &'static str,
) -> KnownConfig {
    let max = match kind {
        ConfigKind::Int => i32::MAX as i64,
        _ => i64::MAX,
    };
    KnownConfig {
        name,
        default,
        kind,
        documentation,
        unit: None,
        rule: Rule::Range { min, max },
    }
}

pub(in crate::metadata) const fn milliseconds(
    name: &'static str,
    default: &'static str,
    min: i64,
    documentation: &'static str,
) -> KnownConfig {
    KnownConfig {
        unit: Some(ConfigUnit::Milliseconds),
        ..number(name, ConfigKind::Long, default, min, documentation)
    }
}

pub(in crate::metadata) const fn bytes(
    name: &'static str,
    kind: ConfigKind,
    default: &'static str,
    min: i64,
    documentation: &'static str,
) -> KnownConfig {
    KnownConfig {
        unit: Some(ConfigUnit::Bytes),
        ..number(name, kind, default, min, documentation)
    }
}

pub(super) const fn word(
    name: &'static str,
    kind: ConfigKind,
    default: &'static str,
    allowed: &'static [&'static str],
    documentation: &'static str,
) -> KnownConfig {
    KnownConfig {
        name,
        default,
        kind,
        documentation,
        unit: None,
        rule: Rule::OneOf(allowed),
    }
}
