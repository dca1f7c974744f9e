//! Where a request's only batch begins, told from its first bytes, against the decoder that reads all of it.

use bytes::Bytes;

use super::samples::{Sample, Seed};
use crate::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use crate::{
    ApiKey, Decode, FetchRequest, Reader, RequestHeader, Text, Writer, frame_request, lone_batch_position,
};

const BATCH: &[u8] = b"a batch, as far as anybody here knows";

fn request(topics: usize, partitions: usize) -> ProduceRequest {
    let partition = |index| PartitionProduceData {
        index,
        records: Some(Bytes::from_static(BATCH)),
        ..PartitionProduceData::default()
    };
    let topic = || TopicProduceData {
        name: Text::from("strands"),
        topic_id: record::TopicId([7; 16]),
        partition_data: (0..partitions as i32).map(partition).collect(),
    };
    ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 1_000,
        topic_data: (0..topics).map(|_| topic()).collect(),
    }
}

/// The frame without its size prefix.
fn framed(request: &ProduceRequest, version: i16, client_id: Option<&str>) -> Bytes {
    let client_id = client_id.map(Text::from);
    super::body(&frame_request(
        &mut Writer::new(),
        version,
        5,
        client_id.as_ref(),
        request,
    ))
}

#[test]
fn is_found_in_every_version() {
    let versions = ApiKey::Produce.valid_versions();
    for version in versions.first..=versions.last {
        for client_id in [None, Some(""), Some("a client with a name of some length")] {
            let mut request = request(1, 1);
            if version >= 3 {
                request.transactional_id = Some(Text::from("twisted"));
            }
            let bytes = framed(&request, version, client_id);
            let position = lone_batch_position(&bytes).expect("one topic, one partition");
            assert_eq!(&bytes[position..][..BATCH.len()], BATCH, "version {version}");
            // As the decoder sees it.
            let mut reader = Reader::new(bytes.clone());
            RequestHeader::decode(&mut reader).expect("whole");
            let decoded = ProduceRequest::decode(&mut reader, version).expect("whole");
            let records = decoded.topic_data[0].partition_data[0].records.as_ref();
            let records = records.expect("there are some");
            assert_eq!(records.as_ptr(), bytes[position..].as_ptr());
            assert_eq!(
                lone_batch_position(&bytes[..position]),
                Some(position),
                "the head is enough"
            );
            for short in 0..position {
                assert_eq!(lone_batch_position(&bytes[..short]), None, "cut off at {short}");
            }
        }
    }
}

#[test]
fn is_not_found_where_there_is_none_or_several() {
    for (topics, partitions) in [(0, 0), (1, 0), (1, 2), (2, 1)] {
        let bytes = framed(&request(topics, partitions), 9, None);
        assert_eq!(
            lone_batch_position(&bytes),
            None,
            "{topics} topics, {partitions} partitions"
        );
    }
    let mut nothing = request(1, 1);
    nothing.topic_data[0].partition_data[0].records = None;
    assert_eq!(lone_batch_position(&framed(&nothing, 9, None)), None);
    let fetch = FetchRequest::sample(&mut Seed(3), 12);
    let other = super::body(&frame_request(&mut Writer::new(), 12, 5, None, &fetch));
    assert_eq!(lone_batch_position(&other), None);
    let mut seed = Seed(11);
    for _ in 0..10_000 {
        let length = seed.below(64);
        let bytes: Vec<u8> = (0..length).map(|_| seed.next() as u8).collect();
        let position = lone_batch_position(&bytes);
        assert!(position.is_none_or(|position| position <= bytes.len()));
    }
}
