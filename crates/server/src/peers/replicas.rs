//! The links of this core's shards: which there must be, and the letters that go over them.
//!
//! A shard is linked with a node once they have a partition in common, and stays so until the node stops.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use bytes::Bytes;
use platform::turns;
use protocol::leader::NodeId;
use protocol::peer::{Message, ReplicaMessage};
use shard::{Letter, Shard};
use tokio::sync::Notify;

use super::Purpose;
use super::dial::dial_shard;
use crate::core::Core;

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
                turns::spawn(carry_letters(core.clone(), speaker));
            }
            // One of the two dials.
            if linked.insert((shard, node)) && node < core.facts.node {
                turns::spawn(dial_shard(core.clone(), shard, node));
            }
        }
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
        for (partition, report) in shard.take_reports() {
            tracing::debug!(%partition, ?report, "nobody waits for this news of a partition");
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
