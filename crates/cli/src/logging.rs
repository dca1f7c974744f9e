//! The node's log lines go to stderr, so that stdout stays what the command is asked for.

use std::io::{IsTerminal, stderr};

use server::config::{LogFormat, LogLevel, LogSettings};
use tracing_subscriber::EnvFilter;

/// Begins logging for the rest of the process. Called once.
pub(crate) fn start(settings: &LogSettings) {
    let colored = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt()
        .with_writer(stderr)
        .with_env_filter(filter(settings.level))
        .with_ansi(colored)
        // A line that cannot be written must not end the node.
        .log_internal_errors(false);
    match settings.format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
}

/// The library behind the metadata group warns of each message that is not answered in time: what there is to know of that, the node says
/// itself. At the levels for a closer look it is heard.
fn filter(level: LogLevel) -> EnvFilter {
    EnvFilter::new(match level {
        LogLevel::Error => "error",
        LogLevel::Warn => "warn,openraft=error",
        LogLevel::Info => "info,openraft=error",
        LogLevel::Debug => "debug,openraft=info",
        LogLevel::Trace => "trace,openraft=debug",
    })
}
