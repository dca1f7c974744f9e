//! A bar on standard error for work that takes a while. Where no terminal is, nothing is drawn.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

const RUNNING: &str =
    "{prefix} [{bar:24}] {percent:>3} %  {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left  {wide_msg}";
const WAITING: &str = "{spinner} {prefix}  {wide_msg}";
/// The interval at which a spinner turns.
const TURN: Duration = Duration::from_millis(100);

/// Drawn until it goes out of scope; then the line is empty again.
pub(crate) struct Progress {
    bar: ProgressBar,
    counts: bool,
}

impl Progress {
    /// Of work whose size is not known yet. `what` says whose.
    pub(crate) fn new(what: impl Into<String>) -> Progress {
        let bar = ProgressBar::no_length().with_style(style(WAITING));
        bar.set_prefix(what.into());
        bar.enable_steady_tick(TURN);
        Progress { bar, counts: false }
    }

    /// Tells what is being done, of work that is not counted.
    pub(crate) fn say(&mut self, doing: &str) {
        self.bar.set_message(doing.to_owned());
    }

    /// Tells how far it is, in bytes, and what is being done.
    pub(crate) fn show(&mut self, bytes: u64, bytes_total: u64, doing: &str) {
        if !self.counts {
            self.counts = true;
            self.bar.set_style(style(RUNNING).progress_chars("=> "));
        }
        self.bar.set_length(bytes_total);
        self.bar.set_position(bytes);
        self.bar.set_message(doing.to_owned());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant of ours")
}
