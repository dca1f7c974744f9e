//! The last snapshot, in a file of its own that is replaced as a whole (docs/formats/metadata-group.md).
//!
//! It is durable before the log gives up what is in it, and never replaced by one that has less: then a stretch of entries would be nowhere.

use std::cell::RefCell;
use std::io;

use bytes::{BufMut, Bytes};
use openraft::async_runtime::AsyncRuntime;
use planted::{Bug, planted};
use platform::work::Pool;
use tokio::sync::Mutex;

use super::file::{Place, damaged, failed};
use super::frame::{checksum, u32_at, u64_at};
use super::open::StoreError;
use crate::codec::{Reader, put_snapshot_meta};
use crate::library::{Snapshot, SnapshotMeta};
use crate::runtime::CoreRuntime;
use crate::{GroupIdentity, SNAPSHOT_BYTES_MAX};

const MAGIC: &[u8; 8] = b"RWMETASN";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 40;
const CHECKSUM_AT: usize = 32;
/// The most bytes that say what is in a snapshot.
const META_BYTES_MAX: u64 = 128 << 10;

/// See the module.
pub(super) struct Snapshots {
    place: Place,
    pool: Pool,
    meta: RefCell<Option<SnapshotMeta>>,
    /// Held while one is saved or read.
    turn: Mutex<()>,
}

impl Snapshots {
    pub(super) fn new(place: Place, pool: Pool, meta: Option<SnapshotMeta>) -> Snapshots {
        Snapshots {
            place,
            pool,
            meta: RefCell::new(meta),
            turn: Mutex::new(()),
        }
    }

    pub(super) fn meta(&self) -> Option<SnapshotMeta> {
        self.meta.borrow().clone()
    }

    fn last_index(&self) -> Option<u64> {
        let meta = self.meta.borrow();
        Some(meta.as_ref()?.last_log_id?.index)
    }

    pub(super) async fn save(&self, meta: &SnapshotMeta, bytes: Bytes) -> io::Result<()> {
        let _turn = self.turn.lock().await;
        if self.last_index() >= meta.last_log_id.map(|id| id.index) {
            return Ok(());
        }
        let content = encode(&self.place.identity, meta, &bytes);
        if planted(Bug::MetadataSnapshotNotSaved) {
            *self.meta.borrow_mut() = Some(meta.clone());
            let (place, pool) = (self.place.clone(), self.pool.clone());
            drop(CoreRuntime::spawn(async move {
                pool.run(move || place.disk.replace(&place.path, &content)).await
            }));
            return Ok(());
        }
        let place = self.place.clone();
        let saved = self
            .pool
            .run(move || place.disk.replace(&place.path, &content))
            .await;
        saved.inspect(|()| *self.meta.borrow_mut() = Some(meta.clone()))
    }

    pub(super) async fn read(&self) -> io::Result<Option<Snapshot>> {
        let _turn = self.turn.lock().await;
        if self.meta.borrow().is_none() {
            return Ok(None);
        }
        let place = self.place.clone();
        let read = self.pool.run(move || read(&place)).await;
        read.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
    }
}

fn encode(identity: &GroupIdentity, meta: &SnapshotMeta, bytes: &[u8]) -> Vec<u8> {
    let mut head = Vec::new();
    put_snapshot_meta(&mut head, meta);
    let mut content = Vec::with_capacity(HEADER_BYTES + head.len() + bytes.len());
    content.put_slice(MAGIC);
    content.put_u32_le(VERSION);
    content.put_u32_le(u32::try_from(head.len()).expect("a group has few members"));
    content.put_u64_le(bytes.len() as u64);
    content.put_u64_le(checksum(identity, &[&head, bytes]));
    let sum = checksum(identity, &[&content]);
    content.put_u64_le(sum);
    content.put_slice(&head);
    content.put_slice(bytes);
    content
}

/// Writes what is there once more, and reads it. A process that failed before this one may have got it there without having made it durable;
/// a disk that has failed to do so once reports success ever after.
pub(super) fn settle(place: &Place) -> Result<Option<Snapshot>, StoreError> {
    let found = read(place)?;
    if let Some(Snapshot { meta, snapshot }) = &found {
        let content = encode(&place.identity, meta, snapshot);
        let settled = place.disk.replace(&place.path, &content);
        settled.map_err(|error| failed(&place.path, error))?;
    }
    Ok(found)
}

/// Reads the file; `None` if there is none.
pub(super) fn read(place: &Place) -> Result<Option<Snapshot>, StoreError> {
    let path = place.path.as_path();
    let bytes_max = HEADER_BYTES as u64 + META_BYTES_MAX + SNAPSHOT_BYTES_MAX;
    let content = match place.disk.read_whole(path, bytes_max as usize) {
        Ok(content) => Bytes::from(content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(path, error)),
    };
    let header = content.get(..HEADER_BYTES).filter(|header| header[..8] == *MAGIC);
    let header = header.filter(|h| u64_at(h, CHECKSUM_AT) == checksum(&place.identity, &[&h[..CHECKSUM_AT]]));
    let Some(header) = header else {
        return Err(damaged(
            path,
            0,
            "the snapshot's header is damaged, or another node's",
        ));
    };
    let version = u32_at(header, 8);
    if version != VERSION {
        return Err(StoreError::UnknownVersion {
            path: path.to_owned(),
            version,
        });
    }
    let (head_bytes, length) = (u64::from(u32_at(header, 12)), u64_at(header, 16));
    let rest = content.slice(HEADER_BYTES..);
    let is_whole = head_bytes.checked_add(length) == Some(rest.len() as u64);
    if !is_whole || checksum(&place.identity, &[&rest]) != u64_at(header, 24) {
        return Err(damaged(path, HEADER_BYTES as u64, "the snapshot is damaged"));
    }
    let mut from = Reader::new(rest.slice(..head_bytes as usize));
    let meta = from.snapshot_meta().and_then(|meta| from.end().map(|()| meta));
    let meta = meta.map_err(|error| damaged(path, HEADER_BYTES as u64, error.0))?;
    Ok(Some(Snapshot {
        meta,
        snapshot: rest.slice(head_bytes as usize..),
    }))
}
