//! Carries committed commands of the metadata out on one core: first in its image, or in its shards, and then in the other.
//!
//! A command about very many partitions is carried out in slices, and others of the core have their turn in between. What they may
//! rely on meanwhile: a partition that the image names is open in its shard, for it is opened before the image names it, and given
//! up after it does not any more. The image itself changes at once for each command, and new configs reach a topic's partitions one
//! after the other. Commands never overtake each other: one change at a time is under way (`controller`), and it is answered when
//! every core is through with it.

use platform::slices::Slices;
use protocol::ApplyError;
use protocol::leader::NodeId;
use protocol::metadata::{Command, Metadata, Topic, TopicSettings, is_order_log, metadata_settings};
use protocol::order::{keeper_of, order_log_of};
use protocol::producers::ProducerId;
use protocol::replica::Assignment;
use record::{Epoch, PartitionId, TopicId};
use shard::Shard;

use super::Core;
use crate::groups::{gone, there, topic_settings};

/// Partitions that are opened, given up or configured before others have their turn; a command counts like one of them.
const PARTITIONS_IN_ONE_TURN: usize = 1_000;

impl Core {
    /// At start: takes the whole metadata over, opens the partitions that this core owns, and gives up what
    /// recovery found of partitions that the metadata does not know any more.
    ///
    /// # Errors
    /// A sentence for the operator: metadata and storage contradict each other.
    pub(crate) fn adopt(&self, image: &Metadata) -> Result<(), String> {
        self.metadata.borrow_mut().clone_from(image);
        self.tell_next_producer_id();
        self.with_metadata(|metadata| {
            let mut topics = metadata.topics();
            topics.try_for_each(|topic| self.open_all_partitions(metadata, topic))
        })?;
        for (id, found) in self.recovered.take() {
            let shard = self.shard(self.facts.shard_of(id));
            // Where scribes give positions, nothing goes on with those that the shards gave before.
            let is_kept = |metadata: &Metadata| metadata.topic(keeper_of(id.topic)).is_some();
            match !self.facts.is_member && self.with_metadata(is_kept) {
                // The topic has no order now, and goes on with this one when it has.
                true => shard.open_partition(id, None, metadata_settings(), Some(&found))?,
                false => shard.delete_partition(id),
            }
        }
        self.shards().for_each(Shard::start_background);
        self.open_coordinators();
        self.open_scribes();
        Ok(())
    }

    /// After [`Core::adopt`], once this start is committed: lets replicas into its epochs, and accepts appends.
    pub(crate) async fn serve(&self) {
        let mut slices = Slices::of_own(PARTITIONS_IN_ONE_TURN);
        self.assign_replicas(&mut slices).await;
        self.shards().for_each(|shard| shard.start_serving());
    }

    /// Applies committed commands, as every core does in the same order. One outcome for each: what is refused has changed
    /// nothing, on any core.
    pub(crate) async fn apply(&self, commands: &[Command]) -> Vec<Result<(), ApplyError>> {
        let mut slices = Slices::of_own(PARTITIONS_IN_ONE_TURN);
        let mut changes = Vec::new();
        let mut outcomes = Vec::with_capacity(commands.len());
        for command in commands {
            let applied = self.apply_one(command, &mut slices).await;
            if applied.is_ok() {
                changes.extend(self.topic_changes(command));
            }
            outcomes.push(applied);
            slices.did(1).await;
        }
        self.tell_coordinators(&changes);
        self.open_scribes();
        outcomes
    }

