//! Bugs that this crate's tests put in on purpose, to show that the tests would catch them.
//!
//! Each stands where the real mistake would be made. Outside of the crate's own tests `planted` is a constant `false`:
//! the hooks cost nothing there and cannot be reached.

/// A mistake that somebody could make here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A promise is not read back at a start.
    PromiseForgotten,
    /// One promise too few seals an epoch.
    PromiseTooFew,
    /// The best log is the longest, whatever was accepted.
    BestByEnd,
    /// The best log is found by its last batch; accepted epochs without batches do not count.
    AcceptsIgnored,
    /// A follower accepts an epoch before its log reaches where that begins.
    AcceptedShort,
    /// A replica in doubt proves that a record is absent.
    DoubtProvesAbsence,
    /// A replica counts as certain by the asking leader's metadata, which may be of before the doubt.
    CertaintyByLeader,
    /// A node that stands beside the replica set counts for commits.
    JoiningCounts,
    /// A replica that has not accepted the epoch counts for commits.
    AckWithoutAccept,
    /// An opening leader takes everything it found for committed.
    TailBeforeAccepts,
    /// A leader that is sealed goes on counting acknowledgements.
    AcksAfterSeal,
    /// A restarted leader opens its epoch again.
    EpochOpenedAgain,
    /// An epoch opens without an accept though the replica set or the ack quorum changed.
    ShortcutDespiteChange,
    /// A batch is taken without comparing the epoch of the record before it.
    WriterBeforeIgnored,
    /// Batches of earlier epochs do not raise what is accepted.
    CatchUpKeepsAccepted,
    /// An accept that comes again cuts off what was written since.
    ResentAcceptCuts,
    /// A cut forgets what was accepted.
    AcceptedFallsWithCut,
    /// A landmark of before cuts off what has come since.
    StaleLandmarkCuts,
    /// A replica listens to an epoch below the one that the metadata has told it of.
    AssignmentIsNoFloor,
    /// What a replica has acknowledged counts though it is connected anew.
    AcksOutliveLink,
    /// A leader that is demoted keeps what it knew of producers' uncommitted batches.
    UncommittedHistoryKept,
    /// A replica is reported to have caught up without having accepted the epoch.
    CaughtUpWithoutAccept,
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
