//! The times and sizes of a group. All nodes of a group may have their own, but elections go best where times are alike.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy, StepDownPolicy};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where the group's files are, in the node's directory.
    pub directory: PathBuf,
    /// How often a leader tells the others that it is there.
    pub heartbeat: Duration,
    /// The shortest silence of a leader after which another node stands for election. Each node draws its time anew for each
    /// election, so that seldom two stand at once.
    pub election_min: Duration,
    /// The longest.
    pub election_max: Duration,
    /// A snapshot is taken when so many bytes of entries were applied since the last one.
    pub snapshot_bytes: u64,
    /// Entries that stay in the log behind a snapshot, for nodes that lag a little.
    pub kept_entries: u64,
    /// The size that the log's file begins with. Writes within it are the fastest.
    pub file_bytes: u64,
    /// The longest time that a piece of a snapshot may take to be answered.
    pub snapshot_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            directory: PathBuf::from("metadata"),
            heartbeat: Duration::from_millis(50),
            election_min: Duration::from_millis(200),
            election_max: Duration::from_millis(400),
            snapshot_bytes: 16 << 20,
            kept_entries: 64,
            file_bytes: 4 << 20,
            snapshot_timeout: Duration::from_secs(2),
        }
    }
}

/// Settings contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("settings of the metadata group: {0}")]
pub struct SettingsError(pub(crate) String);

/// The most entries in a message.
pub(crate) const ENTRIES_MAX: u64 = 256;

impl Settings {
    /// The settings as the library takes them.
    pub(crate) fn config(&self) -> Result<Arc<Config>, SettingsError> {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let config = Config {
            cluster_name: String::from("metadata"),
            heartbeat_interval: ms(self.heartbeat),
            election_timeout_min: ms(self.election_min),
            election_timeout_max: ms(self.election_max),
            install_snapshot_timeout: ms(self.snapshot_timeout),
            max_payload_entries: ENTRIES_MAX,
            max_append_entries: Some(ENTRIES_MAX),
            api_batch_capacity: ENTRIES_MAX,
            // A learner that lags less has caught up.
            replication_lag_threshold: ENTRIES_MAX,
            // By bytes, not by number: `snapshots.rs`.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: self.kept_entries,
            removed_leader_step_down: StepDownPolicy::After(ms(self.heartbeat)),
            enable_pre_vote: Some(true),
            // A member over an older copy of its directory must not stop the one that leads.
            allow_log_reversion: Some(true),
            // The end of what is committed is not stored, so only an election tells it after a start.
            enable_leader_restore: Some(false),
            backoff: format!("{0}ms {0}ms {0}ms", ms(self.heartbeat)),
            ..Config::default()
        };
        config
            .validate()
            .map(Arc::new)
            .map_err(|error| SettingsError(error.to_string()))
    }
}
