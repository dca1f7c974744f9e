//! Messages between the nodes of a group as bytes (docs/protocols/metadata-group.md).
//!
//! A request has a number that its answer repeats. Whatever bytes come, reading them ends with a message or an error, and takes no more
//! room than they have.

use bytes::{BufMut, Bytes};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};

use crate::codec::{
    Malformed, Reader, put_entry, put_id, put_member, put_optional, put_snapshot_meta, put_vote,
};
use crate::library::{Library, SnapshotMeta, Vote};
use crate::settings::ENTRIES_MAX;

pub use self::summary::{Summary, Verdict, summary};

mod summary;

/// The most bytes of one entry.
pub const ENTRY_BYTES_MAX: usize = 1 << 20;
/// The most bytes of one message.
pub const MESSAGE_BYTES_MAX: usize = 2 * ENTRY_BYTES_MAX;
/// The most bytes of a snapshot.
pub const SNAPSHOT_BYTES_MAX: u64 = 256 << 20;
/// The most bytes of a snapshot in one message.
pub(crate) const PIECE_BYTES_MAX: usize = 512 << 10;

const VERSION: u8 = 1;

/// Bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is longer than a message may be.
    #[error("a message of {0} bytes, of {MESSAGE_BYTES_MAX} at most")]
    TooLong(usize),
    /// The sender's build is newer, or it is no message at all.
    #[error("a message of version {0}; this node knows {VERSION}")]
    UnknownVersion(u8),
    /// It contradicts itself.
    #[error("a malformed message: {0}")]
    Malformed(&'static str),
}

impl From<Malformed> for MessageError {
    fn from(error: Malformed) -> MessageError {
        MessageError::Malformed(error.0)
    }
}

/// A request or an answer, with the number that belongs to both.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) call: u64,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    Request(Request),
    Answer(Answer),
}

#[derive(Debug)]
pub(crate) enum Request {
    Append(AppendEntriesRequest<Library>),
    Vote(VoteRequest<Library>),
    PreVote(VoteRequest<Library>),
    Piece(Piece),
    Transfer(TransferLeaderRequest<Library>),
}

/// A part of a snapshot. Those before it were sent before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) vote: Vote,
    pub(crate) meta: SnapshotMeta,
    pub(crate) snapshot_bytes: u64,
    /// Where in the snapshot it begins.
    pub(crate) begin: u64,
    pub(crate) bytes: Bytes,
}

#[derive(Debug)]
pub(crate) enum Answer {
    Append(AppendEntriesResponse<Library>),
    Vote(VoteResponse<Library>),
    /// The vote that there would be; none was given.
    PreVote(VoteResponse<Library>),
    /// Pieces are missing before the one that came, or others came between: from the beginning, please.
    Restart,
    /// The piece is taken; more are wanted.
    More,
    /// The snapshot is whole, and installed unless the vote is a greater one.
    Installed(Vote),
    /// Whether a leader's office was taken over.
    Transferred(bool),
    /// The node can answer nothing any more.
    Stopped,
}

const APPEND: u8 = 1;
const VOTE: u8 = 2;
const PRE_VOTE: u8 = 3;
const PIECE: u8 = 4;
const TRANSFER: u8 = 5;
const APPEND_ANSWER: u8 = 129;
const VOTE_ANSWER: u8 = 130;
const PRE_VOTE_ANSWER: u8 = 131;
const RESTART: u8 = 132;
const MORE: u8 = 133;
const INSTALLED: u8 = 134;
const TRANSFERRED: u8 = 135;
const STOPPED: u8 = 136;

const SUCCESS: u8 = 0;
const PARTIAL: u8 = 1;
const CONFLICT: u8 = 2;
const HIGHER_VOTE: u8 = 3;

impl Message {
    pub(crate) fn encode(&self) -> Bytes {
        let mut to = Vec::with_capacity(64);
        to.put_u8(VERSION);
        to.put_u64_le(self.call);
        match &self.body {
            Body::Request(request) => put_request(&mut to, request),
            Body::Answer(answer) => put_answer(&mut to, answer),
        }
        assert!(to.len() <= MESSAGE_BYTES_MAX, "messages are made short enough");
        to.into()
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Message, MessageError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong(bytes.len()));
        }
        let mut from = Reader::new(bytes);
        let version = from.u8()?;
        if version != VERSION {
            return Err(MessageError::UnknownVersion(version));
        }
        let call = from.u64()?;
        let body = body(&mut from)?;
        from.end()?;
        Ok(Message { call, body })
    }
}

