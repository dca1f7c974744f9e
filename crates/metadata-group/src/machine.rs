//! The image as the library drives it: committed entries go in, snapshots come out. An entry's proposer is answered when the image has it.

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{OptionalSend, RaftSnapshotBuilder};

use crate::identity::LibraryId;
use crate::image::{Entry, Image};
use crate::library::{Library, Payload, Snapshot, SnapshotMeta, StoredMembers};
use crate::snapshots::Growth;
use crate::store::Store;

/// Bytes of entries that are applied before others of the thread have their turn.
const TURN_BYTES: usize = 128 << 10;

/// See the module.
pub(crate) struct Machine {
    image: Box<dyn Image>,
    store: Store,
    growth: Rc<Growth>,
    /// The last entry that the image has.
    applied: Option<LibraryId>,
    members: StoredMembers,
}

impl Machine {
    pub(crate) fn new(image: Box<dyn Image>, store: Store, growth: Rc<Growth>) -> Machine {
        Machine {
            image,
            store,
            growth,
            applied: None,
            members: StoredMembers::default(),
        }
    }

    fn apply_one(&mut self, id: LibraryId, payload: Payload) -> io::Result<()> {
        let next = self.applied.map_or(0, |id| id.index + 1);
        assert_eq!(id.index, next, "entries are applied in their order, each once");
        match payload {
            Payload::Blank => {}
            Payload::Normal(proposal) => {
                self.growth.add(proposal.0.len());
                let applied = self.image.apply(Entry {
                    id: (&id).into(),
                    bytes: proposal.0,
                });
                applied.map_err(|unusable| io::Error::new(io::ErrorKind::InvalidData, unusable))?;
            }
            Payload::Membership(members) => self.members = StoredMembers::new(Some(id), members),
        }
        self.applied = Some(id);
        Ok(())
    }
}

impl RaftStateMachine<Library> for Machine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LibraryId>, StoredMembers)> {
        Ok((self.applied, self.members.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Library>>> + Unpin + OptionalSend,
    {
        let mut bytes = 0;
        while let Some(next) = entries.next().await {
            let (entry, proposer) = next?;
            if let Payload::Normal(proposal) = &entry.payload {
                bytes += proposal.0.len();
            }
            if bytes >= TURN_BYTES {
                bytes = 0;
                tokio::task::yield_now().await;
            }
            self.apply_one(entry.log_id, entry.payload)?;
            if let Some(proposer) = proposer {
                proposer.send(());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        self.growth.reset();
        Builder {
            store: self.store.clone(),
            meta: SnapshotMeta {
                last_log_id: self.applied,
                last_membership: self.members.clone(),
            },
            bytes: self.image.snapshot(),
        }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> io::Result<()> {
        let last = meta.last_log_id.expect("no snapshot is taken of an empty log");
        // Before the image has it: what is in memory only would be gone with the next crash, and the entries are.
        self.store.save_snapshot(meta, snapshot.clone()).await?;
        let installed = self.image.install((&last).into(), snapshot);
        installed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.growth.reset();
        self.applied = Some(last);
        self.members = meta.last_membership.clone();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<Snapshot>> {
        self.store.read_snapshot().await
    }
}

/// A snapshot that was taken, and is to be saved.
pub(crate) struct Builder {
    store: Store,
    meta: SnapshotMeta,
    bytes: Bytes,
}

impl RaftSnapshotBuilder<Library> for Builder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> io::Result<Snapshot> {
        self.store.save_snapshot(&self.meta, self.bytes.clone()).await?;
        Ok(Snapshot {
            meta: self.meta.clone(),
            snapshot: self.bytes.clone(),
        })
    }
}
