//! Changes that an administrator makes to a group, as the log tells them: offsets set or deleted, or the group deleted.
//!
//! Kafka's protocol has one request by which consumers commit and administrators reset. It is taken for a reset if its sender
//! is no member and the group has, or had, members. A consumer without a group commits like that too. So of groups that never
//! had members, only steps back are told.

use std::time::Duration;

use protocol::groups::{Answer, CommitOffsets, Coordinator, Name, Request, TopicPartition};
use record::Offset;

use crate::change_log::{Change, ChangeLog, first_parts};

/// See the module.
pub(super) struct AdminChange {
    change: Change,
    group: Name,
    /// The partitions; from where to where, if offsets are set.
    offsets: String,
}

impl AdminChange {
    /// Returns the change that the request will make, if it is an administrator's.
    pub(super) fn of(request: &Request, coordinator: &Coordinator) -> Option<AdminChange> {
        let (change, group, offsets) = match request {
            Request::CommitOffsets(commit) => {
                let offsets = reset(commit, coordinator)?;
                (Change::OffsetsSet, &commit.group, offsets)
            }
            Request::DeleteOffsets(delete) => {
                let named = delete.partitions.iter().map(in_words);
                (Change::OffsetsDeleted, &delete.group, first_parts(named))
            }
            Request::DeleteGroup(delete) => (Change::GroupDeleted, &delete.group, String::new()),
            _ => return None,
        };
        Some(AdminChange {
            change,
            group: Name::clone(group),
            offsets,
        })
    }

    /// Tells of it, if it was made.
    pub(super) fn tell(&self, log: &ChangeLog, now: Duration, answer: &Answer) {
        if !was_made(answer) || !log.has_line(now, self.change) {
            return;
        }
        let (group, offsets) = (&*self.group, &*self.offsets);
        match self.change {
            Change::OffsetsDeleted => tracing::info!(group, offsets, "offsets of a group were deleted"),
            Change::GroupDeleted => tracing::info!(group, "a group was deleted"),
            _ => tracing::info!(group, offsets, "offsets of a group were set"),
        }
    }
}

fn was_made(answer: &Answer) -> bool {
    match answer {
        Answer::CommitOffsets(Ok(outcomes)) | Answer::DeleteOffsets(Ok(outcomes)) => {
            outcomes.iter().any(|one| one.outcome.is_ok())
        }
        Answer::DeleteGroup(outcome) => outcome.is_ok(),
        _ => false,
    }
}

/// Returns the moves of a reset, in words; `None` for a commit as consumers make them all the time.
fn reset(commit: &CommitOffsets, coordinator: &Coordinator) -> Option<String> {
    let committer = &commit.committer;
    if committer.generation_or_epoch >= 0 || !committer.member.is_empty() {
        return None;
    }
    let moves = commit.partitions.iter().map(|one| {
        let before = coordinator.committed(&commit.group, &one.partition);
        (&one.partition, before, one.committed.offset)
    });
    let goes_back = |before: Option<Offset>, after| before.is_some_and(|before| after < before);
    let is_reset = coordinator.has_had_members(&commit.group)
        || moves.clone().any(|(_, before, after)| goes_back(before, after));
    is_reset.then(|| {
        first_parts(moves.map(|(partition, before, after)| match before {
            Some(before) => format!("{} {} to {}", in_words(partition), before.0, after.0),
            None => format!("{} to {}", in_words(partition), after.0),
        }))
    })
}

fn in_words(partition: &TopicPartition) -> String {
    format!("{}-{}", partition.topic, partition.index)
}
