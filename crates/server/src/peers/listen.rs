//! Lets other nodes in: greets each, admits it or says why not, lets new ones join.
//!
//! Whoever connects is a stranger until it is admitted. Few of them are heard at a time, each for a short while and a small message.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use platform::net::{Listener, Stream, WriteHalf};
use platform::turns;
use protocol::ApplyError;
use protocol::metadata::{Command, FeatureLevel, Metadata, PlanError};
use protocol::peer::{
    Admitted, Decoder, Hello, Join, Joined, Message, REFUSED_TEXT_BYTES_MAX, Reason, Refused, ShardPair,
    WIRE_VERSIONS, admit, in_one_line,
};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Purpose;
use super::link::{BODY_BYTES_MAX, Conversation, Ended, converse, next_message, write_message};
use crate::controller::ChangeError;
use crate::core::Core;

/// Strangers that are heard at a time.
const STRANGERS_MAX: usize = 64;
/// The longest that it takes to say who it is, and to be answered. A wish to join is decided meanwhile, which may take longer.
const GREETING: Duration = Duration::from_secs(5);
/// An id that another node was quicker to get is planned again so often.
const JOIN_ATTEMPTS: u32 = 5;
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
                    let greeted = greet(&core, stream).await;
                    drop(seat);
                    match greeted {
                        Ok(Some(conversation)) => hand_over(&core, conversation),
                        Ok(None) => {}
                        // Somebody looks whether this node is there.
                        Err(Ended::Closed) => {}
                        Err(error) => {
                            tracing::warn!(%address, %error, "a connection of another node was closed");
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

/// Hands a connection to the core that it is for.
fn hand_over(core: &Rc<Core>, conversation: Conversation) {
    let owner = match conversation.purpose {
        Purpose::Metadata => 0,
        Purpose::Shard(shard) => core.facts.core_of(shard.into()),
    };
    let moved = match conversation.detach() {
        Ok(moved) => moved,
        Err(error) => return tracing::warn!(%error, "a node's connection was lost while it was accepted"),
    };
    core.facts.mailboxes.send(owner, move |core| {
        let core = core.clone();
        turns::spawn(async move {
            let conversation = match moved.attach() {
                Ok(conversation) => conversation,
                Err(error) => {
                    return tracing::warn!(%error, "a node's connection was lost while it was accepted");
                }
            };
            let (node, purpose) = (conversation.peer.node.0, conversation.purpose);
            tracing::info!(node, %purpose, "a node has connected");
            let ended = converse(&core, conversation).await;
            tracing::info!(node, %purpose, %ended, "a node's connection has ended");
        });
    });
}

/// Hears who it is. `None`: it has its answer, and the connection is over.
async fn greet(core: &Rc<Core>, stream: Stream) -> Result<Option<Conversation>, Ended> {
    stream.set_nodelay()?;
    let (mut input, mut output) = stream.split();
    let mut decoder = Decoder::new(BODY_BYTES_MAX);
    let mut received = BytesMut::new();
    let first = next_message(&mut input, &mut decoder, &mut received, GREETING);
    let first = timeout(GREETING, first).await.unwrap_or(Err(Ended::Silent))?;
    let answer = match first {
        Message::Hello(hello) => match let_in(core, &hello) {
            Ok((admitted, purpose)) => {
                let own = core.own().hello(purpose.pair());
                write_in_time(&mut output, &Message::Hello(own)).await?;
                decoder.handle_admitted(admitted.version);
                return Ok(Some(Conversation {
                    stream: Stream::join(input, output),
                    decoder,
                    received,
                    peer: admitted.peer,
                    version: admitted.version,
                    purpose,
                    is_by_rule: admitted.peer.node > core.facts.node,
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
    write_in_time(&mut output, &answer).await?;
    Ok(None)
}

async fn write_in_time(output: &mut WriteHalf, message: &Message) -> Result<(), Ended> {
    let written = timeout(GREETING, write_message(output, &message.encode())).await;
    Ok(written.map_err(|_| Ended::Silent)??)
}

fn let_in(core: &Core, hello: &Hello) -> Result<(Admitted, Purpose), Refused> {
    let admitted = admit(&core.own(), core.known(hello).as_ref(), hello)?;
    if hello.pair != ShardPair::METADATA {
        return match hello.pair.from == hello.pair.to {
            true => Ok((admitted, Purpose::Shard(hello.pair.to))),
            false => {
                let text = format!(
                    "shard {} of node {} wants to be connected with shard {} of node {}: their shards' numbers must be the same",
                    hello.pair.from, hello.node, hello.pair.to, core.facts.node
                );
                Err(Refused::new(Reason::Shards, text))
            }
        };
    }
    Ok((admitted, Purpose::Metadata))
}

/// Gives a new node its id.
async fn let_join(core: &Rc<Core>, join: Join) -> Result<Joined, Refused> {
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
    let (level, known) = (
        core.with_metadata(Metadata::level),
        FeatureLevel::of_wire_version(join.versions.highest),
    );
    if known < level {
        let text = format!(
            "the cluster has feature level {level}, and the release that wants to join knows levels up to {known}: use a newer one"
        );
        return Err(Refused::new(Reason::Joining, text));
    }
    let Join { wanted, home, .. } = join;
    if usize::from(home.shards) != core.facts.shards {
        let text = format!(
            "the cluster's nodes have {} shards, and this one would have {}: start it with --set cores={0}",
            core.facts.shards, home.shards,
        );
        return Err(Refused::new(Reason::Shards, text));
    }
    let cluster = core.facts.cluster;
    if core.image_offset().is_none() {
        let text = format!(
            "node {} is starting and does not know the cluster's nodes yet: try again",
            core.facts.node
        );
        return Err(Refused::new(Reason::Joining, text));
    }
    // Its answer may have been lost.
    if let Some(node) = core.with_metadata(|metadata| metadata.joined_as(home.directory)) {
        return Ok(Joined { cluster, node });
    }
    let refused = |why: &str| Refused::new(Reason::Joining, in_one_line(why, REFUSED_TEXT_BYTES_MAX));
    let mut attempts = JOIN_ATTEMPTS;
    loop {
        let home = home.clone();
        let changed = core
            .change(move |metadata| metadata.plan_join(wanted, &home))
            .await;
        match changed {
            Ok(Ok(Command::JoinNode { node, .. })) => {
                tracing::info!(node = node.0, "a node has joined");
                return Ok(Joined { cluster, node });
            }
            Ok(Ok(_)) => unreachable!("a join was planned"),
            // Another member may have given the id to another node meanwhile.
            Ok(Err(ChangeError::Plan(PlanError::Refused(ApplyError::NodeExists { .. }))))
                if wanted.is_none() && attempts > 1 =>
            {
                attempts -= 1;
            }
            Ok(Err(error)) => return Err(refused(&error.to_string())),
            Err(stopping) => return Err(refused(&stopping.to_string())),
        }
    }
}
