//! A member's part in the metadata group: what is committed there becomes the image here, and what this node's clients want changed is
//! proposed to whichever node leads.
//!
//! The group's own image takes each entry at once ([`Applied`]); the cores' images follow one change after the other. A change is
//! answered when the cores of the node that was asked have it. A node must never go on with an image that lacks an entry: it ends.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use metadata_group::{
    Entry, EntryId, Group, GroupIdentity, Image, Member, Parts, ProposeError, Settings, Status, Transport,
    Unusable, Watch,
};
use platform::disk::Disk;
use platform::turns;
use platform::work::Work;
use protocol::ApplyError;
use protocol::leader::NodeId;
use protocol::metadata::{
    Command, Effect, GroupImage, Metadata, PlanError, Process, Proposal, image_entries,
};
use protocol::peer::Message;
use record::{ClusterId, DirectoryId, Offset};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::{ChangeError, Changed};
use crate::core::{Core, METADATA_PARTITION, NodeFacts};
use crate::peers::{Peers, Purpose};

/// The longest that a node waits at its start for the metadata.
const START: Duration = Duration::from_secs(60);
/// The longest that a change waits until it is committed.
const DECISION: Duration = Duration::from_secs(30);
/// The longest that a change waits for somebody to propose it to.
const NO_LEADER: Duration = Duration::from_secs(3);
/// Between two tries to have an entry in the log, where one cannot have arrived, and where it may have.
const REST: Duration = Duration::from_millis(50);
const LONG_REST: Duration = Duration::from_secs(1);
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

/// What became of the commands of a proposal, one by one.
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
    /// What another node has said to this one's being of the cluster.
    refusal: watch::Sender<Option<String>>,
}

/// The image as the group has it.
struct Applied {
    image: RefCell<GroupImage>,
    next: Cell<Offset>,
    process: Process,
    news: mpsc::UnboundedSender<News>,
}