    /// Takes a later image over while the node serves, for the commands between it and the present one are not known: opens, gives up
    /// and configures what differs.
    ///
    /// # Errors
    /// It is no later one: a sentence for the operator.
    pub(crate) async fn install(&self, image: &Metadata) -> Result<(), String> {
        let mut slices = Slices::of_own(PARTITIONS_IN_ONE_TURN);
        let before = self.with_metadata(Metadata::clone);
        let has_shrunk = |known: &Topic| {
            let later = image.topic(known.id);
            later.is_some_and(|later| later.partition_count() < known.partition_count())
        };
        if before.topics().any(has_shrunk) {
            return Err(
                "the metadata given is older than what this node has had of it: was it restored from a copy?"
                    .into(),
            );
        }
        let mut changes = Vec::new();
        for topic in image.topics() {
            let known = before.topic(topic.id);
            let first_index = known.map_or(0, Topic::partition_count);
            self.open_later_partitions(image, topic, first_index, &mut slices)
                .await;
            if let Some(known) = known {
                self.open_later_epochs((&before, known), image, &mut slices).await;
            }
            if first_index < topic.partition_count() && !is_order_log(&topic.name) {
                changes.extend(there(topic));
            }
        }
        self.metadata.borrow_mut().clone_from(image);
        self.tell_next_producer_id();
        for (group, _) in before.group_configs().chain(image.group_configs()) {
            self.tell_pace(group);
            slices.did(1).await;
        }
        for topic in before.topics() {
            self.follow_later_holders(topic, &mut slices).await;
        }
        self.assign_replicas(&mut slices).await;
        for topic in before.topics() {
            if image.topic(topic.id).is_some() {
                self.configure_topic(topic.id, &mut slices).await;
                continue;
            }
            let (own, others) = self.sorted_partitions(topic, 0);
            self.delete_partitions(own, &mut slices).await;
            self.forget_partitions(others, &mut slices).await;
            changes.extend(gone(topic.id));
        }
        self.open_coordinators();
        self.open_scribes();
        self.want_order_logs();
        self.tell_coordinators(&changes);
        Ok(())
    }

    /// Opens the partitions of a topic from an index on, in the epochs that an image has.
    async fn open_later_partitions(
        &self,
        image: &Metadata,
        topic: &Topic,
        first_index: i32,
        slices: &mut Slices,
    ) {
        let settings = topic_settings(image, topic);
        let (own, others) = self.sorted_partitions(topic, first_index);
        for id in own {
            let state = image.partition(id).expect("the image has the topic");
            self.open_partition(id, (state.epoch, state.is_shared), settings)
                .expect("a partition that nobody has opened contradicts nothing");
            slices.did(1).await;
        }
        for id in others {
            self.shard(self.facts.shard_of(id)).note_elsewhere(id);
            slices.did(1).await;
        }
    }

    /// Leads the partitions that there were before on, in the epochs that a later image has.
    async fn open_later_epochs(
        &self,
        (before, known): (&Metadata, &Topic),
        image: &Metadata,
        slices: &mut Slices,
    ) {
        for id in self.own_partitions(known, 0) {
            let epoch = |metadata: &Metadata| metadata.partition(id).map(|state| state.epoch);
            let state = image.partition(id).expect("the image has the topic");
            if epoch(before) != epoch(image) && !state.is_shared {
                self.open_epoch(id, state.epoch, state.leader);
            }
            slices.did(1).await;
        }
    }

