//! A partition's way from one replica set to another, one change at a time.
//!
//! ```text
//!   SetReplicas ──► filling: those that join are sent the log,     ──► unsettled: the new set is in force, and the ──► Settled
//!                   beside the replica set, and count nowhere          old one has to be met by who opens an epoch
//!                                 the last CaughtUp
//! ```
//! An operator's word (`OpenUncleanly`) puts the members that are left in force at any of these places, and records that only others hold are lost.
//! Such a set is unsettled, too: all of it has to be met until an ack quorum holds what the best of them had, and the others keep what they have so long.
//!
//! Every arrow but the last opens an epoch. A second change has to wait for `Settled`: two sets that may hold something alone would
//! make a log that nobody can find (run 3 in docs/protocols/replication.md). Nobody gives a replica up before.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use record::{Epoch, PartitionId};

use super::command::{Command, ReplicaSet};
use super::memory::partitions_bytes;
use super::{ApplyError, Drain, Metadata, Partition, PlanError, is_internal};
use crate::leader::NodeId;
use crate::replica::{Assignment, Configuration};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reassignment {
    /// Some of the target are sent the log.
    Filling {
        /// The replica set that is to be.
        target: ReplicaSet,
        /// Those of it that are no replicas and hold all that is committed.
        caught_up: Vec<NodeId>,
    },
    /// The replica set was changed, and not every ack quorum of it is known to hold what this one before has committed.
    Unsettled {
        /// The replica set before.
        before: ReplicaSet,
    },
    /// The replicas are those that were left when an operator had their log opened without the others, and not every ack quorum of them is
    /// known to hold what the best of them had.
    Unclean {
        /// The others. They are not asked, and may not give the log up yet: an operator may think better of it.
        given_up: ReplicaSet,
    },
}

/// The epochs that are known to have been opened uncleanly; earlier ones are forgotten.
pub(super) const UNCLEAN_EPOCHS_MAX: usize = 16;

impl Partition {
    /// Those that are sent the log and count nowhere.
    pub(super) fn joining(&self) -> impl Iterator<Item = NodeId> + '_ {
        let target = match self.reassignment.as_deref() {
            Some(Reassignment::Filling { target, .. }) => &target[..],
            _ => &[],
        };
        let joining = target.iter().copied();
        joining.filter(|node| !self.replicas.contains(node))
    }

    /// All nodes that hold some of the log, and may not give it up.
    pub(super) fn holders(&self) -> impl Iterator<Item = NodeId> + '_ {
        let before = match self.reassignment.as_deref() {
            Some(Reassignment::Unsettled { before: others } | Reassignment::Unclean { given_up: others }) => {
                &others[..]
            }
            _ => &[],
        };
        let before = before.iter().copied();
        let before = before.filter(|node| !self.replicas.contains(node));
        self.replicas.iter().copied().chain(self.joining()).chain(before)
    }

    /// The replica set that is in force once nothing changes any more.
    pub(super) fn wanted(&self) -> &ReplicaSet {
        match self.reassignment.as_deref() {
            Some(Reassignment::Filling { target, .. }) => target,
            _ => &self.replicas,
        }
    }

    /// Says whether nobody is missing any more that the target wants filled.
    fn is_filled(&self) -> bool {
        let Some(Reassignment::Filling { caught_up, .. }) = self.reassignment.as_deref() else {
            return false;
        };
        self.joining().all(|node| caught_up.contains(&node))
    }

    fn is_unsettled(&self) -> bool {
        let change = self.reassignment.as_deref();
        matches!(
            change,
            Some(Reassignment::Unsettled { .. } | Reassignment::Unclean { .. })
        )
    }

    /// The nodes that may hold something acknowledged that nobody else holds.
    pub(super) fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        let holders = self.holders();
        holders.filter(|node| !self.joining().any(|joining| joining == *node))
    }

    /// The replica sets of which a seal quorum has to be met by who opens an epoch, and that quorum.
    fn earlier(&self) -> Vec<Configuration> {
        let last = configuration(&self.replicas);
        match self.reassignment.as_deref() {
            Some(Reassignment::Unsettled { before }) => vec![configuration(before), last],
            Some(Reassignment::Unclean { .. }) => vec![
                Configuration {
                    ack_quorum: 1,
                    ..last.clone()
                },
                last,
            ],
            Some(Reassignment::Filling { .. }) | None => vec![last],
        }
    }
}

