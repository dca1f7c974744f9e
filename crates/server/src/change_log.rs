//! The lines in which the log tells what was changed: topics, configs, trims, groups. One line a change; where many are made
//! within ten seconds, only the first have a line of their own, and the others are summed up in one.

mod metadata;

pub(crate) use metadata::TopicBefore;

use std::fmt::{Display, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shard::Trimmed;

/// Changes that have a line of their own in one window.
const LINES_MAX: usize = 20;
/// The length of a window.
const WINDOW: Duration = Duration::from_secs(10);
/// The most parts of one change that a line names.
const PARTS_MAX: usize = 10;

/// The kinds of changes, in the order of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    TopicCreated,
    TopicDeleted,
    PartitionsAdded,
    TopicConfigsChanged,
    NodeConfigsChanged,
    GroupConfigsChanged,
    ReplicasChanged,
    NodesChanged,
    RecordsTrimmed,
    OffsetsSet,
    OffsetsDeleted,
    GroupDeleted,
}

impl Change {
    const COUNT: usize = Change::GroupDeleted as usize + 1;
    /// As a sum calls them.
    const NAMES: [&str; Change::COUNT] = [
        "topics created",
        "topics deleted",
        "topics given partitions",
        "changes of topic configs",
        "changes of node configs",
        "changes of group configs",
        "changes of replicas",
        "changes of nodes",
        "partitions trimmed",
        "groups whose offsets were set",
        "groups whose offsets were deleted",
        "groups deleted",
    ];
}

#[derive(Default)]
struct Window {
    began: Duration,
    lines: usize,
    untold: [u64; Change::COUNT],
}

impl Window {
    /// Begins anew when its time is over; returns what is still to be told then.
    fn roll(&mut self, now: Duration) -> Option<String> {
        if now.saturating_sub(self.began) < WINDOW {
            return None;
        }
        (self.began, self.lines) = (now, 0);
        self.take_sum()
    }

    fn take_sum(&mut self) -> Option<String> {
        let untold = std::mem::take(&mut self.untold);
        let sums = untold.iter().zip(Change::NAMES);
        let sums = sums.filter(|(count, _)| **count > 0);
        let sums: Vec<String> = sums.map(|(count, name)| format!("{count} {name}")).collect();
        (!sums.is_empty()).then(|| sums.join(", "))
    }
}

/// See the module. One for the node; no append comes here.
#[derive(Default)]
pub(crate) struct ChangeLog {
    window: Mutex<Window>,
}

impl ChangeLog {
    /// Says whether a change has a line of its own. Otherwise it is counted for the sum.
    pub(crate) fn has_line(&self, now: Duration, change: Change) -> bool {
        let mut window = self.window();
        window.roll(now).into_iter().for_each(tell_sum);
        if window.lines < LINES_MAX {
            window.lines += 1;
            return true;
        }
        window.untold[change as usize] += 1;
        false
    }

    /// Tells the sum of what had no lines, once the window is over.
    pub(crate) fn tell_sum_in_time(&self, now: Duration) {
        self.window().roll(now).into_iter().for_each(tell_sum);
    }

    /// The same at once: the node stops.
    pub(crate) fn tell_sum(&self) {
        self.window().take_sum().into_iter().for_each(tell_sum);
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeLog {
    /// Tells what a client has had given up of a partition, if it was anything.
    pub(crate) fn tell_trim(&self, now: Duration, topic: &str, index: i32, trimmed: Trimmed) {
        let Trimmed { first, next, bytes } = trimmed;
        if next > first && self.has_line(now, Change::RecordsTrimmed) {
            let partition = format!("{topic}-{index}");
            tracing::info!(
                partition,
                first = first.0,
                last = next.0 - 1,
                bytes,
                "records were trimmed"
            );
        }
    }
}

fn tell_sum(sum: String) {
    tracing::info!(changes = sum, "more was changed than has lines of its own");
}

/// The first of some parts, and how many more there are.
pub(crate) fn first_parts<T: Display>(parts: impl IntoIterator<Item = T>) -> String {
    let mut parts = parts.into_iter();
    let first: Vec<String> = parts
        .by_ref()
        .take(PARTS_MAX)
        .map(|part| part.to_string())
        .collect();
    let mut told = first.join(", ");
    let more = parts.count();
    if more > 0 {
        write!(told, " and {more} more").expect("writing to a string does not fail");
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_line_is_summed_up_when_the_window_is_over() {
        let mut window = Window::default();
        assert_eq!(window.roll(WINDOW), None);
        window.untold[Change::TopicCreated as usize] = 9_980;
        window.untold[Change::GroupDeleted as usize] = 1;
        window.lines = LINES_MAX;
        assert_eq!(window.roll(WINDOW * 2 - Duration::from_millis(1)), None);
        let sum = window.roll(WINDOW * 2);
        assert_eq!(sum.as_deref(), Some("9980 topics created, 1 groups deleted"));
        assert_eq!((window.lines, window.roll(WINDOW * 3)), (0, None));
    }

    #[test]
    fn the_first_of_many_have_lines() {
        let log = ChangeLog::default();
        let told = (0..10_000).filter(|_| log.has_line(WINDOW, Change::TopicCreated));
        assert_eq!(told.count(), LINES_MAX);
        assert!(log.has_line(WINDOW * 2, Change::TopicDeleted));
        assert_eq!(log.window().take_sum(), None, "it was told");
    }

    #[test]
    fn of_many_parts_the_first_are_told() {
        assert_eq!(first_parts(["a", "b"]), "a, b");
        let many = first_parts(0..12);
        assert_eq!(many, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more");
    }
}
