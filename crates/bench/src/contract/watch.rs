//! Who watches a load: the harness, a driver that says events, or a workload with meters and a line on the terminal.

use std::time::Duration;

use anyhow::Result;

/// The watch over a load; unless told, it watches nothing.
pub trait Watch {
    /// How often it wants to know how far the load is, where that is for this process to say.
    fn period(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// The first measured record is about to be sent or asked for.
    ///
    /// # Errors
    /// If it cannot be watched; then it does not begin.
    fn started(&mut self) -> Result<()> {
        Ok(())
    }

    /// So many measured records so far.
    fn progress(&mut self, _records: u64) {}

    /// The last one is acknowledged or read.
    ///
    /// # Errors
    /// If it cannot be watched any more.
    fn done(&mut self) -> Result<()> {
        Ok(())
    }
}
