//! One value of a configuration, whatever its type: reading it from text, showing it, saying what it may be.

use std::path::PathBuf;
use std::time::Duration;

use super::KeyKind;
use super::values::{
    HostPort, LogFormat, LogLevel, Word, read_bytes, read_duration, read_host_port, show_bytes, show_duration,
};

/// The place of a key's value.
pub(super) enum Slot<'a> {
    Path(&'a mut PathBuf),
    /// `host:port` to listen on.
    Listen(&'a mut String),
    /// `host:port` to listen on, or nothing.
    ListenIfAny(&'a mut Option<String>),
    /// Several `host:port`, with commas between them, or nothing.
    Addresses(&'a mut Vec<HostPort>),
    /// `host:port` for others, or nothing.
    Advertised(&'a mut Option<HostPort>),
    /// A word of up to 255 bytes, or nothing.
    Name(&'a mut Option<String>),
    Switch(&'a mut bool),
    Number(&'a mut i32),
    Count(&'a mut usize),
    MemoryBytes(&'a mut usize),
    DiskBytes(&'a mut u64),
    Time(&'a mut Duration),
    LogFormat(&'a mut LogFormat),
    LogLevel(&'a mut LogLevel),
}

/// The least and the greatest value of a number; bytes for sizes, milliseconds for times, meaningless for words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Range {
    fn holds(self, number: u64) -> Option<u64> {
        (self.min..=self.max).contains(&number).then_some(number)
    }
}

/// Puts a value in its place if there is one. `None`: the text is not what the key takes, and the place is as it was.
fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    value.map(|value| *place = value)
}

fn read_addresses(text: &str) -> Option<Vec<HostPort>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let each = text.split(',').map(|one| read_host_port(one.trim()));
    each.map(|address| address.filter(|address| address.port > 0))
        .collect()
}

const NAME_BYTES_MAX: usize = 255;

fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX && !text.contains(char::is_control)
}

impl Slot<'_> {
    /// Reads the value from `text`. On an error, which says what is expected, nothing has changed.
    pub(super) fn read(self, text: &str, range: Range) -> Result<(), String> {
        let expected = self.expected(range);
        let text = text.trim();
        let number = || text.parse().ok().and_then(|number| range.holds(number));
        let bytes = || read_bytes(text).and_then(|bytes| range.holds(bytes));
        let done = match self {
            Slot::Path(path) => put(path, (!text.is_empty()).then(|| PathBuf::from(text))),
            Slot::Listen(address) => put(address, read_host_port(text).map(|_| text.to_owned())),
            Slot::ListenIfAny(address) if text.is_empty() => put(address, Some(None)),
            Slot::ListenIfAny(address) => put(address, read_host_port(text).map(|_| Some(text.to_owned()))),
            Slot::Addresses(addresses) => put(addresses, read_addresses(text)),
            Slot::Advertised(address) if text.is_empty() => put(address, Some(None)),
            Slot::Advertised(address) => put(
                address,
                read_host_port(text).filter(|address| address.port > 0).map(Some),
            ),
            Slot::Name(name) if text.is_empty() => put(name, Some(None)),
            Slot::Name(name) => put(name, is_name(text).then(|| Some(text.to_owned()))),
            Slot::Switch(on) => put(on, bool::read(text)),
            Slot::Number(place) => put(place, number().and_then(|number| i32::try_from(number).ok())),
            Slot::Count(place) => put(place, number().and_then(|number| usize::try_from(number).ok())),
            Slot::MemoryBytes(place) => put(place, bytes().and_then(|bytes| usize::try_from(bytes).ok())),
            Slot::DiskBytes(place) => put(place, bytes()),
            Slot::Time(place) => {
                let fits = |time: &Duration| {
                    Duration::from_millis(range.min) <= *time && *time <= Duration::from_millis(range.max)
                };
                put(place, read_duration(text).filter(fits))
            }
            Slot::LogFormat(format) => put(format, LogFormat::read(text)),
            Slot::LogLevel(level) => put(level, LogLevel::read(text)),
        };
        done.ok_or(expected)
    }

    /// The value as `read` takes it.
    pub(super) fn show(&self) -> String {
        match self {
            Slot::Path(path) => path.display().to_string(),
            Slot::Listen(address) => (*address).clone(),
            Slot::ListenIfAny(address) => (*address).clone().unwrap_or_default(),
            Slot::Addresses(addresses) => {
                let shown: Vec<String> = addresses.iter().map(HostPort::to_string).collect();
                shown.join(",")
            }
            Slot::Advertised(address) => address.as_ref().map(HostPort::to_string).unwrap_or_default(),
            Slot::Name(name) => (*name).clone().unwrap_or_default(),
            Slot::Switch(on) => on.word().to_owned(),
            Slot::Number(number) => number.to_string(),
            Slot::Count(count) => count.to_string(),
            Slot::MemoryBytes(bytes) => show_bytes(**bytes as u64),
            Slot::DiskBytes(bytes) => show_bytes(**bytes),
            Slot::Time(time) => show_duration(**time),
            Slot::LogFormat(format) => format.word().to_owned(),
            Slot::LogLevel(level) => level.word().to_owned(),
        }
    }

    /// The values that `read` takes, to be put after "must be".
    pub(super) fn expected(&self, range: Range) -> String {
        let Range { min, max } = range;
        match self {
            Slot::Path(_) => "a path".to_owned(),
            Slot::Listen(_) => "host:port with a port from 0 to 65535, such as 127.0.0.1:9092".to_owned(),
            Slot::ListenIfAny(_) => {
                "host:port with a port from 0 to 65535, such as 127.0.0.1:9192, or empty".to_owned()
            }
            Slot::Addresses(_) => {
                "host:port, with a port from 1 to 65535, or several of them with commas between them"
                    .to_owned()
            }
            Slot::Advertised(_) => {
                "host:port that clients can reach, with a port from 1 to 65535, or empty".to_owned()
            }
            Slot::Name(_) => {
                format!("a name of at most {NAME_BYTES_MAX} bytes without control characters, or empty")
            }
            Slot::Switch(_) => bool::expected(),
            Slot::Number(_) | Slot::Count(_) => format!("a whole number from {min} to {max}"),
            Slot::MemoryBytes(_) | Slot::DiskBytes(_) => {
                format!(
                    "a size from {} to {}, such as 64MiB",
                    show_bytes(min),
                    show_bytes(max)
                )
            }
            Slot::Time(_) => {
                let [min, max] = [min, max].map(|ms| show_duration(Duration::from_millis(ms)));
                format!("a time from {min} to {max}, with its unit, such as 500ms or 10m")
            }
            Slot::LogFormat(_) => LogFormat::expected(),
            Slot::LogLevel(_) => LogLevel::expected(),
        }
    }

    pub(super) fn kind(&self) -> KeyKind {
        match self {
            Slot::Path(_) | Slot::Listen(_) | Slot::ListenIfAny(_) | Slot::Advertised(_) => KeyKind::Text,
            Slot::Addresses(_) | Slot::Name(_) => KeyKind::Text,
            Slot::LogFormat(_) | Slot::LogLevel(_) => KeyKind::Text,
            Slot::Switch(_) => KeyKind::Switch,
            Slot::Number(_) | Slot::Count(_) => KeyKind::Number,
            Slot::MemoryBytes(_) | Slot::DiskBytes(_) => KeyKind::Bytes,
            Slot::Time(_) => KeyKind::Duration,
        }
    }
}
