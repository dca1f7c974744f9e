//! One connection to another node, from its greeting to its end: reads and hands on, writes, gives signs of life and wants them.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use platform::net::{Detached, ReadHalf, Stream, WriteHalf};
use platform::turns;
use protocol::leader::NodeId;
use protocol::peer::{
    BatchesError, Decoder, Encoded, Heartbeat, Hello, Kind, Message, MessageError, Reason, Refused, Relay,
    ReplicaMessage, Way,
};
use protocol::replica::Prompt;
use record::{Offset, PartitionId};
use shard::{Letter, Linked};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::replicas::post_letters;
use super::{Link, Outgoing, Purpose};
use crate::controller::look_after;
use crate::core::Core;

/// The longest body of a message of another node.
pub(super) const BODY_BYTES_MAX: usize = 16 << 20;
/// Read at a time.
const READ_BYTES: usize = 64 << 10;
const HEARTBEAT: Duration = Duration::from_millis(100);
/// Messages that go out in one write have so many bytes at most, but for the last.
const TOGETHER_BYTES_MAX: usize = 32 << 10;
/// A message makes as much work as looking through so many bytes, besides its batches.
const MESSAGE_WORK_BYTES: usize = 16 << 10;
/// A byte of batches makes as much work as looking through so many.
const WORK_OF_A_BYTE: usize = 8;
/// Bytes of batches that may wait for room in a shard's journal.
const DEFERRED_BYTES_MAX: usize = 16 << 20;
/// A peer of which so long nothing is heard is taken for gone.
pub(super) const SILENCE: Duration = Duration::from_millis(700);

