//! Waiting for a broker that refuses for now: pauses that grow, and one word to the caller about a wait that takes long.

use std::fmt;
use std::time::{Duration, Instant};

use crate::error::ClientError;

/// The pause before the second question of the same kind, and the longest one. Each is twice the one before: a broker that
/// cannot answer for minutes must not be asked, and must not log, a hundred times a second.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The pauses between questions of one kind.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { next: PAUSE }
    }

    /// Sleeps for the next pause, and not beyond `deadline`.
    pub(crate) fn sleep_until(&mut self, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        std::thread::sleep(self.next_pause().min(left));
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(PAUSE_MAX);
        pause
    }
}

/// Tells the caller of a wait that takes long, with the error that is waited out.
type Tell = Box<dyn FnMut(&ClientError) + Send>;

/// The caller that hears of long waits, and whether it was told of the present one.
#[derive(Default)]
pub(crate) struct Waiting {
    tell: Option<(Duration, Tell)>,
    is_told: bool,
}

impl Waiting {
    /// Has `tell` hear of each wait that takes longer than `after`.
    pub(crate) fn tell_after(&mut self, after: Duration, tell: Tell) {
        self.tell = Some((after, tell));
    }

    /// Notes that something that was begun at `began` still fails with `error`.
    pub(crate) fn goes_on(&mut self, began: Instant, error: &ClientError) {
        if let Some((after, tell)) = &mut self.tell
            && !self.is_told
            && began.elapsed() >= *after
        {
            self.is_told = true;
            tell(error);
        }
    }

    /// Notes that the wait is over: the next one is told again.
    pub(crate) fn is_over(&mut self) {
        self.is_told = false;
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Waiting")
            .field("is_told", &self.is_told)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u128> = (0..7).map(|_| backoff.next_pause().as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_000, 1_000]);
    }

    #[test]
    fn each_wait_is_told_once() {
        let (told, heard) = std::sync::mpsc::channel();
        let mut waiting = Waiting::default();
        let error = ClientError::Options("no".to_owned());
        waiting.goes_on(Instant::now(), &error);
        waiting.tell_after(
            Duration::ZERO,
            Box::new(move |error| told.send(error.to_string()).expect("heard")),
        );
        waiting.goes_on(Instant::now(), &error);
        waiting.goes_on(Instant::now(), &error);
        waiting.is_over();
        waiting.goes_on(Instant::now(), &error);
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["no", "no"]);
    }
}
