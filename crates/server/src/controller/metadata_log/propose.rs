//! The way of a change into the group's log: proposed to the leader, again and again, until this node's image has it.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use metadata_group::{Member, ProposeError};
use platform::turns;
use protocol::leader::NodeId;
use protocol::metadata::{Command, PlanError, Proposal};
use protocol::peer::Message;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{CommitError, REST, member, until_stopped_or_led_by_another};
use crate::controller::{ChangeError, Changed};
use crate::core::Core;
use crate::peers::Purpose;

/// The longest that a change waits until it is committed.
const DECISION: Duration = Duration::from_secs(30);
/// The longest that a change waits for somebody to propose it to.
const NO_LEADER: Duration = Duration::from_secs(3);
/// Between two proposals of an entry of which the first may have arrived.
const LONG_REST: Duration = Duration::from_secs(1);

impl Core {
    /// Has the group commit commands, and waits until this node's cores have them. One outcome for each, in order.
    pub(in crate::controller) async fn commit_in_group(&self, commands: &[Command]) -> Vec<Changed> {
        let log = self.own_metadata_log();
        let (number, entry) = log.next_proposal(commands);
        let (made, outcomes) = oneshot::channel();
        log.waiting.borrow_mut().insert(number, made);
        let was_sent = Cell::new(false);
        let decided = tokio::select! {
            biased;
            outcomes = outcomes => outcomes.map_err(|_| CommitError::NoAnswer),
            error = self.keep_proposing_and_tell(entry, &was_sent) => Err(error),
            () = without_leader(&was_sent) => Err(CommitError::NoLeader),
            () = sleep(DECISION) => Err(CommitError::NoAnswer),
        };
        log.waiting.borrow_mut().remove(&number);
        match decided {
            Ok(outcomes) => outcomes
                .into_iter()
                .map(|outcome| Ok(outcome.map_err(PlanError::Refused)?))
                .collect(),
            Err(error) => {
                let failed = |_: &Command| Err(ChangeError::Commit(error.clone()));
                commands.iter().map(failed).collect()
            }
        }
    }

    pub(super) async fn keep_proposing(&self, entry: Bytes) -> CommitError {
        self.keep_proposing_and_tell(entry, &self.own_metadata_log().has_proposed)
            .await
    }

    /// Has the leader put an entry into the log, again and again, for nobody says that it is there. The caller sees it come, and
    /// stops waiting. Returns only if that is in vain.
    async fn keep_proposing_and_tell(&self, entry: Bytes, was_sent: &Cell<bool>) -> CommitError {
        let mut watch = self.own_metadata_log().started().watch();
        loop {
            let leader = watch.now().leader;
            tokio::select! {
                biased;
                error = until_stopped_or_led_by_another(&mut watch, leader) => {
                    if let Some(error) = error {
                        return error;
                    }
                }
                () = self.propose_once(leader, &entry, was_sent) => {}
            }
        }
    }

    /// Proposes an entry to the leader, and rests.
    async fn propose_once(&self, leader: Option<Member>, entry: &Bytes, was_sent: &Cell<bool>) {
        let own = member(self.facts.node, self.facts.directory);
        let may_be_there = match leader {
            None => return pending().await,
            Some(leader) if leader == own => {
                // A caller that stops waiting in the midst of it does not know.
                let before = was_sent.replace(true);
                let group = self.own_metadata_log().started();
                let proposed = group.propose(entry.clone()).await;
                let is_in_no_log = |error: &ProposeError| {
                    matches!(
                        error,
                        ProposeError::NotLeader { .. } | ProposeError::Busy | ProposeError::TooLong(_)
                    )
                };
                if proposed.as_ref().is_err_and(is_in_no_log) {
                    was_sent.set(before);
                }
                proposed.is_ok()
            }
            Some(leader) => {
                let proposal = Message::Proposal(entry.clone());
                let is_sent = self.peers.send(Purpose::Metadata, NodeId(leader.node), &proposal);
                was_sent.set(was_sent.get() || is_sent);
                is_sent
            }
        };
        sleep(if may_be_there { LONG_REST } else { REST }).await;
    }

    /// Puts another node's proposal into the log, if this one leads. That node sees it come, or proposes it again. Bytes that are no proposal
    /// would end every node there.
    pub(crate) fn handle_proposal(&self, node: NodeId, entry: Bytes) {
        let refused = match Proposal::decode(&entry) {
            Ok(proposal) if proposal.by.node == node => None,
            Ok(_) => Some("it is another node's".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = refused {
            return tracing::warn!(node = node.0, error, "what a node proposes was dropped");
        }
        let group = self.own_metadata_log().started().clone();
        if group.status().is_leader {
            turns::spawn(async move {
                if let Err(error) = group.propose(entry).await {
                    tracing::debug!(node = node.0, %error, "what a node proposes is not in the log; it will propose it again");
                }
            });
        }
    }
}

/// Waits so long that another leader would have been elected, if one could be. Goes on if something was proposed.
async fn without_leader(was_sent: &Cell<bool>) {
    sleep(NO_LEADER).await;
    if was_sent.get() {
        pending::<()>().await;
    }
}
