//! The role of this node for a partition: its only replica, or one of several.
//!
//! All that needs a leader asks here for it, and passes the reason on if there is none.

use std::time::Duration;

use bytes::Bytes;
use protocol::leader::{Append, AppendError, Appended, Checked, EndMarker, NodeId, Numbered};
use protocol::{Admission, Durability, Leader, Vows};
use record::{Epoch, Offset, PartitionId};

use super::member::Member;
use super::{AppendRefusal, ReadRefusal, Shard};

/// See the module.
#[expect(
    clippy::large_enum_variant,
    reason = "most partitions are lone, and each is in a place of its own"
)]
pub(crate) enum Role {
    /// The only replica: it leads, and its own flush commits.
    Lone(Leader),
    /// One of several: the metadata says which of them leads.
    Member(Box<Member>),
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
    /// It leads it, and does not know yet how far the log is committed: an earlier leader may have shown more.
    #[error("the partition's epoch has just begun; try again")]
    NotOpen,
}

impl From<NotLed> for AppendRefusal {
    fn from(why: NotLed) -> AppendRefusal {
        match why {
            NotLed::UnknownPartition => AppendRefusal::UnknownPartition,
            NotLed::NotLeader | NotLed::NotOpen => AppendRefusal::NotLeader,
        }
    }
}

impl From<NotLed> for ReadRefusal {
    fn from(why: NotLed) -> ReadRefusal {
        match why {
            NotLed::UnknownPartition => ReadRefusal::UnknownPartition,
            NotLed::NotLeader => ReadRefusal::NotLeader,
            NotLed::NotOpen => ReadRefusal::NotOpen,
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
            Role::Lone(leader) => Ok(leader),
            Role::Member(member) => member.replica.leader().ok_or(NotLed::NotLeader),
        }
    }

    /// The same, for readers: they are shown no tail that is less than one that an earlier leader may have shown.
    ///
    /// # Errors
    /// `NotLeader`, `NotOpen`.
    pub(crate) fn open_leader(&self) -> Result<&Leader, NotLed> {
        match self {
            Role::Member(member) if member.replica.leader().is_some() && !member.replica.is_open() => {
                Err(NotLed::NotOpen)
            }
            role => role.leader(),
        }
    }

    /// Says whether another node follows this leader, and is known to hold all below an offset.
    pub(crate) fn is_held_by(&self, node: NodeId, from: Offset) -> bool {
        let Role::Member(member) = self else { return false };
        let end = member.replica.next_offset();
        let holds = |lacks: u64| from.0 as u64 + lacks <= end.0 as u64;
        let mut followers = member.replica.followers();
        followers.any(|of| of.node == node && of.is_live && holds(of.lacks))
    }

    /// The leader, for what concerns its producers and their time.
    ///
    /// # Errors
    /// `NotLeader`.
    pub(crate) fn leader_mut(&mut self) -> Result<&mut Leader, NotLed> {
        match self {
            Role::Lone(leader) => Ok(leader),
            Role::Member(member) => member.replica.leader_mut().ok_or(NotLed::NotLeader),
        }
    }

    /// The epoch that is led here, if one is.
    pub(crate) fn led_epoch(&self) -> Option<Epoch> {
        self.leader().ok().map(Leader::epoch)
    }

