//! Bugs that this crate's tests put in on purpose, to show that the tests would catch them.
//!
//! Each stands where the real mistake would be made. Outside of the crate's own tests `planted` is a constant `false`:
//! the hooks cost nothing there and cannot be reached.

/// A mistake that somebody could make here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A flush is reported done when the write was only handed over.
    AckBeforeFlush,
    /// A flush that failed is tried again.
    FlushRetried,
    /// A frame's body is believed without its checksum.
    FrameChecksumIgnored,
    /// A frame that an earlier use of the file left behind is taken for a new one.
    StaleFrameAccepted,
    /// A damaged frame is cut off like a torn one, and with it what follows.
    TailCutDespiteLaterFrames,
    /// A journal that falls silent or is closed gets no closing frame.
    JournalNotClosed,
    /// Journal files are reused before the checkpoint that frees them is durable.
    ReleasedBeforeCheckpoint,
    /// A segment's run is recorded without having been synced.
    RunNotSynced,
    /// A segment's checksums do not cover whose segment it is.
    SegmentWithoutIdentity,
    /// The checkpoint is written before the records that its state reflects are durable.
    StateAheadOfJournal,
    /// A trimmed segment's file is removed before the trim is durable.
    RemovedBeforeTrimIsDurable,
    /// A journal file's new sequence is not durable before the first frame in it.
    SequenceAfterFrame,
    /// The names of new directories and files are left to chance.
    NamesNotSynced,
    /// What recovery accepted of an unfinished flush is not made durable before it is built on.
    LastFrameNotSettled,
    /// A run is appended to a segment whose end is damaged, where it cannot be found again.
    AppendedBehindDamage,
    /// A journal file that became a segment is written again.
    AdoptedFileReused,
    /// A journal file is removed with the segment that adopted it while recovery still needs it.
    AdoptedFileRemoved,
    /// A journal file that was a segment is used again before a checkpoint that does not name it is durable.
    GivenBackBeforeCheckpoint,
    /// A journal file that was a segment is used again while a read of that segment is under way.
    GivenBackWhileRead,
    /// A journal file that could not be prepared is neither used nor removed any more.
    UnfitFileForgotten,
    /// Compacted segments are removed before the checkpoint that names those in their place is durable.
    SupersededRemovedEarly,
    /// Compaction drops the latest record of some keys.
    LatestRecordDropped,
    /// The index of a compacted segment is used with the gaps that it has in the file.
    GapsLeftInIndex,
    /// A run that was written while its segment was trimmed away is recorded in that segment.
    RunInTrimmedSegment,
    /// Batches that are not committed are laid out.
    UncommittedLaidOut,
    /// A flush reports batches durable that were cut off.
    CutBatchReported,
    /// A journal file becomes a segment though batches of the partition in it were cut off.
    CutFileAdopted,
    /// A promise for an empty partition is not in the checkpoint.
    EmptyPromiseForgotten,
    /// Batches are carried in another frame than the entry that cuts them off.
    CarriedInTwoFrames,
    /// Recovery hands out batches that were cut off.
    CutBatchReplayed,
}

/// Whether `bug` is planted: never.
#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn planted(_: Bug) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Whether `bug` is planted on this thread.
#[cfg(test)]
pub(crate) fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Runs `test` with `bug` planted on this thread, and takes it out again even if the test panics.
#[cfg(test)]
pub(crate) fn with<T>(bug: Bug, test: impl FnOnce() -> T) -> T {
    struct TakeOut;
    impl Drop for TakeOut {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }
    let _take_out = TakeOut;
    PLANTED.set(Some(bug));
    test()
}
