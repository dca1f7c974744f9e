//! A member's part in the metadata group: begun at the start (`start`); changes go into its log (`propose`), and from there to the cores (`follow`).
//!
//! The group's own image takes each entry at once ([`Applied`]); the cores' images follow one change after the other. A change is
//! answered when the cores of the node that was asked have it. A node must never go on with an image that lacks an entry: it ends.

mod follow;
mod propose;
mod start;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use metadata_group::{Entry, EntryId, Group, Image, Member, Status, Transport, Unusable, Watch};
use protocol::ApplyError;
use protocol::leader::NodeId;
use protocol::metadata::{Command, Effect, GroupImage, Metadata, Process, Proposal};
use protocol::peer::Message;
use record::{DirectoryId, Offset};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::core::{Core, NodeFacts};
use crate::peers::{Peers, Purpose};

/// Between two proposals of an entry of which the first cannot have arrived.
const REST: Duration = Duration::from_millis(50);
/// The longest that a node which stops waits for another one to lead the group in its place.
const HAND_OVER: Duration = Duration::from_secs(1);

/// Why a change was not made, or not for certain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CommitError {
    /// There was nobody to propose it to.
    #[error(
        "no node leads the metadata: a majority of those with a vote must be reached for a change, and for nothing else; the change was not made"
    )]
    NoLeader,
    /// It was proposed, and is not in the image.
    #[error("the change was proposed and is not committed; it may still be made")]
    NoAnswer,
    /// The group has ended here.
    #[error("{0}")]
    Stopped(String),
}

/// The outcome of each command of a proposal, in order.
type Outcomes = Vec<Result<(), ApplyError>>;

/// The state of a member of the metadata group.
pub(crate) struct MetadataLog {
    group: OnceCell<Group>,
    applied: Rc<Applied>,
    news: RefCell<Option<mpsc::UnboundedReceiver<News>>>,
    /// The cores' images have every entry before this one; `None` before there is an image.
    image_offset: watch::Sender<Option<Offset>>,
    process: Process,
    last_number: Cell<u64>,
    waiting: RefCell<BTreeMap<u64, oneshot::Sender<Outcomes>>>,
    /// This start was proposed: it may stand in the log.
    has_proposed: Cell<bool>,
    /// The reason for which another node takes this one for a copy, if one does.
    refusal: watch::Sender<Option<String>>,
}

/// The image as the group has it.
struct Applied {
    image: RefCell<GroupImage>,
    next: Cell<Offset>,
    process: Process,
    news: mpsc::UnboundedSender<News>,
}

/// Changes that the cores' images are to take, in order.
enum News {
    /// Commands that were committed, up to this offset.
    Commands(Offset, Proposal, Outcomes),
    /// The image in the place of all before, and the number of this process's last proposal that is in it.
    Image(Offset, Box<Metadata>, u64),
}

impl Applied {
    fn tell(&self, id: EntryId, news: impl FnOnce(Offset) -> News) {
        let next = Offset(id.offset.0 + 1);
        self.next.set(next);
        // Nobody listens while the node stops.
        let _ = self.news.send(news(next));
    }

    fn image(&self, next: Offset) -> News {
        let number = self.image.borrow().last_number(&self.process);
        News::Image(next, self.whole(), number)
    }

    fn whole(&self) -> Box<Metadata> {
        Box::new(self.image.borrow().metadata().clone())
    }
}

struct Applier(Rc<Applied>);

impl Image for Applier {
    fn apply(&mut self, entry: Entry) -> Result<(), Unusable> {
        let effect = self.0.image.borrow_mut().take(&entry.bytes);
        let effect = effect.map_err(|error| {
            Unusable(format!(
                "the entry at {} cannot be read: {error}; upgrade this node",
                entry.id
            ))
        })?;
        match effect {
            Effect::Nothing => self.0.next.set(Offset(entry.id.offset.0 + 1)),
            Effect::Image => self.0.tell(entry.id, |next| self.0.image(next)),
            Effect::Commands(proposal, outcomes) => {
                self.0
                    .tell(entry.id, |next| News::Commands(next, proposal, outcomes));
            }
        }
        Ok(())
    }

    fn snapshot(&self) -> Bytes {
        self.0.image.borrow().snapshot()
    }

    fn install(&mut self, last: EntryId, snapshot: Bytes) -> Result<(), Unusable> {
        let installed = self.0.image.borrow_mut().install(&snapshot);
        installed
            .map_err(|error| Unusable(format!("a snapshot cannot be read: {error}; upgrade this node")))?;
        self.0.tell(last, |next| self.0.image(next));
        Ok(())
    }
}

/// The group's messages go over the links of the metadata.
struct Links(Rc<Peers>);

impl Transport for Links {
    fn send(&self, to: Member, message: Bytes) {
        let node = NodeId(to.node);
        if self.0.is_linked_with(node, to.directory) {
            self.0.send(Purpose::Metadata, node, &Message::Group(message));
        }
    }
}

impl MetadataLog {
    pub(crate) fn new(facts: &NodeFacts) -> MetadataLog {
        let (news, arrivals) = mpsc::unbounded_channel();
        let image = Metadata::new(facts.config.topics.defaults.clone()).of_node(facts.node);
        let process = Process {
            node: facts.node,
            start: facts.incarnation,
            nonce: u64::from_le_bytes(facts.random.bytes()),
        };
        MetadataLog {
            group: OnceCell::new(),
            applied: Rc::new(Applied {
                image: RefCell::new(GroupImage::new(image)),
                next: Cell::new(Offset::ZERO),
                process,
                news,
            }),
            news: RefCell::new(Some(arrivals)),
            image_offset: watch::Sender::new(None),
            process,
            last_number: Cell::new(0),
            waiting: RefCell::default(),
            has_proposed: Cell::new(false),
            refusal: watch::Sender::new(None),
        }
    }

