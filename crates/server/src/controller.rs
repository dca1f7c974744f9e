//! The one place where metadata changes: core 0 plans a change on the committed image, has it committed, and has every core apply it.
//!
//! A node that is alone journals a change as a record of the metadata partition, like any other append; its start replays them, and `image`
//! keeps them few. A node that others can join has its part in the metadata group instead (`metadata_log`), which orders the changes of all.
//!
//! One change at a time, so that no plan of this node is outdated by another one of it. A change is answered when every core
//! has applied it: whoever asked sees it on any connection.

mod image;
mod levels;
mod members;
mod metadata_log;
mod placement;
mod presence;
mod witness;

use std::cell::Cell;
use std::iter;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::join_all;
use planted::{Bug, planted};
use protocol::ApplyError;
use protocol::metadata::{
    COMMAND_BYTES_MAX, Command, Growth, Metadata, PROPOSAL_COMMANDS_MAX, PlanError, Plans, Replay,
    metadata_settings,
};
use record::{BatchBuilder, Compression, Record};
use shard::{Acks, AppendRefusal, AppendRequest, DiskShortage};
use storage::Reserve;
use tokio::sync::{Mutex, MutexGuard, oneshot};

use crate::budget::SharedRoom;
use crate::change_log::TopicBefore;
use crate::core::{Core, METADATA_PARTITION};
use crate::mailbox::Stopping;

pub(crate) use members::{RemovalError, keep_members};
pub(crate) use metadata_log::{CommitError, MetadataLog};
pub(crate) use placement::place_replicas;
use presence::Presence;
pub(crate) use presence::{look_after, replace_leaders};
use witness::Witnesses;

/// A batch of the metadata partition is closed beyond this size.
const BATCH_BYTES: usize = 512 << 10;
/// A batch of this size fits every journal file, and the metadata's `max.message.bytes`.
const BATCH_BYTES_MAX: usize = 1_000_000;
const _: () = assert!(
    BATCH_BYTES + COMMAND_BYTES_MAX <= BATCH_BYTES_MAX,
    "one command more does not make a batch too large"
);

/// Commands that are planned, committed and applied together: a larger change is made in parts, so that no step of it keeps a core
/// to itself. Each command is made or refused by itself anyhow.
const COMMANDS_AT_ONCE: usize = PROPOSAL_COMMANDS_MAX;
/// From so many partitions on that the commands of a part touch, it takes no more of them.
const PARTITIONS_AT_ONCE: usize = 2_000;
/// From so many bytes of config values on that the commands of a part have, it takes no more of them: a list of 32 KiB is read through many
/// times until it is in force.
const CONFIG_BYTES_AT_ONCE: usize = 64 << 10;

/// Repeatable changes that a full disk takes until it has room again. They can make room, but what clients can repeat without
/// end must not fill a disk to its last byte.
const RESERVED_CHANGES_MAX: u32 = 10_000;

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
    /// The metadata group has not committed it.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// Serializes changes.
#[derive(Default)]
pub(crate) struct Controller {
    turn: Mutex<()>,
    /// Repeatable changes since the disk is full.
    reserved_changes: Cell<u32>,
    /// The growth of the metadata log since its newest image.
    growth: Cell<Growth>,
    /// The other nodes.
    pub(crate) presence: Presence,
    /// How much of each disk was durable.
    witnesses: Witnesses,
}

impl Controller {
    /// The turn to change the metadata, until it is dropped.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    fn grow(&self, bytes: usize) {
        let mut growth = self.growth.get();
        growth.add(bytes);
        self.growth.set(growth);
    }

    /// Lets a command be journaled though the disk has less than its reserve left, or refuses it.
    fn check_reserve(&self, command: &Command, shortage: DiskShortage) -> Result<(), AppendRefusal> {
        let made = self.reserved_changes.get();
        match command.may_use_reserve() {
            false => Err(AppendRefusal::DiskFull(shortage)),
            true if !command.is_repeatable() => Ok(()),
            true if made < RESERVED_CHANGES_MAX => {
                self.reserved_changes.set(made + 1);
                Ok(())
            }
            true => Err(AppendRefusal::ReservedChangesSpent {
                changes_max: RESERVED_CHANGES_MAX,
            }),
        }
    }
}

/// Says whether commands wait where the journal has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// They wait for it: without its start a node is of no use.
    Awaited,
    /// They are refused, for one that waited would keep those waiting that make room.
    AtOnce,
}

impl Turn {
    /// The part of the journal's reserve that commands may use.
    fn reserve_of(self, commands: &[&Command]) -> Reserve {
        let help = self == Turn::Awaited || commands.iter().all(|command| command.frees_room());
        if help { Reserve::Use } else { Reserve::UseHalf }
    }
}

/// The outcome of one wish.
pub(crate) type Changed = Result<(), ChangeError>;

