//! What nobody should ask of a coordinator: each is refused with the error that Kafka has for it, and changes nothing: no
//! record is stored, no group is made, no member notices.

mod anything;
mod change_over;
mod large_groups;
mod limits;
mod many_groups;
mod members;
mod offsets;
mod patterns;
mod planned_beside;
mod room;
mod shares;
mod slow_log;
#[path = "../support/mod.rs"]
mod support;
mod transactions;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use protocol::groups::{
    Action, Answer, Assignment, CommitOffsets, CommitPartition, CommittedOffset, ConsumerHeartbeat,
    Coordinator, DescribeClassic, DescribeConsumer, FetchOffsets, FetchedTopic, GroupError, Heartbeat,
    JoinGroup, LeaveGroup, LeavingMember, MemberPresence, Name, OffsetCommitter, Protocol, Request, Settings,
    StoredRecord, SyncGroup, Ticket, TopicChange, TopicPartition,
};
use record::{Offset, TopicId};

/// A group of the classic protocol in its first generation, with `ann`; one of the consumer protocol at its first epoch,
/// with `ann`; and the topic that both read.
const CLASSIC: &str = "classic";
const CONSUMER: &str = "consumer";
const ORDERS: TopicId = TopicId([1; 16]);

/// A coordinator whose log takes everything at once.
struct Stand {
    now: Duration,
    coordinator: Coordinator,
    /// Everything that was stored.
    log: Vec<StoredRecord>,
    next_ticket: u64,
    answers: BTreeMap<Ticket, Answer>,
    /// The id that `ann` was given in the classic group.
    ann: Name,
}

impl Stand {
    fn empty(settings: Settings) -> Stand {
        Stand::of_log(settings, Vec::new())
    }

    fn of_log(settings: Settings, log: Vec<StoredRecord>) -> Stand {
        let mut coordinator = Coordinator::new(settings, 0);
        let topic = TopicChange::There {
            topic: Name::from("orders"),
            id: ORDERS,
            partition_count: 2,
        };
        coordinator.handle_topics(Duration::ZERO, [topic]);
        for record in &log {
            let read = coordinator.replay(&record.key, record.value.as_deref());
            read.expect("what was stored can be read");
        }
        coordinator.handle_loaded(Duration::ZERO);
        Stand {
            now: Duration::ZERO,
            coordinator,
            log,
            next_ticket: 0,
            answers: BTreeMap::new(),
            ann: Name::default(),
        }
    }

    /// Goes on with a coordinator that has read the log.
    fn restart(&mut self, settings: Settings) {
        let mut next = Stand::of_log(settings, std::mem::take(&mut self.log));
        next.next_ticket = self.next_ticket;
        *self = next;
    }

    fn new() -> Stand {
        Stand::with_groups(at_once())
    }

    fn with_groups(settings: Settings) -> Stand {
        let mut stand = Stand::empty(settings);
        let Answer::Join(Ok(joined)) = stand.ask(join(CLASSIC, "", "ann")) else {
            panic!("ann joins");
        };
        assert_eq!(joined.generation, 1);
        stand.ann = joined.member;
        let ann = stand.ann.to_string();
        let synced = stand.ask(sync(CLASSIC, &ann, 1, &[(&ann, b"everything")]));
        assert!(matches!(synced, Answer::Sync(Ok(_))), "{synced:?}");
        let heard = stand.ask(heartbeat(CONSUMER, "ann", MemberPresence::Joining));
        assert!(
            matches!(&heard, Answer::ConsumerHeartbeat(Ok(heard)) if heard.epoch == 1),
            "{heard:?}"
        );
        stand
    }

