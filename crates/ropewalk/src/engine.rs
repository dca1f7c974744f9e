//! What all handles of a directory share: the store, the leaders and the names, behind one lock, and who waits for what.
//!
//! The lock is held to stage, to number and to look, for microseconds. Whatever waits for the disk is a job of the store and
//! runs without it: so a thread that appends never waits for one that reads, lays out or flushes something else.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use platform::clock::Clock;
use platform::disk::{Disk, Lock};
use protocol::leader::NodeId;
use protocol::metadata::{Command, Metadata, TopicSettings};
use protocol::{Leader, LeaderState};
use record::{Epoch, Offset, PartitionId};
use storage::{PrepareFile, RecoveredPartition, Store};

use crate::group_commit::{Waiters, Waiting};
use crate::settings::Settings;

/// A held lock on the state.
pub(crate) type Guard<'a> = MutexGuard<'a, State>;

pub(crate) struct Engine {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) settings: Settings,
    /// Who changes the names holds this, so that names are changed one at a time. Taken before the state.
    pub(crate) naming: Mutex<()>,
    state: Mutex<State>,
    /// Who waits for a flush.
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
    pub(crate) partitions: HashMap<PartitionId, Partition>,
    pub(crate) metadata: Metadata,
    /// What this opening has to journal before anything else of it is: applied to `metadata` already.
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

/// What the background was asked for, and how it fared.
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
    /// The disk has less than its reserve left: what it has.
    pub(crate) short_of_space: Option<u64>,
    /// A journal file to be made ready.
    pub(crate) preparation: Option<PrepareFile>,
    /// It is to end.
    pub(crate) stopping: bool,
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
        self.state
            .lock()
            .expect("no thread panicked while it changed the logs' state")
    }

    /// Waits on `condition` with the state let go.
    pub(crate) fn wait<'a>(&self, condition: &Condvar, state: Guard<'a>) -> Guard<'a> {
        condition
            .wait(state)
            .expect("no thread panicked while it changed the logs' state")
    }

    /// Has the background look for work.
    pub(crate) fn ask_background(&self, state: &mut State) {
        if !std::mem::replace(&mut state.background.wanted, true) {
            self.work.notify_one();
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
            partitions: HashMap::new(),
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
    /// What recovery found contradicts itself: a sentence.
    pub(crate) fn open_partition(
        &mut self,
        id: PartitionId,
        epoch: Option<Epoch>,
        settings: TopicSettings,
        recovered: Option<&RecoveredPartition>,
        clock: &dyn Clock,
    ) -> Result<(), String> {
        let rolling = storage::SegmentRolling {
            bytes: settings.segment_bytes_max,
            age_ms: i64::try_from(settings.segment_age_max.as_millis()).unwrap_or(i64::MAX),
        };
        self.store.open_partition(id, rolling);
        let limits = protocol::ProducerLimits::default();
        let (log_start, next, history) = match recovered {
            None => (Offset::ZERO, Offset::ZERO, protocol::History::new(limits)),
            Some(found) => {
                let batches = found.replay.iter().map(protocol::BatchFacts::of);
                let now = clock.monotonic();
                let history = protocol::History::recover(now, limits, &found.state, found.next, batches);
                let history = history.map_err(|error| format!("{id}: {error}"))?;
                (found.log_start, found.next, history)
            }
        };
        let latest = history.epochs.latest();
        let epoch = epoch.unwrap_or_else(|| latest.map_or(Epoch(0), |latest| Epoch(latest.0 + 1)));
        if latest.is_some_and(|latest| latest >= epoch) {
            return Err(format!(
                "{id}: the metadata opens epoch {epoch}, which the log has passed"
            ));
        }
        let mut leader = Leader::open(LeaderState::single(self.node, epoch, log_start, next, history));
        // On opening, everything that was found is committed; nobody waits for that.
        while leader.next_action().is_some() {}
        self.partitions.insert(id, Partition { leader, settings });
        Ok(())
    }
}
