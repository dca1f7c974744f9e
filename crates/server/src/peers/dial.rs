//! Connects to the node that has the metadata's log, again and again.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use protocol::peer::{Admitted, Decoder, KnownNode, Message, admit};
use tokio::time::{sleep, timeout};

use super::METADATA_PAIR;
use super::link::{BODY_BYTES_MAX, Conversation, Ended, converse, next_message, write_message};
use crate::config::HostPort;
use crate::core::Core;

/// The longest that a connection and its greeting take.
const GREETING: Duration = Duration::from_secs(5);
/// Rests between attempts: twice as long after each that failed.
const REST_MIN: Duration = Duration::from_millis(50);
const REST_MAX: Duration = Duration::from_secs(1);

/// Keeps a connection to the controller, which is at one of the addresses to join, until the node drains.
pub(crate) async fn dial_controller(core: Rc<Core>) {
    let dialing = async {
        let (mut rest, mut failed) = (REST_MIN, None::<String>);
        loop {
            for address in &core.facts.config.cluster.join {
                let greeted = match timeout(GREETING, greet(&core, address)).await {
                    Ok(greeted) => greeted,
                    Err(_) => Err(Ended::Silent),
                };
                match greeted {
                    Ok(conversation) => {
                        (rest, failed) = (REST_MIN, None);
                        let node = conversation.peer.node.0;
                        tracing::info!(node, %address, "connected to a node");
                        let ended = converse(&core, conversation).await;
                        tracing::warn!(node, %ended, "the connection to a node has ended");
                    }
                    Err(error) => {
                        let error = error.to_string();
                        match failed.as_ref() == Some(&error) {
                            // It was said already.
                            true => tracing::debug!(%address, error, "no connection to a node"),
                            false => {
                                tracing::warn!(%address, error, "no connection to a node; it is tried again")
                            }
                        }
                        failed = Some(error);
                    }
                }
            }
            sleep(rest).await;
            rest = (2 * rest).min(REST_MAX);
        }
    };
    tokio::select! {
        biased;
        () = core.until_draining() => {}
        () = dialing => {}
    }
}

async fn greet(core: &Rc<Core>, address: &HostPort) -> Result<Conversation, Ended> {
    // Names are looked up on a thread of their own: it may take long.
    let address = address.clone();
    let resolved = core.facts.pool.run(move || resolved(&address)).await?;
    let stream = core.facts.net.connect(resolved).await?;
    stream.set_nodelay()?;
    let (mut input, mut output) = stream.split();
    let image_offset = core.image_offset();
    let own = core.own(image_offset.unwrap_or_default());
    write_message(&mut output, &Message::Hello(own.hello(METADATA_PAIR)).encode()).await?;
    let mut decoder = Decoder::new(BODY_BYTES_MAX);
    let mut received = BytesMut::new();
    let hello = match next_message(&mut input, &mut decoder, &mut received).await? {
        Message::Hello(hello) => hello,
        Message::Refused(refused) => return Err(Ended::Refused(refused.text().to_owned())),
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
    let Admitted { peer, .. } =
        admit(&own, known.as_ref(), &hello).map_err(|refused| Ended::Refused(refused.text().to_owned()))?;
    decoder.handle_admitted();
    Ok(Conversation {
        stream: platform::net::Stream::join(input, output),
        decoder,
        received,
        peer,
    })
}

/// The first address that a name has.
pub(super) fn resolved(address: &HostPort) -> io::Result<SocketAddr> {
    let mut addresses = std::net::ToSocketAddrs::to_socket_addrs(&(&*address.host, address.port))?;
    addresses
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}