/// What the cores' images are to take, in order.
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

    /// Whether this start was told to another node, or stands in this one's log.
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

    /// On core 0: takes part in the group from now on.
    ///
    /// # Errors
    /// What is kept of it cannot be used: a sentence for the operator.
    pub(crate) async fn begin_group(&self, disk: Arc<dyn Disk>, work: Arc<dyn Work>) -> Result<(), String> {
        let log = self.own_metadata_log();
        let identity = GroupIdentity {
            cluster: self.facts.cluster,
            own: member(self.facts.node, self.facts.directory),
        };
        let parts = Parts {
            disk,
            work,
            random: self.facts.random.clone(),
            transport: Rc::new(Links(self.peers.clone())),
        };
        let applier = Applier(log.applied.clone());
        let started = Group::start(identity, parts, &Settings::default(), applier).await;
        let group = started.map_err(|error| error.to_string())?;
        assert!(log.group.set(group).is_ok(), "a node starts once");
        Ok(())
    }

    /// On core 0 of a node that has been alone, or is new: founds the group, with the metadata so far. Does nothing where that was done.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub(crate) async fn found_group(self: &Rc<Core>) -> Result<(), String> {
        let mut image = self.replay_metadata().await?;
        if image.cluster().is_none() {
            let cluster = self.facts.cluster;
            let formatted = image.apply(&Command::FormatCluster { cluster });
            formatted.expect("it is the first command");
        }
        let log = self.own_metadata_log();
        let group = log.started();
        // It may have been founded by a start that did not come further.
        if let Err(error @ metadata_group::FoundError::Stopped(_)) = group.found().await {
            return Err(error.to_string());
        }
        let has_image = || log.applied.image.borrow().metadata().cluster().is_some();
        while !has_image() {
            for entry in image_entries(&image) {
                match group.propose(entry).await {
                    Ok(_) => {}
                    Err(error @ (ProposeError::Stopped(_) | ProposeError::TooLong(_))) => {
                        return Err(error.to_string());
                    }
                    // All parts again: others need not have come.
                    Err(_) => {
                        sleep(REST).await;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// On core 0, once the directory says that it has its part of the group: gives up the log of the node that was alone.
    pub(crate) fn forget_own_log(&self) {
        self.shard(0).delete_partition(METADATA_PARTITION);
    }

    /// On core 0: has this start be committed. Returns the image that has it, and the offset of the first entry that the image lacks.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub(crate) async fn commit_start(self: &Rc<Core>, start: Command) -> Result<(Metadata, Offset), String> {
        let committed = timeout(START, self.first_image(&start)).await;
        committed.unwrap_or_else(|_| {
            Err(format!(
                "this node's start was not committed in the cluster's metadata within {} s: {}; see the warnings before this",
                START.as_secs(),
                self.own_metadata_log().waits_for()
            ))
        })
    }

    async fn first_image(self: &Rc<Core>, start: &Command) -> Result<(Metadata, Offset), String> {
        let log = self.own_metadata_log();
        let mut arrivals = log.news.take().expect("a node starts once");
        let mut refusal = log.refusal.subscribe();
        let (number, entry) = log.next_proposal(std::slice::from_ref(start));
        let mut proposing = std::pin::pin!(self.keep_proposing(entry));
        loop {
            let news = tokio::select! {
                biased;
                refused = refusal.wait_for(Option::is_some) => {
                    let why = refused.map(|why| why.clone().unwrap_or_default());
                    return Err(format!("{}: {}", self.overtaken(), why.unwrap_or_default()));
                }
                news = arrivals.recv() => news.ok_or("the node is stopping")?,
                error = &mut proposing => return Err(error.to_string()),
            };
            let News::Commands(_, proposal, outcomes) = news else {
                // Its outcome is in the image alone.
                match log.has_counted(number) {
                    true => break,
                    false => continue,
                }
            };
            if log.is_own(&proposal) {
                match outcomes.into_iter().next().expect("a start is one command") {
                    Ok(()) => break,
                    Err(ApplyError::StartPassed { known, .. }) => {
                        return Err(format!("{}: start {known} was told", self.overtaken()));
                    }
                    Err(error) => return Err(format!("this start does not fit the metadata: {error}")),
                }
            }
        }
        // All that has come by now is in the image of the group.
        while arrivals.try_recv().is_ok() {}
        let image = log.applied.whole();
        *log.news.borrow_mut() = Some(arrivals);
        check_cluster(&image, self.facts.cluster)?;
        match image.home(self.facts.node).map(|home| home.start) {
            Some(start) if start == self.facts.incarnation => Ok((*image, log.applied.next.get())),
            _ => Err(self.overtaken()),
        }
    }

    fn overtaken(&self) -> String {
        format!(
            "this is start {} of node {}, and it was told already, or a later one: this directory is a copy that was restored, or another \
             process runs over one; let the latest go on, or have an empty directory join as another node",
            self.facts.incarnation, self.facts.node
        )
    }

    /// On core 0, once the cores have the image that has every entry before an offset: takes what the group commits from there on, until the
    /// node stops.
    pub(crate) async fn follow_group(self: Rc<Core>, from: Offset) {
        let log = self.own_metadata_log();
        log.image_offset.send_replace(Some(from));
        let mut arrivals = log.news.take().expect("the node has started and follows once");
        let mut watch = log.started().watch();
        loop {
            let taken = tokio::select! {
                biased;
                failure = until_failed(&mut watch) => Err(failure),
                news = arrivals.recv() => match news {
                    Some(news) => self.take_news(news).await,
                    None => return,
                },
            };
            if let Err(error) = taken {
                if !self.is_draining() {
                    // It would go on to serve a state that is not the cluster's any more.
                    tracing::error!(%error, "this node cannot follow the metadata any more, and ends");
                    self.lost.notify_one();
                }
                return;
            }
        }
    }

    async fn take_news(&self, news: News) -> Result<(), String> {
        let log = self.own_metadata_log();
        let next = match news {
            News::Image(next, image, counted) => {
                check_cluster(&image, self.facts.cluster)?;
                self.check_own_start(image.home(self.facts.node).map_or(0, |home| home.start))?;
                self.install_everywhere(*image).await?;
                // What became of those that came by it is not told.
                log.waiting.borrow_mut().retain(|number, _| *number > counted);
                next
            }
            News::Commands(next, proposal, outcomes) => {
                let own = self.facts.node;
                for command in &proposal.commands {
                    match command {
                        Command::StartNode {
                            node,
                            home: Some(home),
                            ..
                        } if *node == own => self.check_own_start(home.start)?,
                        _ => {}
                    }
                }
                let waiting = log
                    .is_own(&proposal)
                    .then(|| log.waiting.borrow_mut().remove(&proposal.number));
                let (here, told) = self.apply_everywhere(proposal.commands).await;
                told.map_err(|stopping| stopping.to_string())?;
                assert!(here == outcomes, "the same entries make the same image");
                log.image_offset.send_replace(Some(next));
                if let Some(waiting) = waiting.flatten() {
                    // A proposer that has given up is not told.
                    let _ = waiting.send(outcomes);
                }
                next
            }
        };
        log.image_offset.send_replace(Some(next));
        Ok(())
    }

    fn check_own_start(&self, told: u64) -> Result<(), String> {
        match told > self.facts.incarnation {
            true => Err(self.overtaken()),
            false => Ok(()),
        }
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

    /// Has the group commit commands, and waits until this node's cores have them. One outcome for each, in order.
    pub(super) async fn commit_in_group(&self, commands: &[Command]) -> Vec<Changed> {
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

    async fn keep_proposing(&self, entry: Bytes) -> CommitError {
        self.keep_proposing_and_tell(entry, &self.own_metadata_log().has_proposed)
            .await
    }

    /// Has whoever leads put an entry into the log, again and again, for nobody says that it is there. Whoever calls sees it come, and
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
                // Whoever stops waiting does not know.
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

    /// Puts what another node proposes into the log, if this one leads. That node sees it come, or proposes it again. What no node may propose
    /// would be in everybody's way there.
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

impl MetadataLog {
    /// What a start waits for, for the operator.
    fn waits_for(&self) -> String {
        match self.status() {
            Some(status) if status.voters.is_empty() => {
                "no node of the cluster has told this one its metadata".to_owned()
            }
            Some(Status {
                leader: None, voters, ..
            }) => {
                let voters: Vec<String> = voters.iter().map(|voter| voter.node.to_string()).collect();
                format!(
                    "no majority of the nodes with a vote ({}) is reached",
                    voters.join(", ")
                )
            }
            _ => "the node that leads the metadata did not answer".to_owned(),
        }
    }
}

fn check_cluster(image: &Metadata, expected: ClusterId) -> Result<(), String> {
    match image.cluster() {
        Some(found) if found == expected => Ok(()),
        found => Err(format!(
            "the metadata is of cluster {}, and this directory of cluster {expected}",
            found.map_or_else(|| "none".to_owned(), |found| found.to_string())
        )),
    }
}

/// Waits so long that another leader would have been elected, if one could be. Goes on if something was proposed.
async fn without_leader(was_sent: &Cell<bool>) {
    sleep(NO_LEADER).await;
    if was_sent.get() {
        pending::<()>().await;
    }
}

/// Waits until the group has ended by itself. Returns the reason.
async fn until_failed(watch: &mut Watch) -> String {
    loop {
        if let Some(failure) = watch.now().failure {
            return failure;
        }
        if watch.changed().await.is_none() {
            return pending().await;
        }
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
