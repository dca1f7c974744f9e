//! On the member that leads the metadata group: has every node of the cluster be told what is committed, enough of them have a vote, and none
//! that was removed.
//!
//! One change at a time, and all votes that are missing in one: two nodes with a vote each are worse than one. A node gets a vote only while it is there, and has
//! caught up; and none is taken from a node that is away: it may come back with what
//! it has promised, and a cluster that lost a node must not lose its majority by a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use metadata_group::{ChangeError, Group, Member, Status};
use protocol::leader::NodeId;
use protocol::metadata::Home;
use tokio::time::{sleep, timeout};

use super::MetadataLog;
use crate::core::Core;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// The longest that one change may take before others are looked at.
const CHANGE: Duration = Duration::from_secs(10);
/// After a change that failed.
const REST: Duration = Duration::from_secs(1);

/// A change of the group's members.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// An earlier leader has begun one.
    EndChange,
    /// A node is told what is committed.
    AddLearner(Member),
    /// Nodes that are told get a vote, once they have caught up.
    AddVoters(BTreeSet<Member>),
    /// A node that was removed from the cluster has no vote any more.
    RemoveVoter(Member),
    /// It is told no more.
    RemoveLearner(Member),
}

/// Why a node was not removed.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum RemovalError {
    /// It would come back.
    #[error("node {0} is running: stop it first, and then remove it")]
    Running(NodeId),
    /// It still holds something, or the metadata could not be changed.
    #[error(transparent)]
    Change(#[from] super::ChangeError),
}

/// The number of votes in a cluster of so many nodes: odd, for another one would help nobody.
fn votes(nodes: usize) -> usize {
    match nodes {
        ..3 => 1,
        3..7 => 3,
        _ => 5,
    }
}

/// How a node of the cluster stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Away,
    /// It is there, and has not started yet, or is not reached by others.
    There,
    /// It is there, and others reach it.
    Reached,
}

/// The next change that is to be made, where these are the nodes of the cluster.
fn next_step(status: &Status, nodes: &BTreeMap<Member, Standing>) -> Option<Step> {
    if status.is_changing {
        return Some(Step::EndChange);
    }
    let is_told = |member: &Member| status.voters.contains(member) || status.learners.contains(member);
    let mut there = nodes.iter().filter(|(_, standing)| **standing != Standing::Away);
    if let Some((new, _)) = there.find(|(member, _)| !is_told(member)) {
        return Some(Step::AddLearner(*new));
    }
    let is_able = |(member, standing): (&Member, &Standing)| {
        (*standing == Standing::Reached && status.learners.contains(member)).then_some(*member)
    };
    let able: BTreeSet<Member> = nodes.iter().filter_map(is_able).collect();
    let is_gone = |member: &&Member| !nodes.contains_key(member);
    let staying = status.voters.len() - status.voters.iter().filter(is_gone).count();
    let missing = votes(staying + able.len()).saturating_sub(staying);
    let next: BTreeSet<Member> = able.into_iter().take(missing).collect();
    if !next.is_empty() {
        return Some(Step::AddVoters(next));
    }
    let voter = status.voters.iter().find(is_gone);
    let learner = status.learners.iter().find(is_gone);
    let voter = voter.map(|member| Step::RemoveVoter(*member));
    voter.or_else(|| learner.map(|member| Step::RemoveLearner(*member)))
}

/// Keeps the group's members, until the node drains.
pub(crate) async fn keep_members(core: Rc<Core>) {
    tokio::select! {
        biased;
        () = core.until_draining() => {}
        () = keep(&core) => {}
    }
}

async fn keep(core: &Core) {
    loop {
        sleep(LOOK).await;
        let Some(group) = core.metadata_log.as_ref().and_then(MetadataLog::group) else {
            continue;
        };
        let status = group.status();
        if !status.is_leader {
            continue;
        }
        // Nodes that joined a moment ago would be taken for removed ones.
        if !core.knows_all(&status) {
            continue;
        }
        let Some(step) = next_step(&status, &core.members()) else {
            continue;
        };
        match timeout(CHANGE, take(group, &step)).await {
            Ok(Ok(())) => tracing::info!(?step, "the metadata group's members have changed"),
            Ok(Err(error)) => {
                tracing::warn!(?step, %error, "the metadata group's members could not be changed; it is tried again");
                sleep(REST).await;
            }
            Err(_) => tracing::warn!(
                ?step,
                "a change of the metadata group's members takes long; it is looked at again"
            ),
        }
    }
}

async fn take(group: &Group, step: &Step) -> Result<(), ChangeError> {
    match step {
        Step::EndChange => group.end_change().await,
        Step::AddLearner(member) => group.add_learner(*member).await,
        Step::AddVoters(members) => {
            for member in members {
                // Returns when it has caught up.
                group.add_learner(*member).await?;
            }
            group.add_voters(members.clone()).await
        }
        Step::RemoveVoter(member) => group.remove_voter(*member).await,
        Step::RemoveLearner(member) => group.remove_learner(*member).await,
    }
}

impl Core {
    /// Says whether this leader's image has all that was committed before it led.
    fn knows_all(&self, status: &Status) -> bool {
        let is_of_term = status.applied.is_some_and(|applied| applied.term == status.term);
        let log = self.metadata_log.as_ref();
        is_of_term && log.is_some_and(MetadataLog::is_image_current)
    }

