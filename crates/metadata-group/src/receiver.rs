//! Messages of other nodes: requests are given to the library, each in a task of its own, and answered; pieces of a snapshot are put together.
//!
//! Nobody can take much room here: so many requests of a node are under way at most, the others are dropped, as a link may drop them; and
//! one snapshot is put together at a time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use openraft::async_runtime::AsyncRuntime;

use crate::Member;
use crate::library::{Raft, Snapshot};
use crate::message::{Answer, Body, Message, MessageError, Piece, Request};
use crate::network::Calls;
use crate::runtime::CoreRuntime;

/// Requests of one node that are under way at a time.
const REQUESTS_MAX: usize = 32;
/// Nodes that are listened to. A group has far fewer members.
const SENDERS_MAX: usize = 1024;

/// See the module.
pub(crate) struct Receiver {
    raft: Raft,
    calls: Calls,
    under_way: RefCell<BTreeMap<Member, Rc<Cell<usize>>>>,
    arriving: RefCell<Option<Arriving>>,
}

/// A snapshot of which the first pieces have come.
struct Arriving {
    from: Member,
    first: Piece,
    bytes: Vec<u8>,
}

/// Gives a request's place free.
struct Taken(Rc<Cell<usize>>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Receiver {
    pub(crate) fn new(raft: Raft, calls: Calls) -> Rc<Receiver> {
        Rc::new(Receiver {
            raft,
            calls,
            under_way: RefCell::default(),
            arriving: RefCell::default(),
        })
    }

    pub(crate) fn receive(self: &Rc<Self>, from: Member, message: Bytes) -> Result<(), MessageError> {
        let Message { call, body } = Message::decode(message)?;
        match body {
            Body::Answer(answer) => self.calls.answered(from, call, answer),
            Body::Request(request) => {
                if let Some(taken) = self.take_place(from) {
                    let receiver = Rc::clone(self);
                    drop(CoreRuntime::spawn(async move {
                        let answer = receiver.answer(from, request).await;
                        receiver.calls.answer(from, call, answer);
                        drop(taken);
                    }));
                }
            }
        }
        Ok(())
    }

    fn take_place(&self, from: Member) -> Option<Taken> {
        let mut under_way = self.under_way.borrow_mut();
        if under_way.len() >= SENDERS_MAX && !under_way.contains_key(&from) {
            return None;
        }
        let count = under_way.entry(from).or_default();
        if count.get() >= REQUESTS_MAX {
            return None;
        }
        count.set(count.get() + 1);
        Some(Taken(Rc::clone(count)))
    }

    /// The library answers only when what it says is durable here.
    async fn answer(&self, from: Member, request: Request) -> Answer {
        let answer = match request {
            Request::Append(append) => self.raft.append_entries(append).await.ok().map(Answer::Append),
            Request::Vote(vote) => self.raft.vote(vote).await.ok().map(Answer::Vote),
            Request::PreVote(vote) => self.raft.pre_vote(vote).await.ok().map(Answer::PreVote),
            Request::Piece(piece) => self.take_piece(from, piece).await,
            Request::Transfer(transfer) => {
                let taken = self.raft.handle_transfer_leader(transfer).await.ok();
                taken.map(|taken| Answer::Transferred(taken.is_ok()))
            }
        };
        answer.unwrap_or(Answer::Stopped)
    }

    async fn take_piece(&self, from: Member, piece: Piece) -> Option<Answer> {
        let vote = piece.vote;
        let snapshot = match self.put_together(from, piece) {
            Ok(snapshot) => snapshot,
            Err(answer) => return Some(answer),
        };
        let installed = self.raft.install_full_snapshot(vote, snapshot).await.ok()?;
        Some(Answer::Installed(installed.vote))
    }

    /// Returns the snapshot when its last piece has come.
    fn put_together(&self, from: Member, piece: Piece) -> Result<Snapshot, Answer> {
        let mut arriving = self.arriving.borrow_mut();
        if piece.begin == 0 {
            *arriving = Some(Arriving {
                from,
                first: piece.clone(),
                bytes: Vec::new(),
            });
        }
        let Some(known) = arriving.as_mut().filter(|known| known.continues(from, &piece)) else {
            return Err(Answer::Restart);
        };
        known.bytes.extend_from_slice(&piece.bytes);
        if (known.bytes.len() as u64) < piece.snapshot_bytes {
            return Err(Answer::More);
        }
        let whole = arriving.take().expect("it was continued");
        Ok(Snapshot {
            meta: piece.meta,
            snapshot: whole.bytes.into(),
        })
    }
}

impl Arriving {
    fn continues(&self, from: Member, piece: &Piece) -> bool {
        self.from == from
            && self.first.vote == piece.vote
            && self.first.meta == piece.meta
            && self.first.snapshot_bytes == piece.snapshot_bytes
            && self.bytes.len() as u64 == piece.begin
    }
}