/// The reason for which a connection has ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error("the connection was lost: {0}")]
    Lost(#[from] io::Error),
    #[error("it was closed by the other node")]
    Closed,
    #[error("nothing was heard for too long")]
    Silent,
    #[error("{0}")]
    Message(#[from] MessageError),
    #[error("it was refused: {0}")]
    Refused(Refused),
    #[error("it is not admitted here: {0}")]
    NotAdmitted(Refused),
    #[error("it said something that it may not")]
    OutOfPlace,
    #[error("another connection took its place, or it was cut off for taking nothing")]
    Replaced,
    #[error("a batch of it cannot be taken: {0}")]
    Batches(#[from] BatchesError),
    #[error("the metadata has no address of it: it was started without --peer")]
    NoAddress,
    #[error("it sends more than the journal has room for; it begins anew")]
    Crowded,
}

/// A connection whose other end is known.
pub(super) struct Conversation {
    pub(super) stream: Stream,
    pub(super) decoder: Decoder,
    /// What has arrived and was not read.
    pub(super) received: BytesMut,
    pub(super) peer: Hello,
    /// Of the messages.
    pub(super) version: u16,
    pub(super) purpose: Purpose,
    /// The node with the higher id has dialed.
    pub(super) is_by_rule: bool,
}

impl Conversation {
    /// Makes it ready for another core.
    pub(super) fn detach(self) -> io::Result<Moved> {
        Ok(Moved {
            stream: self.stream.detach()?,
            decoder: self.decoder,
            received: self.received,
            peer: self.peer,
            version: self.version,
            purpose: self.purpose,
            is_by_rule: self.is_by_rule,
        })
    }
}

/// A conversation on its way to another core.
pub(super) struct Moved {
    stream: Detached,
    decoder: Decoder,
    received: BytesMut,
    peer: Hello,
    version: u16,
    purpose: Purpose,
    is_by_rule: bool,
}

impl Moved {
    /// Goes on with it on the core that calls.
    pub(super) fn attach(self) -> io::Result<Conversation> {
        Ok(Conversation {
            stream: self.stream.attach()?,
            decoder: self.decoder,
            received: self.received,
            peer: self.peer,
            version: self.version,
            purpose: self.purpose,
            is_by_rule: self.is_by_rule,
        })
    }
}

/// Serves a connection until it ends.
pub(super) async fn converse(core: &Rc<Core>, conversation: Conversation) -> Ended {
    let Conversation {
        stream,
        decoder,
        received,
        peer,
        version,
        purpose,
        is_by_rule,
    } = conversation;
    let node = peer.node;
    let Some((link, to_write)) = core.peers.take(purpose, (&peer, version), is_by_rule) else {
        return Ended::Replaced;
    };
    let (input, output) = stream.split();
    if purpose == Purpose::Metadata {
        // Before anything by which it could come to serve.
        core.tell_witness(&peer);
        core.tell_durable_to(node);
        core.peers.tell_http_to(node);
        core.compare_images(node, peer.image_offset);
        if peer.image_offset == Offset::ZERO {
            // It may know nobody else.
            core.tell_peers(node);
        }
    }
    core.handle_link(purpose, &peer, version).await;
    let reader = Reader { core, peer, purpose };
    let ended = tokio::select! {
        biased;
        () = link.end.notified() => Ended::Replaced,
        ended = reader.read(input, decoder, received) => ended,
        ended = write(&link, output, to_write) => ended,
        () = give_signs(core, purpose, node) => Ended::Closed,
    };
    if let Ended::Refused(refused) = &ended
        && refused.reason() == Reason::Incarnation
    {
        core.end_overtaken(refused);
    }
    if core.peers.forget(purpose, node, &link) {
        let was_closed = matches!(ended, Ended::Closed);
        core.handle_link_lost(purpose, node, was_closed).await;
    }
    ended
}

impl Core {
    async fn handle_link(&self, purpose: Purpose, peer: &Hello, version: u16) {
        match purpose {
            Purpose::Shard(shard) => {
                let shard = self.shard(shard.into());
                let linked = Linked {
                    start: peer.incarnation,
                    relays: version >= Kind::Relay.since(),
                };
                shard.handle_link(peer.node, linked).await;
            }
            Purpose::Metadata => {}
        }
    }

    async fn handle_link_lost(self: &Rc<Core>, purpose: Purpose, node: NodeId, was_closed: bool) {
        match purpose {
            Purpose::Shard(shard) => {
                let shard = self.shard(shard.into());
                shard.handle_link_lost(node, was_closed).await;
            }
            Purpose::Metadata => {
                self.presence().handle_link_lost(node);
                turns::spawn(look_after(self.clone(), node));
            }
        }
    }
}

/// The reading end of a connection.
struct Reader<'a> {
    core: &'a Rc<Core>,
    peer: Hello,
    purpose: Purpose,
}

impl Reader<'_> {
    async fn read(&self, mut input: ReadHalf, mut decoder: Decoder, mut received: BytesMut) -> Ended {
        loop {
            let message = next_message(&mut input, &mut decoder, &mut received, SILENCE).await;
            turns::spend(message.as_ref().map_or(0, work_of));
            if let Err(ended) = message.and_then(|message| self.hand_on(message)) {
                return ended;
            }
            if turns::is_spent() {
                yield_now().await;
            }
        }
    }

    fn hand_on(&self, message: Message) -> Result<(), Ended> {
        match (message, self.purpose) {
            (Message::Heartbeat(heartbeat), Purpose::Metadata) => {
                self.core.compare_images(self.peer.node, heartbeat.image_offset);
            }
            (Message::Beat(beat), Purpose::Shard(shard)) => {
                self.core.shard(shard.into()).handle_beat(self.peer.node, beat);
            }
            (Message::Refused(refused), _) => return Err(Ended::Refused(refused)),
            (Message::Group(message), Purpose::Metadata) => {
                let (node, directory) = (self.peer.node, self.peer.directory);
                self.core.handle_group_message(node, directory, message);
            }
            (Message::Proposal(entry), Purpose::Metadata) => {
                self.core.handle_proposal(self.peer.node, entry);
            }
            (Message::Peers(peers), Purpose::Metadata) => self.core.dial_told(peers),
            (Message::Http(address), Purpose::Metadata) => self.core.peers.note_http(self.peer.node, address),
            (Message::Durable(frames), Purpose::Metadata) => self.core.handle_durable(&self.peer, frames),
            (Message::Witnessed(frames), Purpose::Metadata) => self.core.handle_witnessed(&frames),
            (Message::Replica { partition, message }, Purpose::Shard(shard)) => {
                let shard = self.core.shard(shard.into());
                shard.deliver(self.peer.node, letter(partition, message, None)?);
                if shard.deferred_bytes() > DEFERRED_BYTES_MAX {
                    return Err(Ended::Crowded);
                }
            }
            (Message::Relay(relay), Purpose::Shard(shard)) => {
                let Relay {
                    way,
                    partition,
                    prompt,
                } = relay;
                let shard = self.core.shard(shard.into());
                let letter = letter(partition, ReplicaMessage::Prompt(prompt), Some(way))?;
                shard.deliver(self.peer.node, letter);
                // On its way before this node's own flush.
                post_letters(self.core, shard);
            }
            (Message::RangeWish(wish), Purpose::Shard(shard)) => {
                let shard = self.core.shard(shard.into());
                shard.handle_range_wish(self.peer.node, wish);
            }
            (Message::RangeAnswer(answer), Purpose::Shard(shard)) => {
                let shard = self.core.shard(shard.into());
                shard.handle_range_answer(self.peer.node, answer);
            }
            (Message::Committed(report), _) => self.core.hand_report(self.peer.node, report),
            (Message::Ordered(ordered), _) => self.core.hand_ordered(ordered),
            (Message::Ask(asked), Purpose::Metadata) => self.core.handle_ask(self.peer.node, asked),
            (Message::Told(told), Purpose::Metadata) => self.core.asked.handle_told(told),
            _ => return Err(Ended::OutOfPlace),
        }
        Ok(())
    }
}

