//! DescribeCluster: the cluster's identity and its nodes.

use std::rc::Rc;

use kafka_wire::describe_cluster::DescribeClusterBroker;
use kafka_wire::{DescribeClusterRequest, DescribeClusterResponse, ErrorCode, Text};

use super::Envelope;
use super::authorized::{ON_CLUSTER, if_asked};
use crate::core::Core;

/// Endpoints that clients talk to. The other sort are those of controllers.
const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(super) async fn handle(
    core: Rc<Core>,
    request: DescribeClusterRequest,
    _envelope: Envelope,
) -> DescribeClusterResponse {
    let refused = |code: ErrorCode, message: &'static str| DescribeClusterResponse {
        error_code: code.code(),
        error_message: Some(Text::from_static(message)),
        endpoint_type: request.endpoint_type,
        ..DescribeClusterResponse::default()
    };
    match request.endpoint_type {
        BROKERS => {}
        CONTROLLERS => {
            let message = "this address is a broker's; ask for brokers (endpoint type 1)";
            return refused(ErrorCode::MismatchedEndpointType, message);
        }
        _ => {
            return refused(
                ErrorCode::UnsupportedEndpointType,
                "there are endpoint types 1 and 2",
            );
        }
    }
    let brokers = core.with_metadata(|metadata| {
        let brokers = metadata.nodes().map(|(id, node)| DescribeClusterBroker {
            broker_id: id.0,
            host: Text::from(&*node.address.host),
            port: node.address.port.into(),
            rack: node.rack.as_deref().map(Text::from),
            is_fenced: false,
        });
        brokers.collect()
    });
    DescribeClusterResponse {
        endpoint_type: BROKERS,
        cluster_id: Text::from(core.facts.cluster.to_string()),
        controller_id: core.facts.node.0,
        brokers,
        cluster_authorized_operations: if_asked(request.include_cluster_authorized_operations, ON_CLUSTER),
        ..DescribeClusterResponse::default()
    }
}
