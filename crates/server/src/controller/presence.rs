//! Sees which other nodes are there; the member that leads the metadata group gives the partitions of those that are not to others.
//!
//! A node is there while it has a connection for the metadata. One that is not may be at work all the same, stopped for a moment or cut
//! off: what it acknowledges must not depend on what is believed here. The epoch that is opened for another leader sees to that, for
//! no replica that has promised it listens to an earlier one (`protocol::replica`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use metadata_group::Member;
use platform::slices::Slices;
use protocol::leader::NodeId;
use protocol::metadata::{Metadata, Plans};
use record::PartitionId;
use tokio::time::{Instant, sleep};

use super::MetadataLog;
use crate::core::Core;
use crate::peers::Purpose;

/// Between two looks at who is there.
const LOOK: Duration = Duration::from_millis(50);
/// A node that has had no connection for so long is away, unless it is known to have ended. Links that are lost are mostly taken anew before.
const PATIENCE: Duration = Duration::from_millis(200);
/// Between the turns of voters in which they take over from one that has ended.
const TURN: Duration = Duration::from_millis(50);
/// After this node's own start others need a while to find it, or it them.
const PATIENCE_AT_START: Duration = Duration::from_secs(3);
/// Partitions are looked at again after so long: another replica may be there by then, or a disk may be in doubt.
const AGAIN: Duration = Duration::from_secs(1);
/// Topics that are looked through before others have their turn; they may have many partitions.
const TOPICS_IN_ONE_TURN: usize = 100;

/// How a node went.
#[derive(Debug, Clone, Copy)]
struct Gone {
    at: Instant,
    has_ended: bool,
}

/// The nodes that have had a connection and lost it.
pub(crate) struct Presence {
    started: Instant,
    gone: RefCell<BTreeMap<NodeId, Gone>>,
}

impl Default for Presence {
    fn default() -> Presence {
        Presence {
            started: Instant::now(),
            gone: RefCell::default(),
        }
    }
}

impl Presence {
    /// Takes note that there is no connection for the metadata any more.
    pub(crate) fn handle_link_lost(&self, node: NodeId) {
        let (at, has_ended) = (Instant::now(), false);
        self.gone.borrow_mut().insert(node, Gone { at, has_ended });
    }

    /// Takes note that its process has ended.
    fn handle_ended(&self, node: NodeId) {
        if let Some(gone) = self.gone.borrow_mut().get_mut(&node) {
            gone.has_ended = true;
        }
    }

    /// Says whether a node without a connection is away by now.
    fn is_given_up(&self, node: NodeId) -> bool {
        match self.gone.borrow().get(&node) {
            Some(gone) => gone.has_ended || gone.at + PATIENCE <= Instant::now(),
            None => self.started + PATIENCE_AT_START <= Instant::now(),
        }
    }
}

/// Gives the partitions of nodes that are away to other leaders, until the node drains.
pub(crate) async fn replace_leaders(core: Rc<Core>) {
    tokio::select! {
        biased;
        () = core.until_draining() => {}
        () = watch(&core) => {}
    }
}

async fn watch(core: &Rc<Core>) {
    let (mut known, mut looked) = (BTreeSet::new(), Instant::now());
    loop {
        sleep(LOOK).await;
        // A new leader looks at once, at what it has seen all the time.
        let leads = core.leads_a_majority();
        let away = if leads { core.away_nodes() } else { BTreeSet::new() };
        let is_time = away != known || looked.elapsed() >= AGAIN;
        known = away;
        if leads && is_time {
            looked = Instant::now();
            if !core.replace_leaders_of(&known).await {
                // The image may have been behind: it is planned again, soon.
                known = BTreeSet::new();
                sleep(PATIENCE).await;
            }
        }
    }
}

/// Looks whether a node whose connection for the metadata is lost has ended: then nobody listens where it did. If it led the metadata
/// group, this node or another one takes over, without waiting for what it may still say.
pub(crate) async fn look_after(core: Rc<Core>, node: NodeId) {
    let Some(member) = core.member_of(node) else {
        return;
    };
    if !core.has_ended(node).await {
        return;
    }
    if core.peers.has(Purpose::Metadata, node) {
        return;
    }
    core.presence().handle_ended(node);
    tracing::info!(node = node.0, "a node has ended: nobody listens at its address");
    let Some(group) = core.metadata_log.as_ref().and_then(MetadataLog::group) else {
        return;
    };
    let voters = group.status().voters;
    // The first of them that is left begins; the others see it lead, or begin in their turn.
    let others = voters.into_iter().filter(|voter| *voter != member);
    let own = core.facts.node.0;
    let before = others.filter(|voter| voter.node < own).count();
    sleep(TURN * u32::try_from(before).unwrap_or(u32::MAX)).await;
    group.take_over(member).await;
}

impl Core {
    /// On core 0.
    pub(crate) fn presence(&self) -> &Presence {
        let controller = self.controller.as_ref().expect("core 0 watches the nodes");
        &controller.presence
    }

