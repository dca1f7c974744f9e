//! A directory of logs: opened by one process at a time, shared by its threads, closed in order.
//!
//! Acknowledged records are there after any crash; closing only spares the next opening some reading. The directory is the
//! process's own from the opening to the closing, or until the last handle is gone.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use platform::clock::{Clock, SystemClock};
use platform::disk::{Disk, DurableWriteMode, Lock, RealDisk};
use platform::random::Random;
use platform::threads;
use protocol::leader::NodeId;
use protocol::metadata::{Metadata, TopicConfig, is_internal};
use record::PartitionId;
use storage::{
    DirectoryError, Fault, JournalSizes, NodeIdentity, Store, StoreConfig, identify, look_before_opening,
};

use crate::append::Rules;
use crate::background;
use crate::engine::{Engine, Phase, State};
use crate::log::Log;
use crate::names::LogError;
use crate::settings::{SettingError, Settings};

/// The node id in a new directory: a node's default, so that a node can take the directory over.
const NODE: i32 = 1;

/// Reasons for which a directory was not opened. Each is one sentence for the person who runs the program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process, or another opening in this one, has it.
    #[error("{directory} is in use by another process, or opened already in this one")]
    InUse {
        /// The directory.
        directory: String,
    },
    /// It is another program's, of another version, or cannot be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A node with several cores made it.
    #[error("{directory} has {journals} journals; only a directory with one can be opened in a process")]
    Journals {
        /// The directory.
        directory: String,
        /// The number of its journals.
        journals: usize,
    },
    /// Stored bytes are damaged, or the disk failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The stored records contradict each other.
    #[error("{directory} cannot be opened: {what}")]
    Contradiction {
        /// The directory.
        directory: String,
        /// The contradiction, a sentence.
        what: String,
    },
    /// A setting is out of its bounds.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The system gives no thread.
    #[error("a thread could not be started: {0}")]
    Thread(#[source] io::Error),
}

/// An open directory and its logs. Clones are handles of the same; any thread may use any of them.
///
/// # Panics
/// A thread that panics while it changes the state that all handles share can only be a mistake in this library. All calls of all
/// handles panic from then on, but for closing: the library does not go on with half a change. The next opening finds all that was
/// acknowledged.
#[derive(Clone)]
pub struct Logs {
    owner: Arc<Owner>,
}

impl Logs {
    /// Opens a directory with the default settings; makes it if there is none. Reads the part of the journal that is not laid out
    /// yet, about [`Settings::layout_trigger_bytes`] at most.
    ///
    /// # Errors
    /// See [`OpenError`]. Damage is named, and nothing is changed then.
    pub fn open(directory: impl AsRef<Path>) -> Result<Logs, OpenError> {
        Logs::open_with(directory, Settings::default())
    }

    /// The same with other settings.
    ///
    /// ```
    /// use ropewalk::{Logs, Settings};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let temporary = tempfile::tempdir()?;
    /// # let directory = temporary.path().join("small");
    /// let settings = Settings {
    ///     tail_cache_bytes: 4 << 20,
    ///     segment_bytes: 16 << 20,
    ///     ..Settings::default()
    /// };
    /// let logs = Logs::open_with(&directory, settings)?;
    /// # logs.close();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As `open`.
    pub fn open_with(directory: impl AsRef<Path>, settings: Settings) -> Result<Logs, OpenError> {
        settings.check()?;
        let directory = directory.as_ref();
        look_before_opening(directory)?;
        let disk = RealDisk::open(directory).map_err(|error| DirectoryError::Disk {
            directory: directory.display().to_string(),
            error,
        })?;
        if disk.durable_write_mode() == DurableWriteMode::Buffered {
            tracing::warn!(
                directory = %directory.display(),
                "no direct I/O here: flushes go through the page cache and are slower; on a file system in memory \
                 (tmpfs) they save nothing"
            );
        }
        Logs::open_on(Arc::new(disk), Arc::new(SystemClock::new()), settings)
    }

    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Logs, OpenError> {
        settings.check()?;
        let lock = lock(&*disk)?;
        let identity = identify_logs(&*disk)?;
        let directory = disk.root().display().to_string();
        if identity.journals != 1 {
            let journals = identity.journals;
            return Err(OpenError::Journals { directory, journals });
        }
        let (store, recovered) =
            Store::open(disk.clone(), Random::SYSTEM, store_config(&identity, &settings))?;
        let state = State::new(
            store,
            NodeId(identity.node),
            Metadata::new(TopicConfig::new()),
            lock,
        );
        let engine = Arc::new(Engine::new(clock, disk, settings, state));
        engine
            .open_partitions(identity.cluster, recovered.partitions)
            .map_err(|what| OpenError::Contradiction { directory, what })?;
        // The first pass looks at the free space, and goes on with what the last process left.
        engine.ask_background(&mut engine.state());
        let working = engine.clone();
        let thread = threads::spawn("ropewalk-logs", move || background::run(&working));
        let background = Mutex::new(Some(thread.map_err(OpenError::Thread)?));
        Ok(Logs {
            owner: Arc::new(Owner { engine, background }),
        })
    }

    /// The log of this name, made if there is none: durable on return. Names are those of Kafka's topics: up to 249 letters,
    /// digits, `.`, `_` and `-`.
    ///
    /// # Errors
    /// See [`LogError`].
    pub fn log(&self, name: &str) -> Result<Log, LogError> {
        let id = self.owner.engine.log(name)?;
        Ok(self.handle(id, name))
    }