fn configuration(replicas: &ReplicaSet) -> Configuration {
    Configuration {
        replicas: replicas.to_vec(),
        ack_quorum: replicas.len() / 2 + 1,
    }
}

impl Metadata {
    /// The epoch of a partition that several nodes hold or have held, as its replicas are told of it. `None` if one node has always held it, or
    /// there is no such partition.
    #[must_use]
    pub fn assignment(&self, partition: PartitionId) -> Option<Assignment> {
        let found = self.find_partition(partition).filter(|found| found.is_shared)?;
        let epoch = self.epoch_of(found);
        Some(Assignment {
            epoch,
            leader: found.leader,
            configuration: configuration(&found.replicas),
            earlier: match epoch {
                Epoch(0) => Vec::new(),
                _ => found.earlier(),
            },
            joining: found.joining().collect(),
            uncertain: found.uncertain.clone(),
        })
    }

    /// All nodes that hold some of a partition's log: its replicas, those that are to become some, and those that may not give it up yet.
    #[must_use]
    pub fn holders(&self, partition: PartitionId) -> Vec<NodeId> {
        let found = self.find_partition(partition);
        found.map_or_else(Vec::new, |found| found.holders().collect())
    }

    /// Checks what any command must that gives a partition's next epoch a replica set.
    fn check_next_set(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        replicas: &ReplicaSet,
    ) -> Result<&Partition, ApplyError> {
        let found = self.check_partition(partition)?;
        self.check_next_epoch(found, epoch)?;
        self.check_replica_sets(0, std::slice::from_ref(replicas))?;
        Ok(found)
    }

    pub(super) fn check_set_replicas(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        replicas: &ReplicaSet,
    ) -> Result<(), ApplyError> {
        let found = self.check_next_set(partition, epoch, replicas)?;
        if found.is_unsettled() {
            return Err(ApplyError::ReplicasUnsettled { partition });
        }
        if replicas.iter().all(|node| found.uncertain.contains(node)) {
            return Err(ApplyError::ReplicasInDoubt { partition });
        }
        match replicas == found.wanted() {
            true => Err(ApplyError::ReplicasUnchanged { partition }),
            false => Ok(()),
        }
    }

    pub(super) fn set_replicas(&mut self, partition: PartitionId, epoch: Epoch, replicas: &ReplicaSet) {
        let found = self.partition_mut(partition);
        found.is_shared = true;
        let filling = Reassignment::Filling {
            target: Arc::clone(replicas),
            caught_up: Vec::new(),
        };
        // Back to what is in force already, nothing is left to be done.
        let is_change = *replicas != found.replicas;
        found.reassignment = is_change.then(|| Box::new(filling));
        let leader = found.leader;
        match found.is_filled() {
            true => self.switch(partition, epoch),
            false => self.open_epoch(partition, epoch, leader),
        }
    }

    /// Puts the target in force. Its first node leads if the leader is none of it.
    fn switch(&mut self, partition: PartitionId, epoch: Epoch) {
        let target = Arc::clone(self.partition_mut(partition).wanted());
        let before = self.replace(partition, target);
        let found = self.partition_mut(partition);
        found.reassignment = Some(Box::new(Reassignment::Unsettled { before }));
        let stays = found.replicas.contains(&found.leader);
        let certain = found.replicas.iter().find(|node| !found.uncertain.contains(node));
        let leader = match stays {
            true => found.leader,
            false => *certain.unwrap_or(&found.replicas[0]),
        };
        self.open_epoch(partition, epoch, leader);
    }