    /// A node, as the metadata group names it.
    fn member_of(&self, node: NodeId) -> Option<Member> {
        let directory = self.with_metadata(|metadata| Some(metadata.home(node)?.directory))?;
        Some(Member {
            node: node.0,
            directory,
        })
    }

    /// On core 0: whether a node can be given something to lead.
    pub(crate) fn is_here(&self, node: NodeId) -> bool {
        match node == self.facts.node {
            true => !self.is_draining(),
            false => self.peers.has(Purpose::Metadata, node),
        }
    }

    /// The nodes that can be given something to lead.
    pub(crate) async fn nodes_here(&self) -> BTreeSet<NodeId> {
        let here = self.facts.mailboxes.call(0, |core| async move {
            core.with_metadata(|metadata| {
                let nodes = metadata.nodes().map(|(node, _)| node);
                nodes.filter(|node| core.is_here(*node)).collect()
            })
        });
        here.await.unwrap_or_default()
    }

    /// The nodes that are not away, as a node sees it that reaches a majority of those with a vote; `None` of one that does not. A connection that was lost a moment ago is no loss of a node.
    pub(crate) async fn nodes_left(&self) -> Option<BTreeSet<NodeId>> {
        let left = self.facts.mailboxes.call(0, |core| async move {
            let is_alone = core.metadata_log.is_none();
            let away = (is_alone || core.reaches_a_majority()).then(|| core.away_nodes())?;
            let nodes = |metadata: &Metadata| metadata.nodes().map(|(node, _)| node).collect::<BTreeSet<_>>();
            Some(&core.with_metadata(nodes) - &away)
        });
        left.await.ok().flatten()
    }

    /// Says whether this node leads the metadata group, and reaches a majority of those with a vote. A leader that is cut off takes everybody else
    /// for away, and what it proposes then might come to be much later.
    fn leads_a_majority(&self) -> bool {
        let status = self.metadata_log.as_ref().and_then(MetadataLog::status);
        status.is_some_and(|status| status.is_leader) && self.reaches_a_majority()
    }

    fn reaches_a_majority(&self) -> bool {
        let status = self.metadata_log.as_ref().and_then(MetadataLog::status);
        status.is_some_and(|status| {
            let reached = status.voters.iter().filter(|voter| {
                let node = NodeId(voter.node);
                node == self.facts.node || self.peers.is_linked_with(node, voter.directory)
            });
            2 * reached.count() > status.voters.len()
        })
    }

    fn away_nodes(&self) -> BTreeSet<NodeId> {
        let is_away = |node: &NodeId| {
            *node != self.facts.node
                && !self.peers.has(Purpose::Metadata, *node)
                && self.presence().is_given_up(*node)
        };
        self.with_metadata(|metadata| metadata.nodes().map(|(node, _)| node).filter(is_away).collect())
    }

    /// Says whether all that could be done was done.
    async fn replace_leaders_of(self: &Rc<Core>, away: &BTreeSet<NodeId>) -> bool {
        let replaced = self.replaceable(away).await;
        if replaced.is_empty() {
            return true;
        }
        let partitions = replaced.len();
        let plan = |metadata: &Metadata, (id, gone, leader): (PartitionId, NodeId, NodeId), _: &mut Plans| {
            metadata.plan_succession(id, gone, leader)
        };
        let changed = self
            .change_all(None, None, replaced, plan)
            .await
            .unwrap_or_default();
        let failed = changed.into_iter().filter_map(Result::err);
        let (mut count, mut last) = (0_usize, None);
        for error in failed {
            (count, last) = (count + 1, Some(error));
        }
        let away = away
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        match last {
            None => tracing::warn!(
                away,
                partitions,
                "partitions of nodes that are away, or whose disks are in doubt, have other leaders now"
            ),
            Some(error) => {
                tracing::warn!(away, partitions, failed = count, %error, "nodes are away, or their disks are in doubt, and some partitions could not be given to others");
            }
        }
        count == 0
    }

    /// The partitions that nodes lead which are away, or whose disks are in doubt, each with that node and the first of its replicas that is there and not in
    /// doubt.
    async fn replaceable(&self, away: &BTreeSet<NodeId>) -> Vec<(PartitionId, NodeId, NodeId)> {
        let mut replaced = Vec::new();
        let mut slices = Slices::of_own(TOPICS_IN_ONE_TURN);
        for (_, id) in self.all_topics().await {
            self.with_metadata(|metadata| {
                let Some(topic) = metadata.topic(id) else { return };
                for (index, state) in (0..).zip(metadata.partitions(topic)) {
                    let is_able = |node: &&NodeId| !away.contains(node) && !state.uncertain.contains(node);
                    let there = state.replicas.iter().find(is_able);
                    let is_out = away.contains(&state.leader) || state.uncertain.contains(&state.leader);
                    if let Some(leader) = there.filter(|_| is_out) {
                        replaced.push((PartitionId { topic: id, index }, state.leader, *leader));
                    }
                }
            });
            slices.did(1).await;
        }
        replaced
    }
}
