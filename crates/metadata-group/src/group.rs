//! The group as its user has it: proposals, voters, messages. Nothing here decides anything; the library does.
//!
//! Futures are boxed: so the library is compiled with this crate, and not once more in each that awaits one.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use openraft::ChangeMembers;
use openraft::async_runtime::{AsyncRuntime, WatchReceiver};
use openraft::errors::{ClientWriteError, InitializeError, RaftError};
use openraft::raft::TransferLeaderRequest;
use platform::disk::Disk;
use platform::random::{Random, SeededRandom};
use platform::work::Work;

use crate::errors::{ChangeError, FoundError, ProposeError, StartError, change_error};
use crate::image::Image;
use crate::library::{Proposal, Raft};
use crate::machine::Machine;
use crate::network::{Calls, Transport};
use crate::receiver::Receiver;
use crate::runtime::{CoreRuntime, with_random};
use crate::snapshots::{Growth, take_for_ever};
use crate::status::{Status, Watch};
use crate::store::Store;
use crate::{ENTRY_BYTES_MAX, EntryId, GroupIdentity, Member, MessageError, Settings};

/// Proposals that are under way at a time.
const PROPOSALS_MAX: usize = 1024;

/// What a group is made of.
pub struct Parts {
    /// The node's disk.
    pub disk: Arc<dyn Disk>,
    /// Where blocking calls run.
    pub work: Arc<dyn Work>,
    /// The source of its random numbers.
    pub random: Random,
    /// The way to other nodes.
    pub transport: Rc<dyn Transport>,
}

/// One node's part in a group. Clones are the same. It lives in the thread that started it.
#[derive(Clone)]
pub struct Group(Rc<Inner>);

struct Inner {
    own: Member,
    raft: Raft,
    receiver: Rc<Receiver>,
    proposals: Cell<usize>,
    is_changing: Cell<bool>,
}

/// Counts a proposal for as long as somebody waits for it.
struct Proposing<'a>(&'a Cell<usize>);

