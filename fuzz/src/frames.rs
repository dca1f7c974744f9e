//! Frames as a node and a client get them from a socket: whatever the bytes are, an error or a message, and no panic.
//!
//! An input is a frame without its size prefix. It is read as a request; and, by the API and version that its first four
//! bytes name, the rest is read as a client would read an answer.

use bytes::Bytes;
use kafka_wire::{ApiKey, Decode, Encode, Reader, RequestHeader, ResponseHeader, Writer};

use crate::messages::{Visit, seen_by_kafka, visit};

/// The memory that one frame may take once it is decoded; small, so that frames that reach it are short.
const DECODED_BYTES_MAX: usize = 1 << 20;

/// See the module.
pub fn run(input: &[u8]) {
    let frame = Bytes::copy_from_slice(input);
    let mut reader = Reader::with_memory_limit(frame.clone(), DECODED_BYTES_MAX);
    if let Ok(header) = RequestHeader::decode(&mut reader) {
        visit(
            header.api_key,
            false,
            DecodeRest {
                reader: &mut reader,
                version: header.api_version,
            },
        );
        assert_eq!(
            reader_after(&header),
            Ok(header),
            "a header that was understood can be written and read again"
        );
    }
    let Some(head) = input.first_chunk::<4>() else {
        return;
    };
    let code = i16::from_be_bytes([head[0], head[1]]);
    let version = i16::from_be_bytes([head[2], head[3]]);
    let Some(api) = ApiKey::from_code(code) else {
        return;
    };
    let mut reader = Reader::with_memory_limit(frame.slice(head.len()..), DECODED_BYTES_MAX);
    if ResponseHeader::decode(&mut reader, api, version).is_ok() {
        visit(
            api,
            true,
            DecodeRest {
                reader: &mut reader,
                version,
            },
        );
    }
}

fn reader_after(header: &RequestHeader) -> Result<RequestHeader, kafka_wire::WireError> {
    let mut writer = Writer::new();
    header.encode(&mut writer);
    // The size prefix goes before it.
    let mut reader = Reader::new(writer.finish_frame().joined().slice(4..));
    RequestHeader::decode(&mut reader)
}

struct DecodeRest<'a> {
    reader: &'a mut Reader,
    version: i16,
}

impl Visit for DecodeRest<'_> {
    type Output = ();

    fn visit<M: Decode + Encode + PartialEq + std::fmt::Debug>(self) {
        let known_before = self.reader.remaining();
        if M::decode(self.reader, self.version).is_ok() {
            let taken = known_before - self.reader.remaining();
            let bytes_min = M::encoded_bytes_min(self.version);
            assert!(
                taken >= bytes_min,
                "a message of {taken} bytes was taken, the least is {bytes_min}"
            );
        }
    }
}

/// Each API's request and answer as Kafka writes them, in the newest version, with a header before them.
pub fn seeds() -> Vec<Vec<u8>> {
    seen_by_kafka()
        .filter(|(api, _, version, bytes)| *version == api.valid_versions().last && bytes.len() < 400)
        .map(|(api, response, version, message)| {
            let mut writer = Writer::new();
            let mut frame = [api.code().to_be_bytes(), version.to_be_bytes()].concat();
            match response {
                true => ResponseHeader { correlation_id: 7 }.encode(&mut writer, api, version),
                false => {
                    let header = RequestHeader {
                        api_key: api,
                        api_version: version,
                        correlation_id: 7,
                        client_id: Some("me".into()),
                    };
                    header.encode(&mut writer);
                    frame.clear();
                }
            }
            frame.extend_from_slice(&writer.finish_frame().joined()[4..]);
            frame.extend_from_slice(&message);
            frame
        })
        .collect()
}
