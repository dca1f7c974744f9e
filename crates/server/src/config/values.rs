//! Values as people write them: `64MiB`, `100ms`, `host:port`. What is shown can be read back and means the same.

use std::fmt;
use std::time::Duration;

/// A host, by name or by number, and a port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// The name or the number, IPv6 without its brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl HostPort {
    /// Reads `host:port`, with IPv6 numbers in brackets; `None` if it is not that.
    pub(crate) fn parse(text: &str) -> Option<HostPort> {
        read_host_port(text)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "[{}]:{}", self.host, self.port),
            false => write!(out, "{}:{}", self.host, self.port),
        }
    }
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The least important events that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// And what may soon.
    Warn,
    /// And what an operator would want to know happened.
    Info,
    /// And why.
    Debug,
    /// And everything else.
    Trace,
}

/// A choice between a few words.
pub(super) trait Word: Copy + PartialEq + 'static {
    /// The words and what they mean.
    const WORDS: &'static [(&'static str, Self)];

    fn read(text: &str) -> Option<Self> {
        Self::WORDS
            .iter()
            .find(|(word, _)| *word == text)
            .map(|(_, meaning)| *meaning)
    }

    fn word(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(_, meaning)| *meaning == self);
        known.expect("every value has a word").0
    }

    fn expected() -> String {
        let words: Vec<_> = Self::WORDS.iter().map(|(word, _)| *word).collect();
        format!("one of {}", words.join(", "))
    }
}

impl Word for LogFormat {
    const WORDS: &'static [(&'static str, LogFormat)] =
        &[("text", LogFormat::Text), ("json", LogFormat::Json)];
}

impl Word for LogLevel {
    const WORDS: &'static [(&'static str, LogLevel)] = &[
        ("error", LogLevel::Error),
        ("warn", LogLevel::Warn),
        ("info", LogLevel::Info),
        ("debug", LogLevel::Debug),
        ("trace", LogLevel::Trace),
    ];
}

impl Word for bool {
    const WORDS: &'static [(&'static str, bool)] = &[("true", true), ("false", false)];
}

impl LogLevel {
    /// The word for it, in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.word()
    }
}

/// Size units, largest first; those in powers of 1000 are read and never shown.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];
/// The number of units that are shown.
const SIZE_UNITS_SHOWN: usize = 4;

/// Time units in microseconds, largest first.
const TIME_UNITS: &[(&str, u64)] = &[
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// A whole number, then what follows it.
fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    Some((digits.parse().ok()?, unit.trim_start()))
}

/// Bytes from `64MiB`, `1 GB` or a plain number. Case does not matter.
pub(super) fn read_bytes(text: &str) -> Option<u64> {
    let (number, unit) = split_number(text)?;
    if unit.is_empty() {
        return Some(number);
    }
    let (_, bytes) = SIZE_UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(*bytes)
}

/// Bytes in the largest unit that gives a whole number.
pub(super) fn show_bytes(bytes: u64) -> String {
    let mut shown = SIZE_UNITS[..SIZE_UNITS_SHOWN].iter();
    match shown.find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => format!("{bytes}B"),
    }
}

/// A time from `100ms`, `10 m` or `3d`. A number needs its unit, lest seconds be taken for milliseconds.
pub(super) fn read_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_number(text)?;
    let (_, us) = TIME_UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*us).map(Duration::from_micros)
}

/// A time in the largest unit that gives a whole number.
pub(super) fn show_duration(duration: Duration) -> String {
    let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    match TIME_UNITS
        .iter()
        .find(|(_, unit)| us > 0 && us.is_multiple_of(*unit))
    {
        Some((name, unit)) => format!("{}{name}", us / unit),
        None => "0s".to_owned(),
    }
}

/// `host:port`, with IPv6 numbers in brackets.
pub(super) fn read_host_port(text: &str) -> Option<HostPort> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None => (!host.contains(':')).then_some(host)?,
    };
    let plausible =
        !bare.is_empty() && !bare.contains(|letter: char| letter.is_whitespace() || "[]/".contains(letter));
    let port = port.parse().ok()?;
    plausible.then(|| HostPort {
        host: bare.to_owned(),
        port,
    })
}