impl Core {
    /// Plans a command on core 0's image and commits it if it is sound.
    pub(crate) async fn change(
        &self,
        plan: impl FnOnce(&Metadata) -> Result<Command, PlanError> + Send + 'static,
    ) -> Result<Result<Command, ChangeError>, Stopping> {
        let (keep, kept) = oneshot::channel();
        let changed = self
            .change_all(None, None, vec![(plan, keep)], |metadata, (plan, keep), _| {
                let command = plan(metadata)?;
                // Nobody misses it who does not wait any more.
                let _ = keep.send(command.clone());
                Ok(command)
            })
            .await?;
        match changed.into_iter().next().expect("one outcome for each wish") {
            Ok(()) => Ok(Ok(kept.await.expect("what was made was planned"))),
            Err(error) => Ok(Err(error)),
        }
    }

    /// The same for all that a client at this address wants, one answer for each, in order; no other change comes in between. Each is
    /// about another topic. `room`, which the request for it has taken, is taken until the change is made or refused.
    pub(crate) async fn change_all<W: Send + 'static>(
        &self,
        client: Option<IpAddr>,
        room: SharedRoom,
        wanted: Vec<W>,
        plan: impl FnMut(&Metadata, W, &mut Plans) -> Result<Command, PlanError> + Send + 'static,
    ) -> Result<Vec<Changed>, Stopping> {
        let change = move |core: Rc<Core>| async move {
            let changed = core.change_here(client, wanted, plan).await;
            drop(room);
            changed
        };
        self.facts.mailboxes.carry_out(0, change).await
    }

    async fn change_here<W>(
        self: &Rc<Self>,
        client: Option<IpAddr>,
        wanted: Vec<W>,
        mut plan: impl FnMut(&Metadata, W, &mut Plans) -> Result<Command, PlanError>,
    ) -> Vec<Changed> {
        let controller = self.controller.as_ref().expect("changes are sent to core 0");
        let _turn = controller.turn().await;
        let mut changed = Vec::with_capacity(wanted.len());
        let mut wanted = wanted.into_iter();
        while wanted.len() > 0 {
            if !changed.is_empty() {
                tokio::task::yield_now().await;
            }
            // The image counts already what the parts before took.
            let mut plans = Plans::of(self.facts.config.plan_limits(), client);
            let mut plan = |metadata: &Metadata, wanted| plan(metadata, wanted, &mut plans);
            let part = self.with_metadata(|metadata| plan_part(metadata, &mut wanted, &mut plan));
            // Nobody else on this node changes the image until the part is committed.
            tokio::task::yield_now().await;
            let made = self.commit_part(part).await;
            let uncommitted = made.iter().find_map(|outcome| match outcome {
                Err(error @ ChangeError::Commit(_)) => Some(error.clone()),
                _ => None,
            });
            changed.extend(made);
            if let Some(error) = uncommitted {
                // Nor would the rest be, and it would not be outdated the less.
                changed.extend(wanted.by_ref().map(|_| Err(error.clone())));
            }
        }
        self.keep_log_short();
        changed
    }

    async fn commit_part(self: &Rc<Self>, part: Part) -> Vec<Changed> {
        let mut made = self.commit(part.commands).await.into_iter();
        let outcome = |planned: Result<(), PlanError>| {
            planned?;
            made.next().expect("one outcome for each command")
        };
        part.planned.into_iter().map(outcome).collect()
    }

    /// Journals commands and has every core apply those that are committed: should some be refused, the image is still what
    /// the next start reads. One outcome for each, in order.
    async fn commit(self: &Rc<Self>, commands: Vec<Command>) -> Vec<Changed> {
        if commands.is_empty() {
            return Vec::new();
        }
        if self.metadata_log.is_some() {
            return self.commit_allowed_in_group(&commands).await;
        }
        let journaled = self.journal_allowed(&commands).await;
        let committed = commands.into_iter().zip(&journaled);
        let committed: Vec<Command> = committed
            .filter(|(_, journaled)| journaled.is_ok())
            .map(|(command, _)| command)
            .collect();
        let (applied, told) = self.apply_everywhere(committed).await;
        let mut applied = applied.into_iter();
        let outcome = |journaled: Result<(), AppendRefusal>| -> Changed {
            journaled?;
            let applied = applied.next().expect("what is committed was applied");
            applied.map_err(PlanError::Refused)?;
            Ok(told?)
        };
        journaled.into_iter().map(outcome).collect()
    }

    /// The same in the metadata group, for the commands that there is room for here. A command that changes nothing is not proposed.
    async fn commit_allowed_in_group(&self, commands: &[Command]) -> Vec<Changed> {
        let mut outcomes: Vec<Changed> = self
            .allowed(commands)
            .into_iter()
            .map(|allowed| Ok(allowed?))
            .collect();
        let places: Vec<usize> = (0..commands.len())
            .filter(|place| outcomes[*place].is_ok() && !commands[*place].changes_nothing())
            .collect();
        let allowed: Vec<Command> = places.iter().map(|place| commands[*place].clone()).collect();
        if !allowed.is_empty() {
            let made = self.commit_in_group(&allowed).await;
            for (place, outcome) in places.into_iter().zip(made) {
                outcomes[place] = outcome;
            }
        }
        outcomes
    }

    /// Has every core apply what is committed, and the log say what has changed.
    async fn apply_everywhere(
        &self,
        committed: Vec<Command>,
    ) -> (Vec<Result<(), ApplyError>>, Result<(), Stopping>) {
        let before = self.with_metadata(|metadata| {
            let find = |command| TopicBefore::find(metadata, command);
            committed.iter().map(find).collect::<Vec<_>>()
        });
        let applied = self.apply(&committed).await;
        let now = self.facts.clock.monotonic();
        for ((command, before), applied) in committed.iter().zip(&before).zip(&applied) {
            if applied.is_ok() {
                self.facts.change_log.tell_command(now, command, before.as_ref());
            }
        }
        let committed = Arc::new(committed);
        let told = self.tell_others(&committed).await;
        self.open_orders(&committed).await;
        (applied, told)
    }

    /// Says of each command whether the disk has room for it. A command that changes nothing takes none.
    fn allowed(&self, commands: &[Command]) -> Vec<Result<(), AppendRefusal>> {
        let controller = self.controller.as_ref().expect("changes are sent to core 0");
        let shortage = self.shard(0).disk_shortage();
        if shortage.is_none() {
            controller.reserved_changes.set(0);
        }
        let check = |command: &Command| match shortage.filter(|_| !command.changes_nothing()) {
            Some(shortage) => controller.check_reserve(command, shortage),
            None => Ok(()),
        };
        commands.iter().map(check).collect()
    }

    /// Journals the commands that there is room for.
    async fn journal_allowed(&self, commands: &[Command]) -> Vec<Result<(), AppendRefusal>> {
        let mut outcomes = self.allowed(commands);
        let places: Vec<usize> = (0..commands.len())
            .filter(|place| outcomes[*place].is_ok() && !commands[*place].changes_nothing())
            .collect();
        let allowed: Vec<&Command> = places.iter().map(|place| &commands[*place]).collect();
        let journaled = self.journal_each(&allowed, Turn::AtOnce).await;
        for (place, outcome) in places.into_iter().zip(journaled) {
            outcomes[place] = outcome;
        }
        outcomes
    }

    /// Has the other cores apply what this one has applied.
    async fn tell_others(&self, commands: &Arc<Vec<Command>>) -> Result<(), Stopping> {
        if commands.is_empty() {
            return Ok(());
        }
        let others = (1..self.facts.mailboxes.cores()).map(|core| {
            let commands = commands.clone();
            self.facts.mailboxes.carry_out(core, move |core| async move {
                // Core 0 has the same image and answers for all.
                core.apply(&commands).await;
            })
        });
        join_all(others).await.into_iter().collect()
    }

    /// Appends the commands of a start to the metadata partition; all are committed on return, unless one was refused.
    pub(crate) async fn journal_start(&self, commands: &[Command]) -> Result<(), AppendRefusal> {
        let commands: Vec<&Command> = commands.iter().collect();
        let journaled = self.journal_each(&commands, Turn::Awaited).await;
        journaled.into_iter().collect()
    }

    /// Appends commands to the metadata partition, several to a batch, and tells of each whether it is committed.
    async fn journal_each(&self, commands: &[&Command], turn: Turn) -> Vec<Result<(), AppendRefusal>> {
        let controller = self.controller.as_ref().expect("core 0 journals commands");
        let now_ms = self.facts.clock.wall_ms();
        let mut builder = BatchBuilder::new(Compression::None);
        let mut batches = Vec::new();
        for (index, command) in commands.iter().enumerate() {
            builder.append(now_ms, None, Some(&command.encode()), &[]);
            if builder.length_bytes() >= BATCH_BYTES || index + 1 == commands.len() {
                let count = builder.record_count() as usize;
                let bytes = builder.length_bytes();
                let acks = if planted(Bug::MetadataAnsweredEarly) {
                    Acks::None
                } else {
                    Acks::Quorum
                };
                let (request, answer) = AppendRequest::new(METADATA_PARTITION, builder.build(), acks);
                let batch = &commands[index + 1 - count..=index];
                let request = request.with_reserve(turn.reserve_of(batch));
                self.shard(0).append(match turn {
                    Turn::Awaited => request,
                    Turn::AtOnce => request.at_once(),
                });
                batches.push((count, bytes, answer));
            }
        }
        let mut journaled = Vec::with_capacity(commands.len());
        for (count, bytes, answer) in batches {
            let outcome = answer.await.unwrap_or(Err(AppendRefusal::Stopping));
            let outcome = outcome.map(|_| controller.grow(bytes));
            journaled.extend(iter::repeat_n(outcome, count));
        }
        journaled
    }

    /// At start, on core 0: opens the metadata partition and makes the image anew from its log. The image is not formatted if there is
    /// no log yet.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub(crate) async fn replay_metadata(self: &Rc<Self>) -> Result<Metadata, String> {
        let recovered = self.take_recovered(METADATA_PARTITION);
        self.shard(0)
            .open_partition(METADATA_PARTITION, None, metadata_settings(), recovered.as_ref())?;
        let mut replay = Replay::new(self.with_metadata(Metadata::clone));
        self.shard(0)
            .replay(METADATA_PARTITION, &mut |record| take_record(&mut replay, record))
            .await
            .map_err(|error| format!("the metadata cannot be read: {error}"))?;
        let (image, growth) = replay
            .finish(self.facts.cluster)
            .map_err(|error| format!("the metadata cannot be read: {error}"))?;
        let controller = self.controller.as_ref().expect("core 0 has the metadata's log");
        controller.growth.set(growth);
        Ok(image)
    }
}