fn put_request(to: &mut Vec<u8>, request: &Request) {
    match request {
        Request::Append(append) => {
            to.put_u8(APPEND);
            put_vote(to, &append.vote);
            put_optional(to, append.prev_log_id.as_ref(), put_id);
            put_optional(to, append.leader_commit.as_ref(), put_id);
            let count = u32::try_from(append.entries.len()).expect("entries are far fewer");
            to.put_u32_le(count);
            append.entries.iter().for_each(|entry| put_entry(to, entry));
        }
        Request::Vote(vote) => put_vote_request(to, VOTE, vote),
        Request::PreVote(vote) => put_vote_request(to, PRE_VOTE, vote),
        Request::Piece(piece) => {
            to.put_u8(PIECE);
            put_vote(to, &piece.vote);
            put_snapshot_meta(to, &piece.meta);
            to.put_u64_le(piece.snapshot_bytes);
            to.put_u64_le(piece.begin);
            let length = u32::try_from(piece.bytes.len()).expect("a piece is far shorter");
            to.put_u32_le(length);
            to.put_slice(&piece.bytes);
        }
        Request::Transfer(transfer) => {
            to.put_u8(TRANSFER);
            put_vote(to, transfer.from_leader());
            put_member(to, transfer.to_node_id());
            put_optional(to, transfer.last_log_id(), put_id);
        }
    }
}

fn put_vote_request(to: &mut Vec<u8>, kind: u8, request: &VoteRequest<Library>) {
    to.put_u8(kind);
    put_vote(to, &request.vote);
    put_optional(to, request.last_log_id.as_ref(), put_id);
    to.put_u8(u8::from(request.leadership_transfer));
}

fn put_answer(to: &mut Vec<u8>, answer: &Answer) {
    match answer {
        Answer::Append(append) => {
            to.put_u8(APPEND_ANSWER);
            match append {
                AppendEntriesResponse::Success => to.put_u8(SUCCESS),
                AppendEntriesResponse::PartialSuccess(last) => {
                    to.put_u8(PARTIAL);
                    put_optional(to, last.as_ref(), put_id);
                }
                AppendEntriesResponse::Conflict => to.put_u8(CONFLICT),
                AppendEntriesResponse::HigherVote(vote) => {
                    to.put_u8(HIGHER_VOTE);
                    put_vote(to, vote);
                }
            }
        }
        Answer::Vote(vote) => put_vote_answer(to, VOTE_ANSWER, vote),
        Answer::PreVote(vote) => put_vote_answer(to, PRE_VOTE_ANSWER, vote),
        Answer::Restart => to.put_u8(RESTART),
        Answer::More => to.put_u8(MORE),
        Answer::Installed(vote) => {
            to.put_u8(INSTALLED);
            put_vote(to, vote);
        }
        Answer::Transferred(is_taken) => {
            to.put_u8(TRANSFERRED);
            to.put_u8(u8::from(*is_taken));
        }
        Answer::Stopped => to.put_u8(STOPPED),
    }
}

fn put_vote_answer(to: &mut Vec<u8>, kind: u8, answer: &VoteResponse<Library>) {
    to.put_u8(kind);
    put_vote(to, &answer.vote);
    to.put_u8(u8::from(answer.vote_granted));
    put_optional(to, answer.last_log_id.as_ref(), put_id);
}

