//! Connects to other nodes, again and again.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use platform::net::{Net, Stream};
use platform::turns;
use protocol::leader::NodeId;
use protocol::metadata::Address;
use protocol::peer::{Admitted, Decoder, Message, Reason, Refused, admit};
use storage::{read_peers, write_peers};
use tokio::time::{Instant, sleep, timeout};

use super::Purpose;
use super::link::{BODY_BYTES_MAX, Conversation, Ended, converse, next_message, write_message};
use crate::config::HostPort;
use crate::core::Core;

/// The longest that a connection and its greeting take.
const GREETING: Duration = Duration::from_secs(5);
/// Addresses that one node can have this one dial.
const TOLD_MAX: usize = 1_000;
/// Rests between attempts: twice as long after each that failed.
const REST_MIN: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(1);

/// Attempts that have failed since the last that has not.
#[derive(Default)]
struct Attempts {
    rests: u32,
    last_error: Option<String>,
}

impl Attempts {
    /// Gives the error, unless it is the one that was told already.
    fn note_failed(&mut self, error: &Ended) -> Option<&str> {
        let error = error.to_string();
        let is_news = self.last_error.as_ref() != Some(&error);
        self.last_error = Some(error);
        self.last_error.as_deref().filter(|_| is_news)
    }

    /// A connection that lasted a while was none of the attempts that fail.
    fn note_lasted(&mut self, began: Instant) {
        if began.elapsed() >= REST_MAX {
            *self = Attempts::default();
        }
    }

    /// Rests, longer each time.
    async fn rest(&mut self) {
        let rest = REST_MIN.saturating_mul(1 << self.rests.min(8));
        self.rests += 1;
        sleep(rest.min(REST_MAX)).await;
    }
}

/// Keeps the connections for the metadata, as long as the core lives: with the nodes at the addresses that are known from outside, until
/// there is an image; then with every node that has a lower id, and with all of them where none can dial this one.
pub(crate) async fn keep_metadata_links(core: Rc<Core>) {
    let mut seeds = core.facts.config.cluster.join.clone();
    let kept = read_peers(&*core.disk);
    seeds.extend(kept.iter().filter_map(|text| HostPort::parse(text)));
    core.dial_seeds(seeds);
    let log = core
        .metadata_log
        .as_ref()
        .expect("core 0 of a member has the group");
    let mut images = log.image_offsets();
    let (mut dialed, mut kept) = (BTreeSet::new(), Vec::new());
    loop {
        let others = core.other_peers(core.facts.node);
        let addresses: Vec<String> = others.iter().map(|(_, address)| address.to_string()).collect();
        if addresses != kept && !addresses.is_empty() && core.keep_peers(addresses.clone()).await {
            kept = addresses;
        }
        let is_reached = core.facts.config.peer.listen.is_some();
        for (node, _) in others {
            if (node < core.facts.node || !is_reached) && dialed.insert(node) {
                turns::spawn(dial_node(core.clone(), Purpose::Metadata, node));
            }
        }
        if images.changed().await.is_err() {
            return;
        }
        let has_image = core.with_metadata(|metadata| metadata.cluster().is_some());
        assert!(has_image, "an image is announced once the core has it");
    }
}

impl Core {
    /// Where nodes listen for others, but for one of them.
    fn other_peers(&self, but: NodeId) -> Vec<(NodeId, HostPort)> {
        self.with_metadata(|metadata| {
            let others = metadata.nodes().filter(|(node, _)| *node != but);
            let reached = others.filter_map(|(node, known)| {
                let Address { host, port } = known.home.as_ref()?.peer.as_ref()?;
                let (host, port) = (host.to_string(), *port);
                Some((node, HostPort { host, port }))
            });
            reached.collect()
        })
    }

