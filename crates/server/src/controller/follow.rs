//! The side of a node that follows another node's metadata: takes its entries in their order, and proposes what its own clients want.
//!
//! The image here is one that the controller's was: later or sooner, never another. A client's change is answered when it is in this
//! node's image, too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use platform::random::Random;
use protocol::leader::NodeId;
use protocol::metadata::{Command, Metadata, PlanError, Replay, ReplayError, command_of};
use protocol::peer::{Decision, Entries, Message, Outcome, Proposal};
use record::Offset;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::{ChangeError, Changed};
use crate::core::Core;
use crate::peers::Purpose;

/// The longest that a node waits at its start for the metadata.
const START: Duration = Duration::from_secs(60);
/// Between two proposals of a start.
const REST: Duration = Duration::from_millis(500);
/// The longest that a change waits for its decision.
const DECISION: Duration = Duration::from_secs(30);

/// Why the controller has not decided about a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForwardError {
    /// There is no connection.
    #[error("there is no connection to the node that has the metadata; try again")]
    NoConnection,
    /// There was one, and no answer.
    #[error("the node that has the metadata gave no answer: the change may have been made")]
    NoAnswer,
    /// The image was older than the controller's.
    #[error("the metadata has changed meanwhile; try again")]
    Outdated,
    /// The controller could not.
    #[error("{0}")]
    Failed(String),
}

/// What a following node has of the controller.
pub(crate) struct Following {
    controller: Cell<Option<NodeId>>,
    /// The first entry that was not taken.
    next: Cell<Offset>,
    /// The image has every entry before this one; `None` before there is an image.
    applied: watch::Sender<Option<Offset>>,
    arrived: mpsc::UnboundedSender<Entries>,
    arrivals: RefCell<Option<mpsc::UnboundedReceiver<Entries>>>,
    proposals: RefCell<BTreeMap<u64, oneshot::Sender<Decision>>>,
    last_number: Cell<u64>,
    /// This start was proposed: it may stand in the log.
    pub(crate) has_proposed: Cell<bool>,
}

impl Following {
    pub(crate) fn new(random: &Random) -> Following {
        let (arrived, arrivals) = mpsc::unbounded_channel();
        Following {
            controller: Cell::new(None),
            next: Cell::new(Offset::ZERO),
            applied: watch::Sender::new(None),
            arrived,
            arrivals: RefCell::new(Some(arrivals)),
            proposals: RefCell::default(),
            // A decision about what an earlier process has proposed is not to be taken for one of this process's.
            last_number: Cell::new(u64::from_le_bytes(random.bytes())),
            has_proposed: Cell::new(false),
        }
    }

    /// The image has every entry before this one.
    pub(crate) fn applied(&self) -> Option<Offset> {
        *self.applied.borrow()
    }

    pub(crate) fn handle_link(&self, node: NodeId) {
        self.controller.set(Some(node));
    }

    /// Whoever waits for a decision of this node waits no more.
    pub(crate) fn handle_link_lost(&self) {
        self.controller.set(None);
        self.give_up_waiting();
    }

    /// Clears the proposals that wait. They may be made all the same.
    pub(crate) fn give_up_waiting(&self) {
        self.proposals.borrow_mut().clear();
    }

    /// Takes the entries of a message that were not taken before. Some before them may be missing ([`Following::misses_some`]).
    fn take(&self, entries: Entries) -> Vec<(Offset, Bytes)> {
        let next = self.next.get();
        let offsets = (entries.first.0..).map(Offset);
        let numbered = entries
            .values
            .into_iter()
            .zip(offsets)
            .map(|(value, offset)| (offset, value));
        let taken: Vec<_> = numbered.skip_while(|(offset, _)| *offset < next).collect();
        let end = taken.last().map(|(last, _)| Offset(last.0 + 1));
        self.next.set(end.unwrap_or(next.max(entries.first)));
        taken
    }

    /// Says whether there were entries between those that were taken and these: the log was trimmed meanwhile, and begins with an image now.
    fn misses_some(&self, entries: &Entries) -> bool {
        entries.first > self.next.get()
    }
}

impl Core {
    /// Says whether another node has the metadata's log.
    pub(crate) fn is_following(&self) -> bool {
        self.following.is_some()
    }

    fn following(&self) -> &Following {
        self.following.as_ref().expect("a node that follows")
    }

    pub(crate) fn handle_entries(&self, node: NodeId, entries: Entries) {
        match &self.following {
            // The node is stopping if nobody takes them.
            Some(following) => drop(following.arrived.send(entries)),
            None => tracing::warn!(
                node = node.0,
                "a node sends metadata to the one that it should follow"
            ),
        }
    }

