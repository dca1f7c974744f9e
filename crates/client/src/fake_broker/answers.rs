//! Answers of the broker in memory to each request.

mod administration;
mod groups;

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_wire::api_versions::ApiVersion;
use kafka_wire::fetch::{FetchableTopicResponse, PartitionData};
use kafka_wire::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_wire::metadata::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic};
use kafka_wire::offset_for_leader_epoch::{EpochEndOffset, OffsetForLeaderTopicResult};
use kafka_wire::produce::{PartitionProduceResponse, TopicProduceResponse};
use kafka_wire::{
    ApiKey, ApiVersionsResponse, CreateTopicsRequest, DeleteGroupsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, Encode, ErrorCode, FetchRequest, FetchResponse, FindCoordinatorRequest,
    InitProducerIdRequest, ListGroupsRequest, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
    MetadataResponse, OffsetFetchRequest, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    ProduceRequest, ProduceResponse, Reader, Request, RequestHeader, Text, Writer, frame_response,
};
use record::{BatchHeader, Epoch, Offset, TopicId};

use self::administration::{create_topics, delete_topics, describe_configs, init_producer_id};
use self::groups::{delete_groups, find_coordinator, list_groups, offset_fetch};
use super::{Fault, Partition, Shared, State};

/// The number of the only node.
const NODE: i32 = 1;
/// The APIs that are offered.
const OFFERED: &[ApiKey] = &[
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::InitProducerId,
    ApiKey::DescribeConfigs,
    ApiKey::FindCoordinator,
    ApiKey::ListGroups,
    ApiKey::DeleteGroups,
    ApiKey::OffsetFetch,
    ApiKey::OffsetForLeaderEpoch,
];

/// The whole answer with its length; `None` where none is due.
pub(super) fn answer(
    shared: &Shared,
    header: &RequestHeader,
    mut reader: Reader,
    fault: Option<Fault>,
) -> Option<Bytes> {
    let reader = &mut reader;
    let version = header.api_version;
    match header.api_key {
        ApiKey::ApiVersions => Some(api_versions(shared, header)),
        ApiKey::Metadata => Some(framed(
            header,
            &metadata(shared, &read::<MetadataRequest>(reader, version)),
        )),
        ApiKey::Produce => {
            let request = read::<ProduceRequest>(reader, version);
            let response = produce(shared, &request, fault);
            (request.acks != 0).then(|| framed(header, &response))
        }
        ApiKey::Fetch => Some(framed(
            header,
            &fetch(shared, &read::<FetchRequest>(reader, version), fault),
        )),
        ApiKey::ListOffsets => Some(framed(
            header,
            &list_offsets(
                &mut shared.lock(),
                &read::<ListOffsetsRequest>(reader, version),
                fault,
            ),
        )),
        ApiKey::CreateTopics => Some(framed(
            header,
            &create_topics(&mut shared.lock(), &read::<CreateTopicsRequest>(reader, version)),
        )),
        ApiKey::DeleteTopics => Some(framed(
            header,
            &delete_topics(&mut shared.lock(), &read::<DeleteTopicsRequest>(reader, version)),
        )),
        ApiKey::InitProducerId => {
            read::<InitProducerIdRequest>(reader, version);
            Some(framed(header, &init_producer_id(&mut shared.lock(), fault)))
        }
        ApiKey::DescribeConfigs => Some(framed(
            header,
            &describe_configs(&shared.lock(), &read::<DescribeConfigsRequest>(reader, version)),
        )),
        ApiKey::FindCoordinator => Some(framed(
            header,
            &find_coordinator(shared, &read::<FindCoordinatorRequest>(reader, version)),
        )),
        ApiKey::ListGroups => {
            read::<ListGroupsRequest>(reader, version);
            Some(framed(header, &list_groups(&shared.lock())))
        }
        ApiKey::DeleteGroups => Some(framed(
            header,
            &delete_groups(&mut shared.lock(), &read::<DeleteGroupsRequest>(reader, version)),
        )),
        ApiKey::OffsetFetch => Some(framed(
            header,
            &offset_fetch(&shared.lock(), &read::<OffsetFetchRequest>(reader, version)),
        )),
        ApiKey::OffsetForLeaderEpoch => Some(framed(
            header,
            &epoch_ends(
                &shared.lock(),
                &read::<OffsetForLeaderEpochRequest>(reader, version),
            ),
        )),
        other => panic!("{other:?} was never offered"),
    }
}

fn read<R: Request>(reader: &mut Reader, version: i16) -> R {
    R::decode(reader, version).expect("this client's requests can be read")
}

fn framed<M: Encode>(header: &RequestHeader, response: &M) -> Bytes {
    let mut writer = Writer::new();
    frame_response(
        &mut writer,
        header.api_key,
        header.api_version,
        header.correlation_id,
        response,
    )
    .joined()
}

