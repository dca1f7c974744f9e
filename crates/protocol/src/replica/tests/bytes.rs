//! The messages of simulated replicas, as the bytes that nodes send.

use ::bytes::{Bytes, BytesMut};
use record::{BatchBuilder, ClusterId, Compression, DirectoryId, Offset, PartitionId, TopicId};

use super::world::Message;
use crate::history::BatchFacts;
use crate::leader::NodeId;
use crate::peer::{self, Decoder, Hello, ReplicaMessage, ShardPair, WIRE_VERSIONS};
use crate::replica::Prompt;

/// Writes a message, reads it back, and finds that it is the same.
pub(super) fn as_bytes_and_back(message: Message) -> Message {
    let sent = match message.clone() {
        Message::Prompt(prompt) => {
            let batches: Bytes = match &prompt {
                Prompt::Append { batches, .. } => batches.iter().flat_map(batch).collect(),
                _ => Bytes::new(),
            };
            ReplicaMessage::Prompt(prompt.with_bytes(batches))
        }
        Message::Sworn(sworn) => ReplicaMessage::Sworn(sworn),
    };
    let partition = PartitionId {
        topic: TopicId([1; 16]),
        index: 0,
    };
    let sent = peer::Message::Replica {
        partition,
        message: sent,
    };
    let mut received = BytesMut::new();
    for message in [&hello(), &sent] {
        let encoded = message.encode();
        received.extend_from_slice(&encoded.head);
        received.extend_from_slice(&encoded.batches);
    }
    let mut decoder = Decoder::new(1 << 20);
    assert_eq!(decoder.next_message(&mut received), Ok(Some(hello())));
    decoder.handle_admitted(WIRE_VERSIONS.highest);
    let read = decoder.next_message(&mut received);
    assert_eq!(read.as_ref(), Ok(&Some(sent)), "what is sent can be read");
    let Ok(Some(peer::Message::Replica { message: read, .. })) = read else {
        panic!("it is a replica's message");
    };
    let read = match read {
        ReplicaMessage::Prompt(prompt) => {
            let (prompt, _) = prompt.read_facts().expect("a replica sends sound batches");
            Message::Prompt(prompt)
        }
        ReplicaMessage::Sworn(sworn) => Message::Sworn(sworn),
    };
    assert_eq!(read, message);
    read
}

/// Bytes of a batch with these facts.
fn batch(facts: &BatchFacts) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Compression::None);
    if let Some(stamp) = facts.producer {
        builder.set_producer(stamp.id.0, stamp.epoch, stamp.first_sequence);
    }
    for _ in 0..facts.record_count {
        builder.append(facts.max_timestamp_ms, None, None, &[]);
    }
    let mut batch = builder.build().to_vec();
    record::set_base_offset(&mut batch, facts.first_offset);
    record::set_leader_epoch(&mut batch, facts.epoch);
    batch
}

fn hello() -> peer::Message {
    peer::Message::Hello(Hello {
        versions: WIRE_VERSIONS,
        cluster: ClusterId([1; 16]),
        node: NodeId(0),
        directory: DirectoryId([2; 16]),
        incarnation: 0,
        shards: 1,
        pair: ShardPair { from: 0, to: 0 },
        feature_level: crate::metadata::FeatureLevel(0),
        image_offset: Offset::ZERO,
    })
}
