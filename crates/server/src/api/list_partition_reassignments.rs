//! ListPartitionReassignments: partitions on their way to other nodes. There are no other nodes, so there are none.

use std::rc::Rc;

use kafka_wire::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use super::Envelope;
use crate::core::Core;

pub(super) async fn handle(
    _core: Rc<Core>,
    _request: ListPartitionReassignmentsRequest,
    _envelope: Envelope,
) -> ListPartitionReassignmentsResponse {
    ListPartitionReassignmentsResponse::default()
}
