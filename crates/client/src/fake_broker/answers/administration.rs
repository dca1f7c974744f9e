//! Answers of the broker in memory about topics and configs, and to producers that want an identity.

use kafka_wire::create_topics::CreatableTopicResult;
use kafka_wire::delete_topics::DeletableTopicResult;
use kafka_wire::describe_configs::{DescribeConfigsResourceResult, DescribeConfigsResult};
use kafka_wire::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    DescribeConfigsRequest, DescribeConfigsResponse, ErrorCode, InitProducerIdResponse, Text,
};

use crate::fake_broker::{Fault, State};

pub(super) fn create_topics(state: &mut State, request: &CreateTopicsRequest) -> CreateTopicsResponse {
    let mut response = CreateTopicsResponse::default();
    for topic in &request.topics {
        let mut result = CreatableTopicResult {
            name: topic.name.clone(),
            error_message: None,
            ..CreatableTopicResult::default()
        };
        if state.topics.contains_key(topic.name.as_str()) {
            result.error_code = ErrorCode::TopicAlreadyExists.code();
            result.error_message = Some(Text::from_static("it is there"));
        } else {
            let configs = topic.configs.iter().map(|config| {
                let value = config.value.as_ref().map(String::from);
                (String::from(&config.name), value.unwrap_or_default())
            });
            let partitions = topic.num_partitions.max(1) as usize;
            state.create(&topic.name, partitions, configs.collect());
        }
        response.topics.push(result);
    }
    response
}

pub(super) fn delete_topics(state: &mut State, request: &DeleteTopicsRequest) -> DeleteTopicsResponse {
    let by_state = request.topics.iter().filter_map(|topic| topic.name.clone());
    let mut response = DeleteTopicsResponse::default();
    for name in by_state.chain(request.topic_names.iter().cloned()) {
        let removed = state.topics.remove(name.as_str());
        response.responses.push(DeletableTopicResult {
            name: Some(name),
            error_code: match removed {
                Some(_) => 0,
                None => ErrorCode::UnknownTopicOrPartition.code(),
            },
            ..DeletableTopicResult::default()
        });
    }
    response
}

pub(super) fn init_producer_id(state: &mut State, fault: Option<Fault>) -> InitProducerIdResponse {
    if let Some(Fault::Refuse(code)) = fault {
        return InitProducerIdResponse {
            error_code: code.code(),
            ..InitProducerIdResponse::default()
        };
    }
    state.next_producer_id += 1;
    InitProducerIdResponse {
        producer_id: state.next_producer_id,
        ..InitProducerIdResponse::default()
    }
}

pub(super) fn describe_configs(state: &State, request: &DescribeConfigsRequest) -> DescribeConfigsResponse {
    let describe = |name: &Text| match state.topics.get(name.as_str()) {
        None => DescribeConfigsResult {
            error_code: ErrorCode::UnknownTopicOrPartition.code(),
            ..DescribeConfigsResult::default()
        },
        Some(topic) => DescribeConfigsResult {
            configs: topic
                .configs
                .iter()
                .map(|(name, value)| DescribeConfigsResourceResult {
                    name: Text::from(name.as_str()),
                    value: Some(Text::from(value.as_str())),
                    config_source: 1,
                    ..DescribeConfigsResourceResult::default()
                })
                .collect(),
            ..DescribeConfigsResult::default()
        },
    };
    DescribeConfigsResponse {
        results: request
            .resources
            .iter()
            .map(|resource| describe(&resource.resource_name))
            .collect(),
        ..DescribeConfigsResponse::default()
    }
}
