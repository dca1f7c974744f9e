//! Bytes that must never change: some worked out by hand, the rest seen by Kafka's own code.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};

use bytes::Bytes;

use super::samples::{Sample, Seed, Visitor};
use super::{body, decoded, encoded};
use crate::generated::samples::visit_messages;
use crate::produce::{PartitionProduceData, TopicProduceData};
use crate::{
    ApiKey, ApiVersionsResponse, Decode, Encode, ProduceRequest, Text, Writer, api_versions, frame_request,
    frame_response,
};

#[test]
fn a_produce_request_in_an_old_version() {
    let expected: &[&[u8]] = &[
        b"\0\0\0\x29",           // size: 41
        b"\0\0\0\x07\0\0\0\x09", // key, version, correlation id
        b"\0\x02me",             // client id
        b"\xff\xff",             // no transaction
        b"\xff\xff\0\0\x75\x30", // acks: all, timeout: 30 s
        b"\0\0\0\x01\0\x01t",    // one topic
        b"\0\0\0\x01\0\0\0\x02", // one partition: 2
        b"\0\0\0\x02ab",         // its records
    ];
    assert_eq!(produce_frame(7), expected.concat());
}

#[test]
fn a_produce_request_in_a_flexible_version() {
    let expected: &[&[u8]] = &[
        b"\0\0\0\x22",           // size: 34
        b"\0\0\0\x09\0\0\0\x09", // key, version, correlation id
        b"\0\x02me\0",           // client id as ever, no tagged fields
        b"\0",                   // no transaction
        b"\xff\xff\0\0\x75\x30", // acks: all, timeout: 30 s
        b"\x02\x02t",            // one topic
        b"\x02\0\0\0\x02",       // one partition: 2
        b"\x03ab",               // its records
        b"\0\0\0",               // no tagged fields in partition, topic and request
    ];
    assert_eq!(produce_frame(9), expected.concat());
}

fn produce_frame(version: i16) -> Bytes {
    let partition = PartitionProduceData {
        index: 2,
        records: Some(Bytes::from_static(b"ab")),
        ..PartitionProduceData::default()
    };
    let topic = TopicProduceData {
        name: "t".into(),
        partition_data: vec![partition],
        ..Default::default()
    };
    let request = ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![topic],
    };
    frame_request(
        &mut Writer::new(),
        version,
        9,
        Some(&Text::from_static("me")),
        &request,
    )
    .joined()
}

#[test]
fn an_api_versions_response_with_tagged_fields() {
    let response = ApiVersionsResponse {
        api_keys: vec![api_versions::ApiVersion {
            api_key: 18,
            min_version: 0,
            max_version: 4,
        }],
        finalized_features_epoch: 1,
        ..ApiVersionsResponse::default()
    };
    let expected: &[&[u8]] = &[
        b"\0\0\0\x1d\0\0\0\x05", // size: 29, correlation id; the header never has tagged fields
        b"\0\0",                 // no error
        b"\x02\0\x12\0\0\0\x04\0", // one API
        b"\0\0\0\0",             // no throttling
        b"\x01\x01\x08\0\0\0\0\0\0\0\x01", // one tagged field: 1, of eight bytes
    ];
    let frame = frame_response(&mut Writer::new(), ApiKey::ApiVersions, 3, 5, &response);
    assert_eq!(frame.joined(), expected.concat());
}

