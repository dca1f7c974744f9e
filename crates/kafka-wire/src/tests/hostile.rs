//! Bytes from someone who means harm: always an error or a message, never a panic, never memory by what they
//! claim.

use std::fmt::Debug;

use bytes::{BufMut, Bytes, BytesMut};

use super::samples::{Sample, Seed, Visitor};
use super::{decoded, encoded};
use crate::generated::samples::visit_messages;
use crate::{
    ApiKey, ApiVersionsRequest, Decode, Encode, FetchRequest, MetadataRequest, ProduceRequest, Reader,
    RequestHeader, WireError,
};

/// Cuts messages off at every length.
struct Truncation(Seed);

impl Visitor for Truncation {
    fn visit<M: Sample + Decode + Encode + PartialEq + Debug + Default>(&mut self, api: ApiKey) {
        let versions = api.valid_versions();
        for version in versions.first..=versions.last {
            let bytes = encoded(&M::sample(&mut self.0, version), version);
            for length in 0..bytes.len() {
                let cut = decoded::<M>(bytes.slice(..length), version);
                assert!(
                    cut.is_err(),
                    "{api:?} {version} cut to {length} of {} bytes",
                    bytes.len()
                );
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(
                decoded::<M>(longer.into(), version),
                Err(WireError::TrailingBytes { remaining: 1 })
            );
        }
    }
}

#[test]
fn a_message_cut_off_anywhere_is_an_error() {
    visit_messages(&mut Truncation(Seed(3)));
}

/// Reads noise, and messages with a few bytes changed.
struct Noise(Seed);

impl Noise {
    /// Bytes that look like small lengths as often as like anything else.
    fn bytes(&mut self) -> Bytes {
        let length = self.0.below(200);
        (0..length)
            .map(|_| {
                if self.0.below(2) == 0 {
                    self.0.below(4) as u8
                } else {
                    self.0.next() as u8
                }
            })
            .collect()
    }