fn body(from: &mut Reader) -> Result<Body, MessageError> {
    Ok(match from.u8()? {
        APPEND => Body::Request(Request::Append(append(from)?)),
        VOTE => Body::Request(Request::Vote(vote_request(from)?)),
        PRE_VOTE => Body::Request(Request::PreVote(vote_request(from)?)),
        PIECE => Body::Request(Request::Piece(piece(from)?)),
        TRANSFER => Body::Request(Request::Transfer(TransferLeaderRequest::new(
            from.vote()?,
            from.member()?,
            from.optional(Reader::id)?,
        ))),
        APPEND_ANSWER => Body::Answer(Answer::Append(append_answer(from)?)),
        VOTE_ANSWER => Body::Answer(Answer::Vote(vote_answer(from)?)),
        PRE_VOTE_ANSWER => Body::Answer(Answer::PreVote(vote_answer(from)?)),
        RESTART => Body::Answer(Answer::Restart),
        MORE => Body::Answer(Answer::More),
        INSTALLED => Body::Answer(Answer::Installed(from.vote()?)),
        TRANSFERRED => Body::Answer(Answer::Transferred(from.flag()?)),
        STOPPED => Body::Answer(Answer::Stopped),
        _ => return Err(MessageError::Malformed("a kind that is not known here")),
    })
}

fn append(from: &mut Reader) -> Result<AppendEntriesRequest<Library>, Malformed> {
    let vote = from.vote()?;
    let prev_log_id = from.optional(Reader::id)?;
    let leader_commit = from.optional(Reader::id)?;
    let count = u64::from(from.u32()?);
    if count > ENTRIES_MAX {
        return Err(Malformed("more entries than a message may have"));
    }
    let mut entries = Vec::new();
    let mut next = prev_log_id.as_ref().map_or(0, |id| id.index + 1);
    let mut term = prev_log_id.as_ref().map_or(0, |id| id.leader_id.term);
    for _ in 0..count {
        let entry = from.entry()?;
        // The library counts on both, and a debug build of it ends if they do not hold.
        if entry.log_id.index != next {
            return Err(Malformed("entries do not follow each other"));
        }
        if entry.log_id.leader_id.term < term || entry.log_id.leader_id.term > vote.leader_id.term {
            return Err(Malformed("an entry's term is not between those around it"));
        }
        (next, term) = (next + 1, entry.log_id.leader_id.term);
        entries.push(entry);
    }
    if !vote.committed {
        return Err(Malformed("entries of a node that is no leader"));
    }
    Ok(AppendEntriesRequest {
        vote,
        prev_log_id,
        entries,
        leader_commit,
    })
}

fn vote_request(from: &mut Reader) -> Result<VoteRequest<Library>, Malformed> {
    let mut request = VoteRequest::new(from.vote()?, from.optional(Reader::id)?);
    request.leadership_transfer = from.flag()?;
    Ok(request)
}

fn vote_answer(from: &mut Reader) -> Result<VoteResponse<Library>, Malformed> {
    let (vote, vote_granted) = (from.vote()?, from.flag()?);
    Ok(VoteResponse {
        vote,
        vote_granted,
        last_log_id: from.optional(Reader::id)?,
    })
}

fn piece(from: &mut Reader) -> Result<Piece, Malformed> {
    let (vote, meta) = (from.vote()?, from.snapshot_meta()?);
    let (snapshot_bytes, begin) = (from.u64()?, from.u64()?);
    let length = from.u32()? as usize;
    let bytes = from.take(length)?;
    let end = begin.checked_add(bytes.len() as u64);
    if snapshot_bytes > SNAPSHOT_BYTES_MAX || end.is_none_or(|end| end > snapshot_bytes) {
        return Err(Malformed(
            "a piece lies outside of its snapshot, or that is too long",
        ));
    }
    let last = meta.last_log_id.as_ref().map(|id| id.leader_id.term);
    if !vote.committed || last > Some(vote.leader_id.term) {
        return Err(Malformed("a snapshot of a node that cannot be its leader"));
    }
    Ok(Piece {
        vote,
        meta,
        snapshot_bytes,
        begin,
        bytes,
    })
}

fn append_answer(from: &mut Reader) -> Result<AppendEntriesResponse<Library>, Malformed> {
    Ok(match from.u8()? {
        SUCCESS => AppendEntriesResponse::Success,
        PARTIAL => AppendEntriesResponse::PartialSuccess(from.optional(Reader::id)?),
        CONFLICT => AppendEntriesResponse::Conflict,
        HIGHER_VOTE => AppendEntriesResponse::HigherVote(from.vote()?),
        _ => return Err(Malformed("an answer of a kind that is not known here")),
    })
}

#[cfg(test)]
mod tests;