impl Drop for Proposing<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Holds off other changes.
struct Changing<'a>(&'a Cell<bool>);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Group {
    /// Starts a node's part: reads what it keeps, and has the image begin with the last snapshot. A node that keeps nothing waits until it is
    /// added to a group, or founds one.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(
        identity: GroupIdentity,
        parts: Parts,
        settings: &Settings,
        image: Box<dyn Image>,
    ) -> LocalBoxFuture<'_, Result<Group, StartError>> {
        Box::pin(async move {
            let config = settings.config()?;
            let generator = SeededRandom::new(u64::from_le_bytes(parts.random.bytes()));
            let first_call = u64::from_le_bytes(parts.random.bytes());
            let Parts {
                disk,
                work,
                random,
                transport,
            } = parts;
            let calls = Calls::new(identity.own, transport, first_call);
            let growth = Growth::new(settings.snapshot_bytes);
            with_random(generator, async {
                let store = Store::open(identity, disk, &*work, random, settings).await?;
                let machine = Machine::new(image, store.clone(), growth.clone());
                let raft = Raft::new(identity.own, config, calls.clone(), store, machine).await;
                let raft = raft.map_err(|error| StartError::Refused(error.to_string()))?;
                drop(CoreRuntime::spawn(take_for_ever(growth, raft.clone())));
                let group = Group(Rc::new(Inner {
                    own: identity.own,
                    receiver: Receiver::new(raft.clone(), calls),
                    raft,
                    proposals: Cell::new(0),
                    is_changing: Cell::new(false),
                }));
                group.elect_alone().await;
                Ok(group)
            })
            .await
        })
    }

    /// A voter that is alone need not wait for others to be silent.
    async fn elect_alone(&self) {
        if self.status().voters == BTreeSet::from([self.0.own]) {
            // If it has failed already, whoever asks it next is told.
            let _ = self.0.raft.trigger().elect(false).await;
        }
    }

    /// Makes this node the only voter of a new group, and returns when it leads that.
    ///
    /// # Errors
    /// See [`FoundError`].
    pub fn found(&self) -> LocalBoxFuture<'_, Result<(), FoundError>> {
        Box::pin(async move {
            let members = BTreeMap::from([(self.0.own, ())]);
            let founded = self.0.raft.initialize(members).await;
            founded.map_err(|error| match error {
                RaftError::APIError(InitializeError::NotAllowed(_)) => FoundError::IsFounded,
                RaftError::APIError(other) => FoundError::Stopped(other.to_string()),
                RaftError::Fatal(fatal) => FoundError::Stopped(fatal.to_string()),
            })?;
            let mut watch = self.watch();
            let mut status = watch.now();
            while !status.is_leader {
                if let Some(failure) = status.failure {
                    return Err(FoundError::Stopped(failure));
                }
                let next = watch.changed().await;
                status = next.ok_or_else(|| FoundError::Stopped(String::from("it was stopped")))?;
            }
            Ok(())
        })
    }

    /// Proposes an entry, and returns when it is committed and this node's image has it. Without a majority it does not return; whoever
    /// stops waiting does not know the entry's fate.
    ///
    /// # Errors
    /// See [`ProposeError`].
    pub fn propose(&self, entry: Bytes) -> LocalBoxFuture<'_, Result<EntryId, ProposeError>> {
        Box::pin(async move {
            if entry.len() > ENTRY_BYTES_MAX {
                return Err(ProposeError::TooLong(entry.len()));
            }
            let proposals = &self.0.proposals;
            if proposals.get() >= PROPOSALS_MAX {
                return Err(ProposeError::Busy);
            }
            proposals.set(proposals.get() + 1);
            let _proposing = Proposing(proposals);
            match self.0.raft.client_write(Proposal(entry)).await {
                Ok(written) => Ok((&written.log_id).into()),
                Err(RaftError::Fatal(fatal)) => Err(ProposeError::Stopped(fatal.to_string())),
                Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => {
                    Err(ProposeError::NotLeader {
                        leader: forward.leader_id,
                    })
                }
                Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(forward))) => {
                    Err(ProposeError::FateUnknown {
                        leader: forward.leader_id,
                    })
                }
                Err(RaftError::APIError(other)) => Err(ProposeError::Stopped(other.to_string())),
            }
        })
    }

    /// The group as this node sees it.
    pub fn status(&self) -> Status {
        self.watch().now()
    }

    /// Follows the status.
    pub fn watch(&self) -> Watch {
        Watch::new(self.0.raft.metrics())
    }

    /// Adds a node that is told all, and has no vote. Returns when it has caught up, or is no learner any more.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn add_learner(&self, member: Member) -> LocalBoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async move {
            let _changing = self.begin_change()?;
            self.end_earlier_change().await?;
            let added = self.0.raft.add_learner(member, (), true).await;
            added.map(drop).map_err(change_error)
        })
    }

    /// Gives learners a vote, all in one change. They should have caught up: what is proposed waits for them from then on.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn add_voters(&self, members: BTreeSet<Member>) -> LocalBoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async move { self.change(ChangeMembers::AddVoterIds(members), true).await })
    }

    /// Takes a node's vote, and leaves it a learner. A leader that takes its own gives up its office.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn remove_voter(&self, member: Member) -> LocalBoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async move {
            self.change(ChangeMembers::RemoveVoters(BTreeSet::from([member])), true)
                .await
        })
    }

    /// Lets go of a learner.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn remove_learner(&self, member: Member) -> LocalBoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async move {
            self.change(ChangeMembers::RemoveNodes(BTreeSet::from([member])), true)
                .await
        })
    }

    /// Brings a change of voters to its end that an earlier leader began. Every other change does so, too, before its own.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn end_change(&self) -> LocalBoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async move {
            let _changing = self.begin_change()?;
            self.end_earlier_change().await
        })
    }

    /// Has this node, which leads, hand its office to another voter. Returns when that was asked: from then on this node takes no proposals,
    /// and when the other does not take over, the voters elect one.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub fn hand_over(&self, to: Member) -> LocalBoxFuture<'_, Result<(), ChangeError>> {
        Box::pin(async move {
            let _changing = self.begin_change()?;
            let Status {
                is_leader,
                leader,
                voters,
                ..
            } = self.status();
            if !is_leader {
                return Err(ChangeError::NotLeader { leader });
            }
            // The library would hand it to anybody, and take no proposals for ever after.
            if to == self.0.own || !voters.contains(&to) {
                return Err(ChangeError::Refused(format!("node {to} is no other voter")));
            }
            let handed = self.0.raft.trigger().transfer_leader(to).await;
            handed.map_err(|fatal| ChangeError::Stopped(fatal.to_string()))
        })
    }

    /// Has this node stand for election at once, for whoever calls knows that the leader `from` has ended: voters need not wait until it has
    /// been silent for so long. Does nothing if this node has no vote, or another one leads by now. A leader that has not ended gives
    /// up its office to a vote, as to any later one; nothing else comes of a mistake.
    pub fn take_over(&self, from: Member) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            let status = self.status();
            if status.leader != Some(from) || !status.voters.contains(&self.0.own) {
                return;
            }
            let metrics = self.0.raft.metrics();
            let (vote, applied) = {
                let metrics = metrics.borrow_watched();
                (metrics.vote, metrics.last_applied)
            };
            let office = TransferLeaderRequest::new(vote, self.0.own, applied);
            // A group that has stopped tells why by its status.
            let _ = self.0.raft.handle_transfer_leader(office).await;
        })
    }

    /// Takes in a message of another node.
    ///
    /// # Errors
    /// It is none. Nothing was changed; the link it came by is of no use.
    pub fn receive(&self, from: Member, message: Bytes) -> Result<(), MessageError> {
        self.0.receiver.receive(from, message)
    }

    /// Ends this node's part in order.
    pub fn stop(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            // A task that has failed has told why.
            let _ = self.0.raft.shutdown().await;
        })
    }

    fn begin_change(&self) -> Result<Changing<'_>, ChangeError> {
        match self.0.is_changing.replace(true) {
            true => Err(ChangeError::IsChanging),
            false => Ok(Changing(&self.0.is_changing)),
        }
    }

    async fn end_earlier_change(&self) -> Result<(), ChangeError> {
        if !self.status().is_changing {
            return Ok(());
        }
        // No change of its own; the library goes on from both sets to the later one.
        let nobody = ChangeMembers::AddVoterIds(BTreeSet::new());
        self.0
            .raft
            .change_membership(nobody, true)
            .await
            .map(drop)
            .map_err(change_error)
    }

    async fn change(&self, change: ChangeMembers<Member, ()>, retain: bool) -> Result<(), ChangeError> {
        let _changing = self.begin_change()?;
        self.end_earlier_change().await?;
        self.0
            .raft
            .change_membership(change, retain)
            .await
            .map(drop)
            .map_err(change_error)
    }
}
