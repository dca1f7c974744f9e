//! Connects to other nodes, again and again.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use platform::net::{Net, Stream};
use protocol::leader::NodeId;
use protocol::metadata::Address;
use protocol::peer::{Admitted, Decoder, KnownNode, Message, Reason, admit};
use tokio::time::{sleep, timeout};

use super::Purpose;
use super::link::{BODY_BYTES_MAX, Conversation, Ended, converse, next_message, write_message};
use crate::config::HostPort;
use crate::core::Core;

/// The longest that a connection and its greeting take.
const GREETING: Duration = Duration::from_secs(5);
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

    /// Rests, longer each time.
    async fn rest(&mut self) {
        let rest = REST_MIN.saturating_mul(1 << self.rests.min(8));
        self.rests += 1;
        sleep(rest.min(REST_MAX)).await;
    }
}

/// Keeps a connection to the controller, which is at one of the addresses to join, as long as the core lives.
pub(crate) async fn dial_controller(core: Rc<Core>) {
    let mut attempts = Attempts::default();
    loop {
        for address in &core.facts.config.cluster.join {
            if core.is_draining() {
                return;
            }
            let greeted = greet_at(&core, address.clone(), Purpose::Metadata).await;
            match greeted {
                Ok(conversation) => {
                    attempts = Attempts::default();
                    let node = conversation.peer.node.0;
                    tracing::info!(node, %address, "connected to a node");
                    let ended = converse(&core, conversation).await;
                    tracing::warn!(node, %ended, "the connection to a node has ended");
                }
                Err(Ended::Refused(refused)) if refused.reason() == Reason::Incarnation => {
                    // It would go on to serve the partitions of another process.
                    tracing::error!(%refused, "a later start of this node is known, and this one ends");
                    return core.lost.notify_one();
                }
                Err(error) => {
                    if let Some(error) = attempts.note_failed(&error) {
                        tracing::warn!(%address, error, "no connection to a node; it is tried again");
                    }
                }
            }
        }
        attempts.rest().await;
    }
}

/// Keeps a connection to another node for a shard, as long as the core lives. The metadata says where that is.
pub(super) async fn dial_shard(core: Rc<Core>, shard: u16, node: NodeId) {
    let purpose = Purpose::Shard(shard);
    let mut attempts = Attempts::default();
    loop {
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
                attempts = Attempts::default();
                tracing::info!(node = node.0, %purpose, "connected to a node");
                let ended = converse(&core, conversation).await;
                tracing::warn!(node = node.0, %purpose, %ended, "the connection to a node has ended");
            }
            greeted => {
                let error = greeted.err().unwrap_or(Ended::OutOfPlace);
                if let Some(error) = attempts.note_failed(&error) {
                    tracing::warn!(node = node.0, %purpose, error, "no connection to a node; it is tried again");
                }
            }
        }
        attempts.rest().await;
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
    let image_offset = core.image_offset();
    let own = core.own(image_offset.unwrap_or_default());
    write_message(&mut output, &Message::Hello(own.hello(purpose.pair())).encode()).await?;
    let mut decoder = Decoder::new(BODY_BYTES_MAX);
    let mut received = BytesMut::new();
    let hello = match next_message(&mut input, &mut decoder, &mut received, GREETING).await? {
        Message::Hello(hello) => hello,
        Message::Refused(refused) => return Err(Ended::Refused(refused)),
        _ => return Err(Ended::OutOfPlace),
    };
    // Before the first image, the address is all that is known of it.
    let known = match image_offset {
        Some(_) => core.known(hello.node),
        None => Some(KnownNode {
            directory: hello.directory,
            incarnation: hello.incarnation,
        }),
    };
    let Admitted { peer, .. } = admit(&own, known.as_ref(), &hello).map_err(Ended::Refused)?;
    decoder.handle_admitted();
    Ok(Conversation {
        stream: Stream::join(input, output),
        decoder,
        received,
        peer,
        purpose,
    })
}

/// Connects to the first of these addresses where somebody listens.
pub(super) async fn connect(net: &Arc<dyn Net>, addresses: &[SocketAddr]) -> io::Result<Stream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match net.connect(*address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
