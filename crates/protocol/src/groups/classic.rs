//! A group by the classic protocol: members join a generation, its leader assigns, all take what it assigned.
//!
//! Lives in memory; a generation is stored when its leader has assigned, or when nobody is left. The rules are those of
//! Kafka's coordinator (KIP-62, 345, 394, 814). A ticket that waits in here is answered exactly once, whatever happens.
//!
//! ```text
//!            first join             everybody joined, or time is up       leader's assignment is durable
//!   Empty ──────────────► Gathering ───────────────┐
//!     ▲                                            ▼
//!     └── nobody joined ── Preparing ────────► Completing ────────────────────► Stable
//!                              ▲                   │                              │
//!                              └───────────────────┴── a member comes, goes, changes
//! ```

mod entry;
mod heartbeat;
mod join;
mod leave;
mod members;
mod rebalance;
mod room;
mod static_member;
mod stored;
mod sync;
mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use planted::{Bug, planted};

use super::consumer_protocol::{self, CONSUMER_TYPE};
use super::context::Context;
use super::contract::{
    Answer, DescribedClassic, DescribedClassicMember, GroupError, GroupState, JoinGroup, Name,
    OffsetCommitter, Protocol, Ticket,
};
use super::records::ClassicValue;
use members::Members;
pub(crate) use stored::MemberSnapshot;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Classic {
    phase: Phase,
    protocol_type: Option<Name>,
    generation: i32,
    protocol: Option<Name>,
    leader: Option<Name>,
    /// The time when the phase began, milliseconds since 1970.
    state_since_ms: i64,
    members: Members,
    /// Static members: the member that has each instance id.
    instances: BTreeMap<Name, Name>,
    /// Ids that were handed out and have not come back (KIP-394), with the moment at which they are forgotten.
    pending: BTreeMap<Name, Duration>,
    /// Until when members may take their assignment; who has not by then is put out.
    sync_until: Option<Duration>,
    next_turn: u64,
    /// The group as the log has it.
    pub(crate) stored: Option<ClassicValue>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Empty,
    /// The first generation of an empty group waits for more members, up to a limit, as long as some come.
    Gathering {
        until: Duration,
        limit: Duration,
        grew: bool,
    },
    /// Members are to join again.
    Preparing { until: Duration },
    /// The leader is to assign; `handing_out` once it has.
    Completing { handing_out: bool },
    /// Members have their assignments.
    Stable,
}

#[derive(Debug)]
struct Member {
    instance: Option<Name>,
    client_id: Name,
    client_host: Name,
    rebalance_timeout: Duration,
    session_timeout: Duration,
    /// The best first.
    protocols: Vec<Protocol>,
    assignment: Bytes,
    /// Rises with every member that is added: the earliest is the next leader.
    turn: u64,
    /// Has not been in a generation yet.
    is_new: bool,
    /// Has taken its assignment of this generation, or waits for it.
    synced: bool,
    awaiting_join: Option<Ticket>,
    awaiting_sync: Option<Ticket>,
    /// The time when it counts as gone unless it is heard of.
    expires: Duration,
}

impl Member {
    fn of(request: JoinGroup, turn: u64) -> Member {
        Member {
            instance: request.instance,
            client_id: request.client_id,
            client_host: request.client_host,
            rebalance_timeout: as_stored(request.rebalance_timeout),
            session_timeout: request.session_timeout,
            protocols: request.protocols,
            assignment: Bytes::new(),
            turn,
            is_new: true,
            synced: false,
            awaiting_join: None,
            awaiting_sync: None,
            expires: Duration::MAX,
        }
    }

    /// Takes what the member says of itself when it joins again.
    fn update(&mut self, request: JoinGroup) {
        self.client_id = request.client_id;
        self.client_host = request.client_host;
        self.rebalance_timeout = as_stored(request.rebalance_timeout);
        self.session_timeout = request.session_timeout;
        self.protocols = request.protocols;
    }

    /// It was heard of.
    fn touch(&mut self, cx: &mut Context) {
        self.expires = cx.now + self.session_timeout;
        cx.wake_at(self.expires);
    }

    /// A member that waits for the group is not silent: the group is. Only its first generation must come in time.
    fn expires_at(&self) -> Option<Duration> {
        let waits = self.awaiting_join.is_some() || self.awaiting_sync.is_some();
        (self.is_new || !waits).then_some(self.expires)
    }

    fn metadata_for(&self, protocol: Option<&Name>) -> Bytes {
        self.protocols
            .iter()
            .find(|known| Some(&known.name) == protocol)
            .map_or_else(Bytes::new, |known| known.metadata.clone())
    }

    /// Ends all waiting with an error.
    fn refuse_waiting(&mut self, cx: &mut Context, error: &GroupError) {
        if let Some(ticket) = self.awaiting_join.take() {
            cx.answer(ticket, Answer::Join(Err(error.clone())));
        }
        self.refuse_sync(cx, error);
    }

    fn refuse_sync(&mut self, cx: &mut Context, error: &GroupError) {
        if let Some(ticket) = self.awaiting_sync.take() {
            cx.answer(ticket, Answer::Sync(Err(error.clone())));
        }
    }
}

impl Classic {
    pub(crate) fn state(&self) -> GroupState {
        match self.phase {
            Phase::Empty => GroupState::Empty,
            Phase::Gathering { .. } | Phase::Preparing { .. } => GroupState::PreparingRebalance,
            Phase::Completing { .. } => GroupState::CompletingRebalance,
            Phase::Stable => GroupState::Stable,
        }
    }

