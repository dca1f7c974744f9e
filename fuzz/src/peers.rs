//! The bytes that a peer sends: whatever the bytes are, an error or messages that are written as they were read, and no panic.
//!
//! An input says with its first two bytes how far the connection has come and where its bytes are split. The rest is either what
//! arrives, or messages that someone has sealed, so that what lies behind the checksums is reached: a kind, a length and a body each.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use protocol::metadata::FeatureLevel;
use protocol::peer::{
    Decoder, Encoded, HEADER_BYTES, Hello, KnownNode, Message, MessageError, Own, RangeAnswer, RangeWish,
    Reason, Refused, Relay, ReplicaMessage, ShardPair, WIRE_VERSIONS, admit, facts_of,
};
use protocol::replica::lease::Believer;
use protocol::replica::{Base, Landmark, NO_EPOCH, Prompt, Refusal, Standing, Sworn};
use protocol::{NodeId, Run};
use record::{BatchBuilder, ClusterId, Compression, DirectoryId, Epoch, Offset, PartitionId, TopicId};

use crate::input::Input;

/// Small, so that messages that are too long are short.
const BODY_BYTES_MAX: usize = 2_048;

/// See the module.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let flags = input.u8();
    let piece_bytes = 1 + usize::from(input.u8());
    let is_admitted = flags & 1 == 1;
    let bytes = match flags & 2 == 2 {
        true => sealed_messages(input),
        false => input.rest().to_vec(),
    };
    let whole = read(is_admitted, &bytes, bytes.len());
    assert_eq!(
        read(is_admitted, &bytes, piece_bytes),
        whole,
        "it does not matter how bytes come"
    );
    let (messages, _) = whole;
    let mut rest = &bytes[..];
    for message in &messages {
        judge(message);
        let length = u32::from_be_bytes(*rest.first_chunk().expect("it was read from here")) as usize;
        let (read, behind) = rest.split_at(HEADER_BYTES + length);
        // Fields that a later version adds to a hello are passed over.
        let is_later =
            matches!(message, Message::Hello(hello) if hello.versions.highest > WIRE_VERSIONS.highest);
        assert!(is_later || bytes_of(message) == read, "one message has one form");
        rest = behind;
    }
}

/// Messages with checksums that hold.
fn sealed_messages(mut input: Input<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !input.is_empty() {
        let kind = input.u8();
        let length = usize::from(input.u16());
        bytes.extend_from_slice(&sealed(kind, input.bytes(length)));
    }
    bytes
}

fn sealed(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut message = (body.len() as u32).to_be_bytes().to_vec();
    message.extend_from_slice(&[kind, 0, 0, 0]);
    message.extend_from_slice(&crc_fast::crc32_iscsi(body).to_be_bytes());
    message.extend_from_slice(&crc_fast::crc32_iscsi(&message).to_be_bytes());
    message.extend_from_slice(body);
    message
}

