//! The one place where metadata changes: core 0 plans a change on the committed image, journals it as a record of the
//! metadata partition like any other append, and when that is committed has every core apply it.
//!
//! One change at a time, so that a plan is never outdated when it is applied. A change is answered when every core
//! has applied it: whoever asked sees it on any connection.

use std::iter;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use protocol::metadata::{
    COMMAND_BYTES_MAX, Command, ConfigChange, Metadata, PlanError, TopicConfig, TopicSettings,
};
use record::{BatchBuilder, Compression, Limits, Offset};
use tokio::sync::{Mutex, oneshot};

use crate::core::{Core, METADATA_PARTITION};
use crate::mailbox::Stopping;
use crate::shard::{Acks, AppendRefusal, AppendRequest, ReadRefusal};

/// A batch of the metadata partition is closed beyond this size.
const BATCH_BYTES: usize = 512 << 10;
/// A batch of this size fits every journal file, and the metadata's `max.message.bytes`.
const BATCH_BYTES_MAX: usize = 1_000_000;
const _: () = assert!(
    BATCH_BYTES + COMMAND_BYTES_MAX <= BATCH_BYTES_MAX,
    "one command more does not make a batch too large"
);
/// Read at a time when the metadata is replayed.
const REPLAY_BYTES: usize = 4 << 20;