    /// On core 0: has a node that does not run be none of the cluster's any more.
    pub(crate) async fn remove_node(&self, node: NodeId) -> Result<(), RemovalError> {
        if node == self.facts.node || self.is_here(node) {
            return Err(RemovalError::Running(node));
        }
        let changed = self.change(move |metadata| metadata.plan_removal(node)).await;
        changed.map_err(super::ChangeError::from)??;
        Ok(())
    }

    /// The nodes of the cluster, those that have not started too.
    fn members(&self) -> BTreeMap<Member, Standing> {
        let member = |(node, home): (NodeId, &Home)| {
            let member = Member {
                node: node.0,
                directory: home.directory,
            };
            let standing = match home.peer {
                _ if !self.is_here(node) => Standing::Away,
                Some(_) => Standing::Reached,
                None => Standing::There,
            };
            (member, standing)
        };
        self.with_metadata(|metadata| metadata.homes().map(member).collect())
    }
}

#[cfg(test)]
mod tests {
    use record::DirectoryId;

    use super::*;

    fn member(node: i32) -> Member {
        Member {
            node,
            directory: DirectoryId([node as u8; 16]),
        }
    }

    fn status(voters: &[i32], learners: &[i32]) -> Status {
        let members = |nodes: &[i32]| nodes.iter().copied().map(member).collect::<BTreeSet<_>>();
        Status {
            term: 1,
            leader: Some(member(1)),
            is_leader: true,
            voters: members(voters),
            learners: members(learners),
            is_changing: false,
            applied: None,
            last: None,
            snapshot: None,
            failure: None,
        }
    }

    fn nodes(reached: &[i32], away: &[i32]) -> BTreeMap<Member, Standing> {
        let reached = reached.iter().map(|node| (member(*node), Standing::Reached));
        let away = away.iter().map(|node| (member(*node), Standing::Away));
        reached.chain(away).collect()
    }

    fn add_voters(nodes: &[i32]) -> Option<Step> {
        Some(Step::AddVoters(nodes.iter().copied().map(member).collect()))
    }

    #[test]
    fn one_node_becomes_three_with_a_vote_at_once() {
        let all = nodes(&[1, 2, 3], &[]);
        let steps = [
            (status(&[1], &[]), Some(Step::AddLearner(member(2)))),
            (status(&[1], &[2]), Some(Step::AddLearner(member(3)))),
            (status(&[1], &[2, 3]), add_voters(&[2, 3])),
            (status(&[1, 2], &[3]), add_voters(&[3])),
            (status(&[1, 2, 3], &[]), None),
        ];
        for (status, step) in steps {
            assert_eq!(next_step(&status, &all), step, "{status:?}");
        }
    }

    #[test]
    fn two_nodes_have_one_vote_and_five_have_three() {
        assert_eq!(next_step(&status(&[1], &[2]), &nodes(&[1, 2], &[])), None);
        // The third has not been there since it was told.
        assert_eq!(next_step(&status(&[1], &[2, 3]), &nodes(&[1, 2], &[3])), None);
        let five = nodes(&[1, 2, 3, 4, 5], &[]);
        assert_eq!(next_step(&status(&[1, 2, 3], &[4, 5]), &five), None);
        let seven = nodes(&[1, 2, 3, 4, 5, 6, 7], &[]);
        let step = next_step(&status(&[1, 2, 3], &[4, 5, 6, 7]), &seven);
        assert_eq!(step, add_voters(&[4, 5]));
    }

    #[test]
    fn a_node_that_is_away_gets_no_vote_and_keeps_the_one_that_it_has() {
        let status = status(&[1, 2, 3], &[]);
        assert_eq!(next_step(&status, &nodes(&[1], &[2, 3])), None);
        let step = next_step(&status, &nodes(&[1, 4], &[2, 3]));
        assert_eq!(step, Some(Step::AddLearner(member(4))));
    }

    #[test]
    fn a_node_that_was_removed_loses_its_vote_once_another_one_has_it() {
        let mut all = nodes(&[1, 2, 4], &[]);
        let steps = [
            (status(&[1, 2, 3], &[]), Some(Step::AddLearner(member(4)))),
            (status(&[1, 2, 3], &[4]), add_voters(&[4])),
            (status(&[1, 2, 3, 4], &[]), Some(Step::RemoveVoter(member(3)))),
            (status(&[1, 2, 4], &[3]), Some(Step::RemoveLearner(member(3)))),
            (status(&[1, 2, 4], &[]), None),
        ];
        for (status, step) in steps {
            assert_eq!(next_step(&status, &all), step, "{status:?}");
        }
        all.remove(&member(4));
        let step = next_step(&status(&[1, 2, 3], &[]), &all);
        assert_eq!(step, Some(Step::RemoveVoter(member(3))));
    }

    #[test]
    fn a_node_that_others_do_not_reach_is_told_and_has_no_vote() {
        let mut all = nodes(&[1, 2], &[]);
        all.insert(member(3), Standing::There);
        let step = next_step(&status(&[1], &[2]), &all);
        assert_eq!(step, Some(Step::AddLearner(member(3))));
        assert_eq!(next_step(&status(&[1], &[2, 3]), &all), None);
    }

    #[test]
    fn a_change_that_was_begun_is_ended_first() {
        let mut status = status(&[1, 2], &[]);
        status.is_changing = true;
        assert_eq!(next_step(&status, &nodes(&[1, 2, 3], &[])), Some(Step::EndChange));
    }
}
