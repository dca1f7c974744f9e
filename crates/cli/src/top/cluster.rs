//! The cluster as the watched node sees it: elections, replicas that lack something, and the connections with each other node.
//!
//! It comes from that node's metrics only. The other nodes are not asked, and may see it otherwise.

use serde_json::{Value, json};

use super::growth::Growth;
use super::units::{bytes, count};
use crate::output::or_dash;

/// The metrics that name another node. The second also names one that was away since the watched node started.
const OF_NODE: [&str; 2] = ["ropewalk_peer_connections", "ropewalk_replicas_behind"];

/// Above the columns of `node_rows`.
pub(super) const NODE_HEADING: [&str; 7] = [
    "node",
    "connections",
    "sent/s",
    "queued",
    "lost",
    "replicas behind",
    "lag",
];

/// A cluster over one interval.
#[derive(Debug, Clone)]
pub(super) struct ClusterView {
    node_count: Option<f64>,
    nodes_away: Option<f64>,
    leads_metadata: Option<bool>,
    leaderless_partitions: Option<f64>,
    /// Those led by the watched node, as the next two.
    led_partitions: Option<f64>,
    opening_partitions: Option<f64>,
    short_partitions: Option<f64>,
    /// Epochs that the watched node opened in the interval.
    epochs_opened: Option<f64>,
    epochs_ended: Option<f64>,
    /// Bytes each second, to replicas that lacked them.
    shipped_bytes: Option<f64>,
    deferred_bytes: Option<f64>,
    /// Segments since the watched node's start.
    repairs: Option<f64>,
    /// The others, by number.
    nodes: Vec<NodeView>,
}

/// Another node of the cluster.
#[derive(Debug, Clone)]
struct NodeView {
    node: String,
    connections: Option<f64>,
    /// Bytes each second.
    sent_bytes: Option<f64>,
    queued_bytes: Option<f64>,
    /// Connections that ended in the interval.
    lost_connections: Option<f64>,
    /// Replicas of partitions that the watched node leads.
    replicas_behind: Option<f64>,
    /// Records that these replicas are not known to hold.
    lag_records: Option<f64>,
}

impl ClusterView {
    /// The cluster between two looks; `None` if the node is alone.
    pub(super) fn of(growth: &Growth<'_>) -> Option<ClusterView> {
        let sum = |name| growth.now.sum(name);
        let names = growth.now.values(&OF_NODE, "node");
        let node_count = sum("ropewalk_nodes");
        // The count is missing while core 0 is silent, which alone knows it.
        let is_alone = node_count.map_or(names.is_empty(), |nodes| nodes <= 1.0);
        if is_alone {
            return None;
        }
        let nodes_away = sum("ropewalk_nodes_away");
        let nodes = names.into_iter().map(|name| NodeView::of(name, growth));
        Some(ClusterView {
            node_count,
            nodes_away,
            leads_metadata: sum("ropewalk_metadata_leader").map(|leads| leads > 0.0),
            leaderless_partitions: sum("ropewalk_leaderless_partitions"),
            led_partitions: sum("ropewalk_led_partitions"),
            opening_partitions: sum("ropewalk_opening_partitions"),
            short_partitions: sum("ropewalk_short_partitions"),
            epochs_opened: growth.total("ropewalk_epochs_opened_total"),
            epochs_ended: growth.total("ropewalk_epochs_ended_total"),
            shipped_bytes: growth.rate("ropewalk_shipped_bytes_total"),
            deferred_bytes: sum("ropewalk_deferred_bytes"),
            repairs: sum("ropewalk_repairs_total"),
            // A node that was removed from the cluster is told of until the watched one starts again.
            nodes: nodes
                .filter(|node| nodes_away != Some(0.0) || !node.is_away())
                .collect(),
        })
    }

    /// Says if a node is away, or a partition without a leader.
    pub(super) fn is_ailing(&self) -> bool {
        let some = |value: Option<f64>| value.is_some_and(|value| value > 0.0);
        some(self.nodes_away) || some(self.leaderless_partitions)
    }

