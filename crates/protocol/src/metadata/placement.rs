//! The nodes that replicas are put on: the ones that hold the fewest, of those that others reach and that are not drained; in as many racks as
//! there are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use record::{PartitionId, TopicId};

use super::{
    INTERNAL_REPLICAS, Metadata, Partition, PlanError, Rack, ReplicaSet, Topic, is_internal, is_order_log,
};
use crate::leader::NodeId;
use crate::order::{LANE, order_log_of};

impl Metadata {
    /// The replicas that the partitions of a topic are to have if there are to be `count` of each, of those that differ: more go to the nodes that
    /// hold the fewest, fewer go from the end of each set, and the leader stays.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn replica_sets_of(
        &self,
        id: TopicId,
        count: i32,
    ) -> Result<Vec<(PartitionId, ReplicaSet)>, PlanError> {
        let topic = self.check_topic(id)?;
        let nodes: Vec<NodeId> = self.open_nodes().collect();
        let wanted = usize::try_from(count).unwrap_or(0);
        if wanted == 0 || wanted > self.nodes.len() {
            return Err(PlanError::ReplicaCount {
                got: count,
                nodes: self.nodes.len(),
            });
        }
        let mut loads = self.loads();
        let mut sets = Vec::new();
        for (index, found) in (0..).zip(&topic.partitions) {
            let mut set: Vec<NodeId> = found.wanted().to_vec();
            while set.len() > wanted {
                let last = set.iter().rposition(|node| *node != found.leader);
                set.remove(last.expect("a set of two has one that does not lead"));
            }
            while set.len() < wanted {
                let next = loads
                    .least(&nodes, &set, None)
                    .ok_or(PlanError::UnreachableNodes {
                        got: count,
                        reachable: nodes.len(),
                    })?;
                set.push(next);
                loads.add(next);
            }
            if set[..] != found.wanted()[..] {
                sets.push((PartitionId { topic: id, index }, set.into()));
            }
        }
        Ok(sets)
    }

    /// The next changes by which drained nodes get rid of what they hold, internal topics get as many replicas as others have, and the logs of orders the replicas
    /// of their lanes: so many that no more than `most` partitions change then. Those that a drained node was to get are planned anew. `is_here` says which nodes can give something and
    /// take it over.
    #[must_use]
    pub fn due_replica_sets(
        &self,
        most: usize,
        is_here: impl Fn(NodeId) -> bool,
    ) -> Vec<(PartitionId, ReplicaSet)> {
        let is_drained = |node: &NodeId| self.nodes.get(node).is_some_and(|node| node.drain.is_some());
        let has_drained = self.nodes.keys().any(is_drained);
        let open: Vec<NodeId> = self.open_nodes().filter(|node| is_here(*node)).collect();
        let (mut candidates, mut under_way) = (Vec::new(), 0);
        let any_may_move = self.replicates_compacted();
        for topic in self.topics.values() {
            let is_internal = is_internal(&topic.name);
            let enough = match is_internal {
                true => open.len().min(INTERNAL_REPLICAS as usize),
                false => 1,
            };
            // The rest of them stays as it is.
            let may_move =
                is_internal || (has_drained && (any_may_move || topic.settings.compaction.is_none()));
            let lane = self.lane_of(topic);
            for (index, found) in (0..).zip(&topic.partitions) {
                let wanted = found.wanted();
                let is_due = match lane {
                    Some(lane) => lane.wanted() != wanted,
                    None => wanted.len() < enough || wanted.iter().any(is_drained),
                };
                let changes = found.reassignment.is_some() && !found.joining().any(|node| is_drained(&node));
                if changes {
                    // One that waits for a node that is away takes nothing from the others.
                    under_way += usize::from(found.joining().all(&is_here));
                } else if may_move && is_here(found.leader) && is_due {
                    let topic = topic.id;
                    candidates.push((PartitionId { topic, index }, found, (enough, lane)));
                }
            }
        }
        if candidates.is_empty() {
            return Vec::new();
        }
        let mut loads = self.loads();
        // A set that nobody is there to take over stays as it is, and holds up no other.
        let sets = candidates
            .into_iter()
            .filter_map(|(partition, found, (enough, lane))| {
                let set = match lane {
                    Some(lane) => lane.wanted().to_vec(),
                    None => self.due_set(found, enough, &open, &mut loads),
                };
                (set[..] != found.wanted()[..]).then(|| (partition, set.into()))
            });
        sets.take(most.saturating_sub(under_way)).collect()
    }

    /// The logs of orders that another node leads than their lanes, each with its leader and the lane's: one that has the log, too, and is there. Appends that
    /// depend on the tail are for a node that leads both.
    #[must_use]
    pub fn orders_apart(&self, is_here: impl Fn(NodeId) -> bool) -> Vec<(PartitionId, NodeId, NodeId)> {
        let apart = self.order_logs().filter_map(|log| {
            let (kept, lane) = (log.partitions.first()?, self.lane_of(log)?);
            let can_lead = kept.replicas.contains(&lane.leader)
                && !kept.uncertain.contains(&lane.leader)
                && is_here(lane.leader);
            let id = PartitionId {
                topic: log.id,
                index: 0,
            };
            (kept.leader != lane.leader && can_lead).then_some((id, kept.leader, lane.leader))
        });
        apart.collect()
    }

    /// The lane of the topic whose order this one keeps, if it keeps one.
    fn lane_of(&self, log: &Topic) -> Option<&Partition> {
        let ordered = is_order_log(&log.name).then(|| self.topic(order_log_of(log.id)))?;
        ordered?.partitions.get(LANE as usize)
    }

    fn due_set(&self, found: &Partition, enough: usize, nodes: &[NodeId], loads: &mut Loads) -> Vec<NodeId> {
        let mut set = found.wanted().to_vec();
        for place in 0..set.len() {
            let Some(drain) = self.nodes.get(&set[place]).and_then(|node| node.drain.as_ref()) else {
                continue;
            };
            let chosen = drain.to;
            let chosen = chosen.filter(|node| nodes.contains(node) && !set.contains(node));
            if let Some(next) = chosen.or_else(|| loads.least(nodes, &set, Some(set[place]))) {
                loads.add(next);
                set[place] = next;
            }
        }
        while set.len() < enough
            && let Some(next) = loads.least(nodes, &set, None)
        {
            loads.add(next);
            set.push(next);
        }
        set
    }

    /// The nodes that replicas may be put on: others reach them, and they are not drained.
    pub(super) fn open_nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.reachable_nodes()
            .filter(|node| self.nodes[node].drain.is_none())
    }

    fn rack(&self, node: NodeId) -> Option<&Rack> {
        self.nodes.get(&node)?.rack.as_ref()
    }

    /// The same nodes, so that neighbours are in different racks where they can be. One without a rack is in one of its own.
    pub(super) fn by_turns_of_racks(&self, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let mut racks: Vec<(Option<&Rack>, VecDeque<NodeId>)> = Vec::new();
        for node in nodes {
            let rack = self.rack(node);
            match racks.iter_mut().find(|(of, _)| rack.is_some() && *of == rack) {
                Some((_, nodes)) => nodes.push_back(node),
                None => racks.push((rack, [node].into())),
            }
        }
        let mut by_turns = Vec::new();
        while racks.iter().any(|(_, nodes)| !nodes.is_empty()) {
            by_turns.extend(racks.iter_mut().filter_map(|(_, nodes)| nodes.pop_front()));
        }
        by_turns
    }

    /// So many of these nodes, the earlier ones first, but as few as can be in one rack.
    pub(super) fn over_racks<'a>(
        &self,
        nodes: impl Iterator<Item = &'a NodeId> + Clone,
        count: usize,
    ) -> ReplicaSet {
        let mut racks = BTreeSet::new();
        let mut is_elsewhere = |node: &NodeId| self.rack(*node).is_none_or(|rack| racks.insert(rack));
        let (apart, others): (Vec<NodeId>, Vec<NodeId>) = nodes.copied().partition(|node| is_elsewhere(node));
        apart.into_iter().chain(others).take(count).collect()
    }

    fn loads(&self) -> Loads {
        let racks = self.nodes.iter();
        let racks = racks.filter_map(|(node, known)| Some((*node, known.rack.clone()?)));
        let mut loads = Loads {
            racks: racks.collect(),
            replicas: BTreeMap::new(),
        };
        for found in self.topics.values().flat_map(|topic| &topic.partitions) {
            found.wanted().iter().for_each(|node| loads.add(*node));
        }
        loads
    }
}

/// The replicas that each node has, or is to have.
#[derive(Debug)]
struct Loads {
    replicas: BTreeMap<NodeId, usize>,
    racks: BTreeMap<NodeId, Rack>,
}

impl Loads {
    fn get(&self, node: &NodeId) -> usize {
        self.replicas.get(node).copied().unwrap_or(0)
    }

    /// The node with the fewest of those that are not in a set: in a rack that is not in it either, if there is one. `leaving` is about to go out of it.
    fn least(&self, nodes: &[NodeId], set: &[NodeId], leaving: Option<NodeId>) -> Option<NodeId> {
        let stay = set.iter().filter(|node| Some(**node) != leaving);
        let taken: BTreeSet<&Rack> = stay.filter_map(|node| self.racks.get(node)).collect();
        let free = nodes.iter().filter(|node| !set.contains(node));
        let is_taken = |node: &NodeId| self.racks.get(node).is_some_and(|rack| taken.contains(rack));
        free.min_by_key(|node| (is_taken(node), self.get(node), **node))
            .copied()
    }

    fn add(&mut self, node: NodeId) {
        *self.replicas.entry(node).or_default() += 1;
    }
}
