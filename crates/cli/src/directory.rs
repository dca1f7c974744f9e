//! Opens a node's directory that no node is running on, for commands that only look.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use platform::disk::{Disk, Lock, RealDisk};
use server::NodeIdentity;

/// A directory at rest. Locked, so that no node starts on it meanwhile.
pub(crate) struct RestingDirectory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) identity: NodeIdentity,
    _lock: Box<dyn Lock>,
}

impl RestingDirectory {
    pub(crate) fn open(path: &Path) -> Result<RestingDirectory> {
        // Opening a disk makes its root; a typing mistake must not.
        if !path.is_dir() {
            bail!("{} is not a directory", path.display());
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(path)?);
        // Before it is locked: the lock is a file, and none is left in a directory of somebody else.
        let identity = NodeIdentity::read(&*disk)?;
        let lock = disk.lock().map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => {
                anyhow::anyhow!("{} is in use by a running node; stop it first", path.display())
            }
            _ => anyhow::anyhow!("{} cannot be locked: {error}", path.display()),
        })?;
        Ok(RestingDirectory {
            disk,
            identity,
            _lock: lock,
        })
    }
}
