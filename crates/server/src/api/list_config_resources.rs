//! ListConfigResources: everything that has configs. Version 0 asks for subscriptions to metrics only; there are none.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::rc::Rc;

use kafka_wire::list_config_resources::ConfigResource;
use kafka_wire::{ErrorCode, ListConfigResourcesRequest, ListConfigResourcesResponse, Text};

use super::config_resource::{BROKER, NOT_SERVED, TOPIC};
use crate::core::Core;

/// From here on a request says which sorts it means.
const FIRST_WITH_SORTS: i16 = 1;
/// Memory that telling of a topic takes, as it is told and in the frame: its name may have 249 letters.
const TOPIC_BYTES: usize = 560;

pub(super) async fn handle(
    core: Rc<Core>,
    request: ListConfigResourcesRequest,
    version: i16,
    client: IpAddr,
) -> ListConfigResourcesResponse {
    let sorts: BTreeSet<i8> = match request.resource_types.as_slice() {
        _ if version < FIRST_WITH_SORTS => BTreeSet::new(),
        [] => [TOPIC, BROKER].into(),
        named => named.iter().copied().collect(),
    };
    let known = |sort: &i8| [TOPIC, BROKER].contains(sort) || NOT_SERVED.contains(sort);
    if !sorts.iter().all(known) {
        return ListConfigResourcesResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..ListConfigResourcesResponse::default()
        };
    }
    let topics = core.with_metadata(|metadata| metadata.topics().len());
    // Held until the response is there; whoever writes it holds what its frame takes from then on.
    let _held = core.answers.reserve(client, topics * TOPIC_BYTES).await;
    let mut config_resources = Vec::with_capacity(topics);
    for sort in sorts {
        config_resources.extend(resources(&core, sort).await);
    }
    ListConfigResourcesResponse {
        config_resources,
        ..ListConfigResourcesResponse::default()
    }
}

/// Memory that an answer takes, in bytes.
pub(super) fn told_bytes(told: &ListConfigResourcesResponse) -> usize {
    told.config_resources.len() * TOPIC_BYTES
}

async fn resources(core: &Core, resource_type: i8) -> Vec<ConfigResource> {
    let resource = |resource_name: Text| ConfigResource {
        resource_name,
        resource_type,
    };
    match resource_type {
        TOPIC => {
            let topics = core.all_topics().await.into_iter();
            topics.map(|(name, _)| resource(Text::from(&*name))).collect()
        }
        BROKER => core.with_metadata(|metadata| {
            let nodes = metadata.nodes();
            nodes
                .map(|(id, _)| resource(Text::from(id.0.to_string())))
                .collect()
        }),
        _ => Vec::new(),
    }
}