    /// Tells a node that has no metadata yet where the others are: whoever leads must reach it.
    pub(super) fn tell_peers(&self, node: NodeId) {
        let others = self.other_peers(node).into_iter();
        let address = |(_, HostPort { host, port })| Address {
            host: host.into(),
            port,
        };
        let peers: Vec<Address> = others.map(address).collect();
        if !peers.is_empty() {
            self.peers.send(Purpose::Metadata, node, &Message::Peers(peers));
        }
    }

    /// Dials where another node says that there are others.
    pub(super) fn dial_told(self: &Rc<Core>, peers: Vec<Address>) {
        let told = peers.into_iter().map(|Address { host, port }| HostPort {
            host: host.to_string(),
            port,
        });
        self.dial_seeds(told.take(TOLD_MAX).collect());
    }

    fn dial_seeds(self: &Rc<Core>, seeds: Vec<HostPort>) {
        for seed in seeds {
            if self.peers.note_seed(&seed) {
                turns::spawn(dial_seed(self.clone(), seed));
            }
        }
    }

    /// Keeps the addresses of other nodes for the next start, which may not find those that it is told to join. Says whether it could.
    async fn keep_peers(self: &Rc<Core>, addresses: Vec<String>) -> bool {
        let disk = self.disk.clone();
        let kept = self.facts.pool.run(move || write_peers(&*disk, &addresses)).await;
        if let Err(error) = &kept {
            tracing::warn!(%error, "the addresses of the other nodes could not be kept for the next start");
        }
        kept.is_ok()
    }
}

/// Keeps a connection with whichever node is at an address, until there is an image of the metadata.
async fn dial_seed(core: Rc<Core>, address: HostPort) {
    let mut attempts = Attempts::default();
    let mut node = None;
    while core.image_offset().is_none() && !core.is_draining() {
        if node.is_some_and(|node| core.peers.has(Purpose::Metadata, node)) {
            sleep(REST_MIN).await;
            continue;
        }
        match greet_at(&core, address.clone(), Purpose::Metadata).await {
            Ok(conversation) => {
                let found = conversation.peer.node;
                node = Some(found);
                tracing::info!(node = found.0, %address, "connected to a node");
                let began = Instant::now();
                let ended = converse(&core, conversation).await;
                tracing::info!(node = found.0, %ended, "the connection to a node has ended");
                attempts.note_lasted(began);
            }
            Err(error) => core.note_not_connected(&mut attempts, &error, &address),
        }
        attempts.rest().await;
    }
}

impl Core {
    fn note_not_connected(&self, attempts: &mut Attempts, error: &Ended, at: &dyn fmt::Display) {
        if let Ended::Refused(refused) = error
            && refused.reason() == Reason::Incarnation
        {
            self.end_overtaken(refused);
        }
        if let Some(error) = attempts.note_failed(error) {
            tracing::warn!(%at, error, "no connection to a node; it is tried again");
        }
    }

    /// Another node knows a later start of this one.
    pub(super) fn end_overtaken(&self, refused: &Refused) {
        match (&self.metadata_log, self.image_offset()) {
            // The start says so itself.
            (Some(group), None) => group.handle_refusal(refused.text()),
            _ => {
                // It would go on to serve the partitions of another process.
                tracing::error!(%refused, "a later start of this node is known, and this one ends");
                self.lost.notify_one();
            }
        }
    }
}

/// Keeps a connection to another node for a purpose, as long as the core lives. The metadata says where that is.
pub(super) async fn dial_node(core: Rc<Core>, purpose: Purpose, node: NodeId) {
    let mut attempts = Attempts::default();
    while !core.is_draining() || purpose != Purpose::Metadata {
        // It may have dialed this node before it knew the others.
        if core.peers.has(purpose, node) {
            sleep(REST_MAX).await;
            continue;
        }
        let address = core.with_metadata(|metadata| metadata.home(node)?.peer.clone());
        let greeted = match address {
            Some(Address { host, port }) => {
                let host = host.to_string();
                greet_at(&core, HostPort { host, port }, purpose).await
            }
            None => Err(Ended::NoAddress),
        };
        match greeted {
            Ok(conversation) if conversation.peer.node == node => {
                tracing::info!(node = node.0, %purpose, "connected to a node");
                let began = Instant::now();
                let ended = converse(&core, conversation).await;
                tracing::warn!(node = node.0, %purpose, %ended, "the connection to a node has ended");
                attempts.note_lasted(began);
            }
            greeted => {
                let error = greeted.err().unwrap_or(Ended::OutOfPlace);
                let at = format!("node {node}, {purpose}");
                core.note_not_connected(&mut attempts, &error, &at);
            }
        }
        attempts.rest().await;
    }
}