    /// Gives a partition other replicas, and returns those before.
    fn replace(&mut self, partition: PartitionId, replicas: ReplicaSet) -> ReplicaSet {
        let topic = self.topics.get_mut(&partition.topic).expect("checked");
        self.taken.remove(topic);
        let index = usize::try_from(partition.index).expect("checked");
        let found = &mut topic.partitions[index];
        let before = std::mem::replace(&mut found.replicas, replicas);
        // Whoever made the topic has it count, as before.
        topic.bytes += partitions_bytes([&found.replicas]);
        topic.bytes -= partitions_bytes([&before]);
        self.taken.add(topic);
        before
    }

    pub(super) fn check_open_uncleanly(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        replicas: &ReplicaSet,
    ) -> Result<(), ApplyError> {
        let found = self.check_next_set(partition, epoch, replicas)?;
        let is_member = |node: &&NodeId| found.is_shared && found.members().any(|member| member == **node);
        match replicas.iter().find(|node| !is_member(node)) {
            Some(leader) => Err(ApplyError::NotAReplica {
                leader: *leader,
                partition,
            }),
            None => Ok(()),
        }
    }

    pub(super) fn open_uncleanly(&mut self, partition: PartitionId, epoch: Epoch, replicas: &ReplicaSet) {
        let found = self.partition_mut(partition);
        let given_up = found.members().filter(|node| !replicas.contains(node)).collect();
        self.replace(partition, Arc::clone(replicas));
        let found = self.partition_mut(partition);
        // What they hold is the log from now on: nobody holds it against them that they may have held more.
        found.uncertain.clear();
        found.reassignment = Some(Box::new(Reassignment::Unclean { given_up }));
        if found.unclean.len() == UNCLEAN_EPOCHS_MAX {
            found.unclean.remove(0);
        }
        found.unclean.push(epoch);
        self.open_epoch(partition, epoch, replicas[0]);
    }

    pub(super) fn check_caught_up(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        (replica, start): (NodeId, u64),
    ) -> Result<(), ApplyError> {
        let found = self.check_partition(partition)?;
        self.check_epoch(found, epoch)?;
        self.check_own_start(replica, start)?;
        if found.uncertain.contains(&replica) {
            return Ok(());
        }
        let is_known = matches!(
            found.reassignment.as_deref(),
            Some(Reassignment::Filling { caught_up, .. }) if caught_up.contains(&replica)
        );
        match found.joining().any(|node| node == replica) && !is_known {
            true => Ok(()),
            false => Err(ApplyError::NotJoining { replica, partition }),
        }
    }

    pub(super) fn note_caught_up(&mut self, partition: PartitionId, epoch: Epoch, replica: NodeId) {
        let found = self.partition_mut(partition);
        let was_uncertain = found.uncertain.contains(&replica);
        found.uncertain.retain(|node| *node != replica);
        match found.reassignment.as_deref_mut() {
            Some(Reassignment::Filling { caught_up, .. }) if !was_uncertain => caught_up.push(replica),
            _ => {}
        }
        if found.is_filled() {
            self.switch(partition, Epoch(epoch.0 + 1));
        }
    }

    pub(super) fn check_settled(&self, partition: PartitionId, epoch: Epoch) -> Result<(), ApplyError> {
        let found = self.check_partition(partition)?;
        self.check_epoch(found, epoch)?;
        match found.is_unsettled() {
            true => Ok(()),
            false => Err(ApplyError::NothingUnsettled { partition }),
        }
    }

    pub(super) fn note_settled(&mut self, partition: PartitionId) {
        let found = self.partition_mut(partition);
        found.reassignment = None;
        found.uncertain.retain(|node| found.replicas.contains(node));
    }

    /// Says whether this is a node's present start.
    pub(super) fn check_own_start(&self, node: NodeId, start: u64) -> Result<(), ApplyError> {
        let known = self.nodes.get(&node).ok_or(ApplyError::UnknownNode { node })?;
        let current = known.home.as_ref().map_or(0, |home| home.start);
        match current == start {
            true => Ok(()),
            false => Err(ApplyError::StartOver {
                node,
                current,
                got: start,
            }),
        }
    }