/// Wishes that are planned, journaled and applied together.
#[derive(Default)]
struct Part {
    /// Of each wish: its command comes next, or why it has none.
    planned: Vec<Result<(), PlanError>>,
    commands: Vec<Command>,
}

/// Plans what is wanted next, as much as is made at once.
fn plan_part<W>(
    metadata: &Metadata,
    wanted: &mut impl Iterator<Item = W>,
    plan: &mut impl FnMut(&Metadata, W) -> Result<Command, PlanError>,
) -> Part {
    let mut part = Part::default();
    let (mut partitions, mut config_bytes) = (0, 0);
    while part.planned.len() < COMMANDS_AT_ONCE
        && partitions < PARTITIONS_AT_ONCE
        && config_bytes < CONFIG_BYTES_AT_ONCE
    {
        let Some(wanted) = wanted.next() else { break };
        let planned = plan(metadata, wanted).map(|command| {
            partitions += partitions_touched(metadata, &command);
            config_bytes += command.config_bytes();
            part.commands.push(command);
        });
        if planned.is_err() {
            // It was read all the same, and nobody knows how long it was.
            config_bytes += CONFIG_BYTES_AT_ONCE / 2;
        }
        part.planned.push(planned);
    }
    part
}

/// The number of partitions that a command makes, or changes or removes with their topic.
fn partitions_touched(metadata: &Metadata, command: &Command) -> usize {
    let (Command::DeleteTopic { id } | Command::SetTopicConfig { id, .. }) = command else {
        return command.new_partition_count();
    };
    let topic = metadata.topic(*id);
    topic.map_or(0, |topic| topic.partition_count() as usize)
}

