//! The logs of orders that several nodes can hold: each is a topic of the metadata, made soon after the one that it orders.
//!
//! Whoever leads the first partition of a topic makes its log; if it has not for a while, any node does. Until then appends to the topic wait, and nothing of it is lost.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use protocol::metadata::{Metadata, Topic};
use record::{PartitionId, TopicId};
use tokio::time::sleep;

use crate::core::Core;

/// Before a log is tried again that could not be made, or that another node was to make.
const REST: Duration = Duration::from_secs(1);

/// On core 0 of a member: makes the logs that are missing, until the node stops.
pub(crate) async fn make_order_logs(core: Rc<Core>) {
    let mut waited: BTreeSet<TopicId> = BTreeSet::new();
    loop {
        let missing: BTreeSet<TopicId> = core.with_metadata(|metadata| {
            metadata
                .without_order_log()
                .map(|topic: &Topic| topic.id)
                .collect()
        });
        for topic in &missing {
            let first = PartitionId {
                topic: *topic,
                index: 0,
            };
            let leads = |metadata: &Metadata| metadata.partition(first).map(|state| state.leader);
            if waited.contains(topic) || core.with_metadata(leads) == Some(core.facts.node) {
                core.make_order_log(*topic).await;
            }
        }
        match missing.is_empty() {
            true => core.orders.wants_log.notified().await,
            false => sleep(REST).await,
        }
        waited = missing;
    }
}

impl Core {
    async fn make_order_log(&self, topic: TopicId) {
        let made = self.change(move |metadata| metadata.plan_order_log(topic)).await;
        // It may be there by now, or its topic gone; or it is tried again.
        if let Ok(Err(error)) = made {
            tracing::debug!(%topic, %error, "the log of a topic's order could not be made");
        }
    }
}