/// The messages of a connection whose bytes come in pieces, and the error that it ends with.
fn read(is_admitted: bool, bytes: &[u8], piece_bytes: usize) -> (Vec<Message>, Option<MessageError>) {
    let mut decoder = Decoder::new(BODY_BYTES_MAX);
    if is_admitted {
        let hello = Message::Hello(hello());
        let greeting = decoder.next_message(&mut BytesMut::from(&bytes_of(&hello)[..]));
        assert_eq!(greeting, Ok(Some(hello)));
        decoder.handle_admitted(WIRE_VERSIONS.highest);
    }
    let mut messages = Vec::new();
    let mut received = BytesMut::new();
    for piece in bytes.chunks(piece_bytes.max(1)) {
        received.extend_from_slice(piece);
        loop {
            match decoder.next_message(&mut received) {
                Ok(Some(message)) => {
                    let is_hello = matches!(message, Message::Hello(_));
                    messages.push(message);
                    if is_hello {
                        decoder.handle_admitted(WIRE_VERSIONS.highest);
                    }
                }
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
        let wanted_bytes = decoder.wanted_bytes();
        assert!(
            wanted_bytes <= HEADER_BYTES + BODY_BYTES_MAX,
            "more is waited for than is taken"
        );
        assert!(received.len() < wanted_bytes, "what is there would do");
    }
    (messages, None)
}

fn judge(message: &Message) {
    let bytes = bytes_of(message);
    let is_admitted = !matches!(message, Message::Hello(_));
    let (again, error) = read(is_admitted, &bytes, bytes.len());
    assert_eq!(
        (&again[..], error),
        (std::slice::from_ref(message), None),
        "it reads back"
    );
    match message {
        Message::Hello(hello) => judge_hello(hello),
        Message::Replica {
            message: ReplicaMessage::Prompt(Prompt::Append { batches, .. }),
            ..
        }
        | Message::Relay(Relay {
            prompt: Prompt::Append { batches, .. },
            ..
        }) => judge_batches(batches),
        Message::RangeAnswer(answer) => judge_batches(&answer.batches),
        _ => {}
    }
}

/// Whatever a hello says, it is admitted as what the metadata knows, or refused in a message that can be sent.
fn judge_hello(hello: &Hello) {
    let own = Own {
        versions: WIRE_VERSIONS,
        cluster: ClusterId([1; 16]),
        node: NodeId(1),
        directory: DirectoryId([11; 16]),
        incarnation: 3,
        shards: 4,
        feature_level: FeatureLevel::NEWEST,
        cluster_level: FeatureLevel::FIRST,
        image_offset: Offset(7),
    };
    let known = KnownNode {
        directory: DirectoryId([12; 16]),
        incarnation: 5,
    };
    match admit(&own, Some(&known), hello) {
        Ok(admitted) => {
            let newest = WIRE_VERSIONS.newest_common(hello.versions);
            assert_eq!(
                (Some(admitted.version), admitted.peer.cluster),
                (newest, own.cluster)
            );
            assert_eq!(hello.directory, known.directory, "a node has one directory");
            assert_ne!(hello.directory, own.directory, "a node does not speak to itself");
            assert!(hello.incarnation >= known.incarnation);
            assert!(hello.pair.to < own.shards && hello.pair.from < hello.shards);
        }
        Err(refused) => {
            assert_ne!(refused.reason(), Reason::UnknownNode);
            judge(&Message::Refused(refused));
        }
    }
    assert!(admit(&own, None, hello).is_err(), "strangers are refused");
}

/// A replica is told of batches just what any reader will find.
fn judge_batches(batches: &Bytes) {
    let Ok(facts) = facts_of(batches) else {
        return;
    };
    let mut next_offset = facts[0].first_offset;
    let mut epoch = facts[0].epoch;
    let read = record::batches(batches);
    for (batch, found) in read.zip(&facts) {
        let (header, bytes) = batch.expect("it was read before");
        assert!(record::checksum_holds(bytes));
        assert_eq!(found.first_offset, next_offset);
        assert!(found.epoch >= epoch && found.epoch >= Epoch(0));
        (next_offset, epoch) = (found.next_offset(), found.epoch);
        assert_eq!(next_offset, header.next_offset(), "no offset is left out");
    }
}

fn bytes_of(message: &Message) -> Vec<u8> {
    let Encoded { head, batches } = message.encode();
    [head, batches].concat()
}

/// The hello of a node that `judge_hello` admits.
fn hello() -> Hello {
    Hello {
        versions: WIRE_VERSIONS,
        cluster: ClusterId([1; 16]),
        node: NodeId(2),
        directory: DirectoryId([12; 16]),
        incarnation: 5,
        shards: 2,
        pair: ShardPair { from: 1, to: 3 },
        feature_level: FeatureLevel(1),
        image_offset: Offset(9),
    }
}

fn batch(epoch: i32, first_offset: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(9, 1, 30);
    builder.append(1_000, None, Some(b"v"), &[]);
    let mut batch = builder.build().to_vec();
    record::set_base_offset(&mut batch, Offset(first_offset));
    record::set_leader_epoch(&mut batch, Epoch(epoch));
    batch
}

fn replica_messages() -> Vec<ReplicaMessage> {
    let (epoch, at) = (Epoch(7), Offset(40));
    let run = Run {
        writer: Epoch(4),
        first_offset: Offset(10),
        next_offset: Offset(50),
        followed_by: Some(Epoch(6)),
    };
    let base = Base {
        first: at,
        run: Some(run),
        covered: Offset(45),
        history: Bytes::from_static(b"a history"),
    };
    let standing = Standing {
        accepted: Epoch(6),
        last_writer: NO_EPOCH,
        log_start: Offset(10),
        tail: Offset(20),
        next_offset: Offset(30),
        is_certain: true,
    };
    let writer_before = Epoch(6);
    let prompts = [
        Prompt::Seal { epoch },
        Prompt::Compare {
            epoch,
            landmark: Landmark::Run(run),
        },
        Prompt::Compare {
            epoch,
            landmark: Landmark::Base(base.clone()),
        },
        Prompt::Append {
            epoch,
            writer_before,
            batches: [batch(6, 40), batch(7, 41)].concat().into(),
        },
        Prompt::Accept {
            epoch,
            first: at,
            writer_before,
        },
        Prompt::Commit { epoch, tail: at },
        Prompt::Refused {
            epoch,
            refusal: Refusal::Fenced { floor: Epoch(8) },
        },
    ];
    let sworn = [
        Sworn::Promised {
            epoch,
            standing,
            believers: vec![Believer {
                node: Some(NodeId(3)),
                left: Duration::from_millis(70),
            }],
        },
        Sworn::Located {
            epoch,
            landmark: Landmark::Base(Base { run: None, ..base }),
        },
        Sworn::Acknowledged {
            epoch,
            accepted: Epoch(6),
            next_offset: at,
        },
    ];
    let prompts = prompts.into_iter().map(ReplicaMessage::Prompt);
    prompts
        .chain(sworn.into_iter().map(ReplicaMessage::Sworn))
        .collect()
}

/// A wish for batches in the place of damaged ones, and its answer.
fn range_messages(partition: PartitionId) -> [Message; 2] {
    let number = 9;
    let wish = RangeWish {
        partition,
        number,
        first: Offset(40),
        next: Offset(43),
        bytes_max: 1 << 20,
    };
    let answer = RangeAnswer {
        partition,
        number,
        batches: [batch(7, 40), batch(7, 41)].concat().into(),
    };
    [Message::RangeWish(wish), Message::RangeAnswer(answer)]
}

/// A connection for each message, and one with all of them behind its hello; each as it arrives, and as bodies to be sealed.
pub fn seeds() -> Vec<Vec<u8>> {
    let refused = Refused::new(Reason::Cluster, "another cluster".to_owned());
    let partition = PartitionId {
        topic: TopicId([7; 16]),
        index: 0,
    };
    let replica = |message| bytes_of(&Message::Replica { partition, message });
    let mut connections = vec![
        (0, bytes_of(&Message::Hello(hello()))),
        (0, bytes_of(&Message::Refused(refused))),
    ];
    let mut admitted: Vec<_> = replica_messages().into_iter().map(replica).collect();
    admitted.extend(range_messages(partition).iter().map(bytes_of));
    connections.push((
        0,
        [bytes_of(&Message::Hello(hello())), admitted.concat()].concat(),
    ));
    connections.extend(admitted.into_iter().map(|bytes| (1, bytes)));
    let mut seeds = Vec::new();
    for (is_admitted, bytes) in connections {
        seeds.push([&[is_admitted, 40][..], &bytes].concat());
        let mut seed = vec![is_admitted | 2, 40];
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let length = u32::from_be_bytes(*rest.first_chunk().expect("a header")) as usize;
            seed.push(rest[4]);
            seed.extend_from_slice(&(length as u16).to_le_bytes());
            seed.extend_from_slice(&rest[HEADER_BYTES..HEADER_BYTES + length]);
            rest = &rest[HEADER_BYTES + length..];
        }
        seeds.push(seed);
    }
    seeds
}
