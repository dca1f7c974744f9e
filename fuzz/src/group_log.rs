//! The metadata group's log: whatever its entries and snapshots are, an error that changes nothing, or an image that every node comes to.
//!
//! An input is entries and snapshots, each with its length: as they are, or the content of the image with which a group begins, sealed as
//! one is and put into one entry. Entry and seal are written from `docs/formats`, not from the code that is tried.

use protocol::NodeId;
use protocol::metadata::{Command, GroupImage, Metadata, Process, Proposal, TopicConfig, image_entries};
use record::Offset;

use crate::input::Input;
use crate::metadata::{CHECKSUM_BYTES, CLUSTER, home, image, seal, start};

/// Kinds of what an input has.
const ENTRY: u8 = 0;
const IMAGE: u8 = 1;
const SNAPSHOT: u8 = 2;

/// See the module.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut group = empty();
    while !input.is_empty() {
        let kind = input.u8() % 3;
        let length = usize::from(input.u16());
        let bytes = input.bytes(length);
        let before = group.snapshot();
        let is_taken = match kind {
            ENTRY => group.take(bytes).is_ok(),
            IMAGE => group.take(&whole_image(&seal(Offset::ZERO, bytes))).is_ok(),
            _ => group.install(bytes).is_ok(),
        };
        match is_taken {
            true => come_again(&group, (kind == ENTRY).then_some(bytes)),
            false => assert!(group.snapshot() == before, "what is refused changes nothing"),
        }
    }
}

fn empty() -> GroupImage {
    GroupImage::new(Metadata::new(TopicConfig::new()))
}

/// A snapshot stands for the log before it, and a proposal counts once.
fn come_again(group: &GroupImage, entry: Option<&[u8]>) {
    let snapshot = group.snapshot();
    let mut other = empty();
    other.install(&snapshot).expect("it was written here");
    assert!(
        other.metadata() == group.metadata(),
        "a snapshot has the whole image"
    );
    let proposal = entry.filter(|entry| Proposal::decode(entry).is_ok());
    // A copy's proposal is told each time that it is one.
    let counts = |proposal: &Proposal| group.last_number(&proposal.by) >= proposal.number;
    if let Some(entry) = proposal.filter(|entry| Proposal::decode(entry).is_ok_and(|found| counts(&found))) {
        other.take(entry).expect("it was taken before");
        assert!(other.snapshot() == snapshot, "a proposal counts once");
    }
}

/// The entry that is a whole image.
fn whole_image(image: &[u8]) -> Vec<u8> {
    let length = u32::try_from(image.len()).expect("an input is short");
    [&[1, 1, 0, 0, 0, 0, 1][..], &length.to_be_bytes(), image].concat()
}

fn put(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("it is short");
    [&[kind][..], &length.to_le_bytes(), bytes].concat()
}

/// A group's first day: its image, proposals of two processes, one of them again, and a snapshot.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut metadata = Metadata::new(TopicConfig::new());
    let first = [
        Command::FormatCluster { cluster: CLUSTER },
        start(NodeId(0), Some(home(0))),
    ];
    for command in &first {
        metadata.apply(command).expect("they are in order");
    }
    let mut group = empty();
    let mut day = Vec::new();
    for entry in image_entries(&metadata) {
        group.take(&entry).expect("it is sound");
        day.extend(put(ENTRY, &entry));
    }
    let proposal = |node: i32, nonce: u64, number: u64, command: Command| {
        let by = Process {
            node: NodeId(node),
            start: 1,
            nonce,
        };
        let commands = vec![command];
        Proposal { by, number, commands }.encode()
    };
    let join = Command::JoinNode {
        node: NodeId(1),
        home: home(1),
    };
    let proposals = [
        proposal(0, 7, 1, join.clone()),
        proposal(1, 8, 1, start(NodeId(1), Some(home(2)))),
        proposal(0, 7, 1, join.clone()),
        proposal(0, 9, 1, join),
        // One that would count each time, as starts without a home do.
        proposal(0, 7, 2, start(NodeId(0), None)),
    ];
    for entry in &proposals {
        group.take(entry).expect("it is sound");
        day.extend(put(ENTRY, entry));
    }
    let content = image(&metadata, Offset::ZERO);
    let begun = put(IMAGE, &content[..content.len() - CHECKSUM_BYTES]);
    let snapshot = put(SNAPSHOT, &group.snapshot());
    vec![
        day.clone(),
        [day, snapshot.clone()].concat(),
        [snapshot, put(ENTRY, &proposals[0])].concat(),
        [begun, put(ENTRY, &proposals[1])].concat(),
    ]
}