    /// The log of this name, if there is one: nothing is made. A log that was made by mistake stays.
    ///
    /// # Errors
    /// `NodesOwn`, `Partitions` and `Closed` of [`LogError`].
    pub fn find(&self, name: &str) -> Result<Option<Log>, LogError> {
        let found = self.owner.engine.find_log(name)?;
        Ok(found.map(|id| self.handle(id, name)))
    }

    fn handle(&self, id: PartitionId, name: &str) -> Log {
        let settings = self.owner.engine.state().partition(id).settings;
        // Nobody changes them while the directory is open here.
        let rules = Rules {
            batch_bytes_max: settings.batch_bytes_max as usize,
            only_keyed: settings.compaction.is_some(),
        };
        Log::new(self.owner.clone(), id, name, rules)
    }

    /// The names of all logs, sorted.
    pub fn names(&self) -> Vec<String> {
        let state = self.owner.engine.state();
        let logs = state
            .metadata
            .topics()
            .filter(|topic| topic.partition_count() == 1 && !is_internal(&topic.name));
        logs.map(|topic| topic.name.to_string()).collect()
    }

    /// Refuses appends from now on, for all handles; waits until everything under way is durable and the background has ended,
    /// and lets go of the directory. Followers are told that their logs are closed. Dropping the last handle does the same;
    /// readers and followers are handles, too.
    pub fn close(&self) {
        self.owner.close();
    }
}

#[cfg(test)]
impl Logs {
    /// A topic of one partition with these configs, as a node makes one.
    pub(crate) fn create_topic(&self, name: &str, configs: &[(&str, &str)]) {
        let changes = configs.iter();
        let changes = changes.map(|(name, value)| protocol::metadata::ConfigChange::set(name, value));
        let engine = &self.owner.engine;
        engine
            .create_topic(engine.state(), name, changes.collect())
            .expect("there is room");
    }

    /// Sets a config for all brokers, as a node does.
    pub(crate) fn set_for_all_brokers(&self, name: &str, value: &str) {
        self.owner
            .engine
            .change(&protocol::metadata::Command::SetBrokerConfig {
                broker: None,
                changes: vec![protocol::metadata::ConfigChange::set(name, value)],
            });
    }
}

/// The state that the handles share; its drop closes the directory. The background has the engine as well, so the engine itself
/// cannot tell when no handle is left.
pub(crate) struct Owner {
    pub(crate) engine: Arc<Engine>,
    background: Mutex<Option<JoinHandle<()>>>,
}

impl Owner {
    fn close(&self) {
        // Held until the end: a second closer returns when the directory is free, as the first one does.
        let Ok(mut background) = self.background.lock() else {
            return;
        };
        let Some(thread) = background.take() else {
            return;
        };
        self.engine.begin_closing();
        // The background ends by itself, or by a panic that was reported when it happened.
        let _ = thread.join();
        self.engine.end_closing();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Engine {
    fn begin_closing(&self) {
        let mut state = self.state_to_end();
        state.phase = Phase::Closing;
        // Those who wait for room are told.
        self.room.notify_all();
        if self.is_half_changed() {
            return self.stop_background(&mut state);
        }
        // Should the journal be dead, those who waited for it know.
        let durable = self.until_all_durable(state).and_then(|mut state| {
            state.store.stage_closing_frame();
            self.until_all_durable(state)
        });
        match durable {
            Ok(mut state) => self.stop_background(&mut state),
            Err(_) => self.stop_background(&mut self.state_to_end()),
        }
    }

    fn stop_background(&self, state: &mut State) {
        state.background.stopping = true;
        self.work.notify_one();
    }

    fn end_closing(&self) {
        // A flush that is under way may still write: nobody else may have the directory before it ends.
        let _flushing = self.flushing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state_to_end();
        state.phase = Phase::Closed;
        self.tail_moved.notify_all();
        state.lock = None;
    }
}

fn lock(disk: &dyn Disk) -> Result<Box<dyn Lock>, OpenError> {
    let directory = disk.root().display().to_string();
    disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse { directory },
        _ => DirectoryError::Disk { directory, error }.into(),
    })
}

/// Reads the identity of the directory; makes a new one if it is empty.
fn identify_logs(disk: &dyn Disk) -> Result<NodeIdentity, DirectoryError> {
    match NodeIdentity::read(disk) {
        // Nothing there, or something else: it is told apart before anything is written.
        Err(DirectoryError::Empty { .. } | DirectoryError::Foreign { .. }) => {
            identify(disk, &Random::SYSTEM, Some(NODE), 1)
        }
        read => read,
    }
}

fn store_config(identity: &NodeIdentity, settings: &Settings) -> StoreConfig {
    StoreConfig {
        identity: identity
            .journal_identities()
            .next()
            .expect("a directory has at least one journal"),
        journal: JournalSizes {
            file_bytes: settings.journal_file_bytes,
            files_max: settings.journal_files_max,
        },
        layout_trigger_bytes: settings.layout_trigger_bytes,
        tail_cache_bytes: settings.tail_cache_bytes,
        chunk_cache_bytes: settings.read_cache_bytes,
        // Nothing is compacted here.
        superseded_bytes_max: u64::MAX,
    }
}

impl std::fmt::Debug for Logs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let directory = self.owner.engine.disk.root();
        formatter
            .debug_struct("Logs")
            .field("directory", &directory)
            .finish()
    }
}
