//! What messages are about, for whoever watches the links: logs, metrics, tests. The group itself asks for none of it.

use bytes::Bytes;
use openraft::raft::AppendEntriesResponse;

use super::{Answer, Body, Message, MessageError, Request};
use crate::identity::{EntryId, Member};
use crate::library::Vote;

/// The gist of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The kind of the message.
    pub kind: &'static str,
    /// The term that its sender is in, where it says so.
    pub term: Option<u64>,
    /// How many entries it has.
    pub entries: usize,
    /// The last entry of it, or of its sender's log, where it says so.
    pub last: Option<EntryId>,
    /// Of an answer to somebody who stands for election, the verdict.
    pub verdict: Option<Verdict>,
}

/// A voter's answer to somebody who stands for election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// For whom the voter's vote of this term is.
    pub voted_for: Member,
    /// Whether it was given to who asked.
    pub is_granted: bool,
}

/// Says what a message is about.
///
/// # Errors
/// It is none.
pub fn summary(message: &Bytes) -> Result<Summary, MessageError> {
    let of = |kind, vote: Option<&Vote>| Summary {
        kind,
        term: vote.map(|vote| vote.leader_id.term),
        entries: 0,
        last: None,
        verdict: None,
    };
    Ok(match Message::decode(message.clone())?.body {
        Body::Request(Request::Append(append)) => Summary {
            entries: append.entries.len(),
            last: append.entries.last().map(|entry| EntryId::from(&entry.log_id)),
            ..of("append", Some(&append.vote))
        },
        Body::Request(Request::Vote(request)) => Summary {
            last: request.last_log_id.as_ref().map(EntryId::from),
            ..of("vote", Some(&request.vote))
        },
        // The term that it asks about is one that nobody is in yet.
        Body::Request(Request::PreVote(_)) => of("pre-vote", None),
        Body::Request(Request::Piece(piece)) => Summary {
            last: piece.meta.last_log_id.as_ref().map(EntryId::from),
            ..of("snapshot", Some(&piece.vote))
        },
        Body::Request(Request::Transfer(transfer)) => of("transfer", Some(transfer.from_leader())),
        Body::Answer(Answer::Append(AppendEntriesResponse::HigherVote(vote))) => {
            of("append refused", Some(&vote))
        }
        Body::Answer(Answer::Append(AppendEntriesResponse::Conflict)) => of("append conflicts", None),
        Body::Answer(Answer::Append(_)) => of("appended", None),
        Body::Answer(Answer::Vote(answer)) => Summary {
            verdict: Some(Verdict {
                voted_for: answer.vote.leader_id.voted_for,
                is_granted: answer.vote_granted,
            }),
            ..of("verdict", Some(&answer.vote))
        },
        Body::Answer(Answer::PreVote(_)) => of("pre-verdict", None),
        Body::Answer(Answer::Restart) => of("snapshot from the beginning", None),
        Body::Answer(Answer::More) => of("more of the snapshot", None),
        Body::Answer(Answer::Installed(vote)) => of("snapshot installed", Some(&vote)),
        Body::Answer(Answer::Transferred(_)) => of("transferred", None),
        Body::Answer(Answer::Stopped) => of("stopped", None),
    })
}
