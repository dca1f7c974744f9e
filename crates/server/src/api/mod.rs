//! Kafka's APIs: which are served in which versions, and how a request finds its handler.
//!
//! All that the codec knows is served. What it does not know is refused by closing the connection, as Kafka does: a client
//! asks ApiVersions first.

pub(crate) mod alter_configs;
mod api_versions;
mod authorized;
mod broker_configs;
pub(crate) mod config_resource;
pub(crate) mod create_partitions;
pub(crate) mod create_topics;
mod delete_records;
pub(crate) mod delete_topics;
mod describe_cluster;
pub(crate) mod describe_configs;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod elect_leaders;
mod gather;
mod groups;
mod init_producer_id;
mod list_config_resources;
pub(crate) mod list_offsets;
mod list_partition_reassignments;
mod metadata;
mod offset_for_leader_epoch;
mod topic_change;
mod wide;

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use kafka_wire::{
    ApiKey, DECODED_BYTES_MAX, Decode, Encode, ErrorCode, FetchRequest, Frame, ProduceRequest,
    ProduceResponse, Reader, Request, RequestHeader,
};

use storage::SharedMemory;

use crate::append_path::produce;
use crate::budget::SharedRoom;
use crate::connection::{Connection, ConnectionError};
use crate::core::Core;
use crate::fetch_path::{Fetched, fetch, session_bytes};

use wide::Form;
pub(crate) use wide::Started;

/// An answer under way; `None` when none is wanted. An error ends the connection, when what came before it is answered.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Option<Answered>, ConnectionError>>>>;

/// An answer that is ready.
pub(crate) struct Answered {
    pub(crate) frame: Frame,
    pub(crate) kind: AnswerKind,
}

/// What an answer's time is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Produce,
    /// To a Fetch that did not wait for records.
    FetchAtOnce,
    FetchThatWaited,
    /// Not counted.
    Other,
}

/// Starts a request: appends are staged or sent to their owners before this returns, everything else is done by the
/// answer. A wide request is still to be taken apart then. `room` is what a large request has taken of its core's memory: what is
/// made of the request elsewhere shares it, and an answer that may be long in coming takes it over, and gives it back when nothing of
/// the request is kept any more.
///
/// # Errors
/// The frame is malformed, or of an API or version that is not served: the connection cannot go on.
pub(crate) fn start(
    core: &Rc<Core>,
    connection: &Rc<Connection>,
    frame: Bytes,
    memory: Option<SharedMemory>,
    room: &mut SharedRoom,
) -> Result<Started, ConnectionError> {
    let arrays_bytes_max = arrays_bytes_max(&frame, frame.len());
    let mut reader = Reader::with_memory_limit(frame, arrays_bytes_max);
    let header = RequestHeader::decode(&mut reader)?;
    core.counters.requests_by_api.note(header.api_key);
    let call = Call {
        core,
        connection,
        header,
        reader,
        memory,
        room: room.clone(),
    };
    let client = connection.peer.ip();
    match call.header.api_key {
        ApiKey::Produce => call.produce(),
        ApiKey::Fetch => call.fetch(room.is_some()),
        ApiKey::ListOffsets => call.answer_sharing(list_offsets::handle, room),
        ApiKey::Metadata => call.answer_all(metadata::handle, room),
        ApiKey::ApiVersions => Ok(Started::Answer(call.api_versions())),
        ApiKey::CreateTopics => call.answer_client(create_topics::handle, room),
        ApiKey::DeleteTopics => call.answer_client(delete_topics::handle, room),
        ApiKey::DeleteRecords => call.answer_sharing(delete_records::handle, room),
        ApiKey::InitProducerId => call.answer(init_producer_id::handle),
        ApiKey::OffsetForLeaderEpoch => call.answer_sharing(offset_for_leader_epoch::handle, room),
        ApiKey::DescribeConfigs => {
            let handle =
                |core, request, version, room, _| describe_configs::handle(core, request, version, room);
            call.answer_all(handle, room)
        }
        ApiKey::CreatePartitions => call.answer_client(create_partitions::handle, room),
        ApiKey::FindCoordinator => call.answer(groups::find_coordinator),
        ApiKey::JoinGroup => call.join_group(room.take()),
        ApiKey::SyncGroup => call.sync_group(room.take()),
        ApiKey::Heartbeat => call.answer(groups::heartbeat),
        ApiKey::LeaveGroup => call.answer(groups::leave_group),
        ApiKey::OffsetCommit => call.commit_offsets(),
        ApiKey::OffsetFetch => call.answer_weighed_by(groups::offset_fetch, groups::fetched_bytes),
        ApiKey::OffsetDelete => call.answer_sharing(groups::offset_delete, room),
        ApiKey::DescribeGroups => call.answer_weighed_by(groups::describe_groups, groups::described_bytes),
        ApiKey::ListGroups => call.answer_weighed_by(groups::list_groups, groups::list_bytes),
        ApiKey::DeleteGroups => call.answer(groups::delete_groups),
        ApiKey::ConsumerGroupHeartbeat => call.heartbeat_of_consumer(),
        ApiKey::ConsumerGroupDescribe => {
            call.answer_weighed_by(groups::consumer_group_describe, groups::described_consumer_bytes)
        }
        ApiKey::AlterConfigs => call.answer_client(alter_configs::replace, room),
        ApiKey::IncrementalAlterConfigs => call.answer_client(alter_configs::edit, room),
        ApiKey::ListConfigResources => {
            let handle =
                move |core, request, version| list_config_resources::handle(core, request, version, client);
            call.answer_weighing(handle)
        }
        ApiKey::DescribeLogDirs => call.answer_all(describe_log_dirs::handle, room),
        ApiKey::DescribeCluster => call.answer(describe_cluster::handle),
        ApiKey::DescribeTopicPartitions => call.answer_client(describe_topic_partitions::handle, room),
        ApiKey::DescribeProducers => call.answer_client(describe_producers::handle, room),
        ApiKey::DescribeQuorum => call.answer_sharing(describe_quorum::handle, room),
        ApiKey::ListPartitionReassignments => call.answer(list_partition_reassignments::handle),
        ApiKey::ElectLeaders => call.answer_sharing(elect_leaders::handle, room),
    }
}

