//! Growth of a node's counters between two looks, and the rates and means that follow.

use super::exposition::{Exposition, Label};

/// Counters of two looks.
pub(super) struct Growth<'a> {
    pub(super) before: &'a Exposition,
    pub(super) now: &'a Exposition,
    /// Between them; more than none.
    pub(super) seconds: f64,
}

impl Growth<'_> {
    /// A counter's growth each second.
    pub(super) fn rate(&self, name: &str) -> Option<f64> {
        Some(self.total(name)? / self.seconds)
    }

    /// The same of what has a label.
    pub(super) fn rate_of(&self, name: &str, label: Label<'_>) -> Option<f64> {
        Some(self.total_of(name, label)? / self.seconds)
    }

    /// A counter's growth in the interval.
    pub(super) fn total(&self, name: &str) -> Option<f64> {
        self.now.growth(self.before, name, None)
    }

    /// The same of what has a label.
    pub(super) fn total_of(&self, name: &str, label: Label<'_>) -> Option<f64> {
        self.now.growth(self.before, name, Some(label))
    }

    /// One counter's growth for each of another's; `None` if that did not grow.
    pub(super) fn each(&self, sum: &str, of: &str) -> Option<f64> {
        let count = self.total(of)?;
        (count > 0.0).then_some(self.total(sum)? / count)
    }

    /// One counter's growth as a part of its own and another's; `None` if neither grew.
    pub(super) fn part(&self, name: &str, other: &str) -> Option<f64> {
        let own = self.total(name)?;
        let all = own + self.total(other)?;
        (all > 0.0).then_some(own / all)
    }
}
