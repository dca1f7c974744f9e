//! What operators see of groups, and what everybody is told of a group that is not there. Changes nothing.

use super::consumer::Consumer;
use super::consumer_protocol::CONSUMER_TYPE;
use super::context::Context;
use super::contract::{
    Answer, DescribedClassic, DescribedConsumer, DescribedConsumerMember, FetchedTopic, GroupError,
    GroupState, GroupType, LeftMember, ListGroups, ListedGroup, Name, NamedPartitions, Request,
};
use super::group::{Group, Kind};
use super::offsets::Offsets;
use super::topics::Topics;
use super::{Assignment, MemberPresence};

impl Group {
    pub(crate) fn describe_classic(&self, _cx: &Context) -> Result<DescribedClassic, GroupError> {
        match &self.kind {
            Kind::Classic(classic) => Ok(classic.describe()),
            Kind::Consumer(_) => Err(self.not_found()),
        }
    }

    pub(crate) fn describe_consumer(&self, cx: &Context) -> Result<DescribedConsumer, GroupError> {
        match &self.kind {
            Kind::Consumer(consumer) => Ok(describe_consumer(consumer, &cx.topics)),
            Kind::Classic(_) => Err(self.not_found()),
        }
    }

    fn not_found(&self) -> GroupError {
        GroupError::GroupNotFound {
            group: Name::clone(&self.name),
        }
    }

    fn protocol_type(&self) -> Name {
        match &self.kind {
            Kind::Classic(classic) => classic.protocol_type().cloned().unwrap_or_default(),
            Kind::Consumer(_) => Name::from(CONSUMER_TYPE),
        }
    }
}

fn describe_consumer(consumer: &Consumer, topics: &Topics) -> DescribedConsumer {
    let members = consumer
        .members
        .iter()
        .map(|(name, member)| DescribedConsumerMember {
            member: Name::clone(name),
            instance: member.said.instance.clone(),
            rack: member.said.rack.clone(),
            client_id: Name::clone(&member.said.client_id),
            client_host: Name::clone(&member.said.client_host),
            epoch: member.current.epoch,
            rebalance_timeout: member.said.rebalance_timeout,
            topics: member.said.topics.clone(),
            regex: member.said.regex.clone(),
            assignment: named_partitions(topics, &member.current.assigned),
            target: named_partitions(topics, &member.target),
            is_classic: member.said.classic.is_some(),
        })
        .collect();
    DescribedConsumer {
        state: consumer.state(),
        epoch: consumer.epoch(),
        target_epoch: consumer.target_epoch(),
        assignor: Name::from(consumer.assignor_name()),
        members,
    }
}

fn named_partitions(topics: &Topics, assignment: &Assignment) -> Vec<NamedPartitions> {
    assignment
        .topics()
        .filter_map(|(id, indexes)| {
            let (topic, _) = topics.with_id(id)?;
            Some(NamedPartitions {
                topic: Name::clone(topic),
                id,
                partitions: indexes.iter().copied().collect(),
            })
        })
        .collect()
}

/// The groups that a filter lets through.
pub(crate) fn list<'a>(groups: impl Iterator<Item = &'a Group>, filter: &ListGroups) -> Vec<ListedGroup> {
    let passes = |wanted: &[Name], name: &str| {
        wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    // Looked for once, not once for each group: filters may be long.
    let states = GroupState::ALL.map(|state| (state, passes(&filter.states, state.name())));
    let types = GroupType::ALL.map(|kind| (kind, passes(&filter.types, kind.name())));
    groups
        .map(|group| ListedGroup {
            group: Name::clone(&group.name),
            protocol_type: group.protocol_type(),
            state: group.state(),
            group_type: group.group_type(),
        })
        .filter(|listed| states.contains(&(listed.state, true)) && types.contains(&(listed.group_type, true)))
        .collect()
}

/// Whether a request makes a group that is not there.
pub(crate) fn makes_group(request: &Request) -> bool {
    maker(request).is_some()
}

/// The address of the client whose request makes a group if there is none of that name.
pub(crate) fn maker(request: &Request) -> Option<&Name> {
    match request {
        Request::Join(join) => Some(&join.client_host).filter(|_| join.member.is_empty()),
        Request::CommitOffsets(commit) => {
            Some(&commit.client_host).filter(|_| commit.committer.generation_or_epoch < 0)
        }
        Request::ConsumerHeartbeat(heartbeat) => {
            Some(&heartbeat.client_host).filter(|_| heartbeat.presence == MemberPresence::Joining)
        }
        _ => None,
    }
}

/// The answer to a request about a group that is not there.
pub(crate) fn answer_without_group(request: &Request) -> Answer {
    let unknown = |member: &Name| GroupError::UnknownMember {
        member: Name::clone(member),
    };
    match request {
        Request::Join(join) => request.refused(unknown(&join.member)),
        Request::Sync(sync) => request.refused(unknown(&sync.member)),
        Request::Heartbeat(heartbeat) => request.refused(unknown(&heartbeat.member)),
        // It joins anew, as it should: its group was deleted or has expired.
        Request::ConsumerHeartbeat(heartbeat) => request.refused(unknown(&heartbeat.member)),
        Request::Leave(leave) => {
            let left = leave.members.iter().map(|leaving| LeftMember {
                member: Name::clone(&leaving.member),
                instance: leaving.instance.clone(),
                outcome: Err(unknown(&leaving.member)),
            });
            Answer::Leave(Ok(left.collect()))
        }
        Request::FetchOffsets(fetch) => {
            let nothing: Vec<FetchedTopic> =
                Offsets::default().fetch(&Topics::default(), fetch.topics.as_deref());
            Answer::FetchOffsets(Ok(nothing))
        }
        _ => request.refused(GroupError::GroupNotFound {
            group: request.group().cloned().unwrap_or_default(),
        }),
    }
}
