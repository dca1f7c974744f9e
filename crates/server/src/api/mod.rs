//! Kafka's APIs: which are served in which versions, and how a request finds its handler.
//!
//! All that the codec knows is served. What it does not know is refused by closing the connection, as Kafka does: a client
//! asks ApiVersions first.

pub(crate) mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
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
pub(crate) mod elect_leaders;
mod gather;
mod group_configs;
mod groups;
mod init_producer_id;
mod list_config_resources;
pub(crate) mod list_offsets;
mod list_partition_reassignments;
mod metadata;
mod offset_for_leader_epoch;
mod security;
mod topic_change;
mod transactions;
mod unregister_broker;
mod update_features;
mod wide;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use kafka_wire::{
    ApiKey, DECODED_BYTES_MAX, Decode, Encode, ErrorCode, FetchRequest, Frame, ProduceRequest,
    ProduceResponse, Reader, Request, RequestHeader,
};

use storage::SharedMemory;

pub(crate) use transactions::{add_partitions, write_markers};

use crate::append_path::produce;
use crate::budget::SharedRoom;
use crate::caller::Caller;
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

/// The histogram that an answer's time is counted in.
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
        caller: connection.caller(header.client_id.as_ref()),
        room: match header.api_key {
            // They may wait for long, and have no need of it then.
            ApiKey::JoinGroup | ApiKey::SyncGroup => room.take(),
            _ => room.clone(),
        },
        header,
        reader,
        memory,
    };
    match call.header.api_key {
        ApiKey::Produce => call.produce(),
        ApiKey::Fetch => call.fetch(),
        ApiKey::ListOffsets => call.answer(list_offsets::handle),
        ApiKey::Metadata => call.answer_weighing(metadata::handle),
        ApiKey::ApiVersions => Ok(Started::Answer(call.api_versions())),
        ApiKey::CreateTopics => call.answer(create_topics::handle),
        ApiKey::DeleteTopics => call.answer(delete_topics::handle),
        ApiKey::DeleteRecords => call.answer(delete_records::handle),
        ApiKey::InitProducerId => call.answer(init_producer_id::handle),
        ApiKey::OffsetForLeaderEpoch => call.answer(offset_for_leader_epoch::handle),
        ApiKey::DescribeConfigs => call.answer_weighing(describe_configs::handle),
        ApiKey::CreatePartitions => call.answer(create_partitions::handle),
        ApiKey::FindCoordinator => call.answer(groups::find_coordinator),
        ApiKey::JoinGroup => call.answer(groups::join_group),
        ApiKey::SyncGroup => call.answer(groups::sync_group),
        ApiKey::Heartbeat => call.answer(groups::heartbeat),
        ApiKey::LeaveGroup => call.answer(groups::leave_group),
        ApiKey::OffsetCommit => call.answer_at_once(groups::offset_commit),
        ApiKey::OffsetFetch => call.answer_weighed_by(groups::offset_fetch, groups::fetched_bytes),
        ApiKey::OffsetDelete => call.answer(groups::offset_delete),
        ApiKey::DescribeGroups => call.answer_weighed_by(groups::describe_groups, groups::described_bytes),
        ApiKey::ListGroups => call.answer_weighed_by(groups::list_groups, groups::list_bytes),
        ApiKey::DeleteGroups => call.answer(groups::delete_groups),
        ApiKey::ConsumerGroupHeartbeat => {
            call.answer_weighed_by(groups::consumer_group_heartbeat, groups::heard_bytes)
        }
        ApiKey::ConsumerGroupDescribe => {
            call.answer_weighed_by(groups::consumer_group_describe, groups::described_consumer_bytes)
        }
        ApiKey::AlterConfigs => call.answer(alter_configs::replace),
        ApiKey::IncrementalAlterConfigs => call.answer(alter_configs::edit),
        ApiKey::ListConfigResources => call.answer_weighing(list_config_resources::handle),
        ApiKey::DescribeLogDirs => call.answer_weighing(describe_log_dirs::handle),
        ApiKey::DescribeCluster => call.answer(describe_cluster::handle),
        ApiKey::DescribeTopicPartitions => call.answer(describe_topic_partitions::handle),
        ApiKey::DescribeProducers => call.answer(describe_producers::handle),
        ApiKey::DescribeQuorum => call.answer(describe_quorum::handle),
        ApiKey::AlterPartitionReassignments => call.answer(alter_partition_reassignments::handle),
        ApiKey::UnregisterBroker => call.answer(unregister_broker::handle),
        ApiKey::ListPartitionReassignments => call.answer_weighing(list_partition_reassignments::handle),
        ApiKey::ElectLeaders => call.answer(elect_leaders::handle),
        ApiKey::AddPartitionsToTxn => call.answer(transactions::add_partitions_to_txn),
        ApiKey::AddOffsetsToTxn => call.answer(transactions::add_offsets_to_txn),
        ApiKey::EndTxn => call.answer(transactions::end_txn),
        ApiKey::WriteTxnMarkers => call.answer(transactions::write_txn_markers),
        ApiKey::TxnOffsetCommit => call.answer(transactions::txn_offset_commit),
        ApiKey::DescribeTransactions => call.answer(transactions::describe_transactions),
        ApiKey::ListTransactions => call.answer(transactions::list_transactions),
        ApiKey::UpdateFeatures => call.answer(update_features::handle),
        ApiKey::AlterReplicaLogDirs => call.answer_weighing(alter_replica_log_dirs::handle),
        ApiKey::DescribeAcls => call.answer(security::describe_acls),
        ApiKey::CreateAcls => call.answer_weighing(security::create_acls),
        ApiKey::DeleteAcls => call.answer_weighing(security::delete_acls),
        ApiKey::CreateDelegationToken => call.answer(security::create_delegation_token),
        ApiKey::RenewDelegationToken => call.answer(security::renew_delegation_token),
        ApiKey::ExpireDelegationToken => call.answer(security::expire_delegation_token),
        ApiKey::DescribeDelegationToken => call.answer(security::describe_delegation_token),
        ApiKey::DescribeClientQuotas => call.answer(security::describe_client_quotas),
        ApiKey::AlterClientQuotas => call.answer_weighing(security::alter_client_quotas),
        ApiKey::DescribeUserScramCredentials => {
            call.answer_weighing(security::describe_user_scram_credentials)
        }
        ApiKey::AlterUserScramCredentials => call.answer_weighing(security::alter_user_scram_credentials),
    }
}

