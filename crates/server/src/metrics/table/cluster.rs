//! The metrics of other nodes: the connections with them, and what their replicas lack of what is led here.

use prometheus_client::registry::Unit;
use shard::FollowerFigures;

use super::{Metric, counter, gauge, known};
use crate::peers::PeerFigures;

/// Of the connections of a core with another node.
pub(in crate::metrics) static OF_PEER: &[Metric<PeerFigures>] = &[
    gauge(
        "peer_connections",
        None,
        |peer| known(peer.connections),
        "Connections of the core with the node: one for each journal that has partitions in common with it, and one for the metadata on core 0.",
    ),
    counter(
        "peer_connections_lost",
        None,
        |peer| known(peer.lost_connections),
        "Connections with the node that have ended.",
    ),
    gauge(
        "peer_queued",
        Some(Unit::Bytes),
        |peer| known(peer.queued_bytes),
        "Bytes that wait to be written to the node; one that does not take 16 MiB is cut off.",
    ),
    counter(
        "peer_sent",
        Some(Unit::Bytes),
        |peer| known(peer.sent_bytes),
        "Bytes that were written to the node.",
    ),
];

/// Of a journal's partitions that are led here, and their replicas on another node.
pub(in crate::metrics) static OF_FOLLOWER: &[Metric<FollowerFigures>] = &[
    gauge(
        "replicas_behind",
        None,
        |followers| known(followers.behind),
        "Replicas on the node, of partitions led here, that are not reached, or are still being sent what they lack.",
    ),
    gauge(
        "replica_lag_records",
        None,
        |followers| known(followers.lacks),
        "Records of these partitions that the node is not known to hold, together; those on their way count, too.",
    ),
];