    pub(crate) fn handle_decision(&self, decision: Decision) {
        let waiting = self
            .following
            .as_ref()
            .and_then(|following| following.proposals.borrow_mut().remove(&decision.number));
        // A proposer that has given up is not told.
        waiting
            .into_iter()
            .for_each(|waiting| drop(waiting.send(decision.clone())));
    }

    /// At start: the image that the controller has, with this start in it.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub(crate) async fn follow_start(self: &Rc<Core>, start: Command) -> Result<Metadata, String> {
        let following = timeout(START, self.first_image(start)).await;
        following.unwrap_or_else(|_| {
            Err(format!(
                "no node of the cluster gave this one its metadata within {} s; see the warnings before this, and cluster.join",
                START.as_secs()
            ))
        })
    }

    async fn first_image(self: &Rc<Core>, start: Command) -> Result<Metadata, String> {
        let following = self.following();
        let mut arrivals = following
            .arrivals
            .borrow_mut()
            .take()
            .expect("a node starts once");
        let mut replay = self.empty_replay();
        let mut proposing = None;
        loop {
            let entries = tokio::select! {
                biased;
                entries = arrivals.recv() => entries.ok_or("the node is stopping")?,
                () = proposed(&mut proposing), if proposing.is_some() => continue,
            };
            let has_all = entries.are_last;
            if following.misses_some(&entries) {
                replay = self.empty_replay();
            }
            take_all(&mut replay, following.take(entries))?;
            if !has_all {
                continue;
            }
            // It stands in the log, even if the decision about it has not come.
            match replay.image().home(self.facts.node).map(|home| home.start) {
                Some(start) if start == self.facts.incarnation && following.has_proposed.get() => break,
                Some(later) if later >= self.facts.incarnation => return Err(self.overtaken(later)),
                _ if proposing.is_some() => {}
                _ => {
                    following.has_proposed.set(true);
                    let fits = replay.image().check(&start);
                    fits.map_err(|error| format!("this start does not fit the metadata: {error}"))?;
                    let (core, start) = (self.clone(), start.clone());
                    proposing = Some(Box::pin(async move { core.propose_until_made(&start).await }));
                }
            }
        }
        *following.arrivals.borrow_mut() = Some(arrivals);
        let image = self.finish(replay)?;
        following.applied.send_replace(Some(following.next.get()));
        Ok(image)
    }

    /// Proposes a start, again and again until it is known to be in the log, or refused there because it is.
    async fn propose_until_made(&self, start: &Command) {
        loop {
            match self.propose(std::slice::from_ref(start)).await {
                Ok(decision) => match decision.outcomes.first() {
                    Some(Outcome::Failed(why)) => {
                        tracing::warn!(
                            why,
                            "this start was not let into the metadata yet; it is tried again"
                        );
                    }
                    _ => return,
                },
                Err(error) => tracing::warn!(%error, "this start is proposed again"),
            }
            sleep(REST).await;
        }
    }

    fn overtaken(&self, later: u64) -> String {
        format!(
            "this is start {} of node {}, and start {later} was told already: this directory is a copy that was restored, or another process \
             runs over one; let the latest go on, or have an empty directory join as another node",
            self.facts.incarnation, self.facts.node
        )
    }

    fn empty_replay(&self) -> Replay {
        let defaults = self.facts.config.topics.defaults.clone();
        Replay::new(Metadata::new(defaults).of_node(self.facts.node))
    }

    fn finish(&self, replay: Replay) -> Result<Metadata, String> {
        let finished = replay.finish(self.facts.cluster);
        let (image, _) = finished.map_err(|error| format!("the metadata cannot be read: {error}"))?;
        Ok(image)
    }

    /// Takes what the controller commits from now on, until the node stops.
    pub(crate) async fn follow(self: Rc<Core>) {
        let following = self.following();
        let arrivals = following.arrivals.borrow_mut().take();
        let mut arrivals = arrivals.expect("the node has started and follows once");
        // Makes a later image, where entries were missing.
        let mut replay = None;
        while let Some(entries) = arrivals.recv().await {
            if let Err(error) = self.take_entries(entries, &mut replay).await {
                // It would go on to serve a state that is not the cluster's any more.
                tracing::error!(%error, "this node cannot follow the metadata any more, and ends");
                return self.lost.notify_one();
            }
        }
    }

    async fn take_entries(&self, entries: Entries, replay: &mut Option<Replay>) -> Result<(), String> {
        let following = self.following();
        if following.misses_some(&entries) {
            *replay = Some(self.empty_replay());
        }
        if let Some(mut whole) = replay.take() {
            let are_last = entries.are_last;
            take_all(&mut whole, following.take(entries))?;
            match are_last {
                true => {
                    let image = self.finish(whole)?;
                    let start = image.home(self.facts.node).map_or(0, |home| home.start);
                    if start > self.facts.incarnation {
                        return Err(self.overtaken(start));
                    }
                    self.install_everywhere(image).await?;
                }
                false => {
                    *replay = Some(whole);
                    return Ok(());
                }
            }
            following.applied.send_replace(Some(following.next.get()));
            return Ok(());
        }
        let mut commands = Vec::new();
        for (at, value) in following.take(entries) {
            let command = command_of(&value);
            let command = command
                .map_err(|error| format!("the entry at {at} cannot be read: {error}; upgrade this node"))?;
            commands.extend(command);
        }
        let later_start = commands.iter().find_map(|command| match command {
            Command::StartNode {
                node,
                home: Some(home),
                ..
            } if *node == self.facts.node => Some(home.start),
            _ => None,
        });
        if let Some(later) = later_start.filter(|start| *start > self.facts.incarnation) {
            return Err(self.overtaken(later));
        }
        // A command that the controller refused is refused here.
        let (_, told) = self.apply_everywhere(commands).await;
        told.map_err(|error| error.to_string())?;
        following.applied.send_replace(Some(following.next.get()));
        Ok(())
    }

    async fn install_everywhere(&self, image: Metadata) -> Result<(), String> {
        tracing::info!("the metadata was followed too late, and is taken over as a whole");
        let image = Arc::new(image);
        let each = (0..self.facts.mailboxes.cores()).map(|core| {
            let image = image.clone();
            let install = move |core: Rc<Core>| async move { core.install(&image).await };
            self.facts.mailboxes.carry_out(core, install)
        });
        let installed: Result<Vec<Result<(), String>>, _> = join_all(each).await.into_iter().collect();
        let installed = installed.map_err(|stopping| stopping.to_string())?;
        installed.into_iter().collect()
    }

    /// Has the controller make commands, and waits until this node's image has them. One outcome for each, in order.
    pub(super) async fn forward(&self, commands: &[Command]) -> Vec<Changed> {
        let decision = match self.propose(commands).await {
            Ok(decision) if decision.outcomes.len() == commands.len() => decision,
            Ok(_) => return all_failed(commands, &ForwardError::NoAnswer),
            Err(error) => return all_failed(commands, &error),
        };
        let mut applied = self.following().applied.subscribe();
        let reached =
            applied.wait_for(|applied| applied.is_some_and(|applied| applied >= decision.image_offset));
        if !matches!(timeout(DECISION, reached).await, Ok(Ok(_))) {
            return all_failed(commands, &ForwardError::NoAnswer);
        }
        let outcome = |(command, outcome): (&Command, Outcome)| match outcome {
            Outcome::Made => Ok(()),
            Outcome::Failed(why) => Err(ForwardError::Failed(why).into()),
            // This image has by now what was in the way.
            Outcome::Outdated => match self.with_metadata(|metadata| metadata.check(command)) {
                Err(error) => Err(PlanError::Refused(error).into()),
                Ok(()) => Err(ForwardError::Outdated.into()),
            },
        };
        commands.iter().zip(decision.outcomes).map(outcome).collect()
    }

    async fn propose(&self, commands: &[Command]) -> Result<Decision, ForwardError> {
        let following = self.following();
        let controller = following.controller.get().ok_or(ForwardError::NoConnection)?;
        let number = following.last_number.get().wrapping_add(1);
        following.last_number.set(number);
        let (decided, decision) = oneshot::channel();
        following.proposals.borrow_mut().insert(number, decided);
        let message = Message::Proposal(Proposal {
            number,
            commands: commands.iter().map(Command::encode).collect(),
        });
        if !self.peers.send(Purpose::Metadata, controller, &message) {
            following.proposals.borrow_mut().remove(&number);
            return Err(ForwardError::NoConnection);
        }
        let decision = timeout(DECISION, decision).await;
        following.proposals.borrow_mut().remove(&number);
        match decision {
            Ok(Ok(decision)) => Ok(decision),
            Ok(Err(_)) | Err(_) => Err(ForwardError::NoAnswer),
        }
    }
}

fn take_all(replay: &mut Replay, entries: Vec<(Offset, Bytes)>) -> Result<(), String> {
    let mut entries = entries.into_iter();
    let taken = entries.try_for_each(|(at, value)| replay.take(at, &value));
    taken.map_err(|error: ReplayError| format!("the metadata cannot be read: {error}"))
}

fn all_failed(commands: &[Command], error: &ForwardError) -> Vec<Changed> {
    commands
        .iter()
        .map(|_| Err(ChangeError::Forward(error.clone())))
        .collect()
}

/// Waits until the start that is being proposed is in the log.
async fn proposed<F: Future<Output = ()> + Unpin>(proposing: &mut Option<F>) {
    if let Some(until_made) = proposing {
        until_made.await;
    }
    *proposing = None;
}
