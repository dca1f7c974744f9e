//! The operators' view of groups, and the answers about a group that is not there. Changes nothing.

use std::collections::BTreeMap;

use super::MemberPresence;
use super::consumer::{Asker, Step};
use super::consumer_protocol::CONSUMER_TYPE;
use super::context::Context;
use super::contract::{
    Answer, DescribedClassic, FetchedTopic, GroupError, GroupState, GroupType, LeftMember, ListGroups,
    ListedGroup, ListedGroups, Name, Request, Ticket,
};
use super::group::{Group, Kind};
use super::offsets::Offsets;
use super::rounds::WORK_AT_ONCE;
use super::topics::Topics;

impl Group {
    pub(crate) fn describe_classic(&self, _cx: &Context) -> Result<DescribedClassic, GroupError> {
        match &self.kind {
            Kind::Classic(classic) => Ok(classic.describe()),
            Kind::Consumer(_) => Err(self.not_found()),
        }
    }

    /// Answers ConsumerGroupDescribe, or has that planned if there is much to tell.
    pub(crate) fn describe_consumer(&self, cx: &mut Context, ticket: Ticket) {
        match &self.kind {
            Kind::Consumer(consumer) => {
                let describing = consumer.planning(cx, &self.name, Step::Describe, Asker::Describing(ticket));
                self.read_planned(cx, describing);
            }
            Kind::Classic(_) => {
                let answer = Answer::DescribeConsumer(Err(self.not_found()));
                cx.answer(ticket, answer);
            }
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

/// The next groups that a filter lets through.
pub(crate) fn list(groups: &BTreeMap<Name, Group>, filter: &ListGroups) -> ListedGroups {
    let passes = |wanted: &[Name], name: &str| {
        wanted.is_empty() || wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    // Looked for once, not once for each group: filters may be long.
    let states = GroupState::ALL.map(|state| (state, passes(&filter.states, state.name())));
    let types = GroupType::ALL.map(|kind| (kind, passes(&filter.types, kind.name())));
    let mut listed = ListedGroups::default();
    let mut work = 0;
    for (name, group) in groups.range(Name::clone(&filter.from)..) {
        if work >= WORK_AT_ONCE {
            listed.next = Some(Name::clone(name));
            break;
        }
        // Members are looked at to know the state.
        work += 1 + group.member_count();
        let (state, group_type) = (group.state(), group.group_type());
        if states.contains(&(state, true)) && types.contains(&(group_type, true)) {
            listed.groups.push(ListedGroup {
                group: Name::clone(name),
                protocol_type: group.protocol_type(),
                state,
                group_type,
            });
        }
    }
    listed
}

/// Says whether a request makes a group that is not there.
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
        Request::CommitPending(pending) => {
            let commit = &pending.commit;
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
        // As Kafka: who commits in a transaction knows no error for that the group is not there.
        Request::CommitPending(pending) => request.refused(GroupError::IllegalGeneration {
            current: -1,
            got: pending.commit.committer.generation_or_epoch,
        }),
        Request::FetchOffsets(fetch) => {
            let nothing: Vec<FetchedTopic> =
                Offsets::default().fetch(&Topics::default(), fetch.topics.as_deref(), fetch.require_stable);
            Answer::FetchOffsets(Ok(nothing))
        }
        _ => request.refused(GroupError::GroupNotFound {
            group: request.group().cloned().unwrap_or_default(),
        }),
    }
}
