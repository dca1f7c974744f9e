//! Consumer groups: carries out what the coordinators of `protocol::groups` decide, and decides nothing itself.
//!
//! Every partition of the groups' topic has a coordinator, on the core that owns the partition. A request goes to the one
//! that its group's name gives, and its answer comes back when what it promises is durable.

mod admin_change;
mod gathering;
mod host;
mod internal_topic;
mod lags;
mod partitioner;
mod rewriting;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use kafka_wire::ErrorCode;
use platform::slices::next_slice;
use protocol::groups::{
    Answer, Ask, CommitPending, GROUPS_TOPIC, GroupError, ListGroups, ListedGroup, Name, OwnPace, Request,
    TopicChange,
};
use protocol::leader::NodeId;
use protocol::metadata::group_config::{HEARTBEAT_INTERVAL, SESSION_TIMEOUT};
use protocol::metadata::{
    Command, ConfigChange, GroupConfig, INTERNAL_REPLICAS, NewTopic, PlanError, PlanLimits, Plans, Topic,
    fresh_topic_id, is_order_log,
};
use protocol::order::keeper_of;
use protocol::{ApplyError, Leader, groups};
use record::{PartitionId, TopicId};

use crate::budget::SharedRoom;
use crate::controller::ChangeError;
use crate::core::Core;
use crate::error_codes::coordinator_code;
use crate::order::twin_name;

pub(crate) use gathering::{Gathered, Gathering};
pub(crate) use host::took_nothing;
pub(crate) use internal_topic::{fixed_config, own_config, topic_settings};
pub(crate) use lags::{GroupLag, watch_lags};

pub(crate) use partitioner::partition_of;

use host::GroupHost;
use rewriting::Rewriting;

/// The log of groups that several nodes hold is written anew when it has grown by this part of a journal file: 1 MiB as a rule.
const PARTS_OF_A_FILE: u64 = 256;

/// The coordinators of one core, by the partition of the groups' topic that each writes to.
#[derive(Default)]
pub(crate) struct Groups {
    hosts: RefCell<BTreeMap<i32, Rc<GroupHost>>>,
    /// As they were found last.
    lags: RefCell<Arc<[GroupLag]>>,
}

/// A coordinator that serves its groups, or its transactions, no more until the next start.
#[derive(Debug, Clone)]
pub(crate) struct ClosedCoordinator {
    /// The topic that it keeps what it decides in, and which partition of that.
    pub(crate) topic: &'static str,
    pub(crate) partition: i32,
    pub(crate) reason: String,
}

impl Groups {
    /// Tells nobody anything any more: whoever waits is sent to look for another coordinator.
    pub(crate) fn close(&self) {
        for host in self.hosts.borrow().values() {
            host.close();
        }
    }

    /// The number of groups here, of the coordinators that have read their logs.
    pub(crate) fn count(&self) -> usize {
        self.hosts.borrow().values().map(|host| host.group_count()).sum()
    }

    /// The coordinators that have failed, in order of their partitions.
    pub(crate) fn closed_coordinators(&self) -> Vec<ClosedCoordinator> {
        let hosts = self.hosts.borrow();
        let closed = hosts.iter().filter_map(|(partition, host)| {
            host.failure().map(|reason| ClosedCoordinator {
                topic: GROUPS_TOPIC,
                partition: *partition,
                reason,
            })
        });
        closed.collect()
    }

    /// The lags of the groups here, as they were found last; the greatest first, and no others if there are many.
    pub(crate) fn lags(&self) -> Arc<[GroupLag]> {
        self.lags.borrow().clone()
    }

    fn all_hosts(&self) -> Vec<Rc<GroupHost>> {
        self.hosts.borrow().values().cloned().collect()
    }

    fn host(&self, partition: i32) -> Option<Rc<GroupHost>> {
        self.hosts.borrow().get(&partition).cloned()
    }
}

impl Core {
    /// Has the coordinator of the request's group answer it. The groups' topic is made if there is none.
    ///
    /// # Errors
    /// No coordinator can be had now; the client asks again.
    pub(crate) async fn ask_coordinator(self: &Rc<Self>, request: Request) -> Result<Answer, ErrorCode> {
        self.hand_to_coordinator(request, None).await
    }

