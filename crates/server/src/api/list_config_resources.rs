//! ListConfigResources: everything that has configs. Version 0 asks for subscriptions to metrics only; there are none.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use kafka_wire::list_config_resources::ConfigResource;
use kafka_wire::{ErrorCode, ListConfigResourcesRequest, ListConfigResourcesResponse, Text};
use platform::slices::Slices;
use protocol::metadata::is_order_log;

use super::Envelope;
use super::config_resource::{BROKER, GROUP, NOT_SERVED, TOPIC};
use crate::core::Core;
use crate::long::Long;

/// From here on a request says which sorts it means.
const FIRST_WITH_SORTS: i16 = 1;
/// Memory that telling of a topic or a group takes, as it is told and in the frame: a group's name may have 512 bytes.
const RESOURCE_BYTES: usize = 1_088;
/// Names that are told before others have their turn.
const NAMES_IN_ONE_TURN: usize = 5_000;

pub(super) async fn handle(
    core: Rc<Core>,
    request: ListConfigResourcesRequest,
    Envelope { version, caller, .. }: Envelope,
) -> (ListConfigResourcesResponse, usize) {
    let sorts: BTreeSet<i8> = match request.resource_types.as_slice() {
        _ if version < FIRST_WITH_SORTS => BTreeSet::new(),
        [] => [TOPIC, BROKER, GROUP].into(),
        named => named.iter().copied().collect(),
    };
    let known = |sort: &i8| [TOPIC, BROKER, GROUP].contains(sort) || NOT_SERVED.contains(sort);
    if !sorts.iter().all(known) {
        let refused = ListConfigResourcesResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            ..ListConfigResourcesResponse::default()
        };
        return (refused, 0);
    }
    let count = core.with_metadata(|metadata| metadata.topics().len() + metadata.group_configs().len());
    // Held until the response is there; whoever writes it holds what its frame takes from then on.
    let held = core
        .answers
        .reserve(caller.address(), count * RESOURCE_BYTES)
        .await;
    let mut config_resources = Long::with_capacity(&core, count);
    let mut slices = Slices::of(NAMES_IN_ONE_TURN);
    for resource_type in sorts {
        for name in names(&core, resource_type).await {
            config_resources.push(ConfigResource {
                resource_name: Text::from(&*name),
                resource_type,
            });
            slices.did(1).await;
        }
    }
    let response = ListConfigResourcesResponse {
        config_resources: config_resources.take(),
        ..ListConfigResourcesResponse::default()
    };
    (response, held.bytes())
}

/// Names of all resources of a sort.
async fn names(core: &Core, resource_type: i8) -> Vec<Arc<str>> {
    match resource_type {
        TOPIC => {
            let topics = core.all_topics().await.into_iter();
            let listed = topics.map(|(name, _)| name).filter(|name| !is_order_log(name));
            listed.collect()
        }
        BROKER => core.with_metadata(|metadata| {
            let nodes = metadata.nodes();
            nodes.map(|(id, _)| id.0.to_string().into()).collect()
        }),
        GROUP => core.with_metadata(|metadata| {
            let groups = metadata.group_configs();
            groups.map(|(group, _)| Arc::clone(group)).collect()
        }),
        _ => Vec::new(),
    }
}
