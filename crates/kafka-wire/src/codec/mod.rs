//! The runtime under the generated messages: readers, writers and the few types that Kafka's primitives
//! become.
//!
//! Reading is where hostile bytes arrive, so every check stands here and none in the generated code.

mod error_set;
mod float64;
mod reader;
mod record_chunks;
mod text;
mod uuid;
mod wire_error;
mod writer;

pub use error_set::ErrorSet;
pub use float64::Float64;
pub use reader::{DECODED_BYTES_MAX, Reader, TEXT_BYTES_MAX};
pub use record_chunks::RecordChunks;
pub use text::Text;
pub use uuid::Uuid;
pub use wire_error::WireError;
pub use writer::{Frame, LARGE_BYTES_MIN, Writer};

use crate::ApiKey;

/// A value that can be read from a frame.
pub trait Decode: Sized {
    /// Reads one value as `version` of its API lays it out, and leaves the reader behind it.
    ///
    /// # Errors
    /// What the bytes have wrong, and for a whole message a version that its schema does not have.
    fn decode(reader: &mut Reader, version: i16) -> Result<Self, WireError>;

    /// The fewest bytes that a value takes in `version`: what an array's count is checked against.
    fn encoded_bytes_min(version: i16) -> usize;
}

/// A value that can be written to a frame.
pub trait Encode {
    /// Writes the value as `version` of its API lays it out. Fields that the version lacks are left out.
    ///
    /// # Panics
    /// For a whole message, if its schema does not have `version`: the caller has negotiated it.
    fn encode(&self, writer: &mut Writer, version: i16);
}

/// A request, and with it which response answers it.
pub trait Request: Decode + Encode {
    /// The API that the request belongs to.
    const API_KEY: ApiKey;

    /// The other side's answer, in the same version.
    type Response: Decode + Encode;
}
