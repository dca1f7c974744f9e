//! The metadata's log: whatever its records and the images in it are, an error, or metadata that the next start goes on with.
//!
//! An input is the offset of the first record and then records, each with its length: as they are, or an image's content, which
//! is sealed as one is that stands there and cut in parts. The seal is written from `docs/formats`, not from the code that it tests.

use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use protocol::NodeId;
use protocol::metadata::{
    Address, Command, Home, ImageWriter, Metadata, NewTopic, Plans, Replay, TopicConfig, image_parts,
};
use record::{ClusterId, DirectoryId, Offset, TopicId};

use crate::input::Input;

pub(crate) const CLUSTER: ClusterId = ClusterId([9; 16]);
/// Kinds of what an input has.
const VALUE: u8 = 0;
const IMAGE: u8 = 1;
pub(crate) const CHECKSUM_BYTES: usize = 8;

/// See the module.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut at = Offset(input.u8().into());
    let mut replay = Replay::new(Metadata::new(TopicConfig::new()));
    while !input.is_empty() {
        let kind = input.u8() % 2;
        let length = usize::from(input.u16());
        let bytes = input.bytes(length);
        let values = match kind {
            VALUE => vec![Bytes::copy_from_slice(bytes)],
            _ => image_parts(at, &seal(at, bytes))
                .map(|part| part.encode())
                .collect(),
        };
        for value in values {
            if replay.take(at, &value).is_err() {
                return;
            }
            at = at.advance(1);
        }
    }
    if let Ok((metadata, _)) = replay.finish(CLUSTER)
        && metadata.cluster().is_some()
    {
        go_on(metadata, at);
    }
}

/// Starts its nodes, and has an image of it stand for all of the log.
fn go_on(mut metadata: Metadata, tail: Offset) {
    let nodes: Vec<NodeId> = metadata.nodes().map(|(id, _)| id).collect();
    for node in nodes {
        metadata.apply(&start(node, None)).expect("it was started before");
    }
    for topic in metadata.topics() {
        assert!(metadata.partitions(topic).all(|partition| partition.epoch.0 >= 0));
    }
    let mut replay = Replay::new(Metadata::new(TopicConfig::new()));
    for (index, part) in (0..).zip(image_parts(tail, &image(&metadata, tail))) {
        replay
            .take(tail.advance(index), &part.encode())
            .expect("it is sound");
    }
    let (again, _) = replay.finish(CLUSTER).expect("it is sound");
    assert!(again == metadata, "an image stands for the log before it");
}

fn address(port: u16) -> Address {
    Address {
        host: "rope".into(),
        port,
    }
}

pub(crate) fn start(node: NodeId, home: Option<Home>) -> Command {
    let address = address(9092);
    Command::StartNode {
        node,
        address,
        home,
        rack: (node.0 == 1).then(|| "a".into()),
    }
}

pub(crate) fn home(directory: u8) -> Home {
    Home {
        directory: DirectoryId([directory; 16]),
        shards: 2,
        peer: Some(address(9192)),
        start: u64::from(directory),
    }
}

pub(crate) fn image(metadata: &Metadata, place: Offset) -> Bytes {
    let mut writer = ImageWriter::begin(metadata, place);
    while writer.go_on(metadata, 1 << 10) {}
    writer.finish()
}

pub(crate) fn seal(place: Offset, content: &[u8]) -> Bytes {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(&place.0.to_be_bytes());
    digest.update(content);
    [content, &digest.finalize().to_be_bytes()].concat().into()
}

/// The commands of a cluster's first day, and images of it: alone, and behind the commands.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut metadata = Metadata::new(TopicConfig::new());
    let mut commands = vec![Command::FormatCluster { cluster: CLUSTER }];
    commands.push(start(NodeId(0), Some(home(0))));
    commands.push(Command::JoinNode {
        node: NodeId(1),
        home: home(1),
    });
    commands.push(start(NodeId(1), Some(Home { start: 2, ..home(1) })));
    for command in &commands {
        metadata.apply(command).expect("they are in order");
    }
    for number in 1..=3 {
        let topic = NewTopic {
            id: TopicId([number; 16]),
            name: format!("topic{number}").into(),
            partition_count: 3,
            replica_count: 2,
            config: Vec::new(),
            chosen: None,
        };
        let planned = metadata
            .plan_topic(&topic, &mut Plans::default())
            .expect("it is valid");
        metadata.apply(&planned).expect("it was planned");
        commands.push(planned);
    }
    commands.push(Command::DeleteTopic { id: TopicId([2; 16]) });
    metadata
        .apply(&commands[commands.len() - 1])
        .expect("it is there");
    let record = |kind: u8, bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).expect("short");
        [&[kind][..], &length.to_le_bytes(), bytes].concat()
    };
    let mut whole = vec![0];
    let mut seeds = Vec::new();
    for command in &commands {
        whole.extend(record(VALUE, &command.encode()));
        seeds.push(whole.clone());
    }
    let image_at = |place: i64| {
        let image = image(&metadata, Offset(place));
        record(IMAGE, &image[..image.len() - CHECKSUM_BYTES])
    };
    seeds.push(
        [
            &[5][..],
            &image_at(5),
            &record(VALUE, &start(NodeId(1), None).encode()),
        ]
        .concat(),
    );
    whole.extend(image_at(commands.len() as i64));
    seeds.push(whole);
    seeds
}
