//! The engine that all handles of a directory share: the store, the leaders and the names, behind one lock, with their waiters.
//!
//! The lock is held to stage, to number and to look, for microseconds. Whatever waits for the disk is a job of the store and
//! runs without it: so a thread that appends never waits for one that reads, lays out or flushes something else.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indexmap::IndexMap;
use platform::clock::Clock;
use platform::disk::{Disk, Lock};
use protocol::leader::NodeId;
use protocol::metadata::{Command, Metadata, TopicSettings};
use protocol::{Found, Leader, LeaderState, ProducerId, ProducerLimits};
use record::{Epoch, PartitionId, whole_ms};
use storage::{PrepareFile, RecoveredPartition, SegmentRolling, Store, Trouble};

use crate::group_commit::{Waiters, Waiting};
use crate::settings::Settings;

/// A held lock on the state. If the thread panics that has it, all who wait are woken, and panic too.
pub(crate) struct Guard<'a> {
    engine: &'a Engine,
    /// None only while the guard is taken apart.
    state: Option<MutexGuard<'a, State>>,
}

pub(crate) struct Engine {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) settings: Settings,
    /// Held by whoever changes the names, so that names are changed one at a time. Taken before the state.
    pub(crate) naming: Mutex<()>,
    /// Held while a flush is under way; taken with the state, kept without it.
    pub(crate) flushing: Mutex<()>,
    state: Mutex<State>,
    /// The threads that wait for a flush.
    pub(crate) waiters: Waiters,
    /// A tail has moved, or the logs are closed.
    pub(crate) tail_moved: Condvar,
    /// There may be room in the journal, or a pass of the background has ended.
    pub(crate) room: Condvar,
    /// There is work for the background.
    pub(crate) work: Condvar,
}

/// Where the directory stands between its opening and its closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// Nothing is taken any more; what was staged is made durable.
    Closing,
    Closed,
}

pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) node: NodeId,
    pub(crate) partitions: IndexMap<PartitionId, Partition>,
    pub(crate) metadata: Metadata,
    /// Commands that this opening has to journal before anything else of it: they are applied to `metadata` already.
    pub(crate) start: Vec<Command>,
    pub(crate) phase: Phase,
    /// Frames before this one are durable.
    pub(crate) durable_before: u64,
    /// Threads that wait for a flush.
    pub(crate) waiting: Waiting,
    /// Threads that follow a log and wait.
    pub(crate) followers: usize,
    pub(crate) background: Background,
    pub(crate) lock: Option<Box<dyn Lock>>,
}

/// A partition and its leader. Its bytes are the store's.
pub(crate) struct Partition {
    pub(crate) leader: Leader,
    pub(crate) settings: TopicSettings,
}

/// The work that the background was asked for, and how it fared.
#[derive(Default)]
pub(crate) struct Background {
    /// A pass should begin.
    pub(crate) wanted: bool,
    /// It is to make room, though nothing is due.
    pub(crate) room_wanted: bool,
    /// Passes that have begun, and ended.
    pub(crate) begun: u64,
    /// See `begun`.
    pub(crate) ended: u64,
    /// Why the last pass could not do all there was to do.
    pub(crate) trouble: Option<String>,
    /// The same trouble, as far as the log was told of it.
    pub(crate) told: Trouble,
    /// Bytes that the disk has left, if they are less than its reserve.
    pub(crate) short_of_space: Option<u64>,
    /// A journal file to be made ready.
    pub(crate) preparation: Option<PrepareFile>,
    /// It is to end.
    pub(crate) stopping: bool,
    /// It has ended by a panic: nobody makes room any more.
    pub(crate) is_gone: bool,
}