    fn changed(&mut self, bytes: &Bytes) -> Bytes {
        let mut changed = BytesMut::from(&bytes[..]);
        for _ in 0..=self.0.below(3) {
            // Some requests have no byte at all.
            let position = self.0.below(changed.len().max(1) as u64) as usize;
            if let Some(byte) = changed.get_mut(position) {
                *byte = self.0.next() as u8;
            }
        }
        changed.freeze()
    }
}

impl Visitor for Noise {
    fn visit<M: Sample + Decode + Encode + PartialEq + Debug + Default>(&mut self, api: ApiKey) {
        let versions = api.valid_versions();
        for version in versions.first..=versions.last {
            for _ in 0..100 {
                let _ = decoded::<M>(self.bytes(), version);
                let bytes = encoded(&M::sample(&mut self.0, version), version);
                let Ok(message) = decoded::<M>(self.changed(&bytes), version) else {
                    continue;
                };
                // Whatever was understood can be written, and means the same again.
                assert_eq!(
                    decoded(encoded(&message, version), version),
                    Ok(message),
                    "{api:?} {version}"
                );
            }
        }
    }
}

#[test]
fn noise_never_panics() {
    visit_messages(&mut Noise(Seed(4)));
}

#[test]
fn versions_outside_the_schema_are_refused() {
    let unsupported = |version| {
        Err(WireError::UnsupportedVersion {
            api: ApiKey::Produce,
            version,
        })
    };
    for version in [i16::MIN, -1, 2, 14, i16::MAX] {
        assert_eq!(
            decoded::<ProduceRequest>(Bytes::from_static(&[0; 64]), version),
            unsupported(version)
        );
    }
    let key = 999_i16;
    let mut reader = Reader::new(Bytes::copy_from_slice(&key.to_be_bytes()));
    assert_eq!(
        RequestHeader::decode(&mut reader),
        Err(WireError::UnknownApi { key })
    );
}

#[test]
fn a_count_beyond_the_frame_is_refused() {
    // Metadata version 1: an array of names, each at least two bytes.
    let request = |count: i32, rest: usize| [&count.to_be_bytes()[..], &vec![0; rest]].concat().into();
    assert_eq!(
        decoded::<MetadataRequest>(request(i32::MAX, 100), 1),
        Err(WireError::CountTooLarge {
            count: i32::MAX as usize,
            element_bytes_min: 2,
            remaining: 100
        })
    );
    assert_eq!(
        decoded::<MetadataRequest>(request(51, 100), 1),
        Err(WireError::CountTooLarge {
            count: 51,
            element_bytes_min: 2,
            remaining: 100
        })
    );
    assert!(decoded::<MetadataRequest>(request(50, 100), 1).is_ok());
    assert_eq!(
        decoded::<MetadataRequest>(request(-2, 0), 1),
        Err(WireError::NegativeLength { length: -2 })
    );
    assert_eq!(
        decoded::<MetadataRequest>(request(-1, 0), 0),
        Err(WireError::UnexpectedNull)
    );
}

#[test]
fn the_arrays_of_one_frame_share_a_budget() {
    // A thousand topics of no partitions in Fetch version 4: small on the wire, larger in memory.
    let mut bytes = BytesMut::new();
    bytes.put_slice(&[0; 17]);
    bytes.put_i32(1000);
    bytes.put_bytes(0, 1000 * 6);
    let bytes = bytes.freeze();
    let topics = FetchRequest::decode(&mut Reader::new(bytes.clone()), 4).map(|request| request.topics.len());
    assert_eq!(topics, Ok(1000));

    let element_bytes = size_of::<crate::fetch::FetchTopic>();
    let mut frugal = Reader::with_memory_limit(bytes, 1000 * element_bytes - 1);
    let refused = WireError::TooMany {
        count: 1000,
        element_bytes,
        left_bytes: 1000 * element_bytes - 1,
    };
    assert_eq!(FetchRequest::decode(&mut frugal, 4), Err(refused));
}

#[test]
fn nested_counts_draw_on_the_same_budget() {
    let topic = crate::produce::TopicProduceData {
        partition_data: vec![crate::produce::PartitionProduceData::default(); 10],
        ..Default::default()
    };
    let request = ProduceRequest {
        topic_data: vec![topic; 10],
        ..ProduceRequest::default()
    };
    let needed = 10 * size_of::<crate::produce::TopicProduceData>()
        + 100 * size_of::<crate::produce::PartitionProduceData>();
    let read =
        |memory| ProduceRequest::decode(&mut Reader::with_memory_limit(encoded(&request, 9), memory), 9);
    assert_eq!(read(needed), Ok(request.clone()));
    assert!(matches!(
        read(needed - 1),
        Err(WireError::TooMany { count: 10, .. })
    ));
}

#[test]
fn unknown_tagged_fields_are_skipped_and_lying_ones_refused() {
    // ApiVersions version 3: two empty texts, then the tagged fields.
    let request = |tags: &[u8]| [&[1, 1][..], tags].concat().into();
    let decode = decoded::<ApiVersionsRequest>;
    assert_eq!(
        decode(request(&[2, 7, 3, 1, 2, 3, 0x80, 1, 0]), 3),
        Ok(ApiVersionsRequest::default())
    );
    assert_eq!(
        decode(request(&[1, 7, 4, 1, 2, 3]), 3),
        Err(WireError::Short {
            needed: 4,
            remaining: 3
        })
    );
    assert_eq!(
        decode(request(&[0xff, 0xff, 0xff, 0xff, 0x0f]), 3),
        Err(WireError::Short {
            needed: 1,
            remaining: 0
        })
    );
    assert_eq!(
        decode(request(&[0xff, 0xff, 0xff, 0xff, 0x10]), 3),
        Err(WireError::VarintTooLong)
    );

    // Fetch version 12: tag 0 is the cluster id, here of two bytes in an announced size of four.
    let mut fetch = encoded(&FetchRequest::default(), 12).to_vec();
    fetch.pop();
    fetch.extend([1, 0, 4, 3, b'i', b'd', 0]);
    let refused = WireError::TagSize {
        tag: 0,
        announced: 4,
        taken: 3,
    };
    assert_eq!(decoded::<FetchRequest>(fetch.into(), 12), Err(refused));
}

#[test]
fn bad_texts_are_refused() {
    let decode = |bytes: &'static [u8]| decoded::<ApiVersionsRequest>(Bytes::from_static(bytes), 3);
    assert_eq!(
        decode(&[3, b'a', 0xff, 1, 0]),
        Err(WireError::NotUtf8 { valid_bytes: 1 })
    );
    assert_eq!(decode(&[0, 1, 0]), Err(WireError::UnexpectedNull));
    assert_eq!(
        decode(&[0x81, 0x80, 2]),
        Err(WireError::TextTooLong { length: 1 << 15 })
    );
}
