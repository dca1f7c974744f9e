//! The library's calls to other nodes, as messages out and back. A call whose answer does not come in its time has failed, and its answer
//! counts no more.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use tokio::sync::oneshot;

use crate::Member;
use crate::library::{Library, Snapshot, Vote};
use crate::message::{Answer, Body, Message, PIECE_BYTES_MAX, Piece, Request};

/// Carries messages to other nodes.
///
/// It may lose, delay, duplicate and reorder them; it must not change them, nor give those of one node for another's.
pub trait Transport {
    /// Sends a message, of [`MESSAGE_BYTES_MAX`](crate::MESSAGE_BYTES_MAX) at most, or gives it up at once; never waits.
    /// The receiver hands it to [`Group::receive`](crate::Group::receive).
    fn send(&self, to: Member, message: Bytes);
}

type Rpc<T> = Result<T, RPCError<Library>>;

/// The calls of one node. Clones are the same.
#[derive(Clone)]
pub(crate) struct Calls(Rc<Inner>);

struct Inner {
    own: Member,
    transport: Rc<dyn Transport>,
    open: RefCell<Open>,
}

struct Open {
    /// Drawn at the start, so that an answer to a call of an earlier start is none to a call of this one.
    next: u64,
    waiting: BTreeMap<u64, (Member, oneshot::Sender<Answer>)>,
}

/// Forgets a call whose caller has gone.
struct Waiting<'a>(&'a Inner, u64);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.open.borrow_mut().waiting.remove(&self.1);
    }
}

impl Calls {
    pub(crate) fn new(own: Member, transport: Rc<dyn Transport>, first: u64) -> Calls {
        Calls(Rc::new(Inner {
            own,
            transport,
            open: RefCell::new(Open {
                next: first,
                waiting: BTreeMap::new(),
            }),
        }))
    }

    /// Sends an answer.
    pub(crate) fn answer(&self, to: Member, call: u64, answer: Answer) {
        let body = Body::Answer(answer);
        self.0.transport.send(to, Message { call, body }.encode());
    }

    /// Takes an answer in. One that nobody waits for is dropped.
    pub(crate) fn answered(&self, from: Member, call: u64, answer: Answer) {
        let mut open = self.0.open.borrow_mut();
        // Only who was asked may answer.
        if open.waiting.get(&call).is_some_and(|(asked, _)| *asked == from)
            && let Some((_, caller)) = open.waiting.remove(&call)
        {
            let _ = caller.send(answer);
        }
    }

    /// `None` if there was no answer in time.
    async fn call(&self, to: Member, request: Request, timeout: Duration) -> Option<Answer> {
        let (caller, answer) = oneshot::channel();
        let call = {
            let mut open = self.0.open.borrow_mut();
            let call = open.next;
            open.next = call.wrapping_add(1);
            open.waiting.insert(call, (to, caller));
            call
        };
        let _waiting = Waiting(&self.0, call);
        let body = Body::Request(request);
        self.0.transport.send(to, Message { call, body }.encode());
        tokio::time::timeout(timeout, answer).await.ok()?.ok()
    }
}

impl RaftNetworkFactory<Library> for Calls {
    type Network = Peer;

    async fn new_client(&mut self, target: Member, _node: &()) -> Peer {
        Peer {
            calls: self.clone(),
            target,
        }
    }
}

/// One other node.
pub(crate) struct Peer {
    calls: Calls,
    target: Member,
}

impl Peer {
    async fn ask(&self, action: RPCTypes, request: Request, timeout: Duration) -> Rpc<Answer> {
        match self.calls.call(self.target, request, timeout).await {
            Some(Answer::Stopped) => Err(Unreachable::from_string("the node's group has stopped").into()),
            Some(answer) => Ok(answer),
            None => Err(RPCError::Timeout(Timeout {
                action,
                id: self.calls.0.own,
                target: self.target,
                timeout,
            })),
        }
    }

    /// Sends a snapshot piece by piece.
    async fn send_snapshot(&self, vote: Vote, snapshot: &Snapshot, timeout: Duration) -> Rpc<Vote> {
        let bytes = &snapshot.snapshot;
        let mut begin = 0;
        loop {
            let end = (begin + PIECE_BYTES_MAX).min(bytes.len());
            let piece = Piece {
                vote,
                meta: snapshot.meta.clone(),
                snapshot_bytes: bytes.len() as u64,
                begin: begin as u64,
                bytes: bytes.slice(begin..end),
            };
            let answer = self
                .ask(RPCTypes::InstallSnapshot, Request::Piece(piece), timeout)
                .await?;
            match answer {
                Answer::Installed(vote) => return Ok(vote),
                Answer::More if end < bytes.len() => begin = end,
                Answer::More | Answer::Restart => {
                    return Err(NetworkError::from_string("the snapshot is to be sent anew").into());
                }
                _ => return Err(mismatch()),
            }
        }
    }
}

fn mismatch() -> RPCError<Library> {
    NetworkError::from_string("the answer is one to another question").into()
}

impl RaftNetworkV2<Library> for Peer {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Library>,
        option: RPCOption,
    ) -> Rpc<AppendEntriesResponse<Library>> {
        let request = Request::Append(request);
        match self
            .ask(RPCTypes::AppendEntries, request, option.hard_ttl())
            .await?
        {
            Answer::Append(answer) => Ok(answer),
            _ => Err(mismatch()),
        }
    }

    async fn vote(&mut self, request: VoteRequest<Library>, option: RPCOption) -> Rpc<VoteResponse<Library>> {
        let request = Request::Vote(request);
        match self.ask(RPCTypes::Vote, request, option.hard_ttl()).await? {
            Answer::Vote(answer) => Ok(answer),
            _ => Err(mismatch()),
        }
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Library>,
        option: RPCOption,
    ) -> Rpc<VoteResponse<Library>> {
        let request = Request::PreVote(request);
        match self.ask(RPCTypes::Vote, request, option.hard_ttl()).await? {
            Answer::PreVote(answer) => Ok(answer),
            _ => Err(mismatch()),
        }
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Library>, StreamingError<Library>> {
        tokio::select! {
            biased;
            closed = cancel => Err(closed.into()),
            sent = self.send_snapshot(vote, &snapshot, option.hard_ttl()) => Ok(SnapshotResponse::new(sent?)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Library>,
        option: RPCOption,
    ) -> Rpc<TransferLeaderResponse<Library>> {
        let request = Request::Transfer(request);
        match self
            .ask(RPCTypes::TransferLeader, request, option.hard_ttl())
            .await?
        {
            Answer::Transferred(true) => Ok(Ok(())),
            Answer::Transferred(false) => Err(NetworkError::from_string("the office was refused").into()),
            _ => Err(mismatch()),
        }
    }
}
