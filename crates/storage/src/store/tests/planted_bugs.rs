//! The tests of this crate, run against planted bugs: each bug must be caught. A suite that catches none proves nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use planted::{Bug, with};

use super::adoption::trim_what_was_just_adopted;
use super::compaction_beside::trim_what_a_pass_reads;
use super::corruption::{Victim, swap_twins};
use super::crashes::{
    enumerate, enumerate_compacting, enumerate_importing, enumerate_replicated, enumerate_returns,
};
use super::cutting::{adopt_what_was_cut, cut_before_the_flush, promise_on_an_empty_partition, replay_a_cut};
use super::failures::{kill, sweep};
use super::importing::begin_anew;
use super::open_segments::damage_every_end;
use super::read_ahead::read_over_gaps;
use super::recovery::go_on_from_a_doubtful_checkpoint;
use super::removals::trim_while_a_run_is_written;
use super::repairing::lend_something_else;
use super::returning::{fail_to_prepare_a_free_file, read_while_the_file_goes_back};
use super::witnesses::witness_and_go_on;

/// Says whether `test` fails, by an error or a panic, with `bug` planted in what it tests.
fn catches(bug: Bug, test: impl FnOnce() -> Result<(), String>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| with(bug, test)));
    match outcome {
        Ok(Ok(())) => panic!("{bug:?} was not caught"),
        Ok(Err(why)) => eprintln!("{bug:?} is caught: {why}"),
        Err(cause) => {
            let why = cause
                .downcast_ref::<String>()
                .map_or("a broken invariant", String::as_str);
            eprintln!("{bug:?} is caught by a panic: {why}");
        }
    }
}

/// Says whether `test` panics with `bug` planted in what it tests.
fn panics(bug: Bug, test: fn()) {
    catches(bug, || {
        test();
        Ok(())
    });
}

/// The same runs as in `crashes`, until one of them fails.
fn crashes() -> Result<(), String> {
    (1..=6).try_for_each(|seed| enumerate(seed, 120, 8, false).map(|_| ()))
}

#[test]
fn acknowledging_before_the_flush_is_caught() {
    catches(Bug::AckBeforeFlush, crashes);
}

#[test]
fn a_retried_flush_is_caught() {
    catches(Bug::FlushRetried, || sweep(1, 90, 5).map(|_| ()));
}

#[test]
fn an_ignored_frame_checksum_is_caught() {
    catches(Bug::FrameChecksumIgnored, crashes);
}

#[test]
fn a_stale_frame_that_is_accepted_is_caught() {
    catches(Bug::StaleFrameAccepted, crashes);
}

#[test]
fn cutting_off_frames_that_were_acknowledged_is_caught() {
    catches(Bug::TailCutDespiteLaterFrames, || {
        Victim::new(11, 130).turn_journal_bits(61).map(|_| ())
    });
}

#[test]
fn a_journal_that_is_not_closed_is_caught() {
    catches(Bug::JournalNotClosed, || {
        Victim::closed(1, 90).damage_last_records().map(|_| ())
    });
}

#[test]
fn reusing_journal_files_before_the_checkpoint_is_durable_is_caught() {
    catches(Bug::ReleasedBeforeCheckpoint, crashes);
}

#[test]
fn a_run_that_is_not_synced_is_caught() {
    catches(Bug::RunNotSynced, crashes);
}

#[test]
fn segments_without_identity_are_caught() {
    catches(Bug::SegmentWithoutIdentity, swap_twins);
}

#[test]
fn a_state_ahead_of_the_journal_is_caught() {
    catches(Bug::StateAheadOfJournal, crashes);
}

#[test]
fn files_removed_before_the_trim_is_durable_are_caught() {
    catches(Bug::RemovedBeforeTrimIsDurable, crashes);
}

#[test]
fn a_sequence_that_is_not_durable_before_its_first_frame_is_caught() {
    catches(Bug::SequenceAfterFrame, crashes);
}

#[test]
fn trusting_a_checkpoint_that_may_be_gone_is_caught() {
    panics(Bug::CheckpointNotSettled, go_on_from_a_doubtful_checkpoint);
}

#[test]
fn names_that_are_not_synced_are_caught() {
    catches(Bug::NamesNotSynced, crashes);
}

#[test]
fn a_last_frame_that_is_not_settled_is_caught() {
    catches(Bug::LastFrameNotSettled, || sweep(1, 90, 5).map(|_| ()));
}

#[test]
fn a_run_recorded_in_a_trimmed_segment_is_caught() {
    catches(Bug::RunInTrimmedSegment, trim_while_a_run_is_written);
}

#[test]
fn a_run_behind_a_damaged_end_is_caught() {
    catches(Bug::AppendedBehindDamage, damage_every_end);
}