    /// Has a node count for nothing in the partitions that it is a member of, and has to be filled again where it was to become one. Where it is
    /// the only replica there is nobody to hold it against: what it has is all there is.
    pub(super) fn doubt(&mut self, node: NodeId) {
        let partitions = self.topics.values_mut().flat_map(|topic| &mut topic.partitions);
        for found in partitions.filter(|found| found.is_shared) {
            let mut is_member = found.replicas.contains(&node) && found.replicas.len() > 1;
            match found.reassignment.as_deref_mut() {
                Some(Reassignment::Filling { caught_up, .. }) => caught_up.retain(|known| *known != node),
                Some(Reassignment::Unsettled { before }) => is_member |= before.contains(&node),
                Some(Reassignment::Unclean { .. }) | None => {}
            }
            if is_member && !found.uncertain.contains(&node) {
                found.uncertain.push(node);
            }
        }
    }

    pub(super) fn check_partition(&self, partition: PartitionId) -> Result<&Partition, ApplyError> {
        let found = self.find_partition(partition);
        found.ok_or(ApplyError::UnknownPartition { partition })
    }

    fn check_epoch(&self, found: &Partition, got: Epoch) -> Result<(), ApplyError> {
        let current = self.epoch_of(found);
        match current == got {
            true => Ok(()),
            false => Err(ApplyError::EpochPassed { current, got }),
        }
    }

    pub(super) fn check_next_epoch(&self, found: &Partition, got: Epoch) -> Result<(), ApplyError> {
        let current = self.epoch_of(found);
        match current.0.checked_add(1) == Some(got.0) {
            true => Ok(()),
            false => Err(ApplyError::EpochNotNext { current, got }),
        }
    }

    fn partition_mut(&mut self, partition: PartitionId) -> &mut Partition {
        let index = usize::try_from(partition.index).expect("checked");
        let topic = self.topics.get_mut(&partition.topic).expect("checked");
        &mut topic.partitions[index]
    }

    /// The number of partitions that a node holds some of.
    #[must_use]
    pub fn held_by(&self, node: NodeId) -> usize {
        let partitions = self.topics.values().flat_map(|topic| &topic.partitions);
        let holds = |partition: &&Partition| partition.holders().any(|holder| holder == node);
        partitions.filter(holds).count()
    }

    pub(super) fn check_removal(&self, node: NodeId) -> Result<(), ApplyError> {
        if !self.nodes.contains_key(&node) && !self.joined.contains_key(&node) {
            return Err(ApplyError::UnknownNode { node });
        }
        match self.held_by(node) {
            _ if self.nodes.len() == 1 && self.nodes.contains_key(&node) => {
                Err(ApplyError::LastNode { node })
            }
            0 => Ok(()),
            partitions => Err(ApplyError::NodeHolds { node, partitions }),
        }
    }

    pub(super) fn check_drain(&self, node: NodeId, drain: Option<&Drain>) -> Result<(), ApplyError> {
        if !self.nodes.contains_key(&node) {
            return Err(ApplyError::UnknownNode { node });
        }
        match drain.and_then(|drain| drain.to) {
            Some(to) if to == node => Err(ApplyError::DrainedToItself { node }),
            Some(to) if !self.nodes.contains_key(&to) => Err(ApplyError::UnknownNode { node: to }),
            _ => Ok(()),
        }
    }
}