/// Bytes that the arrays of any request may take, however short it is.
const ARRAYS_BYTES_MIN: usize = 16 << 10;
/// Bytes that they may take beyond that for each byte of the request: names of three letters take ten times as much as they
/// are, those that people give topics and groups three to six times.
const ARRAYS_BYTES_PER_BYTE: usize = 12;
/// The same of appends, whose batches are not taken apart.
const ARRAYS_BYTES_PER_APPENDED_BYTE: usize = 2;

/// Bytes that the arrays of a request of `size` bytes may take; `head` are its first bytes.
fn arrays_bytes_max(head: &[u8], size: usize) -> usize {
    let per_byte = match is_one_of(head, &[ApiKey::Produce]) {
        true => ARRAYS_BYTES_PER_APPENDED_BYTE,
        false => ARRAYS_BYTES_PER_BYTE,
    };
    (ARRAYS_BYTES_MIN + size * per_byte).min(DECODED_BYTES_MAX)
}

/// Memory of its core that such a request takes when it is taken apart.
pub(crate) fn memory_bytes(head: &[u8], size: usize) -> usize {
    match is_one_of(head, &[ApiKey::Produce]) {
        // What its arrays take besides is little, unless they are of batches that are hardly there.
        true => size,
        false => size + arrays_bytes_max(head, size),
    }
}

/// Memory that a request takes besides: that of its session, if it is a Fetch.
pub(crate) fn memory_bytes_of_session(core: &Core, connection: &Connection, frame: &[u8]) -> usize {
    match is_fetch(frame) {
        true => session_bytes(core, connection),
        false => 0,
    }
}

/// Says whether a request is a Fetch.
fn is_fetch(frame: &[u8]) -> bool {
    is_one_of(frame, &[ApiKey::Fetch])
}

/// A request about no more topics than this is answered whether there is room for answers or not: whoever comes must find its way
/// also while others take nothing.
pub(crate) const TOPICS_WITHOUT_ROOM_MAX: usize = 100;

/// Says whether a request's answer may wait for others: for their records, or for the rest of a group.
pub(crate) fn may_wait(frame: &[u8]) -> bool {
    is_one_of(frame, &[ApiKey::Fetch, ApiKey::JoinGroup, ApiKey::SyncGroup])
}

fn is_one_of(frame: &[u8], keys: &[ApiKey]) -> bool {
    let api = frame.first_chunk().map(|code| i16::from_be_bytes(*code));
    keys.iter().any(|key| api == Some(key.code()))
}

/// A request whose header has been read.
struct Call<'a> {
    core: &'a Rc<Core>,
    connection: &'a Rc<Connection>,
    header: RequestHeader,
    reader: Reader,
    /// What a large append was received into.
    memory: Option<SharedMemory>,
    /// The room that the request has taken of its core's memory.
    room: SharedRoom,
}

