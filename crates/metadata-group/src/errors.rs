//! The ways in which a call of a group can fail, each for the one who called.

use openraft::errors::{ClientWriteError, Fatal, ForwardToLeader, RaftError};

use crate::library::Library;
use crate::store::StoreError;
use crate::{ENTRY_BYTES_MAX, Member, SettingsError};

/// A group cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its settings are no good.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// What it keeps cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The library refuses what is kept, or the image its snapshot.
    #[error("the metadata group cannot start: {0}")]
    Refused(String),
}

/// A group cannot be founded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoundError {
    /// The node is in a group, or has been.
    #[error("this node has a metadata group already")]
    IsFounded,
    /// The group has stopped.
    #[error("the metadata group has stopped on this node: {0}")]
    Stopped(String),
}

/// A proposal was not committed, or nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// The entry is longer than one may be. It is in no log.
    #[error("an entry of {0} bytes, of {ENTRY_BYTES_MAX} at most")]
    TooLong(usize),
    /// Too many proposals are under way. It is in no log; try again.
    #[error("too many proposals are under way")]
    Busy,
    /// Another node leads, or none is known to, or this one leads and has no majority behind it yet, or any more. It is in no log; ask the
    /// leader, or try again.
    #[error("the metadata group is led by {}", leader_text(.leader))]
    NotLeader {
        /// Who leads, if that is known.
        leader: Option<Member>,
    },
    /// This node has lost its office meanwhile. The entry may be committed, now or later, or never.
    #[error("the fate of the entry is not known; the metadata group is led by {}", leader_text(.leader))]
    FateUnknown {
        /// Who leads, if that is known.
        leader: Option<Member>,
    },
    /// The group has stopped on this node. The entry may be committed, now or later, or never.
    #[error("the metadata group has stopped on this node: {0}")]
    Stopped(String),
}

/// Voters or learners were not changed, or nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// Another change is under way. Nothing was changed; try again.
    #[error("another change of the metadata group's members is under way")]
    IsChanging,
    /// Another node leads, or none is known to. Nothing was changed; ask the leader.
    #[error("the metadata group is led by {}", leader_text(.leader))]
    NotLeader {
        /// Who leads, if that is known.
        leader: Option<Member>,
    },
    /// The change makes no sense now.
    #[error("the metadata group's members cannot change so: {0}")]
    Refused(String),
    /// This node has lost its office meanwhile. The change may have been made, wholly or in part: look at the status of the leader.
    #[error("the fate of the change is not known; the metadata group is led by {}", leader_text(.leader))]
    FateUnknown {
        /// Who leads, if that is known.
        leader: Option<Member>,
    },
    /// The group has stopped on this node. The change may have been made.
    #[error("the metadata group has stopped on this node: {0}")]
    Stopped(String),
}

fn leader_text(leader: &Option<Member>) -> String {
    leader.map_or_else(
        || String::from("nobody that is known"),
        |member| format!("node {}", member.node),
    )
}

/// The library's refusal of a change in this crate's words.
pub(crate) fn change_error(error: RaftError<Library, ClientWriteError<Library>>) -> ChangeError {
    let leader = |forward: ForwardToLeader<Library>| forward.leader_id;
    match error {
        RaftError::Fatal(fatal) => ChangeError::Stopped(Fatal::to_string(&fatal)),
        RaftError::APIError(ClientWriteError::ForwardToLeader(forward)) => ChangeError::NotLeader {
            leader: leader(forward),
        },
        RaftError::APIError(ClientWriteError::LogEntryDiscarded(forward)) => ChangeError::FateUnknown {
            leader: leader(forward),
        },
        RaftError::APIError(other) => ChangeError::Refused(other.to_string()),
    }
}
