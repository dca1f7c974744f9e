//! The settings of a coordinator: timeouts, retention, and the limits that come before every allocation.
//!
//! Names in parentheses are Kafka's broker configs. Data only; `check` refuses what a request has too much of.

use std::collections::BTreeSet;
use std::time::Duration;

use super::contract::{CommitOffsets, ConsumerHeartbeat, FetchTopic, GroupError, JoinGroup, Name, Request};
use super::rounds::WORK_AT_ONCE;
use crate::producers::ProducerId;

/// Bytes behind the client's name in the id of a member: a hyphen and a UUID.
const MEMBER_SUFFIX_BYTES: usize = 37;
/// Bytes that a record of an offset takes beside its texts, at most.
pub(crate) const OFFSET_RECORD_BYTES: usize = 128;

/// The settings of a coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The longest name of a group, in bytes.
    pub group_bytes_max: usize,
    /// The longest of any other name that a client chooses: member, instance, client, host, protocol, assignor.
    pub name_bytes_max: usize,
    /// Groups of one coordinator.
    pub groups_max: usize,
    /// Groups that clients from one address may have made, of those that are there.
    pub groups_per_client_max: usize,
    /// Members of a group (`group.max.size`, `group.consumer.max.size`).
    pub members_max: usize,
    /// Assignors that a member of a classic group may name.
    pub protocols_max: usize,
    /// Metadata of one member, all its protocols together, in bytes.
    pub member_metadata_bytes_max: usize,
    /// Bytes that the members of one classic group may say of themselves, all together. With `assignment_bytes_max` it must
    /// fit into one batch of the groups' log, and so must a group that changes over to the other protocol.
    pub classic_bytes_max: usize,
    /// The same for a group of the consumer protocol, where each member has a record of its own.
    pub consumer_bytes_max: usize,
    /// Bytes that all groups of one coordinator may take in memory, roughly. Beyond that nothing grows.
    pub held_bytes_max: usize,
    /// The same for the groups that clients from one address have made.
    pub held_bytes_per_client_max: usize,
    /// Bytes that requests may take that wait for a change of their group, all of one coordinator together.
    pub waiting_bytes_max: usize,
    /// Bytes that the leader of a classic group may hand out, all members together.
    pub assignment_bytes_max: usize,
    /// Topics that a member may name.
    pub subscription_topics_max: usize,
    /// The longest regular expression, in bytes.
    pub regex_bytes_max: usize,
    /// Bytes that a compiled regular expression may take.
    pub regex_compiled_bytes_max: usize,
    /// Bytes that the states of one may take that all topics' names together lead to. It bounds the time for all of them.
    pub regex_states_bytes_max: usize,
    /// Regular expressions that the members of one group may have, each counted once.
    pub regexes_max: usize,
    /// Bytes that a client may note beside an offset (`offset.metadata.max.bytes`).
    pub offset_metadata_bytes_max: usize,
    /// Bytes that one commit may make the groups' log take: it must fit into one batch of it. What takes offsets away is
    /// done in parts of this size.
    pub commit_bytes_max: usize,
    /// Partitions that a group may have offsets of; and pending offsets that it may have, whether of these or others.
    pub offsets_max: usize,
    /// Things that a change of a consumer group is planned with in one call: members, names of topics and partitions together. What
    /// takes more is planned beside the coordinator.
    pub planned_at_once_max: usize,
    /// (`group.min.session.timeout.ms`.)
    pub session_timeout_min: Duration,
    /// (`group.max.session.timeout.ms`.)
    pub session_timeout_max: Duration,
    /// The time that an empty classic group waits for more members (`group.initial.rebalance.delay.ms`).
    pub initial_rebalance_delay: Duration,
    /// The time that a new member of a classic group may wait for its first generation.
    pub first_join_timeout: Duration,
    /// The time that offsets of empty groups are kept (`offsets.retention.minutes`).
    pub offsets_retention: Duration,
    /// The time between two looks at them (`offsets.retention.check.interval.ms`).
    pub offsets_check_interval: Duration,
    /// (`group.consumer.session.timeout.ms`.)
    pub consumer_session_timeout: Duration,
    /// (`group.consumer.heartbeat.interval.ms`.)
    pub consumer_heartbeat_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            group_bytes_max: 512,
            name_bytes_max: 1024,
            groups_max: 100_000,
            groups_per_client_max: 25_000,
            members_max: 10_000,
            protocols_max: 32,
            member_metadata_bytes_max: 256 * 1024,
            classic_bytes_max: 7 * 1024 * 1024,
            consumer_bytes_max: 64 * 1024 * 1024,
            held_bytes_max: 512 * 1024 * 1024,
            held_bytes_per_client_max: 256 * 1024 * 1024,
            waiting_bytes_max: 64 * 1024 * 1024,
            assignment_bytes_max: 8 * 1024 * 1024,
            subscription_topics_max: 10_000,
            regex_bytes_max: 1024,
            regex_compiled_bytes_max: 64 * 1024,
            regex_states_bytes_max: 512 * 1024,
            regexes_max: 100,
            offset_metadata_bytes_max: 4096,
            commit_bytes_max: 8 * 1024 * 1024,
            offsets_max: 100_000,
            planned_at_once_max: WORK_AT_ONCE,
            session_timeout_min: Duration::from_secs(6),
            session_timeout_max: Duration::from_secs(30 * 60),
            initial_rebalance_delay: Duration::from_secs(3),
            first_join_timeout: Duration::from_secs(5 * 60),
            offsets_retention: Duration::from_secs(7 * 24 * 60 * 60),
            offsets_check_interval: Duration::from_secs(10 * 60),
            consumer_session_timeout: Duration::from_secs(45),
            consumer_heartbeat_interval: Duration::from_secs(5),
        }
    }
}