impl Metadata {
    /// Plans that a partition gets these replicas; the first is the one that leads where it can.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_replicas(&self, partition: PartitionId, replicas: &[NodeId]) -> Result<Command, PlanError> {
        let found = self.check_partition(partition)?;
        // Before anything else: whoever wants what is there already needs no node that is reached, and nothing that is settled.
        if replicas == &found.wanted()[..] {
            return Err(ApplyError::ReplicasUnchanged { partition }.into());
        }
        let open: Vec<NodeId> = self.open_nodes().collect();
        let is_new = |node: &&NodeId| !found.replicas.contains(node);
        let is_closed = |node: &&NodeId| self.nodes.contains_key(node) && !open.contains(node);
        if let Some(node) = replicas.iter().filter(is_new).find(is_closed) {
            return Err(PlanError::Unreachable { node: *node });
        }
        // A compacted log has gaps, which not every release takes.
        let topic = self.check_topic(partition.topic)?;
        let is_free = self.replicates_compacted() || is_internal(&topic.name);
        if topic.settings.compaction.is_some() && !is_free {
            return Err(PlanError::CompactedMove { level: self.level() });
        }
        self.checked(Command::SetReplicas {
            partition,
            epoch: Epoch(self.epoch_of(found).0 + 1),
            replicas: replicas.into(),
        })
    }

    /// Plans that a partition keeps the replicas that it has, though others are being filled.
    ///
    /// # Errors
    /// See [`PlanError`]; `NoReassignment` where none are, any more or at all.
    pub fn plan_kept_replicas(&self, partition: PartitionId) -> Result<Command, PlanError> {
        let found = self.check_partition(partition)?;
        match found.reassignment.as_deref() {
            Some(Reassignment::Filling { .. }) => self.checked(Command::SetReplicas {
                partition,
                epoch: Epoch(self.epoch_of(found).0 + 1),
                replicas: Arc::clone(&found.replicas),
            }),
            _ => Err(PlanError::NoReassignment),
        }
    }

    /// Plans that the members of a partition that are here open it with what they hold: an operator says that the others are lost.
    ///
    /// # Errors
    /// See [`PlanError`]; `NotStuck` where enough of them are here to open it with everything, and `NobodyLeft` where none is.
    pub fn plan_unclean(
        &self,
        partition: PartitionId,
        here: &BTreeSet<NodeId>,
    ) -> Result<Command, PlanError> {
        let found = self.check_partition(partition)?;
        let counts = |node: &&NodeId| here.contains(*node) && !found.uncertain.contains(*node);
        let is_met = |of: &Configuration| of.replicas.iter().filter(counts).count() >= of.seal_quorum();
        if found.earlier().iter().all(is_met) {
            return Err(PlanError::NotStuck { partition });
        }
        let mut left: Vec<NodeId> = found.members().filter(|node| here.contains(node)).collect();
        // The present leader goes on where it can; one whose disk is in doubt leads only where all are.
        left.sort_by_key(|node| (found.uncertain.contains(node), *node != found.leader));
        if left.is_empty() {
            return Err(PlanError::NobodyLeft { partition });
        }
        self.checked(Command::OpenUncleanly {
            partition,
            epoch: Epoch(self.epoch_of(found).0 + 1),
            replicas: left.into(),
        })
    }

    /// Plans that a replica counts as filled, or that the replica set before counts no more: reports of the leader of an epoch.
    ///
    /// # Errors
    /// It is not so any more, or is known.
    pub fn plan_caught_up(
        &self,
        partition: PartitionId,
        epoch: Epoch,
        (replica, start): (NodeId, u64),
    ) -> Result<Command, PlanError> {
        self.checked(Command::CaughtUp {
            partition,
            epoch,
            replica,
            start,
        })
    }

    /// See [`Metadata::plan_caught_up`].
    ///
    /// # Errors
    /// It is not so any more, or is known.
    pub fn plan_settled(&self, partition: PartitionId, epoch: Epoch) -> Result<Command, PlanError> {
        self.checked(Command::Settled { partition, epoch })
    }

    /// Plans that a node gives up all that it holds, to others or to a certain one, and gets nothing more; or with `None`, that it may hold something again.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_drain(&self, node: NodeId, drain: Option<Drain>) -> Result<Command, PlanError> {
        if let Some(to) = drain.as_ref().and_then(|drain| drain.to)
            && self.nodes.contains_key(&to)
            && !self.open_nodes().any(|open| open == to)
        {
            return Err(PlanError::Unreachable { node: to });
        }
        self.checked(Command::DrainNode { node, drain })
    }

    /// Plans that a node's disk is in doubt, as its present start has found.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_doubt(&self, node: NodeId, start: u64) -> Result<Command, PlanError> {
        self.checked(Command::DoubtNode { node, start })
    }

    /// Plans that a node that holds nothing is none of the cluster's any more.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan_removal(&self, node: NodeId) -> Result<Command, PlanError> {
        self.checked(Command::RemoveNode { node })
    }
}
