//! On the member that leads the metadata group: has drained nodes give up what they hold, internal topics have as many replicas as there are
//! nodes for, and the logs of orders follow their lanes.
//!
//! The changes that are due follow from the metadata alone, so the next leader goes on with them. Few are under way at a time: batches for nodes that join
//! must not take the links from those that clients wait for.

use std::rc::Rc;
use std::time::Duration;

use protocol::leader::NodeId;
use protocol::metadata::{Metadata, Plans, ReplicaSet};
use record::PartitionId;
use tokio::time::sleep;

use super::{Changed, MetadataLog};
use crate::core::Core;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Partitions whose replicas change at a time.
const UNDER_WAY_MAX: usize = 50;

/// See the module. Goes on until the node drains.
pub(crate) async fn place_replicas(core: Rc<Core>) {
    tokio::select! {
        biased;
        () = core.until_draining() => {}
        () = place(&core) => {}
    }
}

async fn place(core: &Rc<Core>) {
    loop {
        sleep(LOOK).await;
        let group = core.metadata_log.as_ref().and_then(MetadataLog::group);
        if !group.is_some_and(|group| group.status().is_leader) {
            continue;
        }
        bring_orders_together(core).await;
        let due = core
            .with_metadata(|metadata| metadata.due_replica_sets(UNDER_WAY_MAX, |node| core.is_here(node)));
        if due.is_empty() {
            continue;
        }
        let plan = |metadata: &Metadata, (id, replicas): (PartitionId, ReplicaSet), _: &mut Plans| {
            metadata.plan_replicas(id, &replicas)
        };
        let made = core.change_all(None, None, due, plan).await.unwrap_or_default();
        tell_refused(&made);
    }
}

/// Has the logs of orders led where their lanes are.
async fn bring_orders_together(core: &Rc<Core>) {
    let apart = core.with_metadata(|metadata| metadata.orders_apart(|node| core.is_here(node)));
    if apart.is_empty() {
        return;
    }
    let plan = |metadata: &Metadata, (log, before, leader): (PartitionId, NodeId, NodeId), _: &mut Plans| {
        metadata.plan_succession(log, before, leader)
    };
    let made = core.change_all(None, None, apart, plan).await.unwrap_or_default();
    tell_refused(&made);
}

/// Tells why changes were not made, if some were not: the first of the reasons.
fn tell_refused(made: &[Changed]) {
    let mut refused = made.iter().filter_map(|made| made.as_ref().err());
    if let Some(first) = refused.next() {
        let others = refused.count();
        tracing::warn!(%first, others, "changes of replicas or leaders that are due could not be made; they are tried again");
    }
}
