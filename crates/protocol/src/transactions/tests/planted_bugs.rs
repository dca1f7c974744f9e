//! Planted bugs: each must be caught by the scenario that is about it, or by a run by seed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use planted::{Bug, with};

use super::random::{SEEDS, run};
use super::{ends, init, markers, timeouts};

fn is_caught(bug: Bug, test: impl Fn()) -> bool {
    with(bug, || catch_unwind(AssertUnwindSafe(test)).is_err())
}

macro_rules! bugs {
    ($($test:ident $bug:ident $by:path;)*) => {
        $(#[test]
        fn $test() {
            $by();
            assert!(is_caught(Bug::$bug, $by), "{} was not caught", stringify!($bug));
        })*
    };
}

bugs! {
    an_end_that_is_answered_early_is_caught EndAnsweredBeforePrepare ends::commits_in_order;
    a_completion_before_all_markers_is_caught CompletedBeforeMarkers ends::commits_in_order;
    markers_that_are_not_sent_again_are_caught MarkersNotSentAgain markers::restart_sends_markers_again;
    an_epoch_that_is_kept_is_caught EpochKeptAtPrepare ends::commits_in_order;
    an_empty_end_that_keeps_the_epoch_is_caught EpochKeptAtPrepare ends::empty_end_raises_the_epoch;
    an_id_that_is_kept_is_caught IdKeptAtLastEpoch ends::epochs_are_used_up;
    a_timeout_from_the_last_request_is_caught TimeoutFromLastRequest timeouts::times_out_from_its_start;
    a_fence_without_an_abort_is_caught FencedWithoutAbort init::newcomer_aborts_first;
    looking_at_the_producer_first_is_caught EpochBeforePending ends::epochs_are_used_up;
    counting_an_old_marker_is_caught OldMarkerCounts markers::old_markers_count_for_nothing;
}

/// Those that need no special turn are caught by chance as well.
#[test]
fn runs_by_seed_catch_what_breaks_an_invariant() {
    for bug in [
        Bug::EndAnsweredBeforePrepare,
        Bug::CompletedBeforeMarkers,
        Bug::MarkersNotSentAgain,
        Bug::EpochKeptAtPrepare,
        Bug::IdKeptAtLastEpoch,
        Bug::FencedWithoutAbort,
        Bug::OldMarkerCounts,
    ] {
        let seed = (0..SEEDS).find(|seed| is_caught(bug, || drop(run(*seed))));
        assert!(seed.is_some(), "no run catches {bug:?}");
    }
}
