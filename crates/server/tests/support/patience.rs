//! Waiting for what is not so yet, and not for ever.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longer than anything takes that is not stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks until something holds; `what` does not if that takes too long. Some of it waits for the node's own patience, which
/// is half a minute as well.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + 2 * PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        sleep(PAUSE);
    }
}
