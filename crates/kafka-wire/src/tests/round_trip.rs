//! Written messages come back equal, in every version of every message.

use std::fmt::Debug;

use bytes::Bytes;

use super::samples::{Sample, Seed, Visitor};
use super::{body, decoded, encoded};
use crate::fetch::{FetchableTopicResponse, PartitionData};
use crate::generated::samples::visit_messages;
use crate::{
    ApiKey, Decode, Encode, ErrorCode, FetchResponse, LARGE_BYTES_MIN, MetadataRequest, ProduceRequest,
    Reader, RecordChunks, RequestHeader, ResponseHeader, TEXT_BYTES_MAX, Text, Writer, frame_request,
    frame_response, request_header_version, response_header_version,
};

/// Writes random content in every version and reads it back.
struct RoundTrip {
    seed: Seed,
    messages: usize,
}

impl Visitor for RoundTrip {
    fn visit<M: Sample + Decode + Encode + PartialEq + Debug + Default>(&mut self, api: ApiKey) {
        self.messages += 1;
        let versions = api.valid_versions();
        for version in versions.first..=versions.last {
            assert_eq!(
                decoded(encoded(&M::default(), version), version),
                Ok(M::default()),
                "{api:?} {version}"
            );
            for _ in 0..50 {
                let message = M::sample(&mut self.seed, version);
                let bytes = encoded(&message, version);
                assert!(
                    bytes.len() >= M::encoded_bytes_min(version),
                    "{api:?} {version} {message:?}"
                );
                assert_eq!(decoded(bytes, version), Ok(message), "{api:?} {version}");
            }
        }
    }
}

#[test]
fn what_is_written_comes_back_equal() {
    let mut visitor = RoundTrip {
        seed: Seed(1),
        messages: 0,
    };
    visit_messages(&mut visitor);
    assert_eq!(visitor.messages, 2 * ApiKey::ALL.len());
}

/// Fills the newest version and writes it in the older ones.
struct Downgrade(Seed);

impl Visitor for Downgrade {
    fn visit<M: Sample + Decode + Encode + PartialEq + Debug + Default>(&mut self, api: ApiKey) {
        let versions = api.valid_versions();
        for version in versions.first..=versions.last {
            let message = M::sample(&mut self.0, versions.last);
            let older: M =
                decoded(encoded(&message, version), version).expect("the older version is well formed");
            // A message that survived the first time survives for ever.
            assert_eq!(
                decoded(encoded(&older, version), version),
                Ok(older),
                "{api:?} {version}"
            );
        }
    }
}

#[test]
fn fields_that_a_version_lacks_are_left_out() {
    visit_messages(&mut Downgrade(Seed(2)));
}

#[test]
fn large_records_are_not_copied_and_small_ones_are() {
    let large = Bytes::from(vec![7; LARGE_BYTES_MIN]);
    let small = Bytes::from(vec![8; LARGE_BYTES_MIN - 1]);
    let records = RecordChunks::from(vec![large.clone(), small.clone(), large.clone()]);
    let partition = PartitionData {
        records,
        ..PartitionData::default()
    };
    let topic = FetchableTopicResponse {
        partitions: vec![partition],
        ..FetchableTopicResponse::default()
    };
    let response = FetchResponse {
        responses: vec![topic],
        ..FetchResponse::default()
    };

    let mut writer = Writer::new();
    let frame = frame_response(&mut writer, ApiKey::Fetch, 16, 5, &response);
    let own: Vec<_> = frame
        .chunks
        .iter()
        .map(|chunk| chunk.as_ptr() == large.as_ptr())
        .collect();
    assert_eq!(own, [false, true, false, true, false]);

    let mut reader = Reader::new(body(&frame));
    let header = ResponseHeader::decode(&mut reader, ApiKey::Fetch, 16);
    assert_eq!(header, Ok(ResponseHeader { correlation_id: 5 }));
    let read = FetchResponse::decode(&mut reader, 16).expect("well formed");
    assert_eq!(read, response);
    assert_eq!(
        read.responses[0].partitions[0].records.joined(),
        [large.clone(), small, large].concat()
    );
}

