//! Requests and answers of very many entries are taken apart and put together beside the core.
//!
//! The work takes longer than a turn of a core may, and needs nothing of the core. The next request of the connection is not looked at before
//! a wide one is taken apart, so requests are begun in their order all the same.

use std::future::Future;
use std::pin::Pin;

use kafka_wire::{ApiKey, Decode, Encode, Frame, Reader, RequestHeader, Writer, frame_response};

use super::Answer;
use crate::budget::SharedRoom;
use crate::connection::ConnectionError;
use crate::core::Core;

/// From this size on a request is wide. Taken apart it has tens of thousands of entries at most below that.
const REQUEST_BYTES: usize = 256 << 10;
/// From this size on an answer is put together beside the core, whatever asks for it.
const ANSWER_BYTES: usize = 512 << 10;

/// A request under way: its answer, or what becomes that when the request is taken apart.
pub(crate) enum Started {
    Answer(Answer),
    Coming(Pin<Box<dyn Future<Output = Result<Answer, ConnectionError>>>>),
}

impl Started {
    /// Waits until the request is taken apart.
    ///
    /// # Errors
    /// It is malformed.
    pub(crate) async fn answer(self) -> Result<Answer, ConnectionError> {
        match self {
            Started::Answer(answer) => Ok(answer),
            Started::Coming(coming) => coming.await,
        }
    }

    /// The same with another answer made of the answer.
    pub(super) fn map(self, make: impl FnOnce(Answer) -> Answer + 'static) -> Started {
        match self {
            Started::Answer(answer) => Started::Answer(make(answer)),
            Started::Coming(coming) => Started::Coming(Box::pin(async move { Ok(make(coming.await?)) })),
        }
    }
}

/// Says whether what is left to read is a wide request.
pub(super) fn is_wide(reader: &Reader) -> bool {
    reader.remaining() >= REQUEST_BYTES
}

/// Says whether an answer of this size is long.
pub(super) fn is_long(bytes: usize) -> bool {
    bytes >= ANSWER_BYTES
}

/// Takes a request apart beside the core. `room` is the request's: it is taken until that is done, also if nobody waits any more.
pub(super) async fn decode<R: Decode + Send + 'static>(
    core: &Core,
    mut reader: Reader,
    version: i16,
    room: SharedRoom,
) -> Result<R, ConnectionError> {
    let decode = move || {
        let request = R::decode(&mut reader, version);
        drop((reader, room));
        request
    };
    Ok(core.codec.run(decode).await?)
}

/// The part of a request's header that its answer needs. It refers to nothing of the request's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
}

impl Form {
    pub(super) fn of(header: &RequestHeader) -> Form {
        Form {
            api: header.api_key,
            version: header.api_version,
            correlation_id: header.correlation_id,
        }
    }

    pub(super) fn frame<M: Encode>(self, writer: &mut Writer, response: &M) -> Frame {
        frame_response(writer, self.api, self.version, self.correlation_id, response)
    }
}

/// Puts an answer together beside the core. Its memory is held meanwhile: whoever gathered it holds nothing any more, and whoever
/// writes it nothing yet.
pub(super) async fn encode<M: Encode + Send + 'static>(
    core: &Core,
    form: Form,
    response: M,
    bytes: usize,
) -> Frame {
    let _held = core.answers.hold(bytes);
    let encode = move || form.frame(&mut Writer::new(), &response);
    let frame = core.codec.run(encode).await;
    core.counters.errors.note(form.api, frame.errors);
    frame
}