fn api_versions(shared: &Shared, header: &RequestHeader) -> Bytes {
    let understood = header.api_version <= shared.api_versions_last;
    let state = shared.lock();
    let offer = |api: &ApiKey| {
        let range = api.valid_versions();
        let last = match api {
            ApiKey::ApiVersions => shared.api_versions_last,
            _ => state.versions_last.get(api).copied().unwrap_or(range.last),
        };
        ApiVersion {
            api_key: api.code(),
            min_version: range.first,
            max_version: last,
        }
    };
    let response = ApiVersionsResponse {
        error_code: if understood {
            0
        } else {
            ErrorCode::UnsupportedVersion.code()
        },
        api_keys: OFFERED.iter().map(offer).collect(),
        ..ApiVersionsResponse::default()
    };
    // Answered in version 0 to whoever is newer than this broker (KIP-511).
    let api_version = if understood { header.api_version } else { 0 };
    let header = RequestHeader {
        api_version,
        ..header.clone()
    };
    framed(&header, &response)
}

fn metadata(shared: &Shared, request: &MetadataRequest) -> MetadataResponse {
    let state = shared.lock();
    let names: Vec<String> = match &request.topics {
        None => state.topics.keys().cloned().collect(),
        Some(topics) => topics
            .iter()
            .filter_map(|topic| topic.name.as_ref().map(String::from))
            .collect(),
    };
    let describe = |name: &String| {
        let mut described = MetadataResponseTopic {
            name: Some(Text::from(name.as_str())),
            ..MetadataResponseTopic::default()
        };
        let Some(topic) = state.topics.get(name) else {
            described.error_code = ErrorCode::UnknownTopicOrPartition.code();
            return described;
        };
        described.topic_id = TopicId(topic.id);
        described.partitions = (0..topic.partitions.len() as i32)
            .map(|partition_index| MetadataResponsePartition {
                partition_index,
                leader_id: NODE,
                leader_epoch: topic.partitions[partition_index as usize].epoch(),
                replica_nodes: vec![NODE],
                isr_nodes: vec![NODE],
                ..MetadataResponsePartition::default()
            })
            .collect();
        described
    };
    MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: NODE,
            host: Text::from(shared.address.ip().to_string()),
            port: shared.address.port().into(),
            rack: None,
        }],
        controller_id: NODE,
        topics: names.iter().map(describe).collect(),
        ..MetadataResponse::default()
    }
}

fn produce(shared: &Shared, request: &ProduceRequest, fault: Option<Fault>) -> ProduceResponse {
    let mut state = shared.lock();
    let mut response = ProduceResponse::default();
    for topic in &request.topic_data {
        let mut answered = TopicProduceResponse {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            ..TopicProduceResponse::default()
        };
        for sent in &topic.partition_data {
            let outcome = match fault {
                Some(Fault::Refuse(code)) => Err(code),
                _ => state
                    .find(&topic.name, topic.topic_id.0)
                    .and_then(|topic| topic.partitions.get_mut(sent.index as usize))
                    .ok_or(ErrorCode::UnknownTopicOrPartition)
                    .and_then(|partition| partition.append(sent.records.as_ref())),
            };
            answered.partition_responses.push(PartitionProduceResponse {
                index: sent.index,
                error_code: outcome.err().map_or(0, ErrorCode::code),
                base_offset: outcome.unwrap_or(-1),
                ..PartitionProduceResponse::default()
            });
        }
        response.responses.push(answered);
    }
    shared.appended.notify_all();
    response
}

impl Partition {
    pub(super) fn append(&mut self, records: Option<&Bytes>) -> Result<i64, ErrorCode> {
        let records = records.ok_or(ErrorCode::InvalidRecord)?;
        let header =
            record::validate(records, &record::Limits::default()).map_err(|_| ErrorCode::CorruptMessage)?;
        let key = (header.producer_id, header.base_sequence);
        if header.producer_id >= 0
            && let Some(base_offset) = self.sequences.get(&key)
        {
            return Ok(*base_offset);
        }
        let base_offset = self.tail;
        let mut batch = records.to_vec();
        record::set_base_offset(&mut batch, Offset(base_offset));
        record::set_leader_epoch(&mut batch, Epoch(self.epoch()));
        if self.forgets_after.is_none_or(|offset| base_offset < offset) {
            self.batches.push(Bytes::from(batch));
        }
        self.tail += i64::from(header.record_count);
        self.sequences.insert(key, base_offset);
        Ok(base_offset)
    }

    /// Batches from the one that holds `offset` on: at least one, then as many as fit.
    fn read(&self, offset: i64, bytes_max: usize) -> BytesMut {
        let mut read = BytesMut::new();
        for batch in &self.batches {
            let header = BatchHeader::read(batch).expect("it was validated");
            if header.next_offset().0 <= offset {
                continue;
            }
            if !read.is_empty() && read.len() + batch.len() > bytes_max {
                break;
            }
            read.extend_from_slice(batch);
        }
        read
    }
}

/// Waits for something to be there as long as the request says.
fn fetch(shared: &Shared, request: &FetchRequest, fault: Option<Fault>) -> FetchResponse {
    let deadline = Instant::now() + Duration::from_millis(request.max_wait_ms.max(0) as u64);
    let mut state = shared.lock();
    loop {
        let (response, worth_it) = fetch_once(&mut state, request, fault);
        let now = Instant::now();
        if worth_it || now >= deadline || shared.stopping.load(std::sync::atomic::Ordering::Acquire) {
            return response;
        }
        state = match shared.appended.wait_timeout(state, deadline - now) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        };
    }
}