    /// The same. `room`, which the request has taken while it came, is free again when the coordinator has it: what that keeps
    /// it counts by itself, and its answer may be long in coming.
    ///
    /// # Errors
    /// See `ask_coordinator`.
    pub(crate) async fn hand_to_coordinator(
        self: &Rc<Self>,
        request: Request,
        room: SharedRoom,
    ) -> Result<Answer, ErrorCode> {
        let group = request
            .group()
            .expect("requests about all groups go to all coordinators");
        let topic = self.groups_topic().await?;
        let index = partition_of(group, topic.1);
        self.ask_partition(topic.0, index, request, room).await
    }

    /// Lists the groups of all coordinators that the filters let through, in parts. Without a groups' topic there are none.
    ///
    /// # Errors
    /// Some coordinator cannot be had now, and the client asks again; or what a coordinator says.
    pub(crate) async fn list_groups(
        self: &Rc<Self>,
        filters: &ListGroups,
    ) -> Result<Result<Vec<ListedGroup>, GroupError>, ErrorCode> {
        let mut groups = Vec::new();
        let Some((topic, count)) = self.find_groups_topic() else {
            return Ok(Ok(groups));
        };
        for index in 0..count {
            if self.leader_of(PartitionId { topic, index }) != Some(self.facts.node) {
                // Clients ask every node for its groups.
                continue;
            }
            let mut from = Some(Name::default());
            while let Some(first) = from.take() {
                let part = ListGroups {
                    from: first,
                    ..filters.clone()
                };
                let answer = self.ask_partition(topic, index, part.into(), None).await?;
                match ListGroups::take(answer).expect("an answer is of its request's kind") {
                    Ok(part) => {
                        groups.extend(part.groups);
                        from = part.next;
                    }
                    Err(error) => return Ok(Err(error)),
                }
                if from.is_some() {
                    next_slice().await;
                }
            }
        }
        Ok(Ok(groups))
    }

    /// The number of ends of transactions that the coordinator of a group has seen.
    ///
    /// # Errors
    /// See `ask_coordinator`.
    pub(crate) async fn ends_seen(self: &Rc<Self>, group: &str) -> Result<u64, ErrorCode> {
        let topic = self.groups_topic().await?;
        let index = partition_of(group, topic.1);
        let partition = PartitionId {
            topic: topic.0,
            index,
        };
        let seen = self
            .facts
            .mailboxes
            .call(self.facts.owner_of(partition), move |core| async move {
                Some(core.groups.host(index)?.ends())
            });
        let seen = seen.await.unwrap_or(None);
        seen.ok_or(ErrorCode::CoordinatorNotAvailable)
    }

    /// Has a group take offsets that a transaction will end, unless more ends have come than were seen: then nothing is taken (`None`).
    ///
    /// # Errors
    /// See `ask_coordinator`.
    pub(crate) async fn commit_pending(
        self: &Rc<Self>,
        commit: CommitPending,
        ends_seen: u64,
    ) -> Result<Option<Answer>, ErrorCode> {
        let topic = self.groups_topic().await?;
        let index = partition_of(&commit.commit.group, topic.1);
        let partition = PartitionId {
            topic: topic.0,
            index,
        };
        if self.leader_of(partition) != Some(self.facts.node) {
            return Err(ErrorCode::NotCoordinator);
        }
        let ask = move |core: Rc<Core>| async move {
            let shard = core.shard(core.facts.shard_of(partition));
            shard.until_lease(partition).await.ok()?;
            let host = core.groups.host(index)?;
            if host.ends() != ends_seen {
                return Some(None);
            }
            // In one turn with the look.
            let answer = host.ask(commit.into())?;
            answer.await.ok().map(Some)
        };
        let answer = self
            .facts
            .mailboxes
            .call(self.facts.owner_of(partition), ask)
            .await;
        answer.unwrap_or(None).ok_or(ErrorCode::CoordinatorNotAvailable)
    }

    /// The same of one partition's coordinator.
    pub(crate) async fn ask_partition(
        self: &Rc<Self>,
        topic: TopicId,
        index: i32,
        request: Request,
        room: SharedRoom,
    ) -> Result<Answer, ErrorCode> {
        let partition = PartitionId { topic, index };
        if self.leader_of(partition) != Some(self.facts.node) {
            return Err(ErrorCode::NotCoordinator);
        }
        let owner = self.facts.owner_of(partition);
        let ask = move |core: Rc<Core>| async move {
            // Another node may coordinate by now.
            let shard = core.shard(core.facts.shard_of(partition));
            shard.until_lease(partition).await.ok()?;
            let answer = core.groups.host(index)?.ask(request)?;
            drop(room);
            answer.await.ok()
        };
        let answer = match owner == self.index {
            true => ask(self.clone()).await,
            false => self.facts.mailboxes.call(owner, ask).await.unwrap_or(None),
        };
        answer.ok_or(ErrorCode::CoordinatorNotAvailable)
    }

