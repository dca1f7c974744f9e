//! Nodes with one replica each, their disks, the letters between them and the metadata. Nothing happens by itself: a scenario or
//! a seed says what comes next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use record::{Epoch, Offset};

use super::bytes::as_bytes_and_back;
use super::checker::{Checker, Opened};
use crate::history::BatchFacts;
use crate::leader::{self, Append, AppendError, Appended, Checked, Leader, NodeId};
use crate::producers::{Admission, ProducerId, ProducerLimits, Stamp};
use crate::replica::{
    Action, Assignment, Configuration, Landmark, NO_EPOCH, Persist, Prompt, Refusal, Replica, RoleName,
    Stored, Sworn,
};

pub(super) const NOW: Duration = Duration::ZERO;

/// A mistake that the surroundings of a replica could make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mistake {
    /// Acknowledgements are sent before the flush.
    AckBeforeFlush,
    /// Promises are sent before the flush.
    PromiseBeforeFlush,
    /// A disk that lost something is not doubted.
    LossNotNoticed,
    /// Earlier configurations are forgotten when an epoch is given out, not when it is settled.
    SettledWhenAssigned,
    /// Replica sets change though the last change is not settled.
    ChangesUnsettled,
    /// Voters with a disk of before give an epoch out again.
    EpochGivenTwice,
    /// The metadata has two leaders in one term, and each gives the term's number out as an epoch.
    TwoLeadersInOneTerm,
    /// Messages that a node has sworn before its disk was lost are delivered after it came back.
    OldOathsDelivered,
    /// A report that a replica has caught up counts though the replica was doubted since.
    ReportOutlivesDoubt,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Prompt(Prompt),
    Sworn(Sworn),
}

#[derive(Debug, Clone)]
pub(super) struct Letter {
    pub(super) from: usize,
    pub(super) to: usize,
    incarnation: u32,
    pub(super) message: Message,
}

/// A decision of the metadata. They are in order.
#[derive(Debug, Clone)]
enum Command {
    Assign(Assignment),
    Doubt(NodeId),
    Certain(NodeId),
}

pub(super) struct Metadata {
    commands: Vec<Command>,
    pub(super) epoch: Epoch,
    pub(super) leader: usize,
    pub(super) configuration: Configuration,
    /// The configurations used since the last one that is settled, that one first.
    pub(super) unsettled: Vec<Configuration>,
    pub(super) joining: BTreeSet<NodeId>,
    /// Joining nodes that hold all that is committed.
    pub(super) ready: BTreeSet<NodeId>,
    pub(super) uncertain: BTreeSet<NodeId>,
    /// The incarnation in which each node came back after its disk was doubted.
    doubted: BTreeMap<NodeId, u32>,
}

pub(super) struct Node {
    pub(super) replica: Option<Replica>,
    base: Stored,
    /// The whole log at the time of `base`.
    base_log: Vec<BatchFacts>,
    disk: Vec<Persist>,
    durable: usize,
    /// The batches of the log, flushed or not.
    pub(super) log: Vec<BatchFacts>,
    /// Messages that wait for as many entries to be durable.
    waiting: VecDeque<(usize, usize, Sworn)>,
    /// Log starts of which it is to be found where their batches begin. That comes with the next flush.
    finds: Vec<Offset>,
    /// Orders to send what others lack that come with the next flush.
    ships: Vec<Action>,
    pub(super) incarnation: u32,
    image: usize,
    assignment: Option<Assignment>,
    /// The incarnations of other nodes that this one has a link to.
    links: Vec<u32>,
    told: Vec<Offset>,
    shown: Offset,
    /// The highest epoch that its flushed promises bind it to.
    vowed: Epoch,
    was_leading: Option<Epoch>,
}

pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    pub(super) letters: Vec<Letter>,
    pub(super) metadata: Metadata,
    pub(super) checker: Checker,
    pub(super) mistake: Option<Mistake>,
    /// The most batches that are shipped in one message.
    pub(super) shipped_max: usize,
    /// All nodes hear of the tail, whether their logs were compared or not.
    pub(super) tells_all: bool,
    /// Pieces for others are sent with the next flush: the log may have changed meanwhile.
    pub(super) ships_late: bool,
    /// Says that messages go between nodes as the bytes of `crate::peer`.
    pub(super) goes_as_bytes: bool,
    /// The story so far, where somebody reads it.
    pub(super) story: Option<Vec<String>>,
    batches: i64,
}

impl World {
    /// Nodes without a partition; the first of them are to hold it.
    pub(super) fn new(nodes: usize, replicas: usize, ack_quorum: usize) -> World {
        let mut world = World {
            nodes: Vec::new(),
            letters: Vec::new(),
            metadata: Metadata {
                commands: Vec::new(),
                epoch: NO_EPOCH,
                leader: 0,
                configuration: Configuration {
                    replicas: (0..replicas).map(node_id).collect(),
                    ack_quorum,
                },
                unsettled: Vec::new(),
                joining: BTreeSet::new(),
                ready: BTreeSet::new(),
                uncertain: BTreeSet::new(),
                doubted: BTreeMap::new(),
            },
            checker: Checker::default(),
            mistake: None,
            shipped_max: 2,
            tells_all: false,
            ships_late: false,
            goes_as_bytes: false,
            story: None,
            batches: 0,
        };
        for _ in 0..nodes {
            world.nodes.push(Node {
                replica: None,
                base: Stored::default(),
                base_log: Vec::new(),
                disk: Vec::new(),
                durable: 0,
                log: Vec::new(),
                waiting: VecDeque::new(),
                finds: Vec::new(),
                ships: Vec::new(),
                incarnation: 0,
                image: 0,
                assignment: None,
                links: vec![1; nodes],
                told: vec![Offset::ZERO; nodes],
                shown: Offset::ZERO,
                vowed: NO_EPOCH,
                was_leading: None,
            });
        }
        for node in 0..nodes {
            world.start(node);
        }
        for node in &mut world.nodes {
            node.links = vec![1; nodes];
        }
        world
    }