/// Why a change was not made, or not for certain.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ChangeError {
    /// It does not fit the metadata as it is.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// It could not be journaled.
    #[error(transparent)]
    Append(#[from] AppendRefusal),
    /// The node is stopping.
    #[error(transparent)]
    Stopping(#[from] Stopping),
}

/// Serializes changes.
#[derive(Default)]
pub(crate) struct Controller {
    turn: Mutex<()>,
}

/// What `change` answers for each planned command.
pub(crate) type Changed = Result<Command, ChangeError>;

impl Core {
    /// Plans commands on core 0's image and commits those that are sound. One answer for each plan, in order.
    pub(crate) async fn change(
        &self,
        plan: impl FnOnce(&Metadata) -> Vec<Result<Command, PlanError>> + Send + 'static,
    ) -> Result<Vec<Changed>, Stopping> {
        self.facts
            .mailboxes
            .call(0, |core| async move { core.change_here(plan).await })
            .await
    }

    async fn change_here(
        self: &Rc<Self>,
        plan: impl FnOnce(&Metadata) -> Vec<Result<Command, PlanError>>,
    ) -> Vec<Changed> {
        let controller = self.controller.as_ref().expect("changes are sent to core 0");
        let _turn = controller.turn.lock().await;
        let planned = self.with_metadata(plan);
        let commands: Vec<Command> = planned.iter().flatten().cloned().collect();
        let mut made = self.commit(commands).await.into_iter();
        let mut outcome = |command| {
            let made = made.next().expect("one outcome for each command");
            made.map(|()| command)
        };
        planned
            .into_iter()
            .map(|plan| plan.map_err(ChangeError::Plan).and_then(&mut outcome))
            .collect()
    }

    /// Journals commands and has every core apply those that are committed: should some be refused, the image is still what
    /// the next start reads. One outcome for each, in order.
    async fn commit(self: &Rc<Self>, commands: Vec<Command>) -> Vec<Result<(), ChangeError>> {
        let journaled = self.journal_each(&commands).await;
        let committed = commands.into_iter().zip(&journaled);
        let committed: Vec<Command> = committed
            .filter(|(_, journaled)| journaled.is_ok())
            .map(|(command, _)| command)
            .collect();
        let applied = self.apply(&committed);
        let told = self.tell_others(committed).await;
        let mut applied = applied.into_iter();
        let outcome = |journaled: Result<(), AppendRefusal>| -> Result<(), ChangeError> {
            journaled?;
            let applied = applied.next().expect("what is committed was applied");
            applied.map_err(PlanError::Refused)?;
            Ok(told?)
        };
        journaled.into_iter().map(outcome).collect()
    }

    /// Has the other cores apply what this one has applied.
    async fn tell_others(&self, commands: Vec<Command>) -> Result<(), Stopping> {
        if commands.is_empty() {
            return Ok(());
        }
        let commands = Arc::new(commands);
        let others = (1..self.facts.mailboxes.cores()).map(|core| {
            let commands = commands.clone();
            self.facts.mailboxes.call(core, move |core| async move {
                // Core 0 has the same image and answers for all.
                core.apply(&commands);
            })
        });
        join_all(others).await.into_iter().collect()
    }

    /// Appends commands to the metadata partition; all are committed on return, unless one was refused.
    pub(crate) async fn journal(&self, commands: &[Command]) -> Result<(), AppendRefusal> {
        self.journal_each(commands).await.into_iter().collect()
    }

    /// Appends commands to the metadata partition, several to a batch, and tells of each whether it is committed.
    async fn journal_each(&self, commands: &[Command]) -> Vec<Result<(), AppendRefusal>> {
        let now_ms = self.facts.clock.wall_ms();
        let mut builder = BatchBuilder::new(Compression::None);
        let mut batches = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            builder.append(now_ms, None, Some(&command.encode()), &[]);
            if builder.length_bytes() >= BATCH_BYTES || index + 1 == commands.len() {
                let count = builder.record_count() as usize;
                let (reply, answer) = oneshot::channel();
                self.shard(0).append(AppendRequest {
                    partition: METADATA_PARTITION,
                    batch: builder.build().into(),
                    acks: Acks::Quorum,
                    reply,
                });
                batches.push((count, answer));
            }
        }
        let mut journaled = Vec::with_capacity(commands.len());
        for (count, answer) in batches {
            let outcome = answer.await.unwrap_or(Err(AppendRefusal::Stopping));
            let outcome = outcome.map(|_| ());
            journaled.extend(iter::repeat_n(outcome, count));
        }
        journaled
    }

    /// At start, on core 0: opens the metadata partition and reads all commands back.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub(crate) async fn replay_metadata(self: &Rc<Self>) -> Result<Vec<Command>, String> {
        let recovered = self.take_recovered(METADATA_PARTITION);
        self.shard(0)
            .open_partition(METADATA_PARTITION, None, metadata_settings(), recovered.as_ref())?;
        self.read_commands()
            .await
            .map_err(|error| format!("the metadata cannot be read: {error}"))?
    }

    async fn read_commands(self: &Rc<Self>) -> Result<Result<Vec<Command>, String>, ReadRefusal> {
        let shard = self.shard(0);
        let (mut from, tail) = shard
            .with_leader(METADATA_PARTITION, |leader| (leader.log_start(), leader.tail()))
            .ok_or(ReadRefusal::UnknownPartition)?;
        let mut commands = Vec::new();
        while from < tail {
            for batches in shard
                .read_batches(METADATA_PARTITION, from, tail, REPLAY_BYTES)
                .await?
            {
                match decode_commands(&batches, &mut commands) {
                    Ok(next) => from = next,
                    Err(what) => {
                        return Ok(Err(format!(
                            "the metadata from offset {from} on is damaged: {what}"
                        )));
                    }
                }
            }
        }
        Ok(Ok(commands))
    }
}

/// The metadata is kept for ever and flushed before anybody acts by it, whatever topics have by default: what retention took
/// would be missing after the next start.
fn metadata_settings() -> TopicSettings {
    let mut config = TopicConfig::new();
    config
        .change(&[ConfigChange::set("retention.ms", "-1")])
        .expect("a valid value");
    TopicSettings::resolve(&config, &TopicConfig::new())
}

fn decode_commands(batches: &Bytes, commands: &mut Vec<Command>) -> Result<Offset, String> {
    let mut next = Offset::ZERO;
    for batch in record::batches(batches) {
        let (header, batch) = batch.map_err(|error| error.to_string())?;
        for record in record::records(batch, &Limits::default()).map_err(|error| error.to_string())? {
            let value = record
                .map_err(|error| error.to_string())?
                .value
                .unwrap_or_default();
            commands.push(Command::decode(&value).map_err(|error| error.to_string())?);
        }
        next = header.next_offset();
    }
    Ok(next)
}