/// The work that a message makes, as bytes that are looked through.
fn work_of(message: &Message) -> usize {
    let batches = match message {
        Message::Replica {
            message: ReplicaMessage::Prompt(Prompt::Append { batches, .. }),
            ..
        }
        | Message::Relay(Relay {
            prompt: Prompt::Append { batches, .. },
            ..
        }) => batches.len(),
        _ => 0,
    };
    // Small batches, of which each is checked and numbered, take the most.
    MESSAGE_WORK_BYTES + WORK_OF_A_BYTE * batches
}

/// A replica's message as its shard takes it.
fn letter(partition: PartitionId, message: ReplicaMessage, way: Option<Way>) -> Result<Letter, Ended> {
    let message = match message {
        ReplicaMessage::Sworn(sworn) => shard::Message::Sworn(sworn),
        ReplicaMessage::Prompt(prompt) => {
            let (prompt, batches) = prompt.read_facts()?;
            shard::Message::Prompt(prompt, vec![batches])
        }
    };
    Ok(Letter {
        way,
        ..Letter::new(partition, message)
    })
}

/// Waits for the next message, of which so long nothing may be missing.
pub(super) async fn next_message(
    input: &mut ReadHalf,
    decoder: &mut Decoder,
    received: &mut BytesMut,
    patience: Duration,
) -> Result<Message, Ended> {
    loop {
        if let Some(message) = decoder.next_message(received)? {
            return Ok(message);
        }
        let missing = decoder.wanted_bytes().saturating_sub(received.len());
        received.reserve(missing.clamp(READ_BYTES, BODY_BYTES_MAX));
        let read = timeout(patience, input.read_buf(received)).await;
        if read.map_err(|_| Ended::Silent)?? == 0 {
            return Err(Ended::Closed);
        }
    }
}

/// Writes what waits, small messages together.
async fn write(link: &Link, mut output: WriteHalf, mut to_write: mpsc::UnboundedReceiver<Outgoing>) -> Ended {
    let mut together = Vec::new();
    while let Some((first, _room)) = to_write.recv().await {
        let mut next = Some(first);
        let mut bytes = 0;
        let mut written = Ok(());
        while let Some(message) = next.take() {
            bytes += message.length_bytes();
            together.extend_from_slice(&message.head);
            match message.batches.len() {
                ..=TOGETHER_BYTES_MAX => together.extend_from_slice(&message.batches),
                _ => {
                    written = write_whole(&mut output, &mut together, &message.batches).await;
                    break;
                }
            }
            if together.len() < TOGETHER_BYTES_MAX {
                next = to_write.try_recv().ok().map(|(message, _room)| message);
            }
        }
        let flushed = match written {
            Ok(()) => write_whole(&mut output, &mut together, &[]).await,
            failed => failed,
        };
        if let Err(error) = flushed {
            return error.into();
        }
        let queued = link.queued_bytes.get();
        link.queued_bytes.set(queued - bytes);
        link.traffic.sent_bytes.add(bytes as u64);
    }
    Ended::Closed
}

async fn write_whole(output: &mut WriteHalf, together: &mut Vec<u8>, batches: &[u8]) -> io::Result<()> {
    output.write_all(together).await?;
    together.clear();
    output.write_all(batches).await?;
    output.flush().await
}

pub(super) async fn write_message(output: &mut WriteHalf, encoded: &Encoded) -> io::Result<()> {
    output.write_all(&encoded.head).await?;
    output.write_all(&encoded.batches).await?;
    output.flush().await
}

async fn give_signs(core: &Rc<Core>, purpose: Purpose, node: NodeId) {
    let mut ticks = interval(HEARTBEAT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let sign = match purpose {
            Purpose::Metadata => Message::Heartbeat(Heartbeat {
                image_offset: core.image_offset().unwrap_or(Offset::ZERO),
            }),
            Purpose::Shard(shard) => {
                let shard = core.shard(shard.into());
                // A beat must not overtake the letters before it.
                post_letters(core, shard);
                Message::Beat(shard.next_beat(node))
            }
        };
        if !core.peers.send(purpose, node, &sign) {
            return;
        }
    }
}
