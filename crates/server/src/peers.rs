//! The connections of this node to the other nodes of its cluster.
//!
//! One for the metadata, on core 0: a node that has joined dials (`dial`), the one that has the metadata's log lets it in (`listen`).
//! And one for each pair of shards with a partition in common, on the core that owns the shard (`replicas`): the node with the higher id
//! dials. What comes is handed on (`link`); nothing here knows what a message means. A link never holds up the node: what a peer does not
//! take is bounded, and beyond that the connection is closed.

mod dial;
mod join;
mod link;
mod listen;
mod replicas;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use protocol::leader::NodeId;
use protocol::peer::{Encoded, KnownNode, Message, Own, ShardPair, WIRE_VERSIONS};
use record::Offset;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};

use crate::core::Core;

pub(crate) use dial::dial_controller;
pub(crate) use join::{JoinError, join};
pub(crate) use listen::let_peers_in;
pub(crate) use replicas::{WantedLinks, keep_links};

/// The highest feature level of the metadata that this program knows.
const FEATURE_LEVEL: u16 = 1;
/// Bytes that wait to be written to one peer; beyond them it is cut off.
const OUTGOING_BYTES_MAX: usize = 16 << 20;

/// The purpose of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Purpose {
    /// The metadata.
    Metadata,
    /// The replicas of a shard, which has the same number at both ends.
    Shard(u16),
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Purpose::Metadata => f.write_str("metadata"),
            Purpose::Shard(shard) => write!(f, "shard {shard}"),
        }
    }
}

impl Purpose {
    fn pair(self) -> ShardPair {
        match self {
            Purpose::Metadata => ShardPair::METADATA,
            Purpose::Shard(shard) => ShardPair {
                from: shard,
                to: shard,
            },
        }
    }
}

/// The links of a core.
#[derive(Default)]
pub(crate) struct Peers {
    links: RefCell<BTreeMap<(Purpose, NodeId), Link>>,
    /// Counted up with each connection that is taken.
    generation: Cell<u64>,
}

/// Room that a message takes of others' until it is written.
type Room = Arc<OwnedSemaphorePermit>;

/// A message to be written.
type Outgoing = (Encoded, Option<Room>);

/// The writing end of a connection.
#[derive(Clone)]
struct Link {
    generation: u64,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    queued_bytes: Rc<Cell<usize>>,
    /// The connection is to end.
    end: Rc<Notify>,
}

impl Peers {
    /// Sends a message to a node. Returns whether there is a connection; nobody knows whether the message arrives.
    pub(crate) fn send(&self, purpose: Purpose, node: NodeId, message: &Message) -> bool {
        self.send_with(purpose, node, message, None)
    }

    /// The same, with room that it gives back when it was written, or is given up.
    fn send_with(&self, purpose: Purpose, node: NodeId, message: &Message, room: Option<Room>) -> bool {
        let links = self.links.borrow();
        let Some(link) = links.get(&(purpose, node)) else {
            return false;
        };
        let encoded = message.encode();
        // The largest message is less: it may always be on its way alone.
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
        link.outgoing.send((encoded, room)).is_ok()
    }

    /// Bytes that wait to be written to a node.
    pub(crate) fn queued_bytes(&self, purpose: Purpose, node: NodeId) -> usize {
        self.links
            .borrow()
            .get(&(purpose, node))
            .map_or(0, |link| link.queued_bytes.get())
    }

    /// Ends the connections for the metadata.
    pub(crate) fn end_metadata(&self) {
        let links = self.links.borrow();
        let metadata = links
            .iter()
            .filter(|((purpose, _), _)| *purpose == Purpose::Metadata);
        metadata.for_each(|(_, link)| link.end.notify_one());
    }

    /// Takes a connection in the place of the one before, which ends.
    fn take(&self, purpose: Purpose, node: NodeId) -> (Link, mpsc::UnboundedReceiver<Outgoing>) {
        let (outgoing, to_write) = mpsc::unbounded_channel();
        self.generation.set(self.generation.get() + 1);
        let link = Link {
            generation: self.generation.get(),
            outgoing,
            queued_bytes: Rc::default(),
            end: Rc::default(),
        };
        if let Some(before) = self.links.borrow_mut().insert((purpose, node), link.clone()) {
            before.end.notify_one();
        }
        (link, to_write)
    }

    /// Forgets a connection that has ended. Returns false if another one has taken its place.
    fn forget(&self, purpose: Purpose, node: NodeId, link: &Link) -> bool {
        let mut links = self.links.borrow_mut();
        let is_latest = links
            .get(&(purpose, node))
            .is_some_and(|latest| latest.generation == link.generation);
        if is_latest {
            links.remove(&(purpose, node));
        }
        is_latest
    }
}

impl Core {
    /// This node, as it greets others.
    fn own(&self, image_offset: Offset) -> Own {
        Own {
            versions: WIRE_VERSIONS,
            cluster: self.facts.cluster,
            node: self.facts.node,
            directory: self.facts.directory,
            incarnation: self.facts.incarnation,
            shards: u16::try_from(self.facts.shards).unwrap_or(u16::MAX),
            feature_level: FEATURE_LEVEL,
            image_offset,
        }
    }

    /// A node as the metadata has it.
    fn known(&self, node: NodeId) -> Option<KnownNode> {
        self.with_metadata(|metadata| {
            let home = metadata.home(node)?;
            Some(KnownNode {
                directory: home.directory,
                incarnation: home.start,
            })
        })
    }
}
