//! A node's part of a group, read from a directory at rest. Nothing is written or decided here: entries that are not committed are among those of the log.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use platform::disk::Disk;

use super::file::{Place, Read};
use super::open::{LOG, SNAPSHOT, StoreError};
use super::snapshot;
use crate::GroupIdentity;
use crate::library::Payload;

/// A snapshot, and what stands in the log behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AtRest {
    /// The bytes of the last snapshot, if there is one.
    pub snapshot: Option<Bytes>,
    /// The bytes of the entries behind it, in order.
    pub entries: Vec<Bytes>,
}

/// Reads a node's part of a group in a directory that no node is running on. Blocks.
///
/// # Errors
/// It is damaged or cannot be read, or there is none.
pub fn read_at_rest(
    disk: &Arc<dyn Disk>,
    identity: GroupIdentity,
    directory: &Path,
) -> Result<AtRest, StoreError> {
    let of = |name: &str| Place {
        disk: disk.clone(),
        path: directory.join(name),
        identity,
    };
    let found = snapshot::read(&of(SNAPSHOT))?;
    let log = Read::of(&of(LOG))?.log;
    let last = found.as_ref().and_then(|found| found.meta.last_log_id);
    let first = last.map_or(0, |last| last.index + 1);
    let entries = log.from(first).filter_map(|entry| match &entry.payload {
        Payload::Normal(proposal) => Some(proposal.0.clone()),
        Payload::Blank | Payload::Membership(_) => None,
    });
    Ok(AtRest {
        snapshot: found.as_ref().map(|found| found.snapshot.clone()),
        entries: entries.collect(),
    })
}
