//! The cluster's feature level, raised when every node runs a release that knows the next one.

use std::collections::BTreeMap;
use std::rc::Rc;

use protocol::ApplyError;
use protocol::leader::NodeId;
use protocol::metadata::{FeatureLevel, PlanError};

use super::ChangeError;
use crate::core::Core;

impl Core {
    /// On core 0: the newest feature level that a node's release knows; `None` if the node is away.
    pub(crate) fn level_known_by(&self, node: NodeId) -> Option<FeatureLevel> {
        match node == self.facts.node {
            true => Some(FeatureLevel::NEWEST),
            false => self.peers.feature_level(node),
        }
    }

    /// On core 0: has the cluster get the newest level that all its nodes know. Does nothing if it has that.
    ///
    /// # Errors
    /// [`PlanError::LevelUnknown`] if a node is away.
    pub(crate) async fn raise_level(self: &Rc<Core>) -> Result<(), ChangeError> {
        let nodes = self.with_metadata(|metadata| metadata.nodes().map(|(node, _)| node).collect::<Vec<_>>());
        let known = nodes.into_iter();
        let known: BTreeMap<NodeId, FeatureLevel> = known
            .filter_map(|node| Some((node, self.level_known_by(node)?)))
            .collect();
        let raised = self.change(move |metadata| metadata.plan_level(|node| known.get(&node).copied()));
        match raised.await? {
            Err(ChangeError::Plan(PlanError::Refused(ApplyError::LevelReached { .. }))) => Ok(()),
            raised => raised.map(drop),
        }
    }
}
