//! What a node knows of its group: who leads, in which term, who has a say.

use std::collections::BTreeSet;

use futures_util::future::LocalBoxFuture;
use openraft::async_runtime::WatchReceiver;
use openraft::type_config::alias::WatchReceiverOf;
use openraft::{RaftMetrics, ServerState};

use record::Offset;

use crate::library::Library;
use crate::{EntryId, Member};

type Metrics = WatchReceiverOf<Library, RaftMetrics<Library>>;

/// A group as one of its nodes sees it. It may be behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The node's term. It never falls below one that it has told another node, across restarts neither; one that it has not told yet may be
    /// gone with a crash.
    pub term: u64,
    /// The node that leads in this term, if this one knows any.
    pub leader: Option<Member>,
    /// Whether that is this node itself. In one term, one node at most ever says so.
    pub is_leader: bool,
    /// The nodes with a vote; while voters change, those of before and after.
    pub voters: BTreeSet<Member>,
    /// The nodes that are told, and have no vote.
    pub learners: BTreeSet<Member>,
    /// Whether a change of voters has begun and not ended: both sets must agree to all that is committed.
    pub is_changing: bool,
    /// The last entry that this node's image has, the group's own entries counted.
    pub applied: Option<EntryId>,
    /// The place of the last entry in this node's log, committed or not.
    pub last: Option<Offset>,
    /// The last entry that is in the last snapshot.
    pub snapshot: Option<EntryId>,
    /// Why this node's group has stopped, if it has.
    pub failure: Option<String>,
}

impl Status {
    fn of(metrics: &RaftMetrics<Library>) -> Status {
        let members = metrics.membership_config.membership();
        Status {
            term: metrics.current_term,
            leader: metrics.current_leader,
            is_leader: metrics.state == ServerState::Leader,
            voters: members.voter_ids().collect(),
            learners: members.learner_ids().collect(),
            is_changing: members.get_joint_config().len() > 1,
            applied: metrics.last_applied.as_ref().map(EntryId::from),
            last: metrics
                .last_log_index
                .and_then(|index| i64::try_from(index).ok())
                .map(Offset),
            snapshot: metrics.snapshot.as_ref().map(EntryId::from),
            failure: metrics.running_state.as_ref().err().map(ToString::to_string),
        }
    }
}

/// Follows the status of a group.
#[derive(Clone)]
pub struct Watch(Metrics);

impl Watch {
    pub(crate) fn new(metrics: Metrics) -> Watch {
        Watch(metrics)
    }

    /// The status as it is now.
    pub fn now(&self) -> Status {
        Status::of(&self.0.borrow_watched())
    }

    /// Waits for a status that this watch has not shown yet; `None` when the group has ended.
    pub fn changed(&mut self) -> LocalBoxFuture<'_, Option<Status>> {
        Box::pin(async move {
            self.0.changed().await.ok()?;
            Some(Status::of(&self.0.borrow_and_update()))
        })
    }
}