    async fn apply_one(&self, command: &Command, slices: &mut Slices) -> Result<(), ApplyError> {
        let grown = self.with_metadata(|metadata| metadata.grown_by(command));
        if let Some((topic, first_index)) = grown {
            if first_index == 0 && topic.settings.is_ordered {
                self.open_keepers(topic.id)
                    .expect("new partitions contradict nothing");
            }
            self.open_partitions(&topic, first_index, slices).await;
        }
        let (deleted, forgotten) = self.partitions_deleted_by(command);
        let was_here = self.is_held_before(command);
        self.metadata.borrow_mut().apply(command)?;
        match command {
            Command::CreateTopic { id, .. } | Command::CreatePartitions { id, .. } => {
                self.assign_topic(*id, slices).await;
                self.open_coordinators();
            }
            Command::DeleteTopic { id } => {
                self.delete_order(*id);
                self.delete_partitions(deleted, slices).await;
                self.forget_partitions(forgotten, slices).await;
            }
            Command::AllocateProducerIds { .. } => self.tell_next_producer_id(),
            Command::OpenEpoch {
                partition,
                epoch,
                leader,
            } => match self.with_metadata(|metadata| metadata.assignment(*partition)) {
                Some(assignment) => self.assign(*partition, assignment),
                None => self.open_epoch(*partition, *epoch, *leader),
            },
            Command::SetTopicConfig { id, .. } => self.configure_topic(*id, slices).await,
            Command::SetBrokerConfig { .. } => {
                for (_, id) in self.all_topics().await {
                    self.configure_topic(id, slices).await;
                    slices.did(1).await;
                }
            }
            Command::SetGroupConfig { group, .. } => self.tell_pace(group),
            // Epochs begin on every partition that the node leads. A node is told of its own start before it serves.
            Command::StartNode { .. } => self.assign_replicas(slices).await,
            Command::SetReplicas { partition, .. }
            | Command::OpenUncleanly { partition, .. }
            | Command::CaughtUp { partition, .. }
            | Command::Settled { partition, .. } => {
                self.follow_holders(*partition, was_here);
                self.tell_doubts(*partition);
                self.open_coordinators();
            }
            Command::DoubtNode { node, .. } => self.doubt_replicas(*node, slices).await,
            Command::RemoveNode { node } if *node == self.facts.node => {
                tracing::error!("this node was removed from the cluster, and ends");
                self.lost.notify_one();
            }
            Command::FormatCluster { .. }
            | Command::JoinNode { .. }
            | Command::DrainNode { .. }
            | Command::SetFeatureLevel { .. }
            | Command::RemoveNode { .. } => {}
        }
        Ok(())
    }

    /// Says whether this node holds some of the partition whose replicas a command changes, before it does.
    fn is_held_before(&self, command: &Command) -> bool {
        let (Command::SetReplicas { partition, .. }
        | Command::OpenUncleanly { partition, .. }
        | Command::CaughtUp { partition, .. }
        | Command::Settled { partition, .. }) = command
        else {
            return false;
        };
        self.with_metadata(|metadata| metadata.holders(*partition).contains(&self.facts.node))
    }

    /// Has this core's shard hold a partition, share it, or give it up, as the image has it now; and tells a replica of its epoch.
    fn follow_holders(&self, id: PartitionId, was_here: bool) {
        let Some(shard) = self.shards.get(&self.facts.shard_of(id)) else {
            return;
        };
        let found = self.with_metadata(|metadata| {
            let topic = metadata.topic(id.topic)?;
            let is_here = topic.holders(id.index).any(|node| node == self.facts.node);
            let assignment = metadata.assignment(id);
            Some((is_here, topic_settings(metadata, topic), assignment))
        });
        let Some((is_here, settings, Some(assignment))) = found else {
            return;
        };
        match (was_here, is_here) {
            (true, true) => shard
                .share(id)
                .expect("a partition that the image names is open in its shard"),
            (false, true) => {
                shard.forget_elsewhere(id);
                shard
                    .open_replica(id, settings, None)
                    .expect("a partition that nobody has opened contradicts nothing");
            }
            (true, false) => {
                tracing::info!(partition = %id, "this node is no holder of the partition any more, and deletes it");
                shard.delete_partition(id);
                shard.note_elsewhere(id);
            }
            (false, false) => {}
        }
        self.assign(id, assignment);
    }

    /// Tells the replica of a partition which holders are in doubt now, and which are not. Its leader asks those that are where they stand.
    fn tell_doubts(&self, id: PartitionId) {
        let Some(shard) = self.shards.get(&self.facts.shard_of(id)) else {
            return;
        };
        let found = self.with_metadata(|metadata| {
            let holders = metadata.holders(id);
            let assignment = metadata.assignment(id)?;
            holders
                .contains(&self.facts.node)
                .then_some((holders, assignment.uncertain))
        });
        let Some((holders, uncertain)) = found else { return };
        for node in holders {
            let told = match uncertain.contains(&node) {
                true => shard.doubt(id, node),
                false => shard.certain(id, node),
            };
            told.expect("a replica that the image names is open in its shard");
        }
    }

