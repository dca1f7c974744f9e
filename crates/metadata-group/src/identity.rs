//! The names of nodes, of entries and of the group itself.

use std::fmt;

use openraft::LogId;
use openraft::vote::leader_id_std::CommittedLeaderId;
use record::{ClusterId, Offset};

/// A node of the cluster, as its metadata knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub i32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of an entry: two entries with the same one are the same, on whatever node.
///
/// A committed entry's offset alone identifies it. Terms never fall from one offset to the next, and a term has one leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// The term of the leader that wrote it.
    pub term: u64,
    /// Its place in the log. Some places are the library's own: elections and changes of voters.
    pub offset: Offset,
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.offset)
    }
}

/// An entry's identity as the library has it.
pub(crate) type LibraryId = LogId<CommittedLeaderId<u64>>;

impl From<&LibraryId> for EntryId {
    fn from(id: &LibraryId) -> EntryId {
        let offset = i64::try_from(id.index).expect("a log of 2^63 entries is not written in a lifetime");
        EntryId {
            term: id.leader_id.term,
            offset: Offset(offset),
        }
    }
}

/// Whose group this is, and whose part of it. Every stored byte is checked against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupIdentity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node itself.
    pub node: NodeId,
}
