//! The library's types, as this crate fills them in. Nothing outside of this crate sees one.

use std::fmt;

use bytes::Bytes;
use openraft::impls::leader_id_std;

use crate::Member;
use crate::identity::LibraryId;
use crate::machine::Machine;
use crate::runtime::CoreRuntime;

openraft::declare_raft_types!(
    /// The library's parameters. Leader ids are the standard ones: a term has one leader at most, so that (term, offset) names one entry.
    pub(crate) Library:
        D = Proposal,
        R = (),
        NodeId = Member,
        Node = (),
        Term = u64,
        LeaderId = leader_id_std::LeaderId<u64, Member>,
        AsyncRuntime = CoreRuntime,
);

/// The bytes of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proposal(pub(crate) Bytes);

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

pub(crate) type LeaderId = leader_id_std::LeaderId<u64, Member>;
pub(crate) type Vote = openraft::Vote<LeaderId>;
pub(crate) type Payload = openraft::EntryPayload<Proposal, Member, ()>;
pub(crate) type LibraryEntry = openraft::Entry<CommittedLeaderId, Payload>;
pub(crate) type Members = openraft::Membership<Member, ()>;
pub(crate) type CommittedLeaderId = openraft::vote::leader_id_std::CommittedLeaderId<u64>;
pub(crate) type StoredMembers = openraft::StoredMembership<CommittedLeaderId, Member, ()>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId, Member, ()>;
pub(crate) type Snapshot = openraft::Snapshot<CommittedLeaderId, Member, (), Bytes>;
pub(crate) type Raft = openraft::Raft<Library, Machine>;

/// An entry's identity of its parts.
pub(crate) fn library_id(term: u64, index: u64) -> LibraryId {
    LibraryId {
        leader_id: CommittedLeaderId { term },
        index,
    }
}
