//! What the clients do: consumers by the new protocol, members of a classic group, and some who are in no group.

use bytes::Bytes;
use protocol::groups::{
    Answer, CommitOffsets, CommitPartition, CommittedOffset, ConsumerHeartbeat, DeleteGroup,
    DescribeConsumer, GroupError, JoinGroup, Name, OffsetCommitter, Request, TopicPartition,
};
use record::{Offset, TopicId};

use super::{CLASSICS, CLIENTS, CONSUMERS, World};
use crate::member::Member;

/// A member of a classic group.
pub(super) struct Joiner {
    member: Member,
    /// The generation below which none may follow.
    pub(super) seen: i32,
}

impl Joiner {
    pub(super) fn new(who: usize) -> Joiner {
        Joiner {
            member: Member::new(who),
            seen: 0,
        }
    }

    pub(super) fn hear(&mut self, answer: &Answer) {
        match answer {
            Answer::Join(Ok(joined)) => {
                assert!(
                    joined.member != self.member.id || joined.generation >= self.seen,
                    "generations only grow"
                );
                self.member.id = Name::clone(&joined.member);
                self.member.epoch = joined.generation;
                self.seen = joined.generation;
            }
            Answer::Join(Err(GroupError::MemberIdRequired { member })) => {
                self.member.id = Name::clone(member);
            }
            Answer::Join(Err(GroupError::UnknownMember { .. } | GroupError::FencedInstance { .. }))
            | Answer::Heartbeat(Err(GroupError::UnknownMember { .. } | GroupError::FencedInstance { .. })) => {
                self.member.forget();
                self.seen = 0;
            }
            _ => {}
        }
    }
}

impl World {
    pub(super) fn consumer_acts(&mut self) {
        let who = usize::try_from(self.host.dice.roll(CLIENTS as u64)).expect("few");
        if self.clients[who].asked.is_some() {
            return;
        }
        let joins = self.clients[who].epoch == 0;
        if joins {
            self.clients[who].id = self.host.new_id(who);
        } else {
            let is_slow = self.host.dice.one_in(4);
            if !is_slow {
                self.clients[who].let_go();
            }
            self.clients[who].leaving = self.host.dice.one_in(12);
        }
        let request = self.consumer_heartbeat(who, joins);
        let ticket = self.host.ask(who, Request::ConsumerHeartbeat(request));
        self.clients[who].wait_for(ticket, self.host.now);
    }

    fn consumer_heartbeat(&mut self, who: usize, joins: bool) -> ConsumerHeartbeat {
        let changes_wishes = joins || self.host.dice.one_in(8);
        let topics = match self.host.dice.roll(3) {
            0 => vec!["a"],
            1 => vec!["b"],
            _ => vec!["a", "b"],
        };
        let for_a_while = self.host.dice.one_in(2);
        let client = &mut self.clients[who];
        if client.leaving {
            // It lets go of everything before it says so.
            client.has.clear();
        }
        ConsumerHeartbeat {
            topics: changes_wishes.then(|| topics.into_iter().map(Name::from).collect()),
            ..client.heartbeat(CONSUMERS, for_a_while)
        }
    }

    pub(super) fn hear_consumer(&mut self, who: usize, answer: &Answer) {
        // One answer in ten gets lost on its way.
        let lost = self.host.dice.one_in(10);
        let client = &mut self.clients[who];
        client.asked = None;
        if lost && client.epoch > 0 && !client.leaving {
            return;
        }
        match answer {
            Answer::ConsumerHeartbeat(Ok(heard)) => {
                if heard.epoch < 0 || lost {
                    client.forget();
                    return;
                }
                assert!(heard.epoch >= client.epoch, "a member's epoch only grows");
                client.hear(heard);
            }
            Answer::ConsumerHeartbeat(Err(
                GroupError::UnknownMember { .. }
                | GroupError::FencedMemberEpoch { .. }
                | GroupError::FencedInstance { .. }
                | GroupError::UnreleasedInstance { .. }
                | GroupError::GroupFull { .. },
            )) => client.forget(),
            Answer::ConsumerHeartbeat(Err(GroupError::NotPersisted | GroupError::Loading)) => {}
            other => panic!("a client that keeps the rules gets {other:?}"),
        }
    }

    pub(super) fn classic_acts(&mut self) {
        let who = usize::try_from(self.host.dice.roll(CLIENTS as u64)).expect("few");
        let random = self.host.random();
        let member = &self.joiners[who].member;
        let request = match self.host.dice.roll(10) {
            0..4 => {
                let metadata = vec![0; usize::try_from(self.host.dice.roll(3)).expect("few")];
                Request::Join(JoinGroup {
                    requires_known_member: self.host.dice.one_in(2),
                    can_skip_assignment: true,
                    random,
                    ..member.join(CLASSICS, Bytes::from(metadata))
                })
            }
            4..6 => {
                let assignments = vec![(Name::clone(&member.id), Bytes::from_static(b"x"))];
                Request::Sync(member.sync(CLASSICS, assignments))
            }
            6..8 => Request::Heartbeat(member.beat(CLASSICS)),
            8 => {
                let committer = OffsetCommitter {
                    member: Name::clone(&member.id),
                    instance: member.instance.clone(),
                    generation_or_epoch: member.epoch,
                    knows_epochs: true,
                };
                Request::CommitOffsets(commit(CLASSICS, committer))
            }
            _ => Request::Leave(member.leave(CLASSICS)),
        };
        self.host.ask(CLIENTS + who, request);
    }

    pub(super) fn outsider_acts(&mut self) {
        let which = usize::try_from(self.host.dice.roll(3)).expect("few");
        let group = ["outside", CONSUMERS, CLASSICS][which];
        let request = match self.host.dice.roll(4) {
            0 => Request::DeleteGroup(DeleteGroup {
                group: Name::from(group),
            }),
            1 => Request::DescribeConsumer(DescribeConsumer {
                group: Name::from(group),
            }),
            _ => {
                let committer = OffsetCommitter {
                    member: Name::default(),
                    instance: None,
                    generation_or_epoch: -1,
                    knows_epochs: true,
                };
                Request::CommitOffsets(commit(group, committer))
            }
        };
        self.host.ask(2 * CLIENTS, request);
    }
}

fn commit(group: &str, committer: OffsetCommitter) -> CommitOffsets {
    CommitOffsets {
        group: Name::from(group),
        client_host: "/host".into(),
        committer,
        partitions: vec![CommitPartition {
            partition: TopicPartition {
                topic: Name::from("a"),
                index: 0,
            },
            topic_id: TopicId([1; 16]),
            committed: CommittedOffset {
                offset: Offset(1),
                leader_epoch: None,
                metadata: Name::default(),
            },
        }],
    }
}