    fn send(&mut self, request: Request) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.coordinator.handle_request(self.now, ticket, request);
        self.settle();
        ticket
    }

    fn ask(&mut self, request: Request) -> Answer {
        let ticket = self.send(request);
        let answer = self.answers.remove(&ticket);
        answer.expect("it is answered when nothing else is to be done")
    }

    /// Asks what must be refused, and looks that nothing has changed.
    #[track_caller]
    fn refused(&mut self, request: Request) -> GroupError {
        let before = self.everything();
        let what = format!("{request:?}");
        let answer = self.ask(request);
        let error = error_in(&answer).unwrap_or_else(|| panic!("{what}: {answer:?}"));
        assert_eq!(self.everything(), before, "{what} changes nothing");
        error
    }

    fn settle(&mut self) {
        loop {
            while let Some(action) = self.coordinator.next_action() {
                match action {
                    Action::Plan(planning) => self.coordinator.handle_planned(self.now, planning.run()),
                    Action::Persist { id, records } => {
                        self.log.extend(records);
                        self.coordinator.handle_persisted(self.now, id, Ok(()));
                    }
                    Action::Answer { ticket, answer } => {
                        let other = self.answers.insert(ticket, answer);
                        assert!(other.is_none(), "a ticket is answered once");
                    }
                }
            }
            match self.coordinator.deadline() {
                Some(at) if at <= self.now => self.coordinator.handle_time(self.now),
                _ => break,
            }
        }
    }

    /// The log gives what the coordinator holds.
    fn assert_replays(&self, topics: TopicChange) {
        let mut next = Coordinator::new(at_once(), 0);
        next.handle_topics(Duration::ZERO, [topics]);
        for record in &self.log {
            next.replay(&record.key, record.value.as_deref())
                .expect("what was just stored can be read");
        }
        let held: Vec<StoredRecord> = self.coordinator.image().collect();
        assert_eq!(held, next.image().collect::<Vec<_>>());
    }

    /// What was and is stored and what operators see: two of these differ if anything has changed.
    fn everything(&mut self) -> (usize, Vec<StoredRecord>, usize, String) {
        let written = self.log.len();
        let stored = self.coordinator.image().collect();
        let groups = self.coordinator.group_count();
        let classic = self.ask(Request::DescribeClassic(DescribeClassic {
            group: Name::from(CLASSIC),
        }));
        let consumer = self.ask(Request::DescribeConsumer(DescribeConsumer {
            group: Name::from(CONSUMER),
        }));
        (written, stored, groups, format!("{classic:?} {consumer:?}"))
    }

    /// Partition and offset of all that a group has committed.
    fn committed(&mut self, group: &str) -> Vec<(i32, i64)> {
        let fetch = FetchOffsets {
            group: Name::from(group),
            member: None,
            topics: None,
            require_stable: false,
        };
        let Answer::FetchOffsets(Ok(topics)) = self.ask(Request::FetchOffsets(fetch)) else {
            panic!("anybody may fetch");
        };
        let partitions = topics.iter().flat_map(|topic: &FetchedTopic| &topic.partitions);
        let told = partitions.map(|found| {
            let committed = found
                .committed
                .as_ref()
                .expect("what is stable or not is not asked");
            let offset = committed.as_ref().map_or(-1, |committed| committed.offset.0);
            (found.index, offset)
        });
        told.collect()
    }
}

fn at_once() -> Settings {
    Settings {
        initial_rebalance_delay: Duration::ZERO,
        ..Settings::default()
    }
}

fn is_limit(error: &GroupError) -> bool {
    matches!(error, GroupError::LimitReached { .. })
}

/// The first error in an answer, wherever it stands.
fn error_in(answer: &Answer) -> Option<GroupError> {
    match answer {
        Answer::Join(answer) => answer.as_ref().err().cloned(),
        Answer::Sync(answer) => answer.as_ref().err().cloned(),
        Answer::Heartbeat(answer) | Answer::DeleteGroup(answer) | Answer::EndTransaction(answer) => {
            answer.as_ref().err().cloned()
        }
        Answer::Leave(Ok(left)) => left.iter().find_map(|left| left.outcome.clone().err()),
        Answer::CommitOffsets(Ok(outcomes))
        | Answer::CommitPending(Ok(outcomes))
        | Answer::DeleteOffsets(Ok(outcomes)) => outcomes.iter().find_map(|one| one.outcome.clone().err()),
        Answer::Leave(Err(error))
        | Answer::CommitOffsets(Err(error))
        | Answer::CommitPending(Err(error))
        | Answer::DeleteOffsets(Err(error)) => Some(error.clone()),
        Answer::FetchOffsets(answer) => answer.as_ref().err().cloned(),
        Answer::ConsumerHeartbeat(answer) => answer.as_ref().err().cloned(),
        Answer::DescribeClassic(answer) => answer.as_ref().err().cloned(),
        Answer::DescribeConsumer(answer) => answer.as_ref().err().cloned(),
        Answer::List(answer) => answer.as_ref().err().cloned(),
    }
}

