//! What the clients do: consumers by the new protocol, members of a classic group, and some who are in no group.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use protocol::groups::{
    Answer, Assignment, CommitOffsets, CommitPartition, CommittedOffset, ConsumerHeartbeat, DeleteGroup,
    DescribeGroup, GroupError, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, MemberPresence, Name,
    OffsetCommitter, Protocol, Request, SyncGroup, Ticket, TopicPartition,
};
use record::{Offset, PartitionId, TopicId};

use super::{CLASSICS, CLIENTS, CONSUMERS, SESSION, World};
use crate::{heartbeat, instance_of};

/// A consumer by the new protocol, as a careful client behaves: what it is told to have it takes, what it must give up
/// it gives up, sooner or later, and it forgets everything when its session is over or it is fenced.
#[derive(Default)]
pub(super) struct Client {
    instance: Option<Name>,
    member: Name,
    epoch: i32,
    /// What it works on.
    pub(super) has: BTreeSet<PartitionId>,
    /// What it was told to have.
    told: Assignment,
    /// When it sent the last heartbeat that was accepted: its session counts from there.
    heard_at: Duration,
    asked_at: Duration,
    /// The ticket that it waits for.
    pub(super) asked: Option<Ticket>,
    leaving: bool,
}

impl Client {
    pub(super) fn new(who: usize) -> Client {
        Client {
            instance: instance_of(who),
            ..Client::default()
        }
    }

    fn forget(&mut self) {
        *self = Client {
            instance: self.instance.take(),
            ..Client::default()
        };
    }
}

/// A member of a classic group.
#[derive(Default)]
pub(super) struct Joiner {
    instance: Option<Name>,
    member: Name,
    generation: i32,
    /// The generation below which none may follow.
    pub(super) seen: i32,
}

impl Joiner {
    pub(super) fn new(who: usize) -> Joiner {
        Joiner {
            instance: instance_of(who),
            ..Joiner::default()
        }
    }

    pub(super) fn hear(&mut self, answer: &Answer) {
        match answer {
            Answer::Join(Ok(joined)) => {
                assert!(
                    joined.member != self.member || joined.generation >= self.seen,
                    "generations only grow"
                );
                self.member = Name::clone(&joined.member);
                self.generation = joined.generation;
                self.seen = joined.generation;
            }
            Answer::Join(Err(GroupError::MemberIdRequired { member })) => self.member = Name::clone(member),
            Answer::Join(Err(GroupError::UnknownMember { .. } | GroupError::FencedInstance { .. }))
            | Answer::Heartbeat(Err(GroupError::UnknownMember { .. } | GroupError::FencedInstance { .. })) => {
                *self = Joiner {
                    instance: self.instance.take(),
                    ..Joiner::default()
                };
            }
            _ => {}
        }
    }
}

impl World {
    pub(super) fn consumer_acts(&mut self) {
        let who = usize::try_from(self.dice.roll(CLIENTS as u64)).expect("few");
        if self.clients[who].asked.is_some() {
            return;
        }
        let joins = self.clients[who].epoch == 0;
        if joins {
            self.lives += 1;
            self.clients[who].member = Name::from(format!("c{who}-{}", self.lives));
        } else {
            // Lets go of what it must not have any more, if it is not slow.
            if !self.dice.one_in(4) {
                let told = self.clients[who].told.clone();
                self.clients[who]
                    .has
                    .retain(|partition| told.contains(*partition));
            }
            self.clients[who].leaving = self.dice.one_in(12);
        }
        let request = self.consumer_heartbeat(who, joins);
        let ticket = self.ask(who, Request::ConsumerHeartbeat(request));
        self.clients[who].asked = Some(ticket);
        self.clients[who].asked_at = self.now;
    }

