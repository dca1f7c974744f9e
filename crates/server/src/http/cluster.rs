//! The cluster as one of its nodes sees it: who is there, who has a vote about the metadata, who leads how much.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use metadata_group::Member;
use platform::slices::Slices;
use protocol::leader::NodeId;
use protocol::metadata::{Address, Metadata};
use serde_json::{Value, json};

use super::App;
use super::problem::Problem;
use crate::controller::MetadataLog;
use crate::core::Core;

/// Partitions that are counted before others have their turn.
const PARTITIONS_IN_ONE_TURN: usize = 5_000;

/// The partitions of a node.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    replicas: usize,
    led: usize,
}

/// See the module.
pub(super) async fn cluster(State(app): State<Arc<App>>) -> Result<Json<Value>, Problem> {
    Ok(Json(app.cores.ask(0, look).await?))
}

pub(super) async fn look(core: Rc<Core>) -> Value {
    let mut held: BTreeMap<NodeId, Held> = BTreeMap::new();
    let (mut changing, mut unclean) = (0, 0);
    let mut slices = Slices::of_own(PARTITIONS_IN_ONE_TURN);
    for (_, id) in core.all_topics().await {
        let count =
            core.with_metadata(|metadata| count(metadata, id, &mut held, (&mut changing, &mut unclean)));
        slices.did(1 + count).await;
    }
    let status = core.metadata_log.as_ref().and_then(MetadataLog::status);
    let group = status.as_ref().map(|status| {
        let nodes = |members: &mut dyn Iterator<Item = &Member>| {
            members.map(|member| member.node).collect::<Vec<_>>()
        };
        json!({
            // A node without a vote does not hear that the last leader is gone.
            "leader": status.leader.map(|leader| leader.node).filter(|node| core.is_here(NodeId(*node))),
            "term": status.term,
            "voters": nodes(&mut status.voters.iter()),
            "learners": nodes(&mut status.learners.iter()),
            "offset": status.applied.map(|applied| applied.offset.0),
        })
    });
    let nodes: Vec<Value> = core.with_metadata(|metadata| {
        let node = |(id, node): (NodeId, &protocol::metadata::Node)| {
            let Held { replicas, led } = held.get(&id).copied().unwrap_or_default();
            let peer = node.home.as_ref().and_then(|home| home.peer.as_ref());
            json!({
                "node": id.0,
                "kafka": shown(&node.address),
                "peer": peer.map(shown),
                "here": core.is_here(id),
                "rack": node.rack.as_deref(),
                "knows_feature_level": core.level_known_by(id).map(|level| level.0),
                "replicas": replicas,
                "leads": led,
                "durable_frames": node.home.as_ref().map(|home| core.durable_frames(id, home.directory)),
                "is_drained": node.drain.is_some(),
                "drained_to": node.drain.as_ref().and_then(|drain| drain.to).map(|to| to.0),
            })
        };
        metadata.nodes().map(node).collect()
    });
    json!({
        "cluster": core.facts.cluster.to_string(),
        "node": core.facts.node.0,
        "feature_level": core.with_metadata(Metadata::level).0,
        "metadata": group,
        "nodes": nodes,
        "changing_replicas": changing,
        "unclean_partitions": unclean,
        "disk_was_doubted": core.is_disk_doubted(),
    })
}

/// Counts a topic's partitions for the nodes that hold them, those whose replicas change, and those that were ever opened uncleanly. Returns
/// their number.
fn count(
    metadata: &Metadata,
    id: record::TopicId,
    held: &mut BTreeMap<NodeId, Held>,
    (changing, unclean): (&mut usize, &mut usize),
) -> usize {
    let Some(topic) = metadata.topic(id) else { return 0 };
    for (index, state) in (0..).zip(metadata.partitions(topic)) {
        for node in topic.holders(index) {
            held.entry(node).or_default().replicas += 1;
        }
        *changing += usize::from(topic.is_changing(index));
        *unclean += usize::from(!state.unclean.is_empty());
        held.entry(state.leader).or_default().led += 1;
    }
    topic.partition_count() as usize
}

fn shown(address: &Address) -> String {
    let Address { host, port } = address;
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}
