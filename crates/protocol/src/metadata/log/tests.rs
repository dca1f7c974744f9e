//! Logs with images in them: whole, unfinished, trimmed, forged.

use proptest::prelude::*;

use super::*;
use crate::metadata::tests::{any_command, cluster_of, new_topic, planned, start, topic_id};
use crate::metadata::{ImageWriter, PlanLimits, Plans, TopicConfig};

/// A metadata log in memory, and the image that its commands made.
struct Log {
    values: Vec<Bytes>,
    first: usize,
    image: Metadata,
    growth: Growth,
}

impl Log {
    /// Of a cluster of two nodes.
    fn new() -> Log {
        let image = cluster_of(2);
        let cluster = image.cluster().expect("formatted");
        let commands = [Command::FormatCluster { cluster }, start(0), start(1)];
        let values: Vec<Bytes> = commands.iter().map(Command::encode).collect();
        let mut growth = Growth::default();
        values.iter().for_each(|value| growth.add(value.len()));
        Log {
            values,
            first: 0,
            image,
            growth,
        }
    }

    /// The same with topics that differ, which take several parts of an image.
    fn of_topics() -> Log {
        let mut log = Log::new();
        for number in 1..=9 {
            let topic = new_topic(number, &format!("topic{number}"), 3, 2);
            let plan = planned(
                &log.image,
                &topic,
                &mut Plans::of(PlanLimits::default(), Some([10, 0, 0, 1].into())),
            );
            log.append(&plan);
        }
        log
    }

    fn tail(&self) -> Offset {
        Offset(self.values.len() as i64)
    }

    fn append(&mut self, command: &Command) {
        let _ = self.image.apply(command);
        self.values.push(command.encode());
        self.growth.add(command.encode().len());
    }

    /// The parts of an image that is written here.
    fn parts(&self) -> Vec<ImagePart> {
        let mut writer = ImageWriter::begin(&self.image, self.tail());
        while writer.go_on(&self.image, 1) {}
        image_parts(self.tail(), &writer.finish()).collect()
    }

    fn append_image(&mut self) {
        let (place, parts) = (self.tail(), self.parts());
        let bytes = parts.iter().map(|part| part.bytes.len()).sum();
        self.append_parts(&parts);
        self.growth = Growth::since_image(place, bytes);
    }

    fn append_parts(&mut self, parts: &[ImagePart]) {
        self.values.extend(parts.iter().map(ImagePart::encode));
    }

    fn trim(&mut self) {
        self.first = self.growth.image_at.map_or(0, |place| place.0 as usize);
    }

    fn replay(&self) -> Result<(Metadata, Growth), ReplayError> {
        let mut replay = Replay::new(Metadata::new(TopicConfig::new()));
        for (offset, value) in self.values.iter().enumerate().skip(self.first) {
            replay.take(Offset(offset as i64), value)?;
        }
        replay.finish(ClusterId([9; 16]))
    }

    fn assert_replays(&self) {
        let (image, growth) = self.replay().expect("sound");
        assert_eq!((&image, growth), (&self.image, self.growth));
    }
}

#[test]
fn an_image_stands_for_the_commands_before_it() {
    let mut log = Log::of_topics();
    log.append_image();
    assert!(log.parts().len() > 3, "an image of several parts");
    log.assert_replays();
    log.trim();
    log.append(&start(1));
    log.assert_replays();
    // And so does the next one.
    log.append_image();
    log.trim();
    log.assert_replays();
}

#[test]
fn an_unfinished_image_counts_for_nothing() {
    let mut log = Log::of_topics();
    let parts = log.parts();
    for count in 1..parts.len() {
        let mut log = Log::of_topics();
        log.append_parts(&parts[..count]);
        log.assert_replays();
        log.append(&start(0));
        // Its end, out of place.
        log.append_parts(&parts[count..]);
        log.assert_replays();
        log.append_image();
        log.trim();
        log.assert_replays();
    }
    // One part is missing.
    log.append_parts(&parts[..1]);
    log.append_parts(&parts[2..]);
    log.assert_replays();
}

