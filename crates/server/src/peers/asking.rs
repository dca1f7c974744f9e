//! Requests of Kafka's protocol from one node to another, over the connection for the metadata: what a broker asks a broker.
//!
//! A request that is not answered, because the connection was lost or the other node is slow, is told as that after a while: whoever asks
//! asks again, and nothing here says whether it was carried out.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use kafka_wire::{
    AddPartitionsToTxnRequest, ApiKey, Decode, Encode, Reader, Request, RequestHeader,
    WriteTxnMarkersRequest, Writer, frame_request,
};
use platform::turns;
use protocol::leader::NodeId;
use protocol::peer::{Message, Numbered};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Purpose;
use crate::api;
use crate::core::Core;

/// The time for which an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Of a frame: its length. A message between nodes has its own.
const PREFIX_BYTES: usize = 4;
/// Requests of one API that wait for their answers, at most.
const WAITING_MAX: usize = 5_000;

/// Requests under way, on core 0.
#[derive(Default)]
pub(crate) struct Asked {
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    /// The number of those of each API: one that fills up leaves the others theirs.
    counts: RefCell<BTreeMap<i16, usize>>,
    next: Cell<u64>,
}

struct Waiting {
    api: i16,
    answer: oneshot::Sender<Bytes>,
}

impl Asked {
    fn begin(&self, api: ApiKey) -> Option<(u64, oneshot::Receiver<Bytes>)> {
        let (mut waiting, mut counts) = (self.waiting.borrow_mut(), self.counts.borrow_mut());
        let (api, count) = (api.code(), counts.entry(api.code()).or_default());
        if *count >= WAITING_MAX {
            return None;
        }
        *count += 1;
        let number = self.next.get();
        self.next.set(number + 1);
        let (answer, told) = oneshot::channel();
        waiting.insert(number, Waiting { api, answer });
        Some((number, told))
    }

    fn forget(&self, number: u64) -> Option<oneshot::Sender<Bytes>> {
        let Waiting { api, answer } = self.waiting.borrow_mut().remove(&number)?;
        let mut counts = self.counts.borrow_mut();
        *counts.get_mut(&api).expect("it was counted when it came") -= 1;
        Some(answer)
    }

    /// Takes an answer. One that nobody waits for any more is dropped.
    pub(super) fn handle_told(&self, told: Numbered) {
        let answer = self.forget(told.number);
        let _ = answer.map(|answer| answer.send(told.content));
    }
}

impl Core {
    /// Asks another node, and gives its answer; `None` if there was none.
    pub(crate) async fn ask_node<R>(&self, node: NodeId, request: R, version: i16) -> Option<R::Response>
    where
        R: Request,
        R::Response: Decode,
    {
        let content = encode_request(&request, version);
        let asked = self.facts.mailboxes.call(0, move |core| async move {
            let (number, told) = core.asked.begin(R::API_KEY)?;
            let ask = Message::Ask(Numbered { number, content });
            let is_sent = core.peers.send(Purpose::Metadata, node, &ask);
            let told = match is_sent {
                true => timeout(PATIENCE, told).await.ok().and_then(Result::ok),
                false => None,
            };
            core.asked.forget(number);
            told
        });
        let told = asked.await.ok().flatten()?;
        let mut reader = Reader::new(told);
        R::Response::decode(&mut reader, version).ok()
    }

    /// Answers another node's request, beside all else.
    pub(super) fn handle_ask(self: &Rc<Self>, node: NodeId, asked: Numbered) {
        let core = self.clone();
        turns::spawn_own(async move {
            let Numbered { number, content } = asked;
            match core.answer_node(content).await {
                Some(content) => {
                    let told = Message::Told(Numbered { number, content });
                    // Without a connection it asks again.
                    core.peers.send(Purpose::Metadata, node, &told);
                }
                None => tracing::warn!(
                    node = node.0,
                    "a node asks what this one does not know: is it of a later release?"
                ),
            }
        });
    }

    async fn answer_node(self: &Rc<Self>, content: Bytes) -> Option<Bytes> {
        let mut reader = Reader::new(content);
        let header = RequestHeader::decode(&mut reader).ok()?;
        let version = header.api_version;
        match header.api_key {
            ApiKey::AddPartitionsToTxn => {
                let request = AddPartitionsToTxnRequest::decode(&mut reader, version).ok()?;
                let response = api::add_partitions(self, request, version).await;
                Some(encode(&response, version))
            }
            ApiKey::WriteTxnMarkers => {
                let request = WriteTxnMarkersRequest::decode(&mut reader, version).ok()?;
                let response = api::write_markers(self, request).await;
                Some(encode(&response, version))
            }
            _ => None,
        }
    }
}

fn encode_request<R: Request>(request: &R, version: i16) -> Bytes {
    let frame = frame_request(&mut Writer::new(), version, 0, None, request);
    frame.joined().split_off(PREFIX_BYTES)
}

fn encode(message: &impl Encode, version: i16) -> Bytes {
    let mut writer = Writer::new();
    message.encode(&mut writer, version);
    writer.finish_frame().joined().split_off(PREFIX_BYTES)
}
