//! The side of the node that has the metadata's log: gives its entries to the nodes that follow, and makes what they propose.
//!
//! A follower gets every entry behind those that it has, in order. The log is not kept for one that is slow: it begins with an image
//! then, from which the follower goes on.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use platform::turns;
use protocol::leader::NodeId;
use protocol::metadata::{COMMAND_BYTES_MAX, Command, PlanError};
use protocol::peer::{Decision, Entries, Message, Outcome, Proposal};
use record::{Offset, Record};
use shard::ReplayError;
use tokio::time::sleep;

use super::{COMMANDS_AT_ONCE, ChangeError, Changed};
use crate::core::{Core, METADATA_PARTITION};
use crate::peers::Purpose;

/// Bytes of entries in one message, but for the last entry.
const ENTRIES_BYTES_MAX: usize = 1 << 20;
/// Bytes on their way to a follower, beyond which others wait.
const UNTAKEN_BYTES_MAX: usize = 4 << 20;
/// Between two looks at them.
const PAUSE: Duration = Duration::from_millis(10);
/// A rest after the log could not be read.
const REST: Duration = Duration::from_secs(1);

impl Core {
    /// On core 0: gives a node every entry from an offset on, those that are there and those to come. A node that follows has none to
    /// give.
    pub(crate) async fn feed(self: &Rc<Core>, node: NodeId, from: Offset) {
        let Some(controller) = self.controller.as_ref().filter(|_| !self.is_following()) else {
            return pending().await;
        };
        let mut committed = controller.committed.subscribe();
        let mut next = from;
        let mut has_been_told = false;
        loop {
            let end = *committed.borrow_and_update();
            if next < end || !has_been_told {
                match self.send_entries(node, next).await {
                    Ok(sent) => (next, has_been_told) = (sent, true),
                    Err(error) => {
                        tracing::warn!(node = node.0, %error, "the metadata's log cannot be read for a node that follows it");
                        sleep(REST).await;
                        continue;
                    }
                }
            }
            if committed.changed().await.is_err() {
                return pending().await;
            }
        }
    }

    /// Sends what the log has from an offset on. Returns its end.
    async fn send_entries(self: &Rc<Core>, node: NodeId, from: Offset) -> Result<Offset, ReplayError> {
        let mut entries: Vec<(Offset, Bytes)> = Vec::new();
        let shard = self.shard(0);
        let mut take = |record: &Record| {
            if record.offset >= from {
                entries.push((record.offset, record.value.clone().unwrap_or_default()));
            }
            Ok(())
        };
        shard.replay_from(METADATA_PARTITION, from, &mut take).await?;
        let end = entries.last().map_or(from, |(last, _)| Offset(last.0 + 1));
        let mut left = entries.into_iter().peekable();
        loop {
            let first = left.peek().map_or(end, |(offset, _)| *offset);
            let (mut values, mut bytes) = (Vec::new(), 0);
            while let Some((_, value)) = left.next_if(|_| bytes < ENTRIES_BYTES_MAX) {
                bytes += value.len();
                values.push(value);
            }
            let are_last = left.peek().is_none();
            let message = Message::Entries(Entries {
                first,
                values,
                are_last,
            });
            while self.peers.queued_bytes(Purpose::Metadata, node) > UNTAKEN_BYTES_MAX {
                sleep(PAUSE).await;
            }
            self.peers.send(Purpose::Metadata, node, &message);
            if are_last {
                return Ok(end);
            }
        }
    }

    /// Makes what a node proposes, and answers it. The change goes on where the answer is not waited for any more.
    pub(crate) async fn decide(self: &Rc<Core>, node: NodeId, proposal: Proposal) {
        let core = self.clone();
        let deciding = turns::spawn(async move {
            let outcomes = core.make_proposed(node, &proposal.commands).await;
            let image_offset = core.image_offset().unwrap_or_default();
            Decision {
                number: proposal.number,
                outcomes,
                image_offset,
            }
        });
        if let Ok(decision) = deciding.await {
            self.peers
                .send(Purpose::Metadata, node, &Message::Decision(decision));
        }
    }

    async fn make_proposed(self: &Rc<Core>, node: NodeId, proposed: &[Bytes]) -> Vec<Outcome> {
        let too_much = proposed.len() > COMMANDS_AT_ONCE
            || proposed.iter().any(|command| command.len() > COMMAND_BYTES_MAX);
        if too_much {
            let why =
                format!("a proposal has {COMMANDS_AT_ONCE} commands of {COMMAND_BYTES_MAX} bytes at most");
            return vec![Outcome::failed(&why)];
        }
        if self.is_following() {
            let why = "this node follows another node's metadata";
            return proposed.iter().map(|_| Outcome::failed(why)).collect();
        }
        let commands: Result<Vec<Command>, _> = proposed.iter().map(|bytes| Command::decode(bytes)).collect();
        let commands = match commands {
            Ok(commands) => commands,
            Err(error) => {
                let why = format!("a command cannot be read: {error}; upgrade this node");
                return proposed.iter().map(|_| Outcome::failed(&why)).collect();
            }
        };
        let is_foreign = |command: &Command| match command {
            Command::StartNode { node: of, home, .. } => *of != node || home.is_none(),
            Command::FormatCluster { .. } | Command::JoinNode { .. } => true,
            _ => false,
        };
        if commands.iter().any(is_foreign) {
            let why = "a node proposes its own start, and no other's";
            return commands.iter().map(|_| Outcome::failed(why)).collect();
        }
        let is_for_nobody = |command: &Command| matches!(command, Command::OpenEpoch { leader, .. } if !self.is_here(*leader));
        if commands.iter().any(is_for_nobody) {
            let why = "a node that is to lead is away";
            return commands.iter().map(|_| Outcome::failed(why)).collect();
        }
        let controller = self.controller.as_ref().expect("peers are spoken to on core 0");
        let _turn = controller.turn.lock().await;
        // What does not fit is not journaled, either.
        let checked: Vec<Changed> = self.with_metadata(|metadata| {
            let check = |command: &Command| {
                metadata
                    .check(command)
                    .map_err(|error| PlanError::Refused(error).into())
            };
            commands.iter().map(check).collect()
        });
        let fit = commands
            .into_iter()
            .zip(&checked)
            .filter(|(_, checked)| checked.is_ok());
        let mut made = self
            .commit(fit.map(|(command, _)| command).collect())
            .await
            .into_iter();
        let outcome = |checked: Changed| {
            let outcome = checked.and_then(|()| made.next().expect("one outcome for each command"));
            match outcome {
                Ok(()) => Outcome::Made,
                Err(ChangeError::Plan(_)) => Outcome::Outdated,
                Err(error) => Outcome::failed(&error.to_string()),
            }
        };
        let outcomes = checked.into_iter().map(outcome).collect();
        self.keep_log_short();
        outcomes
    }
}
