//! The runs by seed, against planted bugs: each bug must be caught. Runs that catch none prove nothing. Bugs that need so rare a
//! turn that seeds do not find them have a script (`scenarios`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use planted::{Bug, with};

use super::simulation::run;
use super::world::Mistake;

/// A bug that needs more seeds than this is not caught: nobody would see it in time.
const SEEDS_MAX: u64 = 20_000;

/// Finds the first seed whose run fails, by whatever it breaks.
fn first_failure(mut run: impl FnMut(u64) -> usize) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let cause = outcome.err()?;
        let text = cause.downcast_ref::<String>().map(String::as_str);
        let text = text.or(cause.downcast_ref::<&str>().copied());
        Some((seed, text.unwrap_or("a broken invariant").to_owned()))
    })
}

fn caught(name: &str, found: Option<(u64, String)>) {
    let (seed, why) = found.unwrap_or_else(|| panic!("{name} was not caught"));
    eprintln!("{name} is caught by seed {seed}: {why}");
}

macro_rules! bugs {
    ($($test:ident $bug:ident)*) => {
        $(#[test]
        fn $test() {
            caught(stringify!($bug), first_failure(|seed| with(Bug::$bug, || run(seed, None))));
        })*
    };
}

macro_rules! mistakes {
    ($($test:ident $mistake:ident)*) => {
        $(#[test]
        fn $test() {
            caught(stringify!($mistake), first_failure(|seed| run(seed, Some(Mistake::$mistake))));
        })*
    };
}

bugs! {
    a_forgotten_promise_is_caught PromiseForgotten
    too_few_promises_are_caught PromiseTooFew
    the_longest_log_as_the_best_is_caught BestByEnd
    doubt_as_proof_of_absence_is_caught DoubtProvesAbsence
    certainty_by_old_metadata_is_caught CertaintyByLeader
    counting_who_joins_is_caught JoiningCounts
    a_tail_before_accepts_is_caught TailBeforeAccepts
    counting_after_the_seal_is_caught AcksAfterSeal
    opening_an_epoch_again_is_caught EpochOpenedAgain
    a_shortcut_despite_a_change_is_caught ShortcutDespiteChange
    a_catch_up_that_accepts_nothing_is_caught CatchUpKeepsAccepted
    a_resent_accept_that_cuts_is_caught ResentAcceptCuts
    a_stale_landmark_that_cuts_is_caught StaleLandmarkCuts
    uncommitted_history_that_is_kept_is_caught UncommittedHistoryKept
    catching_up_without_an_accept_is_caught CaughtUpWithoutAccept
    a_tail_of_what_was_not_compared_is_caught UncomparedCommitted
    a_trim_that_commits_half_a_batch_is_caught TrimCommitsHalf
    a_log_that_begins_inside_a_batch_is_caught BeginsInsideBatch
}

mistakes! {
    acknowledging_before_the_flush_is_caught AckBeforeFlush
    a_loss_that_is_not_noticed_is_caught LossNotNoticed
    settling_before_accepts_is_caught SettledWhenAssigned
    an_epoch_given_twice_is_caught EpochGivenTwice
    two_leaders_in_one_term_are_caught TwoLeadersInOneTerm
    a_report_that_outlives_a_doubt_is_caught ReportOutlivesDoubt
}
