//! The headers before every request and response, and whole frames made of header and message.
//!
//! Written by hand although their schemas are published: the layout of a header depends on fields inside it,
//! and the client id keeps its old encoding in flexible versions.

use bytes::Bytes;

use crate::versions::{request_header_version, response_header_version};
use crate::{ApiKey, Encode, Frame, Reader, Request, Text, WireError, Writer};

/// The header of every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader {
    /// Which API the request is for.
    pub api_key: ApiKey,
    /// In which version it is laid out. Not checked against the schema: an ApiVersions request may be newer.
    pub api_version: i16,
    /// The client's number for this request; the response repeats it.
    pub correlation_id: i32,
    /// The client's name for itself, for logs and quotas.
    pub client_id: Option<Text>,
}

impl RequestHeader {
    /// Reads the header, and leaves the reader at the request.
    ///
    /// # Errors
    /// [`WireError::UnknownApi`] as soon as the key is known to be strange, since the rest's layout
    /// then is not known.
    pub fn decode(reader: &mut Reader) -> Result<RequestHeader, WireError> {
        let key = reader.int16()?;
        let api_key = ApiKey::from_code(key).ok_or(WireError::UnknownApi { key })?;
        let api_version = reader.int16()?;
        let correlation_id = reader.int32()?;
        let client_id = reader.nullable_text(false)?;
        if request_header_version(api_key, api_version) >= 2 {
            reader.skip_tagged_fields()?;
        }
        Ok(RequestHeader {
            api_key,
            api_version,
            correlation_id,
            client_id,
        })
    }

    /// Writes the header.
    pub fn encode(&self, writer: &mut Writer) {
        writer.int16(self.api_key.code());
        writer.int16(self.api_version);
        writer.int32(self.correlation_id);
        writer.nullable_text(self.client_id.as_ref(), false);
        if request_header_version(self.api_key, self.api_version) >= 2 {
            writer.unsigned_varint(0);
        }
    }
}

/// The header of every response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The number of the request that is answered.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads the header of an answer to `version` of `api`, and leaves the reader at the response.
    ///
    /// # Errors
    /// What the bytes have wrong.
    pub fn decode(reader: &mut Reader, api: ApiKey, version: i16) -> Result<ResponseHeader, WireError> {
        let correlation_id = reader.int32()?;
        if response_header_version(api, version) >= 1 {
            reader.skip_tagged_fields()?;
        }
        Ok(ResponseHeader { correlation_id })
    }

    /// Writes the header of an answer to `version` of `api`.
    pub fn encode(&self, writer: &mut Writer, api: ApiKey, version: i16) {
        writer.int32(self.correlation_id);
        if response_header_version(api, version) >= 1 {
            writer.unsigned_varint(0);
        }
    }
}

/// Where the only batch of a Produce request begins, if `head`, the request's first bytes, is of one that appends to one
/// partition and reaches up to there. A hint for whoever receives it: nothing behind it has been checked.
#[must_use]
pub fn lone_batch_position(head: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(Bytes::copy_from_slice(head));
    let header = RequestHeader::decode(&mut reader).ok()?;
    let version = header.api_version;
    let known = header.api_key == ApiKey::Produce && ApiKey::Produce.valid_versions().contains(version);
    let flexible = request_header_version(header.api_key, version) >= 2;
    if !known {
        return None;
    }
    if version >= 3 {
        reader.nullable_text(flexible).ok()?;
    }
    reader.int16().and(reader.int32()).ok()?;
    (reader.long_length(flexible).ok()? == Some(1)).then_some(())?;
    match version {
        ..=12 => reader.text(flexible).map(drop).ok()?,
        _ => reader.uuid().map(drop).ok()?,
    }
    (reader.long_length(flexible).ok()? == Some(1)).then_some(())?;
    reader.int32().ok()?;
    reader.long_length(flexible).ok()??;
    Some(head.len() - reader.remaining())
}

/// Header and request as one frame.
#[must_use]
pub fn frame_request<R: Request>(
    writer: &mut Writer,
    version: i16,
    correlation_id: i32,
    client_id: Option<&Text>,
    request: &R,
) -> Frame {
    let header = RequestHeader {
        api_key: R::API_KEY,
        api_version: version,
        correlation_id,
        client_id: client_id.cloned(),
    };
    header.encode(writer);
    request.encode(writer, version);
    writer.finish_frame()
}

/// Header and response as one frame: the answer to `version` of `api`.
#[must_use]
pub fn frame_response<M: Encode>(
    writer: &mut Writer,
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    response: &M,
) -> Frame {
    ResponseHeader { correlation_id }.encode(writer, api, version);
    response.encode(writer, version);
    writer.finish_frame()
}
