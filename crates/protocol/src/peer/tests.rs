//! Messages read back as they were written, whole and in parts; damaged and forged ones are errors that say what is wrong.

mod any;
mod batches;
mod damage;
mod forgeries;
mod golden;
mod round_trip;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use record::{
    BatchBuilder, ClusterId, Compression, DirectoryId, Epoch, Offset, PartitionId, Position, TopicId,
};

use super::*;
use crate::epochs::Run;
use crate::leader::NodeId;
use crate::metadata::{Address, FeatureLevel, Home};
use crate::order::{Committed, Ordered, Report};
use crate::replica::lease::{Beat, Believer, Echo, GRANT};
use crate::replica::{Base, Landmark, NO_EPOCH, Prompt, Refusal, Standing, Sworn};

/// Longer than any message of these tests.
const BODY_BYTES_MAX: usize = 64 << 10;

fn bytes_of(message: &Message) -> Vec<u8> {
    let Encoded { head, batches } = message.encode();
    [head, batches].concat()
}

/// The decoder of a connection that has come as far as it has to for this kind.
fn decoder_for(kind: Kind) -> Decoder {
    match kind {
        Kind::Hello | Kind::Refused | Kind::Join | Kind::Joined => Decoder::new(BODY_BYTES_MAX),
        Kind::Heartbeat
        | Kind::Prompt
        | Kind::Sworn
        | Kind::Group
        | Kind::Proposal
        | Kind::Peers
        | Kind::Durable
        | Kind::Witnessed
        | Kind::Beat
        | Kind::RangeWish
        | Kind::RangeAnswer
        | Kind::Relay
        | Kind::Http
        | Kind::Committed
        | Kind::Ordered
        | Kind::Ask
        | Kind::Told => admitted(BODY_BYTES_MAX),
    }
}

/// The decoder of a connection whose peer was admitted.
fn admitted(body_bytes_max: usize) -> Decoder {
    let mut decoder = Decoder::new(body_bytes_max);
    let greeting = decoder.next_message(&mut BytesMut::from(&bytes_of(&hello())[..]));
    assert_eq!(greeting, Ok(Some(hello())));
    decoder.handle_admitted(WIRE_VERSIONS.highest);
    decoder
}

/// Reads a message that is of this kind and alone.
fn read(kind: Kind, bytes: &[u8]) -> Result<Option<Message>, MessageError> {
    decoder_for(kind).next_message(&mut BytesMut::from(bytes))
}

/// The versions that the first nodes spoke: their greetings have stayed as they were.
const FIRST_VERSIONS: Versions = Versions {
    lowest: 1,
    highest: 1,
};

fn hello() -> Message {
    Message::Hello(Hello {
        versions: FIRST_VERSIONS,
        cluster: ClusterId([0xc1; 16]),
        node: NodeId(3),
        directory: DirectoryId([0xd3; 16]),
        incarnation: 0x0102_0304,
        shards: 8,
        pair: ShardPair { from: 7, to: 2 },
        feature_level: FeatureLevel(1),
        image_offset: Offset(0x0a0b_0c0d),
    })
}

fn partition() -> PartitionId {
    PartitionId {
        topic: TopicId([0x77; 16]),
        index: 5,
    }
}

fn to_replica(message: ReplicaMessage) -> Message {
    let partition = partition();
    Message::Replica { partition, message }
}

fn range(batches: Bytes) -> Message {
    Message::RangeAnswer(RangeAnswer {
        partition: partition(),
        number: 9,
        batches,
    })
}

fn prompt(prompt: Prompt<Bytes>) -> Message {
    to_replica(ReplicaMessage::Prompt(prompt))
}

/// A message of node 1's that goes on to these.
fn relay(onward: &[i32], prompt: Prompt<Bytes>) -> Message {
    Message::Relay(Relay {
        way: Way {
            leader: NodeId(1),
            onward: onward.iter().copied().map(NodeId).collect(),
        },
        partition: partition(),
        prompt,
    })
}

fn sworn(sworn: Sworn) -> Message {
    to_replica(ReplicaMessage::Sworn(sworn))
}

/// A batch of so many records at an offset.
fn batch(epoch: i32, first_offset: i64, records: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(9, 1, 30);
    for number in 0..records {
        builder.append(1_700_000_000_000 + number as i64, None, Some(b"value"), &[]);
    }
    let mut batch = builder.build().to_vec();
    record::set_base_offset(&mut batch, Offset(first_offset));
    record::set_leader_epoch(&mut batch, Epoch(epoch));
    batch
}

fn run() -> Run {
    Run {
        writer: Epoch(4),
        first_offset: Offset(100),
        next_offset: Offset(200),
        followed_by: Some(Epoch(6)),
    }
}

fn base() -> Base {
    Base {
        first: Offset(150),
        run: Some(run()),
        covered: Offset(180),
        history: Bytes::from_static(b"a history"),
    }
}