#[test]
fn a_log_without_its_beginning_is_refused() {
    let mut log = Log::of_topics();
    log.first = 4;
    let first = Offset(4);
    assert_eq!(log.replay(), Err(ReplayError::NoBeginning { first }));
    let place = log.tail();
    let parts = log.parts();
    log.append_parts(&parts[..2]);
    log.first = place.0 as usize;
    assert_eq!(log.replay(), Err(ReplayError::NoBeginning { first: place }));
}

#[test]
fn the_log_of_another_cluster_is_refused() {
    let mut log = Log::of_topics();
    for _ in 0..2 {
        let mut replay = Replay::new(Metadata::new(TopicConfig::new()));
        for (offset, value) in log.values.iter().enumerate().skip(log.first) {
            replay.take(Offset(offset as i64), value).expect("sound");
        }
        let (found, expected) = (ClusterId([9; 16]), ClusterId([8; 16]));
        let refused = replay.finish(expected);
        assert_eq!(refused, Err(ReplayError::OtherCluster { found, expected }));
        // And so is one that has nothing but an image.
        log.append_image();
        log.trim();
    }
}

#[test]
fn an_image_of_something_else_is_refused() {
    let (mut log, mut other) = (Log::of_topics(), Log::of_topics());
    log.append(&start(0));
    other.append(&start(1));
    log.append_parts(&other.parts());
    let place = Offset(other.values.len() as i64);
    assert_eq!(log.replay(), Err(ReplayError::ImageDiffers { place }));
}

#[test]
fn a_damaged_or_moved_image_is_refused() {
    let log = Log::of_topics();
    let place = log.tail();
    let parts = log.parts();
    let whole: Vec<u8> = parts.iter().flat_map(|part| part.bytes.to_vec()).collect();
    let read = |place, bytes: &[u8]| log.image.read_image(place, bytes);
    assert_eq!(read(place, &whole).as_ref(), Ok(&log.image));
    assert!(read(place.advance(1), &whole).is_err(), "moved");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(read(place, &damaged).is_err(), "byte {at}");
        assert!(read(place, &whole[..at]).is_err(), "cut at {at}");
    }
    // An intact checksum over what cannot be.
    let forged = |content: &[u8]| read_forged(&log, content);
    let content = &whole[..whole.len() - 8];
    assert_eq!(forged(content).as_ref(), Ok(&log.image));
    for at in 0..content.len() {
        for bits in [1, 0x80, 0xff] {
            let mut content = content.to_vec();
            content[at] ^= bits;
            // Names, ids and numbers may be others; there is no panic, and nothing large is allocated.
            let _ = forged(&content);
        }
        assert!(forged(&content[..at]).is_err(), "cut at {at}");
    }
}

/// Reads an image at the log's end, under a checksum that holds.
fn read_forged(log: &Log, content: &[u8]) -> Result<Metadata, DecodeError> {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    digest.update(&log.tail().0.to_be_bytes());
    digest.update(content);
    let whole = [content, &digest.finalize().to_be_bytes()].concat();
    log.image.read_image(log.tail(), &whole)
}

