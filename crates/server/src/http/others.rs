//! Other nodes: the one that leads a partition, or coordinates a group. So whoever asks this node need not know which it is.
//!
//! A request is handed on once, as it came (`transport`): a node that another one asks answers for itself, or refuses. Nothing is kept
//! here: bodies pass through as fast as both ends take them (`passing`). Some answers are made of what several nodes tell (`parts`).

mod parts;
mod passing;
mod transport;

use std::fmt::Display;

use axum::http::HeaderMap;
use protocol::leader::NodeId;
use record::PartitionId;

use crate::config::HostPort;
use crate::core::Core;

use super::cores::Cores;
use super::problem::{Kind, Problem};

pub(super) use parts::bounds_of;
pub(super) use transport::Lines;

/// Names the node that has handed a request on.
const HANDED_ON: &str = "ropewalk-handed-on";

/// Another node of the cluster, and where it serves HTTP.
#[derive(Debug, Clone)]
pub(super) struct Other {
    node: NodeId,
    at: HostPort,
}

/// Says whether a request comes from another node.
pub(super) fn is_handed_on(headers: &HeaderMap) -> bool {
    headers.contains_key(HANDED_ON)
}

impl Problem {
    /// The same as an answer to this request. A node that has handed it on knows of a topic, or of a partition, that this one has not heard of yet.
    pub(super) fn told_to(self, headers: &HeaderMap) -> Problem {
        match self.kind {
            Kind::UnknownTopic | Kind::UnknownPartition if is_handed_on(headers) => Problem::new(
                Kind::Unavailable,
                "the node that leads this partition has not heard of it yet",
            ),
            _ => self,
        }
    }
}

impl Cores {
    /// The node that leads a partition, if that is another and the request has not come from one.
    ///
    /// # Errors
    /// Another leads it, and is not there or has not said where it serves HTTP.
    pub(super) async fn leader_elsewhere(
        &self,
        partition: PartitionId,
        headers: &HeaderMap,
    ) -> Result<Option<Other>, Problem> {
        if is_handed_on(headers) {
            return Ok(None);
        }
        let mut found = self.leaders_elsewhere(vec![partition]).await?;
        found.remove(0)
    }

    /// For each of these partitions the node that leads it, if that is another; or why that cannot be asked.
    ///
    /// # Errors
    /// This node is stopping.
    pub(super) async fn leaders_elsewhere(
        &self,
        partitions: Vec<PartitionId>,
    ) -> Result<Vec<Result<Option<Other>, Problem>>, Problem> {
        if !self.facts.is_member {
            return Ok(partitions.iter().map(|_| Ok(None)).collect());
        }
        let find = |core: &Core, partition| {
            let leader = core.with_metadata(|metadata| Some(metadata.partition(partition)?.leader));
            elsewhere(core, leader, "leads this partition")
        };
        Ok(self
            .ask_metadata(move |core| async move {
                let partitions = partitions.into_iter();
                partitions.map(|partition| find(&core, partition)).collect()
            })
            .await?)
    }

    /// The node that coordinates a group, if that is another and the request has not come from one.
    ///
    /// # Errors
    /// As `leader_elsewhere`.
    pub(super) async fn coordinator_elsewhere(
        &self,
        group: &str,
        headers: &HeaderMap,
    ) -> Result<Option<Other>, Problem> {
        if !self.facts.is_member || is_handed_on(headers) {
            return Ok(None);
        }
        let group = group.to_owned();
        self.ask_metadata(move |core| async move {
            elsewhere(&core, core.coordinator_of(&group), "coordinates this group")
        })
        .await?
    }

    /// The node that coordinates a transactional id, if that is another and the request has not come from one.
    ///
    /// # Errors
    /// As `leader_elsewhere`.
    pub(super) async fn transaction_coordinator_elsewhere(
        &self,
        id: &str,
        headers: &HeaderMap,
    ) -> Result<Option<Other>, Problem> {
        if !self.facts.is_member || is_handed_on(headers) {
            return Ok(None);
        }
        let id = id.to_owned();
        self.ask_metadata(move |core| async move {
            let coordinator = core.transaction_coordinator_of(&id);
            elsewhere(
                &core,
                coordinator.map(|(node, _)| node),
                "coordinates this transaction",
            )
        })
        .await?
    }

    /// All other nodes that are there and have said where they serve HTTP, and the numbers of the rest of the cluster's.
    ///
    /// # Errors
    /// This node is stopping.
    pub(super) async fn others(&self) -> Result<(Vec<Other>, Vec<i32>), Problem> {
        if !self.facts.is_member {
            return Ok((Vec::new(), Vec::new()));
        }
        let own = self.facts.node;
        let found = self.ask_metadata(move |core| async move {
            let nodes: Vec<NodeId> =
                core.with_metadata(|metadata| metadata.nodes().map(|(node, _)| node).collect());
            let (mut others, mut missing) = (Vec::new(), Vec::new());
            for node in nodes.into_iter().filter(|node| *node != own) {
                match Other::of(&core, node) {
                    Some(other) => others.push(other),
                    None => missing.push(node.0),
                }
            }
            (others, missing)
        });
        Ok(found.await?)
    }
}

/// A node, if it is another than this.
fn elsewhere(core: &Core, node: Option<NodeId>, does: &str) -> Result<Option<Other>, Problem> {
    let Some(node) = node.filter(|node| *node != core.facts.node) else {
        return Ok(None);
    };
    let unknown = || {
        let detail = format!(
            "node {node} {does}; it is not there now, or has not said where it serves HTTP (http.advertised of that node)"
        );
        Problem::new(Kind::Unavailable, detail).with("node", node.0)
    };
    Other::of(core, node).map(Some).ok_or_else(unknown)
}

impl Other {
    fn of(core: &Core, node: NodeId) -> Option<Other> {
        let address = core.peers.http_of(node)?;
        let at = HostPort {
            host: address.host.to_string(),
            port: address.port,
        };
        Some(Other { node, at })
    }

    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    fn unavailable(&self, why: impl Display) -> Problem {
        let Other { node, at } = self;
        let detail = format!("node {node}, which can answer this, does not answer at {at}: {why}");
        Problem::new(Kind::Unavailable, detail).with("node", node.0)
    }
}
