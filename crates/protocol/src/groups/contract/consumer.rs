//! The one request of the consumer protocol (KIP-848): a heartbeat that joins, tells, learns and leaves.

use std::time::Duration;

use super::Name;
use crate::groups::Assignment;

/// The meaning of the member epoch of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberPresence {
    /// Epoch 0: it joins.
    Joining,
    /// It is a member at this epoch, above 0.
    At(i32),
    /// Epoch -1: it leaves for good.
    Leaving,
    /// Epoch -2: a static member that will come back.
    LeavingForAWhile,
}

impl MemberPresence {
    /// Reads the epoch of a request; none below -2 means anything.
    #[must_use]
    pub fn from_epoch(epoch: i32) -> Option<MemberPresence> {
        match epoch {
            0 => Some(MemberPresence::Joining),
            -1 => Some(MemberPresence::Leaving),
            -2 => Some(MemberPresence::LeavingForAWhile),
            1.. => Some(MemberPresence::At(epoch)),
            _ => None,
        }
    }

    /// The epoch that stands for it on the wire.
    #[must_use]
    pub fn epoch(self) -> i32 {
        match self {
            MemberPresence::Joining => 0,
            MemberPresence::At(epoch) => epoch,
            MemberPresence::Leaving => -1,
            MemberPresence::LeavingForAWhile => -2,
        }
    }
}

/// ConsumerGroupHeartbeat. What is `None` has not changed since the member last said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerHeartbeat {
    /// The group.
    pub group: Name,
    /// The member's id; empty in version 0 of a member that joins.
    pub member: Name,
    /// Its purpose: it joins, is there or leaves.
    pub presence: MemberPresence,
    /// The instance id of a static member.
    pub instance: Option<Name>,
    /// The member's rack.
    pub rack: Option<Name>,
    /// The client's id.
    pub client_id: Name,
    /// The client's address, as Kafka shows it.
    pub client_host: Name,
    /// The time that the member may take to give up partitions.
    pub rebalance_timeout: Option<Duration>,
    /// The topics it wants, by name.
    pub topics: Option<Vec<Name>>,
    /// The topics it wants, by a regular expression; an empty text takes an earlier one back.
    pub regex: Option<Name>,
    /// The assignor it would like.
    pub assignor: Option<Name>,
    /// The partitions it has.
    pub owned: Option<Assignment>,
    /// Fresh random bits, for the member's id should it need one.
    pub random: u128,
}

/// The answer to the member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Its id.
    pub member: Name,
    /// Its epoch from now on; -1 or -2 if it has left.
    pub epoch: i32,
    /// The interval of its heartbeats.
    pub heartbeat_interval: Duration,
    /// The partitions that it is to have from now on; `None` if these have not changed.
    pub assignment: Option<Assignment>,
}