#[test]
fn an_image_with_something_twice_or_out_of_order_or_negative_is_refused() {
    let log = Log::of_topics();
    let whole: Vec<u8> = log.parts().iter().flat_map(|part| part.bytes.to_vec()).collect();
    let content = &whole[..whole.len() - 8];
    // Behind the version, the cluster's id, the next producer id and their number.
    let nodes = [29, 50];
    let topic = |number: u8| {
        let id = topic_id(number).0;
        content
            .windows(16)
            .position(|bytes| bytes == id)
            .expect("it is there")
    };
    // Behind the id, the name, the configs and the number of runs: how many are alike, and the replicas' number.
    let run = topic(1) + 16 + 10 + 4 + 4;
    let (replicas, leader, epoch, incarnation) = (run + 8, run + 16, run + 20, run + 24);
    let shared = run + 28;
    let cases: [(usize, &[u8], &str); 27] = [
        (17, &[0x80], "producer id"),
        (nodes[0], &[0xff; 4], "node"),
        // The next one is 1, too.
        (nodes[0], &[0, 0, 0, 1], "node"),
        (nodes[0], &[0, 0, 0, 2], "node"),
        (nodes[1] + 14, &[0x80], "incarnation"),
        (nodes[1] + 14, &[0x7f], "incarnation"),
        // A broker with configs that is no node, in the place of none.
        (75, &[0, 0, 0, 1, 1, 0, 0, 0, 7], "broker"),
        (topic(2), &topic_id(1).0, "topic id"),
        (topic(1), &topic_id(3).0, "topic id"),
        (run, &[0; 4], "number of partitions"),
        (run, &[0, 0x10, 0, 1], "number of partitions"),
        // As many as there may be in all; the next topic has more.
        (run, &[0, 0x10, 0, 0], "number of partitions"),
        (replicas + 4, &content[replicas..][..4], "replicas"),
        (leader, &[0xff; 4], "leader"),
        (epoch, &[0xff; 4], "epoch"),
        (epoch, &[0x7f], "epoch"),
        (incarnation, &[0x80], "incarnation"),
        (incarnation, &[0, 0, 0, 1], "incarnation"),
        // Two replicas and not shared; then changes of replicas: to none, from what they are, and such as nobody has to be filled for.
        (shared, &[0], "shared partition"),
        (shared, &[1, 0, 0, 0, 0, 1, 0, 0, 0, 9], "nodes in doubt"),
        (
            shared,
            &[1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
            "nodes in doubt",
        ),
        (shared, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 1], "epochs opened uncleanly"),
        (shared, &[1, 2, 0, 0, 0, 0], "change of replicas"),
        (
            shared,
            &[1, 2, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1],
            "change of replicas",
        ),
        (shared, &[1, 2, 0, 0, 0, 1, 0, 0, 0, 9], "change of replicas"),
        (
            shared,
            &[1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0],
            "change of replicas",
        ),
        (
            shared,
            &[1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1],
            "change of replicas",
        ),
    ];
    for (at, bytes, field) in cases {
        let mut forged = content.to_vec();
        forged[at..at + bytes.len()].copy_from_slice(bytes);
        if field == "epochs opened uncleanly" {
            // Images of the version before have none.
            forged[0] = 5;
        }
        let refused = read_forged(&log, &forged);
        assert_eq!(
            refused,
            Err(DecodeError::Impossible { field }),
            "{bytes:?} at {at}"
        );
    }
}

#[test]
fn a_log_wants_an_image_when_it_has_grown_by_twice_the_last() {
    let mut growth = Growth::default();
    assert!(!growth.wants_image(100));
    growth.add(99);
    assert!(!growth.wants_image(100));
    growth.add(1);
    assert!(growth.wants_image(100));
    growth.put_off();
    assert!(!growth.wants_image(100));
    let mut growth = Growth::since_image(Offset(7), 200);
    growth.add(399);
    assert!(!growth.wants_image(100));
    growth.add(1);
    assert!(growth.wants_image(100));
}

#[test]
fn an_image_has_these_bytes() {
    let log = Log::of_topics();
    let parts = log.parts();
    let first: String = parts[0]
        .encode()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let expected = concat!(
        // Version, kind, place, number of the part, not the last, length;
        "0110000000000000000c000000000000000040",
        // version, cluster, next producer id,
        "04090909090909090909090909090909090000000000000000",
        // two nodes: the first, and the second as far as it fits.
        "000000020000000000000004726f70652384000000000000000000000100000004726f70652384",
    );
    assert_eq!(first, expected);
}

/// A step that a log takes.
#[derive(Debug, Clone)]
enum Deed {
    Command(Command),
    Image,
    UnfinishedImage,
    Trim,
}

fn any_deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => any_command().prop_map(Deed::Command),
        1 => Just(Deed::Image),
        1 => Just(Deed::UnfinishedImage),
        1 => Just(Deed::Trim),
    ]
}

proptest! {
    #[test]
    fn whatever_is_done_to_a_log_its_replay_gives_the_image(deeds in prop::collection::vec(any_deed(), 0..80)) {
        let mut log = Log::new();
        for deed in deeds {
            match deed {
                Deed::Command(command) => log.append(&command),
                Deed::Image => log.append_image(),
                Deed::UnfinishedImage => {
                    let parts = log.parts();
                    log.append_parts(&parts[..parts.len() - 1]);
                }
                Deed::Trim => log.trim(),
            }
            log.assert_replays();
        }
    }
}