#[test]
fn an_api_versions_response_with_features() {
    let name = Text::from_static("transaction.version");
    let response = ApiVersionsResponse {
        supported_features: vec![api_versions::SupportedFeatureKey {
            name: name.clone(),
            min_version: 0,
            max_version: 2,
        }],
        finalized_features_epoch: 4,
        finalized_features: vec![api_versions::FinalizedFeatureKey {
            name,
            max_version_level: 2,
            min_version_level: 1,
        }],
        ..ApiVersionsResponse::default()
    };
    let expected: &[&[u8]] = &[
        b"\0\0\0\x4e\0\0\0\x05",                              // size: 78, correlation id
        b"\0\0\x01\0\0\0\0\x03", // no error, no API, no throttling, three tagged fields
        b"\0\x1a\x02\x14transaction.version\0\0\0\x02\0", // 0: supported from 0 to 2
        b"\x01\x08\0\0\0\0\0\0\0\x04", // 1: the epoch
        b"\x02\x1a\x02\x14transaction.version\0\x02\0\x01\0", // 2: finalized, its maximum first
    ];
    for version in [3, 4] {
        let frame = frame_response(&mut Writer::new(), ApiKey::ApiVersions, version, 5, &response);
        assert_eq!(frame.joined(), expected.concat());
        assert_eq!(decoded(body(&frame).slice(4..), version), Ok(response.clone()));
    }
}

/// Lines `Message version hex`, each of which Kafka's own classes have read and written again without a
/// difference.
const SEEN_BY_KAFKA: &str = include_str!("../../testdata/seen_by_kafka.txt");

/// Reads and rewrites the bytes of one message in all its versions.
struct Rewrite(BTreeMap<(&'static str, i16), Bytes>);

impl Visitor for Rewrite {
    fn visit<M: Sample + Decode + Encode + PartialEq + Debug + Default>(&mut self, api: ApiKey) {
        let versions = api.valid_versions();
        for version in versions.first..=versions.last {
            let bytes = self
                .0
                .remove(&(message_name::<M>(), version))
                .expect("every message and version is there");
            let message: M = decoded(bytes.clone(), version).expect("Kafka has written it");
            assert_eq!(encoded(&message, version), bytes, "{api:?} {version}");
        }
    }
}

fn message_name<M>() -> &'static str {
    std::any::type_name::<M>()
        .rsplit("::")
        .next()
        .expect("a path has a last part")
}

#[test]
fn bytes_that_kafka_wrote_are_read_and_written_alike() {
    let lines = SEEN_BY_KAFKA.lines().filter(|line| !line.starts_with('#'));
    let mut rewrite = Rewrite(lines.map(parse_line).collect());
    visit_messages(&mut rewrite);
    assert!(
        rewrite.0.is_empty(),
        "lines for unknown messages: {:?}",
        rewrite.0.keys()
    );
}

fn parse_line(line: &'static str) -> ((&'static str, i16), Bytes) {
    let parts: Vec<&str> = line.split(' ').collect();
    let [name, version, hex] = parts[..] else {
        panic!("not three words: {line}")
    };
    let digits = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("hex is ASCII"));
    let bytes = digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("two hex digits"))
        .collect();
    ((name, version.parse().expect("a version")), bytes)
}

/// Collects lines to show to Kafka.
struct Lines(Seed, String);

impl Visitor for Lines {
    fn visit<M: Sample + Decode + Encode + PartialEq + Debug + Default>(&mut self, api: ApiKey) {
        let versions = api.valid_versions();
        for version in versions.first..=versions.last {
            // The richest of a few that is still short enough to keep.
            let samples = (0..20).map(|_| encoded(&M::sample(&mut self.0, version), version));
            let chosen = samples.filter(|bytes| bytes.len() <= 400).max_by_key(Bytes::len);
            let bytes = chosen.unwrap_or_else(|| encoded(&M::default(), version));
            write!(self.1, "{} {version} ", message_name::<M>()).expect("strings take everything");
            bytes
                .iter()
                .for_each(|byte| write!(self.1, "{byte:02x}").expect("strings take everything"));
            self.1.push('\n');
        }
    }
}

/// Prints new lines for `generate/SeenByKafka.java`; see `generate/README.md`.
#[test]
#[ignore = "makes test data"]
#[expect(clippy::print_stdout, reason = "its output is what it is for")]
fn print_samples() {
    let mut lines = Lines(Seed(5), String::new());
    visit_messages(&mut lines);
    print!("{}", lines.1);
}
