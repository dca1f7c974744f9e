//! The connections of this node to the other nodes of its cluster.
//!
//! One with every other node for the metadata, on core 0. And one for each pair of shards with a partition in common, on the core that owns
//! the shard (`replicas`). The node with the higher id dials (`dial`), the other one lets it in (`listen`); a node that does not know the
//! others yet dials where it was told to. Messages are handed on (`link`); nothing here knows their meaning. A link never holds up the node: what a peer does not
//! take is bounded, and beyond that the connection is closed.

mod asking;
mod dial;
mod join;
mod link;
mod listen;
mod replicas;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use platform::counters::Counter;
use protocol::leader::NodeId;
use protocol::metadata::{Address, FeatureLevel, Metadata};
use protocol::peer::{Encoded, Hello, KnownNode, Message, Own, ShardPair, WIRE_VERSIONS};
use record::{DirectoryId, Offset};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};

use crate::config::HostPort;
use crate::core::Core;

pub(crate) use asking::Asked;
pub(crate) use dial::{connect, keep_metadata_links};
pub(crate) use join::{JoinError, join};
pub(crate) use listen::let_peers_in;
pub(crate) use replicas::{WantedLinks, keep_links};

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
    /// Of each node that there was a connection with.
    traffic: RefCell<BTreeMap<NodeId, Rc<Traffic>>>,
    /// Addresses that are dialed until there is an image.
    seeds: RefCell<BTreeSet<HostPort>>,
    /// Where this node serves HTTP, once it does and others can come there.
    own_http: RefCell<Option<Address>>,
}

/// Traffic between this core and a node since the start.
#[derive(Default)]
struct Traffic {
    sent_bytes: Counter,
    lost: Counter,
}

/// The connections of this core with a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerFigures {
    pub(crate) node: NodeId,
    pub(crate) connections: usize,
    pub(crate) lost_connections: u64,
    pub(crate) queued_bytes: usize,
    pub(crate) sent_bytes: u64,
}

/// Room that a message takes of others' until it is written.
type Room = Arc<OwnedSemaphorePermit>;

/// A message to be written.
type Outgoing = (Encoded, Option<Room>);

/// The writing end of a connection.
#[derive(Clone)]
struct Link {
    generation: u64,
    directory: DirectoryId,
    /// The version of the messages that both ends speak.
    version: u16,
    /// The newest feature level that the peer knows.
    feature_level: FeatureLevel,
    /// Where the peer serves HTTP, if it has said so.
    http: Option<Address>,
    /// The node with the higher id has dialed, as is the rule.
    is_by_rule: bool,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    queued_bytes: Rc<Cell<usize>>,
    traffic: Rc<Traffic>,
    /// The connection is to end.
    end: Rc<Notify>,
}

impl Peers {
    /// Sends a message to a node. Returns whether there is a connection that takes it; nobody knows whether the message arrives.
    pub(crate) fn send(&self, purpose: Purpose, node: NodeId, message: &Message) -> bool {
        self.send_with(purpose, node, message, None)
    }