/// One message of each kind, and of each form that a kind has, by its name.
fn one_of_each() -> Vec<(&'static str, Message)> {
    let epoch = Epoch(7);
    let at = Offset(0x0102_0304_0506);
    let writer_before = Epoch(6);
    let last_run = Run {
        followed_by: None,
        ..run()
    };
    let bare = Base { run: None, ..base() };
    let standing = Standing {
        accepted: Epoch(6),
        last_writer: Epoch(4),
        log_start: Offset(10),
        tail: Offset(20),
        next_offset: Offset(30),
        is_certain: true,
    };
    let empty = Standing {
        accepted: NO_EPOCH,
        last_writer: NO_EPOCH,
        log_start: Offset::ZERO,
        tail: Offset::ZERO,
        next_offset: Offset::ZERO,
        is_certain: false,
    };
    let append = Prompt::Append {
        epoch,
        writer_before,
        batches: [batch(6, 40, 2), batch(7, 42, 1)].concat().into(),
    };
    let compare = |landmark| prompt(Prompt::Compare { epoch, landmark });
    let located = |landmark| sworn(Sworn::Located { epoch, landmark });
    let refused = |refusal| prompt(Prompt::Refused { epoch, refusal });
    let text = "node 9 is not a member as far as node 1 knows".to_owned();
    vec![
        ("hello", hello()),
        (
            "refused",
            Message::Refused(Refused::new(Reason::UnknownNode, text)),
        ),
        ("heartbeat", Message::Heartbeat(Heartbeat { image_offset: at })),
        ("seal", prompt(Prompt::Seal { epoch })),
        ("locate", prompt(Prompt::Locate { epoch, at })),
        ("copy", prompt(Prompt::Copy { epoch, first: at })),
        ("compare-run", compare(Landmark::Run(run()))),
        ("compare-last-run", compare(Landmark::Run(last_run))),
        ("compare-end", compare(Landmark::End(at))),
        ("compare-base", compare(Landmark::Base(base()))),
        ("differs", prompt(Prompt::Differs { epoch, at })),
        ("append", prompt(append)),
        (
            "accept",
            prompt(Prompt::Accept {
                epoch,
                first: at,
                writer_before,
            }),
        ),
        ("commit", prompt(Prompt::Commit { epoch, tail: at })),
        ("trim", prompt(Prompt::Trim { epoch, log_start: at })),
        ("refused-fenced", refused(Refusal::Fenced { floor: Epoch(8) })),
        ("refused-apart", refused(Refusal::Apart { tail: at })),
        ("refused-committed", refused(Refusal::Committed { tail: at })),
        (
            "promised",
            sworn(Sworn::Promised {
                epoch,
                standing,
                believers: vec![
                    Believer {
                        node: Some(NodeId(3)),
                        left: Duration::from_millis(70),
                    },
                    Believer {
                        node: None,
                        left: GRANT,
                    },
                ],
            }),
        ),
        (
            "promised-empty",
            sworn(Sworn::Promised {
                epoch,
                standing: empty,
                believers: Vec::new(),
            }),
        ),
        ("located-run", located(Landmark::Run(run()))),
        ("located-end", located(Landmark::End(at))),
        ("located-base", located(Landmark::Base(bare))),
        (
            "acknowledged",
            sworn(Sworn::Acknowledged {
                epoch,
                accepted: Epoch(6),
                next_offset: at,
            }),
        ),
        ("join", join(Some(NodeId(4)), true)),
        ("join-any", join(None, false)),
        (
            "joined",
            Message::Joined(Joined {
                cluster: ClusterId([0xc1; 16]),
                node: NodeId(4),
            }),
        ),
        ("group", Message::Group(Bytes::from_static(b"a message"))),
        ("proposal", Message::Proposal(Bytes::from_static(b"an entry"))),
        (
            "peers",
            Message::Peers(vec![Address {
                host: "hemp".into(),
                port: 7000,
            }]),
        ),
        ("durable", Message::Durable(vec![0x0102_0304_0506_0708, 3])),
        ("witnessed", Message::Witnessed(vec![2, 0])),
        (
            "beat",
            Message::Beat(Beat {
                sent: Duration::from_micros(0x0102),
                echo: None,
            }),
        ),
        (
            "beat-echo",
            Message::Beat(Beat {
                sent: Duration::from_micros(0x0102),
                echo: Some(Echo {
                    sent: Duration::from_micros(0x0304),
                    held: Duration::from_micros(5),
                }),
            }),
        ),
        (
            "range-wish",
            Message::RangeWish(RangeWish {
                partition: partition(),
                number: 9,
                first: at,
                next: Offset(at.0 + 0x100),
                bytes_max: 0x10_0000,
            }),
        ),
        ("range", range([batch(6, 40, 2), batch(7, 42, 1)].concat().into())),
        (
            "relay",
            relay(
                &[2, 9],
                Prompt::Append {
                    epoch,
                    writer_before,
                    batches: batch(7, 42, 1).into(),
                },
            ),
        ),
        (
            "http",
            Message::Http(Address {
                host: "hemp".into(),
                port: 8092,
            }),
        ),
        (
            "committed",
            Message::Committed(Report {
                scribe: Epoch(3),
                committed: Committed {
                    partition: partition(),
                    epoch: Epoch(7),
                    log_start: Offset(0x0011_2233),
                    tail: Offset(0x1122_3344),
                },
            }),
        ),
        (
            "ordered",
            Message::Ordered(Ordered {
                partition: partition(),
                epoch: Epoch(7),
                position: Position(0x5566_7788),
                first: Offset(0x1122_3340),
                next: Offset(0x1122_3344),
            }),
        ),
        ("ask", Message::Ask(numbered(b"a request"))),
        ("told", Message::Told(numbered(b"an answer"))),
    ]
}

fn numbered(content: &'static [u8]) -> Numbered {
    Numbered {
        number: 0x0102_0304_0506_0708,
        content: Bytes::from_static(content),
    }
}

fn join(wanted: Option<NodeId>, has_peer: bool) -> Message {
    let peer = Address {
        host: "hemp".into(),
        port: 7000,
    };
    Message::Join(Join {
        versions: FIRST_VERSIONS,
        wanted,
        home: Home {
            directory: DirectoryId([0xd4; 16]),
            shards: 2,
            peer: has_peer.then_some(peer),
            start: 0x0506,
        },
    })
}