    /// A node's disk is in doubt: the leaders here forget what its replicas have acknowledged. Those that are being filled are doubted for this
    /// moment only, and are asked anew what they hold.
    async fn doubt_replicas(&self, node: NodeId, slices: &mut Slices) {
        for (_, topic) in self.all_topics().await {
            let doubted = self.with_metadata(|metadata| {
                let Some(topic) = metadata.topic(topic) else {
                    return Vec::new();
                };
                let mut own = self.own_partitions(topic, 0);
                own.retain(|id| {
                    let is_shared = metadata.partition(*id).is_some_and(|state| state.is_shared);
                    is_shared && metadata.holders(*id).contains(&node)
                });
                own
            });
            for id in doubted {
                // The only replica has all there is, and goes on.
                let is_other = node != self.facts.node;
                if let Some(shard) = self.shards.get(&self.facts.shard_of(id)).filter(|_| is_other) {
                    shard
                        .doubt(id, node)
                        .expect("a replica that the image names is open in its shard");
                }
                self.tell_doubts(id);
                slices.did(1).await;
            }
        }
    }

    /// Follows what a later image says of the partitions that there were before it.
    async fn follow_later_holders(&self, known: &Topic, slices: &mut Slices) {
        let (own, others) = self.sorted_partitions(known, 0);
        let own = own.into_iter().map(|id| (id, true));
        for (id, was_here) in own.chain(others.into_iter().map(|id| (id, false))) {
            self.follow_holders(id, was_here);
            self.tell_doubts(id);
            slices.did(1).await;
        }
    }

    /// Leads a partition of this core in the epoch that was opened.
    fn open_epoch(&self, id: PartitionId, epoch: Epoch, leader: NodeId) {
        if leader == self.facts.node
            && let Some(shard) = self.shards.get(&self.facts.shard_of(id))
        {
            shard
                .open_epoch(id, epoch)
                .expect("a partition that the image names is open in its shard");
        }
    }

    /// Tells the replicas here of the epochs that they are in by the metadata. Those that they know already change nothing.
    pub(crate) async fn assign_replicas(&self, slices: &mut Slices) {
        for (_, id) in self.all_topics().await {
            self.assign_topic(id, slices).await;
            slices.did(1).await;
        }
    }

    async fn assign_topic(&self, id: TopicId, slices: &mut Slices) {
        let own = self.with_metadata(|metadata| {
            let topic = metadata.topic(id);
            topic.map_or_else(Vec::new, |topic| {
                let mut own = self.own_partitions(topic, 0);
                own.retain(|id| topic.is_shared(id.index));
                own
            })
        });
        for id in own {
            if let Some(assignment) = self.with_metadata(|metadata| metadata.assignment(id)) {
                self.assign(id, assignment);
            }
            slices.did(1).await;
        }
    }

    /// Tells a replica of its epoch, and has it be linked with the others, if it is here.
    fn assign(&self, id: PartitionId, assignment: Assignment) {
        let shard = self.facts.shard_of(id);
        let holders = self.with_metadata(|metadata| metadata.holders(id));
        let own = self.facts.node;
        let Some(held) = self.shards.get(&shard).filter(|_| holders.contains(&own)) else {
            return;
        };
        self.wanted_links
            .want(shard, holders.into_iter().filter(|node| *node != own));
        held.assign(id, assignment)
            .expect("a replica that the image names is open in its shard");
    }

    /// Has the shards accept the producer ids that may be handed out from now on.
    fn tell_next_producer_id(&self) {
        // A member's image may be behind the ids that are handed out by others.
        let next_id = match self.facts.is_member {
            false => self.with_metadata(Metadata::next_producer_id),
            true => ProducerId(i64::MAX),
        };
        self.shards()
            .for_each(|shard| shard.set_next_producer_id(next_id));
    }

    async fn configure_topic(&self, id: TopicId, slices: &mut Slices) {
        let found = self.with_metadata(|metadata| {
            let topic = metadata.topic(id)?;
            Some((topic_settings(metadata, topic), self.own_partitions(topic, 0)))
        });
        let Some((settings, partitions)) = found else {
            return;
        };
        match settings.is_ordered {
            true => self
                .open_keepers(id)
                .expect("partitions that begin anew contradict nothing"),
            false => self.give_up_order(id),
        }
        for id in partitions {
            self.shard(self.facts.shard_of(id))
                .configure_partition(id, settings);
            slices.did(1).await;
        }
    }