    /// Adds to the story.
    pub(super) fn tell(&mut self, event: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(event());
        }
    }

    pub(super) fn is_up(&self, node: usize) -> bool {
        self.nodes[node].replica.is_some()
    }

    fn replica(&mut self, node: usize) -> &mut Replica {
        self.nodes[node].replica.as_mut().expect("the node is up")
    }

    // The metadata.

    /// Gives out the next epoch. A change of the configuration waits while one is not settled.
    pub(super) fn assign(&mut self, leader: usize, wanted: Configuration) {
        let metadata = &mut self.metadata;
        let may_change = metadata.unsettled.len() <= 1 || self.mistake == Some(Mistake::ChangesUnsettled);
        let configuration = match may_change {
            true => wanted,
            false => metadata.configuration.clone(),
        };
        let again = self.mistake == Some(Mistake::EpochGivenTwice) && metadata.epoch.0 % 3 == 2;
        metadata.epoch = Epoch(metadata.epoch.0 + i32::from(!again));
        metadata.leader = leader;
        let earlier = metadata.unsettled.clone();
        metadata.unsettled.retain(|of| *of != configuration);
        if self.mistake == Some(Mistake::SettledWhenAssigned) {
            metadata.unsettled.clear();
        }
        metadata.unsettled.push(configuration.clone());
        metadata
            .joining
            .retain(|node| !configuration.replicas.contains(node));
        metadata
            .ready
            .retain(|node| !configuration.replicas.contains(node));
        metadata.configuration = configuration.clone();
        let assignment = Assignment {
            epoch: metadata.epoch,
            leader: node_id(leader),
            configuration,
            earlier,
            joining: metadata.joining.iter().copied().collect(),
            uncertain: metadata.uncertain.iter().copied().collect(),
        };
        metadata.commands.push(Command::Assign(assignment));
    }

    fn settled(&mut self, epoch: Epoch) {
        if epoch == self.metadata.epoch {
            self.metadata.unsettled = vec![self.metadata.configuration.clone()];
        }
    }

    fn caught_up(&mut self, leader: usize, epoch: Epoch, replica: NodeId, incarnation: u32) {
        let metadata = &mut self.metadata;
        let is_void = metadata
            .doubted
            .get(&replica)
            .is_some_and(|since| incarnation < *since);
        if epoch != metadata.epoch || leader != metadata.leader {
            return;
        }
        if is_void && self.mistake != Some(Mistake::ReportOutlivesDoubt) {
            return;
        }
        if metadata.uncertain.remove(&replica) {
            metadata.commands.push(Command::Certain(replica));
        }
        if metadata.joining.contains(&replica) {
            metadata.ready.insert(replica);
        }
    }

    /// Has a node learn the next decision of the metadata. Gives `false` if it knows all.
    pub(super) fn learn(&mut self, node: usize) -> bool {
        let Some(mut command) = self.metadata.commands.get(self.nodes[node].image).cloned() else {
            return false;
        };
        if self.mistake == Some(Mistake::TwoLeadersInOneTerm)
            && let Command::Assign(assignment) = &mut command
            && assignment.epoch > Epoch(0)
            && assignment.configuration.replicas.last() == Some(&node_id(node))
        {
            assignment.leader = node_id(node);
        }
        let known = &mut self.nodes[node];
        known.image += 1;
        match &command {
            Command::Assign(assignment) => known.assignment = Some(assignment.clone()),
            Command::Doubt(doubted) => {
                for assignment in known.assignment.iter_mut() {
                    assignment.uncertain.push(*doubted);
                }
            }
            Command::Certain(certain) => {
                for assignment in known.assignment.iter_mut() {
                    assignment.uncertain.retain(|node| node != certain);
                }
            }
        }
        if let Some(replica) = &mut known.replica {
            match command {
                Command::Assign(assignment) => replica.handle_assignment(NOW, assignment),
                Command::Doubt(doubted) => replica.handle_doubt(NOW, doubted),
                Command::Certain(certain) => replica.handle_certain(NOW, certain),
            }
            self.settle(node);
        }
        true
    }

    // Disks and processes.

    /// Makes everything durable that a node has persisted, and sends what waited for it.
    pub(super) fn flush(&mut self, node: usize) {
        self.nodes[node].durable = self.nodes[node].disk.len();
        self.release(node);
        for log_start in std::mem::take(&mut self.nodes[node].finds) {
            let mut log = self.nodes[node].log.iter();
            let batch = log.find(|batch| batch.next_offset() > log_start);
            let first = batch.map_or(log_start, |batch| batch.first_offset);
            self.tell(|| format!("  {node} finds that {log_start} is in a batch from {first} on"));
            self.replica(node).handle_first(NOW, log_start, first);
            self.settle(node);
        }
        for order in std::mem::take(&mut self.nodes[node].ships) {
            self.ship(node, &order);
            self.settle(node);
        }
    }

    fn release(&mut self, node: usize) {
        loop {
            let known = &mut self.nodes[node];
            let durable = known.durable;
            if known.waiting.front().is_none_or(|(needs, ..)| *needs > durable) {
                return;
            }
            let (_, to, message) = known.waiting.pop_front().expect("there is one");
            if let Sworn::Promised { epoch, .. } = &message {
                known.vowed = known.vowed.max(*epoch);
            }
            if to == node {
                self.replica(node).handle_sworn(NOW, node_id(node), &message);
                self.settle(node);
            } else {
                self.post(node, to, Message::Sworn(message));
            }
        }
    }

    /// Ends a process; of what it had not flushed, the first `kept` entries are on the disk all the same.
    pub(super) fn crash(&mut self, node: usize, kept: usize) {
        let known = &mut self.nodes[node];
        known.replica = None;
        known.waiting.clear();
        known.finds.clear();
        known.ships.clear();
        known.disk.truncate(known.durable + kept);
        known.durable = known.disk.len();
        known.was_leading = None;
    }

    /// Takes a stopped node's disk back to its first `kept` entries: without any, to an empty disk. The metadata hears of it
    /// before the node starts again, and so does the node.
    pub(super) fn lose(&mut self, node: usize, kept: usize) {
        let known = &mut self.nodes[node];
        if kept == 0 {
            known.base = Stored::default();
            known.base_log.clear();
        }
        known.disk.truncate(kept);
        known.durable = known.disk.len();
        known.vowed = NO_EPOCH;
        if self.mistake == Some(Mistake::LossNotNoticed) {
            return;
        }
        let id = node_id(node);
        self.metadata.doubted.insert(id, known.incarnation + 1);
        self.metadata.uncertain.insert(id);
        self.metadata.ready.remove(&id);
        self.metadata.commands.push(Command::Doubt(id));
        while self.learn(node) {}
    }

    /// Starts a node on what its disk has.
    pub(super) fn start(&mut self, node: usize) {
        let known = &mut self.nodes[node];
        known.incarnation += 1;
        let mut stored = known.base.clone();
        for entry in &known.disk {
            stored.replay(entry);
        }
        known.log.clone_from(&known.base_log);
        for entry in &known.disk {
            apply(&mut known.log, entry);
        }
        let replica = Replica::recover(NOW, node_id(node), ProducerLimits::default(), stored);
        let replica = replica.expect("the entries are this node's own");
        assert!(
            replica.promised() >= known.vowed,
            "node {node} has forgotten a promise"
        );
        assert!(
            replica.promised() >= replica.accepted(),
            "what is accepted is promised"
        );
        known.shown = Offset::ZERO;
        known.replica = Some(replica);
        let assignment = known.assignment.clone();
        let incarnations: Vec<_> = self.nodes.iter().map(|node| node.incarnation).collect();
        self.nodes[node].links = incarnations;
        if let Some(assignment) = assignment {
            self.replica(node).handle_assignment(NOW, assignment);
            self.settle(node);
        }
    }

    /// Has a node remember its log in a checkpoint, and begin its entries anew.
    pub(super) fn checkpoint(&mut self, node: usize) {
        let known = &mut self.nodes[node];
        let whole = known.durable == known.disk.len();
        if let Some(replica) = known.replica.as_ref().filter(|_| whole) {
            known.base = replica.stored(NOW);
            known.base_log.clone_from(&known.log);
            known.disk.clear();
            known.durable = 0;
            for (needs, ..) in &mut known.waiting {
                *needs = 0;
            }
        }
    }

    // Links.

    fn post(&mut self, from: usize, to: usize, message: Message) {
        let message = match self.goes_as_bytes {
            true => as_bytes_and_back(message),
            false => message,
        };
        let incarnation = self.nodes[from].incarnation;
        self.letters.push(Letter {
            from,
            to,
            incarnation,
            message,
        });
    }

    /// Connects two nodes anew: each begins again with the other.
    pub(super) fn link(&mut self, one: usize, other: usize) {
        for (here, there) in [(one, other), (other, one)] {
            self.nodes[here].links[there] = self.nodes[there].incarnation;
            self.nodes[here].told[there] = Offset::ZERO;
            self.replica(here).handle_link(NOW, node_id(there));
            self.settle(here);
        }
    }

    pub(super) fn is_linked(&self, one: usize, other: usize) -> bool {
        let knows =
            |here: usize, there: usize| self.nodes[here].links[there] == self.nodes[there].incarnation;
        knows(one, other) && knows(other, one)
    }

    /// Says whether a letter can arrive: its sender's link was taken.
    pub(super) fn can_arrive(&self, letter: &Letter) -> bool {
        self.is_up(letter.to) && self.nodes[letter.to].links[letter.from] >= letter.incarnation
    }

    /// Hands a letter over. What an earlier incarnation has sworn is dropped; all else may be late.
    pub(super) fn deliver(&mut self, letter: Letter) {
        let Letter {
            from,
            to,
            incarnation,
            message,
        } = letter;
        let is_old = incarnation < self.nodes[to].links[from];
        self.tell(|| format!("  {from}->{to} {}", narrate(&message)));
        match message {
            Message::Sworn(_) if is_old && self.mistake != Some(Mistake::OldOathsDelivered) => {}
            Message::Sworn(message) => self.replica(to).handle_sworn(NOW, node_id(from), &message),
            Message::Prompt(message) => self.replica(to).handle_prompt(NOW, node_id(from), &message),
        }
        self.settle(to);
    }

    /// Tells live followers, or all nodes, how far the log is committed.
    pub(super) fn tell_tail(&mut self, node: usize, again: bool) {
        let Some(replica) = &self.nodes[node].replica else {
            return;
        };
        let Some((epoch, tail)) = replica.leader().map(|leader| (leader.epoch(), leader.tail())) else {
            return;
        };
        let told: Vec<_> = match self.tells_all {
            true => (0..self.nodes.len()).filter(|to| *to != node).collect(),
            false => replica.live_followers().map(index).collect(),
        };
        for to in told {
            if again || self.nodes[node].told[to] < tail {
                self.nodes[node].told[to] = tail;
                self.post(node, to, Message::Prompt(Prompt::Commit { epoch, tail }));
            }
        }
    }

    // Clients.

    /// Appends a batch to whatever leads on this node.
    pub(super) fn append(
        &mut self,
        node: usize,
        producer: Option<Stamp>,
        record_count: i32,
    ) -> Result<Appended, AppendError> {
        self.batches += 1;
        let append = Append {
            record_count,
            max_timestamp_ms: self.batches,
            producer,
            inside: None,
        };
        let admission = Admission {
            now: NOW,
            next_id: ProducerId(1000),
            from: None::<IpAddr>,
            has_room: true,
        };
        let replica = self.replica(node);
        match replica.check_append(&append, &admission)? {
            Checked::Duplicate(appended) => Ok(appended),
            Checked::Unverified => unreachable!("no producer here has transactions"),
            Checked::New(numbered) => {
                let appended = replica.handle_append(NOW, numbered);
                self.settle(node);
                Ok(appended)
            }
        }
    }

    pub(super) fn trim(&mut self, node: usize, first_kept: Offset) {
        let replica = self.replica(node);
        if let Ok(log_start) = replica.check_trim(first_kept) {
            replica.handle_trim(NOW, log_start);
            self.settle(node);
        }
    }

    // The actions of replicas.

    fn settle(&mut self, node: usize) {
        while let Some(action) = self.nodes[node].replica.as_mut().and_then(Replica::next_action) {
            self.carry_out(node, action);
        }
        self.tell_tail(node, false);
        self.observe(node);
    }

    fn carry_out(&mut self, node: usize, action: Action) {
        match action {
            Action::Persist(entry) => self.persist(node, entry),
            Action::Send { to, message } => {
                let committed = Refusal::Committed { tail: Offset::ZERO };
                if let Prompt::Refused { refusal, .. } = &message {
                    assert_ne!(
                        std::mem::discriminant(refusal),
                        std::mem::discriminant(&committed),
                        "node {node} was to cut off committed records"
                    );
                }
                self.post(node, index(to), Message::Prompt(message));
            }
            Action::SendDurable { to, message } => self.send_durable(node, index(to), message),
            Action::Ship { to, .. } if self.ships_late => {
                let ships = &mut self.nodes[node].ships;
                // An earlier order is void.
                ships.retain(|order| !matches!(order, Action::Ship { to: other, .. } if *other == to));
                ships.push(action);
            }
            Action::Ship { .. } => self.ship(node, &action),
            Action::FindFirst { log_start } => self.nodes[node].finds.push(log_start),
            Action::Leader(leader::Action::Commit { tail, .. }) => {
                self.tell(|| format!("  {node} commits {tail}"))
            }
            Action::Leader(leader::Action::Abandon { tail }) => {
                self.tell(|| format!("  {node} abandons what is above {tail}"));
            }
            Action::Leader(leader::Action::DurableHere { .. }) => {}
            Action::Committed { tail } => self.tell(|| format!("  {node} shows {tail}")),
            Action::Leave { .. } | Action::Wake { .. } => {}
            Action::Settled { epoch } => {
                self.tell(|| format!("  epoch {epoch} is settled"));
                self.settled(epoch);
            }
            Action::CaughtUp { replica } => {
                self.tell(|| format!("  {replica} has caught up"));
                let epoch = self
                    .replica(node)
                    .leader()
                    .map_or(NO_EPOCH, |leader| leader.epoch());
                let incarnation = self.nodes[node].links[index(replica)];
                self.caught_up(node, epoch, replica, incarnation);
            }
        }
    }

    /// Sends another node what it lacks, as far as the log still has that.
    fn ship(&mut self, node: usize, order: &Action) {
        let Action::Ship {
            to,
            epoch,
            first,
            next_offset,
        } = *order
        else {
            panic!("no order to send anything: {order:?}");
        };
        let from = self.nodes[node].log.iter();
        let from = from.filter(|batch| first < batch.next_offset() && batch.next_offset() <= next_offset);
        let batches: Vec<_> = from.take(self.shipped_max).copied().collect();
        let shipped = batches.last().map_or(first, BatchFacts::next_offset);
        if let Some(sent) = batches.first().map(|batch| batch.first_offset) {
            let message = Prompt::Append {
                epoch,
                writer_before: self.replica(node).writer_before(sent),
                batches,
            };
            self.post(node, index(to), Message::Prompt(message));
        }
        let leader = self
            .replica(node)
            .leader()
            .filter(|leader| leader.epoch() == epoch);
        let Some(tail) = leader.map(Leader::tail) else {
            return;
        };
        if self.tells_all {
            self.post(node, index(to), Message::Prompt(Prompt::Commit { epoch, tail }));
        }
        self.replica(node).handle_shipped(to, shipped);
    }

    fn persist(&mut self, node: usize, entry: Persist) {
        let replica = self.nodes[node].replica.as_ref().expect("the node is up");
        if let Some(message) = replica.as_message(&entry) {
            let live: Vec<_> = replica.live_followers().map(index).collect();
            for to in live {
                self.post(node, to, Message::Prompt(message.clone()));
            }
        }
        if let Persist::Append { batch } = &entry {
            self.checker.wrote(batch);
        }
        let known = &mut self.nodes[node];
        apply(&mut known.log, &entry);
        known.disk.push(entry);
    }

    fn send_durable(&mut self, node: usize, to: usize, message: Sworn) {
        let early = matches!(
            (self.mistake, &message),
            (Some(Mistake::AckBeforeFlush), Sworn::Acknowledged { .. })
                | (Some(Mistake::PromiseBeforeFlush), Sworn::Promised { .. })
        );
        if early && to != node {
            return self.post(node, to, Message::Sworn(message));
        }
        let needs = self.nodes[node].disk.len();
        self.nodes[node].waiting.push_back((needs, to, message));
        if self.nodes[node].durable >= needs {
            self.release(node);
        }
    }

    /// Checks what a node shows.
    fn observe(&mut self, node: usize) {
        let known = &mut self.nodes[node];
        let Some(replica) = &known.replica else { return };
        let end = known.log.last().map(BatchFacts::next_offset);
        assert!(
            end.is_none_or(|end| end == replica.next_offset()),
            "the log and the disk of node {node} end alike"
        );
        assert!(
            replica.log_start() <= replica.tail() && replica.tail() <= replica.next_offset(),
            "the ends of node {node} are in order"
        );
        if let Some(leader) = replica.leader() {
            let epoch = leader.epoch();
            assert!(replica.promised() == epoch, "a leader has promised its epoch");
            if known.was_leading != Some(epoch) {
                known.was_leading = Some(epoch);
                let opened = Opened {
                    log_start: replica.log_start(),
                    log: known.log.clone(),
                };
                self.checker.opened(node, known.incarnation, epoch, opened);
                if let Some(story) = &mut self.story {
                    story.push(format!(
                        "  {node} opens epoch {epoch} at {}",
                        replica.next_offset()
                    ));
                }
            }
        }
        if replica.role() != RoleName::Opening {
            let epoch = replica
                .leader()
                .map_or(replica.accepted(), |leader| leader.epoch());
            let tail = replica.leader().map_or(replica.tail(), |leader| leader.tail());
            if tail > known.shown {
                self.checker.shown(node, epoch, &known.log, known.shown, tail);
                known.shown = tail;
            }
        }
    }
}

