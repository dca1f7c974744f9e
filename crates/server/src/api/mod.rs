//! Kafka's APIs: which are served in which versions, and how a request finds its handler.
//!
//! What is not in `SERVED` is refused by closing the connection, as Kafka does: a client asks ApiVersions first.

mod api_versions;
mod create_partitions;
pub(crate) mod create_topics;
mod delete_records;
pub(crate) mod delete_topics;
mod describe_configs;
mod init_producer_id;
pub(crate) mod list_offsets;
mod metadata;
mod offset_for_leader_epoch;
mod topic_change;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use kafka_wire::{
    ApiKey, Decode, Encode, FetchRequest, Frame, ProduceRequest, Reader, Request, RequestHeader, WireError,
    frame_response,
};

use crate::append_path::produce;
use crate::connection::{Connection, ConnectionError};
use crate::core::Core;
use crate::fetch_path::fetch;

/// An answer under way; `None` when none is wanted.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Option<Frame>>>>;

/// The APIs this node serves, in all versions that the codec knows.
pub(crate) const SERVED: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::DeleteRecords,
    ApiKey::InitProducerId,
    ApiKey::OffsetForLeaderEpoch,
    ApiKey::DescribeConfigs,
    ApiKey::CreatePartitions,
];

/// Starts a request: appends are staged or sent to their owners before this returns, everything else is done by the
/// answer.
///
/// # Errors
/// The frame is malformed, or of an API or version that is not served: the connection cannot go on.
pub(crate) fn start(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    frame: Bytes,
) -> Result<Answer, ConnectionError> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader)?;
    let call = Call {
        core,
        connection,
        header,
        reader,
    };
    let version = call.header.api_version;
    if call.header.api_key == ApiKey::ApiVersions {
        return Ok(call.api_versions());
    }
    if !SERVED.contains(&call.header.api_key) {
        return Err(WireError::UnsupportedVersion {
            api: call.header.api_key,
            version,
        }
        .into());
    }
    match call.header.api_key {
        ApiKey::Produce => call.produce(),
        ApiKey::Fetch => call.fetch(),
        ApiKey::ListOffsets => call.answer(list_offsets::handle),
        ApiKey::Metadata => call.answer(metadata::handle),
        ApiKey::CreateTopics => call.answer(create_topics::handle),
        ApiKey::DeleteTopics => call.answer(delete_topics::handle),
        ApiKey::DeleteRecords => call.answer(delete_records::handle),
        ApiKey::InitProducerId => call.answer(init_producer_id::handle),
        ApiKey::OffsetForLeaderEpoch => call.answer(offset_for_leader_epoch::handle),
        ApiKey::DescribeConfigs => call.answer(describe_configs::handle),
        ApiKey::CreatePartitions => call.answer(create_partitions::handle),
        api => Err(WireError::UnsupportedVersion { api, version }.into()),
    }
}

/// A request whose header has been read.
struct Call<'a> {
    core: &'a Rc<Core>,
    connection: &'a Rc<Connection>,
    header: RequestHeader,
    reader: Reader,
}

impl Call<'_> {
    /// What follows the request in its frame is not looked at, as in Kafka: librdkafka sends three bytes too many when it
    /// asks for all topics.
    fn decode<R: Decode>(&mut self) -> Result<R, ConnectionError> {
        Ok(R::decode(&mut self.reader, self.header.api_version)?)
    }

    /// Encodes a response as the answer to this request.
    fn encoder<M: Encode>(&self) -> impl FnOnce(&M) -> Frame + use<M> {
        let connection = self.connection.clone();
        let (api, version, correlation_id) = (
            self.header.api_key,
            self.header.api_version,
            self.header.correlation_id,
        );
        move |response| {
            frame_response(
                &mut connection.writer.borrow_mut(),
                api,
                version,
                correlation_id,
                response,
            )
        }
    }

    fn answer<R, F>(
        mut self,
        handle: impl FnOnce(Rc<Core>, R, i16) -> F + 'static,
    ) -> Result<Answer, ConnectionError>
    where
        R: Request + 'static,
        R::Response: Encode + 'static,
        F: Future<Output = R::Response> + 'static,
    {
        let request = self.decode::<R>()?;
        let encode = self.encoder::<R::Response>();
        let (core, version) = (self.core.clone(), self.header.api_version);
        Ok(Box::pin(async move {
            Some(encode(&handle(core, request, version).await))
        }))
    }

    fn produce(mut self) -> Result<Answer, ConnectionError> {
        let request = self.decode::<ProduceRequest>()?;
        let encode = self.encoder();
        let response = produce(self.core, self.connection, request, self.header.api_version);
        Ok(Box::pin(async move { response.await.as_ref().map(encode) }))
    }

    fn fetch(mut self) -> Result<Answer, ConnectionError> {
        let request = self.decode::<FetchRequest>()?;
        let encode = self.encoder();
        let (core, connection, version) = (
            self.core.clone(),
            self.connection.clone(),
            self.header.api_version,
        );
        Ok(Box::pin(async move {
            let response = fetch(core, &connection, request, version).await;
            connection.session.set(response.session_id);
            Some(encode(&response))
        }))
    }

    /// Answered in version 0 if the client's is not known here, so that it can read the answer (KIP-511).
    fn api_versions(self) -> Answer {
        let version = self.header.api_version;
        let known = ApiKey::ApiVersions.valid_versions().contains(version);
        let response = api_versions::respond(known);
        let header = self.header;
        let connection = self.connection.clone();
        Box::pin(async move {
            let version = if known { version } else { 0 };
            let mut writer = connection.writer.borrow_mut();
            Some(frame_response(
                &mut writer,
                header.api_key,
                version,
                header.correlation_id,
                &response,
            ))
        })
    }
}