    /// Numbers a batch. Changes nothing.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub(crate) fn check_append(
        &self,
        append: &Append,
        admission: &Admission,
    ) -> Result<Checked, AppendError> {
        match self {
            Role::Lone(leader) => leader.check_append(append, admission),
            Role::Member(member) => member.replica.check_append(append, admission),
        }
    }

    /// Numbers a marker. Changes nothing.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub(crate) fn check_marker(&self, marker: &EndMarker) -> Result<Checked, AppendError> {
        match self {
            Role::Lone(leader) => leader.check_marker(marker),
            Role::Member(member) => member.replica.check_marker(marker),
        }
    }

    /// The end of what is decided, as far as this node knows (see [`Leader::stable`]).
    pub(crate) fn stable(&self) -> Offset {
        match self {
            Role::Lone(leader) => leader.stable(),
            Role::Member(member) => member.replica.stable(),
        }
    }

    /// Makes the number of a batch final that was staged.
    pub(crate) fn handle_append(&mut self, now: Duration, numbered: Numbered) -> Appended {
        match self {
            Role::Lone(leader) => leader.handle_append(now, numbered),
            Role::Member(member) => member.replica.handle_append(now, numbered),
        }
    }

    /// Has the log begin where the leader's `check_trim` has said; the trim was staged.
    pub(crate) fn handle_trim(&mut self, now: Duration, log_start: Offset) {
        match self {
            Role::Lone(leader) => leader.handle_trim(log_start),
            Role::Member(member) => member.replica.handle_trim(now, log_start),
        }
    }

    /// Checks that as many replicas are in sync as a topic wants to hold a batch (`min.insync.replicas`).
    ///
    /// # Errors
    /// See [`AppendError`].
    pub(crate) fn check_insync(&self, wanted: u32) -> Result<(), AppendError> {
        match self {
            // More than the partition has are never wanted.
            Role::Lone(_) => Ok(()),
            Role::Member(member) => member.replica.check_insync(wanted),
        }
    }

    /// Changes how much an acknowledgement promises, and on how many replicas.
    pub(crate) fn configure(&mut self, now: Duration, durability: Durability, insync_min: u32) {
        match self {
            Role::Lone(leader) => leader.handle_durability(durability),
            Role::Member(member) => {
                member.replica.handle_durability(durability);
                member.replica.handle_insync_min(now, insync_min);
            }
        }
    }

    /// The end of what is committed, as far as this node knows.
    pub(crate) fn tail(&self) -> Offset {
        match self {
            Role::Lone(leader) => leader.tail(),
            Role::Member(member) => member.replica.tail(),
        }
    }

    /// The first offset that has not been given up.
    pub(crate) fn log_start(&self) -> Offset {
        match self {
            Role::Lone(leader) => leader.log_start(),
            Role::Member(member) => member.replica.log_start(),
        }
    }

    /// The epochs that its replica is bound to.
    pub(crate) fn vows(&self) -> Vows {
        match self {
            Role::Lone(_) => Vows::default(),
            Role::Member(member) => member.replica.vows(),
        }
    }

    /// The history of what is committed, as bytes for a checkpoint with the offset that it stands for.
    pub(crate) fn snapshot(&self, now: Duration) -> (Offset, Bytes) {
        match self {
            Role::Lone(leader) => leader.snapshot_history(now),
            Role::Member(member) => member.replica.snapshot(now),
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
        let partition = partitions.get(&id).ok_or_else(|| self.absence(id))?;
        Ok(look(partition.role.open_leader()?))
    }

    /// The first offset of a partition that is kept, as far as its replica here knows.
    ///
    /// # Errors
    /// The partition is not here.
    pub fn log_start(&self, id: PartitionId) -> Result<Offset, NotLed> {
        let partitions = self.partitions.borrow();
        let partition = partitions.get(&id).ok_or_else(|| self.absence(id))?;
        Ok(partition.role.log_start())
    }

    /// The offset that the next batch of a partition gets.
    ///
    /// # Errors
    /// The partition, or its leader, is not here.
    pub fn next_offset(&self, id: PartitionId) -> Result<Offset, NotLed> {
        self.with_leader(id, Leader::next_offset)
    }

    /// Goes on leading a partition without other replicas in a later epoch. Producers go on waiting, for the log is the same; readers are woken, for the
    /// epoch that they believe in is over.
    ///
    /// # Errors
    /// The partition, or its leader, is not here.
    pub fn open_epoch(&self, id: PartitionId, epoch: Epoch) -> Result<(), NotLed> {
        let mut partitions = self.partitions.borrow_mut();
        let partition = partitions.get_mut(&id).ok_or(NotLed::UnknownPartition)?;
        let Role::Lone(leader) = &mut partition.role else {
            return Err(NotLed::NotLeader);
        };
        leader.handle_epoch(epoch);
        if self.store.borrow().dead().is_some() {
            // The journal takes nothing any more, in whatever epoch.
            leader.handle_seal();
        }
        partition.act();
        if let Some(reporter) = &partition.reporter {
            reporter.note();
        }
        partition.wake_readers();
        Ok(())
    }
}