    /// The node that leads a partition, or is to.
    pub(crate) fn leader_of(&self, partition: PartitionId) -> Option<NodeId> {
        self.with_metadata(|metadata| metadata.partition(partition).map(|state| state.leader))
    }

    /// The node that has the coordinator of a group, once the groups' topic is there.
    pub(crate) fn coordinator_of(&self, group: &str) -> Option<NodeId> {
        let (topic, count) = self.find_groups_topic()?;
        let index = partition_of(group, count);
        self.leader_of(PartitionId { topic, index })
    }

    fn find_groups_topic(&self) -> Option<(TopicId, i32)> {
        self.with_metadata(|metadata| {
            metadata
                .topic_named(GROUPS_TOPIC)
                .map(|topic| (topic.id, topic.partition_count()))
        })
    }

    /// The groups' topic and its number of partitions, made now if it is missing: one partition for each shard, so that
    /// every core has coordinators.
    ///
    /// # Errors
    /// It could not be made; the client asks again.
    pub(crate) async fn groups_topic(self: &Rc<Self>) -> Result<(TopicId, i32), ErrorCode> {
        self.own_topic(GROUPS_TOPIC).await
    }

    /// The same of any topic in which the node keeps what coordinators decide.
    ///
    /// # Errors
    /// See `groups_topic`.
    pub(crate) async fn own_topic(self: &Rc<Self>, name: &'static str) -> Result<(TopicId, i32), ErrorCode> {
        let find = || {
            self.with_metadata(|metadata| {
                let topic = metadata.topic_named(name)?;
                Some((topic.id, topic.partition_count()))
            })
        };
        if let Some(found) = find() {
            return Ok(found);
        }
        let replica_count = self.with_metadata(|metadata| metadata.default_replicas(&[], INTERNAL_REPLICAS));
        let wanted = NewTopic {
            id: fresh_topic_id(self.facts.random.bytes()),
            name: name.into(),
            partition_count: i32::try_from(self.facts.shards).unwrap_or(i32::MAX),
            replica_count,
            chosen: None,
            config: internal_topic::first_config(),
        };
        // Internal: it must fit even where clients have used up what they may.
        let limits = PlanLimits {
            partitions_max: usize::MAX,
            ..self.facts.config.plan_limits()
        };
        let changed = self
            .change(move |metadata| metadata.plan_topic(&wanted, &mut Plans::of(limits, None)))
            .await
            .map_err(|error| coordinator_code(&error.into()))?;
        match changed {
            // Somebody else was quicker.
            Ok(_) | Err(ChangeError::Plan(PlanError::Refused(ApplyError::TopicExists { .. }))) => {}
            Err(error) => {
                tracing::warn!(topic = name, %error, "a topic of the node's own could not be made");
                return Err(coordinator_code(&error));
            }
        }
        find().ok_or(ErrorCode::CoordinatorNotAvailable)
    }

