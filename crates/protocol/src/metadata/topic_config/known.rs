//! The table of topic configs. Names and built-in values are Kafka 4's; those under `ropewalk.` are our own.

use super::ConfigError;

/// The longest value, in bytes: far more than any number or list of words needs.
pub const CONFIG_VALUE_BYTES_MAX: usize = 255;

/// What type Kafka's tools show for a config.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Range {
        min: i64,
        max: i64,
    },
    OneOf(&'static [&'static str]),
    /// Some of these words, each once, with commas between; or none.
    SomeOf(&'static [&'static str]),
    /// From 0 to 1.
    Share,
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
    /// What it does, in a sentence.
    pub documentation: &'static str,
    rule: Rule,
}

impl KnownConfig {
    /// Whether the config is ours and not Kafka's.
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

    /// Whether `value` may be set. Blanks around it are not allowed: what is checked is what is kept.
    ///
    /// # Errors
    /// The value is too long or breaks the config's rule.
    pub fn check(&self, value: &str) -> Result<(), ConfigError> {
        check_length(self.name, value)?;
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
        }
    }
}

/// Whether a value is short enough to be kept, or to be taken apart.
///
/// # Errors
/// `TooLong`.
pub(in crate::metadata) fn check_length(name: &str, value: &str) -> Result<(), ConfigError> {
    match value.len() {
        ..=CONFIG_VALUE_BYTES_MAX => Ok(()),
        bytes => Err(ConfigError::TooLong {
            name: name.to_owned(),
            bytes,
            bytes_max: CONFIG_VALUE_BYTES_MAX,
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
        rule: Rule::Range { min, max },
    }
}

const fn word(
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
        rule: Rule::OneOf(allowed),
    }
}

/// Of what is not done here: whoever says so says what holds.
const NEVER: &[&str] = &["false"];

/// Every config that is served, sorted by name.
pub static KNOWN: &[KnownConfig] = &[
    KnownConfig {
        name: "cleanup.policy",
        default: "delete",
        kind: ConfigKind::List,
        documentation: "What happens to old records: they are deleted by age and size, or of each key only the latest record is kept (compact), or both. Empty: they stay.",
        rule: Rule::SomeOf(&["compact", "delete"]),
    },
    word(
        "compression.type",
        ConfigKind::String,
        "producer",
        &["producer"],
        "How batches are stored: always as the producer sent them.",
    ),
    number(
        "delete.retention.ms",
        ConfigKind::Long,
        "86400000",
        0,
        "How long the record that says that a key is gone is kept after the compaction that found it first.",
    ),
    number(
        "max.compaction.lag.ms",
        ConfigKind::Long,
        "9223372036854775807",
        1,
        "How long a segment that is complete may wait for its compaction, however few others wait.",
    ),
    number(
        "max.message.bytes",
        ConfigKind::Int,
        "1048588",
        0,
        "The largest batch that is accepted, as it is sent, with its header; `journal.file_bytes` and `limits.request_bytes` of a node allow no larger ones, whatever this is.",
    ),
    word(
        "message.downconversion.enable",
        ConfigKind::Boolean,
        "false",
        NEVER,
        "Batches are never converted to the formats of before Kafka 0.11.",
    ),
    number(
        "message.timestamp.after.max.ms",
        ConfigKind::Long,
        "3600000",
        0,
        "How far a record's own timestamp may lie ahead of the node's clock.",
    ),
    number(
        "message.timestamp.before.max.ms",
        ConfigKind::Long,
        "9223372036854775807",
        0,
        "How far a record's own timestamp may lie behind the node's clock.",
    ),
    word(
        "message.timestamp.type",
        ConfigKind::String,
        "CreateTime",
        &["CreateTime", "LogAppendTime"],
        "Whether records keep the timestamp of their producer or get that of their append.",
    ),
    KnownConfig {
        name: "min.cleanable.dirty.ratio",
        default: "0.5",
        kind: ConfigKind::Double,
        documentation: "The share of a partition's complete segments that no compaction has seen, above which one begins.",
        rule: Rule::Share,
    },
    number(
        "min.compaction.lag.ms",
        ConfigKind::Long,
        "0",
        0,
        "How old the newest record of a segment must be before the segment is compacted.",
    ),
    number(
        "min.insync.replicas",
        ConfigKind::Int,
        "1",
        1,
        "How many replicas must hold a batch before a producer that waits for all is answered.",
    ),
    word(
        "preallocate",
        ConfigKind::Boolean,
        "false",
        NEVER,
        "Segments are never as long as they may become before they are written.",
    ),
    word(
        "remote.storage.enable",
        ConfigKind::Boolean,
        "false",
        NEVER,
        "Records are on the node's own disk alone.",
    ),
    number(
        "retention.bytes",
        ConfigKind::Long,
        "-1",
        -1,
        "How many bytes a partition keeps before its oldest segments are deleted; -1 keeps all.",
    ),
    number(
        "retention.ms",
        ConfigKind::Long,
        "604800000",
        -1,
        "How long a segment is kept after its newest record; -1 keeps it for ever.",
    ),
    word(
        "ropewalk.durability",
        ConfigKind::String,
        "fsync",
        &["fsync", "memory"],
        "When a batch counts as written: once it is flushed to disk, or as soon as it is in memory, where a power cut loses it.",
    ),
    number(
        "segment.bytes",
        ConfigKind::Int,
        "1073741824",
        1_048_576,
        "The size at which a new segment is begun.",
    ),
    number(
        "segment.ms",
        ConfigKind::Long,
        "604800000",
        1,
        "The age at which a new segment is begun.",
    ),
    word(
        "unclean.leader.election.enable",
        ConfigKind::Boolean,
        "false",
        NEVER,
        "A replica that may lack what was acknowledged never becomes the leader.",
    ),
];
