//! The right to commit and fetch the offsets of a group of the consumer protocol: whose it is, and at which epoch.

use record::PartitionId;

use super::super::contract::{CommitOffsets, CommitPartition, GroupError, Name};
use super::{Consumer, Member};

impl Consumer {
    /// Checks that offsets may be committed: by a member at its present epoch, or from outside while there are no members.
    ///
    /// A member that was not told of its last epoch yet may commit at an earlier one what it has had since then (KIP-1251):
    /// nobody else has had that meanwhile. If anything else is among it, all is refused.
    pub(crate) fn check_committer(&self, commit: &CommitOffsets) -> Result<(), GroupError> {
        let committer = &commit.committer;
        let got = committer.generation_or_epoch;
        if got < 0 && self.roster.members.is_empty() {
            return Ok(());
        }
        let known = self.find_member(&committer.member)?;
        if known.said.classic.is_none() && !committer.knows_epochs {
            return Err(GroupError::CommitWithoutEpoch);
        }
        self.check_epochs(known, commit)
    }

    /// The same for a commit in a transaction. Old clients, and those that stand in no group, do not say who they are there, and
    /// may commit: only their producer is known, and fenced.
    pub(crate) fn check_pending_committer(&self, commit: &CommitOffsets) -> Result<(), GroupError> {
        let committer = &commit.committer;
        let got = committer.generation_or_epoch;
        let says_nothing = got == -1 && committer.member.is_empty() && committer.instance.is_none();
        if says_nothing || (got < 0 && self.roster.members.is_empty()) {
            return Ok(());
        }
        let known = self.find_member(&committer.member)?;
        self.check_epochs(known, commit).map_err(|error| match error {
            // As Kafka: this request has no other error for it.
            GroupError::StaleMemberEpoch { current, got } => GroupError::IllegalGeneration { current, got },
            other => other,
        })
    }

    fn check_epochs(&self, known: &Member, commit: &CommitOffsets) -> Result<(), GroupError> {
        let committer = &commit.committer;
        let got = committer.generation_or_epoch;
        let has_had_since = |wanted: &CommitPartition| {
            let partition = PartitionId {
                topic: wanted.topic_id,
                index: wanted.partition.index,
            };
            let since = self.roster.owners.since_epoch(&committer.member, partition);
            since.is_some_and(|since| since <= got)
        };
        if got < known.current.epoch && commit.partitions.iter().all(has_had_since) {
            return Ok(());
        }
        known.check_epoch(got)
    }

    /// Checks that a member may fetch offsets; one that gives no name may always.
    pub(crate) fn check_fetcher(&self, member: &Name, epoch: i32) -> Result<(), GroupError> {
        if member.is_empty() && epoch < 0 {
            return Ok(());
        }
        self.find_member(member)?.check_epoch(epoch)
    }

    fn find_member(&self, name: &Name) -> Result<&Member, GroupError> {
        self.roster
            .members
            .get(name)
            .ok_or_else(|| GroupError::UnknownMember {
                member: Name::clone(name),
            })
    }
}

impl Member {
    /// Members of the classic protocol count generations, which are their epochs here.
    fn check_epoch(&self, got: i32) -> Result<(), GroupError> {
        let current = self.current.epoch;
        if got == current {
            return Ok(());
        }
        Err(if self.said.classic.is_some() {
            GroupError::IllegalGeneration { current, got }
        } else {
            GroupError::StaleMemberEpoch { current, got }
        })
    }
}
