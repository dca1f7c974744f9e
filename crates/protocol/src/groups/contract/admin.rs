//! The requests of operators: describe, list and delete groups.

use std::time::Duration;

use bytes::Bytes;
use record::TopicId;

use super::Name;

/// The protocol that a group speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupType {
    /// JoinGroup and SyncGroup; also a group without members that only commits offsets.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848).
    Consumer,
}

impl GroupType {
    /// Both.
    pub const ALL: [GroupType; 2] = [GroupType::Classic, GroupType::Consumer];

    /// As Kafka's ListGroups writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GroupType::Classic => "classic",
            GroupType::Consumer => "consumer",
        }
    }
}

/// The state of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupState {
    /// No members.
    Empty,
    /// Classic: members are to join again.
    PreparingRebalance,
    /// Classic: the leader is to assign.
    CompletingRebalance,
    /// Everybody has what it should have.
    Stable,
    /// Gone.
    Dead,
    /// Consumer: the target assignment is older than the group.
    Assigning,
    /// Consumer: some member does not have its target assignment yet.
    Reconciling,
}

impl GroupState {
    /// Every state.
    pub const ALL: [GroupState; 7] = [
        GroupState::Empty,
        GroupState::PreparingRebalance,
        GroupState::CompletingRebalance,
        GroupState::Stable,
        GroupState::Dead,
        GroupState::Assigning,
        GroupState::Reconciling,
    ];

    /// As Kafka writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
            GroupState::Dead => "Dead",
            GroupState::Assigning => "Assigning",
            GroupState::Reconciling => "Reconciling",
        }
    }
}

/// DescribeGroups, for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeClassic {
    /// The group.
    pub group: Name,
}

/// ConsumerGroupDescribe, for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeConsumer {
    /// The group.
    pub group: Name,
}

/// A group as DescribeGroups shows it. A group that is not there is an error here; before version 6 of the wire
/// format Kafka shows it as [`GroupState::Dead`] without an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedClassic {
    /// Its state.
    pub state: GroupState,
    /// `consumer`, `connect`, ...; empty if nobody ever joined.
    pub protocol_type: Option<Name>,
    /// The chosen protocol, if the group is stable.
    pub protocol: Option<Name>,
    /// The generation; 0 if nobody ever joined. Kafka's answer has no place for it.
    pub generation: i32,
    /// Its members.
    pub members: Vec<DescribedClassicMember>,
}

/// A member as DescribeGroups shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedClassicMember {
    /// Its id.
    pub member: Name,
    /// Its instance id.
    pub instance: Option<Name>,
    /// Its client's id.
    pub client_id: Name,
    /// Its client's address.
    pub client_host: Name,
    /// Its metadata for the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// Its assignment; empty unless the group is stable.
    pub assignment: Bytes,
}

/// A group as ConsumerGroupDescribe shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConsumer {
    /// Its state.
    pub state: GroupState,
    /// The group's epoch.
    pub epoch: i32,
    /// The group epoch that the target assignment is for.
    pub target_epoch: i32,
    /// The assignor.
    pub assignor: Name,
    /// Its members.
    pub members: Vec<DescribedConsumerMember>,
}

/// A member as ConsumerGroupDescribe shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConsumerMember {
    /// Its id.
    pub member: Name,
    /// Its instance id.
    pub instance: Option<Name>,
    /// Its rack.
    pub rack: Option<Name>,
    /// Its client's id.
    pub client_id: Name,
    /// Its client's address.
    pub client_host: Name,
    /// Its epoch.
    pub epoch: i32,
    /// The time that it may take to give up partitions.
    pub rebalance_timeout: Duration,
    /// The topics it wants by name.
    pub topics: Vec<Name>,
    /// The regular expression for the topics it wants.
    pub regex: Option<Name>,
    /// The partitions that it has.
    pub assignment: Vec<NamedPartitions>,
    /// The partitions that it is to have.
    pub target: Vec<NamedPartitions>,
    /// Says whether it speaks the classic protocol in a consumer group (a migration).
    pub is_classic: bool,
}

/// Partitions of a topic with both its names. A topic that is gone is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPartitions {
    /// The topic.
    pub topic: Name,
    /// Its id.
    pub id: TopicId,
    /// The partitions' indexes, sorted.
    pub partitions: Vec<i32>,
}

/// ListGroups, in parts. Filters name what is wanted, in any case of letters; an empty filter lets everything through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListGroups {
    /// Names of states.
    pub states: Vec<Name>,
    /// Names of types.
    pub types: Vec<Name>,
    /// The name that the part begins with, or would, if there is no such group.
    pub from: Name,
}

/// A part of a list, in the order of the names. Groups may come and go between two parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListedGroups {
    /// Those that the filters let through.
    pub groups: Vec<ListedGroup>,
    /// The name that the next part begins with, if there is one.
    pub next: Option<Name>,
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its name.
    pub group: Name,
    /// `consumer`, `connect`, ...; empty if nobody ever joined.
    pub protocol_type: Name,
    /// Its state.
    pub state: GroupState,
    /// Its protocol.
    pub group_type: GroupType,
}

/// DeleteGroups, for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteGroup {
    /// The group.
    pub group: Name,
}