    fn consumer_heartbeat(&mut self, who: usize, joins: bool) -> ConsumerHeartbeat {
        let changes_wishes = joins || self.dice.one_in(8);
        let topics = match self.dice.roll(3) {
            0 => vec!["a"],
            1 => vec!["b"],
            _ => vec!["a", "b"],
        };
        let for_a_while = self.dice.one_in(2);
        let client = &mut self.clients[who];
        if client.leaving {
            // It lets go of everything before it says so.
            client.has.clear();
        }
        let presence = match (joins, client.leaving) {
            (true, _) => MemberPresence::Joining,
            (false, true) if for_a_while && client.instance.is_some() => MemberPresence::LeavingForAWhile,
            (false, true) => MemberPresence::Leaving,
            (false, false) => MemberPresence::At(client.epoch),
        };
        let owned = client.has.iter().copied().collect();
        ConsumerHeartbeat {
            instance: client.instance.clone(),
            topics: changes_wishes.then(|| topics.into_iter().map(Name::from).collect()),
            ..heartbeat(CONSUMERS, &client.member, presence, owned)
        }
    }

    pub(super) fn hear_consumer(&mut self, who: usize, answer: &Answer) {
        // One answer in ten gets lost on its way.
        let lost = self.dice.one_in(10);
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
                client.epoch = heard.epoch;
                client.heard_at = client.asked_at;
                if let Some(assignment) = &heard.assignment {
                    client.told = assignment.clone();
                    client.has.extend(assignment.iter());
                }
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

    /// A client that has heard nothing for a session does not go on working.
    pub(super) fn expire_clients(&mut self) {
        for client in &mut self.clients {
            if client.epoch > 0 && self.now >= client.heard_at + SESSION {
                client.has.clear();
            }
        }
    }

    pub(super) fn classic_acts(&mut self) {
        let who = usize::try_from(self.dice.roll(CLIENTS as u64)).expect("few");
        let group = Name::from(CLASSICS);
        let member = Name::clone(&self.joiners[who].member);
        let instance = self.joiners[who].instance.clone();
        let generation = self.joiners[who].generation;
        let request = match self.dice.roll(10) {
            0..4 => Request::Join(JoinGroup {
                group,
                member,
                instance,
                client_id: Name::from("j"),
                client_host: Name::from("/h"),
                session_timeout: Duration::from_secs(10),
                rebalance_timeout: Duration::from_secs(5),
                protocol_type: Name::from("consumer"),
                protocols: vec![Protocol {
                    name: Name::from("range"),
                    metadata: Bytes::from(vec![0; usize::try_from(self.dice.roll(3)).expect("few")]),
                }],
                requires_known_member: self.dice.one_in(2),
                can_skip_assignment: true,
                random: u128::from(self.next_ticket) + 1,
            }),
            4..6 => Request::Sync(SyncGroup {
                group,
                member: Name::clone(&member),
                instance,
                generation,
                protocol_type: None,
                protocol: None,
                assignments: vec![(member, Bytes::from_static(b"x"))],
            }),
            6..8 => Request::Heartbeat(Heartbeat {
                group,
                member,
                instance,
                generation,
            }),
            8 => Request::CommitOffsets(commit(group, member, instance, generation)),
            _ => Request::Leave(LeaveGroup {
                group,
                members: vec![LeavingMember { member, instance }],
            }),
        };
        self.ask(CLIENTS + who, request);
    }

    pub(super) fn outsider_acts(&mut self) {
        let group =
            Name::from(["outside", CONSUMERS, CLASSICS][usize::try_from(self.dice.roll(3)).expect("few")]);
        let request = match self.dice.roll(4) {
            0 => Request::DeleteGroup(DeleteGroup { group }),
            1 => Request::DescribeConsumer(DescribeGroup { group }),
            _ => Request::CommitOffsets(commit(group, Name::default(), None, -1)),
        };
        self.ask(2 * CLIENTS, request);
    }
}

fn commit(group: Name, member: Name, instance: Option<Name>, generation: i32) -> CommitOffsets {
    CommitOffsets {
        group,
        committer: OffsetCommitter {
            member,
            instance,
            generation_or_epoch: generation,
        },
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