fn fetch_once(state: &mut State, request: &FetchRequest, fault: Option<Fault>) -> (FetchResponse, bool) {
    let mut response = FetchResponse::default();
    let mut worth_it = false;
    for topic in &request.topics {
        let mut answered = FetchableTopicResponse {
            topic: topic.topic.clone(),
            topic_id: topic.topic_id,
            ..FetchableTopicResponse::default()
        };
        for wanted in &topic.partitions {
            let found = state
                .find(&topic.topic, topic.topic_id.0)
                .and_then(|topic| topic.partitions.get(wanted.partition as usize));
            let mut data = match (fault, found) {
                (Some(Fault::Refuse(code)), _) => refused(code),
                (_, None) => refused(ErrorCode::UnknownTopicOrPartition),
                (_, Some(partition)) => {
                    read_partition(partition, wanted.fetch_offset, wanted.partition_max_bytes, fault)
                }
            };
            data.partition_index = wanted.partition;
            worth_it |= data.error_code != 0 || !data.records.is_empty();
            answered.partitions.push(data);
        }
        response.responses.push(answered);
    }
    (response, worth_it)
}

fn refused(code: ErrorCode) -> PartitionData {
    PartitionData {
        error_code: code.code(),
        ..PartitionData::default()
    }
}

fn read_partition(partition: &Partition, offset: i64, bytes_max: i32, fault: Option<Fault>) -> PartitionData {
    if offset < partition.start || offset > partition.tail {
        return refused(ErrorCode::OffsetOutOfRange);
    }
    let mut records = partition.read(offset, bytes_max.max(0) as usize);
    match fault {
        Some(Fault::Damage) if !records.is_empty() => {
            records[record::BATCH_OVERHEAD_BYTES] ^= 0xff;
        }
        Some(Fault::Cut(bytes)) => records.truncate(bytes),
        _ => {}
    }
    PartitionData {
        high_watermark: partition.tail,
        last_stable_offset: partition.tail,
        log_start_offset: partition.start,
        records: records.freeze().into(),
        ..PartitionData::default()
    }
}

/// The last offset, or the first for "earliest"; other timestamps find the first batch that is young enough.
fn list_offsets(
    state: &mut State,
    request: &ListOffsetsRequest,
    fault: Option<Fault>,
) -> ListOffsetsResponse {
    let mut response = ListOffsetsResponse::default();
    for topic in &request.topics {
        let mut answered = ListOffsetsTopicResponse {
            name: topic.name.clone(),
            ..ListOffsetsTopicResponse::default()
        };
        for asked in &topic.partitions {
            let found = state
                .topics
                .get(topic.name.as_str())
                .and_then(|topic| topic.partitions.get(asked.partition_index as usize));
            let (error_code, offset) = match (fault, found) {
                (Some(Fault::Refuse(code)), _) => (code.code(), -1),
                (_, None) => (ErrorCode::UnknownTopicOrPartition.code(), -1),
                (_, Some(partition)) => (0, partition.offset_at(asked.timestamp)),
            };
            answered.partitions.push(ListOffsetsPartitionResponse {
                partition_index: asked.partition_index,
                error_code,
                offset,
                ..ListOffsetsPartitionResponse::default()
            });
        }
        response.topics.push(answered);
    }
    response
}

fn epoch_ends(state: &State, request: &OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse {
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let of_topic = &state.topics[topic.topic.as_str()];
            let partition = &of_topic.partitions[asked.partition as usize];
            let end = partition.epoch_ends.get(asked.leader_epoch as usize);
            EpochEndOffset {
                partition: asked.partition,
                leader_epoch: asked.leader_epoch,
                end_offset: end.copied().unwrap_or(partition.tail),
                ..EpochEndOffset::default()
            }
        });
        OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: partitions.collect(),
        }
    });
    OffsetForLeaderEpochResponse {
        topics: topics.collect(),
        ..OffsetForLeaderEpochResponse::default()
    }
}

impl Partition {
    /// The leader's epoch.
    fn epoch(&self) -> i32 {
        self.epoch_ends.len() as i32
    }

    pub(super) fn lose_from(&mut self, offset: i64) {
        let begins_before = |batch: &Bytes| {
            let header = BatchHeader::read(batch).expect("it was validated");
            header.base_offset.0 < offset
        };
        self.batches.retain(begins_before);
        self.tail = offset;
        self.epoch_ends.push(offset);
    }

    fn offset_at(&self, timestamp: i64) -> i64 {
        match timestamp {
            -1 => self.tail,
            -2 => self.start,
            _ => self
                .batches
                .iter()
                .find_map(|batch| {
                    record::find_timestamp(batch, timestamp, &record::Limits::default())
                        .expect("it was validated")
                })
                .map_or(-1, |(offset, _)| offset.0),
        }
    }
}