    /// The group itself, once it was started.
    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.get()
    }

    /// The group as this node sees it; `None` before it was started.
    pub(crate) fn status(&self) -> Option<Status> {
        self.group().map(Group::status)
    }

    /// Follows `Core::image_offset`.
    pub(crate) fn image_offsets(&self) -> watch::Receiver<Option<Offset>> {
        self.image_offset.subscribe()
    }

    /// Says whether the cores' image has all that the group's has.
    pub(crate) fn is_image_current(&self) -> bool {
        *self.image_offset.borrow() == Some(self.applied.next.get())
    }

    /// Says whether this start was told to another node, or stands in this one's log.
    pub(crate) fn has_proposed(&self) -> bool {
        self.has_proposed.get()
    }

    /// Takes note that another node takes this one for a copy of what has started since.
    pub(crate) fn handle_refusal(&self, why: &str) {
        self.refusal.send_replace(Some(why.to_owned()));
    }

    fn started(&self) -> &Group {
        self.group().expect("it is started before anything is proposed")
    }

    fn next_proposal(&self, commands: &[Command]) -> (u64, Bytes) {
        let number = self.last_number.get() + 1;
        self.last_number.set(number);
        let proposal = Proposal {
            by: self.process,
            number,
            commands: commands.to_vec(),
        };
        (number, proposal.encode())
    }

    /// Says whether a proposal of this process is in the image of the group, made or refused.
    fn has_counted(&self, number: u64) -> bool {
        self.applied.image.borrow().last_number(&self.process) >= number
    }

    fn is_own(&self, proposal: &Proposal) -> bool {
        proposal.by == self.process
    }
}

/// A member, as the group names it.
fn member(node: NodeId, directory: DirectoryId) -> Member {
    Member {
        node: node.0,
        directory,
    }
}

impl Core {
    /// On core 0 of a member: the cores' images have every entry of the group's log before this one; `None` before there is an image, and
    /// elsewhere.
    pub(crate) fn image_offset(&self) -> Option<Offset> {
        self.metadata_log
            .as_ref()
            .and_then(|log| *log.image_offset.borrow())
    }

    fn own_metadata_log(&self) -> &MetadataLog {
        self.metadata_log.as_ref().expect("core 0 of a member has it")
    }

    fn overtaken(&self) -> String {
        format!(
            "this is start {} of node {}, and it was told already, or a later one: this directory is a copy that was restored, or another \
             process runs over one; let the latest go on, or have an empty directory join as another node",
            self.facts.incarnation, self.facts.node
        )
    }

    /// Takes note of the image that another node says it has. A node that alone has a vote has written everything that anybody has: if it has
    /// less, its directory is an older copy.
    pub(crate) fn compare_images(&self, node: NodeId, has: Offset) {
        let Some(status) = self.metadata_log.as_ref().and_then(MetadataLog::status) else {
            return;
        };
        let own = member(self.facts.node, self.facts.directory);
        let end = status.last.map_or(0, |last| last.0 + 1);
        if status.is_leader && status.voters == BTreeSet::from([own]) && has.0 > end {
            tracing::error!(
                node = node.0, %has, end,
                "another node has more of the metadata than this one, which wrote all of it: this directory is an older copy, and this node ends; have an \
                 empty directory join as another node"
            );
            self.lost.notify_one();
        }
    }

    /// Takes a message of the group. One that cannot be read is a later build's, and as good as lost.
    pub(crate) fn handle_group_message(&self, node: NodeId, directory: DirectoryId, message: Bytes) {
        let group = self.own_metadata_log().started();
        if let Err(error) = group.receive(member(node, directory), message) {
            tracing::debug!(node = node.0, %error, "a message of the metadata group was dropped");
        }
    }

    /// Before this node stops: whoever asked for a change does not wait for it any more, and another node leads the group.
    pub(crate) async fn leave_group(&self) {
        let Some(group) = self.metadata_log.as_ref().and_then(MetadataLog::group) else {
            return;
        };
        self.own_metadata_log().waiting.borrow_mut().clear();
        let status = group.status();
        let is_there = |voter: &&Member| self.peers.is_linked_with(NodeId(voter.node), voter.directory);
        if let Some(next) = status.voters.iter().find(is_there).filter(|_| status.is_leader) {
            let mut watch = group.watch();
            match group.hand_over(*next).await {
                Ok(()) => {
                    let leader = status.leader;
                    let _ = timeout(HAND_OVER, until_stopped_or_led_by_another(&mut watch, leader)).await;
                }
                Err(error) => {
                    tracing::info!(%error, "the metadata group elects another leader when this node has stopped")
                }
            }
        }
        self.peers.end_metadata();
        group.stop().await;
    }
}

/// Waits until a group that is led by `leader` is not any more; or has stopped, which is told.
async fn until_stopped_or_led_by_another(watch: &mut Watch, leader: Option<Member>) -> Option<CommitError> {
    loop {
        let status = watch.now();
        if let Some(failure) = status.failure {
            return Some(CommitError::Stopped(failure));
        }
        if status.leader != leader {
            return None;
        }
        if watch.changed().await.is_none() {
            return Some(CommitError::Stopped(
                "the metadata group has stopped on this node".to_owned(),
            ));
        }
    }
}