    /// The lines about the cluster: a word and figures for each. They fit 80 columns, unless very much is deferred.
    pub(super) fn lines(&self) -> [(&'static str, String); 2] {
        let epochs = self.epochs_opened.zip(self.epochs_ended);
        let epochs = epochs.map(|(opened, ended)| format!("+{} -{}", count(opened), count(ended)));
        let leads = self.leads_metadata.map(|leads| if leads { "yes" } else { "no" });
        [
            (
                "cluster",
                format!(
                    "{} nodes  {} away  metadata leader {}  leaderless {}  epochs {}",
                    shown(self.node_count, count),
                    shown(self.nodes_away, count),
                    or_dash(leads),
                    shown(self.leaderless_partitions, count),
                    or_dash(epochs),
                ),
            ),
            (
                "led",
                format!(
                    "{}  opening {}  short {}  repairs {}  shipped {}/s  deferred {}",
                    shown(self.led_partitions, count),
                    shown(self.opening_partitions, count),
                    shown(self.short_partitions, count),
                    shown(self.repairs, count),
                    shown(self.shipped_bytes, bytes),
                    shown(self.deferred_bytes, bytes),
                ),
            ),
        ]
    }

    /// The other nodes as rows, without a heading.
    pub(super) fn node_rows(&self) -> Vec<Vec<String>> {
        self.nodes.iter().map(NodeView::row).collect()
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "node_count": self.node_count,
            "nodes_away": self.nodes_away,
            "leads_metadata": self.leads_metadata,
            "leaderless_partitions": self.leaderless_partitions,
            "led_partitions": self.led_partitions,
            "opening_partitions": self.opening_partitions,
            "short_partitions": self.short_partitions,
            "epochs_opened": self.epochs_opened,
            "epochs_ended": self.epochs_ended,
            "shipped_bytes_per_second": self.shipped_bytes,
            "deferred_bytes": self.deferred_bytes,
            "repairs": self.repairs,
            "nodes": self.nodes.iter().map(NodeView::as_json).collect::<Value>(),
        })
    }
}

impl NodeView {
    fn of(node: String, growth: &Growth<'_>) -> NodeView {
        let label = ("node", node.as_str());
        let sum = |name| growth.now.sum_of(name, label);
        NodeView {
            connections: sum("ropewalk_peer_connections"),
            sent_bytes: growth.rate_of("ropewalk_peer_sent_bytes_total", label),
            queued_bytes: sum("ropewalk_peer_queued_bytes"),
            lost_connections: growth.total_of("ropewalk_peer_connections_lost_total", label),
            replicas_behind: sum("ropewalk_replicas_behind"),
            lag_records: sum("ropewalk_replica_lag_records"),
            node,
        }
    }

    /// Says if there is no connection with it.
    fn is_away(&self) -> bool {
        self.connections.is_none_or(|connections| connections == 0.0)
    }

    fn row(&self) -> Vec<String> {
        let name = match self.is_away() {
            true => format!("{} (away)", self.node),
            false => self.node.clone(),
        };
        vec![
            name,
            shown(self.connections, count),
            shown(self.sent_bytes, bytes),
            shown(self.queued_bytes, bytes),
            shown(self.lost_connections, count),
            shown(self.replicas_behind, count),
            shown(self.lag_records, count),
        ]
    }

    fn as_json(&self) -> Value {
        json!({
            // A number, as `cluster status` tells it.
            "node": self.node.parse::<u64>().ok(),
            "away": self.is_away(),
            "connections": self.connections,
            "sent_bytes_per_second": self.sent_bytes,
            "queued_bytes": self.queued_bytes,
            "lost_connections": self.lost_connections,
            "replicas_behind": self.replicas_behind,
            "lag_records": self.lag_records,
        })
    }
}

fn shown(value: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    or_dash(value.map(show))
}

#[cfg(test)]
pub(super) mod tests;