    /// The address of its first member.
    pub(crate) fn first_host(&self) -> Option<&Name> {
        self.members.values().next().map(|member| &member.client_host)
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn protocol_type(&self) -> Option<&Name> {
        self.protocol_type.as_ref()
    }

    pub(crate) fn may_go(&self) -> bool {
        self.phase == Phase::Empty && self.members.is_empty() && self.pending.is_empty()
    }

    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Empty | Phase::Stable)
    }

    pub(crate) fn empty_since_ms(&self) -> Option<i64> {
        (self.phase == Phase::Empty && self.generation > 0).then_some(self.state_since_ms)
    }

    /// As DescribeGroups shows it: protocol, metadata and assignments only while they hold.
    pub(crate) fn describe(&self) -> DescribedClassic {
        let is_stable = self.phase == Phase::Stable;
        let members = self
            .members
            .iter()
            .map(|(name, member)| DescribedClassicMember {
                member: Name::clone(name),
                instance: member.instance.clone(),
                client_id: Name::clone(&member.client_id),
                client_host: Name::clone(&member.client_host),
                metadata: member.metadata_for(self.protocol.as_ref().filter(|_| is_stable)),
                assignment: Some(member.assignment.clone())
                    .filter(|_| is_stable)
                    .unwrap_or_default(),
            })
            .collect();
        DescribedClassic {
            state: self.state(),
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone().filter(|_| is_stable),
            generation: self.generation,
            members,
        }
    }

    /// Says whether the members' metadata can be read here.
    pub(crate) fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_TYPE)
    }

    /// The topics that members want; `None` if the metadata of one cannot be read, which might want any.
    pub(crate) fn subscribed(&self) -> Option<BTreeSet<Name>> {
        let mut topics = BTreeSet::new();
        for protocol in self.members.values().flat_map(|member| &member.protocols) {
            topics.extend(consumer_protocol::Subscription::parse(&protocol.metadata)?.topics);
        }
        Some(topics)
    }

    /// That the member is one, and that its instance id is still its own.
    fn check_member(&self, member: &Name, instance: Option<&Name>) -> Result<(), GroupError> {
        let unknown = || GroupError::UnknownMember {
            member: Name::clone(member),
        };
        if let Some(instance) = instance {
            let holder = self.instances.get(instance).ok_or_else(unknown)?;
            if holder != member {
                return Err(GroupError::FencedInstance {
                    instance: Name::clone(instance),
                });
            }
        }
        if self.members.contains_key(member) {
            Ok(())
        } else {
            Err(unknown())
        }
    }

    fn check_generation(&self, got: i32) -> Result<(), GroupError> {
        if got == self.generation || planted(Bug::OldGenerationCommits) {
            return Ok(());
        }
        Err(GroupError::IllegalGeneration {
            current: self.generation,
            got,
        })
    }

    /// Checks that an offset may be committed. One who is in no group may, while nobody else is in it.
    pub(crate) fn check_committer(
        &mut self,
        cx: &mut Context,
        committer: &OffsetCommitter,
    ) -> Result<(), GroupError> {
        let OffsetCommitter {
            member,
            instance,
            generation_or_epoch: generation,
            knows_epochs: _,
        } = committer;
        if *generation < 0 && self.phase == Phase::Empty {
            return Ok(());
        }
        if *generation >= 0 || !member.is_empty() || instance.is_some() {
            self.check_member(member, instance.as_ref())?;
            self.check_generation(*generation)?;
        } else if !self.members.is_empty() {
            return Err(GroupError::UnknownMember {
                member: Name::clone(member),
            });
        }
        if matches!(self.phase, Phase::Completing { .. }) {
            return Err(GroupError::RebalanceInProgress);
        }
        if let Some(known) = self.members.get_mut(member)
            && !known.is_new
        {
            known.touch(cx);
        }
        Ok(())
    }

    /// The same for a commit in a transaction. Old clients, and those that stand in no group, do not say who they are there, and
    /// may commit: only their producer is known, and fenced. Nor does it matter that members come together.
    pub(crate) fn check_pending_committer(&self, committer: &OffsetCommitter) -> Result<(), GroupError> {
        let OffsetCommitter {
            member,
            instance,
            generation_or_epoch: generation,
            knows_epochs: _,
        } = committer;
        let says_nothing = *generation < 0 && member.is_empty() && instance.is_none();
        if says_nothing || (*generation < 0 && self.phase == Phase::Empty) {
            return Ok(());
        }
        self.check_member(member, instance.as_ref())?;
        self.check_generation(*generation)
    }

    fn enter(&mut self, cx: &Context, phase: Phase) {
        self.phase = phase;
        self.state_since_ms = cx.unix_ms();
    }

    /// The longest time that a member asks for to join again.
    fn rebalance_timeout(&self) -> Duration {
        self.members
            .values()
            .map(|member| member.rebalance_timeout)
            .max()
            .unwrap_or_default()
    }

    /// The assignor that most members like best among those that all know; between equals the first by name.
    fn vote(&self) -> Option<Name> {
        let common = self.members.common_protocols();
        let mut votes: BTreeMap<&Name, usize> = BTreeMap::new();
        for member in self.members.values() {
            let choice = member
                .protocols
                .iter()
                .find(|protocol| common.contains(&protocol.name))?;
            *votes.entry(&choice.name).or_default() += 1;
        }
        let most = votes.values().copied().max()?;
        votes
            .into_iter()
            .find(|(_, count)| *count == most)
            .map(|(name, _)| Name::clone(name))
    }
}

/// A timeout as it will be read back from the log, which has room for 24 days.
pub(crate) fn as_stored(timeout: Duration) -> Duration {
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    Duration::from_millis(u64::from(millis.unsigned_abs()))
}
