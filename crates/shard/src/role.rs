//! The role of this node for a partition: so far always its leader, for a replica set is one node.
//!
//! All that needs a leader asks here for it, and passes the reason on if there is none.

use protocol::Leader;
use record::{Epoch, PartitionId};

use super::{AppendRefusal, ReadRefusal, Shard};

/// See the module.
pub(crate) enum Role {
    /// It numbers the appends, and says what is committed.
    Leader(Leader),
}

/// The reason why nobody leads a partition here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotLed {
    /// The shard has no such partition.
    #[error("this partition is not here")]
    UnknownPartition,
    /// Another node leads it.
    #[error("this node does not lead the partition")]
    NotLeader,
}

impl From<NotLed> for AppendRefusal {
    fn from(why: NotLed) -> AppendRefusal {
        match why {
            NotLed::UnknownPartition => AppendRefusal::UnknownPartition,
            NotLed::NotLeader => AppendRefusal::NotLeader,
        }
    }
}

impl From<NotLed> for ReadRefusal {
    fn from(why: NotLed) -> ReadRefusal {
        match why {
            NotLed::UnknownPartition => ReadRefusal::UnknownPartition,
            NotLed::NotLeader => ReadRefusal::NotLeader,
        }
    }
}

impl Role {
    /// The partition's leader.
    ///
    /// # Errors
    /// `NotLeader`.
    pub(crate) fn leader(&self) -> Result<&Leader, NotLed> {
        match self {
            Role::Leader(leader) => Ok(leader),
        }
    }

    /// The same, to be changed.
    ///
    /// # Errors
    /// `NotLeader`.
    pub(crate) fn leader_mut(&mut self) -> Result<&mut Leader, NotLed> {
        match self {
            Role::Leader(leader) => Ok(leader),
        }
    }
}

impl Shard {
    /// Looks at a partition's leader, and returns what `look` does.
    ///
    /// # Errors
    /// The partition, or its leader, is not here.
    pub fn with_leader<T>(&self, id: PartitionId, look: impl FnOnce(&Leader) -> T) -> Result<T, NotLed> {
        let partitions = self.partitions.borrow();
        let partition = partitions.get(&id).ok_or(NotLed::UnknownPartition)?;
        Ok(look(partition.role.leader()?))
    }

    /// Goes on leading a partition in a later epoch. Producers go on waiting, for the log is the same; readers are woken, for the
    /// epoch that they believe in is over.
    ///
    /// # Errors
    /// The partition, or its leader, is not here.
    pub fn open_epoch(&self, id: PartitionId, epoch: Epoch) -> Result<(), NotLed> {
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&id).ok_or(NotLed::UnknownPartition)?;
        let leader = partition.role.leader_mut()?;
        leader.handle_epoch(epoch);
        if self.store.borrow().dead().is_some() {
            // The journal takes nothing any more, in whatever epoch.
            leader.handle_seal();
        }
        partition.act();
        partition.wake_readers();
        Ok(())
    }
}
