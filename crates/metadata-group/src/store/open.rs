//! The start of a store: what is on the disk is read and compared, and what a crash left half done is brought to its end.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use openraft::async_runtime::AsyncRuntime;
use platform::disk::Disk;
use platform::random::Random;
use platform::work::{Lane, Pool, Work};
use tokio::sync::mpsc;

use super::file::{LogFile, NewFile, Place, Read, damaged, failed};
use super::log::{Log, Record};
use super::snapshot::{self, Snapshots};
use super::writer::Writer;
use super::{Inner, Store};
use crate::identity::LibraryId;
use crate::library::SnapshotMeta;
use crate::runtime::CoreRuntime;
use crate::{GroupIdentity, Settings};

/// What a node of the group keeps cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk failed; another try may go better.
    #[error("{path}: {error}")]
    Failed {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is there was durable, and is not what was written. The node's copy must be given up: removed from the group, and added with an
    /// empty directory.
    #[error("{path} is damaged at byte {position}: {why}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        position: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// A later build wrote it.
    #[error("{path} is of version {version}, which this build does not know")]
    UnknownVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

pub(super) const LOG: &str = "log";
pub(super) const SNAPSHOT: &str = "snapshot";

/// Says whether a directory has a node's part of a group.
///
/// # Errors
/// The disk's.
pub fn has_part(disk: &dyn Disk, settings: &Settings) -> io::Result<bool> {
    match disk.list(&settings.directory) {
        Ok(names) => Ok(names.iter().any(|name| name == LOG)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a disk holds of a node's part of the group.
struct Found {
    file: LogFile,
    log: Log,
    snapshot: Option<SnapshotMeta>,
}

impl Store {
    /// Opens the store in a directory, or makes an empty one.
    pub(crate) async fn open(
        identity: GroupIdentity,
        disk: Arc<dyn Disk>,
        work: &dyn Work,
        random: Random,
        settings: &Settings,
    ) -> Result<Store, StoreError> {
        let directory = settings.directory.clone();
        let of = |name: &str| Place {
            disk: disk.clone(),
            path: directory.join(name),
            identity,
        };
        let (log_place, snapshot_place) = (of(LOG), of(SNAPSHOT));
        let lane = Lane::begin(work, String::from("metadata-log"));
        let lane = lane.map_err(|error| failed(&directory, error))?;
        let places = (log_place.clone(), snapshot_place.clone());
        let (salt, file_bytes) = (u64::from_le_bytes(random.bytes()), settings.file_bytes);
        let found = lane
            .run(move || find(&places.0, &places.1, salt, file_bytes))
            .await?;
        let log = Rc::new(RefCell::new(found.log));
        let (changes, changed) = mpsc::unbounded_channel();
        let writer = Writer {
            place: log_place,
            lane,
            random,
            log: log.clone(),
            file: found.file,
            file_bytes: settings.file_bytes,
            changes: changed,
        };
        drop(CoreRuntime::spawn(writer.write_for_ever()));
        let snapshots = Snapshots::new(snapshot_place, Pool::of(work), found.snapshot);
        let store = Store(Rc::new(Inner {
            log,
            changes,
            snapshots,
        }));
        store.end_installation(&directory).await?;
        Ok(store)
    }

    /// A snapshot may have been installed whose entries the log does not have, or contradicts: a crash came between. The library would take the
    /// log's last entry for the newest then, and stand for election with it. All of the log is given up, as after an installation.
    async fn end_installation(&self, directory: &Path) -> Result<(), StoreError> {
        let last = self.snapshot_meta().and_then(|meta| meta.last_log_id);
        let Some(last) = last else { return Ok(()) };
        let (purged, found) = {
            let log = self.0.log.borrow();
            (log.purged(), log.id_at(last.index))
        };
        if purged.is_some_and(|purged| purged.index > last.index) || found == Some(last) {
            return Ok(());
        }
        let purged = self.change_durably(Record::Purge(last)).await;
        purged.map_err(|error| failed(&directory.join(LOG), error))
    }
}

/// Reads what is there, and writes it anew before anything counts on it: the last write of a process that failed may be seen, and yet be gone
/// with the next power cut.
fn find(log: &Place, snapshot: &Place, salt: u64, file_bytes: u64) -> Result<Found, StoreError> {
    let directory = log.path.parent().expect("the log is in a directory");
    let names = log
        .disk
        .list(directory)
        .map_err(|error| failed(directory, error))?;
    let is_there = names.iter().any(|name| name == LOG);
    if !is_there {
        make_directory(&*log.disk, directory).map_err(|error| failed(directory, error))?;
    }
    let found = snapshot::settle(snapshot)?.map(|found| found.meta);
    if !is_there && found.is_some() {
        return Err(damaged(&log.path, 0, "there is a snapshot, and no log"));
    }
    let read = match is_there {
        true => Read::of(log)?,
        false => Read {
            log: Log::default(),
            sequence: 1,
        },
    };
    let last = found.as_ref().and_then(|meta| meta.last_log_id);
    let begins_behind = |purged: LibraryId| last.is_none_or(|last| last.index < purged.index);
    if read.log.purged().is_some_and(begins_behind) {
        return Err(damaged(
            &snapshot.path,
            0,
            "the log begins behind the end of the snapshot",
        ));
    }
    let file = NewFile::of(&read.log, salt, read.sequence, file_bytes).write(log);
    Ok(Found {
        file: file.map_err(|error| failed(&log.path, error))?,
        log: read.log,
        snapshot: found,
    })
}

/// Makes the directory and those above it, with their names durable.
fn make_directory(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    disk.create_directory(directory)?;
    directory
        .ancestors()
        .skip(1)
        .try_for_each(|above| disk.sync_directory(above))
}