    /// The same, with room that it gives back when it was written, or is given up.
    fn send_with(&self, purpose: Purpose, node: NodeId, message: &Message, room: Option<Room>) -> bool {
        let links = self.links.borrow();
        let Some(link) = links.get(&(purpose, node)) else {
            return false;
        };
        // A node that was not upgraded yet could not read it.
        if message.kind().since() > link.version {
            return false;
        }
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

    /// Sends a message to every node that there is a connection with for the metadata.
    pub(crate) fn tell_all(&self, message: &Message) {
        for node in self.linked() {
            self.send(Purpose::Metadata, node, message);
        }
    }

    /// Takes note of an address. Returns whether it is a new one.
    fn note_seed(&self, seed: &HostPort) -> bool {
        self.seeds.borrow_mut().insert(seed.clone())
    }

    /// Says whether there is a connection for a purpose.
    pub(crate) fn has(&self, purpose: Purpose, node: NodeId) -> bool {
        self.links.borrow().contains_key(&(purpose, node))
    }

    /// Says whether there is a connection for the metadata with a node over this directory.
    pub(crate) fn is_linked_with(&self, node: NodeId, directory: DirectoryId) -> bool {
        let links = self.links.borrow();
        let link = links.get(&(Purpose::Metadata, node));
        link.is_some_and(|link| link.directory == directory)
    }

    /// The newest feature level that a node knows which there is a connection with for the metadata.
    pub(crate) fn feature_level(&self, node: NodeId) -> Option<FeatureLevel> {
        let links = self.links.borrow();
        let link = links.get(&(Purpose::Metadata, node));
        link.map(|link| link.feature_level)
    }

    /// Where a node serves HTTP; `None` if it has not said so since there is a connection with it.
    pub(crate) fn http_of(&self, node: NodeId) -> Option<Address> {
        let links = self.links.borrow();
        links.get(&(Purpose::Metadata, node))?.http.clone()
    }

    /// The nodes that there is a connection with for the metadata.
    fn linked(&self) -> Vec<NodeId> {
        let links = self.links.borrow();
        let metadata = links.keys().filter(|(purpose, _)| *purpose == Purpose::Metadata);
        metadata.map(|(_, node)| *node).collect()
    }

    /// Takes note of where a peer serves HTTP.
    fn note_http(&self, node: NodeId, address: Address) {
        if let Some(link) = self.links.borrow_mut().get_mut(&(Purpose::Metadata, node)) {
            link.http = Some(address);
        }
    }

    /// Tells all nodes, and from now on each that comes, where this one serves HTTP.
    pub(crate) fn tell_http(&self, address: Address) {
        self.own_http.replace(Some(address.clone()));
        self.tell_all(&Message::Http(address));
    }

    /// Tells a node that has come.
    fn tell_http_to(&self, node: NodeId) {
        let address = self.own_http.borrow().clone();
        if let Some(address) = address {
            self.send(Purpose::Metadata, node, &Message::Http(address));
        }
    }

    /// Ends the connections for the metadata.
    pub(crate) fn end_metadata(&self) {
        let links = self.links.borrow();
        let metadata = links
            .iter()
            .filter(|((purpose, _), _)| *purpose == Purpose::Metadata);
        metadata.for_each(|(_, link)| link.end.notify_one());
    }

    /// Takes a connection in the place of the one before, which ends. `None` if the one before stays: where both ends have dialed, both
    /// must come to keep the same.
    fn take(
        &self,
        purpose: Purpose,
        (peer, version): (&Hello, u16),
        is_by_rule: bool,
    ) -> Option<(Link, mpsc::UnboundedReceiver<Outgoing>)> {
        let node = peer.node;
        let before = self
            .links
            .borrow()
            .get(&(purpose, node))
            .map(|link| link.is_by_rule);
        if before.is_some_and(|before| before && !is_by_rule) {
            return None;
        }
        let (outgoing, to_write) = mpsc::unbounded_channel();
        self.generation.set(self.generation.get() + 1);
        let link = Link {
            generation: self.generation.get(),
            directory: peer.directory,
            version,
            feature_level: peer.feature_level,
            http: None,
            is_by_rule,
            outgoing,
            queued_bytes: Rc::default(),
            traffic: self.traffic.borrow_mut().entry(node).or_default().clone(),
            end: Rc::default(),
        };
        if let Some(before) = self.links.borrow_mut().insert((purpose, node), link.clone()) {
            before.end.notify_one();
        }
        Some((link, to_write))
    }

    /// Forgets a connection that has ended. Returns false if another one has taken its place.
    fn forget(&self, purpose: Purpose, node: NodeId, link: &Link) -> bool {
        let mut links = self.links.borrow_mut();
        let is_latest = links
            .get(&(purpose, node))
            .is_some_and(|latest| latest.generation == link.generation);
        if is_latest {
            links.remove(&(purpose, node));
            link.traffic.lost.add(1);
        }
        is_latest
    }

    /// The connections with each node that there was one with.
    pub(crate) fn figures(&self) -> Vec<PeerFigures> {
        let (links, traffic) = (self.links.borrow(), self.traffic.borrow());
        let figures = traffic.iter().map(|(node, traffic)| {
            let with_node = || links.iter().filter(|((_, peer), _)| peer == node);
            PeerFigures {
                node: *node,
                connections: with_node().count(),
                lost_connections: traffic.lost.get(),
                queued_bytes: with_node().map(|(_, link)| link.queued_bytes.get()).sum(),
                sent_bytes: traffic.sent_bytes.get(),
            }
        });
        figures.collect()
    }
}

impl Core {
    /// This node, as it greets others.
    fn own(&self) -> Own {
        Own {
            versions: WIRE_VERSIONS,
            cluster: self.facts.cluster,
            node: self.facts.node,
            directory: self.facts.directory,
            incarnation: self.facts.incarnation,
            shards: u16::try_from(self.facts.shards).unwrap_or(u16::MAX),
            feature_level: FeatureLevel::NEWEST,
            cluster_level: self.with_metadata(Metadata::level),
            image_offset: self.image_offset().unwrap_or(Offset::ZERO),
        }
    }

    /// The sender of a hello as the metadata has it. Before there is an image, it is what it says: nodes that all start must find each
    /// other to have an image at all.
    fn known(&self, hello: &Hello) -> Option<KnownNode> {
        self.with_metadata(|metadata| {
            if metadata.cluster().is_none() {
                return Some(KnownNode {
                    directory: hello.directory,
                    incarnation: hello.incarnation,
                });
            }
            let home = metadata.home(hello.node)?;
            Some(KnownNode {
                directory: home.directory,
                incarnation: home.start,
            })
        })
    }
}
