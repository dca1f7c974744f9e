//! The requests of the classic protocol: join, sync, heartbeat, leave. Semantics are Kafka's (KIP-62, 345, 394, 814).

use std::time::Duration;

use bytes::Bytes;

use super::{GroupError, Name};

/// A way of assigning that a member knows, with what it wants to tell the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol {
    /// The assignor's name.
    pub name: Name,
    /// For consumers, a subscription as the embedded consumer protocol writes it.
    pub metadata: Bytes,
}

/// JoinGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinGroup {
    /// The group.
    pub group: Name,
    /// The member's id; empty for a new member.
    pub member: Name,
    /// The instance id of a static member.
    pub instance: Option<Name>,
    /// The client's id.
    pub client_id: Name,
    /// The client's address, as Kafka shows it.
    pub client_host: Name,
    /// The time that the member may be silent.
    pub session_timeout: Duration,
    /// The time that the group waits for it to join again; in version 0 of the wire format the session timeout.
    pub rebalance_timeout: Duration,
    /// `consumer`, `connect`, ...
    pub protocol_type: Name,
    /// The best first.
    pub protocols: Vec<Protocol>,
    /// Says whether a new dynamic member must come back with an id first (KIP-394: from version 4 on).
    pub requires_known_member: bool,
    /// Says whether a returning static leader can be told to skip the assignment (KIP-814: from version 9 on).
    pub can_skip_assignment: bool,
    /// Fresh random bits, for the member's id should it need one.
    pub random: u128,
}

/// A member has joined a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// Its id.
    pub member: Name,
    /// The generation.
    pub generation: i32,
    /// The group's protocol type.
    pub protocol_type: Option<Name>,
    /// The protocol that was chosen.
    pub protocol: Option<Name>,
    /// The leader's id.
    pub leader: Name,
    /// A leader that must not assign: the assignment in force goes on.
    pub skip_assignment: bool,
    /// For the leader, every member with its metadata; else empty.
    pub members: Vec<JoinedMember>,
}

/// A member as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedMember {
    /// Its id.
    pub member: Name,
    /// Its instance id.
    pub instance: Option<Name>,
    /// Its metadata for the chosen protocol.
    pub metadata: Bytes,
}

/// SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncGroup {
    /// The group.
    pub group: Name,
    /// The member's id.
    pub member: Name,
    /// Its instance id.
    pub instance: Option<Name>,
    /// The generation that it joined.
    pub generation: i32,
    /// The protocol type that it takes for the group's (from version 5 on).
    pub protocol_type: Option<Name>,
    /// The protocol that it takes for the group's (from version 5 on).
    pub protocol: Option<Name>,
    /// From the leader: who gets what, as member and assignment.
    pub assignments: Vec<(Name, Bytes)>,
}

/// The assignment of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    /// The group's protocol type.
    pub protocol_type: Option<Name>,
    /// The group's protocol.
    pub protocol: Option<Name>,
    /// The member's assignment, as its leader wrote it.
    pub assignment: Bytes,
}

/// Heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The group.
    pub group: Name,
    /// The member's id.
    pub member: Name,
    /// Its instance id.
    pub instance: Option<Name>,
    /// The generation that it is in.
    pub generation: i32,
}

/// LeaveGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaveGroup {
    /// The group.
    pub group: Name,
    /// The members that leave; before version 3 of the wire format one member, without an instance.
    pub members: Vec<LeavingMember>,
}

/// A member that leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeavingMember {
    /// Its id; empty if it is named by its instance alone.
    pub member: Name,
    /// Its instance id.
    pub instance: Option<Name>,
}

/// The outcome for one that was to leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftMember {
    /// The id as asked.
    pub member: Name,
    /// The instance id as asked.
    pub instance: Option<Name>,
    /// Its leaving, or the refusal.
    pub outcome: Result<(), GroupError>,
}
