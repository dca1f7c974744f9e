//! Bytes to Kafka requests and responses, and back: the first and the last step of a record's way through a
//! node.
//!
//! `codec` is the hand-written runtime (a reader that checks every length before it allocates, a writer that
//! never copies large records), `generated` the messages themselves, made from Kafka's published schemas by
//! `generate/generate.py`. Nothing here does I/O or knows what a request means.
//!
//! Conventions of the messages:
//! - A field that a version lacks decodes to its schema default; encoding silently leaves it out, whatever it
//!   holds.
//! - `Default` is the schema's default, which for a nullable string or array without a declared one is
//!   *empty*, not null: whoever means null says `None`.
//! - `None` in a version whose field cannot be null is encoded as empty.
//! - Texts and byte fields are slices of the frame they came in and keep it alive: see [`Text::detached`].

mod codec;
mod error_code;
mod frame;
mod generated;
mod versions;

#[cfg(test)]
mod tests;

pub use codec::{
    DECODED_BYTES_MAX, Decode, Encode, ErrorSet, Float64, Frame, LARGE_BYTES_MIN, Reader, RecordChunks,
    Request, TEXT_BYTES_MAX, Text, Uuid, WireError, Writer,
};
pub use error_code::ErrorCode;
pub use frame::{RequestHeader, ResponseHeader, frame_request, frame_response, lone_batch_position};
pub use generated::*;
pub use versions::{VersionRange, request_header_version, response_header_version};
