//! The links of this core's shards: which there must be, and the letters that go over them.
//!
//! A shard is linked with a node once they have a partition in common, and stays so until the node stops.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::turns;
use protocol::leader::NodeId;
use protocol::metadata::{Metadata, Plans};
use protocol::peer::{Message, ReplicaMessage};
use record::PartitionId;
use shard::{Letter, Report, Shard};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::Purpose;
use super::dial::dial_node;
use crate::core::Core;

/// The longest that a node which stops waits for others to lead in its place.
const HAND_OVER: Duration = Duration::from_secs(3);

/// The links that shards of a core are to have.
#[derive(Default)]
pub(crate) struct WantedLinks {
    wanted: RefCell<BTreeSet<(u16, NodeId)>>,
    news: Notify,
}

impl WantedLinks {
    /// Has a shard be linked with these nodes.
    pub(crate) fn want(&self, shard: usize, nodes: impl Iterator<Item = NodeId>) {
        let shard = u16::try_from(shard).expect("a node has fewer shards");
        let mut wanted = self.wanted.borrow_mut();
        for node in nodes {
            if wanted.insert((shard, node)) {
                self.news.notify_one();
            }
        }
    }
}

/// Has this core's shards speak with other nodes as soon as they have to.
pub(crate) async fn keep_links(core: Rc<Core>) {
    let (mut speaking, mut linked) = (BTreeSet::new(), BTreeSet::new());
    loop {
        core.wanted_links.news.notified().await;
        let wanted = core.wanted_links.wanted.borrow().clone();
        for (shard, node) in wanted {
            if speaking.insert(shard) {
                let speaker = core.shard(shard.into()).clone();
                speaker.start_replication();
                turns::spawn(carry_letters(core.clone(), speaker.clone()));
                turns::spawn(follow_leads(core.clone(), speaker.clone()));
                let core = core.clone();
                turns::spawn(async move {
                    speaker.until_dead().await;
                    tracing::error!(
                        "this node ends, so that others lead in its place; start it again when its disk is well"
                    );
                    core.lost.notify_one();
                });
            }
            // One of the two dials.
            if linked.insert((shard, node)) && node < core.facts.node {
                turns::spawn(dial_node(core.clone(), Purpose::Shard(shard), node));
            }
        }
    }
}

impl Core {
    /// Has other replicas lead in the place of this node.
    pub(crate) async fn hand_over(&self, to: Vec<(PartitionId, NodeId)>) {
        let handed = self.facts.mailboxes.carry_out(0, move |core| async move {
            core.hand_over_here(to).await;
        });
        // The node is stopping if it is not done.
        let _ = handed.await;
    }

    async fn hand_over_here(&self, mut to: Vec<(PartitionId, NodeId)>) {
        to.retain(|(_, leader)| self.is_here(*leader));
        let partitions = to.len();
        let own = self.facts.node;
        let plan = move |metadata: &Metadata, (id, leader): (PartitionId, NodeId), _: &mut Plans| {
            metadata.plan_succession(id, own, leader)
        };
        let changed = self.change_all(None, None, to, plan).await.unwrap_or_default();
        let made = changed.iter().filter(|changed| changed.is_ok()).count();
        tracing::info!(partitions, made, "partitions were handed over to other replicas");
    }

    /// Before this node stops: has others lead what it leads, if they can.
    pub(crate) async fn hand_over_all(&self) {
        let successors: Vec<_> = self.shards().flat_map(|shard| shard.successors()).collect();
        if !successors.is_empty() {
            // Without the controller they go on without it.
            let _ = timeout(HAND_OVER, self.hand_over(successors)).await;
        }
    }
}

/// Opens coordinators where this node has come to lead, and closes them where it does not any more.
async fn follow_leads(core: Rc<Core>, shard: Rc<Shard>) {
    loop {
        shard.until_leads_change().await;
        core.open_coordinators();
    }
}

/// Gives a shard's letters to the links.
async fn carry_letters(core: Rc<Core>, shard: Rc<Shard>) {
    let purpose = Purpose::Shard(u16::try_from(shard.index).expect("a node has fewer shards"));
    loop {
        shard.until_news().await;
        for (to, letter) in shard.take_letters() {
            let (message, room) = to_message(letter);
            core.peers.send_with(purpose, to, &message, room);
        }
        let reports = shard.take_reports().into_iter();
        let able: Vec<_> = reports
            .filter_map(|(partition, report)| match report {
                Report::Preferred { replica } => Some((partition, replica)),
                // Replica sets do not change, and nobody is in doubt.
                Report::Settled { .. } | Report::CaughtUp { .. } => None,
            })
            .collect();
        if !able.is_empty() {
            let core = core.clone();
            turns::spawn(async move { core.hand_over(able).await });
        }
    }
}

fn to_message(letter: Letter) -> (Message, Option<super::Room>) {
    let Letter {
        partition,
        message,
        room,
    } = letter;
    let message = match message {
        shard::Message::Sworn(sworn) => ReplicaMessage::Sworn(sworn),
        shard::Message::Prompt(prompt, mut batches) => {
            let bytes = match batches.len() {
                1 => batches.remove(0),
                _ => Bytes::from(batches.concat()),
            };
            ReplicaMessage::Prompt(prompt.with_bytes(bytes))
        }
    };
    (Message::Replica { partition, message }, room)
}