impl Call<'_> {
    /// What follows the request in its frame is not looked at, as in Kafka: librdkafka sends three bytes too many when it
    /// asks for all topics.
    fn decode<R: Decode>(&mut self) -> Result<R, ConnectionError> {
        Ok(R::decode(&mut self.reader, self.header.api_version)?)
    }

    /// Encodes a response as the answer to this request.
    fn encoder<M: Encode>(&self) -> impl FnOnce(&M) -> Frame + use<M> {
        let (core, connection) = (self.core.clone(), self.connection.clone());
        let form = Form::of(&self.header);
        move |response| {
            let frame = form.frame(&mut connection.writer.borrow_mut(), response);
            core.counters.errors.note(form.api, frame.errors);
            frame
        }
    }

    fn answer<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, i16) -> F + 'static,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = R::Response> + 'static,
    {
        self.answer_weighing(move |core, request, version| {
            let response = handle(core, request, version);
            async move { (response.await, 0) }
        })
    }

    /// The same for what may have a long answer, however short it is. With the response comes what that takes in bytes, as it is
    /// told and in the frame.
    fn answer_weighing<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, i16) -> F + 'static,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = (R::Response, usize)> + 'static,
    {
        let encode = self.encoder::<R::Response>();
        let (core, form) = (self.core.clone(), Form::of(&self.header));
        let is_wide = wide::is_wide(&self.reader);
        let answer = move |request: R| -> Answer {
            Box::pin(async move {
                let (response, bytes) = handle(core.clone(), request, form.version).await;
                let frame = match is_wide || wide::is_long(bytes) {
                    true => wide::encode(&core, form, response, bytes).await,
                    false => encode(&response),
                };
                let kind = AnswerKind::Other;
                Ok(Some(Answered { frame, kind }))
            })
        };
        self.answer_decoded(answer)
    }

    /// The same where `bytes` says that of a response.
    fn answer_weighed_by<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, i16) -> F + 'static,
        bytes: impl Fn(&R::Response) -> usize + 'static,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = R::Response> + 'static,
    {
        self.answer_weighing(move |core, request, version| {
            let response = handle(core, request, version);
            async move {
                let response = response.await;
                let bytes = bytes(&response);
                (response, bytes)
            }
        })
    }

    /// Takes the request apart, a wide one beside the core, and goes on with `answer`.
    fn answer_decoded<R>(
        mut self,
        answer: impl FnOnce(R) -> Answer + 'static,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
    {
        if !wide::is_wide(&self.reader) {
            return Ok(Started::Answer(answer(self.decode()?)));
        }
        let (core, version) = (self.core.clone(), self.header.api_version);
        let (reader, room) = (self.reader, self.room);
        Ok(Started::Coming(Box::pin(async move {
            Ok(answer(wide::decode(&core, reader, version, room).await?))
        })))
    }

    /// The same for what has other cores do something: as long as anything made of the request is left there, its room is taken,
    /// also when the connection is gone.
    fn answer_sharing<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, i16, SharedRoom) -> F + 'static,
        room: &SharedRoom,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = R::Response> + 'static,
    {
        let room = room.clone();
        self.answer(move |core, request, version| handle(core, request, version, room))
    }

    /// The same for what depends on whose it is: the address of the client goes along.
    fn answer_client<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, i16, SharedRoom, IpAddr) -> F + 'static,
        room: &SharedRoom,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = R::Response> + 'static,
    {
        let client = self.connection.peer.ip();
        let handle = move |core, request, version, room| handle(core, request, version, room, client);
        self.answer_sharing(handle, room)
    }

    /// The same for what may have a long answer: the address of the client whose it is goes along.
    fn answer_all<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, i16, SharedRoom, IpAddr) -> F + 'static,
        room: &SharedRoom,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = (R::Response, usize)> + 'static,
    {
        let (room, client) = (room.clone(), self.connection.peer.ip());
        self.answer_weighing(move |core, request, version| handle(core, request, version, room, client))
    }

    /// The same, begun at once: what comes behind it on the connection need not wait until it is durable. For answers that are
    /// no larger than their requests.
    fn answer_at_once<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, i16) -> F + 'static,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = R::Response> + 'static,
    {
        let begin = |answer| -> Answer {
            let begun = platform::turns::spawn(answer);
            Box::pin(async move {
                match begun.await {
                    Ok(answer) => answer,
                    Err(ended) => match ended.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The core is ending.
                        Err(_) => Ok(None),
                    },
                }
            })
        };
        Ok(self.answer(handle)?.map(begin))
    }

    /// The same for requests by which a client becomes a group's member: who it is goes along.
    fn answer_member<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, i16, groups::Client) -> F + 'static,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = R::Response> + 'static,
    {
        let client = self.client();
        self.answer(move |core, request, version| handle(core, request, version, client))
    }

    fn client(&self) -> groups::Client {
        groups::Client {
            id: self.header.client_id.as_ref().map_or("", |id| id.as_str()).into(),
            // As Kafka shows it.
            host: format!("/{}", self.connection.peer.ip()).into(),
        }
    }

    fn commit_offsets(self) -> Result<Started, ConnectionError> {
        let (client, room) = (self.client(), self.room.clone());
        self.answer_at_once(move |core, request, version| {
            groups::offset_commit(core, request, version, client, room)
        })
    }

    fn heartbeat_of_consumer(self) -> Result<Started, ConnectionError> {
        let client = self.client();
        self.answer_weighed_by(
            move |core, request, version| groups::consumer_group_heartbeat(core, request, version, client),
            groups::heard_bytes,
        )
    }

    fn join_group(self, room: SharedRoom) -> Result<Started, ConnectionError> {
        self.answer_member(|core, request, version, client| {
            groups::join_group(core, request, version, client, room)
        })
    }

    fn sync_group(self, room: SharedRoom) -> Result<Started, ConnectionError> {
        self.answer(|core, request, version| groups::sync_group(core, request, version, room))
    }

    fn produce(mut self) -> Result<Started, ConnectionError> {
        let request = self.decode::<ProduceRequest>()?;
        let encode = self.encoder();
        let Call {
            core,
            connection,
            header,
            reader,
            memory,
            room: _,
        } = self;
        let version = header.api_version;
        // They refer to the request's memory.
        drop((header, reader));
        let is_answered = request.acks != 0;
        let response = produce(core, connection, request, version, memory);
        Ok(Started::Answer(Box::pin(async move {
            let response = response.await;
            if !is_answered {
                return check_unanswered(&response).map(|()| None);
            }
            let frame = encode(&response);
            let kind = AnswerKind::Produce;
            Ok(Some(Answered { frame, kind }))
        })))
    }

    fn fetch(self, holds_room: bool) -> Result<Started, ConnectionError> {
        let encode = self.encoder();
        let (core, connection) = (self.core.clone(), self.connection.clone());
        let form = Form::of(&self.header);
        let is_wide = wide::is_wide(&self.reader);
        let answer = move |request: FetchRequest| -> Answer {
            Box::pin(async move {
                let fetched = fetch(core.clone(), &connection, request, form.version, holds_room);
                let Fetched { response, waited } = fetched.await;
                let kind = match waited {
                    true => AnswerKind::FetchThatWaited,
                    false => AnswerKind::FetchAtOnce,
                };
                let frame = match is_wide {
                    true => wide::encode(&core, form, response, 0).await,
                    false => encode(&response),
                };
                Ok(Some(Answered { frame, kind }))
            })
        };
        self.answer_decoded(answer)
    }

    /// Answered in version 0 if the client's is not known here, so that it can read the answer (KIP-511).
    fn api_versions(self) -> Answer {
        let asked = Form::of(&self.header);
        let known = ApiKey::ApiVersions.valid_versions().contains(asked.version);
        let response = api_versions::respond(known);
        let (core, connection) = (self.core.clone(), self.connection.clone());
        Box::pin(async move {
            let version = if known { asked.version } else { 0 };
            let form = Form { version, ..asked };
            let frame = form.frame(&mut connection.writer.borrow_mut(), &response);
            core.counters.errors.note(form.api, frame.errors);
            let kind = AnswerKind::Other;
            Ok(Some(Answered { frame, kind }))
        })
    }
}

