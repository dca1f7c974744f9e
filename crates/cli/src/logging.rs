//! The node's log lines go to stderr, so that stdout stays what the command is asked for.

use std::io::{IsTerminal, stderr};

use server::config::{LogFormat, LogLevel, LogSettings};
use tracing::Level;

/// Begins logging for the rest of the process. Called once.
pub(crate) fn start(settings: &LogSettings) {
    let colored = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_max_level(level(settings.level))
        .with_ansi(colored)
        // A line that cannot be written must not end the node.
        .log_internal_errors(false);
    match settings.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
}

fn level(level: LogLevel) -> Level {
    match level {
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    }
}
