//! Lets other nodes in: greets each, admits it or says why not, lets new ones join.
//!
//! Whoever connects is a stranger until it is admitted. Few of them are heard at a time, each for a short while and a small message.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use platform::net::{Listener, Stream};
use platform::turns;
use protocol::metadata::Command;
use protocol::peer::{
    Admitted, Decoder, Hello, Join, Joined, Message, Reason, Refused, ShardPair, WIRE_VERSIONS, admit,
};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::METADATA_PAIR;
use super::link::{BODY_BYTES_MAX, Conversation, Ended, converse, next_message, write_message};
use crate::core::Core;

/// Strangers that are heard at a time.
const STRANGERS_MAX: usize = 64;
/// The longest that one is heard.
const GREETING: Duration = Duration::from_secs(5);
/// A rest when the system has no descriptor left, so that the loop does not spin.
const OUT_OF_DESCRIPTORS_REST: Duration = Duration::from_millis(100);

/// Accepts until the node drains.
pub(crate) async fn let_peers_in(core: Rc<Core>, listener: Listener) {
    let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            () = core.until_draining() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let Ok(seat) = strangers.clone().try_acquire_owned() else {
                    tracing::warn!(%address, "too many connections have not said who they are: one more was closed");
                    continue;
                };
                let core = core.clone();
                turns::spawn(async move {
                    let greeted = timeout(GREETING, greet(&core, stream)).await;
                    drop(seat);
                    match greeted {
                        Ok(Ok(Some(conversation))) => {
                            let node = conversation.peer.node.0;
                            tracing::info!(node, %address, "a node has connected");
                            let ended = converse(&core, conversation).await;
                            tracing::info!(node, %ended, "a node's connection has ended");
                        }
                        Ok(Ok(None)) => {}
                        Ok(Err(error)) => {
                            tracing::warn!(%address, %error, "a connection of another node was closed")
                        }
                        Err(_) => {
                            tracing::warn!(%address, "a connection was closed: it did not say who it is")
                        }
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection of another node could not be accepted");
                tokio::time::sleep(OUT_OF_DESCRIPTORS_REST).await;
            }
        }
    }
}

/// Hears who it is. `None`: it has its answer, and the connection is over.
async fn greet(core: &Rc<Core>, stream: Stream) -> Result<Option<Conversation>, Ended> {
    stream.set_nodelay()?;
    let (mut input, mut output) = stream.split();
    let mut decoder = Decoder::new(BODY_BYTES_MAX);
    let mut received = BytesMut::new();
    let first = next_message(&mut input, &mut decoder, &mut received).await?;
    let answer = match first {
        Message::Hello(hello) => match let_in(core, &hello) {
            Ok(admitted) => {
                let pair = ShardPair {
                    from: hello.pair.to,
                    to: hello.pair.from,
                };
                let offset = core.image_offset().unwrap_or_default();
                let own = core.own(offset).hello(pair);
                write_message(&mut output, &Message::Hello(own).encode()).await?;
                decoder.handle_admitted();
                return Ok(Some(Conversation {
                    stream: Stream::join(input, output),
                    decoder,
                    received,
                    peer: admitted.peer,
                }));
            }
            Err(refused) => Message::Refused(refused),
        },
        Message::Join(join) => match let_join(core, join).await {
            Ok(joined) => Message::Joined(joined),
            Err(refused) => Message::Refused(refused),
        },
        _ => return Err(Ended::OutOfPlace),
    };
    if let Message::Refused(refused) = &answer {
        tracing::warn!(why = refused.text(), "a node was refused");
    }
    write_message(&mut output, &answer.encode()).await?;
    Ok(None)
}

fn let_in(core: &Core, hello: &Hello) -> Result<Admitted, Refused> {
    let offset = core.image_offset().unwrap_or_default();
    let admitted = admit(&core.own(offset), core.known(hello.node).as_ref(), hello)?;
    if hello.pair != METADATA_PAIR {
        let text = format!(
            "node {} wants shards to be connected, and only the metadata is: upgrade node {}",
            hello.node, core.facts.node
        );
        return Err(Refused::new(Reason::Shards, text));
    }
    refuse_follower(core)?;
    Ok(admitted)
}

/// Only the node that has the metadata's log can give it to others.
fn refuse_follower(core: &Core) -> Result<(), Refused> {
    match core.is_following() {
        true => {
            let text = format!(
                "node {} follows another node's metadata: connect to the node that founded the cluster (cluster.join)",
                core.facts.node
            );
            Err(Refused::new(Reason::Joining, text))
        }
        false => Ok(()),
    }
}

/// Gives a new node its id.
async fn let_join(core: &Rc<Core>, join: Join) -> Result<Joined, Refused> {
    refuse_follower(core)?;
    if WIRE_VERSIONS.newest_common(join.versions).is_none() {
        let text = format!(
            "node {} speaks versions {} to {} of the messages between nodes, and this one {} to {}: use the same release",
            core.facts.node,
            WIRE_VERSIONS.lowest,
            WIRE_VERSIONS.highest,
            join.versions.lowest,
            join.versions.highest,
        );
        return Err(Refused::new(Reason::Versions, text));
    }
    let Join { wanted, home, .. } = join;
    let changed = core
        .change(move |metadata| metadata.plan_join(wanted, &home))
        .await;
    let refused = |why: String| Refused::new(Reason::Joining, super::join::in_one_line(&why));
    match changed {
        Ok(Ok(Command::JoinNode { node, .. })) => {
            tracing::info!(node = node.0, "a node has joined");
            Ok(Joined {
                cluster: core.facts.cluster,
                node,
            })
        }
        Ok(Ok(_)) => unreachable!("a join was planned"),
        Ok(Err(error)) => Err(refused(error.to_string())),
        Err(stopping) => Err(refused(stopping.to_string())),
    }
}