/// That nothing of an append was refused whose producer wants no answer. To hang up is the only way to tell it otherwise, as in
/// Kafka: it looks for the leaders then.
fn check_unanswered(response: &ProduceResponse) -> Result<(), ConnectionError> {
    let mut partitions = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    // What still waits for room was not refused.
    let taken = [ErrorCode::None, ErrorCode::RequestTimedOut].map(ErrorCode::code);
    match partitions.find(|partition| !taken.contains(&partition.error_code)) {
        None => Ok(()),
        Some(refused) => Err(ConnectionError::RefusedUnanswered {
            code: refused.error_code,
        }),
    }
}

#[cfg(test)]
mod tests {
    use kafka_wire::produce::{PartitionProduceResponse, TopicProduceResponse};

    use super::*;

    #[test]
    fn an_append_that_waits_is_not_taken_for_refused() {
        let answer = |code: ErrorCode| {
            let partition = PartitionProduceResponse {
                error_code: code.code(),
                ..PartitionProduceResponse::default()
            };
            let topic = TopicProduceResponse {
                partition_responses: vec![PartitionProduceResponse::default(), partition],
                ..TopicProduceResponse::default()
            };
            check_unanswered(&ProduceResponse {
                responses: vec![topic],
                ..ProduceResponse::default()
            })
        };
        assert!(answer(ErrorCode::None).is_ok());
        assert!(answer(ErrorCode::RequestTimedOut).is_ok());
        assert!(matches!(
            answer(ErrorCode::UnknownTopicOrPartition),
            Err(ConnectionError::RefusedUnanswered { code: 3 })
        ));
    }
}