    /// Opens the coordinators of the groups' partitions that are here and have none yet, and closes those whose epoch is over. A partition
    /// that others hold, too, has one while an epoch of it is open here.
    pub(crate) fn open_coordinators(&self) {
        self.open_transaction_coordinators();
        let grown_bytes_min = self.facts.config.journal.file_bytes / PARTS_OF_A_FILE;
        let grown_bytes_min = usize::try_from(grown_bytes_min).unwrap_or(usize::MAX);
        self.with_metadata(|metadata| {
            let Some(topic) = metadata.topic_named(GROUPS_TOPIC) else {
                return;
            };
            let own = self.own_partitions(topic, 0);
            let is_here = |index: &i32| own.iter().any(|id| id.index == *index);
            self.groups.hosts.borrow_mut().retain(|index, host| {
                let stays = is_here(index);
                if !stays {
                    host.close();
                }
                stays
            });
            for partition in own {
                let is_shared = topic.is_shared(partition.index);
                let shard = self.shard(self.facts.shard_of(partition)).clone();
                let led = shard
                    .with_leader(partition, Leader::epoch)
                    .ok()
                    .filter(|_| is_shared);
                let mut hosts = self.groups.hosts.borrow_mut();
                if is_shared {
                    if let Some(host) = hosts
                        .get(&partition.index)
                        .filter(|host| led.is_none() || host.epoch() != led)
                        .cloned()
                    {
                        host.close();
                        hosts.remove(&partition.index);
                    }
                    if led.is_none() {
                        continue;
                    }
                }
                hosts.entry(partition.index).or_insert_with(|| {
                    let topics = metadata.listed_from("").flat_map(there).collect();
                    let paces = metadata.group_configs();
                    let paces = paces.map(|(group, config)| (Arc::clone(group), own_pace(Some(config))));
                    let settings = settings(&self.facts.config.groups);
                    let change_log = self.facts.change_log.clone();
                    GroupHost::open(
                        (
                            partition,
                            led.map(|epoch| (epoch, Rewriting::new(grown_bytes_min))),
                        ),
                        shard,
                        self.planner.clone(),
                        settings,
                        change_log,
                        (topics, paces.collect()),
                    )
                });
            }
        });
    }

    /// The changes that a command has made to a topic and its twin, for coordinators. It was just applied.
    pub(crate) fn topic_changes(&self, command: &Command) -> Vec<TopicChange> {
        let now = |id| {
            self.with_metadata(|metadata| {
                let topic = metadata.topic(id);
                topic.filter(|topic| !is_order_log(&topic.name)).map(there)
            })
        };
        match command {
            Command::DeleteTopic { id } => gone(*id).collect(),
            Command::CreateTopic { id, .. } | Command::CreatePartitions { id, .. } => {
                now(*id).into_iter().flatten().collect()
            }
            Command::SetTopicConfig { id, changes, .. } if changes.iter().any(ConfigChange::is_of_order) => {
                now(*id).into_iter().flatten().skip(1).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Tells the coordinators here what has become of topics: all of it at once, as they look at each of their groups
    /// every time.
    pub(crate) fn tell_coordinators(&self, changes: &[TopicChange]) {
        if changes.is_empty() {
            return;
        }
        for host in self.groups.hosts.borrow().values() {
            host.handle_topics(changes);
        }
    }
}

impl Core {
    /// Tells the coordinators here what a group's configs set now.
    pub(crate) fn tell_pace(&self, group: &Name) {
        let own = self.with_metadata(|metadata| own_pace(metadata.group_config(group)));
        for host in self.groups.hosts.borrow().values() {
            host.handle_pace(Name::clone(group), own);
        }
    }
}

fn own_pace(config: Option<&GroupConfig>) -> OwnPace {
    let time = |name| config.and_then(|config| config.time(name));
    OwnPace {
        session_timeout: time(SESSION_TIMEOUT),
        heartbeat_interval: time(HEARTBEAT_INTERVAL),
    }
}

/// A topic as coordinators are told of it, and then its twin, which has one partition if there is one.
pub(crate) fn there(topic: &Topic) -> impl Iterator<Item = TopicChange> + use<> {
    let own = TopicChange::There {
        topic: Arc::clone(&topic.name),
        id: topic.id,
        partition_count: topic.partition_count(),
    };
    let id = keeper_of(topic.id);
    let twin = match topic.settings.is_ordered {
        true => TopicChange::There {
            topic: twin_name(topic).into(),
            id,
            partition_count: 1,
        },
        false => TopicChange::Gone { id },
    };
    [own, twin].into_iter()
}

/// A topic that is gone, and its twin.
pub(crate) fn gone(id: TopicId) -> impl Iterator<Item = TopicChange> {
    [id, keeper_of(id)].into_iter().map(|id| TopicChange::Gone { id })
}

fn settings(config: &crate::config::GroupSettings) -> groups::Settings {
    groups::Settings {
        session_timeout_min: config.session_timeout_min,
        session_timeout_max: config.session_timeout_max,
        initial_rebalance_delay: config.initial_rebalance_delay,
        members_max: config.members_max,
        offsets_retention: config.offsets_retention,
        offsets_check_interval: config.offsets_check_interval,
        consumer_session_timeout: config.consumer_session_timeout,
        consumer_heartbeat_interval: config.consumer_heartbeat_interval,
        ..groups::Settings::default()
    }
}