impl Settings {
    /// Refuses a request that is too large in any of its parts, or that misses what every group needs.
    pub(crate) fn check(&self, request: &Request) -> Result<(), GroupError> {
        if let Some(group) = request.group() {
            self.check_group(group, request)?;
        }
        match request {
            Request::Join(join) => self.check_join(join),
            Request::Sync(sync) => {
                let bytes: usize = sync.assignments.iter().map(|(_, bytes)| bytes.len()).sum();
                within(bytes, self.assignment_bytes_max, "bytes of assignments")
            }
            Request::ConsumerHeartbeat(heartbeat) => self.check_consumer_heartbeat(heartbeat),
            Request::CommitOffsets(commit) => self.check_commit(commit),
            Request::CommitPending(pending) => {
                check_producer(pending.producer, pending.producer_epoch)?;
                self.check_commit(&pending.commit)
            }
            Request::EndTransaction(end) => check_producer(end.producer, end.producer_epoch),
            Request::FetchOffsets(fetch) => check_once(fetch.topics.as_deref().unwrap_or_default()),
            _ => Ok(()),
        }
    }

    /// Old clients commit and fetch offsets under the empty name, in no group at all; so does Kafka allow.
    fn check_group(&self, group: &Name, request: &Request) -> Result<(), GroupError> {
        if group.is_empty() && matches!(request, Request::ConsumerHeartbeat(_)) {
            return Err(GroupError::InvalidRequest {
                what: "a group's name must not be empty",
            });
        }
        let may_be_empty = matches!(
            request,
            Request::CommitOffsets(_)
                | Request::FetchOffsets(_)
                | Request::DescribeClassic(_)
                | Request::DeleteGroup(_)
        );
        if group.len() > self.group_bytes_max || (group.is_empty() && !may_be_empty) {
            return Err(GroupError::InvalidGroupId {
                bytes: group.len(),
                bytes_max: self.group_bytes_max,
            });
        }
        Ok(())
    }