impl Engine {
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        disk: Arc<dyn Disk>,
        settings: Settings,
        state: State,
    ) -> Engine {
        Engine {
            clock,
            disk,
            settings,
            naming: Mutex::new(()),
            flushing: Mutex::new(()),
            state: Mutex::new(state),
            waiters: Waiters::default(),
            tail_moved: Condvar::new(),
            room: Condvar::new(),
            work: Condvar::new(),
        }
    }

    /// The state.
    ///
    /// # Panics
    /// If a thread panicked while it had the state: half a change must not be gone on with.
    pub(crate) fn state(&self) -> Guard<'_> {
        let state = self.state.lock();
        self.guard(state.expect("no thread panicked while it changed the logs' state"))
    }

    /// The state, to end with: also if a thread panicked while it had it. See `is_half_changed`.
    pub(crate) fn state_to_end(&self) -> Guard<'_> {
        self.guard(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn guard<'a>(&'a self, state: MutexGuard<'a, State>) -> Guard<'a> {
        Guard {
            engine: self,
            state: Some(state),
        }
    }

    /// Says whether a thread panicked while it had the state: nothing of it may go to the disk any more.
    pub(crate) fn is_half_changed(&self) -> bool {
        self.state.is_poisoned()
    }

    /// Waits on `condition` with the state let go.
    pub(crate) fn wait<'a>(&'a self, condition: &Condvar, state: Guard<'a>) -> Guard<'a> {
        let waited = condition.wait(state.apart());
        self.guard(waited.expect("no thread panicked while it changed the logs' state"))
    }

    /// The same for so long at most; also whether that is over.
    pub(crate) fn wait_for<'a>(
        &'a self,
        condition: &Condvar,
        state: Guard<'a>,
        most: Duration,
    ) -> (Guard<'a>, bool) {
        let waited = condition.wait_timeout(state.apart(), most);
        let (state, timeout) = waited.expect("no thread panicked while it changed the logs' state");
        (self.guard(state), timeout.timed_out())
    }

    /// Has the background look for work.
    pub(crate) fn ask_background(&self, state: &mut State) {
        if !std::mem::replace(&mut state.background.wanted, true) {
            self.work.notify_one();
        }
    }
}

impl<'a> Guard<'a> {
    fn apart(mut self) -> MutexGuard<'a, State> {
        self.state.take().expect("it is taken apart once")
    }
}

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_deref().expect("nobody has what is taken apart")
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_deref_mut().expect("nobody has what is taken apart")
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.state.is_some() {
            let engine = self.engine;
            engine.waiters.wake_all_places();
            [&engine.tail_moved, &engine.room, &engine.work]
                .into_iter()
                .for_each(Condvar::notify_all);
        }
    }
}

impl State {
    /// The state of a directory that was opened just now, without its partitions.
    pub(crate) fn new(store: Store, node: NodeId, metadata: Metadata, lock: Box<dyn Lock>) -> State {
        State {
            durable_before: store.staged_before(),
            store,
            node,
            partitions: IndexMap::new(),
            metadata,
            start: Vec::new(),
            phase: Phase::Open,
            waiting: Waiting::default(),
            followers: 0,
            background: Background::default(),
            lock: Some(lock),
        }
    }

    /// A partition that is open.
    ///
    /// # Panics
    /// If it is not: handles are made of open partitions only, and none is ever closed.
    pub(crate) fn partition(&self, id: PartitionId) -> &Partition {
        self.partitions.get(&id).expect("the partition was opened")
    }

    /// Opens an epoch of a partition over what recovery found of it: the given one, or the one after the last.
    ///
    /// # Errors
    /// A sentence, if what recovery found contradicts itself or the metadata.
    pub(crate) fn open_partition(
        &mut self,
        id: PartitionId,
        epoch: Option<Epoch>,
        settings: TopicSettings,
        recovered: Option<&RecoveredPartition>,
        clock: &dyn Clock,
    ) -> Result<(), String> {
        let found = recovered.map(|found| Found {
            log_start: found.log_start,
            next_offset: found.next,
            snapshot: &found.state,
            batches: &found.replay,
        });
        // None are added here, and all that a node remembers are still there when it comes back.
        let limits = ProducerLimits {
            producers_max: usize::MAX,
            ..ProducerLimits::default()
        };
        let state = LeaderState::recover(self.node, epoch, clock.monotonic(), limits, ProducerId(0), found)
            .map_err(|error| format!("{id}: {error}"))?;
        let mut leader = Leader::open(state);
        // On opening, everything that was found is committed; nobody waits for that.
        while leader.next_action().is_some() {}
        let rolling = SegmentRolling {
            bytes: settings.segment_bytes_max,
            age_ms: whole_ms(settings.segment_age()),
        };
        self.store.open_partition(id, rolling);
        self.store.commit_to(id, leader.tail());
        self.partitions.insert(id, Partition { leader, settings });
        self.assert_same_log(id);
        Ok(())
    }

    /// Checks what must hold whenever the state is let go: the leader numbers from where the store's log ends.
    pub(crate) fn assert_same_log(&self, id: PartitionId) {
        let leader = &self.partition(id).leader;
        assert_eq!(
            self.store.bounds(id),
            Some((leader.log_start(), leader.next_offset())),
            "leader and store know the same log"
        );
    }
}