fn join_as(group: &str, member: &str, client: &str, instance: Option<&str>, metadata: Bytes) -> JoinGroup {
    JoinGroup {
        group: Name::from(group),
        member: Name::from(member),
        instance: instance.map(Name::from),
        client_id: Name::from(client),
        client_host: Name::from("/10.0.0.1"),
        session_timeout: Duration::from_secs(10),
        rebalance_timeout: Duration::from_secs(60),
        protocol_type: Name::from("consumer"),
        protocols: vec![Protocol {
            name: Name::from("range"),
            metadata,
        }],
        requires_known_member: false,
        can_skip_assignment: true,
        random: 7,
    }
}

fn join(group: &str, member: &str, client: &str) -> Request {
    Request::Join(join_as(group, member, client, None, subscription(&["orders"])))
}

fn sync(group: &str, member: &str, generation: i32, assignments: &[(&str, &[u8])]) -> Request {
    Request::Sync(SyncGroup {
        group: Name::from(group),
        member: Name::from(member),
        instance: None,
        generation,
        protocol_type: None,
        protocol: None,
        assignments: assignments
            .iter()
            .map(|(member, assignment)| (Name::from(*member), Bytes::copy_from_slice(assignment)))
            .collect(),
    })
}

fn beat(group: &str, member: &str, generation: i32) -> Request {
    Request::Heartbeat(Heartbeat {
        group: Name::from(group),
        member: Name::from(member),
        instance: None,
        generation,
    })
}

fn leave(group: &str, member: &str, instance: Option<&str>) -> Request {
    Request::Leave(LeaveGroup {
        group: Name::from(group),
        members: vec![LeavingMember {
            member: Name::from(member),
            instance: instance.map(Name::from),
        }],
    })
}

fn commit(group: &str, member: &str, generation: i32, partitions: &[(i32, i64, usize)]) -> CommitOffsets {
    let partitions = partitions.iter().map(|(index, offset, note)| CommitPartition {
        partition: TopicPartition {
            topic: Name::from("orders"),
            index: *index,
        },
        topic_id: ORDERS,
        committed: CommittedOffset {
            offset: Offset(*offset),
            leader_epoch: None,
            metadata: Name::from("x".repeat(*note)),
        },
    });
    CommitOffsets {
        group: Name::from(group),
        client_host: "/host".into(),
        committer: OffsetCommitter {
            member: Name::from(member),
            instance: None,
            generation_or_epoch: generation,
            knows_epochs: true,
        },
        partitions: partitions.collect(),
    }
}

/// A heartbeat of the consumer protocol; one that joins subscribes to `orders`.
fn heartbeat_of(group: &str, member: &str, presence: MemberPresence) -> ConsumerHeartbeat {
    let joins = presence == MemberPresence::Joining;
    ConsumerHeartbeat {
        group: Name::from(group),
        member: Name::from(member),
        presence,
        instance: None,
        rack: None,
        client_id: Name::from("client"),
        client_host: Name::from("/10.0.0.1"),
        rebalance_timeout: joins.then_some(Duration::from_secs(60)),
        topics: joins.then(|| vec![Name::from("orders")]),
        regex: None,
        assignor: None,
        owned: joins.then(Assignment::default),
        random: 9,
    }
}

fn heartbeat(group: &str, member: &str, presence: MemberPresence) -> Request {
    Request::ConsumerHeartbeat(heartbeat_of(group, member, presence))
}

/// A subscription of the embedded consumer protocol, version 0.
fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    bytes.put_i32(i32::try_from(topics.len()).expect("few"));
    for topic in topics {
        bytes.put_i16(i16::try_from(topic.len()).expect("short"));
        bytes.put_slice(topic.as_bytes());
    }
    bytes.put_i32(-1);
    bytes.freeze()
}