#[test]
fn an_adopted_file_that_is_reused_is_caught() {
    catches(Bug::AdoptedFileReused, || {
        enumerate(3, 160, 8, false)
            .and_then(|_| enumerate(6, 160, 8, false))
            .map(|_| ())
    });
}

#[test]
fn an_adopted_file_that_is_removed_too_early_is_caught() {
    catches(Bug::AdoptedFileRemoved, trim_what_was_just_adopted);
}

/// The same runs as in `crashes`, compacting.
fn compacting_crashes() -> Result<(), String> {
    (1..=6).try_for_each(|seed| enumerate_compacting(seed, 110, 8).map(|_| ()))
}

#[test]
fn superseded_segments_that_are_removed_too_early_are_caught() {
    catches(Bug::SupersededRemovedEarly, compacting_crashes);
}

#[test]
fn a_dropped_latest_record_is_caught() {
    catches(Bug::LatestRecordDropped, compacting_crashes);
}

#[test]
fn a_file_given_back_before_its_checkpoint_is_caught() {
    catches(Bug::GivenBackBeforeCheckpoint, || {
        (1..=4).try_for_each(|seed| enumerate_returns(seed, 140, 6).map(|_| ()))
    });
}

#[test]
fn a_file_given_back_while_it_is_read_is_caught() {
    catches(Bug::GivenBackWhileRead, read_while_the_file_goes_back);
}

#[test]
fn a_file_given_back_while_a_pass_reads_it_is_caught() {
    catches(Bug::GivenBackWhileRead, trim_what_a_pass_reads);
}

#[test]
fn gaps_left_in_an_index_are_caught() {
    catches(Bug::GapsLeftInIndex, read_over_gaps);
}

#[test]
fn an_unfit_file_that_is_forgotten_is_caught() {
    catches(Bug::UnfitFileForgotten, fail_to_prepare_a_free_file);
}

#[test]
fn uncommitted_batches_that_are_laid_out_are_caught() {
    catches(Bug::UncommittedLaidOut, || {
        (1..=4).try_for_each(|seed| enumerate_replicated(seed, 130, 6).map(|_| ()))
    });
}

#[test]
fn batches_reported_durable_after_their_cut_are_caught() {
    panics(Bug::CutBatchReported, cut_before_the_flush);
}

#[test]
fn an_adopted_file_with_a_cut_is_caught() {
    panics(Bug::CutFileAdopted, adopt_what_was_cut);
}

#[test]
fn a_promise_for_an_empty_partition_that_is_forgotten_is_caught() {
    panics(Bug::EmptyPromiseForgotten, promise_on_an_empty_partition);
}

#[test]
fn witnesses_that_a_checkpoint_forgets_are_caught() {
    panics(Bug::WitnessesForgotten, witness_and_go_on);
    catches(Bug::WitnessesForgotten, || {
        (1..=4).try_for_each(|seed| enumerate_replicated(seed, 130, 6).map(|_| ()))
    });
}

#[test]
fn batches_carried_in_two_frames_are_caught() {
    catches(Bug::CarriedInTwoFrames, || {
        (1..=12).try_for_each(|seed| enumerate_replicated(seed, 200, 8).map(|_| ()))
    });
}

#[test]
fn cut_batches_that_are_replayed_are_caught() {
    panics(Bug::CutBatchReplayed, replay_a_cut);
}

/// The runs of a replica that gets segments of other nodes, until one of them fails.
fn imports() -> Result<(), String> {
    (1..=5).try_for_each(|seed| enumerate_importing(seed, 90, 8).map(|_| ()))
}

#[test]
fn an_import_that_is_not_synced_is_caught() {
    catches(Bug::ImportNotSynced, imports);
}

#[test]
fn a_log_that_goes_on_behind_an_import_too_early_is_caught() {
    catches(Bug::ImportGoneOnWith, imports);
}

#[test]
fn an_import_beside_entries_in_the_journal_is_caught() {
    catches(Bug::ImportBesideJournal, imports);
}

#[test]
fn segments_kept_below_a_new_beginning_are_caught() {
    panics(Bug::SegmentsKeptBelowBase, || begin_anew(50, true));
}

#[test]
fn without_a_bug_the_same_runs_pass() {
    sweep(1, 60, 9).unwrap_or_else(|why| panic!("{why}"));
    kill(1, 60, 9).unwrap_or_else(|why| panic!("{why}"));
    enumerate(1, 60, 8, false).unwrap_or_else(|why| panic!("{why}"));
    enumerate_compacting(1, 60, 8).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn taking_whatever_a_replica_lends_is_caught() {
    catches(Bug::LentRangeUnchecked, lend_something_else);
}