/// All that comes with a request beside its body, whichever way it came.
pub(crate) struct Envelope {
    /// The version that it is written in, and its answer.
    pub(crate) version: i16,
    /// The client whose it is.
    pub(crate) caller: Arc<Caller>,
    /// The room that it has taken of its core's memory: as long as anything made of it is left somewhere, that is taken, also when
    /// the connection is gone.
    pub(crate) room: SharedRoom,
}

impl Envelope {
    /// The envelope of a request that has taken no room of its core's memory.
    pub(crate) fn without_room(version: i16, caller: Arc<Caller>) -> Envelope {
        Envelope {
            version,
            caller,
            room: None,
        }
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
        // Its arrays take little besides, unless they are of batches that are hardly there.
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
    caller: Arc<Caller>,
    header: RequestHeader,
    reader: Reader,
    /// The memory that a large append was received into.
    memory: Option<SharedMemory>,
    /// The room that the request has taken of its core's memory.
    room: SharedRoom,
}

impl Call<'_> {
    /// Bytes that follow the request in its frame are not looked at, as in Kafka: librdkafka sends three bytes too many when it
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

    fn envelope(&self) -> Envelope {
        Envelope {
            version: self.header.api_version,
            caller: self.caller.clone(),
            room: self.room.clone(),
        }
    }

    fn answer<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, Envelope) -> F + 'static,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = R::Response> + 'static,
    {
        self.answer_weighing(move |core, request, envelope| {
            let response = handle(core, request, envelope);
            async move { (response.await, 0) }
        })
    }

    /// The same for what may have a long answer, however short it is. With the response comes what that takes in bytes, as it is
    /// told and in the frame.
    fn answer_weighing<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, Envelope) -> F + 'static,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = (R::Response, usize)> + 'static,
    {
        let encode = self.encoder::<R::Response>();
        let (core, form) = (self.core.clone(), Form::of(&self.header));
        let (envelope, is_wide) = (self.envelope(), wide::is_wide(&self.reader));
        let answer = move |request: R| -> Answer {
            Box::pin(async move {
                let (response, bytes) = handle(core.clone(), request, envelope).await;
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
        handle: impl FnOnce(Rc<Core>, R, Envelope) -> F + 'static,
        bytes: impl Fn(&R::Response) -> usize + 'static,
    ) -> Result<Started, ConnectionError>
    where
        R: Request + Send + 'static,
        R::Response: Encode + Send + 'static,
        F: Future<Output = R::Response> + 'static,
    {
        self.answer_weighing(move |core, request, envelope| {
            let response = handle(core, request, envelope);
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

    /// The same, begun at once: what comes behind it on the connection need not wait until it is durable. For answers that are
    /// no larger than their requests.
    fn answer_at_once<R, F>(
        self,
        handle: impl FnOnce(Rc<Core>, R, Envelope) -> F + 'static,
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

    fn produce(mut self) -> Result<Started, ConnectionError> {
        let request = self.decode::<ProduceRequest>()?;
        let encode = self.encoder();
        let Call {
            core,
            connection,
            caller,
            header,
            reader,
            memory,
            room: _,
        } = self;
        let version = header.api_version;
        // They refer to the request's memory.
        drop((header, reader));
        let is_answered = request.acks != 0;
        let response = produce(core, connection, caller, request, version, memory);
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

    fn fetch(self) -> Result<Started, ConnectionError> {
        let encode = self.encoder();
        let (core, connection, caller) = (self.core.clone(), self.connection.clone(), self.caller.clone());
        let form = Form::of(&self.header);
        let (holds_room, is_wide) = (self.room.is_some(), wide::is_wide(&self.reader));
        let answer = move |request: FetchRequest| -> Answer {
            Box::pin(async move {
                let fetched = fetch(
                    core.clone(),
                    &connection,
                    &caller,
                    request,
                    form.version,
                    holds_room,
                );
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
        let features = api_versions::features(self.core);
        let response = api_versions::respond(known.then_some(asked.version), &features);
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
    // An append that still waits for room was not refused.
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
