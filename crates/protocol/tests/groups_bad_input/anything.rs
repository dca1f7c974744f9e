//! Requests of any kind with any numbers and names, in any order: nothing panics, every ticket is answered once, and what
//! replay gives is what was durable. Names are few, so that requests meet.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use protocol::groups::{
    Assignment, CommitPending, DeleteGroup, DeleteOffsets, EndTransaction, FetchOffsets, FetchTopic,
    LeaveGroup, LeavingMember, MemberPresence, Name, Request, TopicChange, TopicPartition,
};
use protocol::producers::ProducerId;
use record::{PartitionId, TopicId};

use crate::support::Dice;
use crate::{ORDERS, Stand, at_once, beat, commit, heartbeat_of, join_as, subscription, sync};

impl Dice {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let place = usize::try_from(self.roll(from.len() as u64)).expect("few");
        from[place]
    }

    fn number(&mut self) -> i32 {
        let small = i32::try_from(self.roll(12)).expect("small") - 3;
        self.pick(&[small, small, small, small, i32::MIN, i32::MAX, i32::MAX - 1])
    }

    fn member(&mut self, stand: &Stand, known: &[Name]) -> Name {
        let known = match known.len() {
            0 => Name::clone(&stand.ann),
            many => Name::clone(&known[usize::try_from(self.roll(many as u64)).expect("few")]),
        };
        match self.roll(8) {
            0 => Name::default(),
            1 => Name::from("ann"),
            2 => Name::from("bob"),
            3 => Name::from("\u{1F9F5}\u{0}"),
            _ => known,
        }
    }

    fn instance(&mut self) -> Option<Name> {
        self.pick(&[None, None, Some("one"), Some("two"), Some("")])
            .map(Name::from)
    }

    fn metadata(&mut self) -> Bytes {
        match self.roll(6) {
            0 => Bytes::new(),
            // An assignment of partitions that are there and of others.
            4 => Bytes::from_static(&[
                0, 0, 0, 0, 0, 1, 0, 6, b'o', b'r', b'd', b'e', b'r', b's', 0, 0, 0, 3, 0, 0, 0, 1, 0xff,
                0xff, 0xff, 0xfb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
            ]),
            1 => Bytes::from_static(&[0xff; 40]),
            // A version from the future, and counts that lie.
            2 => Bytes::from_static(&[0x7f, 0xff, 0, 0, 0, 1, 0, 1, b'a']),
            3 => Bytes::from_static(&[0, 0, 0x7f, 0xff, 0xff, 0xff]),
            _ => subscription(&["orders"]),
        }
    }

    fn request(&mut self, stand: &Stand, known: &[Name]) -> Request {
        let group = self.pick(&["classic", "consumer", "g", "h"]);
        let member = self.member(stand, known);
        match self.roll(10) {
            0 | 1 => {
                let mut joining = join_as(group, &member, "client", None, self.metadata());
                joining.instance = self.instance();
                joining.requires_known_member = self.one_in(2);
                joining.can_skip_assignment = self.one_in(2);
                joining.rebalance_timeout = self.pick(&[Duration::ZERO, Duration::from_secs(9)]);
                joining.random = u128::from(self.roll(u64::MAX));
                Request::Join(joining)
            }
            2 => sync(
                group,
                &member,
                self.number(),
                &[(&member, &self.metadata()), ("bob", b"x")],
            ),
            3 => beat(group, &member, self.number()),
            4 => Request::Leave(LeaveGroup {
                group: Name::from(group),
                members: (0..self.roll(3))
                    .map(|_| LeavingMember {
                        member: self.member(stand, known),
                        instance: self.instance(),
                    })
                    .collect(),
            }),
            5 => {
                let offset = self.pick(&[i64::MIN, -1, 0, 7, i64::MAX]);
                let partitions = [(self.number(), offset, 3), (0, offset, 5_000)];
                let commit = commit(group, &member, self.number(), &partitions);
                let epochs = [-1, 0, 1, 1, 2, i16::MAX];
                match self.roll(4) {
                    0 | 1 => Request::CommitOffsets(commit),
                    2 => Request::CommitPending(CommitPending {
                        producer: ProducerId(self.pick(&[-1, 1, 1, 2, i64::MAX])),
                        producer_epoch: self.pick(&epochs),
                        commit,
                    }),
                    _ => Request::EndTransaction(EndTransaction {
                        producer: ProducerId(self.pick(&[-1, 1, 1, 2, i64::MAX])),
                        producer_epoch: self.pick(&epochs),
                        coordinator_epoch: self.number(),
                        version: self.pick(&[0, 1, 2, i16::MIN]),
                        commit: self.one_in(2),
                    }),
                }
            }
            6 => {
                let partition = TopicPartition {
                    topic: Name::from("orders"),
                    index: self.number(),
                };
                let fetch = FetchOffsets {
                    group: Name::from(group),
                    member: Some((member, self.number())),
                    topics: Some(vec![FetchTopic {
                        topic: Name::clone(&partition.topic),
                        partitions: vec![partition.index],
                    }]),
                    require_stable: self.one_in(2),
                };
                let delete = DeleteOffsets {
                    group: Name::from(group),
                    partitions: vec![partition],
                };
                match self.roll(8) {
                    0 => Request::DeleteGroup(DeleteGroup {
                        group: Name::from(group),
                    }),
                    1..4 => Request::DeleteOffsets(delete),
                    _ => Request::FetchOffsets(fetch),
                }
            }
            _ => {
                let epoch = self.pick(&[0, 0, -1, -2, 1, 2, 3, 4, i32::MAX]);
                let presence = MemberPresence::from_epoch(epoch).expect("one that is");
                let mut heard = heartbeat_of(group, &member, presence);
                heard.instance = self.instance();
                let (negative, huge) = (self.number(), self.number());
                let owned = |indexes: &[i32]| -> Assignment {
                    let topic = |index: &i32| PartitionId {
                        topic: if *index % 2 == 0 { ORDERS } else { TopicId([9; 16]) },
                        index: *index,
                    };
                    indexes.iter().map(topic).collect()
                };
                match self.roll(4) {
                    0 => heard.regex = Some(Name::from(self.pick(&["o.*", "(", "", ".*"]))),
                    1 => heard.owned = Some(owned(&[negative, huge, 0])),
                    2 => heard.owned = Some(Assignment::default()),
                    _ => {}
                }
                Request::ConsumerHeartbeat(heard)
            }
        }
    }
}

