//! Messages there and back, and bytes that are none.

use std::collections::{BTreeMap, BTreeSet};

use platform::random::SeededRandom;
use record::DirectoryId;

use super::*;
use crate::Member;
use crate::library::{LibraryEntry, Members, Payload, Proposal, StoredMembers, library_id};

fn member(node: i32) -> Member {
    Member {
        node,
        directory: DirectoryId([node as u8; 16]),
    }
}

fn members() -> Members {
    let voters = vec![
        BTreeSet::from([member(1), member(2)]),
        BTreeSet::from([member(2)]),
    ];
    let all = BTreeMap::from([(member(1), ()), (member(2), ()), (member(3), ())]);
    Members::new(voters, all).expect("voters are members")
}

fn entry(term: u64, index: u64, payload: Payload) -> LibraryEntry {
    LibraryEntry {
        log_id: library_id(term, index),
        payload,
    }
}

fn all() -> Vec<Message> {
    let vote = Vote::new_committed(4, member(2));
    let id = library_id(3, 7);
    let entries = vec![
        entry(3, 8, Payload::Blank),
        entry(
            3,
            9,
            Payload::Normal(Proposal(Bytes::from_static(b"bytes of an entry"))),
        ),
        entry(4, 10, Payload::Membership(members())),
    ];
    let meta = SnapshotMeta {
        last_log_id: Some(id),
        last_membership: StoredMembers::new(Some(id), members()),
    };
    let verdict = || VoteResponse::new(vote, Some(id), true);
    let requests = [
        Request::Append(AppendEntriesRequest {
            vote,
            prev_log_id: Some(id),
            entries,
            leader_commit: None,
        }),
        Request::Vote(VoteRequest::new(vote, Some(id))),
        Request::PreVote(VoteRequest::new(vote, None)),
        Request::Piece(Piece {
            vote,
            meta,
            snapshot_bytes: 100,
            begin: 90,
            bytes: Bytes::from_static(b"the end..."),
        }),
        Request::Transfer(TransferLeaderRequest::new(vote, member(1), Some(id))),
    ];
    let answers = [
        Answer::Append(AppendEntriesResponse::Success),
        Answer::Append(AppendEntriesResponse::PartialSuccess(Some(id))),
        Answer::Append(AppendEntriesResponse::Conflict),
        Answer::Append(AppendEntriesResponse::HigherVote(vote)),
        Answer::Vote(verdict()),
        Answer::PreVote(verdict()),
        Answer::Restart,
        Answer::More,
        Answer::Installed(vote),
        Answer::Transferred(true),
        Answer::Stopped,
    ];
    let bodies = requests
        .map(Body::Request)
        .into_iter()
        .chain(answers.map(Body::Answer));
    bodies
        .zip(1..)
        .map(|(body, call)| Message { call, body })
        .collect()
}

#[test]
fn every_message_comes_back_as_it_was() {
    for message in all() {
        let bytes = message.encode();
        let read = Message::decode(bytes.clone()).expect("it was written here");
        assert_eq!(format!("{message:?}"), format!("{read:?}"));
        assert_eq!(read.encode(), bytes);
        summary(&bytes).expect("it is a message");
    }
}

#[test]
fn no_part_of_a_message_is_one() {
    for message in all() {
        let bytes = message.encode();
        for length in 0..bytes.len() {
            Message::decode(bytes.slice(..length)).expect_err("it ends early");
        }
        let longer = [&bytes[..], &[0]].concat();
        Message::decode(longer.into()).expect_err("something stands behind it");
    }
}

#[test]
fn changed_bytes_are_read_or_refused() {
    let mut random = SeededRandom::new(1);
    let messages: Vec<Vec<u8>> = all().iter().map(|message| message.encode().to_vec()).collect();
    for _ in 0..50_000 {
        let mut bytes = messages[random.below(messages.len() as u64) as usize].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        if let Ok(message) = Message::decode(Bytes::from(bytes)) {
            message.encode();
        }
    }
}

#[test]
fn claims_are_not_believed() {
    let too_long = Bytes::from(vec![VERSION; MESSAGE_BYTES_MAX + 1]);
    let refused = Message::decode(too_long).expect_err("it is too long");
    assert_eq!(refused, MessageError::TooLong(MESSAGE_BYTES_MAX + 1));
    let other = Message::decode(Bytes::from_static(&[2, 0])).expect_err("a version of later");
    assert_eq!(other, MessageError::UnknownVersion(2));
    let mut append = vec![VERSION];
    append.put_u64_le(1);
    append.put_u8(APPEND);
    put_vote(&mut append, &Vote::new_committed(1, member(1)));
    append.put_slice(&[0, 0]);
    append.put_u32_le(u32::MAX);
    let refused = Message::decode(append.into()).expect_err("there are not so many");
    assert!(matches!(refused, MessageError::Malformed(_)));
}