pub(super) fn node_id(index: usize) -> NodeId {
    NodeId(i32::try_from(index).expect("a handful of nodes"))
}

pub(super) fn index(node: NodeId) -> usize {
    usize::try_from(node.0).expect("a handful of nodes")
}

fn apply(log: &mut Vec<BatchFacts>, entry: &Persist) {
    match entry {
        Persist::Append { batch } => log.push(*batch),
        Persist::Accept { first, .. } | Persist::Cut { first } => {
            log.retain(|batch| batch.first_offset < *first);
        }
        Persist::Base(_) => log.clear(),
        Persist::Trim { log_start } => log.retain(|batch| batch.next_offset() > *log_start),
        Persist::Promise { .. } => {}
    }
}

/// A message as a scenario shows it.
pub(super) fn narrate(message: &Message) -> String {
    match message {
        Message::Prompt(Prompt::Append {
            epoch,
            writer_before,
            batches,
        }) => {
            let written: Vec<_> = batches
                .iter()
                .map(|of| format!("{}:{}..{}", of.epoch, of.first_offset, of.next_offset()))
                .collect();
            format!(
                "append in epoch {epoch} behind {writer_before}: {}",
                written.join(" ")
            )
        }
        Message::Prompt(Prompt::Seal { epoch }) => format!("seal for epoch {epoch}"),
        Message::Prompt(Prompt::Accept { epoch, first, .. }) => format!("accept epoch {epoch} at {first}"),
        Message::Prompt(Prompt::Commit { epoch, tail }) => format!("committed in epoch {epoch}: {tail}"),
        Message::Prompt(Prompt::Locate { epoch, at }) => format!("locate {at} for epoch {epoch}"),
        Message::Prompt(Prompt::Copy { epoch, first }) => format!("copy from {first} for epoch {epoch}"),
        Message::Prompt(Prompt::Compare { epoch, landmark }) => {
            format!("compare in epoch {epoch} with {}", landmark_of(landmark))
        }
        Message::Prompt(Prompt::Differs { epoch, at }) => format!("differs in epoch {epoch}, asks for {at}"),
        Message::Prompt(Prompt::Trim { epoch, log_start }) => format!("trim in epoch {epoch} to {log_start}"),
        Message::Prompt(Prompt::Refused { epoch, refusal }) => {
            format!("refused in epoch {epoch}: {refusal:?}")
        }
        Message::Sworn(Sworn::Promised { epoch, standing, .. }) => format!(
            "promised epoch {epoch}: accepted {}, wrote {}, tail {}, next {}{}",
            standing.accepted,
            standing.last_writer,
            standing.tail,
            standing.next_offset,
            if standing.is_certain { "" } else { ", in doubt" }
        ),
        Message::Sworn(Sworn::Located { epoch, landmark }) => {
            format!("located for epoch {epoch}: {}", landmark_of(landmark))
        }
        Message::Sworn(Sworn::Acknowledged {
            epoch,
            accepted,
            next_offset,
        }) => format!("acknowledged in epoch {epoch}: {next_offset}, accepted {accepted}"),
    }
}

fn landmark_of(landmark: &Landmark) -> String {
    match landmark {
        Landmark::Run(run) => {
            format!("{}:{}..{}", run.writer, run.first_offset, run.next_offset)
        }
        Landmark::End(end) => format!("an end at {end}"),
        Landmark::Base(base) => format!("a log from {}", base.first),
    }
}