    async fn delete_partitions(&self, partitions: Vec<PartitionId>, slices: &mut Slices) {
        for id in partitions {
            self.shard(self.facts.shard_of(id)).delete_partition(id);
            slices.did(1).await;
        }
    }

    async fn forget_partitions(&self, partitions: Vec<PartitionId>, slices: &mut Slices) {
        for id in partitions {
            self.shard(self.facts.shard_of(id)).forget_elsewhere(id);
            slices.did(1).await;
        }
    }

    /// Those that are here, and those that this core knows to be elsewhere.
    fn partitions_deleted_by(&self, command: &Command) -> (Vec<PartitionId>, Vec<PartitionId>) {
        let Command::DeleteTopic { id } = command else {
            return Default::default();
        };
        self.with_metadata(|metadata| {
            let log = metadata.topic(order_log_of(*id));
            let log = log.filter(|log| is_order_log(&log.name));
            let gone = metadata.topic(*id).into_iter().chain(log);
            let (own, others): (Vec<_>, Vec<_>) = gone.map(|topic| self.sorted_partitions(topic, 0)).unzip();
            (own.concat(), others.concat())
        })
    }

    /// The partitions of a topic, from an index on, that this core holds.
    pub(crate) fn own_partitions(&self, topic: &Topic, first_index: i32) -> Vec<PartitionId> {
        self.sorted_partitions(topic, first_index).0
    }

    /// The same, and those that it would hold if they were not on other nodes.
    fn sorted_partitions(&self, topic: &Topic, first_index: i32) -> (Vec<PartitionId>, Vec<PartitionId>) {
        (first_index..topic.partition_count())
            .map(|index| PartitionId {
                topic: topic.id,
                index,
            })
            .filter(|id| self.shards.contains_key(&self.facts.shard_of(*id)))
            .partition(|id| topic.holders(id.index).any(|node| node == self.facts.node))
    }

    /// Opens the partitions that a topic is about to get. They begin with the first epoch.
    async fn open_partitions(&self, topic: &Topic, first_index: i32, slices: &mut Slices) {
        let settings = self.with_metadata(|metadata| topic_settings(metadata, topic));
        let (own, others) = self.sorted_partitions(topic, first_index);
        for id in own {
            self.open_partition(id, (Epoch(0), topic.is_shared(id.index)), settings)
                .expect("a new partition contradicts nothing");
            slices.did(1).await;
        }
        for id in others {
            self.shard(self.facts.shard_of(id)).note_elsewhere(id);
            slices.did(1).await;
        }
    }

    /// At start: opens all partitions of a topic over what recovery found of them.
    fn open_all_partitions(&self, metadata: &Metadata, topic: &Topic) -> Result<(), String> {
        let settings = topic_settings(metadata, topic);
        let (own, others) = self.sorted_partitions(topic, 0);
        for id in others {
            self.shard(self.facts.shard_of(id)).note_elsewhere(id);
        }
        for id in own {
            let state = metadata
                .partition(id)
                .expect("a topic's partitions are in the metadata");
            self.open_partition(id, (state.epoch, state.is_shared), settings)?;
        }
        match settings.is_ordered {
            true => self.open_keepers(topic.id),
            false => Ok(()),
        }
    }

    /// Opens a partition over what recovery found. A replica waits to be assigned: nothing may happen in an epoch that is not
    /// committed.
    fn open_partition(
        &self,
        id: PartitionId,
        (epoch, is_shared): (Epoch, bool),
        settings: TopicSettings,
    ) -> Result<(), String> {
        let recovered = self.take_recovered(id);
        let shard = self.shard(self.facts.shard_of(id));
        match is_shared {
            false => shard.open_partition(id, Some(epoch), settings, recovered.as_ref()),
            true => shard.open_replica(id, settings, recovered.as_ref()),
        }
    }
}
