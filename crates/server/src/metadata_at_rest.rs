//! The metadata that a member keeps of its group, in a directory that no node is running on. Reads only.

use std::sync::Arc;

use metadata_group::{GroupIdentity, Member, Settings, StoreError, has_part, read_at_rest};
use platform::disk::Disk;
use protocol::metadata::{GroupImage, Metadata, TopicConfig};
use storage::{Doing, Fault, NodeIdentity};

/// The version of the group's files that is read here.
const VERSION: u32 = 1;

/// The metadata, and its extent.
#[derive(Debug)]
pub struct MetadataAtRest {
    /// Bytes of the last snapshot; 0 without one.
    pub snapshot_bytes: u64,
    /// Entries behind it, committed or not.
    pub entries: u64,
    /// Their bytes.
    pub entry_bytes: u64,
    pub(crate) image: Metadata,
}

impl MetadataAtRest {
    /// Reads and checks all of it; `None` if the node has no part of a group. Blocks.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    pub fn read(disk: &Arc<dyn Disk>, identity: &NodeIdentity) -> Result<Option<MetadataAtRest>, Fault> {
        let settings = Settings::default();
        let file = disk.root().join(&settings.directory).display().to_string();
        let is_there = has_part(&**disk, &settings);
        let unread = |file: String, error| Fault::Disk {
            doing: Doing::Reading,
            file,
            error,
        };
        if !is_there.map_err(|error| unread(file.clone(), error))? {
            return Ok(None);
        }
        let group = GroupIdentity {
            cluster: identity.cluster,
            own: Member {
                node: identity.node,
                directory: identity.directory,
            },
        };
        let shown = |path: &std::path::Path| disk.root().join(path).display().to_string();
        let stored = read_at_rest(disk, group, &settings.directory).map_err(|error| match error {
            StoreError::Failed { path, error } => unread(shown(&path), error),
            StoreError::Damaged { path, position, why } => Fault::Damaged {
                file: shown(&path),
                position,
                what: why.to_owned(),
            },
            StoreError::UnknownVersion { path, version } => Fault::UnknownVersion {
                file: shown(&path),
                version,
                known: VERSION,
            },
        })?;
        let damaged = |what: String| Fault::Damaged {
            file: file.clone(),
            position: 0,
            what,
        };
        let mut image = GroupImage::new(Metadata::new(TopicConfig::new()));
        if let Some(snapshot) = &stored.snapshot {
            let installed = image.install(snapshot);
            installed.map_err(|error| damaged(format!("the snapshot cannot be read: {error}")))?;
        }
        for entry in &stored.entries {
            let taken = image.take(entry);
            taken.map_err(|error| damaged(format!("an entry cannot be read: {error}")))?;
        }
        let bytes_of = |bytes: &bytes::Bytes| bytes.len() as u64;
        Ok(Some(MetadataAtRest {
            snapshot_bytes: stored.snapshot.as_ref().map_or(0, bytes_of),
            entries: stored.entries.len() as u64,
            entry_bytes: stored.entries.iter().map(bytes_of).sum(),
            image: image.metadata().clone(),
        }))
    }
}
