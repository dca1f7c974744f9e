//! Messages: what was understood can be written, and means the same again.
//!
//! An input is the index of an API, its request or its response, a version, another version, and then the message. So the
//! fuzzer need not guess a header, and each bit that it changes is in the message.

use bytes::Bytes;
use kafka_wire::{ApiKey, Decode, Encode, Reader, WireError, Writer};

use crate::input::Input;
use crate::messages::{Visit, seen_by_kafka, visit};

/// See the module.
pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let api = ApiKey::ALL[input.below(ApiKey::ALL.len())];
    let response = input.u8() % 2 == 1;
    let versions = api.valid_versions();
    let count = (versions.last - versions.first + 1) as usize;
    let mut version = || versions.first + input.below(count) as i16;
    let (version, other) = (version(), version());
    let bytes = Bytes::copy_from_slice(input.rest());
    visit(
        api,
        response,
        RoundTrip {
            bytes,
            version,
            other,
        },
    );
}

struct RoundTrip {
    bytes: Bytes,
    version: i16,
    other: i16,
}

impl Visit for RoundTrip {
    type Output = ();

    fn visit<M: Decode + Encode + PartialEq + std::fmt::Debug>(self) {
        let Ok(message) = decoded::<M>(self.bytes, self.version) else {
            return;
        };
        let written = encoded(&message, self.version);
        let again: M = decoded(written.clone(), self.version).expect("what is written is well formed");
        assert_eq!(again, message, "it comes back equal");
        assert_eq!(
            encoded(&again, self.version),
            written,
            "there is one way to write it"
        );

        // A node speaks the version that it is asked in: fields that this lacks are left out.
        let in_other = encoded(&message, self.other);
        let other: M =
            decoded(in_other, self.other).expect("what is written in another version is well formed");
        let settled = encoded(&other, self.other);
        assert_eq!(
            decoded::<M>(settled, self.other),
            Ok(other),
            "what was left out once is left out for ever"
        );
    }
}

fn encoded(message: &impl Encode, version: i16) -> Bytes {
    let mut writer = Writer::new();
    message.encode(&mut writer, version);
    writer.finish_frame().joined().slice(4..)
}

fn decoded<M: Decode>(bytes: Bytes, version: i16) -> Result<M, WireError> {
    let mut reader = Reader::new(bytes);
    let message = M::decode(&mut reader, version)?;
    reader.finish()?;
    Ok(message)
}

/// Each API's request and response as Kafka writes them, in the oldest and the newest version.
pub fn seeds() -> Vec<Vec<u8>> {
    let is_edge = |api: ApiKey, version: i16| {
        let versions = api.valid_versions();
        version == versions.first || version == versions.last
    };
    seen_by_kafka()
        .filter(|(api, _, version, bytes)| is_edge(*api, *version) && bytes.len() < 250)
        .map(|(api, response, version, message)| {
            let index = ApiKey::ALL
                .iter()
                .position(|one| *one == api)
                .expect("it is one of them");
            let step = (version - api.valid_versions().first) as u8;
            [&[index as u8, u8::from(response), step, 0], &message[..]].concat()
        })
        .collect()
}