impl Core {
    /// Says whether nobody listens any more where a node did, which is so when its process has ended. A machine that is gone, or cut off,
    /// does not say so.
    pub(crate) async fn has_ended(&self, node: NodeId) -> bool {
        let address = self.with_metadata(|metadata| metadata.home(node)?.peer.clone());
        let Some(Address { host, port }) = address else {
            return false;
        };
        let net = self.facts.net.clone();
        let Ok(addresses) = self.facts.pool.run(move || net.resolve(&host, port)).await else {
            return false;
        };
        let connecting = timeout(GREETING, connect(&self.facts.net, &addresses)).await;
        matches!(connecting, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

/// Names are looked up on another thread, one at a time, however long it takes.
async fn greet_at(core: &Rc<Core>, at: HostPort, purpose: Purpose) -> Result<Conversation, Ended> {
    let net = core.facts.net.clone();
    let looking = core.facts.pool.run(move || net.resolve(&at.host, at.port));
    let addresses = looking.await?;
    let greeted = timeout(GREETING, greet(core, &addresses, purpose)).await;
    greeted.unwrap_or(Err(Ended::Silent))
}

async fn greet(core: &Rc<Core>, addresses: &[SocketAddr], purpose: Purpose) -> Result<Conversation, Ended> {
    let stream = connect(&core.facts.net, addresses).await?;
    stream.set_nodelay()?;
    let (mut input, mut output) = stream.split();
    let own = core.own();
    write_message(&mut output, &Message::Hello(own.hello(purpose.pair())).encode()).await?;
    let mut decoder = Decoder::new(BODY_BYTES_MAX);
    let mut received = BytesMut::new();
    let hello = match next_message(&mut input, &mut decoder, &mut received, GREETING).await? {
        Message::Hello(hello) => hello,
        Message::Refused(refused) => return Err(Ended::Refused(refused)),
        _ => return Err(Ended::OutOfPlace),
    };
    let Admitted { peer, version } = match admit(&own, core.known(&hello).as_ref(), &hello) {
        Ok(admitted) => admitted,
        Err(refused) => {
            // It may be a copy of a directory, which should learn of it.
            let told = Message::Refused(refused.clone());
            let _ = write_message(&mut output, &told.encode()).await;
            return Err(Ended::NotAdmitted(refused));
        }
    };
    decoder.handle_admitted(version);
    Ok(Conversation {
        stream: Stream::join(input, output),
        decoder,
        received,
        peer,
        version,
        purpose,
        is_by_rule: peer.node < core.facts.node,
    })
}

/// Connects to the first of these addresses where somebody listens.
pub(crate) async fn connect(net: &Arc<dyn Net>, addresses: &[SocketAddr]) -> io::Result<Stream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut all_refuse = true;
    for address in addresses {
        match timeout(GREETING, net.connect(*address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => {
                all_refuse &= error.kind() == io::ErrorKind::ConnectionRefused;
                last = error;
            }
            Err(_) => {
                all_refuse = false;
                last = io::ErrorKind::TimedOut.into();
            }
        }
    }
    // That nobody listens is certain only where each of them says so.
    match last.kind() {
        io::ErrorKind::ConnectionRefused if !all_refuse => Err(io::ErrorKind::HostUnreachable.into()),
        _ => Err(last),
    }
}
