//! Demands on every message, tried on all of them in all their versions.

mod golden;
mod hostile;
mod lone_batch;
mod round_trip;
pub(crate) mod samples;

use bytes::Bytes;

use crate::{Encode, Frame, WireError, Writer};

/// The message's bytes alone, without the frame's size prefix.
fn encoded(message: &impl Encode, version: i16) -> Bytes {
    let mut writer = Writer::new();
    message.encode(&mut writer, version);
    body(&writer.finish_frame())
}

/// The bytes that follow a frame's size prefix, which must be right.
fn body(frame: &Frame) -> Bytes {
    let joined = frame.joined();
    assert_eq!(joined.len(), frame.total_bytes);
    assert_eq!(
        joined[..4],
        u32::try_from(joined.len() - 4).expect("small").to_be_bytes()
    );
    joined.slice(4..)
}

/// Reads a whole message that must fill its frame.
fn decoded<M: crate::Decode>(bytes: Bytes, version: i16) -> Result<M, WireError> {
    let mut reader = crate::Reader::new(bytes);
    let message = M::decode(&mut reader, version)?;
    reader.finish()?;
    Ok(message)
}