/// Takes a record of the metadata partition.
///
/// # Errors
/// A sentence.
pub(crate) fn take_record(replay: &mut Replay, record: &Record) -> Result<(), String> {
    let value = record.value.as_deref().unwrap_or_default();
    replay
        .take(record.offset, value)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use protocol::metadata::topic_config::ConfigChange;
    use record::TopicId;

    use super::*;

    const SHORTAGE: DiskShortage = DiskShortage {
        free_bytes: 0,
        reserve_bytes: 1,
    };

    fn set(name: &str) -> Command {
        Command::SetTopicConfig {
            id: TopicId([1; 16]),
            changes: vec![ConfigChange::set(name, "5000")],
            client: None,
        }
    }

    #[test]
    fn a_full_disk_takes_so_many_changes_of_retention_and_deletions_without_end() {
        let controller = Controller::default();
        let deletion = Command::DeleteTopic { id: TopicId([1; 16]) };
        for _ in 0..RESERVED_CHANGES_MAX {
            assert_eq!(controller.check_reserve(&deletion, SHORTAGE), Ok(()));
            assert_eq!(controller.check_reserve(&set("retention.ms"), SHORTAGE), Ok(()));
        }
        let refusal = controller.check_reserve(&set("retention.ms"), SHORTAGE);
        let refusal = refusal.expect_err("there were so many");
        assert!(!refusal.to_string().contains("is full"), "{refusal}");
        assert!(refusal.to_string().contains("10000 changes"), "{refusal}");
        assert_eq!(controller.check_reserve(&deletion, SHORTAGE), Ok(()));
        // A change that frees nothing is refused because of the disk.
        assert_eq!(
            controller.check_reserve(&set("max.message.bytes"), SHORTAGE),
            Err(AppendRefusal::DiskFull(SHORTAGE))
        );
    }
}
