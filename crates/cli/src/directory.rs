//! Opens a node's directory that no node is running on, for commands that only look.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use platform::disk::{Disk, Lock, RealDisk};
use storage::{DirectoryError, NodeIdentity};

use crate::findings::unreadable;

/// A directory at rest. Locked, so that no node starts on it meanwhile; but a lock file is not made, and where there is none, as
/// in a copy that left it out, nothing is locked.
pub(crate) struct RestingDirectory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) identity: NodeIdentity,
    _lock: Box<dyn Lock>,
}

impl RestingDirectory {
    pub(crate) fn open(path: &Path) -> Result<RestingDirectory> {
        match path.metadata() {
            Ok(found) if found.is_dir() => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(unreadable(path, &error).into()),
            _ => bail!("{} is not a directory", path.display()),
        }
        // Nothing is written: what is looked into may be a backup that is mounted for reading only.
        let disk: Arc<dyn Disk> =
            Arc::new(RealDisk::open_to_read(path).map_err(|error| unreadable(path, &error))?);
        let identity = NodeIdentity::read(&*disk).map_err(|error| match error {
            DirectoryError::Disk { error, .. } => unreadable(path, &error).into(),
            other => anyhow::Error::from(other),
        })?;
        let lock = disk.lock().map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                anyhow::anyhow!("{} is in use by a running node; stop it first", path.display())
            }
            _ => unreadable(path, &error).into(),
        })?;
        Ok(RestingDirectory {
            disk,
            identity,
            _lock: lock,
        })
    }
}
