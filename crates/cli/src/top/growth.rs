//! Growth of a node's counters between two looks, and the rates and means that follow.

use super::exposition::Exposition;

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
        Some(self.of(name)? / self.seconds)
    }

    /// The same of one core.
    pub(super) fn rate_of_core(&self, name: &str, core: &str) -> Option<f64> {
        Some(self.now.growth(self.before, name, Some(core))? / self.seconds)
    }

    /// One counter's growth for each of another's; `None` if that did not grow.
    pub(super) fn each(&self, sum: &str, of: &str) -> Option<f64> {
        let count = self.of(of)?;
        (count > 0.0).then_some(self.of(sum)? / count)
    }

    /// One counter's growth as a part of its own and another's; `None` if neither grew.
    pub(super) fn part(&self, name: &str, other: &str) -> Option<f64> {
        let own = self.of(name)?;
        let all = own + self.of(other)?;
        (all > 0.0).then_some(own / all)
    }

    fn of(&self, name: &str) -> Option<f64> {
        self.now.growth(self.before, name, None)
    }
}
