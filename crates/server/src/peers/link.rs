//! One connection to another node, from its greeting to its end: reads and hands on, writes, gives signs of life and wants them.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use platform::net::{ReadHalf, Stream, WriteHalf};
use protocol::leader::NodeId;
use protocol::peer::{Decoder, Encoded, Heartbeat, Hello, Message, MessageError};
use record::Offset;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Link;
use crate::core::Core;

/// The longest body of a message of another node.
pub(super) const BODY_BYTES_MAX: usize = 16 << 20;
/// Read at a time.
const READ_BYTES: usize = 64 << 10;
const HEARTBEAT: Duration = Duration::from_millis(100);
/// A peer of which so long nothing is heard is taken for gone.
const SILENCE: Duration = Duration::from_secs(3);

/// The reason for which a connection has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the connection was lost: {0}")]
    Lost(#[from] io::Error),
    #[error("it was closed by the other node")]
    Closed,
    #[error("nothing was heard for {} s", SILENCE.as_secs())]
    Silent,
    #[error("{0}")]
    Message(#[from] MessageError),
    #[error("the other node refuses this one: {0}")]
    Refused(String),
    #[error("it said something that it may not")]
    OutOfPlace,
    #[error("another connection took its place")]
    Replaced,
}

/// A connection whose other end is known.
pub(super) struct Conversation {
    pub(super) stream: Stream,
    pub(super) decoder: Decoder,
    /// What has arrived and was not read.
    pub(super) received: BytesMut,
    pub(super) peer: Hello,
}

/// Serves a connection until it ends.
pub(super) async fn converse(core: &Rc<Core>, conversation: Conversation) -> Ended {
    let Conversation {
        stream,
        decoder,
        received,
        peer,
    } = conversation;
    let node = peer.node;
    let (link, to_write) = core.peers.take(node);
    let (input, output) = stream.split();
    if let Some(following) = &core.following {
        following.handle_link(node);
    }
    let ended = tokio::select! {
        biased;
        () = link.end.notified() => Ended::Replaced,
        ended = read(core, node, input, decoder, received) => ended,
        ended = write(&link, output, to_write) => ended,
        () = give_signs(core, node) => Ended::Closed,
        () = core.feed(node, peer.image_offset) => Ended::Closed,
    };
    if core.peers.forget(node, &link)
        && let Some(following) = &core.following
    {
        following.handle_link_lost();
    }
    ended
}

async fn read(
    core: &Rc<Core>,
    node: NodeId,
    mut input: ReadHalf,
    mut decoder: Decoder,
    mut received: BytesMut,
) -> Ended {
    loop {
        match next_message(&mut input, &mut decoder, &mut received).await {
            Ok(message) => {
                if let Err(ended) = hand_on(core, node, message) {
                    return ended;
                }
            }
            Err(ended) => return ended,
        }
    }
}

/// Waits for the next message.
pub(super) async fn next_message(
    input: &mut ReadHalf,
    decoder: &mut Decoder,
    received: &mut BytesMut,
) -> Result<Message, Ended> {
    loop {
        if let Some(message) = decoder.next_message(received)? {
            return Ok(message);
        }
        let missing = decoder.wanted_bytes().saturating_sub(received.len());
        received.reserve(missing.clamp(READ_BYTES, BODY_BYTES_MAX));
        let read = timeout(SILENCE, input.read_buf(received)).await;
        match read.map_err(|_| Ended::Silent)?? {
            0 => return Err(Ended::Closed),
            _ => {}
        }
    }
}

fn hand_on(core: &Rc<Core>, node: NodeId, message: Message) -> Result<(), Ended> {
    match message {
        Message::Heartbeat(_) => {}
        Message::Refused(refused) => return Err(Ended::Refused(refused.text().to_owned())),
        Message::Entries(entries) => core.handle_entries(node, entries),
        Message::Proposal(proposal) => core.handle_proposal(node, proposal),
        Message::Decision(decision) => core.handle_decision(decision),
        Message::Hello(_) | Message::Join(_) | Message::Joined(_) | Message::Replica { .. } => {
            return Err(Ended::OutOfPlace);
        }
    }
    Ok(())
}

async fn write(link: &Link, mut output: WriteHalf, mut to_write: mpsc::UnboundedReceiver<Encoded>) -> Ended {
    while let Some(encoded) = to_write.recv().await {
        let written = write_message(&mut output, &encoded).await;
        if let Err(error) = written {
            return error.into();
        }
        let queued = link.queued_bytes.get();
        link.queued_bytes.set(queued - encoded.length_bytes());
    }
    Ended::Closed
}

pub(super) async fn write_message(output: &mut WriteHalf, encoded: &Encoded) -> io::Result<()> {
    output.write_all(&encoded.head).await?;
    output.write_all(&encoded.batches).await?;
    output.flush().await
}

async fn give_signs(core: &Rc<Core>, node: NodeId) {
    let mut ticks = interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let heartbeat = Heartbeat {
            image_offset: core.image_offset().unwrap_or(Offset::ZERO),
        };
        if !core.peers.send(node, &Message::Heartbeat(heartbeat)) {
            return;
        }
    }
}