    fn check_join(&self, join: &JoinGroup) -> Result<(), GroupError> {
        let (min, max) = (self.session_timeout_min, self.session_timeout_max);
        if join.session_timeout < min || join.session_timeout > max {
            return Err(GroupError::InvalidSessionTimeout {
                min,
                max,
                got: join.session_timeout,
            });
        }
        self.check_member(&join.member)?;
        for name in [&join.client_id, &join.client_host, &join.protocol_type] {
            self.check_name(name)?;
        }
        self.check_instance(join.instance.as_ref())?;
        within(join.protocols.len(), self.protocols_max, "protocols")?;
        for protocol in &join.protocols {
            self.check_name(&protocol.name)?;
        }
        let bytes: usize = join
            .protocols
            .iter()
            .map(|protocol| protocol.metadata.len())
            .sum();
        within(bytes, self.member_metadata_bytes_max, "bytes of metadata")
    }

    fn check_consumer_heartbeat(&self, heartbeat: &ConsumerHeartbeat) -> Result<(), GroupError> {
        self.check_member(&heartbeat.member)?;
        for name in [&heartbeat.client_id, &heartbeat.client_host] {
            self.check_name(name)?;
        }
        self.check_instance(heartbeat.instance.as_ref())?;
        if heartbeat.rack.as_deref() == Some("") {
            return Err(GroupError::InvalidRequest {
                what: "a rack's name must not be empty",
            });
        }
        for name in [&heartbeat.rack, &heartbeat.assignor].into_iter().flatten() {
            self.check_name(name)?;
        }
        if let Some(regex) = &heartbeat.regex {
            within(regex.len(), self.regex_bytes_max, "bytes of a regular expression")?;
        }
        if let Some(topics) = &heartbeat.topics {
            within(topics.len(), self.subscription_topics_max, "topics")?;
            topics.iter().try_for_each(|topic| self.check_name(topic))?;
        }
        Ok(())
    }

    fn check_commit(&self, commit: &CommitOffsets) -> Result<(), GroupError> {
        self.check_member(&commit.committer.member)?;
        let mut bytes = 0;
        for wanted in &commit.partitions {
            self.check_name(&wanted.partition.topic)?;
            // A text that is too long by itself is refused by itself, and stored nowhere.
            let noted = wanted
                .committed
                .metadata
                .len()
                .min(self.offset_metadata_bytes_max);
            bytes += OFFSET_RECORD_BYTES + commit.group.len() + wanted.partition.topic.len() + noted;
        }
        within(bytes, self.commit_bytes_max, "bytes of offsets in one commit")
    }

    fn check_instance(&self, instance: Option<&Name>) -> Result<(), GroupError> {
        match instance {
            Some(instance) if instance.is_empty() => Err(GroupError::InvalidRequest {
                what: "an instance id must not be empty",
            }),
            Some(instance) => self.check_name(instance),
            None => Ok(()),
        }
    }

    /// Ids of members are made here, of a name that the client chose.
    fn check_member(&self, member: &Name) -> Result<(), GroupError> {
        let max = self.name_bytes_max + MEMBER_SUFFIX_BYTES;
        within(member.len(), max, "bytes of a member's id")
    }

    fn check_name(&self, name: &Name) -> Result<(), GroupError> {
        within(name.len(), self.name_bytes_max, "bytes of a name")
    }
}

/// An answer says all that was noted beside an offset: asked for often enough, the same one would fill the memory.
fn check_once(topics: &[FetchTopic]) -> Result<(), GroupError> {
    let mut seen = BTreeSet::new();
    let mut partitions = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(move |index| (&topic.topic, *index)));
    if partitions.all(|partition| seen.insert(partition)) {
        return Ok(());
    }
    Err(GroupError::InvalidRequest {
        what: "a partition is asked for twice",
    })
}

fn check_producer(producer: ProducerId, epoch: i16) -> Result<(), GroupError> {
    if producer.0 >= 0 && epoch >= 0 {
        return Ok(());
    }
    Err(GroupError::InvalidRequest {
        what: "the id and the epoch of a producer are not negative",
    })
}

fn within(got: usize, max: usize, what: &'static str) -> Result<(), GroupError> {
    if got > max {
        Err(GroupError::LimitReached { what, max })
    } else {
        Ok(())
    }
}
