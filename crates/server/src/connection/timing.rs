//! Times of the answers of one connection, in the order they are written.
//!
//! A time is from when a request was read and begun until its whole answer was given to the kernel; both moments are told by
//! the idle poll, which needs them anyway. What stands behind another answer waits for it, and that counts: the client waits, too.

use std::time::Duration;

use crate::api::AnswerKind;
use crate::core::CoreCounters;

/// See the module.
#[derive(Default)]
pub(super) struct AnswerTimer {
    /// When an answer that had waited for records was written last.
    waited_until: Duration,
}

impl AnswerTimer {
    /// Counts an answer to a request that was received and answered at these moments.
    pub(super) fn note(
        &mut self,
        counters: &CoreCounters,
        kind: AnswerKind,
        received: Duration,
        answered: Duration,
    ) {
        let took = answered.saturating_sub(received);
        match kind {
            AnswerKind::Produce => counters.produce_latency.record(took),
            // A request received behind a fetch that waited was not served at once, either.
            AnswerKind::FetchAtOnce if received >= self.waited_until => {
                counters.fetch_latency.record(took);
            }
            AnswerKind::FetchThatWaited => self.waited_until = answered,
            AnswerKind::FetchAtOnce | AnswerKind::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The numbers of produces and fetches, and the times that they took together.
    fn counted(answers: &[(AnswerKind, u32, u32)]) -> [(u64, Duration); 2] {
        let counters = CoreCounters::default();
        let mut timer = AnswerTimer::default();
        for (kind, received, answered) in answers {
            timer.note(&counters, *kind, MS * *received, MS * *answered);
        }
        [&counters.produce_latency, &counters.fetch_latency].map(|histogram| {
            let figures = histogram.figures();
            (figures.count(), figures.sum())
        })
    }

    #[test]
    fn each_kind_is_counted_as_its_own() {
        use AnswerKind::{FetchAtOnce, Other, Produce};
        let answers = [
            (Produce, 0, 3),
            (FetchAtOnce, 3, 5),
            (Other, 5, 50),
            (Produce, 6, 50),
        ];
        assert_eq!(counted(&answers), [(2, 47 * MS), (1, 2 * MS)]);
    }

    #[test]
    fn a_fetch_that_waited_counts_as_none_nor_does_a_fetch_behind_it() {
        use AnswerKind::{FetchAtOnce, FetchThatWaited, Produce};
        let answers = [
            (FetchThatWaited, 1, 500),
            (FetchAtOnce, 2, 501),
            (Produce, 2, 502),
            (FetchAtOnce, 500, 503),
        ];
        assert_eq!(counted(&answers), [(1, 500 * MS), (1, 3 * MS)]);
    }
}
