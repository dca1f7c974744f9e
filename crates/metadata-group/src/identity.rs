//! The names of members, of entries and of the group itself.

use std::fmt;

use openraft::LogId;
use openraft::vote::leader_id_std::CommittedLeaderId;
use record::{ClusterId, DirectoryId, Offset};

/// A member of the group: a node with one directory. An empty disk makes another member of the node.
///
/// A member that has lost what it kept must never come back under its name. It would vote twice in a term; and as it hears the log anew from
/// its beginning, it would come by sets of voters of long ago, in which it may have been alone, and elect itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The node, as the cluster's metadata knows it.
    pub node: i32,
    /// The directory that it keeps its part in, drawn when that was made.
    pub directory: DirectoryId,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.directory.0;
        write!(f, "{} ({a:02x}{b:02x}{c:02x}{d:02x})", self.node)
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
    /// The member itself.
    pub own: Member,
}