#[test]
fn one_writer_serves_many_frames() {
    let mut writer = Writer::new();
    let client = Text::from_static("client");
    let request = MetadataRequest::default();
    let frames: Vec<_> = (0..2000)
        .map(|id| frame_request(&mut writer, 12, id, Some(&client), &request))
        .collect();
    for (id, frame) in frames.iter().enumerate() {
        let mut reader = Reader::new(body(frame));
        let header = RequestHeader::decode(&mut reader).expect("well formed");
        assert_eq!(header.correlation_id, i32::try_from(id).expect("small"));
        assert_eq!((header.api_key, header.api_version), (ApiKey::Metadata, 12));
        assert_eq!(header.client_id, Some(client.clone()));
        assert_eq!(MetadataRequest::decode(&mut reader, 12), Ok(request.clone()));
        assert_eq!(reader.finish(), Ok(()));
    }
}

#[test]
fn header_versions_follow_the_flexible_versions() {
    assert_eq!(request_header_version(ApiKey::Produce, 8), 1);
    assert_eq!(request_header_version(ApiKey::Produce, 9), 2);
    assert_eq!(response_header_version(ApiKey::Produce, 8), 0);
    assert_eq!(response_header_version(ApiKey::Produce, 9), 1);
    // A version that is newer than this codec, which only ApiVersions may be asked for.
    assert_eq!(request_header_version(ApiKey::ApiVersions, 99), 2);
    assert_eq!(response_header_version(ApiKey::ApiVersions, 99), 0);
    // Never made flexible.
    assert_eq!(request_header_version(ApiKey::OffsetDelete, 0), 1);
}

#[test]
fn versions_in_common_are_found() {
    let produce = ApiKey::Produce.valid_versions();
    let peer = |first, last| crate::VersionRange { first, last };
    assert_eq!(produce.highest_common(peer(0, 9)), Some(9));
    assert_eq!(produce.highest_common(peer(5, 99)), Some(13));
    assert_eq!(produce.highest_common(peer(0, 2)), None);
    assert!(produce.contains(3) && !produce.contains(2) && !produce.contains(14));
}

#[test]
fn a_text_too_long_for_any_peer_is_cut_between_characters() {
    // The limit falls inside the last character that fits only in part.
    let long = Text::from("é".repeat(20_000));
    let request = ProduceRequest {
        transactional_id: Some(long),
        ..ProduceRequest::default()
    };
    for version in [3, 9] {
        let read: ProduceRequest = decoded(encoded(&request, version), version).expect("well formed");
        assert_eq!(
            read.transactional_id.map(|text| text.len()),
            Some(TEXT_BYTES_MAX - 1)
        );
    }
}

#[test]
fn texts_behave_as_strings() {
    let text = Text::from("zürich");
    let mut map = std::collections::BTreeMap::new();
    map.insert(text.clone(), 1);
    assert_eq!(map.get("zürich"), Some(&1));
    assert_eq!(
        (text.to_string().as_str(), format!("{text:?}").as_str()),
        ("zürich", "\"zürich\"")
    );
    assert_eq!(text.detached(), text);
    assert_eq!(text, "zürich");
}

#[test]
fn error_codes_are_numbered_as_in_kafka() {
    for code in ErrorCode::ALL {
        assert_eq!(ErrorCode::from_code(code.code()), Some(*code));
    }
    assert_eq!(
        ErrorCode::from_code(6).map(ErrorCode::name),
        Some("NOT_LEADER_OR_FOLLOWER")
    );
    assert_eq!(ErrorCode::from_code(i16::MAX), None);
    assert!(
        ErrorCode::NotLeaderOrFollower.is_retriable() && !ErrorCode::InvalidTopicException.is_retriable()
    );
}
