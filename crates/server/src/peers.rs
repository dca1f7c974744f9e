//! The connections of this node to the other nodes of its cluster, on core 0.
//!
//! One connection for each pair of nodes: the node that joined later dials (`dial`), the other one lets it in (`listen`). What
//! comes is handed on (`link`); nothing here knows what a message means. A link never holds up the node: what a peer does not take is
//! bounded, and beyond that the connection is closed.

mod dial;
mod join;
mod link;
mod listen;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use protocol::leader::NodeId;
use protocol::peer::{Encoded, KnownNode, Message, Own, ShardPair, WIRE_VERSIONS};
use record::Offset;
use tokio::sync::{Notify, mpsc};

use crate::core::Core;

pub(crate) use dial::dial_controller;
pub(crate) use join::{JoinError, join};
pub(crate) use listen::let_peers_in;

/// The highest feature level of the metadata that this program knows.
const FEATURE_LEVEL: u16 = 1;
/// Bytes that wait to be written to one peer; beyond them it is cut off.
const OUTGOING_BYTES_MAX: usize = 16 << 20;
/// The metadata goes from shard 0 to shard 0.
const METADATA_PAIR: ShardPair = ShardPair { from: 0, to: 0 };

/// The links of a node.
#[derive(Default)]
pub(crate) struct Peers {
    links: RefCell<BTreeMap<NodeId, Link>>,
    /// Counted up with each connection that is taken.
    generation: Cell<u64>,
}

/// The writing end of a connection.
#[derive(Clone)]
struct Link {
    generation: u64,
    outgoing: mpsc::UnboundedSender<Encoded>,
    queued_bytes: Rc<Cell<usize>>,
    /// The connection is to end.
    end: Rc<Notify>,
}

impl Peers {
    /// Sends a message to a node. Returns whether there is a connection; nobody knows whether the message arrives.
    pub(crate) fn send(&self, node: NodeId, message: &Message) -> bool {
        let links = self.links.borrow();
        let Some(link) = links.get(&node) else {
            return false;
        };
        let encoded = message.encode();
        let queued = link.queued_bytes.get() + encoded.length_bytes();
        if queued > OUTGOING_BYTES_MAX {
            tracing::warn!(
                node = node.0,
                "a node does not take what it is sent, and is cut off"
            );
            link.end.notify_one();
            return false;
        }
        link.queued_bytes.set(queued);
        link.outgoing.send(encoded).is_ok()
    }

    /// Bytes that wait to be written to a node.
    pub(crate) fn queued_bytes(&self, node: NodeId) -> usize {
        self.links
            .borrow()
            .get(&node)
            .map_or(0, |link| link.queued_bytes.get())
    }

    /// Takes a connection in the place of the one before, which ends.
    fn take(&self, node: NodeId) -> (Link, mpsc::UnboundedReceiver<Encoded>) {
        let (outgoing, to_write) = mpsc::unbounded_channel();
        self.generation.set(self.generation.get() + 1);
        let link = Link {
            generation: self.generation.get(),
            outgoing,
            queued_bytes: Rc::default(),
            end: Rc::default(),
        };
        if let Some(before) = self.links.borrow_mut().insert(node, link.clone()) {
            before.end.notify_one();
        }
        (link, to_write)
    }

    /// Forgets a connection that has ended. Returns false if another one has taken its place.
    fn forget(&self, node: NodeId, link: &Link) -> bool {
        let mut links = self.links.borrow_mut();
        let is_latest = links
            .get(&node)
            .is_some_and(|latest| latest.generation == link.generation);
        if is_latest {
            links.remove(&node);
        }
        is_latest
    }
}

impl Core {
    /// This node, as it greets others.
    fn own(&self, image_offset: Offset) -> Own {
        let starts =
            self.with_metadata(|metadata| metadata.node(self.facts.node).map_or(0, |own| own.incarnation));
        let starts = u64::try_from(starts).expect("incarnations count up from zero");
        Own {
            versions: WIRE_VERSIONS,
            cluster: self.facts.cluster,
            node: self.facts.node,
            directory: self.facts.directory,
            incarnation: self.facts.incarnation.max(starts),
            shards: u16::try_from(self.facts.shards).unwrap_or(u16::MAX),
            feature_level: FEATURE_LEVEL,
            image_offset,
        }
    }

    /// A node as the metadata has it.
    fn known(&self, node: NodeId) -> Option<KnownNode> {
        self.with_metadata(|metadata| {
            let home = metadata.home(node)?;
            let started = metadata.node(node).map_or(0, |node| node.incarnation);
            Some(KnownNode {
                directory: home.directory,
                incarnation: u64::try_from(started).expect("incarnations count up from zero"),
            })
        })
    }
}