fn topics(round: u64) -> TopicChange {
    TopicChange::There {
        topic: Name::from("orders"),
        id: ORDERS,
        partition_count: 2 + i32::try_from(round % 3).expect("small"),
    }
}

/// Every ticket is answered at last; then replay gives what was held.
fn finish(mut stand: Stand, asked: usize) {
    for _ in 0..100 {
        stand.now += Duration::from_secs(60);
        stand.settle();
    }
    assert_eq!(stand.answers.len(), asked, "every ticket is answered");
    stand.assert_replays(topics(2));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn anything_may_be_asked(seed: u64) {
        let mut dice = Dice(seed);
        let mut stand = Stand::empty(at_once());
        let mut asked = 0;
        let mut known: Vec<Name> = Vec::new();
        for round in 0..120 {
            stand.now += Duration::from_millis(dice.roll(4_000));
            if dice.one_in(20) {
                stand.coordinator.handle_topics(stand.now, [topics(round)]);
                stand.settle();
            }
            let request = dice.request(&stand, &known);
            stand.send(request);
            asked += 1;
            let told = stand.answers.values().rev().take(1).filter_map(|answer| match answer {
                protocol::groups::Answer::Join(Ok(joined)) => Some(Name::clone(&joined.member)),
                protocol::groups::Answer::Join(Err(protocol::groups::GroupError::MemberIdRequired { member })) => {
                    Some(Name::clone(member))
                }
                protocol::groups::Answer::ConsumerHeartbeat(Ok(heard)) => Some(Name::clone(&heard.member)),
                _ => None,
            });
            known.extend(told.collect::<Vec<_>>());
        }
        stand.coordinator.handle_topics(stand.now, [topics(2)]);
        finish(stand, asked);
    }
}
