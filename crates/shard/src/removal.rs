//! Giving up: partitions that were deleted, and files that nothing needs any more.
//!
//! A deletion is an entry of the journal like any other. Where the journal has no room for it, it waits here, and is tried again
//! whenever there may be some. Files go in the background, one job at a time, with rests in between.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use platform::turns;
use record::PartitionId;
use storage::{REMOVAL_PAUSE, RETRY_AFTER, StageError};

use super::background::run;
use super::{Chore, Shard};

/// Deletions that the journal had no room for and that are tried again together.
const DELETED_AGAIN_AT_ONCE: usize = 1_000;

/// Deletions and removals that are left for later.
#[derive(Default)]
pub(super) struct Removals {
    /// Partitions given up whose deletion the journal had no room for.
    refused: RefCell<Vec<PartitionId>>,
    /// The number of reasons to leave the next removal for later.
    rests: Cell<u32>,
}

impl Shard {
    /// Gives a partition up: waiting clients are told, its files go in the background. Where the journal has no room for the
    /// deletion now, it is tried again.
    pub fn delete_partition(&self, id: PartitionId) {
        self.returning.forget(id);
        if let Some(partition) = self.partitions.borrow_mut().swap_remove(&id) {
            if let Ok(leader) = partition.role.leader() {
                self.producer_room.note_gone(leader.producers());
            }
            self.replication.forget(id);
            partition.close();
            self.topic_book.leave(id.topic);
        }
        self.give_up_files(id);
        self.background.notify_one();
    }

    /// Deletes a partition no more that begins anew, for there is nothing of it.
    pub(super) fn keep_files(&self, id: PartitionId) {
        self.removals
            .refused
            .borrow_mut()
            .retain(|refused| *refused != id);
    }

    /// Says if the journal had room for that.
    fn give_up_files(&self, id: PartitionId) -> bool {
        let mut store = self.store.borrow_mut();
        let deleted = store.delete_partition(id);
        if deleted.is_err()
            && let Some((_, next)) = store.bounds(id)
        {
            // It has no leader any more that could say so, and must not hold up the layout that makes room.
            store.commit_to(id, next);
        }
        drop(store);
        match deleted {
            Ok(()) => {
                self.note_success(Chore::Deletion);
                self.flushing.want();
            }
            Err(StageError::Full) => {
                self.layout.want_room();
                self.removals.refused.borrow_mut().push(id);
                return false;
            }
            Err(error) => {
                // The metadata says that it is gone; the next start tries again.
                self.note_failure(Chore::Deletion, &format!("{id}: {error}"));
            }
        }
        true
    }

    /// Tries the deletions again that the journal had no room for, some at a time: what is staged comes back here when it is flushed.
    pub(super) fn delete_refused(&self) {
        for _ in 0..DELETED_AGAIN_AT_ONCE {
            let refused = self.removals.refused.borrow_mut().pop();
            let Some(id) = refused else { return };
            if !self.give_up_files(id) {
                return;
            }
        }
    }

    /// Removes a file, or some of what a large one has; says whether there was one to remove.
    pub(super) async fn remove_files(self: &Rc<Self>) -> bool {
        if self.removals.rests.get() > 0 {
            return false;
        }
        let Some(job) = self.store.borrow_mut().next_removal() else {
            return false;
        };
        if job.wants_pause() {
            self.rest_from_removals(REMOVAL_PAUSE);
        }
        let (job, result) = run(&self.threads.laying_out, job, |job| job.run()).await;
        let removed = self.store.borrow_mut().removed(job, result);
        self.file_is_wanted.notify_one();
        match removed {
            Ok(()) => self.note_success(Chore::Removal),
            Err(error) => {
                // Nothing else waits for it: layout goes on.
                self.note_fault(Chore::Removal, &error);
                self.rest_from_removals(RETRY_AFTER);
            }
        }
        true
    }

    /// Has the background come back for the next removal after a pause.
    fn rest_from_removals(self: &Rc<Self>, pause: Duration) {
        self.removals.rests.set(self.removals.rests.get() + 1);
        let shard = self.clone();
        turns::spawn(async move {
            tokio::time::sleep(pause).await;
            let rests = shard.removals.rests.get();
            assert!(rests > 0, "each rest ends once");
            shard.removals.rests.set(rests - 1);
            shard.background.notify_one();
        });
    }
}
