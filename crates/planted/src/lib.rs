//! Bugs that tests put in on purpose, to show that they would catch them.
//!
//! Each is named at the place where the real mistake would be made: `planted(Bug::…)`. Without the feature `armed`, which only
//! dev-dependencies name, that is a constant `false`: the hooks cost nothing, and no program can reach them (decision 0021). With it, a
//! bug is planted on one thread, for as long as `with` runs.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $bug:ident,)*) => {
        /// A mistake that somebody could make.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug {
            $($(#[doc = $doc])+ $bug,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Bug] = &[$(Bug::$bug,)*];
        }
    };
}

bugs! {
    // In `storage`.

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
    /// Batches that another replica lends in the place of damaged ones are taken whatever they are.
    LentRangeUnchecked,
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
    /// A checkpoint that was found is trusted, though it may not be durable.
    CheckpointNotSettled,
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
    /// A journal takes more files than it may have.
    JournalOutgrown,
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
    /// The checkpoint does not have how far other nodes' journals were durable.
    WitnessesForgotten,
    /// Batches are carried in another frame than the entry that cuts them off.
    CarriedInTwoFrames,
    /// Recovery hands out batches that were cut off.
    CutBatchReplayed,
    /// An imported segment is recorded without having been synced.
    ImportNotSynced,
    /// A log goes on behind an imported segment before a checkpoint names it.
    ImportGoneOnWith,
    /// A segment is imported though the journal still says other things of the partition.
    ImportBesideJournal,
    /// A log that begins anew keeps the segments that it had.
    SegmentsKeptBelowBase,

    /// A segment's chunk is served without its checksum.
    ChunkChecksumIgnored,

    // In `protocol`: leader and producers.

    /// A batch that comes again is not recognized, and written again.
    RetryWrittenAgain,
    /// A batch is taken though one of the same producer before it is missing.
    SequenceGapAccepted,
    /// A producer that is not known may begin in the middle though it has written nothing here.
    BegunInTheMiddle,
    /// The producers of a checkpoint are not read back.
    ProducersForgotten,
    /// A producer is forgotten although its transaction is open.
    OpenTransactionForgotten,
    /// A checkpoint has transactions as ended whose markers may still be lost.
    LostMarkerKept,
    /// A permit to open a transaction stays good when something else of its producer was seen.
    PermitSurvives,
    /// A producer that begins each transaction with sequence 0 may begin with another one.
    BegunBehindZero,
    /// A marker of a coordinator's earlier tenure ends a transaction.
    LowerCoordinatorTaken,
    /// A marker that was written is refused when it comes again.
    RepeatedMarkerRefused,
    /// A late marker ends the transaction that came after its own.
    LateMarkerTaken,
    /// Readers of committed records see a transaction whose marker may still be lost.
    StableFromStaged,
    /// A replica that is sent an old part of a log takes transactions there for ended, as they are by now.
    StableFromCovered,
    /// Compaction takes a record of an aborted transaction for the latest of its key.
    AbortedSupersedes,
    /// The list of aborted transactions is not written into a compacted segment.
    AbortedListLost,
    /// The producers of batches behind the checkpoint are not read back.
    LaterBatchesForgotten,
    /// A checkpoint claims batches that may still be lost.
    UncommittedInSnapshot,
    /// A batch is committed when it was received, before its flush.
    CommittedWhenStaged,

    // In `protocol`: groups.

    /// A member of an old generation may commit offsets.
    OldGenerationCommits,
    /// An offset that is committed in a transaction is shown before that has ended.
    PendingShown,
    /// The end of a transaction takes a pending offset for the latest though another was committed since.
    PendingOverridesLater,
    /// A fetch that wants stable offsets is shown what a transaction may still change.
    StableIgnored,

    // In `server` and its shards.

    /// A producer is answered as soon as its batch is staged.
    AnsweredWhenStaged,
    /// A batch that comes again is answered though the first one is not durable yet.
    RepeatAnsweredEarly,
    /// An append overtakes those that wait for room.
    WaitingOvertaken,
    /// A trim is answered before it is durable.
    TrimAnsweredEarly,
    /// Readers are shown what is not committed.
    UncommittedShown,
    /// A flush that failed counts as done.
    FlushErrorIgnored,
    /// The metadata's commands hold before they are durable.
    MetadataAnsweredEarly,
    /// A decision of a group holds before it is durable.
    GroupsAnsweredEarly,
    /// A start does not read the groups' log.
    GroupsForgotten,

    // In `shard`: replication.

    /// A replica's message leaves before what it claims is durable.
    SwornBeforeFlush,
    /// A checkpoint has a replica's vows as they were when its snapshot was taken.
    VowOvertakesSnapshot,
    /// A replica is sent a compacted log with its gaps.
    GapsNotFilled,
    /// A replica is sent the empty batches of another one's gaps.
    EmptyBatchesSentOn,
    /// Tombstones of a log that several nodes hold go after their time.
    TombstonesGoEverywhere,

    /// A promise does not tell how long earlier leaders may believe in themselves.
    BelieversForgotten,
    /// An answer that waited for its flush goes to a leader that was left meanwhile.
    SwornToALeftLeader,
    /// A leader tells its tail as the latest without a lease.
    LeaseIgnored,

    // In `protocol`: replicas.

    /// Gaps are filled without the producers that wrote there.
    GapsOfNobody,
    /// Gaps are filled as if one epoch had written all of them.
    GapsOfOneEpoch,
    /// A follower commits the beginning of a batch that stands for several.
    CommitsPartOfGap,
    /// A replica that has not accepted the epoch takes all that it has for compared with its leader's log.
    UncomparedCommitted,
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
    /// A follower that has accepted the epoch is not taken beyond its end when the leader's log begins above it.
    LeftBehindByTrim,
    /// Of a batch that is given up in part only that part counts as committed.
    TrimCommitsHalf,
    /// A log is taken to begin where it was trimmed to, though that is inside a batch.
    BeginsInsideBatch,
    /// A partition may take all the room that its shard has for batches that are not committed.
    OnePartitionTakesAll,
    /// An opening leader goes on with a promise whose disk may be gone.
    PromiseOutlivesLink,
    /// An opening leader counts nothing of what it copies as committed before it has all of it.
    CopiedIsUncommitted,
    /// Two logs are compared below the tail of one of them, too, where one may not know any more who wrote.
    CommittedCompared,

    // In `protocol`: the order of a topic.

    /// A shard's floor is lowered after the counter has moved.
    FloorAfterCounter,
    /// The floors are read before the counter.
    FloorsReadFirst,
    /// A shard's floor is overwritten by what it takes later.
    FloorOverwritten,
    /// The ordered position is found anew each time.
    OrderedFalls,
    /// Cuts of an earlier generation count.
    VoidCutsCount,
    /// Recovery goes on behind a gap.
    GapJumped,
    /// Partitions are shown as far as they are committed, ordered or not.
    UnorderedShown,
    /// A shard's floor goes up with the seal, and not with the flush.
    FloorRaisedEarly,
    /// A shard's own flush shows its cuts.
    ShownAtOwnFlush,
    /// A shard that waits for others does not look again after it has said so.
    NoSecondLook,
    /// The tail is a condition that holds while records below it may still be lost.
    TailNotOrdered,
    /// The tail is a condition that holds while records wait for their positions.
    StagedOvertaken,
    /// A producer has the same sequences on a topic's twin as on its partition.
    TwinSharesSequences,
    /// A page says that one offset more has a position.
    VectorOffByOne,
    /// Leaders are told of positions before the page that has them is committed.
    PageToldEarly,
    /// A leader takes what an earlier leader of its partition was told for the end of what is ordered.
    OrderedRemembered,
    /// A scribe gives away a position that it has promised, or that an earlier one may have.
    ClaimForgotten,
    /// Batches that earlier leaders of the lane have left behind count as gone before the epoch is accepted.
    LeftoversForgotten,
    /// The lane's leader reports while what it was promised a position for is not committed.
    ClaimReported,

    // In `protocol`: transactions.

    /// EndTxn is answered before the outcome is durable.
    EndAnsweredBeforePrepare,
    /// A transaction counts as completed before all its partitions have their markers.
    CompletedBeforeMarkers,
    /// Markers of a decided transaction are not sent again after a restart.
    MarkersNotSentAgain,
    /// A transaction of version 2 ends without raising the producer's epoch.
    EpochKeptAtPrepare,
    /// A producer whose epochs are used up keeps its id.
    IdKeptAtLastEpoch,
    /// A transaction times out by its last request, not by its start.
    TimeoutFromLastRequest,
    /// A new instance of a producer fences the old one without aborting its transaction.
    FencedWithoutAbort,
    /// A producer is compared with an id and an epoch that are just being changed.
    EpochBeforePending,
    /// A marker's completion counts for whatever transaction its producer has open now.
    OldMarkerCounts,

    // In `metadata-group`.

    /// A vote is answered before it is durable.
    MetadataVoteNotFlushed,
    /// Entries are acknowledged before they are durable.
    MetadataEntriesAckedEarly,
    /// What a crash left of the last write is not cut off: the next write goes behind it.
    MetadataTornTailKept,
    /// Entries that another leader's contradict are given up in memory only.
    MetadataTruncationForgotten,
    /// The log gives up what is in a snapshot that is not durable yet.
    MetadataSnapshotNotSaved,
}

/// Says whether a bug is planted: never.
#[cfg(not(feature = "armed"))]
#[inline(always)]
pub const fn planted(_: Bug) -> bool {
    false
}

#[cfg(feature = "armed")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Says whether a bug is planted on this thread.
#[cfg(feature = "armed")]
pub fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Runs `test` with `bug` planted on this thread, and takes it out again even if the test panics.
#[cfg(feature = "armed")]
pub fn with<T>(bug: Bug, test: impl FnOnce() -> T) -> T {
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
